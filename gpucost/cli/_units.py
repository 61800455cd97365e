"""What the commands of `gpucost unit` share: options, the period, and how an answer is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import load, output_file, put_or_write
from gpucost.cli._fit import figures_right, fitted, left_out, line_width
from gpucost.cli._periods import chosen_period
from gpucost.cli._rows import FLAT, RowFormat, render_rows, write_rows
from gpucost.cli._strict import note_gaps
from gpucost.errors import GpucostError
from gpucost.model import iso

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duckdb import DuckDBPyConnection

    from gpucost.units import UnitAsk, UnitView
    from gpucost.units.view import Item

TeamOption = Annotated[
    list[str] | None, typer.Option("--team", metavar="NAME", help="Only this team; repeatable.", show_default=False)
]
NamespaceOption = Annotated[
    list[str] | None, typer.Option("--namespace", metavar="NAME", help="Only this namespace; repeatable.", show_default=False)
]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option("--workload", metavar="NAME", help="Only this workload, as Job/name or name; repeatable.", show_default=False),
]
ClusterOption = Annotated[
    list[str] | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster; repeatable.", show_default=False)
]

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


@dataclass(frozen=True, slots=True)
class Asked:
    """The options as they were given."""

    team: list[str] | None
    namespace: list[str] | None
    workload: list[str] | None
    cluster: list[str] | None
    month: str | None
    start: str | None
    end: str | None
    last: str | None
    format: RowFormat
    output: Path | None
    config: Path | None
    store: Path | None
    quiet: bool


def answer(
    asked: Asked,
    build: Callable[[DuckDBPyConnection, UnitAsk], UnitView],
    *,
    with_rows: bool | None = None,
    most: int | None = None,
) -> None:
    """Compute and write one answer.

    Tables show rows, the first `most` of them, where `with_rows` says so, or there is at most one run or none at all. Raises
    GpucostError where the period holds nothing.
    """
    from datetime import UTC, datetime

    from gpucost import pipeline
    from gpucost.units import UnitAsk

    settings, opened = load(asked.config, asked.store)
    target = output_file(asked.output)
    now = datetime.now(UTC)
    span = {"month": asked.month, "start": asked.start, "end": asked.end, "last": asked.last}
    period, name, _ = chosen_period(opened, settings.tz, now, **span)
    ask = UnitAsk(
        period,
        name,
        settings.tz,
        settings.currency,
        tuple(asked.team or ()),
        tuple(asked.namespace or ()),
        tuple(asked.workload or ()),
        tuple(asked.cluster or ()),
    )
    view = pipeline.unit_costs(settings, opened, ask, build)
    if not view.rows and not any(view.sections.values()):
        raise GpucostError(f"there is no data for {name}", "gpucost report shows the newest month with data")
    note_gaps(settings, opened, period, ask.clusters, quiet=asked.quiet)
    if asked.format in FLAT:
        write_rows(*flat(view), asked.format, target)
        return
    text = rendered(view, asked.format, target, with_rows=with_rows, most=most)
    put_or_write(text, target)


def flat(view: UnitView) -> tuple[list[str], list[list[Any]]]:
    """The rows, as columns and values."""
    columns = list(view.rows[0]) if view.rows else list(view.shown["rows"])
    return columns, [[row[name] for name in columns] for row in view.rows]


def rendered(
    view: UnitView, format: RowFormat, target: Path | None, *, with_rows: bool | None = None, most: int | None = None
) -> str:
    """The answer as JSON, or as text for people."""
    if format is RowFormat.json:
        from gpucost.report.render_data import number

        return json.dumps(as_dict(view), indent=2, ensure_ascii=False, default=number) + "\n"
    return _text(view, format, line_width(target), with_rows=with_rows, most=most)


def as_dict(view: UnitView) -> Item:
    """The JSON contract gpucost.unit.*/1, money still Decimal."""
    return {
        "schema": view.schema,
        "from": iso(view.ask.period.start),
        "to": iso(view.ask.period.end),
        "currency": view.ask.currency,
        "rows": view.rows,
        "totals": view.totals,
        **view.sections,
        "notes": view.notes,
    }


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
    shown = fitted(heads, lines, [_WEIGHTS.get(name, 0) for name in names], width, figures=figures)
    below = left_out(heads, shown[0])
    return render_rows(*figures_right(*shown, {heads[index] for index in figures}), format) + (f"{below}\n" if below else "")


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
        from datetime import datetime

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
