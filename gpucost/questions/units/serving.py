"""Cost per 1,000 requests and per million tokens, by model and local day."""

from dataclasses import field
from decimal import Decimal
from typing import NotRequired

from typing_extensions import TypedDict

from gpucost.config.model import DEFAULT_PROMPT_WEIGHT
from gpucost.engine import answer_rows, dicts, run_stage
from gpucost.errors import UsageError
from gpucost.options import Names
from gpucost.questions.report.processes import processes
from gpucost.questions.report.rows import in_hours
from gpucost.questions.units.query import (
    PACKAGE,
    PLACE,
    Item,
    Located,
    ModelWithoutCost,
    UnitAnswer,
    UnitQuery,
    UnitTotals,
    UnitView,
    per,
    plain,
    prepare,
    total,
    with_remainders,
)
from gpucost.records import DuckDBPyConnection, frozen_dataclass, grouped_by
from gpucost.render.view import ApiModel
from gpucost.store.sqlfiles import column


class Served(TypedDict):
    """The cost of models with work."""

    cost: Decimal
    idle_cost: Decimal
    allocated_gpu_hours: float
    active_gpu_hours: float
    cost_per_active_gpu_hour: Decimal | None


class RequestFigures(Served):
    """Adds the counted units, without failed ones."""

    unit: str
    amount: float
    failed: float
    cost_per_1000: Decimal | None


class TokenFigures(Served):
    """Adds the tokens.

    `prompt_cost`, `generation_cost` and `unserved_cost` (models without tokens in the period) add up to `cost`, minus
    `idle_cost` on the basis `used`. `cached_tokens` are part of the prompt tokens, `cache_saved_cost` is their cost
    without the cache; null if no server counts them.
    """

    prompt_tokens: float
    cached_tokens: float | None
    generation_tokens: float
    prompt_cost: Decimal
    generation_cost: Decimal
    unserved_cost: Decimal
    cache_saved_cost: Decimal | None
    cost_per_million_tokens: Decimal | None
    cost_per_million_prompt_tokens: Decimal | None
    cost_per_million_generation_tokens: Decimal | None


class Model(Located):
    """A model of a workload."""

    model: str | None


class RequestModel(Model, RequestFigures):
    """In a period."""


class Dimensions(TypedDict):
    """A workload's model on a local day, or a row of `--by`.

    Dimensions outside `--by` are null. A workload on GPUs or parts of several kinds names all of them.
    """

    cluster: str | None
    namespace: str | None
    workload: str | None
    team: str | None
    gpu_model: str | None
    partition: str | None
    model: str | None
    day: str | None


class RequestRow(Dimensions, RequestFigures):
    """The requests of a row."""


class RequestTotals(UnitTotals, RequestFigures):
    """Over all models."""


class Requests(UnitAnswer):
    """The output of `gpucost unit requests`."""

    rows: list[RequestRow]
    totals: RequestTotals
    models: list[RequestModel]
    work_without_cost: list[ModelWithoutCost]


class TokenModel(Model, TokenFigures):
    """In a period."""


class TokenRow(Dimensions, TokenFigures):
    """The tokens of a row; an unknown tenant is null."""

    tenant: str | None


class TokenTotals(UnitTotals, TokenFigures):
    """Over all models."""


class Tokens(UnitAnswer):
    """The output of `gpucost unit tokens`; `basis` is `allocated`, or `used`: no token's price includes idle cost.

    `bought` is present if bills contain bought tokens; they are in no row and total.
    """

    basis: str
    rows: list[TokenRow]
    totals: TokenTotals
    models: list[TokenModel]
    bought: NotRequired[list[ApiModel]]
    work_without_cost: list[ModelWithoutCost]


PROMPT, GENERATION, CACHED = "prompt_token", "generation_token", "cached_token"
# The weight of a token if cost is split by work. The weight of prompt tokens is a setting of their mapping.
_WEIGHTS = {PROMPT: DEFAULT_PROMPT_WEIGHT, GENERATION: 1.0, CACHED: 0.0}
_MODEL = (*PLACE, "team", "model")
#: The dimensions of rows of requests, and of tokens.
REQUEST_DIMENSIONS = (*_MODEL, "gpu_model", "partition", "day")
DIMENSIONS = (*REQUEST_DIMENSIONS, "tenant")

# Units of servers; other units can be of any workload.
_SERVED = {"request", "prompt_token", "generation_token"}
_PARTS = ("prompt_cost", "generation_cost", "unserved_cost")


