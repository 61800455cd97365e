"""Billing exports in the store: a load replaces the bills that it tells of, in one transaction, or leaves them as they are."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from gpucost.store import sqlfiles
from gpucost.store.bill_files import MEMORY_LIMIT, rows
from gpucost.store.bill_rules import PAIR, Telling, Verdict, is_torn, verdict
from gpucost.store.bill_twins import OTHER_LINES, SOME_LINES, alike
from gpucost.store.runs import log_load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal
    from pathlib import Path

    import duckdb

KEPT: dict[Verdict, str] = {
    "not_final": "the bill there is final and this one is not",
    "older": "the bill there goes on later than this one",
    "other_format": "the account's bill of this month is there in another format",
    "part": "the bill there holds all of this one and more",
    "overlap": "each holds some of the other's charges, and others besides",
}


@dataclass(frozen=True, slots=True)
class BillFiles:
    """Mapped rows ready to load: Parquet files with the columns of bill_rows and provider, billing_period, is_invoiced.

    `source` is the export's name, None for loose files, whose bills are named by provider and account. `is_whole`: a
    manifest vouches that this is all of the billing period.
    """

    mapped: Sequence[Path]
    format: str
    digest: str
    source: str | None = None
    is_whole: bool = False


@dataclass(slots=True)
class BillResult:
    """What became of one bill: `verdict` is 'replace' or 'beside' where it was loaded; else why it was not.

    `replaced` names sources (other than its own) whose bill it took the place of, `alike` those of the same account and
    period that stand beside it. `amounts` holds (currency, billed, effective). `repeated` rows were left out: another bill
    in the store tells of them, the same in every column.
    """

    provider: str
    source: str
    format: str
    billing_account_id: str
    billing_period: str
    is_final: bool | None
    rows: int
    amounts: list[tuple[str, Decimal, Decimal]]
    verdict: Verdict = "beside"
    replaced: list[str] = field(default_factory=list)
    alike: list[str] = field(default_factory=list)
    repeated: int = 0

    @property
    def loaded(self) -> bool:
        return self.verdict in ("beside", "replace")


def loaded_digest(con: duckdb.DuckDBPyConnection, source: str, billing_period: str) -> str | None:
    """The digest of what a source's billing period was last loaded from; None where it is not there."""
    found = con.execute(
        "SELECT any_value(digest) FROM bills WHERE source = $1 AND billing_period = $2 AND is_whole", [source, billing_period]
    ).fetchall()[0][0]
    return None if found is None else str(found)


def replace(con: duckdb.DuckDBPyConnection, files: BillFiles, *, force: bool = False) -> list[BillResult]:
    """Loads bills inside the open transaction and removes those that they replace; one result per bill."""
    con.execute("SET memory_limit = $1", [MEMORY_LIMIT])
    incoming = con.read_parquet([str(path) for path in files.mapped])
    incoming.create_view("incoming", replace=True)
    sqlfiles.run(con, "bill_charge_detail")
    sqlfiles.run(con, "bills_incoming", {"source": files.source, "format": files.format})
    new = {row["bill_id"]: row for row in rows(con.execute("FROM bills_incoming ORDER BY bill_id"))}
    amounts = _amounts(con)
    results = {number: _result(row, amounts[number]) for number, row in new.items()}
    replaced: list[tuple[int, int]] = []
    met_ids: set[int] = set()
    for met in rows(sqlfiles.run(con, "bills_met")) if _any_known(con) else []:
        result = results[met["new_id"]]
        met_ids.add(met["old_id"])
        telling, old = _telling(new[met["new_id"]], files), _telling(met)
        said = verdict(telling, old, met["common"], force=force)
        if said != "beside" and not force and is_torn(telling, old, met["common"]) and _share_alike(con, met):
            said = "beside"
        if said == "beside":
            other = met["source"] != result.source and {met["format"], result.format} != PAIR
            if other and met["billing_account_id"] == result.billing_account_id:
                result.alike.append(f"{met['source']} ({met['format']})")
        elif said == "replace":
            replaced.append((met["new_id"], met["old_id"]))
            result.verdict = said if result.loaded else result.verdict
            if met["source"] != result.source:
                result.replaced.append(met["source"])
        else:
            result.verdict = said
    # What a bill that is left out would have replaced stays.
    gone = {old for number, old in replaced if results[number].loaded}
    if met_ids - gone:
        sqlfiles.run(con, "bill_rows_repeated", {"bill_ids": sorted(met_ids - gone)})
        _leave_repeated(con, incoming, results)
    _write(con, files, [number for number, result in results.items() if result.loaded], sorted(gone))
    con.execute("DROP VIEW incoming")
    return list(results.values())


