"""What an epoch, an experiment, a request or a token costs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Names, Option, OptionGroup, options_in
from gpucost.periods import iso
from gpucost.pipeline import read_attributed
from gpucost.questions.request import WorkloadRequest
from gpucost.questions.units import reading as units
from gpucost.questions.units.query import FILTERS, Item, UnitQuery, UnitView, per
from gpucost.questions.units.serving import Requests, Tokens
from gpucost.questions.units.work import Epochs, Experiments
from gpucost.records import record
from gpucost.render.formatting import cell, figure_text
from gpucost.render.schema import to_dict
from gpucost.render.view import Column, Document, Figure, Figures, Line, Table, Texts
from gpucost.shapes import Shape
from gpucost.whatif.flags import DEAREST

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duckdb import DuckDBPyConnection


_LISTED = 10  # rows that tables show of work without cost and cost without work
# Words of keys as people read them; titles of columns that are short beside others, and what a narrow table may leave out, the
# heavier first.
_WORDS = {
    "gpu hour": "GPU-hour",
    "generation tokens": "generated tokens",
    "cache saved cost": "saved by the cache",
    "per 1000": "per 1,000",
}
_TITLES = {
    "api_cost": "API cost",
    "cost_per_1000": "Per 1,000",
    "cost_per_million_tokens": "Per million",
    "cost_per_million_prompt_tokens": "Per million prompt",
    "cost_per_million_generation_tokens": "Per million generated",
    "cost_per_active_gpu_hour": "Per active GPU-h",
    "cache_saved_cost": "Saved by cache",
    "request_time_prompt_cost": "Prompt, by request time",
    "request_time_generation_cost": "Generated, by request time",
    "unserved_cost": "Nothing served",
    "generation_cost": "Generated cost",
    "epochs_done": "Epochs",
    "mean_cost": "Per epoch",
    "lost_cost": "Lost",
    "planned_epochs": "Planned",
    "forecast_cost": "Forecast",
    "duration_hours": "Hours",
    "trend_percent": "Trend %",
}
_WEIGHTS = {
    1: (
        "namespace",
        "model",
        "hours",
        "duration_hours",
        "trend_percent",
        "trials",
        "best_value",
        "from",
        "cost_per_million_generation_tokens",
        "unit",
    ),
    2: (
        "best_trial_cost",
        "idle_cost",
        "lost_cost",
        "planned_epochs",
        "forecast_cost",
        "kind",
        "experiment",
        "cost_per_trial",
        "metric",
        "since",
        "cost_per_million_prompt_tokens",
    ),
    3: (
        "status",
        "failed",
        "lost_epochs",
        "best_epoch",
        "best_cost",
        "prompt_tokens",
        "generation_tokens",
        "prompt_cost",
        "generation_cost",
        "unserved_cost",
    ),
    4: ("cached_tokens", "cache_saved_cost", "request_time_prompt_cost", "request_time_generation_cost"),
}
# Lists of an answer in the order of a page, and their titles.
_SECTIONS = {
    "runs": "Runs",
    "sweeps": "Sweeps",
    "models": "Models",
    "rows": "One by one",
    "bought": "Bought tokens",
    "work_without_cost": "Work without cost",
    "cost_without_work": "Cost without work",
}


def _given(help: str, most: int = DEAREST) -> Option:
    """A number above zero that describes work without a store."""
    return Option(f"Without a store: {help}", "NUMBER", above=True, most=most)


@record
class Workers(OptionGroup):
    """GPUs that work, described without a store."""

    gpus: Annotated[Decimal | None, _given("GPUs that do the work, with --price-per-gpu-hour.")] = None
    price_per_gpu_hour: Annotated[Decimal | None, _given("what one of them costs.")] = None


@record
class Servers(Workers):
    """GPUs that serve, described without a store."""

    busy_percent: Annotated[
        Decimal | None, _given("share of the paid hours in which the rate is reached.", most=100)
    ] = None


_SCALES = {"epoch": 1, "request": 1000, "token": 1_000_000}


@record
class UnitPrice(Shape):
    """What `gpucost unit` prints of described work: `cost` is of `per` units, `planned_cost` of all that are planned."""

    unit: str
    currency: str
    gpus: Decimal
    price_per_gpu_hour: Decimal
    units_per_hour: Decimal
    busy_percent: Decimal
    cost_per_hour: Decimal
    per: int
    cost: Decimal
    planned: int | None
    planned_hours: Decimal | None
    planned_cost: Decimal | None


def unit_price(
    unit: str,
    currency: str,
    *,
    gpus: Decimal,
    price_per_gpu_hour: Decimal,
    units_per_hour: Decimal,
    busy_percent: Decimal,
    planned: int | None,
) -> UnitPrice:
    """Paid hours × price ÷ units done in them: 1 of an epoch, 1,000 of a request, a million of a token.

    `units_per_hour` are done by all GPUs while they work, `busy_percent` of the hours that are paid.
    """
    per_hour, scale = gpus * price_per_gpu_hour, _SCALES[unit]
    done = units_per_hour * busy_percent / 100  # in an hour that is paid
    cost = per(per_hour, done, scale)
    if cost is None:
        raise UsageError(f"no {unit} is ever done", "a rate above 0 is needed")
    hours = None if planned is None else planned / done
    return UnitPrice(
        unit,
        currency,
        gpus,
        price_per_gpu_hour,
        units_per_hour,
        busy_percent,
        per_hour,
        scale,
        cost,
        planned,
        hours and hours.quantize(Decimal("0.000001")),
        hours and (hours * per_hour).quantize(Decimal("0.000000001")),
    )


# Which value of a metric is best.
Goal = Literal["min", "max"]


# Which cost is split between tokens.
Basis = Literal["allocated", "used"]


def unit_epoch(
    request: WorkloadRequest,
    workers: Workers,
    planned_epochs: Annotated[
        int | None, Option("Forecast the cost up to this many epochs.", "NUMBER", least=1)
    ] = None,
    each: Annotated[bool, Option("List every epoch, also where there are several runs.")] = False,
    hours_per_epoch: Annotated[Decimal | None, _given("how long an epoch takes.")] = None,
) -> Document:
    """Show what each epoch of a training run cost, its mean, trend and best, what was lost, and what is still to come.

    An epoch costs what its workload (all its pods) cost from one epoch to the next: idle time and restarts included. Epochs
    that were done again after a failure are lost work. Without a period: the current month so far, or the newest with data.

    \b
    Examples:
      gpucost unit epoch
      gpucost unit epoch --workload Job/llama-sft-12 --planned-epochs 20
      gpucost unit epoch --team research --month 2026-10 --each
      gpucost unit epoch --last 7d --format json -o epochs.json
      gpucost unit epoch --gpus 16 --price-per-gpu-hour 3 --hours-per-epoch 2.5 --planned-epochs 20
    """
    rate = hours_per_epoch and 1 / hours_per_epoch
    if price := _described(request, "epoch", "--hours-per-epoch", rate, workers, planned_epochs):
        return price
    return answer(request, lambda con, ask: units.epochs(con, ask, planned_epochs), with_rows=each)


def unit_experiment(
    request: WorkloadRequest,
    metric: Annotated[
        str | None,
        Option(
            "Metric that names a sweep's best trial. Default: val_loss, eval_loss, loss or the like.", "NAME"
        ),
    ] = None,
    goal: Annotated[Goal, Option("Which value of --metric is best.", is_shown=True)] = "min",
) -> Document:
    """Show what experiments cost: runs of the experiment tracker, sweeps with their trials, and jobs that no tracker knows.

    A run costs what its workload cost while it ran; runs at the same time share it evenly, and a sweep's own run is charged only
    while no trial runs. Without a period: the current month so far, or the newest with data.

    \b
    Examples:
      gpucost unit experiment
      gpucost unit experiment --team research --month 2026-10
      gpucost unit experiment --metric val_loss --goal min
      gpucost unit experiment --namespace nlp-experiments --format csv -o experiments.csv
    """
    return answer(request, lambda con, ask: units.experiments(con, ask, metric, goal), most=30)


def unit_requests(
    request: WorkloadRequest,
    workers: Servers,
    count: Annotated[
        str, Option("What is counted: request, batch_item, or a unit of [[units]].", "UNIT", is_shown=True)
    ] = "request",
    requests_per_second: Annotated[Decimal | None, _given("of all GPUs together.")] = None,
) -> Document:
    """Show what 1,000 requests cost, by model and day, with what models cost while they were idle.

    The whole cost of the workload that serves counts, also at night; failed requests are shown and not counted. Without a period:
    the current month so far, or the newest with data.

    \b
    Examples:
      gpucost unit requests
      gpucost unit requests --namespace inference --last 7d
      gpucost unit requests --count generation_token --month 2026-10 --format csv -o items.csv
      gpucost unit requests --gpus 2 --price-per-gpu-hour 1.2 --requests-per-second 15 --busy-percent 40
    """
    rate = requests_per_second and requests_per_second * 3600
    if price := _described(request, "request", "--requests-per-second", rate, workers):
        return price
    return answer(request, lambda con, ask: units.requests(con, ask, count))


def unit_tokens(
    request: WorkloadRequest,
    workers: Servers,
    basis: Annotated[
        Basis, Option("Split the whole cost, or only what was used, with idle cost beside it.", is_shown=True)
    ] = "allocated",
    by: Annotated[
        Names,
        Option(
            "Rows by any of cluster, namespace, workload, team, model, tenant, day. Default: all but "
            "tenant, and models.",
            "A,B",
            is_split=True,
        ),
    ] = (),
    tokens_per_second: Annotated[Decimal | None, _given("of all GPUs together.")] = None,
) -> Document:
    """Show what a million tokens cost, by model and day: of all tokens, of prompt tokens, and of generated ones.

    Prompt and generated tokens share the cost, and their parts add up to it: a prompt token weighs a quarter of a generated one,
    or what [[units]] prompt_weight says. The whole cost of the workload that serves counts, also at night; --basis used leaves
    out what its idle GPUs cost. A list below shows bought tokens, at the cost on their bills. Without a period: the current month
    so far, or the newest with data.

    \b
    Examples:
      gpucost unit tokens
      gpucost unit tokens --team platform --month 2026-10
      gpucost unit tokens --by team,model
      gpucost unit tokens --by tenant --month 2026-10
      gpucost unit tokens --basis used --last 7d --format json -o tokens.json
      gpucost unit tokens --gpus 8 --price-per-gpu-hour 2.5 --tokens-per-second 9000 --busy-percent 40
    """
    from gpucost.questions.report.api_cost import add_bought

    of_store = [*(["--basis"] if basis != "allocated" else []), *(["--by"] if by else [])]
    rate = tokens_per_second and tokens_per_second * 3600
    if price := _described(request, "token", "--tokens-per-second", rate, workers, of_store=of_store):
        return price
    dimensions = tuple(dict.fromkeys(by))
    for name in dimensions:
        if name not in units.DIMENSIONS:
            raise UsageError(f"tokens have no {name!r}", f"--by takes any of {', '.join(units.DIMENSIONS)}")

    def build(con: DuckDBPyConnection, ask: UnitQuery) -> UnitView:
        view = units.tokens(con, ask, basis, dimensions)
        add_bought(con, request.settings, view)
        return view

    return answer(request, build)


def _described(
    request: WorkloadRequest,
    unit: str,
    flag: str,
    units_per_hour: Decimal | None,
    workers: Workers,
    planned: int | None = None,
    *,
    of_store: Sequence[str] = (),
) -> Document | None:
    """The price of work that options describe; None if no option does.

    Raises UsageError where one is missing, or something asks for the store's, as the options `of_store` do.
    """
    numbers = {name: getattr(workers, name) for name in options_in(type(workers))}
    given = {flag: units_per_hour, **{f"--{name.replace('_', '-')}": numbers[name] for name in numbers}}
    described = [name for name, value in given.items() if value is not None]
    if not described:
        return None
    stored = [f"--{name[:-1]}" for name in FILTERS if getattr(request, name)] + [*of_store]
    stored += ["a period"] if request.named_period else []
    if stored:
        raise UsageError(
            f"{described[0]} describes work by options, {stored[0]} asks for that in the store",
            "leave out one",
        )
    if missing := [name for name in given if name not in described]:
        raise UsageError(
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            "they describe the work together",
        )
    numbers = {"busy_percent": Decimal(100), "units_per_hour": units_per_hour} | numbers
    return _price_document(unit_price(unit, request.settings.currency, planned=planned, **numbers))


def _price_document(price: UnitPrice) -> Document:
    title = {1: f"What an {price.unit} costs", 1000: f"What 1,000 {price.unit}s cost"}.get(
        price.per, f"What a million {price.unit}s cost"
    )
    cost = figure_text(price.cost, "price", price.currency, 4)
    figures = [Figure(title.removeprefix("What ").capitalize(), cost, "text")]
    if price.planned_cost is not None:
        figures.append(
            Figure(
                f"All {price.planned:,} of them",
                price.planned_cost,
                "money",
                note=f"{price.planned_hours:,.1f} hours",
            )
        )
    figures.append(Figure("An hour", price.cost_per_hour, "money", note=f"{price.gpus:,f} GPUs"))
    busy = f"; {price.busy_percent:f} % of the paid hours at that rate" if price.busy_percent != 100 else ""
    row = to_dict(price)
    return Document(
        title=title,
        subtitle=f"by options: {price.units_per_hour.normalize():,f} {price.unit}s an hour{busy}",
        currency=price.currency,
        sections=(Figures("Price", tuple(figures)),),
        name="unit.price",
        data=price,
        flat=(list(row), [list(row.values())]),
        whole_in="json",
    )


def answer(
    request: WorkloadRequest,
    build: Callable[[DuckDBPyConnection, UnitQuery], UnitView],
    *,
    with_rows: bool = False,
    most: int | None = None,
) -> Document:
    """The answer that `build` computes. Raises GpucostError where the period holds nothing."""
    settings, (period, name, _) = request.settings, request.chosen
    ask = UnitQuery(settings, period, name, **{name: getattr(request, name) for name in FILTERS})
    view = read_attributed(settings, request.store, lambda con: build(con, ask), period)
    if not view.rows and not any(view.sections.values()):
        raise GpucostError(f"there is no data for {name}", "gpucost report shows the newest month with data")
    request.note_gaps(request.clusters)
    return document(view, with_rows=with_rows, most=most)


def document(view: UnitView, *, with_rows: bool = False, most: int | None = None) -> Document:
    """The answer before any format.

    Tables show rows, the first `most` of them, if `with_rows` says so, or unless there are several runs.
    """
    ask = view.ask
    runs = view.sections.get("runs")
    is_listed = with_rows or runs is None or len(runs) == 1
    lists = view.sections | ({"rows": view.rows} if is_listed else {})
    limits = {"rows": most, "work_without_cost": _LISTED, "cost_without_work": _LISTED}
    tables = []
    for name, title in _SECTIONS.items():
        if lists.get(name) and name in view.shown:
            columns = view.shown[name]
            work = "Amount" if "unit" in columns else work_title(view)
            tables.append(unit_table(title, columns, lists[name], ask.config.tz, limits.get(name), work))
    notes = tuple(view.notes)
    if view.rows and not is_listed:
        notes += ("--workload NAME, --format csv and --format json show each epoch",)
    span = {"from": iso(ask.period.start), "to": iso(ask.period.end), "currency": ask.config.currency}
    names = list(view.rows[0]) if view.rows else list(view.shown["rows"])
    shapes = {
        "unit.epoch": Epochs,
        "unit.experiment": Experiments,
        "unit.requests": Requests,
        "unit.tokens": Tokens,
    }
    return Document(
        title=f"{view.title}, {ask.period_name}",
        currency=ask.config.currency,
        sections=(*tables, _totals(view), *([Texts("Notes", notes)] if notes else [])),
        name=view.name,
        shape=shapes.get(view.name),
        data=span
        | view.facts
        | {"rows": view.rows, "totals": view.totals, **view.sections, "notes": view.notes},
        flat=(names, [[row[name] for name in names] for row in view.rows]),
    )


def work_title(view: UnitView) -> str:
    """What the answer counts: Requests, or the unit asked for."""
    return (
        view.title.removeprefix("Cost per 1,000 ").capitalize() if view.name == "unit.requests" else "Amount"
    )


def unit_table(
    title: str,
    names: Iterable[str],
    rows: Sequence[Item],
    tz: ZoneInfo,
    most: int | None = None,
    work: str = "Amount",
) -> Table:
    """The columns `names` of the first `most` rows, but for those that no row has; moments are local, amounts are of `work`."""
    shown = rows[:most]
    columns = [
        (_column(name, [row[name] for row in shown], work), partial(_local, name, tz))
        for name in names
        if any(row[name] is not None for row in shown)
    ]
    more = f"and {len(rows) - len(shown):,} more: --format json lists all" if len(rows) > len(shown) else None
    return Table.of(title, shown, columns, note=more)


def _title(name: str, work: str) -> str:
    words = work if name == "amount" else name.replace("_", " ")
    for key, word in _WORDS.items():
        words = words.replace(key, word)
    return words[:1].upper() + words[1:]


def _column(name: str, values: Sequence[Any], work: str = "Amount") -> Column:
    """Money in cents, or with four decimals where a price of the column is under one; counts without decimals."""
    known = [value for value in values if value is not None]
    title = _TITLES.get(name) or _title(name, work)
    weight = next((weight for weight, names in _WEIGHTS.items() if name in names), 0)
    if all(isinstance(value, str) for value in known):
        return Column(title, "text", weight=weight)
    if "cost" in name.split("_"):
        is_price = "per" in name.split("_") or name == "mean_cost"
        small = is_price and any(abs(value) < 1 for value in known)
        return Column(title, "price" if is_price else "money", 4 if small else 2, weight)
    return Column(title, "hours", 0 if all(isinstance(value, int) for value in known) else 2, weight)


def _totals(view: UnitView) -> Table:
    lines = tuple(
        Line((_title(name, work_title(view)), cell(value, _column(name, [value]), view.ask.config.currency)))
        for name, value in view.totals.items()
        if value is not None
    )
    return Table("Totals", (Column("What", "text"), Column("Value", "hours")), lines)


def _local(name: str, tz: ZoneInfo, row: Item) -> Any:
    """A value; moments as people read them: local time to the minute. Whom nobody knows is unknown."""
    value = row[name]
    if value is None and name == "tenant":
        return "unknown"
    if isinstance(value, str) and name in ("from", "to", "since") and len(value) > len("2026-10-01"):
        return f"{datetime.fromisoformat(value).astimezone(tz):%Y-%m-%d %H:%M}"
    return value
