"""Counters that several processes of a server expose under one name: separated by level, or left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.engine import answer_rows
from gpucost.questions.report.rows import PACKAGE
from gpucost.render.view import Notice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from gpucost.periods import Period

_MOST = 64
_FIX = "scrape each process under its own instance, or let the server add them up (prometheus_client: PROMETHEUS_MULTIPROC_DIR)"
_TABLE = """
CREATE OR REPLACE TEMP TABLE unit_processes AS
SELECT unnest($1::UBIGINT[]) AS identity, unnest($2::BIGINT[]) AS series_id, unnest($3::BIGINT[]) AS at_ms,
    unnest($4::INTEGER[]) AS process"""


def processes(
    con: DuckDBPyConnection, period: Period, clusters: Sequence[str], from_ms: int = 0
) -> list[Notice]:
    """Make unit_processes: the process of each value of such a counter, or none.

    Returns warnings for counters of the period. Ignores values before `from_ms`.
    """
    rows = []
    notices = []
    for row in answer_rows(con, PACKAGE, "35_processes", {"from_ms": from_ms, "to_ms": period.end_ms}):
        numbers = separated(row["levels"])
        rows += [
            (row["identity"], row["series_id"], *value)
            for value in zip(row["at_ms"], numbers or (None,), strict=False)
        ]
        if row["at_ms"][-1] >= period.start_ms and (not clusters or row["cluster"] in clusters):
            how = (
                f"{max(numbers) + 1} levels are added up"
                if numbers
                else "their levels cannot be separated: left out"
            )
            notices.append(
                Notice(
                    "counter_of_processes",
                    f"{row['name']} counts several processes under one name; {how}",
                    _FIX,
                )
            )
    con.execute(_TABLE, list(zip(*rows, strict=True)) or [()] * 4)
    return notices


def separated(levels: Sequence[float]) -> list[int] | None:
    """The process number of each value; None if a value fits several.

    A value continues the highest level that is not above it. That is certain if the largest rise of a level is
    smaller than the distance of every value from the level below its own.
    """
    lasts: list[float] = []
    for value in reversed(levels):  # backward, down to the first level of each process
        above = [number for number, last in enumerate(lasts) if last >= value]
        number = min(above, key=lasts.__getitem__, default=len(lasts))
        lasts[number : number + 1] = [value]
        if number == _MOST:
            return None
    numbers = []
    most = 0.0
    least = float("inf")
    for value in levels:
        (rise, number), *others = sorted(
            (value - last, number) for number, last in enumerate(lasts) if last <= value
        )
        most, least = max(most, rise), min([least, *(other for other, _ in others)])
        lasts[number] = value
        numbers.append(number)
    return numbers if most < least else None
