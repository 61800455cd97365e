"""Rules for two versions of the same bill: whether a load replaces the stored one."""

from collections import defaultdict
from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from gpucost.engine import dicts
from gpucost.errors import DataError
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.store import sqlfiles

# Two bills are the same bill if they share at least this part of the smaller one's charges.
_SAME = 0.5
# A bill with fewer charges than this share of the other's, most of them common, is a part of it.
_PART = 0.9
# Two bills that share less are different: parts of one export can have rows of one charge on both sides.
_APART = 0.1

# Two exports of one bill that complement each other: paid amounts, and their amortization.
PAIR = {"azure-actual", "azure-amortized"}

# Bills of model vendors: each format groups the same costs in another way.
VENDORS = ("openai", "anthropic")

Verdict = Literal[
    "beside",
    "replace",
    "unchanged",
    "older",
    "part",
    "not_final",
    "other_format",
    "overlap",
    "twice",
    "restated",
]


@frozen_dataclass
class BillVersion:
    """One version of a bill.

    `charges` are distinct charge keys; `earliest` and `latest` are the first and last start of a charge.
    `is_read_again`: all its files are also files of the load.
    """

    source: str
    is_whole: bool
    is_final: bool | None
    digest: str
    charges: int
    earliest: datetime
    latest: datetime
    format: str = ""
    account: str = ""
    billing_period: str = ""
    side: int = 0
    is_read_again: bool = False


@frozen_dataclass
class TwiceBilled:
    """Money that two sides of a comparison both bill.

    If `one` is `other`, a `machine` is billed for over 24 `hours` of a day.
    """

    one: int
    other: int
    one_cost: Decimal
    other_cost: Decimal | None
    currency: str
    days: list[datetime]
    machine: str | None
    hours: float | None
    part: float

    @property
    def is_small(self) -> bool:
        """Under a twentieth of the smaller side: parts of one export, or late rows, share few cells."""
        return self.part < 0.05

    def __str__(self) -> str:
        days = f"{self.days[0]:%Y-%m-%d}"
        if len(self.days) > 1:
            days += f" to {self.days[-1]:%Y-%m-%d} ({len(self.days)} days)"
        if self.machine:
            return f"{self.machine} is billed for {self.hours:,.1f} hours a day, {days}: {self.one_cost:,.2f} {self.currency}"
        sums = f"{self.one_cost:,.2f} and {self.other_cost:,.2f} {self.currency}"
        return f"the same accounts and resources are billed twice, {days}: {sums}"


_SIDES = "CREATE OR REPLACE TEMP TABLE told_sides AS "
_ROWS = """CREATE OR REPLACE TEMP VIEW told_rows AS
SELECT s.side, s.batch, s.provider, s.format, r.*
FROM bill_rows AS r
JOIN told_sides AS s ON s.bill_id = r.bill_id AND coalesce(s.file = r.source_file, true)"""
# The bills of a load, and stored bills that may contain the same charges.
NEW_AND_OLD = """WITH arriving AS (
    SELECT bill_id AS side, bill_id, NULL::VARCHAR AS file, 1 AS batch, provider, billing_period, source, format,
        billing_account_id AS account, is_final, $is_whole AS is_whole, $digest AS digest, false AS is_read_again, from_ms, to_ms
    FROM incoming_bills
    CROSS JOIN (SELECT epoch_ms(min(charge_period_start)) AS from_ms, epoch_ms(max(charge_period_end)) AS to_ms FROM incoming)
), known AS (
    SELECT bill_id AS side, bill_id, 0 AS batch, provider, billing_period, b.source, format, billing_account_id AS account,
        is_final, is_whole, digest, coalesce(list_has_all($file_digests::VARCHAR[], file_digests), false) AS is_read_again,
        coalesce(from_ms, 0) AS from_ms, coalesce(to_ms, 9e15) AS to_ms
    FROM bills AS b
    LEFT JOIN loads USING (load_id)
)
FROM arriving
UNION ALL BY NAME
SELECT k.*
FROM known AS k
SEMI JOIN arriving AS a
  ON a.provider = k.provider AND (a.billing_period = k.billing_period OR a.from_ms < k.to_ms AND k.from_ms < a.to_ms)"""
