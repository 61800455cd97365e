"""Loads a fleet's scrapes directly into a store, without a server, for speed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gpucost.collect.prometheus.collector import thresholds
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR
from gpucost.store.connection import Store
from gpucost.store.metrics import SampleWindow, load_window
from tests.replay.cases.words import BOOK, HEADER
from tests.replay.fleet import Fleet
from tests.replay.kube import PROVIDERS
from tests.replay.scrape import answers
from tests.replay.series import Series


def write_book(folder: Path, rows: Iterable[str] = BOOK) -> Path:
    """Write a price book of these rows into `folder`."""
    path = folder / "prices.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def write_config(
    fleet: Fleet,
    folder: Path,
    prices: Path,
    url: str = "http://127.0.0.1:9",
    settings: str = "",
    **prometheus: object,
) -> Config:
    """Write a configuration for the fleet into `folder`, next to the store, and load it; `settings` is appended."""
    source = "".join(f"{key} = {json.dumps(value)}\n" for key, value in prometheus.items())
    teams = "".join(
        f"[[teams]]\nname = {json.dumps(team['name'])}\nnamespaces = {json.dumps(team['namespaces'])}\n"
        for team in fleet.get("teams", [])
    )
    if "profile" in fleet:
        settings = f"{settings}\n[activity]\nprofile = true\n"
    if "epochs" in fleet:
        units = (
            "name = 'train'",
            "unit = 'epoch'",
            "metric = 'train_epochs'",
            "kind = 'gauge'",
            "marks = 'end'",
        )
        settings = "\n".join((settings, "[[units]]", *units, ""))
    path = folder / "gpucost.toml"
    path.write_text(f"""store = "gpucost.duckdb"
timezone = {json.dumps(fleet.get("timezone", "UTC"))}
[[prometheus]]
url = {json.dumps(url)}
{source}[prices]
book = {json.dumps(str(prices))}
cost_basis = {json.dumps(fleet.get("cost_basis", "node"))}
{teams}{settings}
""")
    return load_config(path, environ={}, cwd=folder)


def put_prices(fleet: Fleet, store: Store) -> None:
    """Add the fleet's list and unit prices to the store, newer than the shipped ones."""
    priced = fleet["nodes"] if "list_prices" in fleet else []
    places = {(PROVIDERS[n["provider"]], n["region"], n["instance_type"]) for n in priced}
    with store.write() as con:
        for provider, region, kind in places:
            con.execute(
                """INSERT INTO list_prices
                VALUES ($1, $2, '', $3, 'on_demand', 0, '', '', $4, 'USD', DATE '2000-01-01', DATE '2999-01-01', 'test')""",
                [provider, region, kind, fleet["list_prices"][kind]],
            )
        for place, prices in fleet.get("unit_prices", {}).items():
            provider, region, family = place.split("/")
            for component, price in zip(("vcpu", "memory_gib"), prices, strict=True):
                con.execute(
                    "INSERT INTO component_prices VALUES ($1, $2, $3, 'on_demand', 0, $4, 'USD', DATE '2999-01-01', 'test')",
                    [provider, region, f"{family}/{component}", price],
                )


def load(
    fleet: Fleet,
    series: list[Series],
    config: Config,
    hours_per_window: int = 24,
    after: Callable[[Store], None] | None = None,
) -> Store:
    """Load the fleet's series in windows, calling `after` between them; return the store."""
    store = Store(config.store)
    put_prices(fleet, store)
    for window in windows(fleet, series, config, hours_per_window):
        with store.write() as con:
            load_window(con, window)
        if after is not None:
            after(store)
    return store


def windows(
    fleet: Fleet,
    series: list[Series],
    config: Config,
    hours: int = 24,
    source: str = "replay",
    run_id: int = 1,
) -> Iterator[SampleWindow]:
    """Yield a server's answers, some hours at a time."""
    activity = thresholds(config.activity.model_copy(update={"memory": False}), config.idle)
    cluster = fleet["nodes"][0]["cluster"]
    first, last = fleet["start"] * 1000, fleet["end"] * 1000
    for start in range(first - first % MS_PER_HOUR, last, hours * MS_PER_HOUR):
        end = min(start + hours * MS_PER_HOUR, last)
        yield SampleWindow(
            source, run_id, start, end, "cluster", cluster, activity, list(answers(series, start, end))
        )
