"""Cost per 1,000 requests and per million tokens, by model and local day."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from gpucost.engine import dicts, run_stage
from gpucost.errors import UsageError
from gpucost.report.units.query import (
    PACKAGE,
    Item,
    Located,
    ModelWithoutCost,
    UnitAnswer,
    UnitAsk,
    UnitTotals,
    UnitView,
    amount,
    cost_without_work,
    hours,
    per,
    prepare,
    without_cost,
    without_work,
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
_PLACE = ("cluster", "namespace", "workload", "team", "model")
_SUMS = ("cost", "idle_cost", "allocated_gpu_hours", "active_gpu_hours")


def requests(con: DuckDBPyConnection, ask: UnitAsk, unit: str = "request", *, is_prepared: bool = False) -> UnitView:
    """What 1,000 of `unit` cost, by workload, model and day; with what models cost while they did nothing.

    Raises UsageError for a unit that nothing was ever counted in.
    """

    def figures(sums: Item) -> Item:
        done, failed = sums.get(unit, 0.0), sums.get(f"failed {unit}", 0.0)
        return {
            "unit": unit,
            "amount": amount(done),
            "failed": amount(failed),
            "cost": sums["cost"],
            "idle_cost": sums["idle_cost"],
            "cost_per_1000": per(sums["cost"], done, 1000),
        }

    units = [row["unit"] for row in dicts(con.execute("SELECT DISTINCT unit FROM progress_series ORDER BY unit"))]
    if unit != "request" and unit not in units:
        raise UsageError(f"no work is known in the unit {unit!r}", f"--count takes one of: {', '.join(units) or 'none yet'}")
    shown = ("namespace", "workload", "model", "day", "amount", "failed", "cost", "idle_cost", "cost_per_1000")
    names = ("unit.requests", f"Cost per 1,000 {unit.replace('_', ' ')}s")
    if not is_prepared:
        prepare(con, ask)
    return _serving(con, ask, (unit,), figures, names, shown)


def tokens(con: DuckDBPyConnection, ask: UnitAsk, *, is_prepared: bool = False) -> UnitView:
    """What a million tokens cost, by workload, model and day: of all tokens, and of prompt and generated ones each by itself."""

    def figures(sums: Item) -> Item:
        prompt, generated = sums.get(PROMPT, 0.0), sums.get(GENERATION, 0.0)
        return {
            "prompt_tokens": amount(prompt),
            "generation_tokens": amount(generated),
            "cost": sums["cost"],
            "idle_cost": sums["idle_cost"],
            "cost_per_million_tokens": per(sums["cost"], prompt + generated, 1_000_000),
            "cost_per_million_prompt_tokens": per(sums["cost"], prompt, 1_000_000),
            "cost_per_million_generation_tokens": per(sums["cost"], generated, 1_000_000),
        }

    shown = (
        "namespace", "workload", "model", "day", "prompt_tokens", "generation_tokens", "cost", "idle_cost",
        "cost_per_million_tokens", "cost_per_million_prompt_tokens", "cost_per_million_generation_tokens",
    )  # fmt: skip
    if not is_prepared:
        prepare(con, ask)
    return _serving(con, ask, (PROMPT, GENERATION), figures, ("unit.tokens", "Cost per million tokens"), shown)


# The work that no cost of the period belongs to, with why: work on a day is either in unit_serving or here, filters apart.
_WITHOUT_COST = """
SELECT w.cluster, w.namespace, coalesce(w.workload, w.told) AS workload, w.model, w.unit, w.source, min(w.day) AS first_day,
    sum(w.amount) AS amount, sum(w.failed) AS failed, w.workload IS NULL AS is_unknown
FROM unit_work AS w
WHERE w.workload IS NULL OR NOT EXISTS (
    FROM unit_cells AS c WHERE c.cluster = w.cluster AND c.namespace = w.namespace AND c.workload = w.workload AND c.day = w.day)
GROUP BY w.cluster, w.namespace, coalesce(w.workload, w.told), w.model, w.unit, w.source, w.workload IS NULL
HAVING sum(w.amount) + sum(w.failed) > 0
ORDER BY ALL"""


def _serving(
    con: DuckDBPyConnection,
    ask: UnitAsk,
    units: tuple[str, ...],
    figures: Callable[[Item], Item],
    names: tuple[str, str],
    shown: tuple[str, ...],
) -> UnitView:
    run_stage(con, PACKAGE, "40_increases", {"units": list(units), "to_ms": ask.period.end_ms})
    run_stage(con, PACKAGE, "50_work", {"from_ms": ask.period.start_ms})
    run_stage(con, PACKAGE, "60_serving")
    con.execute("FROM unit_serving ORDER BY day, cluster, namespace, workload, model")
    days = [_flat(day) for day in dicts(con)]
    rows = [{**{key: day[key] for key in (*_PLACE, "day")}, **figures(day), **_hours(day)} for day in days]
    models: dict[tuple[Any, ...], Item] = {}
    for day in days:
        _add(models.setdefault(tuple(day[key] for key in _PLACE), {key: day[key] for key in _PLACE}), day)
    by_model = [{**{key: sums[key] for key in _PLACE}, **figures(sums), **_hours(sums)} for sums in models.values()]
    by_model.sort(key=lambda row: (-row["cost"], *(row[key] or "" for key in _PLACE)))
    lost = [] if ask.is_narrowed else without_cost(dicts(con.execute(_WITHOUT_COST)))
    rest = cost_without_work(without_work(con, [(day["cluster"], day["namespace"], day["workload"]) for day in days]))
    whole: Item = {}
    for day in days:
        _add(whole, day)
    _add(whole, dict.fromkeys(_SUMS, 0) | {"cost": Decimal(0), "idle_cost": Decimal(0)})
    apart = sum((row["cost"] for row in rest), Decimal(0))
    totals = {**figures(whole), **_hours(whole), "cost_without_work": apart, "allocated_cost": whole["cost"] + apart}
    view = UnitView(
        names[0],
        names[1],
        ask,
        rows,
        totals,
        {"models": by_model, "work_without_cost": lost, "cost_without_work": rest},
        {
            "rows": shown,
            "models": tuple(name for name in shown if name != "day"),
            "work_without_cost": ("workload", "model", "unit", "amount", "since", "why"),
            "cost_without_work": ("namespace", "workload", "team", "cost", "idle_cost"),
        },
    )
    if len({(row["cluster"], row["namespace"], row["workload"]) for row in rows}) < len(by_model):
        view.notes.append("workloads that serve several models: each model's share of the cost is its share of the day's work")
    if not rows:
        view.notes.append(
            f"no {' or '.join(unit.replace('_', ' ') for unit in units)} is known in this period: gpucost collect progress"
        )
    return view


def _flat(day: Item) -> Item:
    """A row of unit_serving with a key per unit, and with hours."""
    day |= {**(day.pop("amounts") or {}), **{f"failed {unit}": value for unit, value in (day.pop("failures") or {}).items()}}
    for name in ("allocated", "active"):
        day[f"{name}_gpu_hours"] = hours(day.pop(f"{name}_gpu_ms"))
    day["model"] = day["model"] or None
    return day


def _add(sums: Item, day: Item) -> None:
    for key, value in day.items():
        if key not in _PLACE and key != "day":
            sums[key] = sums[key] + value if key in sums else value


def _hours(sums: Item) -> Item:
    active = sums["active_gpu_hours"]
    return {
        "allocated_gpu_hours": round(sums["allocated_gpu_hours"], 9),
        "active_gpu_hours": round(active, 9),
        "cost_per_active_gpu_hour": per(sums["cost"], active),
    }
