"""All fleets of a kind in one store, each a cluster, attributed together, and their comparison with the cases' tables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.model import Config
from gpucost.store.connection import Store
from tests.fleets.case import Case
from tests.profiles import profiled_stages
from tests.replay.bill_files import ACCOUNT, PAYER
from tests.replay.cases.words import MORNING
from tests.replay.edits import move, relabel
from tests.replay.load import load, write_book, write_config
from tests.replay.result import unpaid
from tests.text_tables import words

KEYS = words("""
    node=n.node gpu_model=n.gpu_model gpu_count=n.gpu_count capacity_type=n.capacity_type instance_type=n.instance_type
    region=n.region zone=n.zone pod=a.pod uid=a.uid namespace=a.namespace workload=a.workload kind=c.kind team=c.team""")
_NODE_KEYS = {name: column for name, column in KEYS.items() if column.startswith("n.")}
#: Columns, each a sum over hourly rows: hours, then money.
COST = words("""
    held=allocated_gpu_ms unallocated=unallocated_gpu_ms active=active_gpu_ms idle=idle_gpu_ms unmeasured=unmeasured_gpu_ms
    unavailable=unavailable_gpu_ms not_collected=not_collected_gpu_ms cost=cost idle_cost=idle_cost
    unallocated_cost=unallocated_cost not_collected_cost=not_collected_cost""")
NODE = words("capacity=capacity_gpu_ms over=over_allocated_gpu_ms node_cost=node_cost")
COLUMNS = COST | NODE
_FROM = "SELECT n.cluster, c.from_ms, {} FROM {} AS c JOIN nodes AS n USING (node_id)"
#: Warnings that such small fleets have for other reasons; compared only if a case names them.
ORDINARY = {"no_gpu_requests", "no_activity", "no_capacity_label", "unpriced_node"}
Row = dict[str, Any]


class Figures:
    """The figures of a store's fleets."""

    def __init__(self, config: Config, store: Store, stages: dict[str, list[str]]) -> None:
        self.config, self.store, self.stages = config, store, stages
        with store.read() as con:
            self._rows: dict[str, list[Row]] = defaultdict(list)
            for table, columns in (("cost_hourly", KEYS | COST), ("node_hourly", _NODE_KEYS | NODE)):
                listed = ", ".join(f"{column} AS {name}" for name, column in columns.items())
                pods = " LEFT JOIN allocations AS a USING (allocation_id)" if table == "cost_hourly" else ""
                found = con.execute(_FROM.format(listed, table) + pods)
                names = [column[0] for column in found.description]
                for values in found.fetchall():
                    self._rows[values[0]].append(dict(zip(names, values, strict=True)))
            self._gaps = con.execute("FROM coverage_gaps ORDER BY from_ms, to_ms, kind").fetchall()
            self._warnings = con.execute(
                "SELECT cluster, code, message, fix FROM warnings ORDER BY ALL"
            ).fetchall()

    def differences(self, case: Case) -> list[str]:
        """Return a line for each difference between store and case: row, column, expected and actual value."""
        wrong = []
        for table in case.table.split("\n\n"):
            if table.strip():
                wrong += self._different(case, table)
        gaps = self.gaps(case)
        if len(gaps) != len(case.gaps) or not all(
            found.startswith(gap) for found, gap in zip(gaps, case.gaps, strict=True)
        ):
            wrong.append(f"gaps: expected {list(case.gaps)}, got {gaps}")
        return wrong + self._warned(case)

    def _different(self, case: Case, table: str) -> list[str]:
        (keys, columns), *lines = (
            [part.split() for part in line.split("|")] for line in table.strip().splitlines()
        )
        units = {column: 3_600_000 if COLUMNS[column].endswith("_ms") else 1 for column in columns}
        expected = {
            (*row, column): text
            for row, figures in lines
            for column, text in zip(columns, figures, strict=True)
        }
        found = defaultdict(Fraction)
        start, end = (1000 * (MORNING + 3600 * hour) for hour in case.hours)
        for row in self._rows[case.cluster]:
            if start <= row["from_ms"] < end:
                row["hour"] = (row["from_ms"] // 1000 - MORNING) // 3600
                name = tuple(_text(row.get(key)) for key in keys)
                for column in columns:
                    found[*name, column] += Fraction(row.get(column, 0)) / units[column]
        wrong = []
        for key in sorted({*expected, *found}):
            text, got, column = expected.get(key, "0"), found[key], key[-1]
            slack = Fraction("1e-6") if units[column] > 1 or "/" in text else 0
            if abs(got - Fraction(text)) > slack:
                wrong.append(f"{' '.join(key)}: expected {text}, got {float(got):.9f}")
        return wrong

    def gaps(self, case: Case) -> list[str]:
        """Return coverage gaps in the format of cases."""
        found = []
        first, last = case.fleet["start"], case.fleet["end"]
        for cluster, start, end, kind, families, reason, by, why in self._gaps:
            is_inside = start < 1000 * (last - 60) and 1000 * (first + 60) < end
            if cluster == case.cluster and is_inside:
                signed = f"; {by}: {why}" if by else ""
                found.append(f"{kind} {_hour(start)} {_hour(end)} {' '.join(families)}: {reason}{signed}")
        return found

    def _warned(self, case: Case) -> list[str]:
        found = defaultdict(list)
        for cluster, code, message, fix in self._warnings:
            if cluster == case.cluster:
                found[code].append(f"{message}; fix: {fix}".replace(case.cluster, "CLUSTER"))
        wrong = []
        for code in {*found, *case.warnings} - (ORDINARY - {*case.warnings}):
            words = case.warnings.get(code, ())
            words = (words,) if isinstance(words, str) else words
            texts = found[code]
            pairs = zip(words, texts, strict=False)
            if len(texts) != len(words) or not all(
                part in text for word, text in pairs for part in word.split(" … ")
            ):
                wrong.append(f"warning {code}: expected {list(words)}, got {texts}")
        return wrong


def _text(value: Any) -> str:
    if isinstance(value, float | Decimal):
        return f"{float(value):g}"
    return "-" if value is None else str(value).replace(" ", "_")


def _hour(ms: int) -> str:
    return f"{round((ms / 1000 - MORNING) / 3600, 2):g}" if 0 < ms < 9e18 else "ever"


def build(
    folder: Path, cases: Sequence[Case], book: Iterable[str], settings: str, *, profiled: bool
) -> Figures:
    """Load, price and attribute all cases with the cost basis of the first. Stages are summed if `profiled`."""
    nodes, series, bills = [], [], []
    for account, case in enumerate(cases, start=100_000_000_000):
        nodes += [{**node, "cluster": case.cluster} for node in case.fleet["nodes"]]
        moved = move(case.scraped(case.fleet), case.cluster, provider_ids=not case.bill)
        if case.strays:
            moved = relabel(moved, ".*", {"cluster": f"{case.cluster}-stray"}, "", case.strays)
        series += moved
        settings += case.settings.replace("CLUSTER", case.cluster)
        if case.bill:
            bill = case.bill.replace("SECOND-ACCOUNT", str(account + 10**11))
            bills.append(re.sub(f"{ACCOUNT}|{PAYER}", str(account), bill))
    ends = max(case.fleet["end"] for case in cases)
    everything = {**cases[0].fleet, "nodes": nodes, "end": ends}
    config = write_config(everything, folder, write_book(folder, book), settings=settings)
    store = load(everything, series, config)
    if bills:
        (folder / "cur.csv").write_text(bills[0] + "".join(bill.partition("\n")[2] for bill in bills[1:]))
        assert len({bill.partition("\n")[0] for bill in bills}) == 1
        errors = collect_bills(store, [LocalTree(folder / "cur.csv")], "aws").errors
        assert not errors, errors
    with profiled_stages() if profiled else nullcontext({}) as stages:
        pipeline.attribute(config, store)
    assert not unpaid(store)
    return Figures(config, store, stages)
