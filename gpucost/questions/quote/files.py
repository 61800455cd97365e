"""The expected cost of workloads before they are submitted, from their files and the store."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from gpucost import catalog, inputs
from gpucost.catalog import facts
from gpucost.collect.slurm.sacct import length
from gpucost.engine import answer_rows
from gpucost.errors import DataError, GpucostError
from gpucost.periods import MS_PER_HOUR, local_days, month_period, to_ms
from gpucost.price.listing import gpu_models_called, spelled
from gpucost.questions.budget import MISSED
from gpucost.questions.budget.days import chosen_month, costs_by_day
from gpucost.questions.budget.states import check
from gpucost.questions.request import Request
from gpucost.records import frozen_dataclass, grouped
from gpucost.render.formatting import figure_text
from gpucost.render.schema import table
from gpucost.render.view import Document, Texts
from gpucost.shapes import Shape
from gpucost.store.sqlfiles import value

Units = Counter[str]

_COLUMNS = "file workload team gpus hours_source cost_p50 cost_p95"
# Labels of nodes, and the capacity types of their values.
_MODEL = re.compile(
    r"gpu|.*(gpu\.product(-name)?|gke-accelerator|instance-gpu-name|/accelerator|/instance-type)"
)
_CAPACITY = re.compile(r".*(capacity-?type|gke-spot|gke-provisioning|scalesetpriority)", re.IGNORECASE)
_CAPACITY_TYPES = {"true": "spot", "standard": "on_demand", "regular": "on_demand"}
# Endings of names: numbers, of kubectl's generateName, of Ray clusters.
_ENDING = "(-raycluster)?([-_.]([bcdfghjklmnpqrstvwxz2456789]{5}|[0-9]+))*"
_SHARE = "SELECT max(gpus / units) FROM allocations WHERE lower(resource) = $1 AND units > 0"
_TEAM = """
SELECT arg_max(c.team, (regexp_full_match(a.workload, $workload), c.from_ms))
FROM cost_daily AS c JOIN allocations AS a USING (allocation_id)
WHERE coalesce(a.namespace = $namespace, regexp_full_match(a.workload, $workload))"""
_KINDS = (
    "Deployment ReplicaSet StatefulSet RayCluster Pod Job CronJob JobSet RayJob PyTorchJob MPIJob TFJob JAXJob PaddleJob "
    "XGBoostJob"
)
_FIX = f"give an sbatch script, or a manifest of {_KINDS}"
# Keys on the way to the specs of pods.
_WAY = re.compile(
    "spec|template|jobTemplate|runPolicy|replicatedJobs|rayClusterSpec|headGroupSpec|workerGroupSpecs|"
    "[a-z]+ReplicaSpecs|Master|Worker|Launcher|Chief|PS|Evaluator"
)


# Short directives of sbatch, in the form of `-N 2` or `-N2`.
_SHORT = dict(zip("NnGtAJa", "nodes ntasks gpus time account job-name array".split(), strict=True))  # noqa: SIM905
_DIRECTIVE = re.compile(
    r"(?:^|\s)--?([a-z-]{2,30}|[a-zA-Z])(?:\s*=\s*|\s+|(?<=\s-\w))(\x22[^\x22]*\x22|[^\s#-]\S*)"
)
_GRES = re.compile(r"(?:^|,)gpu(?::([^:,]+))??(?::(\d+))?(?=,|$)")


@frozen_dataclass
class Requested:
    """GPUs that a workload requests: units by resource, named as in kube-state-metrics (of Slurm: gres_gpu_TYPE).

    `labels` select its nodes. It is stopped after `seconds`, if they are not 0. Units are of one of `tasks`, the jobs of
    an array.
    """

    file: Path
    workload: str
    namespace: str | None
    units: Units
    labels: dict[str, str]
    seconds: int
    tasks: int = 1


@frozen_dataclass
class Place:
    """GPUs of one model and capacity type in the store.

    The price is the report's cost of a GPU-hour, allocated or not, in the newest 30 days.
    The hours are percentiles of the finished runs there, None without any.
    """

    gpu_model: str | None
    capacity_type: str
    price_per_gpu_hour: Decimal
    runs: int
    hours_p50: Decimal | None
    hours_p95: Decimal | None

    def cost(self, gpus: Decimal, hours: Decimal | None) -> Decimal | None:
        """The cost of GPUs for these hours, None if they are unknown."""
        return hours and round(self.price_per_gpu_hour * gpus * hours, 9)

    @property
    def median_cost(self) -> Decimal:
        """The cost of one GPU for a run of median length, 0 without runs."""
        return self.cost(Decimal(1), self.hours_p50) or Decimal(0)


@frozen_dataclass
class WorkloadQuote(Shape):
    """The expected cost of a workload, None if unknown.

    `hours_source` is:
    option: --hours
    month: the rest of the month, for services
    history: finished runs with its name in `place`
    limit: its time limit as hours_p95, None without one

    `cheaper` is a place with at least three finished runs whose median hours cost less.
    """

    request: Requested
    team: str | None
    gpus: Decimal
    hours_source: str
    place: Place
    cost_p50: Decimal | None
    cost_p95: Decimal | None
    cheaper: Place | None

    FLAT = ("request", "place")


@frozen_dataclass
class BudgetLeft:
    """The rest of a month's budget.

    `cost_p95` is the known cost of the workloads that it pays.
    """

    name: str
    team: str | None
    left: Decimal
    cost_p95: Decimal


@frozen_dataclass
class FileQuotes:
    """The answer of `gpucost quote --file`; the budgets are of `month`."""

    currency: str
    month: str
    workloads: list[WorkloadQuote]
    budgets: list[BudgetLeft]


def read(path: Path) -> list[Requested]:
    """The workloads of a file that request GPUs, in order.

    Raises DataError for a file that cannot be read, and unknown resources and kinds.
    """
    found = []
    try:
        text = inputs.text(path, inputs.SETTINGS)
        if text.startswith("#!"):
            found, text = [_script(path, text)], ""
        for document in yaml.load_all(text, _Loader):
            kind, keys = _get(document, "kind", str), set(_keys(document))
            if kind in _KINDS.split():
                found.append(_requested(path, document, keys))
            elif "containers" in keys or {"resources", "GPUs"} <= keys:
                raise ValueError(f"kind {kind} is not supported")
        # the limit of --gpus
        if any(each.units.total() * each.tasks > 10_000_000 for each in found):
            raise ValueError("more than 10,000,000 GPUs")
    except Exception as error:  # PyYAML raises errors of any kind for odd tags, such as `!!bool x`
        raise inputs.unreadable(path, error, _FIX) from error
    return [each for each in found if each.units]


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Refuse aliases, whose nested merges grow without bound, and join surrogate pairs."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("aliases (*name) are not supported")
        return super().compose_node(parent, index)

    def construct_scalar(self, node: Any) -> Any:
        # JSON escapes characters beyond U+FFFF as pairs; half a pair is not text
        return super().construct_scalar(node).encode("utf-16", "surrogatepass").decode("utf-16")


def _keys(node: Any) -> Iterator[str]:
    """The keys of all objects in it whose value is not empty or 0; 'GPUs' for devices."""
    if isinstance(node, list):
        node = dict(enumerate(node))
    if isinstance(node, dict):
        for key, child in node.items():
            if child and child != "0":
                name = re.sub(r"\W", "_", str(key))
                yield "GPUs" if re.fullmatch(catalog.devices(), name, re.IGNORECASE) else name
                yield from _keys(child)


def _object(node: Any) -> Any:
    """The object without its null values. Raises ValueError."""
    if node and not isinstance(node, dict):
        raise ValueError(f"{node!r:.40} is not an object")
    return {key: child for key, child in (node or {}).items() if child is not None}


def _get(node: Any, key: str, kind: type = dict) -> Any:
    """The value of a key, empty if it is missing. Raises ValueError for one of another kind."""
    value = _object(node).get(key) or kind()
    if not isinstance(value, kind):
        raise ValueError(f"invalid {key}: {value!r:.40}")
    return value


def _number(value: Any) -> int:
    """A quantity of whole units. Raises ValueError."""
    if not re.fullmatch(r"\d{1,9}", str(value)):
        raise ValueError(f"invalid quantity {value!r}")
    return int(value)


def _requested(file: Path, document: Any, keys: Any) -> Requested:
    if keys & {"resourceClaims", "claims"}:
        raise ValueError("resource claims are not supported")
    units, labels, seconds = Units(), dict[str, str](), 0
    for copies, node in _nodes(document, 1):
        seconds = max(seconds, _number(node.get("activeDeadlineSeconds", 0)))
        for resource, amount in _units(node).items():
            units[resource] += amount * copies
            labels |= {f"{key}": f"{text}" for key, text in _get(node, "nodeSelector").items()}
        if re.search(
            "gpu|accelerator|instance|capacity|spot", str(_get(_get(node, "affinity"), "nodeAffinity"))
        ):
            raise ValueError("nodeAffinity is not supported; use nodeSelector")
    if not units and "GPUs" in keys:
        raise ValueError("GPUs outside the specs of pods are not supported")
    metadata = _get(document, "metadata")
    name = _get(metadata, "name", str) or _get(metadata, "generateName", str)
    if not name:
        raise ValueError("metadata.name is missing")
    name = f"{document['kind']}/{name}"
    return Requested(file, name, _get(metadata, "namespace", str) or None, +units, labels, seconds)


def _nodes(node: Any, copies: int) -> Iterator[tuple[int, Any]]:
    """The objects on the way to the specs of pods, and these, each with its number of copies."""
    for each in map(_object, node if isinstance(node, list) else [node]):
        # groups of Ray workers have no replicas by default
        replicas = each.get("replicas", each.get("minReplicas", int("groupName" not in each)))
        times = copies * _number(replicas) * _number(each.get("parallelism", 1))
        yield times, each
        for key, child in each.items():
            if _WAY.fullmatch(key):
                yield from _nodes(child, times)


def _units(pod: Any) -> Units:
    """The larger of the sum of containers and sidecars, and the largest init container."""
    total, largest = Units(), Units()
    containers = _get(pod, "containers", list)
    for container in (*containers, *_get(pod, "initContainers", list)):
        held = _devices(container)
        if container in containers or container.get("restartPolicy") == "Always":
            total += held
        else:
            largest |= held
    return total | largest


def _devices(container: Any) -> Units:
    """The devices, slices and slots of a container. Raises ValueError for a resource that the catalog lacks."""
    units = Units()
    resources = _get(container, "resources")
    for resource, amount in (_get(resources, "requests") | _get(resources, "limits")).items():
        name = re.sub(r"\W", "_", f"{resource}")
        if re.fullmatch(catalog.devices(), name, re.IGNORECASE):
            units[name.lower()] = _number(amount)
        elif not re.fullmatch(f"{catalog.accelerators()}|{catalog.other_resources()}", name, re.IGNORECASE):
            raise ValueError(f"pricing/resources.csv lacks the resource {resource}")
    return units


def _script(file: Path, text: str) -> Requested:
    """The job of an sbatch script, by its directives before the first command (man sbatch).

    GPUs are a total (--gpus), or a number per node or task.
    A range of nodes counts its upper end.
    Raises ValueError for a number, time or array that cannot be read.
    """
    head = re.sub(r"(?ms)^[ \t]*[^#\s].*", "", text)
    directives = _DIRECTIVE.findall(" ".join(re.findall("(?m)^#SBATCH(.*)", head)))
    given = {_SHORT.get(name, name): value.strip("'\"") for name, value in directives}
    nodes = _number(given.get("nodes", "1").rpartition("-")[2])
    tasks = _number(given.get("ntasks", nodes * _number(given.get("ntasks-per-node", 1))))
    times = {"gpus": 1, "gpus-per-node": nodes, "gpus-per-task": tasks}
    name = next((name for name in times if name in given), "")
    gres = "gpu:" + given[name].replace(",", ",gpu:") if name else given.get("gres", "")
    if given.keys() & {"gpus-per-socket", "tres-per-task"} or "shard" in gres:
        raise ValueError("GPUs are read from --gpus, --gpus-per-node, --gpus-per-task and --gres=gpu only")
    units = Units()
    for kind, count in _GRES.findall(gres):
        units[f"gres_gpu_{kind}".strip("_").lower()] += _number(count or 1) * times.get(name, nodes)
    kinds = {resource[9:] for resource in units}
    time = re.sub("(?i)^(unlimited|infinite)$", "0", given.get("time", "0"))
    seconds = length(time + ":00" * (("-" in time) + 1 - time.count(":"))) or 0
    array = given.get("array", "0")
    spans = re.findall(r"(\d+)(?:-(\d+))?(?::(\d+))?", array.partition("%")[0])
    jobs = sum(len(range(int(first), int(last or first) + 1, int(step or 1))) for first, last, step in spans)
    if not jobs:
        raise ValueError(f"invalid --array {array!r}")
    return Requested(
        file,
        f"Job/{given.get('job-name', file.name)}",
        given.get("account"),
        units,
        {"gpu": kinds.pop()} if len(kinds - {""}) == 1 else {},
        seconds // 1000,
        jobs,
    )


def quoted(request: Request, files: Sequence[Path], hours: Decimal | None, *, brief: bool) -> Document:
    """The expected cost of the workloads in these files; exit code 3 if it exceeds the rest of a budget."""
    wanted = [*chain.from_iterable(map(read, files))]
    period, month = chosen_month(request)
    view, days = costs_by_day(request, period)
    end = month_period(request.now.astimezone(request.tz).date(), request.tz).end_ms
    rest = Decimal(end - to_ms(request.now)) / MS_PER_HOUR
    with request.store.read() as con:
        rows = [_workload(con, each, hours, rest) for each in wanted]
    budgets = []
    for state in check(request.settings, view, days, tuple(local_days(period, request.tz))):
        costs = [row.cost_p95 or Decimal(0) for row in rows if state.team in (None, row.team)]
        if state.amount and costs:
            left = state.amount - state.forecast.to_date
            budgets.append(BudgetLeft(state.name, state.team, left, sum(costs, Decimal(0))))
    answer = FileQuotes(request.settings.currency, month, rows, budgets)
    lines = tuple(_lines(answer, files))
    return Document(
        title=f"Expected cost, and budgets of {month}",
        currency=answer.currency,
        sections=(Texts("Files", lines),),
        lines=lines if brief else (),
        name="quote.files",
        data=answer,
        flat=table(rows, _COLUMNS.split()),
        exit_code=MISSED if any(budget.cost_p95 > budget.left for budget in budgets) else 0,
    )


def _workload(con: Any, request: Requested, hours: Decimal | None, rest: Decimal) -> WorkloadQuote:
    """The quote of a workload.

    Raises GpucostError if no GPU of the store fits its labels of nodes.
    """
    kind, name = request.workload.split("/", 1)
    # runs with its name, otherwise with another number
    for base in (name, re.sub(r"([-_.]\d+)+$", "", name)):
        names = {
            "workload": f"({kind}|Job|RayCluster)/{re.escape(base.rstrip('-'))}{_ENDING}",
            "namespace": request.namespace,
        }
        places = [Place(**row) for row in answer_rows(con, "gpucost.questions.quote", "10_places", names)]
        if any(place.runs for place in places):
            break
    selected = grouped(_selected(request.labels)).items()
    # most runs first, then the highest price
    for place in places:
        if all(getattr(place, name) in values for name, values in selected):
            break
    else:
        raise GpucostError(
            f"{request.file}: no GPU of the store fits {request.workload}",
            "gpucost quote MODEL --gpus COUNT shows list prices",
        )
    # services run until they are deleted
    source, low, high = "history", place.hours_p50, place.hours_p95
    if hours or kind in "Deployment ReplicaSet StatefulSet RayCluster":
        source = "option" if hours else "month"
        low = high = hours or rest
    elif not place.runs:
        source, high = "limit", Decimal(request.seconds) / 3600 or None
    place = replace(place, hours_p50=low, hours_p95=high)
    gpus = sum((units * _share(con, resource) for resource, units in request.units.items()), Decimal(0))
    every = gpus * request.tasks
    cheapest = min(
        (each for each in places if each.runs >= 3), key=lambda each: each.median_cost, default=place
    )
    return WorkloadQuote(
        request,
        value(con, _TEAM, names) or request.namespace,
        gpus,
        source,
        place,
        place.cost(every, low),
        place.cost(every, high),
        cheapest if source == "history" and cheapest.median_cost < place.median_cost else None,
    )


def _selected(labels: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The GPU models and capacity types of the labels of nodes, as fields of a place."""
    models = [row["gpu_model"] for row in facts("gpus.csv")]
    rows = [*facts("gpu_aliases.csv"), *facts("instances.csv")]
    aliases = {spelled(row.get("alias") or row["instance_type"]): row["gpu_model"] for row in rows}
    for key, text in labels.items():
        name = text.lower().replace("-", "_")
        if _CAPACITY.fullmatch(key):
            yield "capacity_type", _CAPACITY_TYPES.get(name, name)
        elif _MODEL.fullmatch(key):
            for model in gpu_models_called(text, models, aliases) or (text,):
                yield "gpu_model", model


