"""Two saved answers side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpucost import inputs
from gpucost.errors import DataError, UsageError

SCHEMA = "gpucost.whatif/1"

# Named alike in both answers; what else is a number follows.
_FIRST = ("today.cost", "scenario.cost", "saving", "saving_percent", "today.gpu_hours", "scenario.gpu_hours")
_HINT = "--save NAME on any gpucost whatif command writes what compare reads"


def read_answer(name: str, folder: Path) -> dict[str, Any]:
    """The saved answer of that name in `folder`, or of a file where the name is a path. Raises DataError where it is none."""
    path = Path(name)
    if path.suffix != ".json" and len(path.parts) == 1 and not path.is_file():
        path = folder / f"{name}.json"
    try:
        answer = inputs.parse_json(inputs.text(path))
    except FileNotFoundError:
        known = ", ".join(sorted(file.stem for file in folder.glob("*.json")))
        fix = f"saved are {known}" if known else "gpucost whatif … --save NAME saves one"
        raise DataError(f"there is no saved answer {name}: looked for {path}", fix) from None
    except (OSError, ValueError) as error:
        raise inputs.unreadable(path, error, _HINT) from None
    whole = isinstance(answer, dict) and answer.get("schema") == SCHEMA
    if not whole or not all(isinstance(answer.get(key), dict) for key in ("today", "scenario")):
        raise DataError(f"{path} is no answer of gpucost whatif ({SCHEMA})", _HINT)
    return dict(answer)


def compare(names: tuple[str, str], answers: tuple[Mapping[str, Any], Mapping[str, Any]]) -> dict[str, Any]:
    """Both side by side, as JSON has it: figures by dotted name, their differences b - a, and the assumptions that differ.

    Raises UsageError where their currencies differ: money in two of them has no difference.
    """
    currency, other = (str(answer["today"].get("currency")) for answer in answers)
    if currency != other:
        raise UsageError(
            f"the answers are in {currency} and {other}",
            "ask both again with one currency in the configuration",
        )
    a, b = map(_figures, answers)
    figures = [name for name in dict.fromkeys((*_FIRST, *a, *b)) if name in a or name in b]
    left, right = map(_assumptions, answers)
    first, second = (
        {"name": name, "title": str(answer.get("title")), "period": str(answer.get("period"))}
        for name, answer in zip(names, answers, strict=True)
    )
    notes = []
    if first["period"] != second["period"]:
        notes.append(
            f"The periods differ ({first['period']}; {second['period']}): compare percentages, not money."
        )
    elif a.get("today.cost") != b.get("today.cost"):
        notes.append("Today's costs differ: the answers are not about the same usage.")
    return {
        "currency": currency,
        "a": first,
        "b": second,
        "figures": {name: _line(a.get(name), b.get(name)) for name in figures},
        "assumptions": [
            {"name": name, "a": left.get(name, "-"), "b": right.get(name, "-")}
            for name in {**left, **right}
            if left.get(name) != right.get(name)
        ],
        "notes": notes,
    }


def _line(a: float | None, b: float | None) -> dict[str, float | None]:
    return {"a": a, "b": b, "difference": None if a is None or b is None else round(b - a, 9)}


def _figures(answer: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Every number of an answer, by its dotted name."""
    figures: dict[str, float] = {}
    for key, value in answer.items():
        if isinstance(value, dict):
            figures |= _figures(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            figures[f"{prefix}{key}"] = value
    return figures


def _assumptions(answer: Mapping[str, Any]) -> dict[str, str]:
    rows = answer.get("assumptions")
    return {
        str(row.get("name")): f"{row.get('value')} {row.get('unit')}".strip()
        for row in (rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
    }
