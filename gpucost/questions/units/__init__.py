"""The cost of an epoch, an experiment, a request or a token."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Names, Option
from gpucost.periods import iso
from gpucost.pipeline import read_attributed
from gpucost.questions.request import WorkloadRequest
from gpucost.questions.units import reading as units
from gpucost.questions.units.query import FILTERS, Item, UnitQuery, UnitView, prepare
from gpucost.questions.units.serving import Requests, Tokens
from gpucost.questions.units.work import Epochs, Experiments
from gpucost.records import DuckDBPyConnection
from gpucost.render.formatting import cell
from gpucost.render.view import Column, Document, Line, Table, Texts

_LISTED = 10  # rows of the tables of work without cost and cost without work
# Display words for parts of keys; short column titles; and columns to leave out of narrow tables, higher numbers
# first.
_WORDS = {
    "gpu hour": "GPU-hour",
    "gpu model": "GPU model",
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
    "unserved_cost": "Cost without work",
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
        "from",
        "cost_per_million_generation_tokens",
        "unit",
    ),
    2: (
        "idle_cost",
        "lost_cost",
        "planned_epochs",
        "forecast_cost",
        "kind",
        "experiment",
        "cost_per_trial",
        "since",
        "cost_per_million_prompt_tokens",
    ),
    3: (
        "status",
        "failed",
        "lost_epochs",
        "prompt_tokens",
        "generation_tokens",
        "prompt_cost",
        "generation_cost",
        "unserved_cost",
    ),
    4: ("cached_tokens", "cache_saved_cost"),
}
# Lists of an answer in page order, and their titles.
_SECTIONS = {
    "runs": "Runs",
    "sweeps": "Sweeps",
    "models": "Models",
    "rows": "Rows",
    "bought": "Bought tokens",
    "work_without_cost": "Work without cost",
    "cost_without_work": "Cost without work",
}


def _by(dimensions: Names) -> Option:
    """The option for dimensions of the rows."""
    return Option(
        f"Dimensions of the rows, any of {', '.join(dimensions)}. Default: workload, model and day, with a table of models.",
        "A,B",
        is_split=True,
    )


# The cost to split between tokens.
Basis = Literal["allocated", "used"]


def unit_epoch(
    request: WorkloadRequest,
    planned_epochs: Annotated[
        int | None, Option("Number of epochs to forecast the cost for.", "NUMBER", least=1)
    ] = None,
) -> Document:
    """Show the cost of each epoch of a training run, with mean, trend, lost work and remaining cost.

    The cost of an epoch is the cost of its workload (all its pods) from one epoch to the next, including idle time
    and restarts. Epochs repeated after a failure are lost work. Without a period: the current month so far, or the
    newest with data.

    \b
    Examples:
      gpucost unit epoch
      gpucost unit epoch --workload Job/llama-sft-12 --planned-epochs 20
      gpucost unit epoch --team research --month 2026-10
      gpucost unit epoch --last 7d --format json -o epochs.json
    """
    return answer(request, lambda con, query: units.epochs(con, query, planned_epochs))


def unit_experiment(request: WorkloadRequest) -> Document:
    """Show the cost of experiments: tracked runs, sweeps with their trials, and jobs without a tracker.

    The cost of a run is the cost of its workload during the run. Runs at the same time share it evenly; a sweep's own
    run is charged only while no trial runs. Without a period: the current month so far, or the newest with data.

    \b
    Examples:
      gpucost unit experiment
      gpucost unit experiment --team research --month 2026-10
      gpucost unit experiment --namespace nlp-experiments --format csv -o experiments.csv
    """
    return answer(request, lambda con, query: units.experiments(con, query), most=30)


def unit_requests(
    request: WorkloadRequest,
    count: Annotated[
        str, Option("Unit to count: request, batch_item, or a unit of [[units]].", "UNIT", is_shown=True)
    ] = "request",
    by: Annotated[Names, _by(units.REQUEST_DIMENSIONS)] = (),
) -> Document:
    """Show the cost per 1,000 requests by model and day, including the cost of idle time.

    The whole cost of the serving workload counts, including idle nights; failed requests are shown but not counted.
    Without a period: the current month so far, or the newest with data.

    \b
    Examples:
      gpucost unit requests
      gpucost unit requests --namespace inference --last 7d
      gpucost unit requests --by gpu_model,partition
      gpucost unit requests --count generation_token --month 2026-10 --format csv -o items.csv
    """
    dimensions = _checked(by, units.REQUEST_DIMENSIONS, "requests")
    return answer(request, lambda con, query: units.requests(con, query, count, dimensions))


def unit_tokens(
    request: WorkloadRequest,
    basis: Annotated[
        Basis,
        Option(
            "Cost to split: all of it, or only the used part, with idle cost shown separately.", is_shown=True
        ),
    ] = "allocated",
    by: Annotated[Names, _by(units.DIMENSIONS)] = (),
) -> Document:
    """Show the cost per million tokens by model and day, for all, prompt and generated tokens.

    Prompt and generated tokens share the cost, and their parts add up to it: a prompt token has a quarter of the
    weight of a generated one, or [[units]] prompt_weight. The whole cost of the serving workload counts, including
    idle nights; --basis used leaves out the cost of idle GPUs. A separate list shows bought tokens, at their billed
    cost. Without a period: the current month so far, or the newest with data.

    \b
    Examples:
      gpucost unit tokens
      gpucost unit tokens --team platform --month 2026-10
      gpucost unit tokens --by team,model
      gpucost unit tokens --by tenant --month 2026-10
      gpucost unit tokens --basis used --last 7d --format json -o tokens.json
    """
    from gpucost.questions.report.api_cost import add_bought

    dimensions = _checked(by, units.DIMENSIONS, "tokens")

    def build(con: DuckDBPyConnection, query: UnitQuery) -> UnitView:
        view = units.tokens(con, query, basis, dimensions)
        add_bought(con, request.settings, view)
        return view

    return answer(request, build)


def _checked(by: Names, dimensions: Names, work: str) -> Names:
    """`by` without repetition. Raises UsageError for an unknown dimension."""
    for name in by:
        if name not in dimensions:
            raise UsageError(
                f"dimension of {work} not found: {name!r}", f"--by takes any of {', '.join(dimensions)}"
            )
    return tuple(dict.fromkeys(by))


def answer(
    request: WorkloadRequest,
    build: Callable[[DuckDBPyConnection, UnitQuery], UnitView],
    most: int | None = None,
) -> Document:
    """The answer from `build`. Raises GpucostError if the period has no data."""
    settings, (period, name, _) = request.settings, request.chosen
    request.check_names(request.query())
    query = UnitQuery(settings, period, name, **{name: getattr(request, name) for name in FILTERS})

    def read(con: DuckDBPyConnection) -> UnitView:
        prepare(con, query)
        return build(con, query)

    view = read_attributed(settings, request.store, read, period)
    if not view.rows and not any(view.sections.values()):
        raise GpucostError(f"no data for {name}", "gpucost report shows the newest month with data")
    request.note_gaps(request.clusters)
    return document(view, most)


def document(view: UnitView, most: int | None = None) -> Document:
    """The answer before any format.

    Tables show the first `most` rows, unless the answer has several runs.
    """
    query = view.query
    runs = view.sections.get("runs")
    lists_runs = runs is None or len(runs) == 1
    lists = view.sections | ({"rows": view.rows} if lists_runs else {})
    limits = {"rows": most, "work_without_cost": _LISTED, "cost_without_work": _LISTED}
    tables = []
    for name, title in _SECTIONS.items():
        if lists.get(name) and name in view.displayed_columns:
            columns = view.displayed_columns[name]
            work = "Amount" if "unit" in columns else work_title(view)
            tables.append(unit_table(title, columns, lists[name], query.config.tz, limits.get(name), work))
    notes = tuple(view.notes)
    if view.rows and not lists_runs:
        notes += ("--workload NAME, --format csv and --format json show each epoch",)
    span = {"from": iso(query.period.start), "to": iso(query.period.end), "currency": query.config.currency}
    names = list(view.rows[0]) if view.rows else list(view.displayed_columns["rows"])
    shapes = {
        "unit.epoch": Epochs,
        "unit.experiment": Experiments,
        "unit.requests": Requests,
        "unit.tokens": Tokens,
    }
    return Document(
        title=f"{view.title}, {query.period_name}",
        currency=query.config.currency,
        sections=(*tables, _totals(view), *([Texts("Notes", notes)] if notes else [])),
        name=view.name,
        shape=shapes.get(view.name),
        data=span
        | view.facts
        | {"rows": view.rows, "totals": view.totals, **view.sections, "notes": view.notes},
        flat=(names, [[row[name] for name in names] for row in view.rows]),
    )


def work_title(view: UnitView) -> str:
    """The counted unit: Requests, or the requested unit."""
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
    """A table of the first `most` rows, without empty columns; moments are local.

    `names` are the columns; `work` is the title of the amounts.
    """
    displayed_rows = rows[:most]
    columns = [
        (_column(name, [row[name] for row in displayed_rows], work), partial(_local, name, tz))
        for name in names
        if any(row[name] is not None for row in displayed_rows)
    ]
    more = (
        f"and {len(rows) - len(displayed_rows):,} more: --format json lists all"
        if len(rows) > len(displayed_rows)
        else None
    )
    return Table.of(title, displayed_rows, columns, note=more)


def _title(name: str, work: str) -> str:
    words = work if name == "amount" else name.replace("_", " ")
    for key, word in _WORDS.items():
        words = words.replace(key, word)
    return words[:1].upper() + words[1:]


def _column(name: str, values: Sequence[Any], work: str = "Amount") -> Column:
    """The column of a value: money in cents, or four decimals for prices under one; counts without decimals."""
    present = [value for value in values if value is not None]
    title = _TITLES.get(name) or _title(name, work)
    weight = next((weight for weight, names in _WEIGHTS.items() if name in names), 0)
    if all(isinstance(value, str) for value in present):
        return Column(title, "text", weight=weight)
    if "cost" in name.split("_"):
        is_price = "per" in name.split("_") or name == "mean_cost"
        small = is_price and any(abs(value) < 1 for value in present)
        return Column(title, "price" if is_price else "money", 4 if small else 2, weight)
    return Column(title, "hours", 0 if all(isinstance(value, int) for value in present) else 2, weight)


def _totals(view: UnitView) -> Table:
    lines = tuple(
        Line(
            (_title(name, work_title(view)), cell(value, _column(name, [value]), view.query.config.currency))
        )
        for name, value in view.totals.items()
        if value is not None
    )
    return Table("Totals", (Column("Name", "text"), Column("Value", "hours")), lines)


def _local(name: str, tz: ZoneInfo, row: Item) -> Any:
    """A display value: moments in local time to the minute, an unknown tenant as "unknown"."""
    value = row[name]
    if value is None and name == "tenant":
        return "unknown"
    if isinstance(value, str) and name in ("from", "to", "since") and len(value) > len("2026-10-01"):
        return f"{datetime.fromisoformat(value).astimezone(tz):%Y-%m-%d %H:%M}"
    return value
