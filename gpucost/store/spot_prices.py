"""Spot prices enter the store: each change once, however often and from wherever it comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpucost.store import runs, sqlfiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    from numpy.typing import NDArray

    from gpucost.store.runs import Span

KIND = "spot"


class SpotPrice(NamedTuple):
    """One row of spot_prices: since `at_ms` an instance of this type costs `price` (decimal digits) per hour.

    `instance_id` is empty for the market's price; for what one instance was charged, `to_ms` is the end of that time.
    """

    provider: str
    region: str
    zone: str
    instance_type: str
    product: str
    instance_id: str
    at_ms: int
    to_ms: int | None
    price: str
    currency: str
    source: str


@dataclass(frozen=True, slots=True)
class SpotLoad:
    """What a batch came to: `new` facts, `corrected` ones that had another price, and rows that said nothing new."""

    rows: int
    new: int
    corrected: int

    @property
    def known(self) -> int:
        """Rows that were in the store, or in the batch, already."""
        return self.rows - self.new - self.corrected


def load(con: duckdb.DuckDBPyConnection, prices: Sequence[SpotPrice], covered: dict[str, Span] | None = None) -> SpotLoad:
    """Loads a batch inside the caller's transaction. Of rows with the same key, the last one stands.

    `covered` is what was asked of each source, and is logged even where the answer held nothing; without it each source
    covers the time from its first to its last change, and is logged where it brought something that was not known.
    """
    new = corrected = 0
    if prices:
        with sqlfiles.frames(con, spot_batch=_columns(prices)):
            sqlfiles.run(con, "spot_prices_incoming")
        new, corrected = sqlfiles.run(con, "spot_prices_counts").fetchall()[0]
        sqlfiles.run(con, "spot_prices_corrected")
        sqlfiles.run(con, "spot_prices_insert")
    rows_of: dict[str, int] = {}
    for price in prices:
        rows_of[price.source] = rows_of.get(price.source, 0) + 1
    if covered is None:
        had = {source: span for source, span in _spans(prices).items() if new or corrected or span not in loaded(con, source)}
        _log(con, had, rows_of)
    else:
        _log(con, covered, rows_of)
    return SpotLoad(len(prices), int(new), int(corrected))


def loaded(con: duckdb.DuckDBPyConnection, source: str) -> list[Span]:
    """The spans of spot prices that were loaded from a source."""
    return runs.loaded(con, KIND, source)


def known_types(con: duckdb.DuckDBPyConnection, provider: str) -> list[str]:
    """Instance types with accelerators that the store was told of beside the catalog."""
    rows = con.execute("SELECT DISTINCT instance_type FROM instance_types WHERE provider = $1 ORDER BY 1", [provider]).fetchall()
    return [str(row[0]) for row in rows]


def _spans(prices: Sequence[SpotPrice]) -> dict[str, Span]:
    """By source, from the first change up to just after the last one, or to the end of the last time charged."""
    spans: dict[str, Span] = {}
    for price in prices:
        end = price.to_ms or price.at_ms + 1
        start, last = spans.get(price.source, (price.at_ms, end))
        spans[price.source] = (min(start, price.at_ms), max(last, end))
    return spans


def _log(con: duckdb.DuckDBPyConnection, covered: dict[str, Span], rows_of: dict[str, int]) -> None:
    for source, span in sorted(covered.items()):
        run_id = runs.begin(con, KIND, source, span)
        runs.log_load(con, run_id, KIND, source, span, rows=rows_of.get(source, 0))
        runs.finish(con, run_id)


def _columns(prices: Sequence[SpotPrice]) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {"position": np.arange(len(prices), dtype=np.int64)}
    for name, values in zip(SpotPrice._fields, zip(*prices, strict=True), strict=True):
        if name in ("at_ms", "to_ms"):
            # no time charged ends in 1970: 0 stands for none
            columns[name] = np.fromiter((value or 0 for value in values), dtype=np.int64, count=len(values))
        else:
            columns[name] = np.array(values, dtype=object)
    return columns
