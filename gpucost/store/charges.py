"""Billing exports in the store.

A load replaces the bills that it contains in one transaction, or leaves them unchanged.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpucost.engine import dicts
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.store import sqlfiles
from gpucost.store.bill_rules import (
    NEW_AND_OLD,
    PAIR,
    Verdict,
    are_parts,
    billed_twice,
    compare,
    is_torn,
    side_pairs,
    verdict,
)

KEPT: dict[Verdict, str] = {
    "not_final": "the stored bill is final and this one is not",
    "older": "the stored bill ends later than this one",
    "other_format": "the account's bill of this month is stored in another format",
    "part": "the stored bill contains all of this one and more",
    "restated": "it has other amounts for some of the stored charges",
    "overlap": "each bill has some of the other's charges, and more",
    "twice": "it bills charges that are billed already",
}


@frozen_dataclass
class BillFiles:
    """The format and digest of a load's files.

    `source` is the export's name if a manifest declares the billing period complete, None for loose files,
    whose bills are named by provider and account. `file_digests` are the digests of single files, None if the
    digest alone does not identify one of them. `file_stamps` are the digests of files on disk by their
    stamps.
    """

    format: str
    digest: str
    source: str | None
    file_digests: Sequence[str] | None
    file_stamps: Mapping[str, str]


@dataclass(slots=True)
class BillResult:
    """The result of loading one bill.

    `verdict` is 'replace' or 'beside' if it was loaded, otherwise the reason why not. `replaced` names
    sources (other than its own) whose bill it replaced. `amounts` holds currency, billed and effective cost.
    `repeated` rows were left out: another bill in the store has them with equal columns. `twice` are
    sentences about money that would count twice.
    """

    provider: str
    source: str
    format: str
    billing_account_id: str
    billing_period: str
    is_final: bool | None
    rows: int
    amounts: list[dict[str, Any]]
    verdict: Verdict = "beside"
    replaced: list[str] = field(default_factory=list)
    repeated: int = 0
    twice: list[str] = field(default_factory=list)

    @property
    def loaded(self) -> bool:
        return self.verdict in ("beside", "replace")


# The digest of a source's loaded billing period; null if it is not loaded.
LOADED_DIGEST = "SELECT any_value(digest) FROM bills WHERE source = $1 AND billing_period = $2 AND is_whole"
# The digests of files that the store's bills were loaded from, by the files' stamps.
STAMPED = "SELECT unnest(map_keys(file_stamps)), unnest(map_values(file_stamps)) FROM bills"


@frozen_dataclass
class BillLoad:
    """Loose files whose bills are all in the store, unchanged since they were loaded."""

    digest: str
    file_digests: frozenset[str]
    providers: frozenset[str]


def loads(con: DuckDBPyConnection, digests: Iterable[str]) -> list[BillLoad]:
    """Loads of loose files with these digests, if no other load has replaced any of their bills."""
    con.execute(
        "SELECT digest, any_value(file_digests), list(DISTINCT provider) FROM bills "
        "WHERE len(file_digests) > 0 AND list_has_all($1, file_digests) GROUP BY digest HAVING count(*) = any_value(load_bills)",
        [list(digests)],
    )
    return [
        BillLoad(digest, frozenset(file_digests), frozenset(providers))
        for digest, file_digests, providers in con.fetchall()
    ]


def unchanged(con: DuckDBPyConnection, digest: str) -> list[BillResult]:
    """The stored bills of a load, as the results of loading it again."""
    con.execute("FROM bills WHERE digest = $1 ORDER BY bill_id", [digest])
    return list(_results(con, dicts(con), "unchanged").values())


# Stores stamps, each with a file's digest, with the bills of a load.
ADD_STAMPS = """
UPDATE bills SET file_stamps = map_concat(coalesce(file_stamps, MAP {}), map($1::VARCHAR[], $2::VARCHAR[])) WHERE digest = $3"""


def write_details(con: DuckDBPyConnection, files: BillFiles) -> bool:
    """Write the shared columns of the last `incoming_lines`, under new bill numbers.

    Returns whether each row has all required values. The view `incoming` shows the rows. `charges_read` may
    be narrowed to `first_rows`. Rows are mapped once, into their final tables; whether they replace others or
    stay is decided from the written rows.
    """
    sqlfiles.run(con, "incoming_bills", {"source": files.source, "format": files.format})
    con.execute(_INSERT_DETAILS)
    return not con.execute(_LACKING).fetchall()


# `incoming` has the rows of a load as written, each with its bill.
_INSERT_DETAILS = """INSERT INTO bill_details BY NAME
SELECT getvariable('batch_id') AS batch_id, b.bill_id,
    d.* EXCLUDE (rows, is_free, lacking, provider, billing_period, is_invoiced, format, issuer)