@frozen_dataclass
class _Measure:
    """How an answer counts work.

    `counts` are columns of amounts or failures of a unit; `parts` of a table are those of cost besides the whole.
    `prices` are columns of a cost, from the named parts, over counts, with a scale.
    """

    name: str
    title: str
    units: Names
    counts: dict[str, tuple[str, str]]
    prices: dict[str, tuple[Names, Names, int]]
    weights: dict[str, float] = field(default_factory=dict)
    table: str = "unit_serving"
    parts: Names = ()
    dimensions: Names = REQUEST_DIMENSIONS

    def days(self, con: DuckDBPyConnection, table: str) -> list[Item]:
        """The rows of a table, with a column for each count."""
        con.execute(f"FROM {table} ORDER BY day, cluster, namespace, workload, model")
        days = []
        for row in dicts(con):
            counts = {name: (row[kind] or {}).get(unit) for name, (kind, unit) in self.counts.items()}
            days.append(in_hours({"tenant": None} | row | {"model": row["model"] or None} | counts))
        return days

    def figures(self, days: list[Item]) -> Item:
        """Work and cost summed over several days."""
        cost, active = total(days), sum(day["active_gpu_hours"] for day in days)
        counts = {name: sum((day[name] or 0.0 for day in days), 0.0) for name in self.counts}
        parts: dict[str, Decimal | None] = {}
        for name in self.parts:
            measured = [day for day in days if day[name] is not None]
            parts[name] = total(measured, name) if measured or name in _PARTS else None
        money = {name: part or Decimal(0) for name, part in parts.items()} | {"cost": cost}
        prices = {
            name: per(
                sum((money[cost] for cost in costs), Decimal(0)),
                sum(counts[column] for column in columns),
                scale,
            )
            for name, (costs, columns, scale) in self.prices.items()
        }
        work: Item = {name: plain(amount) for name, amount in counts.items()}
        # null, not zero, if no server counts it
        if all(day.get("cached_tokens") is None for day in days) and "cached_tokens" in work:
            work["cached_tokens"] = None
        return {
            **({"unit": self.units[0]} if len(self.units) == 1 else {}),
            **work,
            "cost": cost,
            "idle_cost": total(days, "idle_cost"),
            **parts,
            **prices,
            "allocated_gpu_hours": round(sum(day["allocated_gpu_hours"] for day in days), 9),
            "active_gpu_hours": round(active, 9),
            "cost_per_active_gpu_hour": per(cost, active),
        }


def requests(con: DuckDBPyConnection, query: UnitQuery, unit: str = "request", by: Names = ()) -> UnitView:
    """The cost per 1,000 of `unit`, by workload, model and day, including the cost of idle time.

    Rows are by any of REQUEST_DIMENSIONS if `by` names some. Raises UsageError for a unit without any counts.
    """
    units = column(con, "SELECT DISTINCT unit FROM progress_series ORDER BY unit")
    if unit != "request" and unit not in units:
        raise UsageError(
            f"unit without known work: {unit!r}", f"--count takes any of: {', '.join(units) or 'none yet'}"
        )
    measure = _Measure(
        "unit.requests",
        f"Cost per 1,000 {unit.replace('_', ' ')}s",
        (unit,),
        {"amount": ("amounts", unit), "failed": ("failures", unit)},
        {"cost_per_1000": (("cost",), ("amount",), 1000)},
    )
    return _serving(con, query, measure, by=by)


_TOKENS = _Measure(
    "unit.tokens",
    "Cost per million tokens",
    tuple(_WEIGHTS),
    {
        "prompt_tokens": ("amounts", PROMPT),
        "cached_tokens": ("amounts", CACHED),
        "generation_tokens": ("amounts", GENERATION),
    },
    {
        "cost_per_million_tokens": (_PARTS, ("prompt_tokens", "generation_tokens"), 1_000_000),
        "cost_per_million_prompt_tokens": (("prompt_cost",), ("prompt_tokens",), 1_000_000),
        "cost_per_million_generation_tokens": (("generation_cost",), ("generation_tokens",), 1_000_000),
    },
    _WEIGHTS,
    "unit_tokens",
    (*_PARTS, "cache_saved_cost"),
    DIMENSIONS,
)


def tokens(con: DuckDBPyConnection, query: UnitQuery, basis: str = "allocated", by: Names = ()) -> UnitView:
    """The cost per million tokens, by workload, model and day.

    Prompt and generated tokens share the cost by their weights. On the `used` basis, the cost of idle GPUs is in no
    price; it is shown separately. Rows are by any of DIMENSIONS if `by` names some: by day, each day's most expensive
    first.
    """
    view = _serving(con, query, _TOKENS, keeps_idle=basis == "used", by=by)
    view.facts["basis"] = basis
    if not query.config.serving.prefill and (pools := _undeclared(view.sections["models"])):
        view.notes.append(
            f"{' and '.join(pools)} look like pools of one model, and both count its prompts: set [serving] to join them"
        )
    return view


def _undeclared(models: list[Item]) -> list[str]:
    """Workloads of one model and namespace with names of pools."""
    for phases in grouped_by(models, "cluster", "namespace", "model").values():
        found = [
            next((row["workload"] for row in phases if word in row["workload"]), None)
            for word in ("prefill", "decode")
        ]
        if all(found):
            return [name for name in found if name]
    return []