def _share(con: Any, resource: str) -> Decimal:
    """The part of a GPU that a unit is, by the pods in the store. Raises DataError for slices and slots new to it."""
    share = value(con, _SHARE, [resource])
    if not share and re.search("_mig_|_shared", resource):
        raise DataError(f"no pod of the store held {resource}: its part of a GPU is unknown")
    return Decimal(str(share or 1))


def _lines(answer: FileQuotes, files: Sequence[Path]) -> Iterator[str]:
    """One line for each file: workloads, GPUs, p50 and p95 cost, a cheaper place, and budgets."""
    shown = partial(figure_text, unit="money", currency=answer.currency, decimals=2)
    workloads = grouped((row.request.file, row) for row in answer.workloads)
    for file in files:
        parts = [
            f"{'over ' * (each.cost_p95 > each.left)}budget {each.name}: {shown(each.left)} left"
            for each in answer.budgets
        ]
        for row in workloads.get(file, ()):
            costs = f"{shown(row.cost_p50)} to {shown(row.cost_p95)}{' per run' * row.request.workload.startswith('CronJob/')}"
            parts.append(
                f"{row.request.workload}: {round(row.gpus * row.request.tasks, 3).normalize():f} × {row.place.gpu_model}, {costs}"
            )
            if row.cheaper:
                parts.append(f"cheaper: {row.cheaper.gpu_model}, {row.cheaper.capacity_type}")
        yield f"{file}: {'; '.join(parts) if file in workloads else 'requests no GPUs'}"