# The files of a load, each with its bills. They come from one run, so a side's name is its file.
INCOMING_FILES = """SELECT row_number() OVER (ORDER BY t.file DESC, bill_id) AS side, bill_id, t.file, side AS batch, provider,
    billing_period, t.file AS source, b.format, billing_account_id AS account,
    CASE WHEN tells_invoices THEN is_invoiced END AS is_final,
    false AS is_whole, t.file AS digest, false AS is_read_again, 0 AS from_ms, 1 AS to_ms
FROM bills_by_file AS t
JOIN incoming_bills AS b USING (provider, billing_period)
WHERE t.account = billing_account_id AND t.format IS NOT DISTINCT FROM told_format"""
# The store's bills covered by a manifest, and the files of others.
STORED = """SELECT row_number() OVER (ORDER BY bill_id, file) AS side, bill_id, file, side AS batch, provider, b.source, format,
    coalesce(from_ms, 0) AS from_ms, coalesce(to_ms, 9e15) AS to_ms
FROM (SELECT DISTINCT bill_id, CASE WHEN NOT is_whole THEN source_file END AS file FROM bill_details JOIN bills USING (bill_id))
JOIN bills AS b USING (bill_id)
LEFT JOIN loads USING (load_id)"""


def compare(con: DuckDBPyConnection, sides: str, params: dict[str, Any] | None = None) -> None:
    """Use the selection `sides` as the sides of the following comparisons."""
    con.execute(_SIDES + sides, params)
    con.execute(_ROWS)


def side_pairs(con: DuckDBPyConnection) -> list[tuple[BillVersion, BillVersion, int]]:
    """Pairs of sides with one provider and billing period, the later batch first.

    The third value is the number of common charges.
    """
    pairs = sqlfiles.run(con, "told_pairs").fetchall()
    return [(_version(side), _version(other_side), common) for common, side, other_side in pairs]


def _version(side: dict[str, Any]) -> BillVersion:
    return BillVersion(**{item.name: side[item.name] for item in fields(BillVersion)})


def billed_twice(con: DuckDBPyConnection, *, is_strict: bool) -> list[TwiceBilled]:
    """Money billed by sides of different batches, and machines billed over 24 hours of a day.

    Without `is_strict`, only certain duplicates: parts of one export may share an hour.
    """
    sqlfiles.run(con, "bill_cells")
    sqlfiles.run(con, "shared_cells", {"is_strict": is_strict})
    sqlfiles.run(con, "long_days")
    return [TwiceBilled(**row) for row in dicts(con.execute("FROM shared_cells ORDER BY ALL"))]


def is_torn(new: BillVersion, old: BillVersion, common: int) -> bool:
    """Whether two loose bills each have common charges and others: snapshots, or overlapping parts.

    `are_parts` distinguishes them; parts both stay, each charge once.
    """
    return not new.is_whole and not old.is_whole and 0 < common < min(new.charges, old.charges)


def verdict(new: BillVersion, old: BillVersion, common: int, *, force: bool = False) -> Verdict:
    """The decision about `old` when `new` of the same provider and period is loaded.

    `common` charges are in both. "beside": they are different bills (of two accounts, two parts of one
    export) or a PAIR; both stay. 'replace': `new` replaces `old`. 'unchanged': the same files. In the other
    cases `old` stays and `new` is left out: 'not_final', only `old` is final; 'older', `new` ends earlier;
    'part', `new` is only a part of `old`; 'other_format', the account's bill is stored from another kind of
    export, with charges that cannot be matched; 'overlap', each has common charges and others: keeping both
    would count some twice, and replacing would lose some. `force` replaces.
    """
    same_export = new.is_whole and old.is_whole and new.source == old.source
    if {new.format, old.format} == PAIR:
        return "beside"
    if old.is_read_again and new.account == old.account and new.digest != old.digest:
        return "replace"
    share = common / min(new.charges, old.charges) if common else 0.0
    is_shifted = (new.earliest > old.earliest and new.latest > old.latest) or (
        new.earliest < old.earliest and new.latest < old.latest
    )
    # A final bill covers the whole month: it may leave charges out.
    is_unlike = share < _SAME or (is_shifted and new.is_final == old.is_final)
    if not new.is_whole and not force and share >= _APART and is_unlike:
        return "overlap"
    if not same_export and (common == 0 or share < (_APART if force else _SAME)):
        if (
            new.format == old.format
            or not new.format.startswith(VENDORS)
            or (new.account or old.account) != (old.account or new.account)
        ):
            return "beside"
        return "replace" if force else "other_format"
    if force:
        return "replace"
    if new.digest == old.digest:
        return "unchanged"
    if old.is_final and new.is_final is False:
        return "not_final"
    if new.is_whole:
        return "replace"
    if new.latest < old.latest and not new.is_final:
        return "older"
    if new.charges < _PART * old.charges and common >= _PART * new.charges:
        return "part"
    return "replace"


