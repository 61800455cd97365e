"""Files of one load that tell of the same charges: one of them holds, or nobody can say and the load is refused."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from gpucost.errors import DataError
from gpucost.store import sqlfiles
from gpucost.store.bill_files import rows
from gpucost.store.bill_rules import Telling, is_mostly_shared, is_torn, verdict

if TYPE_CHECKING:
    import duckdb


# The rows of one telling, for bill_lines_alike. Hours have the quantity that they had; a month's tax or support grows with it.
_LINES = """CREATE OR REPLACE TEMP TABLE {} AS
    SELECT charge_key, row_digest, charge_period_start, charge_period_end, instance_key, instance_hours,
        charge_period_end <= charge_period_start + INTERVAL 1 DAY AS is_short,
        hash(CAST(tags AS VARCHAR), zone, sku_id, sku_price_id, charge_description,
            CASE WHEN is_short THEN pricing_quantity END) AS detail
    FROM """
SOME_LINES, OTHER_LINES = _LINES.format("some_lines"), _LINES.format("other_lines")


def are_parts(con: duckdb.DuckDBPyConnection, some: Telling, other: Telling, common: int, *, is_one_run: bool) -> bool:
    """Whether some_lines and other_lines, which share charges, are parts of one bill and not its state at two times.

    Parts tell what they share alike. Where both cover the same time they leave out nothing of each other: they are parts by time,
    and `some` is the newer one. Parts by rows, which leave out, are told from a later state by what they share, less than half,
    by their machines, which have no hour twice, and where they come one by one by covering the very same time.
    """
    ((same, otherwise, alone, missing, machine_hours),) = sqlfiles.run(con, "bill_lines_alike").fetchall()
    if not same or otherwise:
        return False
    if not missing and (not alone or some.latest >= other.latest):
        return True
    is_same_time = (some.earliest, some.latest) == (other.earliest, other.latest)
    return (is_one_run or is_same_time) and not machine_hours and not is_mostly_shared(some, other, common)


def superseded(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Files of the rows `incoming` that another one supersedes, and which one: final over not final, the longer over the shorter.

    Parts of one bill stand beside each other, also where they share rows. Raises DataError where two files hold the same charges
    and nothing says which of them is the newer, and where others supersede only some of the bills that a file holds.
    """
    bills = rows(con.execute("FROM bills_told"))
    if len({bill["file"] for bill in bills}) < 2:
        return {}
    winners: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for pair in rows(sqlfiles.run(con, "bills_twins")):
        a, b = _telling(pair, "a"), _telling(pair, "b")
        said = verdict(a, b, pair["common"]), verdict(b, a, pair["common"])
        if "beside" in said:
            continue
        if (said[0] == said[1] or is_torn(a, b, pair["common"])) and _are_parts(con, a, b, pair["common"]):
            continue
        if "overlap" in said:
            raise DataError(
                f"{a.source} and {b.source} hold some of the same charges of {pair['billing_period']}, and each others",
                "give the whole month in one export: beside each other some would count twice",
            )
        if said[0] == said[1]:
            raise DataError(
                f"{a.source} and {b.source} hold the same charges of {pair['billing_period']}",
                "name only the newer one; or load them one after the other, the older first",
            )
        loser, winner = ("b", a) if said[0] == "replace" else ("a", b)
        winners[_bill(pair, f"{loser}_")].add(winner.source)
    beaten = {bill[0] for bill in winners}
    lost = {bill[0]: min(found - beaten or found) for bill, found in winners.items()}
    # Of a file that is older for one account or month only, the others would be lost with it.
    partly = beaten & {bill["file"] for bill in bills if _bill(bill) not in winners}
    if torn := sorted(partly | {bill[0] for bill, found in winners.items() if found <= beaten}):
        raise DataError(
            f"{torn[0]} holds a bill that another file holds newer, and one that none does",
            "load the files one after the other, the older first",
        )
    return lost


def _are_parts(con: duckdb.DuckDBPyConnection, a: Telling, b: Telling, common: int) -> bool:
    newer, older = (a, b) if a.latest >= b.latest else (b, a)
    con.execute(SOME_LINES + "incoming WHERE source_file = $1", [newer.source])
    con.execute(OTHER_LINES + "incoming WHERE source_file = $1", [older.source])
    return are_parts(con, newer, older, common, is_one_run=True)


def _bill(row: dict[str, Any], side: str = "") -> tuple[str, ...]:
    """The file, and which of the bills in it."""
    names = (f"{side}file", "provider", "billing_period", f"{side}account", f"{side}format")
    return tuple(row[name] or "" for name in names)


def _telling(pair: dict[str, Any], side: str) -> Telling:
    name = pair[f"{side}_file"]
    return Telling(
        source=name,
        is_whole=False,
        is_final=pair[f"{side}_final"],
        digest=name,
        charges=pair[f"{side}_charges"],
        earliest=pair[f"{side}_earliest"],
        latest=pair[f"{side}_latest"],
        format=pair[f"{side}_format"] or "",
    )