FROM incoming_details AS d
JOIN incoming_bills AS b
  ON b.provider = d.provider AND b.billing_account_id = coalesce(d.billing_account_id, '') AND b.billing_period = d.billing_period
 AND b.told_format IS NOT DISTINCT FROM d.format;
CREATE OR REPLACE TEMP VIEW incoming AS
SELECT b.provider, b.billing_period, b.told_format AS format, r.*
FROM bill_rows AS r
JOIN incoming_bills AS b USING (bill_id)"""
_INSERT_BILLS = """INSERT INTO bills BY NAME
SELECT bill_id, provider, source, format, billing_account_id, billing_period, is_final, issuer, rows,
       $is_whole AS is_whole, $digest AS digest, $file_digests AS file_digests, map($stamps, $stamped) AS file_stamps,
       (SELECT count(*) FROM incoming_bills)::INTEGER AS load_bills,
       (SELECT coalesce(max(load_id), 0) FROM loads) + row_number() OVER (ORDER BY bill_id) AS load_id, $loaded_at AS loaded_at
FROM incoming_bills
WHERE list_contains($bills, bill_id)"""
_LOG_LOADS = """INSERT INTO loads BY NAME
SELECT load_id, 0 AS run_id, 'bill' AS kind, source, from_ms, to_ms, rows, 0 AS dropped, loaded_at
FROM bills
JOIN (
    SELECT provider, billing_period, epoch_ms(min(charge_period_start)) AS from_ms, epoch_ms(max(charge_period_end)) AS to_ms
    FROM incoming
    GROUP BY ALL) USING (provider, billing_period)
WHERE list_contains($1, bill_id)"""
# Rows without a line item id have no digest and never match.
_DELETE_REPEATED = """DELETE FROM bill_lines
WHERE batch_id = getvariable('batch_id')
  AND row_digest IN (SELECT row_digest FROM bill_rows WHERE list_contains($1, bill_id) AND row_digest IS NOT NULL)"""
_DELETE_LINES = """DELETE FROM bill_lines AS l
USING bill_details AS d
WHERE l.batch_id = d.batch_id AND l.detail_id = d.detail_id AND list_contains($1, d.bill_id)"""
_COUNT_ROWS = """UPDATE incoming_bills AS b
SET rows = (SELECT count(*) FROM bill_rows AS r WHERE r.bill_id = b.bill_id)"""
_AMOUNTS = """SELECT bill_id, list(sums ORDER BY sums.currency)
FROM (
    SELECT bill_id, {'currency': billing_currency, 'billed': sum(billed_cost), 'effective': sum(effective_cost)} AS sums
    FROM bill_rows
    WHERE bill_id IN (SELECT unnest($1))
    GROUP BY bill_id, billing_currency)