# The rows of one version, for bill_lines_alike. Quantities of hours are fixed; a month's tax or support
# grows, so its quantity is ignored.
_LINES = """CREATE OR REPLACE TEMP TABLE {} AS
    SELECT charge_key, row_digest, charge_period_start, charge_period_end, instance_key, instance_hours,
        charge_period_end <= charge_period_start + INTERVAL 1 DAY AS is_short,
        hash(CAST(tags AS VARCHAR), zone, sku_id, sku_price_id, charge_description,
            CASE WHEN is_short THEN pricing_quantity END) AS detail
    FROM told_rows
    WHERE side = $1"""


def are_parts(
    con: DuckDBPyConnection, some: BillVersion, other: BillVersion, common: int, *, is_same_run: bool
) -> bool:
    """Whether two sides with common charges are parts of one bill, not its state at two times.

    Common charges of parts are equal. If both cover the same time without leaving out each other's charges,
    they are parts by time, and `some` is the newer one. Parts by rows leave charges out. They differ from a
    later state: less than half of the charges are common, no machine has an hour twice and, if loaded
    separately, both cover exactly the same time.
    """
    con.execute(_LINES.format("some_lines"), [some.side])
    con.execute(_LINES.format("other_lines"), [other.side])
    ((same, otherwise, alone, missing, machine_hours),) = sqlfiles.run(con, "bill_lines_alike").fetchall()
    if not same or otherwise:
        return False
    if not missing and (not alone or some.latest >= other.latest):
        return True
    is_same_time = (some.earliest, some.latest) == (other.earliest, other.latest)
    return (
        (is_same_run or is_same_time)
        and not machine_hours
        and common < _SAME * min(some.charges, other.charges)
    )


def superseded(con: DuckDBPyConnection) -> dict[str, str]:
    """Files of the rows `incoming` that another file supersedes, with that file.

    Final supersedes not final, longer supersedes shorter. Parts of one bill both stay, even if they share
    rows. Raises DataError if two files have the same charges and neither is known to be newer, or if only
    some of a file's bills are superseded.
    """
    compare(con, INCOMING_FILES)
    file_of = dict(con.execute("SELECT side, file FROM told_sides").fetchall())
    if len(set(file_of.values())) < 2:
        return {}
    winners = defaultdict(set)
    for a, b, common in side_pairs(con):
        verdicts = verdict(a, b, common), verdict(b, a, common)
        if "beside" in verdicts:
            continue
        newer, older = (a, b) if a.latest >= b.latest else (b, a)
        is_unsure = verdicts[0] == verdicts[1] or is_torn(a, b, common)
        if is_unsure and are_parts(con, newer, older, common, is_same_run=True):
            continue
        if "overlap" in verdicts:
            raise DataError(
                f"{a.source} and {b.source} share some charges of {a.billing_period}, and each has others",
                "load the whole month from one export: together, some charges would count twice",
            )
        if verdicts[0] == verdicts[1]:
            raise DataError(
                f"{a.source} and {b.source} have the same charges of {a.billing_period}",
                "name only the newer one; or load them one after the other, the older first",
            )
        loser, winner = (b, a) if verdicts[0] == "replace" else (a, b)
        winners[loser.side].add(winner.source)
    beaten = {file_of[side] for side in winners}
    for twice in billed_twice(con, is_strict=False):
        files = list(dict.fromkeys((file_of[twice.one], file_of[twice.other])))
        if len(files) > 1 and not twice.is_small and not beaten.intersection(files):
            raise DataError(
                f"{' and '.join(files)}: {twice}",
                "name only one of them, or files that bill each charge once",
            )
    lost = {file_of[side]: min(newer - beaten or newer) for side, newer in winners.items()}
    # If a file is superseded for one account or month only, its other bills would be lost with it.
    partly = {file for side, file in file_of.items() if file in beaten and side not in winners}
    if torn := sorted(partly | {file_of[side] for side, newer in winners.items() if newer <= beaten}):
        raise DataError(
            f"{torn[0]} has one bill that is newer in another file, and one bill that no other file has",
            "load the files one after the other, the older first",
        )
    return lost
