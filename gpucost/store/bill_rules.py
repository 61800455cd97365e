"""Which of two tellings of the same bill stands: the rules by which a load replaces what is there, or leaves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from datetime import datetime

# Of two bills, the share of the smaller one's charges that the other must tell of, too, for both to be the same bill.
_SAME = 0.5
# A bill that tells of little else than the other, and of fewer charges than this share of it, is a part of it.
_PART = 0.9
# With less than this share in common, two bills are different ones: parts of one export can have a charge's rows on both sides.
_APART = 0.1

# Two exports of one bill that complete each other: one has what is paid, the other what it is spread over.
PAIR = {"azure-actual", "azure-amortized"}

Verdict = Literal["beside", "replace", "unchanged", "older", "part", "not_final", "other_format", "overlap"]


@dataclass(frozen=True, slots=True)
class Telling:
    """One telling of a bill: `charges` are distinct charge keys, `earliest` and `latest` the first and last start of a charge."""

    source: str
    is_whole: bool
    is_final: bool | None
    digest: str
    charges: int
    earliest: datetime
    latest: datetime
    format: str = ""
    account: str = ""


def is_torn(new: Telling, old: Telling, common: int) -> bool:
    """Whether each of two loose bills holds charges of the other and others besides: snapshots, or parts that share rows.

    `bill_twins.are_parts` tells which; of parts both stand, each charge once.
    """
    return not new.is_whole and not old.is_whole and 0 < common < min(new.charges, old.charges)


def is_mostly_shared(new: Telling, old: Telling, common: int) -> bool:
    """Whether two tellings have so much in common that they are of the same bill."""
    return common >= _SAME * min(new.charges, old.charges)


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
        told_otherwise = _export(new.format) != _export(old.format) and new.account == old.account != ""
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


def _export(format_name: str) -> str:
    """The kind of export: Azure's is one, whether its content says actual, amortized, or neither."""
    return "azure" if format_name.startswith("azure-") else format_name
