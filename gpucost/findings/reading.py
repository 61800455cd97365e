"""What candidates are made of: the workloads of the period, their waste by bucket, how busy they were, and what nobody held."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from gpucost.engine.local import answer_rows, run_stage
from gpucost.store.activity import load_devices

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config import Activity
    from gpucost.model import Period

_PACKAGE = "gpucost.findings"
_NUMBER = re.compile(r"([-_.])\d+$")

Row = Mapping[str, Any]
Key = tuple[str, str, str]  # cluster, namespace, workload


@dataclass(frozen=True, slots=True)
class Part:
    """GPU time and money of one bucket."""

    gpu_ms: float
    cost: Decimal


@dataclass(frozen=True, slots=True)
class Read:
    """`workloads`, `levels` and `hours` are rows as the SQL of this package names them; `buckets` those of each workload."""

    workloads: dict[Key, Row]
    buckets: dict[Key, dict[str, Part]]
    levels: dict[Key, Row]
    hours: dict[Key, list[Row]]
    free: list[Row]

    def waste(self, keys: Iterable[Key], *names: str) -> Part:
        """The buckets of these names, of all the workloads."""
        parts = [self.buckets[key][name] for key in keys for name in names if name in self.buckets.get(key, {})]
        return Part(sum(part.gpu_ms for part in parts), sum((part.cost for part in parts), Decimal(0)))

    def families(self, *types: str) -> dict[Key, list[Key]]:
        """Workloads of these types, runs of one name together: `Job/sweep-1` and `Job/sweep-2` under `Job/sweep-*`."""
        found: dict[Key, list[Key]] = defaultdict(list)
        for key, row in self.workloads.items():
            if row["workload_type"] in types:
                found[key[0], key[1], _NUMBER.sub(r"\1*", key[2])].append(key)
        return {(*key[:2], key[2] if len(keys) > 1 else keys[0][2]): keys for key, keys in found.items()}

    def scope(self, keys: list[Key], family: str) -> tuple[str, ...]:
        """The words that name these workloads of a namespace and no others: the family's glob, else each by itself."""
        cluster, namespace, _ = keys[0]
        matched = {key for key in self.workloads if key[:2] == (cluster, namespace) and fnmatchcase(key[2], family)}
        return (family,) if matched == set(keys) else tuple(sorted(key[2] for key in keys))


def read(con: DuckDBPyConnection, activity: Activity, period: Period) -> Read:
    """Everything at once. Expects the temporary table waste_facts of the period; makes temporary tables."""
    span = {"from_ms": period.start_ms, "to_ms": period.end_ms}
    run_stage(con, _PACKAGE, "10_workloads", span)
    load_devices(con, activity, period)
    buckets: dict[Key, dict[str, Part]] = defaultdict(dict)
    for row in answer_rows(con, _PACKAGE, "20_buckets"):
        buckets[_key(row)][row["bucket"]] = Part(row["gpu_ms"], row["cost"])
    hours: dict[Key, list[Row]] = defaultdict(list)
    for row in answer_rows(con, _PACKAGE, "50_hours", span):
        hours[_key(row)].append(row)
    return Read(
        workloads={_key(row): row for row in answer_rows(con, _PACKAGE, "11_workloads_told")},
        buckets=buckets,
        levels={_key(row): row for row in answer_rows(con, _PACKAGE, "40_levels", span)},
        hours=hours,
        free=list(answer_rows(con, _PACKAGE, "30_free")),
    )


def _key(row: Row) -> Key:
    return row["cluster"], row["namespace"], row["workload"]
