"""How what-if answers are written: as text, Markdown, JSON (gpucost.whatif/1) or CSV, the same figures in each."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucost.cli._common import put_or_write, write_text
from gpucost.cli._fit import fitted, left_out, line_width
from gpucost.cli._rows import FLAT, RowFormat, render_rows, write_rows

if TYPE_CHECKING:
    from gpucost.whatif.answer import Answer, Position, Rows, Value

# below this, four decimals would hide a number's digits
_SMALL = 0.01
# what a table of an answer never leaves out
_ALWAYS_SHOWN = ("cost", "saving", "saving_percent", "today", "scenario")


def write_answer(answer: Answer, format: RowFormat, output: Path | None, saved: Path | None = None) -> None:
    """Write an answer to `output`, or to stdout where it is None, and as JSON to `saved`, for `whatif compare`.

    Raises GpucostError where a file cannot be written.
    """
    if saved is not None:
        write_text(_json(answer), saved)
    if format in FLAT:
        write_rows(("figure", "value"), _flat("", as_dict(answer)), format, output)
        return
    if format is RowFormat.json:
        text = _json(answer)
    else:
        text = _text(answer, line_width(output) if format is RowFormat.table else None, format is RowFormat.markdown)
    put_or_write(text, output)


def _json(answer: Answer) -> str:
    from gpucost.report.render_data import number

    return json.dumps(as_dict(answer), indent=2, ensure_ascii=False, allow_nan=False, default=number) + "\n"


def as_dict(answer: Answer) -> dict[str, Any]:
    """The answer as JSON holds it; money still Decimal."""
    from gpucost.whatif.compare import SCHEMA

    return {
        "schema": SCHEMA,
        "kind": answer.kind,
        "title": answer.title,
        "period": answer.period,
        "today": _position(answer.today),
        "scenario": _position(answer.scenario),
        "saving": answer.saving,
        "saving_percent": answer.saving_percent,
        **answer.figures,
        "assumptions": [asdict(assumption) for assumption in answer.assumptions],
        "ranges": [asdict(span) for span in answer.ranges],
        "break_even": list(answer.break_even),
        "time": list(answer.time),
        "findings": list(answer.findings),
        "tables": {table.title: [dict(zip(table.columns, line, strict=True)) for line in table.lines] for table in answer.tables},
    }


def _position(position: Position) -> dict[str, Any]:
    return {
        "cost": position.cost,
        "currency": position.currency,
        "gpu_hours": position.gpu_hours,
        "node_hours": position.node_hours,
        **position.more,
    }


def _text(answer: Answer, width: int | None, markdown: bool) -> str:
    """The answer for people, in lines of at most `width` characters as far as that can be."""
    style = _Style(width, markdown)
    currency = answer.today.currency
    rows = [
        ("today", _money(answer.today.cost, currency), f"{answer.today.gpu_hours:,.1f} GPU-hours"),
        ("scenario", _money(answer.scenario.cost, currency), f"{answer.scenario.gpu_hours:,.1f} GPU-hours"),
        ("saving", _money(answer.saving, currency), "" if answer.saving_percent is None else f"{answer.saving_percent:z.1f} %"),
    ]
    parts = [_heading(f"{answer.title}, {answer.period}", markdown), style.table(("", "cost", ""), rows)]
    if answer.ranges:
        spans = [(r.figure, f"{_shown(r.low)} to {_shown(r.high)} {r.unit}", r.meaning) for r in answer.ranges]
        parts += [_section("Range", markdown), style.table(("figure", "range", "meaning"), spans)]
    for title, sentences in (("What would break it", answer.break_even), ("Time", answer.time), ("Findings", answer.findings)):
        if sentences:
            parts += [_section(title, markdown), "".join(style.item(sentence) for sentence in sentences)]
    for table in answer.tables:
        parts += [_section(table.title, markdown), *style.rows(table)]
    if answer.assumptions:
        told = [(a.name, _shown(a.value), a.unit, f"{a.source}{f', {a.as_of}' if a.as_of else ''}") for a in answer.assumptions]
        parts += [_section("Assumptions", markdown), style.table(("what", "value", "unit", "from"), told)]
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class _Style:
    """Markdown, or text in lines of at most `width` characters."""

    width: int | None
    markdown: bool

    def table(self, columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
        """All of its columns, long texts broken over lines."""
        if self.markdown:
            return render_rows(columns, lines, RowFormat.markdown)
        return render_rows(*fitted(columns, lines, [0] * len(columns), self.width), RowFormat.table)

    def rows(self, table: Rows) -> list[str]:
        """As many of its columns as the line has room for, money first, and what is said below."""
        lines = [tuple(_shown(value) for value in line) for line in table.lines]
        if self.markdown:
            below, text = "", render_rows(table.columns, lines, RowFormat.markdown)
        else:
            figures = [index for index in range(len(table.columns)) if any(_is_figure(line[index]) for line in table.lines)]
            weights = [_weight(index, name, index in figures) for index, name in enumerate(table.columns)]
            shown, folded = fitted(table.columns, lines, weights, self.width, figures=figures)
            text = render_rows(shown, folded, RowFormat.table)
            below = left_out(table.columns, shown)
        notes = " ".join(note for note in (table.note, below) if note)
        return [text, *([self.wrapped(notes)] if notes else [])]

    def item(self, sentence: str) -> str:
        """One of several sentences."""
        return f"- {sentence}\n" if self.markdown else self.wrapped(sentence, "  ")

    def wrapped(self, text: str, indent: str = "") -> str:
        if self.markdown or self.width is None:
            return f"{indent}{text}\n"
        lines = textwrap.wrap(
            text, max(self.width, 20), initial_indent=indent, subsequent_indent=indent * 2,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        return "".join(f"{line}\n" for line in lines)


def _weight(index: int, name: str, is_figure: bool) -> int:
    """Which columns go first where a line is short: 0 stays, 1 is broken over lines, others go from the last one on."""
    if index == 0 or name in _ALWAYS_SHOWN:
        return 0
    return 2 + index if is_figure else 1


def _is_figure(value: Value) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _heading(text: str, markdown: bool) -> str:
    return f"# {text}\n" if markdown else f"{text}\n"


def _section(text: str, markdown: bool) -> str:
    return f"## {text}\n" if markdown else f"{text}\n"


def _money(amount: Decimal, currency: str) -> str:
    from gpucost.report.words import figure_text

    return figure_text(amount, "money", currency, 2)


def _shown(value: Value) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, float | Decimal):
        if 0 < abs(float(value)) < _SMALL:
            return f"{value:.3g}"
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _flat(prefix: str, value: Any) -> list[tuple[str, Any]]:
    """Rows of (dotted name, value)."""
    if isinstance(value, dict):
        return [row for key, item in value.items() for row in _flat(f"{prefix}.{key}" if prefix else str(key), item)]
    if isinstance(value, list | tuple):
        return [row for index, item in enumerate(value) for row in _flat(f"{prefix}.{index}", item)]
    return [(prefix, value)]
