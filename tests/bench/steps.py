"""Steps of benches in their own processes: `python -m tests.bench.steps STEP …`. Each prints its result as JSON."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from gpucost import attribute as attribution, engine, inventory, pipeline, price
from gpucost.config.model import Config, Prices
from gpucost.lake import attribution as lakes, export as lake_exports
from gpucost.lake.files import open_files
from gpucost.store import upkeep
from gpucost.store.connection import Store
from gpucost.store.metrics import load_window
from tests.bench.blocks import write_data
from tests.bench.fleets import (
    DAY_S,
    GPUS_PER_NODE,
    HOUR_S,
    KINDS,
    PRICE,
    START_S,
    Fleet,
    block_kinds,
    window,
    windows,
)
from tests.text_tables import columns
from tests.unit.command import call


def fill(path: str, gpus: str, days: str) -> None:
    """Load the samples of a fleet, and write its price book next to the store."""
    store = _priced(path)
    for day in windows(Fleet(gpus=int(gpus), days=int(days)), 0, int(days)):
        with store.write() as con:
            load_window(con, day)


def _priced(path: str) -> Store:
    rows = [f"p4d.24xlarge,{kind},{price},USD" for kind, price in PRICE.items()]
    Path(path).with_name("prices.csv").write_text(
        "\n".join(["instance_type,purchase_option,price_per_hour,currency", *rows, ""])
    )
    Path(path).with_name("gpucost.toml").write_text(
        f'store = "{Path(path).name}"\n[prices]\nbook = "prices.csv"\n'
    )
    return Store(Path(path))


def large(path: str, gpus: str, days: str, first: str = "0", until: str = "") -> None:
    """Fill a store by SQL as if the days from `first` until `until` had been loaded; write its price book next to it.

    The fleet runs for `days`. Blocks are loaded once for every kind of hour, and copied to all hours of that kind.
    """
    fleet = Fleet(gpus=int(gpus), days=int(days))
    values = {
        "gpus": fleet.gpus,
        "kinds": KINDS,
        "start_s": START_S,
        "end_s": fleet.end,
        "first_s": START_S + int(first) * DAY_S,
        "until_s": START_S + int(until or days) * DAY_S,
    }
    kinds, blocks = _blocks_by_kind()
    with _priced(path).write() as con:
        for name, frame in (
            ("pods", fleet.pods),
            ("free", fleet.free),
            ("kinds", kinds),
            ("kind_blocks", blocks),
        ):
            con.register(name, frame)
        for statement in con.extract_statements((Path(__file__).parent / "large_fleet.sql").read_text()):
            con.execute(statement, {name: values[name] for name in statement.named_parameters})


def _blocks_by_kind() -> tuple[pd.DataFrame, pa.Table]:
    """The kinds of hours, and the block of each as the product stores it."""
    series, kinds = block_kinds()
    with TemporaryDirectory() as folder, Store(Path(folder) / "kinds.duckdb").write() as con:
        load_window(con, window(series, START_S - DAY_S, START_S - DAY_S + HOUR_S))
        blocks = con.sql(
            "SELECT s.labels['kind']::INTEGER AS kind, b.* EXCLUDE (series_id, hour) "
            "FROM blocks AS b JOIN series AS s USING (series_id)"
        )
        return kinds, blocks.to_arrow_table()


def compact(path: str) -> dict[str, float]:
    """Compact a store; return bytes per sample before and after."""
    store = Store(Path(path))
    samples = store.info().samples
    before = store.info().size / samples
    upkeep.rewrite(store)
    return {"before": before, "after": store.info().size / samples}


def billed(path: str, nodes: str, days: str) -> None:
    """Load a fleet of empty nodes, and a Cost and Usage Report that bills each by the hour."""
    fleet = Fleet(gpus=int(nodes) * GPUS_PER_NODE, days=int(days))
    store = Store(Path(path))
    for day in windows(fleet, 0, fleet.days, with_pods=False):
        with store.write() as con:
            load_window(con, day)
    report = Path(path).with_suffix(".csv")
    hour = f"make_timestamp({START_S * 1_000_000}::BIGINT) + to_hours((i // {nodes})::INTEGER)"
    listed_columns = columns(f"""
        identity/LineItemId           md5(i::VARCHAR)
        bill/PayerAccountId           '111122223333'
        bill/BillType                 'Anniversary'
        bill/BillingPeriodStartDate   '2026-10-01T00:00:00Z'
        bill/BillingPeriodEndDate     '2026-11-01T00:00:00Z'
        lineItem/UsageAccountId       '444455556666'
        lineItem/LineItemType         'Usage'
        lineItem/ProductCode          'AmazonEC2'
        lineItem/UsageStartDate       strftime({hour}, '%Y-%m-%dT%H:%M:%SZ')
        lineItem/UsageEndDate         strftime({hour} + INTERVAL 1 HOUR, '%Y-%m-%dT%H:%M:%SZ')
        lineItem/UsageType            'BoxUsage:p4d.24xlarge'
        lineItem/Operation            'RunInstances'
        lineItem/ResourceId           printf('i-%017x', i % {nodes})
        lineItem/UsageAmount          1
        lineItem/CurrencyCode         'USD'
        lineItem/UnblendedCost        CASE WHEN i % {nodes} % 3 > 0 THEN '12.0' ELSE '32.0' END
        product/instanceType          'p4d.24xlarge'
        product/region                'us-east-1'
        pricing/term                  'OnDemand'
        pricing/unit                  'Hrs'
    """)
    listed = ", ".join(f'{sql} AS "{name}"' for name, sql in listed_columns.items())
    duckdb.sql(
        f"COPY (SELECT {listed} FROM range({int(nodes) * int(days) * 24}) t(i)) TO '{report}' (HEADER)"  # noqa: S608
    )
    call("collect", "aws", str(report), "--store", path)


def hourly_bill(path: str) -> dict[str, float]:
    """Measure a plain group by of the bill's rows: cost by machine and hour."""
    with Store(Path(path)).read() as con:
        began = time.process_time()
        con.execute(
            "CREATE TEMP TABLE hourly AS SELECT resource_id, charge_period_start, sum(effective_cost) AS cost, "
            "sum(instance_hours) AS hours FROM bill_rows GROUP BY ALL"
        )
        ((rows,),) = con.execute("SELECT count(*) FROM hourly").fetchall()
        return {"cpu": time.process_time() - began, "rows": rows}


