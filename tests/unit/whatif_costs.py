"""Notations for what-ifs: fleets as text tables, answers of commands, and figures of answers as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.answer import Answer
from gpucost.whatif.fleet import Fleet, Node, Pod, Price
from tests.text_tables import table
from tests.unit.command import answer, run


def ask(what_if: str, words: str) -> dict[str, Any]:
    """The JSON answer of `gpucost whatif …`."""
    return dict(answer(f"whatif {what_if} {words}"))


def assert_refused(what_if: str, words: str, message: str, exit_code: int = 2) -> None:
    """Check that `gpucost whatif …` fails with this text in its message."""
    assert message in " ".join(run(f"whatif {what_if} {words}", exit_code).output.split())


def shown(*values: object) -> str:
    """Values as text: numbers to ten digits."""
    return " ".join(
        str(value) if isinstance(value, str | bool) or value is None else f"{float(value):.10g}"  # type: ignore[arg-type]
        for value in values
    )


def figures(found: Any, names: str) -> str:
    """Figures of an answer or record by name, as text.

    `today` and `scenario` are their costs; `today.gpu_hours` is another part.
    """
    if isinstance(found, Answer):
        positions = {"today": asdict(found.today), "scenario": asdict(found.scenario)}
        found = positions | {"saving": found.saving} | found.figures
    values = []
    for name in names.split():
        whole, _, part = name.partition(".")
        value = found[whole] if isinstance(found, Mapping) else getattr(found, whole)
        values.append(value[part or "cost"] if isinstance(value, dict) else value)
    return shown(*values)


def listed(rows: Iterable[Any], names: str) -> str:
    """Columns of rows by name, as text, row after row."""
    return "; ".join(figures(row, names) for row in rows)


def fleet(nodes: str, pods: str = "", start_ms: int = 0, **facts: Any) -> Fleet:
    """A fleet from two tables: fields of nodes and pods by their names.

    `facts` are shared by all nodes. `hours` are from and to, since `start_ms`. A node's `prices` are steps in
    money per hour: `2 committed, 10 from 6`.
    """
    defaults = {
        "gpus": 8,
        "prices": (),
        "provider": "aws",
        "region": "us-east-1",
        "instance_type": "p4d.24xlarge",
    } | facts
    made = [Node(**defaults | _priced(_spanned(row, start_ms), start_ms)) for row in table(nodes)]
    held = [_spanned(row, start_ms) for row in table(pods)] if pods else []
    return Fleet(tuple(made), tuple(Pod(**{"workload": "Job/train"} | row) for row in held))


def _spanned(row: dict[str, Any], start_ms: int) -> dict[str, Any]:
    begin, end = (start_ms + round(float(hour) * MS_PER_HOUR) for hour in row.pop("hours").split("-"))
    if "gpus" in row:
        row["gpus"] = float(row["gpus"])
    return row | {"from_ms": begin, "to_ms": end}


def _priced(row: dict[str, Any], start_ms: int) -> dict[str, Any]:
    if "prices" not in row:
        return row
    steps = []
    for amount, *words in (step.split() for step in row["prices"].split(",")):
        begin = start_ms + int(words[-1]) * MS_PER_HOUR if "from" in words else None
        steps.append(Price(Decimal(amount), "price_book", None, begin, "committed" in words))
    return row | {"prices": tuple(steps)}