GROUP BY bill_id"""
_AMOUNTS_DIFFER = """SELECT sum(billed_cost) FILTER (bill_id = $1) <> sum(billed_cost) FILTER (bill_id = $2)
FROM bill_rows
WHERE charge_key IN (SELECT charge_key FROM bill_rows WHERE bill_id = $1)"""
_LACKING = """FROM incoming_details SELECT 1
WHERE lacking > 0 OR provider IS NULL OR billing_period IS NULL OR billing_currency IS NULL OR charge_category IS NULL
LIMIT 1"""


def find_tokens(con: DuckDBPyConnection) -> bool:
    """Create the temporary view `token_charges`; return whether it may have rows.

    It has the rows of bills for bought tokens, and charges that come with them: bill_id, provider and issuer
    as in `bills`; vendor, the maker of the model ('openai', 'anthropic', …), and model, its API name
    ('gpt-4o-2024-08-06', 'claude-sonnet-4'), null if unknown; token_kind: 'prompt' (includes cache writes),
    'cached', 'generation', 'commitment' (throughput by time), 'other' (images, searches, training, …);
    tokens, null if there are none or unknown; cost after discounts, in billing_currency; and the charge's
    identifying columns. Bills without such rows cost only this check.
    """
    sqlfiles.run(con, "token_services")
    is_any = bool(con.execute("SELECT 1 FROM token_services LIMIT 1").fetchall())
    if is_any:
        sqlfiles.run(con, "token_details")
    else:
        con.execute(_NO_TOKENS)
    sqlfiles.run(con, "token_charges")
    return is_any


# Even the plan of the classification costs more than reading all details of the bills.
_NO_TOKENS = """CREATE OR REPLACE TEMP TABLE token_details AS
SELECT batch_id, detail_id, bill_id, NULL::VARCHAR AS provider, NULL::VARCHAR AS format, kind, NULL::VARCHAR AS vendor,
    NULL::VARCHAR AS token_kind, billing_currency, tags, cost_categories, sub_account_id, sub_account_name, billing_account_id,
    resource_name, NULL::VARCHAR AS billing_period, source_file, NULL::DOUBLE AS discount_rate, NULL::VARCHAR AS model,
    NULL::DOUBLE AS consumed_size, NULL::DOUBLE AS pricing_size
