"""Rules that a fleet should keep, and who breaks them: of what the store knows of pods, nodes and quotas (docs/policy.md)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, get_args
from xml.etree import ElementTree as ET

from pydantic import BaseModel, ConfigDict, Field

from gpucost import inputs
from gpucost.catalog import accelerators, other_resources
from gpucost.config.tables import TableFile
from gpucost.engine import answer_rows
from gpucost.errors import StoreError
from gpucost.inventory import load_activity
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.questions.report.rows import ZERO
from gpucost.records import grouped, record
from gpucost.render.view import CoverageAnswer
from gpucost.shapes import Shape
from gpucost.store.usage import read_idle, read_measured, read_usage
from gpucost.texts import visible_parts
from gpucost.whatif.covered import read_covers
from gpucost.whatif.fleet import Scope, Usage, read_stored
from gpucost.whatif.spot.answer import advised_to_stay
from gpucost.whatif.spot.market import read_market
from gpucost.whatif.spot.moves import SpotQuery

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.questions.report.query import Query
    from gpucost.render.view import ReportView

SHIPPED = "rules.toml"
#: What a report is asked by for `check`.
BY = ("cluster", "namespace", "workload", "workload_type", "capacity_type")
# What is said of a rule that holds of no part of the fleet in the period.
NOTHING = "there was nothing to check"
_HINT = "gpucost policy rules prints rules with all that can be set"
Row = Mapping[str, Any]
Owner = tuple[str, str, str]  # cluster, namespace, workload
_NO_CAPACITY = "no capacity type is known: it is not known what runs on demand"
_Globs = list[Annotated[str, Field(min_length=1)]]
_Hours = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@record
class Violation(Shape):
    """Who breaks a rule; GPU-hours and money of the period are of what breaks it, None where the rule is of no use of GPUs."""

    cluster: str
    namespace: str | None
    subject: str
    evidence: str
    gpu_hours: float | None
    cost: Decimal | None


@record
class RuleResult(Shape):
    """How a rule stands: `kept`, `broken`, or `unknown`: metrics lack what is `missing`, or there was nothing to check.

    `checked` counts what it was held against: workloads, namespaces, pods or NodePools. `missing` is None if there was nothing.
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
        return self.advice if self.violations else self.missing or NOTHING


@record
class PolicyAnswer(Shape):
    """What `gpucost policy check` prints."""

    period: Period
    currency: str
    kept: int
    broken: int
    unknown: int
    rules: tuple[RuleResult, ...]
    coverage: CoverageAnswer


# Stretches in which pods were idle, rows (cluster, uid, from_ms, to_ms), and the pods that were measured in the period.
Idle = tuple[Sequence[Row], Collection[tuple[str, str]]]


class Facts(NamedTuple):
    """What rules are held against. `rows` are a report's by BY, `pods` as the store's usage names them.

    A pod's `capacity_type` is None if its node, one of `nodes`, was not up. `reported` are names by (kind, cluster), as facts.sql
    answers them; `idle_from` reads stretches of at least so many hours in which some of the pods were idle, in their whole lives;
    `stay` reads the workloads that `whatif spot` leaves on demand.
    """

    rows: Sequence[tuple[Mapping[str, str | None], float, Decimal]]
    pods: Sequence[Row]
    nodes: Collection[int]
    reported: defaultdict[tuple[str, str], set[str]]
    period: Period
    idle_from: Callable[[float, Sequence[Row]], Idle]
    stay: Callable[[], Collection[Owner]]

    def silent(self, kind: str, clusters: Iterable[str]) -> str:
        """The clusters whose metrics report nothing of a kind, in words."""
        return ", ".join(sorted({name for name in clusters if not self.reported[f"{kind}_told", name]}))


# How much a rule was held against, and what breaks it.
Checked = tuple[int, list[Violation]]


class _Unknown(Exception):
    """The rule cannot be checked; says what is missing."""