def _config(path: str) -> Config:
    """Return the configuration of a store, with the price book next to it, if any."""
    book = Path(path).with_name("prices.csv")
    return Config(prices=Prices(book=book if book.exists() else None))


def lake_export(path: str, lake: str) -> int:
    """Export the store into a lake; return the number of files."""
    config = _config(path)
    return len(lake_exports.export(config, Store(Path(path)), open_files(lake, config)).files)


def lake_attribute(path: str, lake: str) -> int:
    """Attribute the whole lake; return the number of rows."""
    for figures in ("attributed", "_gpucost/attributed"):
        shutil.rmtree(Path(lake) / figures, ignore_errors=True)
    return lakes.attribute(_config(path), lake).rows


def attribute(path: str) -> dict[str, Any]:
    """Attribute a store; return CPU seconds in total, by part, and of the slowest statements."""
    parts = {}

    def timed(name: str, stage: Callable[..., None]) -> Callable[..., None]:
        def run(*args: Any, **named: Any) -> None:
            began = time.process_time()
            stage(*args, **named)
            parts[name] = time.process_time() - began

        return run

    for module in (inventory, price, attribution):
        module.stage = timed(module.__name__.removeprefix("gpucost."), module.stage)
    began = time.process_time()
    with engine.profiled() as costs:
        pipeline.attribute(_config(path), Store(Path(path)))
    slowest = sorted(costs.items(), key=lambda item: -item[1].cpu_seconds)[:5]
    seconds = {name: cost.cpu_seconds for name, cost in slowest}
    return {"all": time.process_time() - began, **parts, "slowest": seconds}