FROM bill_details
LIMIT 0"""


# Deletes the rows written last, before a decision about them.
TAKE_BACK = """DELETE FROM bill_lines WHERE batch_id = getvariable('batch_id');
DELETE FROM bill_details WHERE batch_id = getvariable('batch_id')"""


def providers(con: DuckDBPyConnection) -> set[str]:
    """Providers of the rows written last."""
    return set(sqlfiles.column(con, "SELECT DISTINCT provider FROM incoming_bills"))


def replace(con: DuckDBPyConnection, files: BillFiles, *, force: bool = False) -> list[BillResult]:
    """Keep the bills written last and delete the bills that they replace, or the reverse.

    Returns one result per bill.
    """
    results = _results(con, dicts(con.execute("FROM incoming_bills ORDER BY bill_id")), "beside")
    replaced = []
    same_period = set()
    parts = set()
    compare(con, NEW_AND_OLD, _load_of(files))
    existing = dict(con.execute("SELECT side, source FROM told_sides WHERE batch = 0").fetchall())
    for arriving, old, common in side_pairs(con) if existing else []:
        result = results[arriving.side]
        same_period.add(old.side)
        decision = verdict(arriving, old, common, force=force)
        is_unsure = decision != "beside" and not force and is_torn(arriving, old, common)
        if is_unsure and are_parts(con, arriving, old, common, is_same_run=False):
            parts.add((arriving.side, old.side))
        elif decision == "replace":
            replaced.append((arriving.side, old.side))
            result.verdict = decision if result.loaded else result.verdict
            if old.source != result.source:
                result.replaced.append(old.source)
        elif decision == "part" and sqlfiles.value(con, _AMOUNTS_DIFFER, [arriving.side, old.side]):
            result.verdict = "restated"
        elif decision != "beside":
            result.verdict = decision
    # A bill that is left out replaces nothing.
    gone = {old_id for number, old_id in replaced if results[number].loaded}
    if staying := sorted(same_period - gone):
        _leave_repeated(con, staying, results)
    con.execute("DELETE FROM told_sides WHERE list_contains($1, bill_id)", [sorted(gone)])
    replaced += _judge_twice(con, results, existing, parts, force=force)
    removed = sorted({old_id for number, old_id in replaced if results[number].loaded})
    left = [number for number, result in results.items() if not result.loaded]
    if removed or left:
        con.execute(_DELETE_LINES, [removed + left])
        con.execute("DELETE FROM bill_details WHERE list_contains($1, bill_id)", [removed + left])
        con.execute("DELETE FROM bills WHERE list_contains($1, bill_id)", [removed])
    _write_bills(con, files, {number: result for number, result in results.items() if result.loaded})
    con.execute("DROP VIEW incoming")
    return list(results.values())


def _judge_twice(
    con: DuckDBPyConnection,
    results: dict[int, BillResult],
    existing: Mapping[int, str],
    parts: set[tuple[int, int]],
    *,
    force: bool,
) -> list[tuple[int, int]]:
    """Leave out bills whose money is billed already.

    `existing` are the stored bills and their sources, `parts` the pairs that are parts of one export. With
    `force`, returns the pairs in which the first bill replaces the other.
    """
    replaced = []
    refused = []
    for twice in billed_twice(con, is_strict=True):
        result = results.get(twice.one)
        if result is None or not result.loaded or (twice.one, twice.other) in parts:
            continue
        if twice.other == twice.one or twice.is_small or not force:
            result.twice.append(str(twice))
            refused += [result] * (twice.other != twice.one and not twice.is_small)
        elif twice.other in existing:
            replaced.append((twice.one, twice.other))
            result.verdict = "replace"
            sums = _amounts(con, [twice.other])[twice.other]
            money = " and ".join(f"{row['billed']:,.2f} {row['currency']}" for row in sums)
            result.replaced.append(f"{existing[twice.other]} with {money}")
    for result in refused:
        result.verdict = "twice"
    return replaced


def _leave_repeated(con: DuckDBPyConnection, existing: list[int], results: dict[int, BillResult]) -> None:
    """Delete incoming rows that other bills in the store have with equal columns; count again."""
    if not sqlfiles.value(con, _DELETE_REPEATED, [existing]):
        return
    con.execute(_COUNT_ROWS)
    amounts = _amounts(con, list(results))
    for bill_id, left in con.execute("SELECT bill_id, rows FROM incoming_bills").fetchall():
        result = results[bill_id]
        if result.loaded:
            result.repeated, result.rows, result.amounts = result.rows - left, left, amounts[bill_id]
            if not left:
                result.verdict = "part"


def _amounts(con: DuckDBPyConnection, bill_ids: list[int]) -> dict[int, list[dict[str, Any]]]:
    return defaultdict(list, con.execute(_AMOUNTS, [bill_ids]).fetchall())


def _write_bills(con: DuckDBPyConnection, files: BillFiles, loaded: dict[int, BillResult]) -> None:
    if not loaded:
        return
    entry = _load_of(files) | {
        "stamps": list(files.file_stamps),
        "stamped": list(files.file_stamps.values()),
        "loaded_at": datetime.now(UTC).replace(tzinfo=None),
        "bills": list(loaded),
    }
    con.execute(_INSERT_BILLS, entry)
    con.execute(_LOG_LOADS, [list(loaded)])
    is_paired = PAIR.issubset(sqlfiles.column(con, "SELECT DISTINCT format FROM bills"))
    if is_paired:
        sqlfiles.run(con, "bill_overlap")
    is_shared_anew = sqlfiles.run(con, "block_fees").fetchall() != [(0,)]
    amounts = _amounts(con, list(loaded)) if is_shared_anew else {}
    for bill_id, result in loaded.items():
        result.amounts = amounts.get(bill_id, result.amounts)
        con.execute("UPDATE bills SET amounts = $1 WHERE bill_id = $2", [result.amounts, bill_id])
    if is_paired or is_shared_anew:
        con.execute("UPDATE bills SET amounts = NULL")  # rows of any bill may have changed


def _load_of(files: BillFiles) -> dict[str, Any]:
    return {"is_whole": files.source is not None, "digest": files.digest, "file_digests": files.file_digests}


_RESULT = ("provider", "source", "format", "billing_account_id", "billing_period", "is_final", "rows")


def _results(
    con: DuckDBPyConnection, bills: list[dict[str, Any]], decision: Verdict
) -> dict[int, BillResult]:
    """The results of bills by their numbers."""
    amounts = _amounts(con, [bill["bill_id"] for bill in bills if not bill.get("amounts")])
    results = {}
    for bill in bills:
        bill_id = bill["bill_id"]
        columns = {name: bill[name] for name in _RESULT}
        sums = bill.get("amounts") or amounts[bill_id]
        results[bill_id] = BillResult(**columns, amounts=sums, verdict=decision)
    return results
