"""Where money may be saved: candidates from the buckets of waste, each with the what-ifs that say how much."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.findings.hours import open_hours, told
from gpucost.findings.reading import Key, Part, Read, read
from gpucost.findings.view import Candidate, Claim, Question
from gpucost.model import MS_PER_HOUR, from_ms

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config import Config
    from gpucost.model import Period

_IDLE_MINUTES = (("--idle-minutes", "60"),)
_LITTLE_USED = 0.5
_ADVISED = (
    ("data_stall", "data_stall", "idle while it ran", ""),
    ("lost_work", "failed_restarted", "lost by pods that failed", "since their last epoch known"),
    ("slow_start", "starting", "held before it ran", "images are pulled meanwhile"),
)


def candidates(con: DuckDBPyConnection, config: Config, period: Period) -> list[Candidate]:
    """Everything that may be worth a finding, of the temporary table waste_facts and the attributed tables."""
    return list(_Candidates(read(con, config.activity, period), config, period).all())


class _Candidates:
    def __init__(self, found: Read, config: Config, period: Period) -> None:
        self.found, self.period, self.tz = found, period, config.tz
        clusters = {key[0] for key in found.workloads} | {row["cluster"] for row in found.free}
        self.many = len(clusters) > 1

    def all(self) -> Iterator[Candidate]:
        yield from self._idle("development", "idle_notebook", "user_away", "forgotten")
        yield from self._idle("other", "idle_workload", "idle")
        yield from self._over_requested()
        yield from self._serving()
        yield from self._training_on_demand()
        yield from self._empty_nodes()
        yield from self._steady()
        for kind, bucket, what, words in _ADVISED:
            yield from self._advised(kind, bucket, what, words)
        yield from self._free("fragmentation", "that were free, but fewer than the smallest request")
        yield from self._free("unavailable", "that were not ready, cordoned or broken")

    def _idle(self, workload_type: str, kind: str, *buckets: str) -> Iterator[Candidate]:
        for key, row in self.found.workloads.items():
            waste = self.found.waste([key], *buckets)
            if row["workload_type"] == workload_type and waste.cost > 0:
                last = row["active_to_ms"]
                words = f"last active {told(from_ms(last), self.tz)}" if last else "never active"
                asked = (self._question("schedule", [key], key[2], _IDLE_MINUTES),)
                yield self._candidate(kind, [key], key[2], waste, "idle", words, asked)

    def _over_requested(self) -> Iterator[Candidate]:
        for (_, _, family), every in self.found.families("training", "batch", "inference", "other", "development").items():
            keys = [key for key in every if self._unused(key) > 0]
            if not keys:
                continue
            levels = [self.found.levels[key] for key in keys]
            unused = sum(self._unused(key) for key in keys)
            held = sum(self.found.workloads[key]["held_gpu_ms"] for key in keys)
            waste = Part(unused, self._cost(keys) * Decimal(str(round(unused / held, 9))))
            asked, used = max(one["asked"] for one in levels), max(one["most_used"] for one in levels)
            words = f"asks for {asked:g} GPUs, never used more than {used}"
            question = self._question("rightsize", keys, family, (("--same-model", None),))
            subject = family if len(keys) > 1 else keys[0][2]
            yield self._candidate("over_requested", keys, subject, waste, "on GPUs never used", words, (question,))

    def _serving(self) -> Iterator[Candidate]:
        for key, row in self.found.workloads.items():
            if row["workload_type"] != "inference":
                continue
            level = self.found.levels.get(key)
            spare = self.found.waste([key], "over_provisioned")
            busiest = f"{_percent(level['p95'])} busy in its busiest hours" if level else "not measured"
            if row["gpus_per_pod"] >= 1 and (spare.cost > 0 or (level and level["p95"] < _LITTLE_USED)):
                waste = spare if spare.cost > 0 else self.found.waste([key], "off_peak_idle")
                asked = tuple(self._question(command, [key], key[2]) for command in ("share", "rightsize"))
                yield self._candidate("over_provisioned", [key], key[2], waste, "idle or to spare", busiest, asked)
            off = self.found.waste([key], "off_peak_idle")
            hours = open_hours(self.found.hours.get(key, []), self.tz) if off.cost > 0 else None
            if hours:
                asked = (self._question("schedule", [key], key[2], (("--office-hours", hours[0]), ("--weekdays", hours[1]))),)
                words = f"needed {hours[0]}, {hours[1]}; {busiest}"
                yield self._candidate("off_peak", [key], key[2], off, "idle", words, asked)

    def _training_on_demand(self) -> Iterator[Candidate]:
        spaces: dict[tuple[str, str], list[tuple[str, list[Key]]]] = defaultdict(list)
        for (cluster, namespace, family), keys in self.found.families("training", "batch").items():
            here = [key for key in keys if self.found.workloads[key]["on_demand_cost"] > 0]
            if here:
                spaces[cluster, namespace].append((family, keys))
        for families in spaces.values():
            keys = [key for _, several in families for key in several]
            scope = tuple(word for family, several in families for word in self.found.scope(several, family))
            hours = sum(self.found.workloads[key]["on_demand_gpu_ms"] for key in keys)
            cost = sum((self.found.workloads[key]["on_demand_cost"] for key in keys), Decimal(0))
            words = f"{len(keys)} workloads that could go on after an interruption"
            question = self._question("spot", keys, "", workloads=scope)
            subject = ", ".join(family for family, _ in families)
            yield self._candidate("on_demand_training", keys, subject, Part(hours, cost), "on demand", words, (question,))

    def _empty_nodes(self) -> Iterator[Candidate]:
        by_cluster: dict[str, list[dict[str, object]]] = defaultdict(list)
        for row in self.found.free:
            if row["bucket"] == "empty_node":
                by_cluster[row["cluster"]].append(dict(row))
        for cluster, rows in by_cluster.items():
            # no workload is called `none`: only nodes are looked at
            options = (("--empty-minutes", "10"), ("--notebook", "none"))
            question = Question("schedule", cluster if self.many else None, options=options)
            yield self._of_free("empty_nodes", rows, "that nobody held for long", (question,))

    def _steady(self) -> Iterator[Candidate]:
        """What serves on demand all the time, each cluster's together."""
        steady: dict[tuple[str, str], list[Key]] = defaultdict(list)
        for key, row in self.found.workloads.items():
            if row["workload_type"] == "inference" and row["on_demand_cost"] > 0:
                steady[key[0], key[1]].append(key)
        for keys in steady.values():
            hours = sum(self.found.workloads[key]["on_demand_gpu_ms"] for key in keys)
            cost = sum((self.found.workloads[key]["on_demand_cost"] for key in keys), Decimal(0))
            names = tuple(sorted(key[2] for key in keys))
            question = self._question("reserve", keys, "", workloads=names)
            words = "serves around the clock"
            yield self._candidate("steady_on_demand", keys, ", ".join(names), Part(hours, cost), "on demand", words, (question,))

    def _advised(self, kind: str, bucket: str, what: str, words: str) -> Iterator[Candidate]:
        for (_, _, family), every in self.found.families("training", "batch", "inference", "development", "other").items():
            keys = [key for key in every if bucket in self.found.buckets.get(key, {})]
            waste = self.found.waste(keys, bucket)
            if waste.cost > 0:
                subject = family if len(keys) > 1 else keys[0][2]
                yield self._candidate(kind, keys, subject, waste, what, words, bucket=bucket)

    def _free(self, bucket: str, words: str) -> Iterator[Candidate]:
        for row in self.found.free:
            if row["bucket"] == bucket and row["cost"] > 0:
                yield self._of_free(bucket, [dict(row)], words)

    def _of_free(self, kind: str, rows: list[dict[str, object]], words: str, questions: tuple[Question, ...] = ()) -> Candidate:
        gpu_ms = sum(float(str(row["gpu_ms"])) for row in rows)
        cost = sum((Decimal(str(row["cost"])) for row in rows), Decimal(0))
        nodes = sum(int(str(row["nodes"])) for row in rows)
        names = ", ".join(f"{row['gpu_model'] or 'GPUs'} {str(row['capacity_type']).replace('_', ' ')}" for row in rows)
        dearest = max(rows, key=lambda row: Decimal(str(row["cost"])))["dearest"]
        return Candidate(
            kind=kind,
            cluster=str(rows[0]["cluster"]),
            namespace=None,
            team=None,
            subject=names,
            claims=frozenset(
                (str(row["cluster"]), str(row["gpu_model"]), str(row["capacity_type"]), str(row["bucket"])) for row in rows
            ),
            begins=self.period.start,
            ends=self.period.end,
            gpu_hours=_hours(gpu_ms),
            waste_gpu_hours=_hours(gpu_ms),
            cost=cost,
            waste_cost=cost,
            utilization=None,
            evidence=f"{_hours(gpu_ms):,.1f} GPU-hours on {nodes} node{'s' if nodes > 1 else ''} {words}, most on {dearest}",
            questions=questions,
        )

    def _candidate(
        self,
        kind: str,
        keys: list[Key],
        subject: str,
        waste: Part,
        what: str,
        words: str,
        questions: tuple[Question, ...] = (),
        bucket: str = "*",
    ) -> Candidate:
        rows = [self.found.workloads[key] for key in keys]
        held, active, idle = (sum(row[f"{name}_gpu_ms"] for row in rows) for name in ("held", "active", "idle"))
        busy = sum(row["utilization_gpu_ms"] for row in rows) / (active + idle) if active + idle else None
        begins, ends = min(row["from_ms"] for row in rows), max(row["to_ms"] for row in rows)
        told_of = [
            f"{_hours(waste.gpu_ms):,.1f} of {_hours(held):,.1f} GPU-hours {what}",
            f"{told(from_ms(begins), self.tz)} to {told(from_ms(ends), self.tz)}",
            *([f"{_percent(busy)} busy"] if busy is not None else []),
        ]
        return Candidate(
            kind=kind,
            cluster=keys[0][0],
            namespace=keys[0][1],
            team=", ".join(sorted({row["team"] for row in rows if row["team"]})) or None,
            subject=subject,
            claims=frozenset[Claim]((*key, bucket) for key in keys),
            begins=from_ms(begins),
            ends=from_ms(ends),
            gpu_hours=_hours(held),
            waste_gpu_hours=_hours(waste.gpu_ms),
            cost=self._cost(keys),
            waste_cost=waste.cost,
            utilization=round(busy, 6) if busy is not None else None,
            evidence=", ".join(told_of) + (f"; {words}" if words else ""),
            questions=questions,
        )

    def _question(
        self,
        command: str,
        keys: list[Key],
        family: str,
        options: tuple[tuple[str, str | None], ...] = (),
        workloads: tuple[str, ...] = (),
    ) -> Question:
        cluster, namespace, _ = keys[0]
        return Question(command, cluster if self.many else None, namespace, workloads or self.found.scope(keys, family), options)

    def _unused(self, key: Key) -> float:
        level = self.found.levels.get(key)
        return float(level["unused_gpu_ms"]) if level else 0.0

    def _cost(self, keys: Iterable[Key]) -> Decimal:
        return sum((self.found.workloads[key]["cost"] for key in keys), Decimal(0))


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _hours(gpu_ms: float) -> float:
    return round(gpu_ms / MS_PER_HOUR, 6)
