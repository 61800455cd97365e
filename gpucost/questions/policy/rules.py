"""Rules that a fleet should keep, and the workloads that break them (docs/policy.md)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from gpucost.config.model import Section, Text
from gpucost.config.tables import TableFile
from gpucost.errors import StoreError
from gpucost.inventory import load_activity
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.questions.report.rows import ZERO
from gpucost.records import frozen_dataclass, grouped
from gpucost.render.view import CoverageAnswer
from gpucost.shapes import Shape
from gpucost.store.usage import Row, read_idle, read_measured, read_usage
from gpucost.whatif.covered import read_covers
from gpucost.whatif.fleet import Scope, Usage, Workload, read_stored
from gpucost.whatif.spot.answer import advised_to_stay
from gpucost.whatif.spot.market import read_market
from gpucost.whatif.spot.moves import SpotQuery

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.questions.report.query import Query
    from gpucost.render.view import ReportView

#: The dimensions of the report that `check` reads.
BY = ("cluster", "namespace", "workload", "workload_type", "capacity_type")
NOTHING = "no workload was checked"
_HINT = "gpucost policy rules prints all rules and their keys"
_NO_CAPACITY = "no capacity type is known, so on-demand usage is unknown"


@frozen_dataclass
class Violation(Shape):
    """A workload that breaks a rule, with its GPU-hours and cost in the period.

    `cost` is None for idle intervals.
    """

    cluster: str
    namespace: str
    subject: str
    evidence: str
    gpu_hours: float
    cost: Decimal | None


@frozen_dataclass
class RuleResult(Shape):
    """The state of a rule: `kept`, `broken` or `unknown` (data is `missing`, or no workload was checked).

    `checked` counts the workloads that were checked.
    """

    name: str
    kind: str
    severity: Literal["error", "warning"]
    status: Literal["kept", "broken", "unknown"]
    checked: int
    advice: str
    missing: str | None
    violations: tuple[Violation, ...]

    @property
    def to_do(self) -> str:
        """The next step, empty for a rule that is kept."""
        if self.status == "unknown":
            return self.missing or NOTHING
        return self.advice if self.violations else ""


@frozen_dataclass
class PolicyAnswer(Shape):
    """The output of `gpucost policy check`."""

    period: Period
    currency: str
    kept: int
    broken: int
    unknown: int
    rules: tuple[RuleResult, ...]
    coverage: CoverageAnswer


# Idle intervals as rows (cluster, uid, from_ms, to_ms), and the (cluster, uid) of the pods with measured activity.
Idle = tuple[Sequence[Row], Collection[tuple[str, str]]]


class PolicyFacts(NamedTuple):
    """The data that rules check.

    `pods` are the pods of the period; the capacity type of their node is None if the node was not up. `costs` are the
    allocated GPU-hours and cost of the period by BY. `idle` reads intervals of at least the given hours in the lives
    of some pods; `stay` reads the workloads that `whatif spot` leaves on demand.
    """

    pods: Sequence[Row]
    costs: Mapping[tuple[str | None, ...], tuple[float, Decimal]]
    period: Period
    idle: Callable[[float, Collection[Row]], Idle]
    stay: Callable[[], Collection[Workload]]


# The number of workloads that were checked, and the violations.
Checked = tuple[int, list[Violation]]


class _Unknown(Exception):
    """The rule cannot be checked; the message names the missing data."""


class _Rule(Section):
    """A rule of the file; other keys are refused."""

    name: Text
    kind: str
    severity: Literal["error", "warning"] = "error"
    apart: list[Text] = Field([], alias="except")

    advice: ClassVar[str]

    def concerns(self, namespace: str | None) -> bool:
        """Whether the rule holds for the namespace."""
        return not any(fnmatchcase(namespace or "", glob) for glob in self.apart)


class OnDemand(_Rule):
    """Batch or training work does not run on demand, unless `whatif spot` leaves it there.

    A workload keeps the rule if all its pods together have at most `min_gpu_hours`, or each at most `hours`, in their
    whole lives.
    """

    kind: Literal["spot_for_batch", "on_demand_training"]
    min_gpu_hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    advice = "run it on spot, with checkpoints (gpucost whatif spot), or commit (gpucost whatif reserve)"

    def check(self, facts: PolicyFacts) -> Checked:
        workload_type = "batch" if self.kind == "spot_for_batch" else "training"
        pods = [pod for pod in facts.pods if pod["workload_type"] == workload_type and pod["capacity_type"]]
        classified = [pod for pod in pods if pod["capacity_type"] != "unknown"]
        if pods and not classified:
            raise _Unknown(_NO_CAPACITY)
        violations = []
        on_demand = grouped((_owner(pod), pod) for pod in classified if pod["capacity_type"] == "on_demand")
        for owner, several in on_demand.items():
            longest = max(map(_life_hours, several))
            gpu_hours = sum(pod["gpus"] * _life_hours(pod) for pod in several)
            is_broken = longest > self.hours and gpu_hours > self.min_gpu_hours
            if is_broken and owner not in facts.stay():
                hours, cost = facts.costs.get((*owner, workload_type, "on_demand"), (0.0, ZERO))
                evidence = f"a pod was on demand for {longest:,.1f} h"
                violations.append(Violation(*owner, evidence, round(hours, 6), cost))
        return len(set(map(_owner, classified))), violations


class IdleNotebooks(_Rule):
    """A notebook is stopped after `hours` idle hours."""

    kind: Literal["idle_notebooks"]
    hours: Annotated[float, Field(gt=0, allow_inf_nan=False)]

    advice = "stop idle notebooks, for example with Kubeflow's culling or JupyterHub's idle culler: gpucost whatif schedule"

    def check(self, facts: PolicyFacts) -> Checked:
        development = [pod for pod in facts.pods if pod["workload_type"] == "development"]
        notebooks = {(pod["cluster"], pod["uid"]): pod for pod in development}
        if not notebooks:
            return 0, []
        idle, measured = facts.idle(self.hours, development)
        checked = {_owner(pod) for key, pod in notebooks.items() if key in measured}
        if not checked:
            raise _Unknown("the activity of the notebooks was not measured: run gpucost doctor")
        stretches: dict[Workload, list[tuple[float, float]]] = defaultdict(list)
        for row in idle:
            pod = notebooks.get((row["cluster"], row["uid"]))
            part_ms = min(row["to_ms"], facts.period.end_ms) - max(row["from_ms"], facts.period.start_ms)
            if pod and part_ms > 0:
                stretches[_owner(pod)].append((row["to_ms"] - row["from_ms"], part_ms * pod["gpus"]))
        violations = []
        for owner, several in stretches.items():
            longest, gpu_hours = max(several)[0] / MS_PER_HOUR, sum(ms for _, ms in several) / MS_PER_HOUR
            evidence = f"idle for {longest:,.1f} h without a break"
            violations.append(Violation(*owner, evidence, round(gpu_hours, 6), None))
        return len(checked), violations


Rule = OnDemand | IdleNotebooks
_KINDS: dict[str, type[Section]] = {
    "spot_for_batch": OnDemand,
    "idle_notebooks": IdleNotebooks,
    "on_demand_training": OnDemand,
}


class PolicyRules(Section):
    """A file of rules."""

    rules: Annotated[list[Annotated[Rule, Field(discriminator="kind")]], Field(min_length=1)]


def _owner(row: Row) -> Workload:
    return str(row["cluster"]), str(row["namespace"]), str(row["workload"])


def _life_hours(pod: Row) -> float:
    """The hours of the pod's whole life, including time outside the period."""
    return float(pod["life_to_ms"] - pod["life_from_ms"]) / MS_PER_HOUR