class _Rule(BaseModel):
    """A rule of the file: no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1)]
    kind: str
    severity: Literal["error", "warning"] = "error"
    apart: Annotated[_Globs, Field(alias="except")] = []

    advice: ClassVar[str]

    def concerns(self, namespace: str | None) -> bool:
        """Whether the rule holds for the namespace."""
        return not _fits(namespace, self.apart)

    def check(self, facts: Facts) -> Checked:
        """Hold the rule against facts of namespaces that it concerns. Raises _Unknown."""
        raise NotImplementedError


def _fits(name: str | None, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name or "", glob) for glob in globs)


class SpotForBatch(_Rule):
    """Batch work outside production runs on spot."""

    kind: Literal["spot_for_batch"]
    production: _Globs = []
    min_gpu_hours: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    advice = "give its pods a spot node selector, or move its namespace to `production`: gpucost whatif spot"

    def check(self, facts: Facts) -> Checked:
        batch = [
            row
            for row in facts.rows
            if row[0]["workload_type"] == "batch" and not _fits(row[0]["namespace"], self.production)
        ]
        known = {_owner(keys) for keys, _, _ in batch if keys["capacity_type"] != "unknown"}
        if batch and not known:
            raise _Unknown(_NO_CAPACITY)
        whole: dict[Owner, float] = defaultdict(float)
        for pod in facts.pods:
            if pod["capacity_type"] == "on_demand":
                whole[_owner(pod)] += pod["gpus"] * _life_hours(pod)
        found = [
            Violation(*_owner(keys), "batch work on demand", hours, cost)
            for keys, hours, cost in batch
            if keys["capacity_type"] == "on_demand" and max(hours, whole[_owner(keys)]) > self.min_gpu_hours
        ]
        return len(known), _without_advice(facts, found)


class _OfNamespaces(_Rule):
    """Every namespace that holds GPUs has an object of some kind."""

    what: ClassVar[str]

    def check(self, facts: Facts) -> Checked:
        spaces = grouped((_owner(keys)[:2], (hours, cost)) for keys, hours, cost in facts.rows)
        if silent := facts.silent(self.kind, (cluster for cluster, _ in spaces)):
            metric = f"kube_{self.what.lower()}"
            raise _Unknown(
                f"{metric} tells of none in {silent}: there are none, or kube-state-metrics does not export it"
            )
        found = []
        for (cluster, namespace), parts in sorted(spaces.items()):
            if namespace not in facts.reported[self.kind, cluster]:
                hours, costs = zip(*parts, strict=True)
                evidence, cost = f"no {self.what} names GPUs", sum(costs, ZERO)
                found.append(Violation(cluster, namespace, namespace, evidence, round(sum(hours), 6), cost))
        return len(spaces), found


class Quota(_OfNamespaces):
    """Every namespace that holds GPUs has a ResourceQuota for them."""

    kind: Literal["quota"]

    what = "ResourceQuota"
    advice = "add a ResourceQuota with requests.nvidia.com/gpu"


class LimitRange(_OfNamespaces):
    """Every namespace that holds GPUs has a LimitRange for them."""

    kind: Literal["limit_range"]

    what = "LimitRange"
    advice = "add a LimitRange with max nvidia.com/gpu of a Container"


class IdleNotebooks(_Rule):
    """A notebook is stopped after `hours` idle ones."""

    kind: Literal["idle_notebooks"]
    hours: _Hours

    advice = (
        "stop idle notebooks, as Kubeflow's culling or JupyterHub's idle culler does: gpucost whatif schedule"
    )

    def check(self, facts: Facts) -> Checked:
        pods = {
            (pod["cluster"], pod["uid"]): pod for pod in facts.pods if pod["workload_type"] == "development"
        }
        if not pods:
            return 0, []
        try:
            idle, keys = facts.idle_from(self.hours, list(pods.values()))
        except StoreError as error:
            raise _Unknown(str(error)) from None
        measured = [pod for key, pod in pods.items() if key in keys]
        if not measured:
            raise _Unknown("the activity of no notebook was measured: gpucost doctor finds out why")
        # how long each stretch is, and its GPU-hours of the period
        stretches: dict[Owner, list[tuple[float, float]]] = defaultdict(list)
        for row in idle:
            pod = pods.get((row["cluster"], row["uid"]))
            part = min(row["to_ms"], facts.period.end_ms) - max(row["from_ms"], facts.period.start_ms)
            if pod and part > 0:
                length = (row["to_ms"] - row["from_ms"]) / MS_PER_HOUR
                stretches[_owner(pod)].append((length, part / MS_PER_HOUR * pod["gpus"]))
        found = []
        for owner, parts in sorted(stretches.items()):
            lengths, gpu_hours = zip(*parts, strict=True)
            evidence = f"idle for {max(lengths):,.1f} h at a stretch"
            found.append(Violation(*owner, evidence, round(sum(gpu_hours), 6), None))
        return len(set(map(_owner, measured))), found


class NodePoolLimits(_Rule):
    """Karpenter's NodePools that have GPU nodes have limits."""

    kind: Literal["node_pool_limits"]

    advice = "set spec.limits of the NodePool, nvidia.com/gpu among them"

    def check(self, facts: Facts) -> Checked:
        pools: set[tuple[str, str]] = set()
        for (kind, cluster), names in facts.reported.items():
            for node, _, pool in (name.partition(" ") for name in names if kind == "node_pool"):
                if int(node) in facts.nodes:
                    pools.add((cluster, pool))
        if silent := facts.silent("node_pool_limit", (cluster for cluster, _ in pools)):
            raise _Unknown(
                f"the store has no karpenter_nodepools_limit of {silent}: have Prometheus scrape Karpenter"
            )
        return len(pools), [
            Violation(cluster, None, f"NodePool/{pool}", "has GPU nodes, and no limits", None, None)
            for cluster, pool in sorted(pools)
            if pool not in facts.reported["node_pool_limit", cluster]
        ]


