"""How the answers of what-ifs are shown: the same figures as a page, as JSON (gpucost.whatif/1) and as rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from pydantic import with_config
from typing_extensions import TypedDict

from gpucost.render.formatting import figure_text
from gpucost.render.view import Column, Document, Figure, Figures, Line, Table, Texts, Unit, figure, text
from gpucost.whatif.answer import Answer, Assumption, Range, Rows, Value

SCHEMA = "gpucost.whatif/1"


@with_config(extra="allow")
class PositionAnswer(TypedDict):
    """A state of affairs: its cost over the period, and the GPU-hours and node-hours paid; more by kind."""

    cost: float
    currency: str
    gpu_hours: float
    node_hours: float


@with_config(extra="allow")
class WhatIfAnswer(TypedDict):
    """What gpucost whatif prints. Money is in the currency of `today`; further named figures depend on `kind`."""

    kind: str
    title: str
    period: str
    today: PositionAnswer
    scenario: PositionAnswer
    saving: float
    saving_percent: float | None
    assumptions: list[Assumption]
    ranges: list[Range]
    break_even: list[str]
    time: list[str]
    findings: list[str]
    tables: dict[str, list[dict[str, str | float | None]]]


# below this, four decimals would hide a number's digits; above that, two say more than anybody reads
_SMALL, _LARGE = 0.01, 10_000
# A word that may begin with a capital: no name of a cloud, and nothing with signs or digits in it.
_WORD = re.compile(r"(?!(?:aws|gcp|azure|oci)\b)[a-z]+(?:-[a-z]+)*[:,;]?")
# what a table of an answer never leaves out
_ALWAYS_SHOWN = ("cost", "saving", "obligation", "saving_percent", "today", "scenario")


def document(answer: Answer) -> Document:
    """The answer for people: today, the scenario and what is saved; then ranges, sentences, tables and assumptions."""
    currency, percent = answer.today.currency, answer.saving_percent
    share = (None, None) if percent is None else (percent / 100, "of today's cost")
    positions = {"Today": answer.today, "Scenario": answer.scenario}
    figures = [
        Figure(name, position.cost, "money", note=f"{position.gpu_hours:,.1f} GPU-hours")
        for name, position in positions.items()
    ]
    figures.append(Figure("Saving", answer.saving, "money", *share))
    needs_work = answer.figures.get("saving_by_suitability", {}).get("needs_work", 0)
    if needs_work > 0:
        figures.append(Figure("Needs work", needs_work, "money", note="more; no part of the saving"))
    if (owed := answer.figures.get("obligation")) is not None:
        figures.append(Figure("Obligation", owed, "money", note="owed, used or not"))

    def shown(value: Value, unit: str) -> str:
        is_money = unit == currency and _is_figure(value)
        return figure_text(Decimal(str(value)), "money", currency, 2) if is_money else _shown(value)

    told = (("What would break it", answer.break_even), ("Time", answer.time), ("Findings", answer.findings))
    ranges = Table.of(
        "Range",
        answer.ranges,
        (
            text(lambda one: capitalized(one.figure), "Figure"),
            figure(lambda one: f"{shown(one.low, one.unit)} to {shown(one.high, one.unit)}", "Range"),
            text(lambda one: "" if one.unit == currency else one.unit, "Unit"),
            text("meaning"),
        ),
    )
    assumptions = Table.of(
        "Assumptions",
        answer.assumptions,
        (
            text(lambda one: capitalized(one.name), "What"),
            figure(lambda one: _shown(one.value), "Value"),
            text("unit"),
            text(lambda one: f"{one.source}{f', {one.as_of}' if one.as_of else ''}", "From"),
        ),
    )
    data = _data(answer)
    return Document(
        title=f"{answer.title}, {answer.period}",
        currency=currency,
        sections=(
            Figures("", tuple(figures)),
            *([ranges] if answer.ranges else []),
            *(Texts(title, tuple(map(_sentence, texts))) for title, texts in told if texts),
            *(_table(rows, currency) for rows in answer.tables),
            *([assumptions] if answer.assumptions else []),
        ),
        whole_in="json",
        name="whatif",
        data=data,
        flat=(("figure", "value"), _flat("", {"schema": SCHEMA} | data)),
    )


def _data(answer: Answer) -> dict[str, Any]:
    """The answer as JSON holds it, without its schema; money still Decimal."""
    document: dict[str, Any] = {}
    for name, value in asdict(answer).items():
        if name in ("today", "scenario"):
            document[name] = value | value.pop("more")
        elif name == "figures":
            document |= {"saving": answer.saving, "saving_percent": answer.saving_percent} | value
        else:
            document[name] = value
    rows = {
        table.title: [dict(zip(table.columns, line, strict=True)) for line in table.lines]
        for table in answer.tables
    }
    return document | {"tables": rows}


def _table(rows: Rows, currency: str) -> Table:
    """A table of the answer: money with its sign, numbers as long as they need be; where room lacks the last figures go first."""
    columns = []
    for at, (name, values) in enumerate(zip(rows.columns, zip(*rows.lines, strict=True), strict=True)):
        unit, decimals = _unit(name, values)
        weight = 0 if at == 0 or name in _ALWAYS_SHOWN else 1 if unit == "text" else 2 + at
        columns.append(Column(capitalized(name), unit, decimals, weight))
    lines = (
        Line(tuple(_cell(*one, currency) for one in zip(line, columns, strict=True))) for line in rows.lines
    )
    return Table(capitalized(rows.title), tuple(columns), tuple(lines), rows.note)


def _unit(name: str, values: Sequence[Value]) -> tuple[Unit, int]:
    """How the values of a column are written, and with how many decimals; money is known by being decimal, and no measure.

    In a column of money and other numbers each is written by itself: it has no decimals in common.
    """
    figures = [value for value in values if _is_figure(value)]
    if not figures:
        return "text", 0
    kinds = {isinstance(value, Decimal) for value in figures}
    if True in kinds and "GB" not in _words(name):
        if len(kinds) > 1:
            return "price", 0
        return ("price", 4) if "per" in _words(name) or name.endswith("price") else ("money", 2)
    if "%" in name or "percent" in name:
        return "hours", 1
    sizes = [abs(float(value)) for value in figures if value is not None]
    return "hours", 0 if all(size.is_integer() for size in sizes) else 4 if max(sizes) < 1 else 2 if max(
        sizes
    ) < _LARGE else 1


def _cell(value: Value, column: Column, currency: str) -> str | float | Decimal | None:
    if column.unit == "price" and not column.decimals and value is not None:
        return figure_text(value, "money", currency, 2) if isinstance(value, Decimal) else _shown(value)
    return _shown(value) if column.unit == "text" and value is not None else value


def _sentence(text: str) -> str:
    """A sentence begins with a capital, unless with a name: those are there to be copied."""
    first = text.partition(" ")[0]
    begins = capitalized(first) if _WORD.fullmatch(first) else first
    return begins + text[len(first) :] + ("" if text.endswith((".", "!", "?")) else ".")


def _words(name: str) -> list[str]:
    return re.split(r"[ _]", name.replace("gpu_hours", "GPU-hours"))


def capitalized(name: str) -> str:
    """A name as a title: `held_gpu_hours` is `Held GPU-hours`; the name of an instance type stays as it is."""
    first, *rest = ({"gpu": "GPU", "gpus": "GPUs", "mib": "MiB"}.get(word, word) for word in _words(name))
    return " ".join((first[:1].upper() + first[1:] if _WORD.fullmatch(first) else first, *rest))


def _is_figure(value: Value) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _shown(value: Value) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, float | Decimal):
        return f"{value:.3g}" if 0 < abs(float(value)) < _SMALL else f"{value:,.4f}".rstrip("0").rstrip(".")
    return f"{value:,}" if _is_figure(value) else str(value)


def _flat(prefix: str, value: Any) -> list[tuple[str, Any]]:
    """Rows of (dotted name, value)."""
    if not isinstance(value, dict | list | tuple):
        return [(prefix, value)]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [row for key, item in items for row in _flat(f"{prefix}.{key}" if prefix else str(key), item)]
