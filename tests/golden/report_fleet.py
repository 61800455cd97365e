"""A store filled by hand with attributed rows: three teams, four kinds of nodes, two months of 2026."""

from __future__ import annotations

import shutil
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from gpucost import attribute
from gpucost.engine import run_stage
from gpucost.store.connection import Store
from tests.cell_tables import cell_tables
from tests.text_tables import text_rows

HOUR = 3_600_000
UTC_ZONE = ZoneInfo("UTC")
OCTOBER = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp() * 1000)
OCTOBER_END = int(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1000)
NOW = datetime(2026, 11, 3, 12, tzinfo=UTC)

FAMILIES = ["nodes", "pods", "requests", "phases"]
SILENT = "kube-state-metrics was silent"
EVER = (0, 2**63 - 1)


ZERO = Decimal(0)


def _nano(money: Decimal) -> Decimal:
    return money.quantize(Decimal("0.000000001"))


def _exact(number: float) -> Decimal:
    return Decimal(str(number))


@dataclass
class Fleet:
    """Rows to insert by table, added by `node`, `pod` and `cell`."""

    rows: dict[str, list[tuple[Any, ...]]] = field(default_factory=lambda: defaultdict(list))
    prices: dict[int, tuple[Decimal, float, str, date | None]] = field(default_factory=dict)

    def node(
        self,
        node_id: int,
        name: str,
        model: str | None,
        gpus: float,
        capacity_type: str,
        price: str,
        *,
        cluster: str = "prod",
        source: str = "price_book",
        as_of: date | None = None,
        up: tuple[int, int] = (OCTOBER, OCTOBER_END),
    ) -> None:
        self.prices[node_id] = (Decimal(price), gpus, source, as_of)
        self.rows["nodes"].append(
            (
                node_id, cluster, name, f"i-{node_id}", up[0], *up, "aws", "us-east-1", "us-east-1a", "p4d", capacity_type,
                model, gpus, {}, None,
            )
        )  # fmt: skip

    def pod(
        self,
        allocation_id: int,
        node_id: int,
        namespace: str,
        pod: str,
        workload: str,
        *,
        uid: str = "",
        cluster: str = "prod",
    ) -> None:
        kind = workload.split("/")[0]
        identity = (allocation_id, cluster, namespace, pod, uid or f"uid-{allocation_id}", node_id)
        held = ("nvidia_com_gpu", 1.0, 1.0, OCTOBER, OCTOBER_END, kind, workload)
        self.rows["allocations"].append((*identity, *held, *[None] * 4))

    def cell(
        self,
        at: int,
        node_id: int,
        held: list[tuple[int, str, float, float, float]],
        *,
        until: int | None = None,
    ) -> None:
        """Add one cell of a node; held: (allocation, team, GPUs, measured share of time, active share of measured time)."""
        end = until or at + HOUR
        span = end - at
        price, gpus, source, as_of = self.prices[node_id]
        node_cost = _nano(price * span / HOUR)
        left, used = node_cost, 0.0
        for allocation_id, team, count, measured, active in held:
            time = count * span
            cost, idle = _nano(node_cost * _exact(count) / _exact(gpus)), measured * (1 - active)
            busy = time * measured * active
            times = (time, busy, time * idle, time * (1 - measured), busy * 0.9, 0.0, 0.0)
            costs = (cost, _nano(cost * _exact(idle)), ZERO, cost, 0.0, ZERO)
            self.rows["cost_hourly"].append(
                ("allocated", at, end, node_id, allocation_id, team, *times, *costs)
            )
            left -= cost
            used += count
        if used < gpus:
            free = (gpus - used) * span
            times = (*(0.0,) * 5, free, free if used == 0 and node_id == 4 else 0.0)
            costs = (ZERO, ZERO, left, left, 0.0, ZERO)
            self.rows["cost_hourly"].append(("unallocated", at, end, node_id, None, None, *times, *costs))
        self.rows["node_hourly"].append((at, end, node_id, gpus * span, 0.0, node_cost, source, as_of))

    def unseen(self, at: int, node_id: int, *, until: int | None = None) -> None:
        """Add one cell of a billed node that was not collected."""
        end = until or at + HOUR
        price, gpus, _, as_of = self.prices[node_id]
        cost = _nano(price * (end - at) / HOUR)
        nothing = (0.0,) * 7 + (ZERO,) * 4
        self.rows["cost_hourly"].append(
            ("not_collected", at, end, node_id, None, None, *nothing, gpus * (end - at), cost)
        )
        self.rows["node_hourly"].append((at, end, node_id, 0.0, 0.0, cost, "bill", as_of))

    def gap(
        self,
        start: int,
        end: int,
        kind: str = "not_collected",
        *,
        cluster: str = "prod",
        by: str | None = None,
    ) -> None:
        """Add time that was not or only partly collected, possibly signed `by` a person."""
        families = [] if kind in ("off", "partial") else FAMILIES
        reason = "declared" if kind == "off" else SILENT
        gap = (cluster, start, end, kind, families, reason, by, by and "it was moved")
        self.rows["coverage_gaps"].append(gap)

    def _rest(self) -> list[tuple[Any, ...]]:
        """Return all time of each cluster outside of `collected` and gaps."""
        found = []
        covers = [row[:3] for row in self.rows["collected"]]
        covers += [row[:3] for row in self.rows["coverage_gaps"] if row[3] in ("not_collected", "off")]
        for cluster in {row[0] for row in covers}:
            at = EVER[0]
            for start, end in [*sorted(row[1:] for row in covers if row[0] == cluster), (EVER[1], EVER[1])]:
                if start > at:
                    edges = {start: SILENT, EVER[1]: "after its last sample"}
                    reason = "before its first sample" if at == EVER[0] else edges[start]
                    found.append((cluster, at, start, "not_collected", FAMILIES, reason, None, None))
                at = max(at, end)
        return found

    def write(self, path: Path, tz: ZoneInfo = UTC_ZONE) -> None:
        """Write the rows to a store at `path`, summed by the days of `tz` like attribution."""
        self.rows["coverage_gaps"] += self._rest()
        with Store(path).write() as con:
            with cell_tables(con):
                for table, rows in self.rows.items():
                    if len(rows) > 200:  # hourly rows, without maps and lists
                        columns = zip(*rows, strict=True)
                        con.register(
                            "incoming", pa.table({f"c{at}": pa.array(v) for at, v in enumerate(columns)})
                        )
                        con.execute(f"INSERT INTO {table} FROM incoming")
                        con.unregister("incoming")
                    elif rows:
                        marks = ", ".join(f"({', '.join('?' * len(row))})" for row in rows)
                        insert = f"INSERT INTO {table} VALUES {marks}"  # noqa: S608 - names of our own
                        con.execute(insert, [value for row in rows for value in row])
            span = con.execute("SELECT min(from_ms), max(to_ms) FROM node_hourly").fetchall()[0]
            con.execute("SET VARIABLE span_from_ms = $at", {"at": span[0]})
            con.execute("SET VARIABLE span_to_ms = $at", {"at": span[1]})
            attribute.load_local_days(con, tz, *span)
            for stage in ("80_cost_daily", "82_node_daily"):
                run_stage(con, "gpucost.attribute", stage)


