"""--compare: a report beside the one on the period before it."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.errors import UsageError

if TYPE_CHECKING:
    from gpucost.report import Query


class Comparison(StrEnum):
    """What a report is compared with."""

    previous = "previous"


CompareOption = Annotated[
    Comparison | None,
    typer.Option(
        "--compare",
        help="Also how cost changed since the period before, as long; of a month, since the month before.",
        show_default=False,
    ),
]


def check_comparable(query: Query, *, waste: bool, focus: bool) -> None:
    """Raises UsageError for what has nothing of an earlier period beside it."""
    if focus:
        raise UsageError("a FOCUS file holds charges, and nothing to compare them with", "leave out --compare")
    if waste:
        raise UsageError("--compare and --waste exclude each other", "give one of them")
    if times := [name for name in query.by if name in ("month", "day", "hour")]:
        raise UsageError(f"rows by {times[0]} have none of the period before to compare with", f"leave {times[0]} out of --by")
