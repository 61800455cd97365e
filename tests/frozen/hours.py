"""What the engine makes of every described fleet, hour by hour, in several time zones: the rows, and what a golden holds of them.

Fleets that are priced and shared out alike lie in one store, each in clusters of its own. `python -m tests.frozen.hours CASE
ZONE` prints a case's rows, to be compared between two checkouts where their digests differ.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.store.connection import Store
from gpucost.store.metrics import load_window
from tests.frozen.world import standing_still
from tests.replay.edits import move
from tests.replay.fleet import Fleet, all_cases, period_of, read_fleet
from tests.replay.load import put_prices, windows, write_config
from tests.replay.scrape import scrape
from tests.shared import SHARED

ZONES = ("UTC", "Asia/Kolkata", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu")
MONEY = ("cost", "idle_cost", "unallocated_cost", "not_collected_cost", "node_cost")
_HELD = """
    SELECT n.cluster, c.from_ms, c.to_ms, 'held' AS row_of, n.node, n.created_ms, c.kind, a.namespace, a.pod, a.uid, a.resource,
        a.workload, c.team, c.* EXCLUDE (from_ms, to_ms, kind, team, node_id, allocation_id), 0::DECIMAL(38, 9) AS node_cost
    FROM cost_hourly AS c JOIN nodes AS n ON n.node_id = c.node_id
    LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
"""
_NODES = """
    SELECT n.cluster, h.from_ms, h.to_ms, 'node' AS row_of, n.node, n.created_ms, n.instance_type, n.gpu_model, n.gpu_count,
        n.capacity_type, h.* EXCLUDE (from_ms, to_ms, node_id)
    FROM node_hourly AS h JOIN nodes AS n USING (node_id)
"""

Row = dict[str, Any]


def own_cases() -> list[Path]:
    """The project's own."""
    return all_cases()


def shared_cases() -> list[Path]:
    """Those beside the checkout; none where there are none."""
    return sorted((SHARED / "replay/cases").glob("*"))


def groups(cases: Iterable[Path]) -> list[list[Path]]:
    """The cases that can lie in one store: of one price book, cost basis and set of teams, none with a period of its own."""
    found: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for case in cases:
        fleet = read_fleet(case)
        alike = [fleet.get(key) for key in ("cost_basis", "teams", "list_prices", "unit_prices", "report")]
        found[(case / "prices.csv").read_text(), json.dumps(alike)].append(case)
    return list(found.values())


def stored(cases: list[Path], folder: Path) -> tuple[Config, Store, Period]:
    """The cases of one group in a store, not attributed yet, with its configuration and the time that they span."""
    fleets = [_apart(read_fleet(case), case.name) for case in cases]
    config = write_config(fleets[0], folder, cases[0] / "prices.csv")
    store = Store(config.store)
    put_prices(fleets[0], store)
    with store.write() as con:
        for number, fleet in enumerate(fleets, start=1):
            source = fleet["nodes"][0]["cluster"]
            # no two fleets have a machine in common
            series = [
                moved
                for one in scrape(fleet, lean=True)
                for moved in move([one], one.labels.get("cluster", source))
            ]
            for window in windows(fleet, series, config, source=source, run_id=number):
                load_window(con, window)
    spans = [period_of(fleet) for fleet in fleets]
    start, end = min(first for first, _ in spans), max(last for _, last in spans)
    return config, store, Period(datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC))


def _apart(fleet: Fleet, name: str) -> Fleet:
    """The fleet with its name before those of its clusters."""
    named: Fleet = json.loads(json.dumps(fleet))
    for one in (*named["nodes"], *named["pods"]):
        one["cluster"] = f"{name}/{one['cluster']}"
    return named


def rows(config: Config, store: Store, period: Period, zone: str) -> dict[str, list[Row]]:
    """By case the hourly rows of its nodes and of who held them, in order, with days of `zone`."""
    pipeline.attribute(config.model_copy(update={"timezone": zone}), store, period)
    found: dict[str, list[Row]] = defaultdict(list)
    with store.read() as con:
        for sql in (_HELD, _NODES):
            asked = con.execute(sql)
            columns = [column[0] for column in asked.description or []]
            for values in asked.fetchall():
                row = dict(zip(columns, map(_plain, values), strict=True))
                case, _, row["cluster"] = row["cluster"].partition("/")
                found[case].append(row)
    return {
        case: sorted(of_case, key=lambda row: [str(value) for value in row.values()])
        for case, of_case in found.items()
    }


def _plain(value: Any) -> Any:
    # times are sums of doubles in an order that nobody promises: a microsecond is kept
    return round(value, 3) + 0.0 if isinstance(value, float) else value


def lines(case: str, zone: str, of_case: list[Row]) -> list[str]:
    """What the golden holds of a case's rows: for each local day how many there are, their sums and a digest."""
    days: dict[str, list[Row]] = defaultdict(list)
    for row in of_case:
        days[f"{datetime.fromtimestamp(row['from_ms'] / 1000, ZoneInfo(zone)):%Y-%m-%d}"].append(row)
    return [_line(f"{case} {zone} {day}", days[day]) for day in sorted(days)]


def _line(name: str, of_day: list[Row]) -> str:
    money = [sum((row.get(column, Decimal(0)) for row in of_day), Decimal(0)) for column in MONEY]
    hours = sum(row.get("allocated_gpu_ms", 0) for row in of_day) / MS_PER_HOUR
    digest = hashlib.sha256("\n".join(map(text, of_day)).encode()).hexdigest()[:16]
    return " ".join([name, str(len(of_day)), f"{hours:.6f}", *(f"{amount:f}" for amount in money), digest])


def text(row: Row) -> str:
    """A row in one line."""
    return " ".join(f"{column}={value}" for column, value in row.items())


def main(name: str, zone: str) -> None:
    group = next(
        group for group in groups([*own_cases(), *shared_cases()]) if name in {case.name for case in group}
    )
    with standing_still(), tempfile.TemporaryDirectory() as folder:
        for row in rows(*stored(group, Path(folder)), zone)[name]:
            print(text(row))


if __name__ == "__main__":
    main(*sys.argv[1:])