#: Number, name, model, GPUs, capacity type, price per hour, price source and date.
_NODES = """
1 | a100-1    | A100 | 8 | on_demand | 24.48 | price_book | 2026-09-01
2 | a100-spot | A100 | 8 | spot      | 9.36  | price_book | 2026-09-01
3 | t4-spot   | T4   | 4 | spot      | 1.4   | catalog    | 2026-08-01
4 | l4-new    | L4   | 1 | unknown   | 0.805 | catalog    | 2026-08-01
"""
#: Node, namespace, pod, workload.
_PODS = """
1 | ml-research | jupyter-alice-0  | StatefulSet/jupyter-alice
2 | ml-research | llama-ft-x7k2p   | Job/llama-finetune
3 | nlp-eval    | eval-29381-abcde | CronJob/nightly-evaluation-of-every-checkpoint
1 | ml-product  | serve-5d9f-1     | Deployment/serve
4 | vision      | ocr-1            | Pod/ocr-1
"""


def sample(*, hours: int = 744) -> Fleet:
    """Return October 2026: research and product held GPUs all month, vision briefly; most on an A100 box, some on spot."""
    fleet = Fleet()
    for node_id, name, model, gpus, bought, price, source, day in text_rows(_NODES):
        as_of = date.fromisoformat(day)
        fleet.node(int(node_id), name, model, int(gpus), bought, price, source=source, as_of=as_of)
    for number, (node_id, *names) in enumerate(text_rows(_PODS), start=1):
        fleet.pod(number, int(node_id), *names)
    for index in range(hours):
        at = OCTOBER + index * HOUR
        fleet.cell(at, 1, [(1, "research", 1, 1.0, 0.1), (4, "product", 4, 1.0, 0.75)] if index < 700 else [])
        fleet.cell(at, 2, [(2, "research", 6, 0.95, 0.96)] if index % 24 >= 6 else [])
        fleet.cell(at, 3, [(3, "research", 2, 1.0, 0.875)] if index % 24 < 12 else [])
        fleet.cell(at, 4, [(5, "vision", 1, 0.0, 0.0)] if index < 48 else [])
    fleet.rows["collected"].append(("prod", OCTOBER, OCTOBER + hours * HOUR))
    fleet.rows["loads"].append(
        (1, 1, "prometheus", "main", OCTOBER, OCTOBER + hours * HOUR, 1000, 0, NOW.replace(tzinfo=None))
    )
    message = "1 node of cluster prod has no known capacity type: node labels are not exported"
    fix = "kube-state-metrics --metric-labels-allowlist=nodes=[*]"
    warning = ("unknown_capacity_type", "prod", "l4-new", OCTOBER, OCTOBER_END, message, fix)
    fleet.rows["warnings"].append(warning)
    return fleet


