"""Which of two tellings of the same bill stands: the rules by which a load replaces what is there, or leaves it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

from gpucost.engine import dicts
from gpucost.errors import DataError
from gpucost.records import record
from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from datetime import datetime

    import duckdb

# Of two bills, the share of the smaller one's charges that the other must tell of, too, for both to be the same bill.
_SAME = 0.5
# A bill that tells of little else than the other, and of fewer charges than this share of it, is a part of it.
_PART = 0.9
# With less than this share in common, two bills are different ones: parts of one export can have a charge's rows on both sides.
_APART = 0.1

# Two exports of one bill that complete each other: one has what is paid, the other what it is spread over.
PAIR = {"azure-actual", "azure-amortized"}

# What vendors of models charge, in their own terms: a format for each way to group it, which tell the same costs otherwise.
VENDORS = ("openai", "anthropic")

Verdict = Literal["beside", "replace", "unchanged", "older", "part", "not_final", "other_format", "overlap"]


@record
class Telling:
    """One telling of a bill: `charges` are distinct charge keys, `earliest` and `latest` the first and last start of a charge."""

    source: str
    is_whole: bool
    is_final: bool | None
    digest: str
    charges: int
    earliest: datetime
    latest: datetime
    format: str | None = ""
    account: str = ""


_FIELDS = tuple(one.name for one in fields(Telling))


def telling(pair: dict[str, Any], side: str, **known: Any) -> Telling:
    """One side of a pair of bills, whose columns are named `<side>_source` and so on; `known` is what the pair does not say."""
    return Telling(**{name: pair[f"{side}_{name}"] for name in _FIELDS if name not in known}, **known)


def is_torn(new: Telling, old: Telling, common: int) -> bool:
    """Whether each of two loose bills holds charges of the other and others besides: snapshots, or parts that share rows.

    `are_parts` tells which; of parts both stand, each charge once.
    """
    return not new.is_whole and not old.is_whole and 0 < common < min(new.charges, old.charges)


def verdict(new: Telling, old: Telling, common: int, *, force: bool = False) -> Verdict:
    """What becomes of `old`, of the same provider and billing period, when `new` is loaded; `common` charges are in both.

    'beside': they are different bills (of two accounts, two parts of one export) or a PAIR, both stand. 'replace': `new`
    takes the place of `old`. 'unchanged': the same files. The others say why `old` stays and `new` is left out: 'not_final',
    it is not final and the other is; 'older', it ends earlier; 'part', it holds only a part of what the other holds;
    'other_format', the account's bill is there in another kind of export, whose charges cannot be told apart from these;
    'overlap', each holds charges of the other and others besides: beside each other some would count twice, and in the other's
    place some would be lost.
    `force` replaces.
    """
    same_export = new.is_whole and old.is_whole and new.source == old.source
    if {new.format, old.format} == PAIR:
        return "beside"
    share = common / min(new.charges, old.charges) if common else 0.0
    is_shifted = (new.earliest > old.earliest and new.latest > old.latest) or (
        new.earliest < old.earliest and new.latest < old.latest
    )
    # A final bill is of the whole month: it needs no excuse for what it leaves out.
    if not new.is_whole and not force and share >= _APART and (share < _SAME or (is_shifted and new.is_final == old.is_final)):
        return "overlap"
    if not same_export and (common == 0 or share < (_APART if force else _SAME)):
        told_otherwise = _export(new.format) != _export(old.format) and _is_same_account(new, old)
        if not told_otherwise:
            return "beside"
        return "replace" if force else "other_format"
    if new.digest == old.digest:
        return "unchanged"
    if force:
        return "replace"
    if old.is_final and new.is_final is False:
        return "not_final"
    if new.is_whole:
        return "replace"
    if new.latest < old.latest and not new.is_final:
        return "older"
    if new.charges < _PART * old.charges and common >= _PART * new.charges:
        return "part"
    return "replace"


def _is_same_account(new: Telling, old: Telling) -> bool:
    """Whether bills are of one account. Costs that vendors of models answer name none: they are of any that is told otherwise."""
    if new.account and old.account:
        return new.account == old.account
    return any((one.format or "").startswith(VENDORS) for one in (new, old))


def _export(format_name: str | None) -> str | None:
    """The kind of export: Azure's is one, whether its content says actual, amortized, or neither."""
    return "azure" if (format_name or "").startswith("azure-") else format_name


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
    return (is_one_run or is_same_time) and not machine_hours and common < _SAME * min(some.charges, other.charges)


def superseded(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Files of the rows `incoming` that another one supersedes, and which one: final over not final, the longer over the shorter.

    Parts of one bill stand beside each other, also where they share rows. Raises DataError where two files hold the same charges
    and nothing says which of them is the newer, and where others supersede only some of the bills that a file holds.
    """
    bills = dicts(con.execute("FROM bills_by_file"))
    if len({bill["file"] for bill in bills}) < 2:
        return {}
    winners: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for pair in dicts(sqlfiles.run(con, "duplicate_bills")):
        # Files of one run: what each is of is its name, and which account's bill its rows say.
        a, b = (telling(pair, side, is_whole=False, digest=pair[f"{side}_source"], account="") for side in ("a", "b"))
        verdicts = verdict(a, b, pair["common"]), verdict(b, a, pair["common"])
        if "beside" in verdicts:
            continue
        if (verdicts[0] == verdicts[1] or is_torn(a, b, pair["common"])) and _are_parts(con, a, b, pair["common"]):
            continue
        if "overlap" in verdicts:
            raise DataError(
                f"{a.source} and {b.source} hold some of the same charges of {pair['billing_period']}, and each others",
                "give the whole month in one export: beside each other some would count twice",
            )
        if verdicts[0] == verdicts[1]:
            raise DataError(
                f"{a.source} and {b.source} hold the same charges of {pair['billing_period']}",
                "name only the newer one; or load them one after the other, the older first",
            )
        loser, winner = ("b", a) if verdicts[0] == "replace" else ("a", b)
        winners[_bill(pair, f"{loser}_")].add(winner.source)
    beaten = {bill[0] for bill in winners}
    lost = {bill[0]: min(newer - beaten or newer) for bill, newer in winners.items()}
    # Of a file that is older for one account or month only, the others would be lost with it.
    partly = beaten & {bill["file"] for bill in bills if _bill(bill) not in winners}
    if torn := sorted(partly | {bill[0] for bill, newer in winners.items() if newer <= beaten}):
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
    names = (f"{side}source" if side else "file", "provider", "billing_period", f"{side}account", f"{side}format")
    return tuple(row[name] or "" for name in names)