def _leave_repeated(con: duckdb.DuckDBPyConnection, incoming: duckdb.DuckDBPyRelation, results: dict[int, BillResult]) -> None:
    """Takes what other bills of the store tell of, the same in every column, out of `incoming`, and counts the rest again."""
    if not con.execute("SELECT 1 FROM rows_repeated LIMIT 1").fetchall():
        return
    incoming.filter("(source_file, source_row) NOT IN (FROM rows_repeated)").create_view("incoming", replace=True)
    sqlfiles.run(con, "bills_counted")
    amounts = _amounts(con)
    for bill_id, left in con.execute("SELECT bill_id, rows FROM bills_incoming").fetchall():
        result = results[bill_id]
        if result.loaded:
            result.repeated, result.rows, result.amounts = result.rows - left, left, amounts[bill_id]
            if not left:
                result.verdict = "part"


def _amounts(con: duckdb.DuckDBPyConnection) -> dict[int, list[tuple[str, Decimal, Decimal]]]:
    amounts: dict[int, list[tuple[str, Decimal, Decimal]]] = defaultdict(list)
    for row in rows(sqlfiles.run(con, "bills_amounts")):
        amounts[row["bill_id"]].append((row["currency"], row["billed"], row["effective"]))
    return amounts


def _share_alike(con: duckdb.DuckDBPyConnection, met: dict[str, Any]) -> bool:
    """Whether an incoming bill and a stored one share charges, and tell each of those alike."""
    con.execute(
        SOME_LINES + "incoming WHERE provider = $1 AND billing_period = $2 AND coalesce(billing_account_id, '') = $3",
        [met["provider"], met["billing_period"], met["new_account"]],
    )
    con.execute(OTHER_LINES + "bill_rows WHERE bill_id = $1", [met["old_id"]])
    return alike(con)


def _any_known(con: duckdb.DuckDBPyConnection) -> bool:
    return bool(con.execute("SELECT 1 FROM bills SEMI JOIN bills_incoming USING (provider, billing_period) LIMIT 1").fetchall())


def _write(con: duckdb.DuckDBPyConnection, files: BillFiles, taken: list[int], gone: list[int]) -> None:
    if gone:
        sqlfiles.run(con, "bill_rows_delete", {"bill_ids": gone})
        sqlfiles.run(con, "bills_delete", {"bill_ids": gone})
    if not taken:
        return
    now = datetime.now(UTC).replace(tzinfo=None)
    for bill in rows(con.execute("FROM bills_incoming WHERE list_contains($1, bill_id) ORDER BY bill_id", [taken])):
        span = {"billing_period": bill["billing_period"], "provider": bill["provider"]}
        (window,) = sqlfiles.run(con, "bill_windows", span).fetchall()
        log_load(con, 0, "bill", bill["source"], window, rows=bill["rows"])
        entry = {"is_whole": files.is_whole, "digest": files.digest, "loaded_at": now}
        sqlfiles.run(con, "bills_insert", entry | {"bill_id": bill["bill_id"]})
    sqlfiles.run(con, "bill_rows_insert", {"bill_ids": taken})
    if _has_pairs(con):
        for name in ("bill_pairs_rows", "bill_pairs_fees", "bill_pairs_counts", "bill_pairs_empty"):
            sqlfiles.run(con, name)


def _has_pairs(con: duckdb.DuckDBPyConnection) -> bool:
    formats = {str(row[0]) for row in con.execute("SELECT DISTINCT format FROM bills").fetchall()}
    return formats >= PAIR


def _result(row: dict[str, Any], amounts: list[tuple[str, Decimal, Decimal]]) -> BillResult:
    return BillResult(
        row["provider"],
        row["source"],
        row["format"],
        row["billing_account_id"],
        row["billing_period"],
        row["is_final"],
        row["rows"],
        amounts,
    )


def _telling(row: dict[str, Any], files: BillFiles | None = None) -> Telling:
    account = row["billing_account_id"]
    whole, digest = (files.is_whole, files.digest) if files else (row["is_whole"], row["digest"])
    return Telling(
        row["source"], whole, row["is_final"], digest, row["charges"], row["earliest"], row["latest"], row["format"], account
    )