#: Sample stores written by this process, by number of hours.
_WRITTEN: dict[int, Path] = {}


def write_sample(path: Path, hours: int = 744) -> Path:
    """Write the sample's store to `path`: once per process, then by copying."""
    if hours in _WRITTEN:
        return Path(shutil.copyfile(_WRITTEN[hours], path))
    sample(hours=hours).write(path)
    _WRITTEN[hours] = Path(shutil.copyfile(path, path.with_name(f"written-{hours}")))
    return path


def stored(hours: int, team: str | None = None, **rows: list[tuple[Any, ...]]) -> Any:
    """Return a module fixture: the path of the sample's store, with `rows` instead of the rows of some tables.

    `team` renames the team of the first cost row.
    """

    @pytest.fixture(scope="module")
    def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
        path = tmp_path_factory.mktemp("sample") / "store.duckdb"
        if team is None and not rows:
            return write_sample(path, hours)
        fleet = sample(hours=hours)
        fleet.rows |= rows
        if team is not None:
            kind, *others = fleet.rows["cost_hourly"][0]
            fleet.rows["cost_hourly"][0] = (kind, *others[:4], team, *others[5:])
        fleet.write(path)
        return path

    return store


def alone(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Ignore everything outside the folder, and take stores as filled: attribution has its own tests."""
    patch.chdir(folder)
    patch.setenv("XDG_CONFIG_HOME", str(folder))
    patch.setenv("HOME", str(folder))
    patch.setattr("gpucost.pipeline.attribute", lambda *_: None)
    patch.setattr("gpucost.pipeline.attribution.is_current", lambda *_: True)
