"""Answers as data frames, from their JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpucost.render.data import IN_COST

if TYPE_CHECKING:
    import pandas as pd

# Lists of texts, in all answers and in what-ifs: for an empty list, only its name shows the type of its items.
_TEXTS = ("by", "notes", "reasons")
_TEXTS_OF_SCENARIOS = (*_TEXTS, "break_even", "time", "findings")


def frame(answer: Any, notes: tuple[str, ...], exit_code: int) -> pd.DataFrame:
    """The main rows of an answer; `df.attrs` has its fields except tables, `messages` and `exit_code`."""
    import pandas as pd

    named = tables(answer)
    found = pd.json_normalize(next(iter(named.values())))
    if isinstance(answer, dict):
        found.attrs |= {
            name: value for name, value in answer.items() if name not in named and name != "tables"
        }
    found.attrs |= {"messages": list(notes), "exit_code": exit_code}
    return found


def tables(answer: Any) -> dict[str, list[dict[str, Any]]]:
    """The lists of rows in an answer by name, the main one first; for what-ifs by title.

    The main list of a what-if is `positions`: today's and the scenario's cost. An answer without any list is one row.
    """
    if isinstance(answer, list):
        return {"rows": answer}
    inner = answer.get("tables")
    every = {**answer, **(inner if isinstance(inner, dict) else {})}
    texts = _TEXTS_OF_SCENARIOS if "scenario" in answer else _TEXTS
    found = {name: rows for name, rows in every.items() if _are_rows(rows) and (rows or name not in texts)}
    if str(answer.get("schema")).startswith("gpucost.report/"):  # as in its CSV: one column of cost adds up
        for row in found["rows"]:
            row["cost"] += sum(row.pop(name, 0) for name in IN_COST)
    if "scenario" in answer and "today" in answer:
        return {"positions": [{"position": name, **answer[name]} for name in ("today", "scenario")], **found}
    if isinstance(figures := answer.get("figures"), dict):
        return {"figures": [{"figure": name, **values} for name, values in figures.items()], **found}
    return found or {"rows": [answer]}


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)
