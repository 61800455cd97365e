"""Cost per 1,000 requests and per million tokens, by model and local day."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from gpucost.engine import dicts, run_stage
from gpucost.errors import UsageError
from gpucost.report.rows import in_hours
from gpucost.report.units.query import (
    PACKAGE,
    PLACE,
    Item,
    Located,
    ModelWithoutCost,
    UnitAnswer,
    UnitAsk,
    UnitTotals,
    UnitView,
    per,
    prepare,
    total,
    with_remainders,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckdb import DuckDBPyConnection


class Served(TypedDict):
    """What models cost that served something."""

    cost: Decimal
    idle_cost: Decimal
    allocated_gpu_hours: float
    active_gpu_hours: float
    cost_per_active_gpu_hour: Decimal | None


class RequestFigures(Served):
    """And what was counted; failed ones are not."""

    unit: str
    amount: float
    failed: float
    cost_per_1000: Decimal | None


class TokenFigures(Served):
    """And the tokens."""

    prompt_tokens: float
    generation_tokens: float
    cost_per_million_tokens: Decimal | None
    cost_per_million_prompt_tokens: Decimal | None
    cost_per_million_generation_tokens: Decimal | None


class Model(Located):
    """A model that a workload serves."""

    model: str | None


class RequestModel(Model, RequestFigures):
    """Of a period."""


class RequestDay(RequestModel):
    """Of a local day."""

    day: str


class RequestTotals(UnitTotals, RequestFigures):
    """Of all models."""


class Requests(UnitAnswer):
    """What `gpucost unit requests` prints."""

    rows: list[RequestDay]
    totals: RequestTotals
    models: list[RequestModel]
    work_without_cost: list[ModelWithoutCost]


class TokenModel(Model, TokenFigures):
    """Of a period."""


class TokenDay(TokenModel):
    """Of a local day."""

    day: str


class TokenTotals(UnitTotals, TokenFigures):
    """Of all models."""


class Tokens(UnitAnswer):
    """What `gpucost unit tokens` prints."""

    rows: list[TokenDay]
    totals: TokenTotals
    models: list[TokenModel]
    work_without_cost: list[ModelWithoutCost]


PROMPT, GENERATION = "prompt_token", "generation_token"
_MODEL = (*PLACE, "team", "model")


def requests(con: DuckDBPyConnection, ask: UnitAsk, unit: str = "request", *, is_prepared: bool = False) -> UnitView:
    """What 1,000 of `unit` cost, by workload, model and day; with what models cost while they did nothing.

    Raises UsageError for a unit that nothing was ever counted in.
    """

    def figures(days: list[Item]) -> Item:
        done = _work(days, "amounts", unit)
        return {
            "unit": unit,
            "amount": _plain(done),
            "failed": _plain(_work(days, "failures", unit)),
            "cost": total(days),
            "idle_cost": total(days, "idle_cost"),
            "cost_per_1000": per(total(days), done, 1000),
        }

    units = [row["unit"] for row in dicts(con.execute("SELECT DISTINCT unit FROM progress_series ORDER BY unit"))]
    if unit != "request" and unit not in units:
        raise UsageError(f"no work is known in the unit {unit!r}", f"--count takes one of: {', '.join(units) or 'none yet'}")
    shown = ("amount", "failed", "cost", "idle_cost", "cost_per_1000")
    if not is_prepared:
        prepare(con, ask)
    title = f"Cost per 1,000 {unit.replace('_', ' ')}s"
    return _serving(con, UnitView("unit.requests", title, ask, [], {}), (unit,), figures, shown)


def tokens(con: DuckDBPyConnection, ask: UnitAsk, *, is_prepared: bool = False) -> UnitView:
    """What a million tokens cost, by workload, model and day: of all tokens, and of prompt and generated ones each by itself."""

    def figures(days: list[Item]) -> Item:
        prompt, generated = _work(days, "amounts", PROMPT), _work(days, "amounts", GENERATION)
        return {
            "prompt_tokens": _plain(prompt),
            "generation_tokens": _plain(generated),
            "cost": total(days),
            "idle_cost": total(days, "idle_cost"),
            "cost_per_million_tokens": per(total(days), prompt + generated, 1_000_000),
            "cost_per_million_prompt_tokens": per(total(days), prompt, 1_000_000),
            "cost_per_million_generation_tokens": per(total(days), generated, 1_000_000),
        }

    shown = (
        "prompt_tokens", "generation_tokens", "cost", "idle_cost",
        "cost_per_million_tokens", "cost_per_million_prompt_tokens", "cost_per_million_generation_tokens",
    )  # fmt: skip
    if not is_prepared:
        prepare(con, ask)
    return _serving(con, UnitView("unit.tokens", "Cost per million tokens", ask, [], {}), (PROMPT, GENERATION), figures, shown)


# The work that no cost of the period belongs to, with why: work on a day is either in unit_serving or here, filters apart.
_WITHOUT_COST = """
SELECT coalesce(w.workload, w.label) AS workload, w.namespace, nullif(w.model, '') AS model, w.unit, sum(w.amount) AS amount,
    sum(w.failed) AS failed, min(w.day) AS since, w.source,
    CASE WHEN w.workload IS NULL THEN 'no pod with GPUs is known by this name' ELSE 'its pods cost nothing on that day' END AS why
