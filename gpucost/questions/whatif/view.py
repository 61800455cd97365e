"""Answers of what-ifs as a page, as JSON (gpucost.whatif/1) and as rows, all with the same figures."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from pydantic import with_config
from typing_extensions import TypedDict

from gpucost.render.formatting import figure_text
from gpucost.render.view import Column, Document, Figure, Figures, Line, Table, Texts, Unit, figure, text
from gpucost.whatif.answer import Answer, Assumption, Position, Range, Rows, Value

SCHEMA = "gpucost.whatif/1"


@with_config(extra="allow")
class WhatIfAnswer(TypedDict):
    """What gpucost whatif prints. Money is in the currency of `today`; further named figures depend on `kind`."""

    kind: str
    title: str
    period: str
    today: Position
    scenario: Position
    saving: float
    saving_percent: float | None
    assumptions: list[Assumption]
    ranges: list[Range]
    break_even: list[str]
    time: list[str]
    findings: list[str]
    tables: dict[str, list[dict[str, str | float | None]]]


# Four decimals would hide the digits of a number below _SMALL; above _LARGE, one decimal is enough.
_SMALL, _LARGE = 0.01, 10_000
# A word that may begin with a capital: not the name of a cloud, and without signs and digits.
_WORD = re.compile(r"(?!(?:aws|gcp|azure|oci)\b)[a-z]+(?:-[a-z]+)*[:,;]?")
# Columns that a table always shows.
_ALWAYS_SHOWN = ("cost", "saving", "obligation", "saving_percent", "today", "scenario")


def document(answer: Answer) -> Document:
    """The answer for people: today, the scenario and the saving; then ranges, sentences, tables and assumptions."""
    currency, data = answer.today.currency, _data(answer)
    texts = (("Break-even", answer.break_even), ("Time", answer.time), ("Findings", answer.findings))
    return Document(
        title=f"{answer.title}, {answer.period}",
        currency=currency,
        sections=(
            Figures("", tuple(_figures(answer))),
            *([_ranges(answer.ranges, currency)] if answer.ranges else []),
            *(Texts(title, tuple(map(_sentence, several))) for title, several in texts if several),
            *map(_table, answer.tables),
            *([_assumptions(answer.assumptions)] if answer.assumptions else []),
        ),
        whole_in="json",
        name="whatif",
        data=data,
        flat=(("figure", "value"), _flat("", {"schema": SCHEMA} | data)),
    )


def _figures(answer: Answer) -> Iterator[Figure]:
    for name, position in (("Today", answer.today), ("Scenario", answer.scenario)):
        yield Figure(name, position.cost, "money", note=f"{position.gpu_hours:,.1f} GPU-hours")
    percent = answer.saving_percent
    share = (None, None) if percent is None else (percent / 100, "of today's cost")
    yield Figure("Saving", answer.saving, "money", *share)
    needs_work = answer.figures.get("saving_by_suitability", {}).get("needs_work", 0)
    if needs_work > 0:
        yield Figure("Needs work", needs_work, "money", note="more; no part of the saving")
    if (owed := answer.figures.get("obligation")) is not None:
        yield Figure("Obligation", owed, "money", note="owed, used or not")


def _ranges(ranges: Sequence[Range], currency: str) -> Table:
    """Ranges of money, and of other figures with their unit."""

    def between(row: Range) -> str:
        if row.unit != currency:
            return f"{_value_text(row.low)} to {_value_text(row.high)} {row.unit}"
        low, high = (figure_text(end, "money", currency, 2) for end in (row.low, row.high))
        return f"{low} to {high}"

    columns = (text(lambda row: capitalized(row.figure), "Figure"), figure(between, "Range"), text("meaning"))
    return Table.of("Range", ranges, columns)


def _assumptions(assumptions: Sequence[Assumption]) -> Table:
    columns = (
        text(lambda row: capitalized(row.name), "What"),
        figure(lambda row: _value_text(row.value), "Value"),
        text("unit"),
        text(lambda row: f"{row.source}{f', {row.as_of}' if row.as_of else ''}", "From"),
    )
    return Table.of("Assumptions", assumptions, columns)


def _data(answer: Answer) -> dict[str, Any]:
    """The answer as JSON, without its schema; money still Decimal."""
    data: dict[str, Any] = {}
    for name, value in asdict(answer).items():
        if name == "figures":
            data |= {"saving": answer.saving, "saving_percent": answer.saving_percent} | value
        else:
            data[name] = value
    tables = {}
    for table in answer.tables:
        tables[table.title] = [dict(zip(table.columns, line, strict=True)) for line in table.lines]
    return data | {"tables": tables}


def _table(rows: Rows) -> Table:
    """A table of the answer: money with its sign, numbers with few decimals; a narrow page drops the last figures first."""
    columns = []
    for at, name in enumerate(rows.columns):
        unit, decimals = _unit(name, [line[at] for line in rows.lines])
        weight = 0 if at == 0 or name in _ALWAYS_SHOWN else 1 if unit == "text" else 2 + at
        columns.append(Column(capitalized(name), unit, decimals, weight))
    return Table(capitalized(rows.title), tuple(columns), tuple(map(Line, rows.lines)), rows.note)


def _unit(name: str, values: Sequence[Value]) -> tuple[Unit, int]:
    """The unit and the decimals of a column; Decimal values are money."""
    if any(isinstance(value, Decimal) for value in values):
        return ("price", 4) if "per" in _words(name) or name.endswith("price") else ("money", 2)
    sizes = [abs(value) for value in values if isinstance(value, int | float)]
    if not sizes:
        return "text", 0
    if "%" in name or "percent" in name:
        return "hours", 1
    if all(float(size).is_integer() for size in sizes):
        return "hours", 0
    if max(sizes) < 1:
        return "hours", 4
    return "hours", 2 if max(sizes) < _LARGE else 1


def _sentence(text: str) -> str:
    """The text with a capital and a period; a name at its beginning stays, so that it can be copied."""
    first, space, rest = text.partition(" ")
    return f"{_begun(first)}{space}{rest}{'' if text.endswith(('.', '!', '?')) else '.'}"


def _begun(word: str) -> str:
    return word[:1].upper() + word[1:] if _WORD.fullmatch(word) else word


def _words(name: str) -> list[str]:
    return re.split(r"[ _]", name.replace("gpu_hours", "GPU-hours"))


def capitalized(name: str) -> str:
    """A name as a title: `held_gpu_hours` is `Held GPU-hours`; the name of an instance type stays as it is."""
    first, *rest = ({"gpu": "GPU", "gpus": "GPUs", "mib": "MiB"}.get(word, word) for word in _words(name))
    return " ".join((_begun(first), *rest))


def _value_text(value: Value) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, float | Decimal):
        return f"{value:.3g}" if 0 < abs(float(value)) < _SMALL else f"{value:,.4f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) else value


def _flat(prefix: str, value: Any) -> list[tuple[str, Any]]:
    """Rows of (dotted name, value)."""
    if not isinstance(value, dict | list | tuple):
        return [(prefix, value)]
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [row for key, item in items for row in _flat(f"{prefix}.{key}" if prefix else str(key), item)]
