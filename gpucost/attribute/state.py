"""What the stored result was made from: whether it still holds, and which reported periods cut its cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.model import MS_PER_HOUR

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.model import Period

_UNFINISHED = -1  # as last_load_id: attribution began and did not end, or something else than a load changed its inputs


def is_current(con: DuckDBPyConnection, inputs: str, period: Period | None) -> bool:
    """Whether the result was made from `inputs` and all loads there are, and its cells are cut at the ends of `period`."""
    state = con.execute("SELECT inputs, last_load_id FROM attribution_state").fetchone()
    newest = con.execute("SELECT coalesce(max(load_id), 0) FROM loads").fetchall()[0][0]
    missing = con.execute("SELECT unnest($cuts::BIGINT[]) EXCEPT SELECT at_ms FROM cuts", {"cuts": _cuts(period)}).fetchall()
    return state == (inputs, newest) and not missing


def begin(con: DuckDBPyConnection, inputs: str, period: Period | None) -> bool:
    """Note that the result is being made from `inputs`; returns whether it was made from others before, or not at all."""
    con.execute("INSERT INTO cuts SELECT unnest($cuts::BIGINT[]) EXCEPT SELECT at_ms FROM cuts", {"cuts": _cuts(period)})
    known = con.execute("SELECT inputs FROM attribution_state").fetchone()
    con.execute("DELETE FROM attribution_state")
    con.execute("INSERT INTO attribution_state VALUES ($inputs, $load)", {"inputs": inputs, "load": _UNFINISHED})
    return known != (inputs,)


def finish(con: DuckDBPyConnection) -> None:
    """Note that the result holds all loads."""
    con.execute("UPDATE attribution_state SET last_load_id = (SELECT coalesce(max(load_id), 0) FROM loads)")


def _cuts(period: Period | None) -> list[int]:
    """The ends of a period at which cells are not cut anyway."""
    return [at for at in (period.start_ms, period.end_ms) if at % MS_PER_HOUR] if period else []