def shipped_rules() -> str:
    """The text of the built-in rules."""
    return (files(__package__ or "") / "rules.toml").read_text(encoding="utf-8")


def read_rules(path: Path | None) -> tuple[Rule, ...]:
    """The rules of a file, otherwise the built-in ones.

    Raises DataError with file, line, key and the nearest known key.
    """
    shipped = TableFile(None, shipped_rules(), _KINDS, _HINT)
    file = TableFile.read(path, _KINDS, _HINT) if path else shipped
    rules = file.parsed(PolicyRules).rules
    file.unique("rules", [rule.name for rule in rules])
    return tuple(rules)


def check(
    con: DuckDBPyConnection, config: Config, query: Query, view: ReportView, rules: Sequence[Rule]
) -> PolicyAnswer:
    """The state of each rule in the query's period of an attributed store.

    `view` is the report by BY for the same query.
    """
    period = query.period
    usage = read_usage(con, period.start_ms, period.end_ms, **query.filters)
    capacity = {node["node_id"]: node["capacity_type"] for node in usage.nodes}
    facts = PolicyFacts(
        pods=[{**pod, "capacity_type": capacity.get(pod["node_id"])} for pod in usage.pods],
        costs={
            tuple(row.keys.values()): (row.measures.allocated_gpu_hours, row.measures.cost)
            for row in view.rows
            if row.kind == "allocated"
        },
        period=period,
        idle=partial(_idle, con, period),
        stay=cache(partial(_stay, con, config, query)),
    )
    load_activity(con, config.activity)
    results = tuple(_checked(rule, facts) for rule in rules)
    counts = Counter(rule.status for rule in results)
    return PolicyAnswer(
        period, config.currency, counts["kept"], counts["broken"], counts["unknown"], results, view.coverage
    )


def _idle(con: DuckDBPyConnection, period: Period, hours: float, pods: Sequence[Row]) -> Idle:
    """Idle intervals of the pods' whole lives, or of the period alone if older samples are gone. Raises StoreError."""
    begun = min(period.start_ms, *(pod["life_from_ms"] for pod in pods))
    ended = max(period.end_ms, *(pod["life_to_ms"] for pod in pods))
    at_least = round(hours * MS_PER_HOUR)
    try:
        stretches = read_idle(con, Period(from_ms(begun), from_ms(ended)), at_least)
    except StoreError:
        stretches = read_idle(con, period, at_least)
    return stretches, read_measured(con, period)


def _stay(con: DuckDBPyConnection, config: Config, query: Query) -> set[Workload]:
    """The workloads that `gpucost whatif spot` leaves on demand."""
    scope = Scope(query.teams, query.namespaces, (), query.clusters)
    fleet = read_covers(con, query.period, config.currency).marked(
        read_stored(con, query.period, scope).fleet
    )
    market = read_market(con, config, query.period)
    usage = Usage(fleet, config.currency, "", "", is_narrowed=True)
    return advised_to_stay(SpotQuery(usage, market, config))


def _checked(rule: Rule, facts: PolicyFacts) -> RuleResult:
    pods = [pod for pod in facts.pods if rule.concerns(pod["namespace"])]
    missing, checked, violations = None, 0, list[Violation]()
    try:
        checked, violations = rule.check(facts._replace(pods=pods))
    except (_Unknown, StoreError) as reason:
        missing = str(reason)
    violations.sort(key=lambda row: (-(row.cost or 0), row.cluster, row.namespace, row.subject))
    status: Literal["kept", "broken", "unknown"] = "unknown"
    if checked:
        status = "broken" if violations else "kept"
    return RuleResult(
        rule.name, rule.kind, rule.severity, status, checked, rule.advice, missing, tuple(violations)
    )
