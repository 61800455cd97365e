"""Why one price comes before another, in words. The order itself is the rank that the .sql files give."""

from __future__ import annotations

SOURCES = {"bill": "the bill", "price_book": "the price book", "spot_history": "spot price history", "catalog": "list prices"}

_SPOT = {103: "its own charges", 102: "its own zone", 101: "its region", 100: "the median of its region's zones"}
_LIST = {4: "its own zone", 3: "its own zone", 2: "its region", 1: "the median of its region's zones", 0: "any region"}
# bits of a price book row's specificity, the heaviest first
_FIELDS = ((16, "an instance type"), (8, "a zone"), (4, "a region"), (2, "a provider"), (1, "a purchase option"))
_BOOK_RANK = 1_000_000


def why_won(source: str, rank: int, other: str, other_rank: int) -> str:
    """Why the price of `source` with `rank` won over the next one."""
    if source != other:
        return f"wins: {SOURCES[source]} comes before {SOURCES[other]}"
    if source == "price_book":
        return f"wins: more specific, {_difference(rank, other_rank)}"
    places = _SPOT if source == "spot_history" else _LIST
    return f"wins: {places[rank]} comes before {places[other_rank]}"


def why_lost(source: str, rank: int, winner: str, winner_rank: int) -> str:
    """Why the price of `source` with `rank` lost to the winner."""
    if source != winner:
        return f"{SOURCES[winner]} comes first"
    if source == "price_book":
        return f"less specific: the winner {_difference(winner_rank, rank)}"
    places = _SPOT if source == "spot_history" else _LIST
    return f"{places[winner_rank]} comes first"


def _difference(more: int, less: int) -> str:
    more, less = more - _BOOK_RANK, less - _BOOK_RANK
    if more >> 5 != less >> 5:
        return f"selects {more >> 5} node {'label' if more >> 5 == 1 else 'labels'}, not {less >> 5}"
    return next(f"names {words}" for bit, words in _FIELDS if (more ^ less) & bit)
