"""What a commitment is sold as: its kind, its years, how it is paid, and its price."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from gpucost.errors import UsageError

KINDS = ("reserved", "savings_plan", "cud")
PAYMENTS = ("no_upfront", "partial_upfront", "all_upfront", "monthly")
YEARS = (1, 3)
# Savings plans and CUDs cover every size of a family; GPU instances' reservations cover their own type.
FLEXIBLE = ("savings_plan", "cud")

_UPFRONT = {"all_upfront": Decimal(1), "partial_upfront": Decimal("0.5")}
_FORM = re.compile(r"(?:(?P<kind>[a-z_]+):)?(?P<years>\d+)(?::(?P<payment>[a-z_]+))?")
_LONGEST_WORD = 40


@dataclass(frozen=True, slots=True, order=True)
class Terms:
    """What can be chosen of a commitment. `offering` tells several of a kind apart ('standard', 'convertible', 'compute')."""

    kind: str
    years: int
    payment: str
    offering: str = ""

    @property
    def upfront_share(self) -> Decimal:
        """Share of the whole term's price that is paid on its first day; of a partial upfront half, as AWS sells it."""
        return _UPFRONT.get(self.payment, Decimal(0))

    def __str__(self) -> str:
        words = (self.kind, f"{self.years} year{'s' if self.years > 1 else ''}", self.payment, self.offering)
        return ", ".join(word.replace("_", " ") for word in words if word)


@dataclass(frozen=True, slots=True)
class Offer:
    """A commitment's price per node-hour, amortized with what is paid upfront; paid in every hour of the term."""

    terms: Terms
    price: Decimal
    source: str
    as_of: str | None = None


def parse_terms(text: str, option: str) -> Terms:
    """The terms that `[KIND:]YEARS[:PAYMENT]` names: reserved and no upfront where it does not say. Raises UsageError."""
    shown = text if len(text) <= _LONGEST_WORD else f"{text[:_LONGEST_WORD]}…"
    found = _FORM.fullmatch(text.strip().lower().replace("-", "_"))
    if not found:
        raise UsageError(
            f"{option}: {shown!r} is no commitment", "write [KIND:]YEARS[:PAYMENT], as in reserved:1:no_upfront or 3"
        )
    kind, years, payment = found["kind"] or "reserved", int(found["years"]), found["payment"] or "no_upfront"
    for what, word, known in (("kind", kind, KINDS), ("payment", payment, PAYMENTS)):
        if word not in known:
            raise UsageError(f"{option}: {word!r} is no {what} of commitment", f"there are {', '.join(known)}")
    if years not in YEARS:
        raise UsageError(f"{option}: nobody sells {years} years", "commitments run 1 or 3 years")
    return Terms(kind, years, payment)


def committed_price(on_demand: Decimal, percent_off: Decimal) -> Decimal:
    """The price of a commitment that is `percent_off` cheaper than on demand."""
    return on_demand * (100 - percent_off) / 100
