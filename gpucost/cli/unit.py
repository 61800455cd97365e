"""What the commands of `gpucost unit` share: options, the period, and how an answer is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli.command import Call, command, note_gaps, option
from gpucost.cli.output import line_width
from gpucost.errors import GpucostError
from gpucost.periods import iso
from gpucost.render.rows import FLAT, RowFormat, figures_right, render_rows, table_text

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duckdb import DuckDBPyConnection

    from gpucost.report.units.query import Item, UnitAsk, UnitView

_CELLS = Decimal("0.01")
_SMALL = Decimal("0.0001")
_LISTED = 10  # rows that tables show of work without cost and cost without work
_HEADS = {
    "prompt_tokens": "prompt",
    "generation_tokens": "generated",
    "cost_per_1000": "per 1,000",
    "cost_per_million_tokens": "per million",
    "cost_per_million_prompt_tokens": "per million prompt",
    "cost_per_million_generation_tokens": "per million generated",
    "cost_per_active_gpu_hour": "per active GPU-h",
    "epochs_done": "epochs",
    "planned_epochs": "planned",
    "forecast_cost": "forecast",
    "duration_hours": "hours",
    "trend_percent": "trend %",
}
_SECTIONS = {
    "runs": "Runs",
    "sweeps": "Sweeps",
    "models": "Models",
    "work_without_cost": "Work without cost",
    "cost_without_work": "Cost without work",
}


_LAYOUT = "team namespace workload cluster period * written"


def answer(
    call: Call,
    build: Callable[[DuckDBPyConnection, UnitAsk], UnitView],
    *,
    with_rows: bool | None = None,
    most: int | None = None,
) -> None:
    """Compute and write one answer.

    Tables show rows, the first `most` of them, where `with_rows` says so, or there is at most one run or none at all. Raises
    GpucostError where the period holds nothing.
    """
    from gpucost import pipeline
    from gpucost.report.units.query import UnitAsk

    settings, (period, name, _) = call.settings, call.chosen
    whose = (call.teams, call.namespaces, call.workloads, call.clusters)
    view = pipeline.unit_costs(settings, call.store, UnitAsk(period, name, call.tz, settings.currency, *whose), build)
    if not view.rows and not any(view.sections.values()):
        raise GpucostError(f"there is no data for {name}", "gpucost report shows the newest month with data")
    note_gaps(settings, call.store, period, call.clusters, quiet=call.quiet)
    if call.format in FLAT:
        call.write_rows(*flat(view))
    else:
        call.write(rendered(view, call.format, call.target, with_rows=with_rows, most=most))


def flat(view: UnitView) -> tuple[list[str], list[list[Any]]]:
    """The rows, as columns and values."""
    columns = list(view.rows[0]) if view.rows else list(view.shown["rows"])
    return columns, [[row[name] for name in columns] for row in view.rows]


def rendered(
    view: UnitView, format: RowFormat, target: Path | None, *, with_rows: bool | None = None, most: int | None = None
) -> str:
    """The answer as JSON, or as text for people."""
    if format is RowFormat.json:
        from gpucost.render.schema import to_json

        span = {"from": iso(view.ask.period.start), "to": iso(view.ask.period.end), "currency": view.ask.currency}
        whole = {"rows": view.rows, "totals": view.totals, **view.sections, "notes": view.notes}
        return to_json(span | whole, view.name)
    return _text(view, format, line_width(target), with_rows=with_rows, most=most)


def _text(view: UnitView, format: RowFormat, width: int | None, *, with_rows: bool | None, most: int | None) -> str:
    markdown = format is RowFormat.markdown
    title = f"{view.title}, {view.ask.period_name}, in {view.ask.currency}"
    parts = [f"# {title}\n" if markdown else f"{title}\n"]
    shown = len(view.sections.get("runs", [])) == 1 if with_rows is None and "runs" in view.sections else with_rows is not False
    tables = {name: rows for name, rows in view.sections.items() if name in ("runs", "sweeps", "models")}
    if shown:
        tables["rows"] = view.rows
    tables |= view.sections
    for name, rows in tables.items():
        if rows:
            heading = _SECTIONS.get(name, "")
            if heading:
                parts.append(f"## {heading}\n" if markdown else f"{heading}\n")
            short = rows[: _LISTED if name.endswith(("_without_cost", "_without_work")) else most if name == "rows" else None]
            parts.append(_table(view.shown[name], short, format, width, view.ask.tz))
            if len(short) < len(rows):
                parts.append(f"and {len(rows) - len(short):,} more: --format json lists all\n")
    if not shown and view.rows:
        view.notes.append("--workload NAME, --format csv and --format json show each epoch")
    parts.append("## Totals\n" if markdown else "Totals\n")
    totals = [[name.replace("_", " "), _cell(name, value)] for name, value in view.totals.items() if value is not None]
    if not markdown:
        totals = figures_right(("what", "value"), [(name, _parted(value)) for name, value in totals], {"value"})[1]
    parts.append(render_rows(("what", "value"), totals, format))
    parts += [f"{note}\n" for note in view.notes]
    return "\n".join(parts)


def _table(columns: tuple[str, ...], rows: list[Item], format: RowFormat, width: int | None, tz: ZoneInfo) -> str:
    rows = [{name: _local(name, row[name], tz) for name in columns} for row in rows]
    if format is not RowFormat.table:
        return render_rows(
            [_head(name) for name in columns], [[_cell(name, row[name]) for name in columns] for row in rows], format
        )
    names = [name for name in columns if any(row[name] is not None for row in rows)]
    heads = [_head(name) for name in names]
    figures = [index for index, name in enumerate(names) if any(isinstance(row[name], (int, float, Decimal)) for row in rows)]
    lines = [[_parted(_cell(name, row[name])) for name in names] for row in rows]
    weights, right = [_WEIGHTS.get(name, 0) for name in names], {heads[index] for index in figures}
    return table_text(heads, lines, weights, width, right, figures)


def _head(name: str) -> str:
    return _HEADS.get(name, name.replace("_", " "))


def _parted(value: Any) -> str | None:
    """A value as text, thousands parted."""
    return value if value is None or isinstance(value, str) else f"{value:,}"


# What a narrow table may leave out, the heavier first; columns that are not named here always stand there.
_WEIGHTS = {
    **dict.fromkeys(("amount", "hours", "duration_hours", "trend_percent", "lost_cost", "trials", "best_value", "from"), 1),
    **dict.fromkeys(("best_trial_cost", "idle_cost", "failed", "planned_epochs", "generation_tokens", "prompt_tokens"), 2),
    **dict.fromkeys(("kind", "experiment", "cost_per_trial", "metric", "since"), 2),
    **dict.fromkeys(("status", "lost_epochs", "best_epoch", "best_cost"), 3),
    **dict.fromkeys(("cost_per_million_prompt_tokens", "cost_per_million_generation_tokens"), 3),
}


def _local(name: str, value: Any, tz: ZoneInfo) -> Any:
    """Moments as people read them: local time to the minute."""
    if isinstance(value, str) and name in ("from", "to", "since") and len(value) > len("2026-10-01"):
        return f"{datetime.fromisoformat(value).astimezone(tz):%Y-%m-%d %H:%M}"
    return value


def _cell(name: str, value: Any) -> Any:
    """A value as people read it: money with two decimals, or four where it is small."""
    if isinstance(value, Decimal):
        small = abs(value) < 1 and "per" in name.split("_")
        return value.quantize(_SMALL if small else _CELLS)
    if isinstance(value, float):
        return Decimal(f"{value:.2f}")
    return value


@command(_LAYOUT)
def unit_epoch(
    call: Call,
    planned_epochs: Annotated[
        int | None, option("--planned-epochs", "NUMBER", "Forecast the cost up to this many epochs.", min=1)
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="List every epoch, also where there are several runs.")] = False,
) -> None:
    """Show what each epoch of a training run cost, its mean, trend and best, what was lost, and what is still to come.

    An epoch costs what its workload (all its pods) cost from one epoch to the next: idle time and restarts included. Epochs
    that were done again after a failure are lost work. Without a period: the current month so far, or the newest with data.

    \b
    Examples:
      gpucost unit epoch
      gpucost unit epoch --workload Job/llama-sft-03 --planned-epochs 20
      gpucost unit epoch --team research --month 2026-10 --each
      gpucost unit epoch --last 7d --format json -o epochs.json
    """
    from gpucost.report import units

    answer(call, lambda con, ask: units.epochs(con, ask, planned_epochs), with_rows=True if each else None)


class Goal(StrEnum):
    """Which value of a metric is best."""

    min = "min"
    max = "max"


@command(_LAYOUT)
def unit_experiment(
    call: Call,
    metric: Annotated[
        str | None,
        option("--metric", "NAME", "Metric that names a sweep's best trial. Default: val_loss, eval_loss, loss or the like."),
    ] = None,
    goal: Annotated[Goal, typer.Option("--goal", help="Which value of --metric is best.")] = Goal.min,
) -> None:
    """Show what experiments cost: runs of the experiment tracker, sweeps with their trials, and jobs that no tracker knows.

    A run costs what its workload cost while it ran; runs at the same time share it evenly, and a sweep's own run is charged only
    while no trial runs. Without a period: the current month so far, or the newest with data.

    \b
    Examples:
      gpucost unit experiment
      gpucost unit experiment --team research --month 2026-10
      gpucost unit experiment --metric val_accuracy --goal max
      gpucost unit experiment --namespace nlp-experiments --format csv -o experiments.csv
    """
    from gpucost.report import units

    answer(call, lambda con, ask: units.experiments(con, ask, metric, goal.value), most=30)


@command(_LAYOUT)
def unit_requests(
    call: Call,
    count: Annotated[
        str, typer.Option("--count", metavar="UNIT", help="What is counted: request, batch_item, or a unit of [[units]].")
    ] = "request",
) -> None:
    """Show what 1,000 requests cost, by model and day, with what models cost while they were idle.

    The whole cost of the workload that serves counts, also at night; failed requests are shown and not counted. Without a period:
    the current month so far, or the newest with data.

    \b
    Examples:
      gpucost unit requests
      gpucost unit requests --namespace inference --last 7d
      gpucost unit requests --count batch_item --month 2026-10 --format csv -o items.csv
    """
    from gpucost.report import units

    answer(call, lambda con, ask: units.requests(con, ask, count))


@command(_LAYOUT)
def unit_tokens(call: Call) -> None:
    """Show what a million tokens cost, by model and day: of all tokens, of prompt tokens, and of generated ones.

    The whole cost of the workload that serves counts, also at night. Without a period: the current month so far, or the newest
    with data.

    \b
    Examples:
      gpucost unit tokens
      gpucost unit tokens --team platform --month 2026-10
      gpucost unit tokens --last 7d --format json -o tokens.json
    """
    from gpucost.report import units

    answer(call, units.tokens)
