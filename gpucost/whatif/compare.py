"""Two saved answers side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpucost.errors import DataError, UsageError

SCHEMA = "gpucost.whatif/1"

# Named alike in both answers; what else is a number follows.
_FIRST = ("today.cost", "scenario.cost", "saving", "saving_percent", "today.gpu_hours", "scenario.gpu_hours")
_APART = ("schema", "kind", "title", "period", "assumptions", "ranges", "break_even", "time", "findings", "tables")


@dataclass(frozen=True, slots=True)
class Line:
    """A figure in both answers; None where an answer does not have it. The difference is b - a."""

    figure: str
    a: float | None
    b: float | None

    @property
    def difference(self) -> float | None:
        return None if self.a is None or self.b is None else round(self.b - self.a, 9)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two answers' figures, and the assumptions in which they differ: (name, in a, in b), as text with units."""

    titles: tuple[str, str]
    periods: tuple[str, str]
    currency: str
    lines: tuple[Line, ...]
    assumptions: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...]


def read_answer(path: Path, name: str, known: list[str]) -> Mapping[str, Any]:
    """A saved answer. Raises DataError where there is none, or it is something else; `known` are the names there are."""
    try:
        answer = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        fix = f"saved are {', '.join(known)}" if known else "gpucost whatif … --save NAME saves one"
        raise DataError(f"there is no saved answer {name}: looked for {path}", fix) from None
    except (OSError, ValueError) as error:
        raise DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", _HINT) from None
    whole = isinstance(answer, dict) and answer.get("schema") == SCHEMA
    if not whole or not all(isinstance(answer.get(key), dict) for key in ("today", "scenario")):
        raise DataError(f"{path} is no answer of gpucost whatif ({SCHEMA})", _HINT)
    return dict(answer)


def compare(a: Mapping[str, Any], b: Mapping[str, Any]) -> Comparison:
    """Both side by side. Raises UsageError where their currencies differ: money in two of them has no difference."""
    currencies = [str(answer["today"].get("currency")) for answer in (a, b)]
    if currencies[0] != currencies[1]:
        raise UsageError(
            f"the answers are in {currencies[0]} and {currencies[1]}", "ask both again with one currency in the configuration"
        )
    left, right = _figures(a), _figures(b)
    names = [name for name in _FIRST if name in left or name in right]
    names += [name for name in {**left, **right} if name not in names]
    periods = (str(a.get("period")), str(b.get("period")))
    notes = []
    if periods[0] != periods[1]:
        notes.append(f"The periods differ ({periods[0]}; {periods[1]}): compare percentages, not money.")
    elif left.get("today.cost") != right.get("today.cost"):
        notes.append("Today's costs differ: the answers are not about the same usage.")
    return Comparison(
        (str(a.get("title")), str(b.get("title"))),
        periods,
        currencies[0],
        tuple(Line(name, left.get(name), right.get(name)) for name in names),
        tuple(_assumptions(a, b)),
        tuple(notes),
    )


def _figures(answer: Mapping[str, Any]) -> dict[str, float | None]:
    """Every number of an answer by its dotted name, those of its tables and assumptions apart."""
    found: dict[str, float | None] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(f"{prefix}.{key}" if prefix else str(key), item)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[prefix] = value

    walk("", {key: value for key, value in answer.items() if key not in _APART})
    return found


def _assumptions(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    left, right = _told(a), _told(b)
    return [(name, left.get(name, "-"), right.get(name, "-")) for name in {**left, **right} if left.get(name) != right.get(name)]


def _told(answer: Mapping[str, Any]) -> dict[str, str]:
    listed = answer.get("assumptions")
    return {
        str(item.get("name")): f"{item.get('value')} {item.get('unit')}".strip()
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict)
    }


_HINT = "--save NAME on any gpucost whatif command writes what compare reads"
