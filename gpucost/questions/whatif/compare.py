"""Two saved answers side by side."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Annotated, Any

from gpucost.options import argument
from gpucost.questions.request import Request
from gpucost.questions.whatif.request import saved_answers
from gpucost.questions.whatif.view import capitalized
from gpucost.render.view import Document, Table, Texts, figure, text
from gpucost.whatif.compare import compare, read_answer


def whatif_compare(
    request: Request,
    first: Annotated[str, argument("A", "A name given to --save, or a file of --format json.")],
    second: Annotated[str, argument("B", "Another.")],
) -> Document:
    """Put two saved answers side by side: costs, savings, other figures, and the assumptions in which they differ.

    \b
    Examples:
      gpucost whatif schedule --month 2026-10 --idle-minutes 30 --save thirty
      gpucost whatif schedule --month 2026-10 --idle-minutes 60 --save sixty
      gpucost whatif compare thirty sixty
      gpucost whatif compare thirty other.json --format json
    """
    folder = saved_answers(request.configured)
    comparison = compare((first, second), (read_answer(first, folder), read_answer(second, folder)))
    rows = [(figure, *values.values()) for figure, values in comparison["figures"].items()]
    sides = {column: comparison[key] for column, key in ((first, "a"), (second, "b"))}
    shown = (
        text(
            lambda row: capitalized(row[0].replace(".", ": ")),
            f"In {comparison['currency']}, or the unit named",
        ),
        *(figure(partial(_shown, at), name) for at, name in enumerate((first, second, "Difference"), 1)),
    )
    differing = (
        text(itemgetter("name"), "Assumption"),
        figure(itemgetter("a"), first),
        figure(itemgetter("b"), second),
    )
    return Document(
        title=f"What-ifs compared: {first} and {second}",
        currency=comparison["currency"],
        sections=(
            Texts(
                "Answers", tuple(f"{name}: {one['title']}, {one['period']}" for name, one in sides.items())
            ),
            Table.of("Figures", rows, shown, note=" ".join(comparison["notes"]) or None),
            Table.of("Assumptions that differ", comparison["assumptions"], differing),
        ),
        whole_in="json",
        name="whatif-compare",
        data=comparison,
        flat=(("figure", "a", "b", "difference"), rows),
    )


def _shown(at: int, row: Sequence[Any]) -> str:
    value = row[at]
    return "–" if value is None else f"{value:,.4f}".rstrip("0").rstrip(".") if value % 1 else f"{value:,.0f}"