def tiny(path: str) -> list[float]:
    """Attribute copies of a tiny store in this process; return the CPU seconds of each."""
    taken = []
    for number in range(5):
        copy = Path(path).with_name(f"tiny-{number}.duckdb")
        shutil.copyfile(path, copy)
        began = time.process_time()
        pipeline.attribute(_config(path), Store(copy))
        taken.append(time.process_time() - began)
    return taken


def opening(path: str) -> dict[str, float]:
    """Open a store many times to read; return the CPU seconds of an opening by gpucost, and of DuckDB's alone."""

    def each(open_store: Callable[[], Any]) -> float:
        began = time.process_time()
        for _ in range(50):
            open_store()
        return (time.process_time() - began) / 50

    def by_store() -> None:
        with Store(Path(path)).read() as con:
            con.execute("SELECT 1").fetchall()

    def by_duckdb() -> None:
        with duckdb.connect(path, read_only=True) as con:
            con.execute("SELECT 1").fetchall()

    by_store()
    return {"store": min(each(by_store) for _ in "abc"), "duckdb": min(each(by_duckdb) for _ in "abc")}


def bare(path: str) -> dict[str, float]:
    """Run a bare group by of the store's blocks; return its CPU seconds and idle cost by namespace."""
    with Store(Path(path)).read() as con:
        began = time.process_time()
        con.execute(
            "CREATE TEMP TABLE bare AS SELECT series_id, hour, sum(samples), sum(value_sum) FROM blocks GROUP BY ALL"
        )
        cpu = time.process_time() - began
        idle = con.execute(
            "SELECT namespace, sum(idle_cost)::DOUBLE FROM cost_daily JOIN allocations USING (allocation_id) GROUP BY ALL"
        )
        return {"cpu": cpu, **dict(idle.fetchall())}


def merge_asof(gpus: str, days: str) -> dict[Any, float]:
    """Return idle cost by namespace as calculated with data frames: merge_asof of samples with pods, then a groupby."""
    fleet = Fleet(gpus=int(gpus), days=int(days))
    pods = fleet.pods.copy()
    pods[["start", "stop"]] *= 1000
    pods["namespace"] = "team-" + (pods["gpu"] % 40).astype(str)
    pods["price"] = np.where(pods["gpu"] // 8 % 3, PRICE["spot"], PRICE["on_demand"]) / 8
    series = list(fleet.activity())
    gpu = [int(one.labels["UUID"].removeprefix("GPU-")) for one in series]
    samples = pd.DataFrame(
        {
            "gpu": np.repeat(gpu, [len(one.times) for one in series]),
            "at": np.concatenate([one.times for one in series]),
            "value": np.concatenate([one.values for one in series]),
        }
    )
    pods = pods.sort_values("start")
    began = time.process_time()
    joined = pd.merge_asof(samples.sort_values("at"), pods, left_on="at", right_on="start", by="gpu")
    joined = joined[joined["at"] < joined["stop"]]
    joined["hour"] = joined["at"] // 3_600_000
    joined["cost"] = joined["price"] * fleet.step_s / 3600
    joined["idle_cost"] = joined["cost"].where(joined["value"] < 5, 0.0)
    hourly = joined.groupby(["namespace", "gpu", "hour"])[["cost", "idle_cost"]].sum()
    idle = hourly.groupby("namespace")["idle_cost"].sum()
    return {"cpu": time.process_time() - began, **idle.to_dict()}


def prometheus_data(folder: str, gpus: str, days: str, jitter: str) -> dict[str, int]:
    """Write the data of a Prometheus that scraped a fleet every minute; return the numbers of samples and pods."""
    fleet = Fleet(gpus=int(gpus), days=int(days), jitter=bool(int(jitter)))
    samples = write_data(
        chain(fleet.states(step_s=fleet.step_s, with_zeros=True), fleet.activity()), Path(folder)
    )
    return {"samples": samples, "pods": len(fleet.pods)}


STEPS: dict[str, Callable[..., Any]] = {
    step.__name__: step
    for step in (
        fill, large, billed, attribute, compact, bare, merge_asof, hourly_bill, lake_export, lake_attribute, tiny, opening,
        prometheus_data,
    )
}  # fmt: skip

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](*sys.argv[2:])))