class PriorityClass(_Rule):
    """Pods that hold GPUs have a priority class."""

    kind: Literal["priority_class"]

    advice = "set priorityClassName in its pod template, or a PriorityClass with globalDefault: true"

    def check(self, facts: Facts) -> Checked:
        if silent := facts.silent("priority_class", (pod["cluster"] for pod in facts.pods)):
            raise _Unknown(
                f"kube_pod_info tells no priority_class in {silent}: no pod has one, or it is dropped"
            )
        without: dict[Owner, float] = defaultdict(float)
        for pod in facts.pods:
            if pod["uid"] not in facts.reported["priority_class", pod["cluster"]]:
                without[_owner(pod)] += pod["gpus"] * (
                    (pod["held_to_ms"] - pod["held_from_ms"]) / MS_PER_HOUR
                )
        return len(set(map(_owner, facts.pods))), [
            Violation(*owner, "its pods have no priority class", round(gpu_hours, 6), None)
            for owner, gpu_hours in sorted(without.items())
        ]


class OnDemandTraining(_Rule):
    """No training pod is on demand for longer than `hours`."""

    kind: Literal["on_demand_training"]
    hours: _Hours

    advice = (
        "let it write checkpoints and run on spot, or commit: gpucost whatif spot, gpucost whatif reserve"
    )

    def check(self, facts: Facts) -> Checked:
        pods = [pod for pod in facts.pods if pod["workload_type"] == "training" and pod["capacity_type"]]
        known = [pod for pod in pods if pod["capacity_type"] != "unknown"]
        if pods and not known:
            raise _Unknown(_NO_CAPACITY)
        longest: dict[Owner, float] = defaultdict(float)
        for pod in known:
            if pod["capacity_type"] == "on_demand":
                longest[_owner(pod)] = max(longest[_owner(pod)], _life_hours(pod))
        money = {
            _owner(keys): (hours, cost)
            for keys, hours, cost in facts.rows
            if keys["capacity_type"] == "on_demand"
        }
        found = [
            Violation(*owner, f"a pod was on demand for {hours:,.1f} h", *money.get(owner, (None, None)))
            for owner, hours in sorted(longest.items())
            if hours > self.hours
        ]
        return len(set(map(_owner, known))), _without_advice(facts, found)


Rule = SpotForBatch | Quota | LimitRange | IdleNotebooks | NodePoolLimits | PriorityClass | OnDemandTraining
_KINDS: dict[str, type[_Rule]] = {
    get_args(kind.model_fields["kind"].annotation)[0]: kind for kind in get_args(Rule)
}


class Rules(BaseModel):
    """A file of rules."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: Annotated[list[Annotated[Rule, Field(discriminator="kind")]], Field(min_length=1)]


def _owner(row: Row) -> Owner:
    return str(row["cluster"]), str(row["namespace"]), str(row["workload"])


def _without_advice(facts: Facts, found: Sequence[Violation]) -> list[Violation]:
    """Without workloads that `whatif spot` leaves on demand."""
    stay = facts.stay() if found else ()
    return [one for one in found if (one.cluster, one.namespace, one.subject) not in stay]


def _life_hours(pod: Row) -> float:
    """The hours of the pod's whole life, before and after the period, too."""
    return float(pod["life_to_ms"] - pod["life_from_ms"]) / MS_PER_HOUR


def shipped_rules() -> str:
    """The text of the rules that gpucost has."""
    return (files(__package__ or "") / SHIPPED).read_text(encoding="utf-8")


def read_rules(path: Path | None) -> tuple[Rule, ...]:
    """The rules of a file, else the shipped ones. Raises DataError, naming file, line and key, and the nearest key there is."""
    try:
        text = inputs.text(path, inputs.SETTINGS) if path else shipped_rules()
    except (OSError, UnicodeDecodeError) as error:
        raise inputs.unreadable(path, error, _HINT) from None
    file = TableFile(path, text, _KINDS, _HINT)
    rules = file.parsed(Rules).rules
    file.unique("rules", [rule.name for rule in rules])
    return tuple(rules)


