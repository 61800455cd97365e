"""Why one price comes before another, in words. The order itself is the rank that the .sql files give."""

from __future__ import annotations

SOURCES = {"bill": "the bill", "price_book": "the price book", "spot_history": "spot price history", "catalog": "list prices"}

_SPOT = {103: "its own charges", 102: "its own zone", 101: "its region", 100: "the median of its region's zones"}
_OPTIONS = 5  # list prices of an option that fits the node better begin here
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
        return f"wins: more specific, {_difference(rank, other_rank)}"
    return f"wins: {_place(source, rank)} comes before {_place(source, other_rank)}"


def why_lost(source: str, rank: int, winner: str, winner_rank: int) -> str:
    """Why the price of `source` with `rank` lost to the winner."""
    if source != winner:
        return f"{SOURCES[winner]} comes first"
    if source == "price_book":
        return f"less specific: the winner {_difference(winner_rank, rank)}"
    return f"{_place(source, winner_rank)} comes first"


def _place(source: str, rank: int) -> str:
    if source == "spot_history":
        return _SPOT[rank]
    return ("flex start in " if rank >= _OPTIONS else "") + _LIST[rank % _OPTIONS]


def _difference(more: int, less: int) -> str:
    more, less = more - _BOOK_RANK, less - _BOOK_RANK
    labels, others = more // _SELECTOR, less // _SELECTOR
    if labels != others:
        return f"selects {labels} node {'label' if labels == 1 else 'labels'}, not {others}"
    words = next((words for bit, words in _FIELDS if (more ^ less) & bit), None)
    return f"names {words}" if words else "names a purchase option that comes before the other's"