FROM unit_work AS w
WHERE w.workload IS NULL OR NOT EXISTS (
    FROM unit_cells AS c WHERE c.cluster = w.cluster AND c.namespace = w.namespace AND c.workload = w.workload AND c.day = w.day)
GROUP BY w.cluster, w.namespace, w.workload, w.label, w.model, w.unit, w.source
HAVING sum(w.amount) + sum(w.failed) > 0
ORDER BY w.cluster, w.namespace, 1, w.model, w.unit, w.source"""


def _serving(
    con: DuckDBPyConnection,
    view: UnitView,
    units: tuple[str, ...],
    figures: Callable[[list[Item]], Item],
    shown: tuple[str, ...],
) -> UnitView:
    """The view, filled; `figures` are those of several days together, `shown` the columns of people's tables."""
    period = view.ask.period
    run_stage(con, PACKAGE, "40_increases", {"units": list(units), "to_ms": period.end_ms})
    run_stage(con, PACKAGE, "50_work", {"from_ms": period.start_ms})
    run_stage(con, PACKAGE, "60_serving")
    con.execute("FROM unit_serving ORDER BY day, cluster, namespace, workload, model")
    days = [in_hours(day | {"model": day["model"] or None}) for day in dicts(con)]
    days_of: dict[tuple[Any, ...], list[Item]] = defaultdict(list)
    for day in days:
        days_of[tuple(day[name] for name in _MODEL)].append(day)
    models = [dict(zip(_MODEL, model, strict=True)) | figures(served) | _hours(served) for model, served in days_of.items()]
    models.sort(key=lambda row: (-row["cost"], *(row[name] or "" for name in _MODEL)))
    view.rows = [{name: day[name] for name in (*_MODEL, "day")} | figures([day]) | _hours([day]) for day in days]
    view.totals = figures(days) | _hours(days)
    view.sections = {"models": models}
    view.shown = {
        "rows": ("namespace", "workload", "model", "day", *shown),
        "models": ("namespace", "workload", "model", *shown),
        "work_without_cost": ("workload", "model", "unit", "amount", "since", "why"),
    }
    if len({tuple(day[name] for name in PLACE) for day in days}) < len(models):
        view.notes.append("workloads that serve several models: each model's share of the cost is its share of the day's work")
    if not days:
        names = " or ".join(unit.replace("_", " ") for unit in units)
        view.notes.append(f"no {names} is known in this period: gpucost collect progress")
    lost = [row | {name: _plain(row[name]) for name in ("amount", "failed")} for row in dicts(con.execute(_WITHOUT_COST))]
    return with_remainders(con, view, lost)


def _work(days: list[Item], kind: str, unit: str) -> float:
    return sum(((day[kind] or {}).get(unit, 0.0) for day in days), 0.0)


def _plain(work: float) -> float | int:
    """Work as it is shown: whole numbers without a point."""
    return int(work) if work.is_integer() else round(work, 6)


def _hours(days: list[Item]) -> Item:
    allocated, active = (sum(day[f"{name}_gpu_hours"] for day in days) for name in ("allocated", "active"))
    return {
        "allocated_gpu_hours": round(allocated, 9),
        "active_gpu_hours": round(active, 9),
        "cost_per_active_gpu_hour": per(total(days), active),
    }