def check(
    con: DuckDBPyConnection, config: Config, query: Query, view: ReportView, rules: Sequence[Rule]
) -> PolicyAnswer:
    """How each rule stands in the query's period, of an attributed store. `view` is the report by BY of the same query."""
    period = query.period
    usage = read_usage(
        con,
        period.start_ms,
        period.end_ms,
        teams=query.teams,
        namespaces=query.namespaces,
        clusters=query.clusters,
    )
    patterns = {"accelerators": accelerators().lower(), "other_resources": other_resources().lower()}
    reported: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in answer_rows(con, "gpucost.questions.policy", "facts", period.bounds | patterns):
        reported[row["kind"], row["cluster"]].add(row["name"])
    nodes = {node["node_id"]: node["capacity_type"] for node in usage.nodes}
    facts = Facts(
        rows=[
            (row.keys, row.measures.allocated_gpu_hours, row.measures.cost)
            for row in view.rows
            if row.kind == "allocated"
        ],
        pods=[pod | {"capacity_type": nodes.get(pod["node_id"])} for pod in usage.pods],
        nodes=nodes,
        reported=reported,
        period=period,
        idle_from=partial(_idle, con, period),
        stay=cache(partial(_stay, con, config, query)),
    )
    load_activity(con, config.activity)
    results = tuple(_checked(rule, facts) for rule in rules)
    counts = Counter(rule.status for rule in results)
    return PolicyAnswer(
        period, config.currency, counts["kept"], counts["broken"], counts["unknown"], results, view.coverage
    )


def _idle(con: DuckDBPyConnection, period: Period, hours: float, pods: Sequence[Row]) -> Idle:
    """Stretches of the pods' whole lives, or of the period alone if older samples are gone. Raises StoreError."""
    begun = min(period.start_ms, *(pod["life_from_ms"] for pod in pods))
    ended = max(period.end_ms, *(pod["life_to_ms"] for pod in pods))
    at_least = round(hours * MS_PER_HOUR)
    try:
        stretches = read_idle(con, Period(from_ms(begun), from_ms(ended)), at_least)
    except StoreError:
        stretches = read_idle(con, period, at_least)
    return stretches, read_measured(con, period)


def _stay(con: DuckDBPyConnection, config: Config, query: Query) -> set[Owner]:
    """The workloads that `gpucost whatif spot` leaves on demand."""
    scope = Scope(tuple(query.teams), tuple(query.namespaces), (), tuple(query.clusters))
    fleet = read_covers(con, query.period, config.currency).marked(
        read_stored(con, query.period, scope).fleet
    )
    market = read_market(con, config, query.period)
    usage = Usage(fleet, config.currency, "", "", is_narrowed=True)
    return advised_to_stay(SpotQuery(usage, market, interruptible=config.spot.interruptible))


def _checked(rule: Rule, facts: Facts) -> RuleResult:
    facts = facts._replace(
        rows=[row for row in facts.rows if rule.concerns(row[0]["namespace"])],
        pods=[pod for pod in facts.pods if rule.concerns(pod["namespace"])],
    )
    missing, checked, violations = None, 0, list[Violation]()
    try:
        checked, violations = rule.check(facts)
    except _Unknown as reason:
        missing = str(reason)
    violations.sort(key=lambda one: -(one.cost or 0))
    return RuleResult(
        rule.name,
        rule.kind,
        rule.severity,
        "broken" if violations else "kept" if checked else "unknown",
        checked,
        rule.advice,
        missing,
        tuple(violations),
    )


def junit(answer: PolicyAnswer) -> str:
    """The answer as JUnit XML, as CI servers read it: a test case a rule kept or unknown, and one for whoever breaks a rule."""
    suites = ET.Element("testsuites", name="gpucost policy")
    for rule in visible_parts(answer.rules):
        suite = ET.SubElement(suites, "testsuite", name=rule.name)
        case = {"classname": f"gpucost.policy.{rule.kind}", "name": rule.name}
        # a warning does not fail a build
        failure = "failure" if rule.severity == "error" else "skipped"
        for one in rule.violations:
            where = "/".join(part for part in (one.cluster, one.namespace, one.subject) if part)
            broken = ET.SubElement(suite, "testcase", case | {"name": f"{rule.name}: {where}"})
            ET.SubElement(broken, failure, message=one.evidence).text = rule.advice
        if not rule.violations:
            whole = ET.SubElement(suite, "testcase", case)
            if rule.status == "unknown":
                ET.SubElement(whole, "skipped", message=rule.missing or NOTHING)
        for name, cases in (("tests", "*"), ("failures", "*/failure"), ("skipped", "*/skipped")):
            suite.set(name, str(len(suite.findall(cases))))
        suite.set("errors", "0")
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"
