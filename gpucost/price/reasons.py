"""Why one price comes before another, in words. The order itself is the rank that the .sql files give."""

from __future__ import annotations

SOURCES = {"bill": "the bill", "price_book": "the price book", "spot_history": "spot price history", "catalog": "list prices"}

_SPOT = {103: "its own charges", 102: "its own zone", 101: "its region", 100: "the median of its region's zones"}
_PLACES = 5  # list prices of an option that fits the node better have ranks that much higher
_OPTION_FIRST = "purchase option comes first for such nodes"
_LIST = {4: "its own zone", 3: "its own zone", 2: "its region", 1: "the median of its region's zones", 0: "any region"}
# bits of a price book row's specificity, the heaviest first; below them, how well its purchase option fits the node
_FIELDS = ((64, "an instance type"), (32, "a zone"), (16, "a region"), (8, "a provider"), (4, "a purchase option"))
_SELECTOR = 128
_BOOK_RANK = 1_000_000


def why_won(source: str, rank: int, other: str, other_rank: int) -> str:
    """Why the price of `source` with `rank` won over the next one."""
    if source != other:
        return f"wins: {SOURCES[source]} comes before {SOURCES[other]}"
    if source == "price_book":
        more = _difference(rank, other_rank)
        return f"wins: more specific, {more}" if more else f"wins: its {_OPTION_FIRST}"
    if source == "spot_history":
        return f"wins: {_SPOT[rank]} comes before {_SPOT[other_rank]}"
    if rank // _PLACES != other_rank // _PLACES:
        return f"wins: its {_OPTION_FIRST}"
    return f"wins: {_LIST[rank % _PLACES]} comes before {_LIST[other_rank % _PLACES]}"


def why_lost(source: str, rank: int, winner: str, winner_rank: int) -> str:
    """Why the price of `source` with `rank` lost to the winner."""
    if source != winner:
        return f"{SOURCES[winner]} comes first"
    if source == "price_book":
        more = _difference(winner_rank, rank)
        return f"less specific: the winner {more}" if more else f"the winner's {_OPTION_FIRST}"
    if source == "spot_history":
        return f"{_SPOT[winner_rank]} comes first"
    if rank // _PLACES != winner_rank // _PLACES:
        return f"the winner's {_OPTION_FIRST}"
    return f"{_LIST[winner_rank % _PLACES]} comes first"


def _difference(more: int, less: int) -> str | None:
    """What the more specific of two price book rows says and the other does not; None where both say as much."""
    more, less = more - _BOOK_RANK, less - _BOOK_RANK
    labels, others = more // _SELECTOR, less // _SELECTOR
    if labels != others:
        return f"selects {labels} node {'label' if labels == 1 else 'labels'}, not {others}"
    return next((f"names {words}" for bit, words in _FIELDS if (more ^ less) & bit), None)