# The work without a cost in the period, with the reason: without filters, a day's work is either in unit_serving or
# here.
_WITHOUT_COST = """
SELECT coalesce(w.workload, w.label) AS workload, w.namespace, nullif(w.model, '') AS model, w.unit, sum(w.amount) AS amount,
    sum(w.failed) AS failed, min(w.day) AS since, w.source,
    CASE WHEN w.workload IS NULL THEN 'no GPU pod has this name' ELSE 'its pods had no cost on that day' END AS why
FROM unit_work AS w
WHERE w.workload IS NULL OR NOT EXISTS (
    FROM unit_cells AS c WHERE c.cluster = w.cluster AND c.namespace = w.namespace AND c.workload = w.workload AND c.day = w.day)
GROUP BY w.cluster, w.namespace, w.workload, w.label, w.model, w.unit, w.source
HAVING sum(w.amount) + sum(w.failed) > 0
ORDER BY w.cluster, w.namespace, 1, w.model, w.unit, w.source"""


def token_hours(con: DuckDBPyConnection, query: UnitQuery) -> list[Item]:
    """Tokens, cost and GPU-hours held of own servers per hour, by workload and model, from `from_ms` on."""
    prepare(con, query, "hour")
    _count(con, query, _TOKENS)
    return answer_rows(con, PACKAGE, "66_token_hours")


def _count(
    con: DuckDBPyConnection, query: UnitQuery, measure: _Measure, *, keeps_idle: bool = False
) -> list[str]:
    """Make unit_work, unit_serving and the measure's table, if it differs. Returns notes about the counters."""
    doubts = processes(con, query.period, query.clusters)
    units = list(measure.units)
    run_stage(con, PACKAGE, "40_increases", {"units": units, **query.period.bounds})
    mapped = query.config.prompt_weights if measure.weights else {}
    weights = {
        "from_ms": query.period.start_ms,
        "mappings": list(mapped),
        "weights": list(mapped.values()),
        "units": units,
        "unit_weights": [measure.weights.get(unit, 1.0) for unit in units],
    }
    run_stage(con, PACKAGE, "50_work", weights)
    run_stage(con, PACKAGE, "60_serving")
    if measure.table == "unit_tokens":
        serving = query.config.serving
        pools = {"prefill": list(serving.prefill), "decode": list(serving.decode)}
        run_stage(con, PACKAGE, "65_tokens", {"keeps_idle": keeps_idle, **pools})
    return [f"{doubt.message}: {doubt.fix}" for doubt in doubts]


def _serving(
    con: DuckDBPyConnection, query: UnitQuery, measure: _Measure, *, keeps_idle: bool = False, by: Names = ()
) -> UnitView:
    doubts = _count(con, query, measure, keeps_idle=keeps_idle)
    days = measure.days(con, measure.table)
    models: list[Item] = [
        dict(zip(_MODEL, model, strict=True)) | measure.figures(served)
        for model, served in grouped_by(days, *_MODEL).items()
    ]
    models.sort(key=lambda row: (-row["cost"], *(row[name] or "" for name in _MODEL)))
    parts = [name for name in measure.parts if any(day[name] for day in days)]
    figures = (*measure.counts, "cost", "idle_cost", *parts, *measure.prices)
    parts_of_days, dimensions = days, by or measure.dimensions
    if "tenant" in by:
        run_stage(con, PACKAGE, "67_tenants", {"keeps_idle": keeps_idle})
        parts_of_days = measure.days(con, "unit_tenants")
    rows: list[Item] = [
        dict.fromkeys(measure.dimensions)
        | dict(zip(dimensions, values, strict=True))
        | measure.figures(served)
        for values, served in grouped_by(parts_of_days, *dimensions).items()
    ]
    if by:
        rows.sort(
            key=lambda row: (
                row["day"] or "",
                -row["cost"],
                *(row[name] or "" for name in measure.dimensions),
            )
        )
    view = UnitView(
        measure.name,
        measure.title,
        query,
        rows,
        measure.figures(days),
        {"models": models},
        {
            "rows": (*(by or ("namespace", "workload", "model", "day")), *figures),
            # the totals of models are shown next to rows by all dimensions
            **({} if by else {"models": ("namespace", "workload", "model", *figures)}),
            "work_without_cost": ("workload", "model", "unit", "amount", "since", "why"),
        },
        doubts,
    )
    if len(grouped_by(days, *PLACE)) < len(models):
        view.notes.append(
            "some workloads serve several models: each model's share of the cost is its share of the day's work"
        )
    if "tenant" in by and days and not any(row["tenant"] for row in rows):
        view.notes.append(
            "the tenant is unknown: set [[units]] tenant_label to the server's label for tenants"
        )
    if not days:
        names = " or ".join(unit.replace("_", " ") for unit in measure.units)
        view.notes.append(f"no {names} was counted in this period: run gpucost collect progress")
    counted = {unit for _, unit in measure.counts.values()}
    lost = [
        row | {"amount": plain(row["amount"]), "failed": plain(row["failed"])}
        for row in dicts(con.execute(_WITHOUT_COST))
        if row["unit"] in counted
    ]
    places = con.execute("SELECT DISTINCT cluster, namespace, workload FROM unit_serving").fetchall()
    kinds = () if _SERVED.isdisjoint(measure.units) else ("inference",)
    return with_remainders(con, view, lost, kinds, places)
