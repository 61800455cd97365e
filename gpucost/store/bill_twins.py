"""Files of one load that tell of the same charges: one of them holds, or nobody can say and the load is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpucost.errors import DataError
from gpucost.store import sqlfiles
from gpucost.store.bill_files import rows
from gpucost.store.bill_rules import Telling, verdict

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb


def superseded(con: duckdb.DuckDBPyConnection, mapped: Path) -> dict[str, str]:
    """Files of the mapped rows that another one supersedes, and which one: final over not final, the longer over the shorter.

    Raises DataError where two files hold the same charges and nothing says which of them is the newer.
    """
    con.read_parquet(str(mapped)).create_view("incoming", replace=True)
    if con.execute("SELECT count(DISTINCT source_file) FROM incoming").fetchall()[0][0] < 2:
        return {}
    lost: dict[str, str] = {}
    kept: set[str] = set()
    for pair in rows(sqlfiles.run(con, "bills_twins")):
        a, b = _telling(pair, "a"), _telling(pair, "b")
        said = verdict(a, b, pair["common"]), verdict(b, a, pair["common"])
        if "beside" in said:
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
        loser, winner = (b, a) if said[0] == "replace" else (a, b)
        lost[loser.source] = winner.source
        kept.add(winner.source)
    # A file that is older for one account or month and newer for another can be told apart by nobody.
    if torn := sorted(kept & lost.keys() - {lost[name] for name in lost if lost[name] in lost}):
        raise DataError(
            f"{torn[0]} holds some charges of other files, and they some of its own",
            "load the files one after the other, the older first",
        )
    return lost


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
