"""Commitments: how many nodes are worth paying for around the clock, of which kind, and what if usage changes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import partial, reduce
from operator import add
from typing import TYPE_CHECKING, Annotated, Any

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.periods import from_ms as at
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Line, Position, Rows, Value, old_prices, priced, total
from gpucost.whatif.cost import CostBlock, base_and_rest, kept, positions
from gpucost.whatif.curve import Curve, DescribedCurve, counted
from gpucost.whatif.flags import HOURS_PER_MONTH, HOURS_PER_YEAR, to_decimal
from gpucost.whatif.fleet import Fleet, Node, Price
from gpucost.whatif.spot.formulas import bisected

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DAY = 24 * MS_PER_HOUR
# Two billing periods: a bill that ended longer ago says little of what holds now.
_LASTS = 62 * _DAY

# (provider, region, instance type), lower-cased.
Key = tuple[str, str, str]
NOTHING: Key = ("", "", "")


@record
class Commitment:
    """One commitment in the period: instance-hours that it covered, and what of it was paid and not used."""

    commitment_discount_id: str
    type: str
    covered_instance_hours: float
    unused_cost: Decimal
    currency: str


@record
class Existing:
    """Commitments of the bill. `is_bill_loaded` tells none from not known; `covered` holds instances covered, hour by hour.

    `month` is that of an earlier bill whose last day stands for the period, which no bill is there of.
    """

    is_bill_loaded: bool
    commitments: tuple[Commitment, ...] = ()
    covered: dict[Key, Curve] = field(default_factory=dict)
    month: str | None = None
    # what they cost by what they cover, used or not, after discounts; what covered nothing stands under NOTHING
    paid: dict[Key, Decimal] = field(default_factory=dict)
    currency: str | None = None


_BILLS = """
SELECT bool_or(epoch_ms(charge_period_end) > $from_ms), max(epoch_ms(charge_period_end)) FROM bill_rows
WHERE kind = 'instance' AND epoch_ms(charge_period_start) < $to_ms AND epoch_ms(charge_period_end) >= $from_ms - $lasts
"""
# Hours of instances that a commitment covers, its unused part, which may be billed as a purchase, and discounts on it.
_CHARGES = """
SELECT lower(provider), lower(region), lower(instance_type), commitment_discount_id, any_value(commitment_discount_type),
    epoch_ms(charge_period_start), epoch_ms(charge_period_end),
    coalesce(commitment_discount_status = 'Unused', false) OR kind = 'commitment_unused',
    coalesce(sum(instance_hours), 0), sum(effective_cost), any_value(billing_currency)
FROM charges
WHERE commitment_discount_id IS NOT NULL AND (charge_category = 'Usage' OR kind IN ('commitment_unused', 'discount'))
    AND epoch_ms(charge_period_start) < $to_ms AND $from_ms < epoch_ms(charge_period_end)
GROUP BY ALL ORDER BY ALL
"""


def read_commitments(con: DuckDBPyConnection, from_ms: int, to_ms: int) -> Existing:
    """What the bill says of commitments in [from_ms, to_ms). A charge that spans several hours covers them evenly.

    Where no bill of the period is there, they go on as on the last day of the newest one before it.
    """
    span = {"from_ms": from_ms, "to_ms": to_ms, "lasts": _LASTS}
    is_billed, last = con.execute(_BILLS, span).fetchall()[0]
    if last is None:
        return Existing(is_bill_loaded=False)
    if is_billed:
        return _read(con, from_ms, to_ms)
    day, times = _read(con, last - _DAY, last), (to_ms - from_ms) / _DAY
    return Existing(
        True,
        tuple(
            replace(
                one,
                covered_instance_hours=one.covered_instance_hours * times,
                unused_cost=one.unused_cost * to_decimal(times),
            )
            for one in day.commitments
        ),
        {key: counted([(from_ms, to_ms, curve.mean)], from_ms, to_ms) for key, curve in day.covered.items()},
        f"{at(last - 1):%Y-%m}",
        {key: cost * to_decimal(times) for key, cost in day.paid.items()},
        day.currency,
    )


def _read(con: DuckDBPyConnection, from_ms: int, to_ms: int) -> Existing:
    """What bills that are there say of the period."""
    spans: dict[Key, list[tuple[int, int, float]]] = defaultdict(list)
    commitments: dict[str, Commitment] = {}
    paid: dict[str, Decimal] = defaultdict(Decimal)
    hours_of: dict[str, dict[Key, float]] = defaultdict(lambda: defaultdict(float))
    rows = con.execute(_CHARGES, {"from_ms": from_ms, "to_ms": to_ms}).fetchall()
    for provider, region, instance_type, name, kind, start, end, is_unused, hours, cost, currency in rows:
        share = (min(end, to_ms) - max(start, from_ms)) / (end - start)
        before = commitments.get(name, Commitment(name, "commitment", 0.0, Decimal(0), currency))
        commitments[name] = replace(
            before,
            type=kind or before.type,
            covered_instance_hours=before.covered_instance_hours + (0.0 if is_unused else hours * share),
            unused_cost=before.unused_cost + (cost * to_decimal(share) if is_unused else Decimal(0)),
        )
        paid[name] += cost * to_decimal(share)
        if instance_type and hours and not is_unused:
            hours_of[name][provider, region or "", instance_type] += hours * share
            spans[provider, region or "", instance_type].append(
                (start, end, hours / ((end - start) / MS_PER_HOUR))
            )
    covered = {key: counted(several, from_ms, to_ms) for key, several in spans.items()}
    by_key: dict[Key, Decimal] = defaultdict(Decimal)
    for name, cost in paid.items():
        several = hours_of[name] or {NOTHING: 1.0}
        for key, hours in several.items():
            by_key[key] += cost * to_decimal(hours / sum(several.values()))
    currencies = {one.currency for one in commitments.values()}
    currency = currencies.pop() if len(currencies) == 1 else None
    return Existing(True, tuple(commitments.values()), covered, paid=dict(by_key), currency=currency)


KINDS = ("reserved", "savings_plan", "cud")
PAYMENTS = ("no_upfront", "partial_upfront", "all_upfront", "monthly")
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

    @property
    def length(self) -> str:
        return f"{self.years} year{'s' if self.years > 1 else ''}"

    def __str__(self) -> str:
        words = (self.kind, self.length, self.payment, self.offering)
        return ", ".join(word.replace("_", " ") for word in words if word)


# Prices of commitments per node-hour, amortized with what is paid upfront; paid in every hour of the term.
Offers = Mapping[Terms, Price]


def parse_terms(text: str, option: str) -> Terms:
    """The terms that `[KIND:]YEARS[:PAYMENT]` names: reserved and no upfront where it does not say. Raises UsageError."""
    match = _FORM.fullmatch(text.strip().lower().replace("-", "_"))
    if not match:
        shown = text if len(text) <= _LONGEST_WORD else f"{text[:_LONGEST_WORD]}…"
        raise UsageError(
            f"{option}: {shown!r} is no commitment",
            "write [KIND:]YEARS[:PAYMENT], as in reserved:1:no_upfront or 3",
        )
    terms = Terms(match["kind"] or "reserved", int(match["years"]), match["payment"] or "no_upfront")
    for what, word, known in (("kind", terms.kind, KINDS), ("payment", terms.payment, PAYMENTS)):
        if word not in known:
            raise UsageError(
                f"{option}: {word!r} is no {what} of commitment", f"there are {', '.join(known)}"
            )
    if terms.years not in (1, 3):
        raise UsageError(f"{option}: nobody sells {terms.years} years", "commitments run 1 or 3 years")
    return terms


@record
class DescribedUse(DescribedCurve):
    """Nodes on demand that options describe."""

    gpus: flags.Gpus | None = None


@record
class Considered(OptionGroup):
    """Which nodes may be committed, on which terms, and at what prices, where they are given."""

    commitment_price: Annotated[
        tuple[str, ...],
        Option(
            "Per hour in --price-per, upfront amortized. TERMS is [KIND:]YEARS[:PAYMENT]; repeatable.",
            "TERMS=MONEY",
        ),
    ] = ()
    commitment_discount: Annotated[
        tuple[str, ...],
        Option(
            "The same as percent off the price on demand; for all families of the store. Repeatable.",
            "TERMS=PERCENT",
        ),
    ] = ()
    instance_type: Annotated[
        tuple[str, ...], Option("Only this type; of options, the one that list prices are taken of.", "TYPE")
    ] = ()
    region: Annotated[
        tuple[str, ...], Option("Only this region; of options, where prices hold.", "NAME")
    ] = ()
    term_years: Annotated[
        tuple[int, ...], Option("Only 1 or 3 years. Default: both.", "YEARS", least=1, most=3)
    ] = ()
    payment_option: Annotated[
        tuple[str, ...], Option("Only no_upfront, partial_upfront, all_upfront or monthly.", "NAME")
    ] = ()

    def __post_init__(self) -> None:
        """Raises UsageError for terms that nobody sells."""
        if 2 in self.term_years:
            raise UsageError("nobody sells commitments of 2 years", "--term-years is 1 or 3")
        for word in self.payment_option:
            if word not in PAYMENTS:
                raise UsageError(f"--payment-option {word} is not known", f"there are {', '.join(PAYMENTS)}")

    def allows(self, terms: Terms) -> bool:
        return (not self.term_years or terms.years in self.term_years) and (
            not self.payment_option or terms.payment in self.payment_option
        )


ANYTHING = Considered()
_AZURE = re.compile(r"(?i)^(standard_[a-z]+)\d+")

# What is paid by the hour and cannot be taken back. Nodes of unknown capacity type count as on demand.
COMMITTABLE = ("on_demand", "unknown")


@record
class ReservedUse:
    """Instances of one type in use that no commitment covers yet, their price on demand, and what they could be committed at."""

    instance_type: str
    gpus: float
    on_demand: Price
    curve: Curve
    offers: Offers = field(default_factory=dict)
    covered_hours: float = 0.0

    def blocks(self, usage: float = 1.0) -> list[CostBlock]:
        """On demand, where usage is `usage` of today's."""
        return [CostBlock(self.curve.node_hours * usage, self.on_demand.per_node_hour, self.gpus)]


@record
class Family:
    """Instance types of one family in one region."""

    provider: str
    region: str
    name: str
    uses: tuple[ReservedUse, ...]

    def __str__(self) -> str:
        return " ".join(word for word in (self.provider, self.region, self.name) if word)

    @property
    def smallest(self) -> ReservedUse:
        return min(self.uses, key=lambda use: (use.on_demand.per_node_hour, use.instance_type))

    @property
    def terms(self) -> list[Terms]:
        """The commitments on offer: a flexible one where the smallest instance has it."""
        terms = {terms for use in self.uses for terms in use.offers if terms.kind not in FLEXIBLE}
        terms |= {terms for terms in self.smallest.offers if terms.kind in FLEXIBLE}
        return sorted(terms, key=lambda one: (one.years, one.kind, one.payment, one.offering))


def family_name(instance_type: str) -> str:
    """p4d of p4d.24xlarge, a2-highgpu of a2-highgpu-8g, Standard_NDisr_H100_v5 of Standard_ND96isr_H100_v5."""
    if _AZURE.match(instance_type):
        return _AZURE.sub(r"\1", instance_type)
    return instance_type.split(".")[0] if "." in instance_type else instance_type.rsplit("-", 1)[0]


def families_of(
    fleet: Fleet,
    period: Period,
    existing: Existing,
    offers_of: Callable[[str, str, str], tuple[Price | None, Offers]],
    *,
    is_narrowed: bool,
) -> tuple[Family, ...]:
    """On-demand usage by family, hour by hour; what existing commitments cover is taken off first.

    Nodes of unknown capacity type count as on demand. `is_narrowed`: nodes are counted by the share of them that the fleet's pods
    hold, else whole. `offers_of(provider, region, instance type)` is the list price on demand and the commitments. The price on
    demand is what the nodes cost, by hours; where only a bill or nothing prices them, the list price.
    """
    by_type: dict[tuple[str, str, str, float], list[Node]] = defaultdict(list)
    for node in fleet.nodes:
        # of no cloud's machine a cloud sells a commitment
        if node.capacity_type in COMMITTABLE and (node.provider or node.instance_type):
            instance_type = node.instance_type or node.gpu_model or "unknown"
            by_type[node.provider or "", node.region or "", instance_type, node.gpus].append(node)
    families: dict[Key, list[ReservedUse]] = defaultdict(list)
    for (provider, region, instance_type, gpus), nodes in sorted(by_type.items(), key=lambda item: item[0]):
        spans = [(node.from_ms, node.to_ms, 1.0) for node in nodes]
        if is_narrowed:
            names = {node.key for node in nodes}
            spans = [(pod.from_ms, pod.to_ms, pod.gpus / gpus) for pod in fleet.pods if pod.place in names]
        listed, offers = offers_of(provider, region, instance_type)
        price = _mean_price(nodes) or listed
        if not price or not price.per_node_hour or not spans:
            continue
        curve = counted(spans, period.start_ms, period.end_ms)
        covered = existing.covered.get((provider, region, instance_type.lower()))
        left = curve.less(covered) if covered else curve
        use = ReservedUse(
            instance_type, gpus, price, left, offers, round(curve.node_hours - left.node_hours, 6)
        )
        families[provider, region, family_name(instance_type)].append(use)
    return tuple(Family(*key, tuple(uses)) for key, uses in families.items())


def _mean_price(nodes: Iterable[Node]) -> Price | None:
    """What the nodes cost per hour on demand, on the mean, leaving out what a bill says: that may hold commitments.

    None: nothing prices them on demand.
    """
    time, amount, sources, days = 0, Decimal(0), set(), set()
    for node in nodes:
        for price, start, end in node.steps:
            if price.source not in ("bill", "none") and not price.is_committed and start < end:
                time += end - start
                amount += (end - start) * price.per_node_hour
                sources.add(price.source)
                days.add(price.as_of or "")
    if not amount:
        return None
    return Price(kept(amount / time), ", ".join(sorted(sources)).replace("_", " "), max(days) or None)


# The last committed node is in use for so much of the time at least, and so much above its break-even.
_LEAST_USED, _ABOVE_BREAK_EVEN, _TIE = 0.8, 0.05, 1e-6
# Days of data without which no commitment is advised.
LEAST_DAYS = 28
_WEEK_HOURS = 168


@record
class Pool:
    """`level` nodes paid around the clock at `committed`, for the curve of `use`, whose rest is paid on demand.

    Several sizes of a family are one pool for savings plans and CUDs: each counts as its price on demand against the smallest's.
    """

    use: ReservedUse
    terms: Terms
    committed: Price
    level: int = 0

    @property
    def price(self) -> Decimal:
        return self.committed.per_node_hour

    @property
    def break_even(self) -> float:
        """Share of the hours that a node must be in use for its commitment to cost no more than on demand; above 1: never."""
        return float(self.price / self.use.on_demand.per_node_hour)

    def best_level(self, usage: float = 1.0) -> int:
        """The level that costs least where usage is `usage` of today's."""
        return self.use.curve.scaled(usage).best_level(self.break_even)

    def advised_level(self, days: float | None) -> int:
        """The level whose last node is in use for 80 % of the time and 5 points above its break-even, also in the last week.

        `days` are those of collected data, None for described use; under 28 of them nothing is advised.
        """
        least = max(_LEAST_USED, self.break_even + _ABOVE_BREAK_EVEN) - _TIE
        level = self.use.curve.best_level(least)
        if days is None:
            return level
        return 0 if days < LEAST_DAYS else min(level, self.use.curve.last(_WEEK_HOURS).best_level(least))

    def blocks(self, usage: float) -> list[CostBlock]:
        """The committed nodes in all hours, and what they do not hold by the hour, where usage is `usage` of today's."""
        return base_and_rest(
            self.use.curve.scaled(usage),
            self.level,
            self.price,
            self.use.on_demand.per_node_hour,
            self.use.gpus,
        )

    def gain(self, usage: float) -> float:
        """What the committed nodes save over on demand where usage is `usage` of today's."""
        used = self.use.curve.scaled(usage).used(self.level)
        return (
            float(self.use.on_demand.per_node_hour) * used
            - float(self.price) * self.level * self.use.curve.hours
        )

    def payback_hours(self) -> float | None:
        """Hours until on-demand cost avoided makes up for what was paid upfront: 0 where nothing was, None beyond the term.

        Per hour and committed node: used share × on demand is avoided, and (1 − upfront share) × price is still paid.
        """
        share, used = self.terms.upfront_share, self.use.curve.utilization(self.level)
        if not share or used is None:
            return 0.0
        gained = used * float(self.use.on_demand.per_node_hour) - float((1 - share) * self.price)
        term = self.terms.years * HOURS_PER_YEAR
        hours = float(share * self.price) * term / gained if gained > 0 else float("inf")
        return hours if hours <= term else None


@record
class Choice:
    """A family committed on some terms, at the level that is advised; `left_out` are types that these terms are not sold for."""

    family: Family
    terms: Terms
    pools: tuple[Pool, ...]
    left_out: tuple[ReservedUse, ...]

    @classmethod
    def advised(cls, family: Family, terms: Terms, days: float | None) -> Choice:
        """Of terms that the family has; `days` as Pool.advised_level takes them."""
        sold, left_out = (
            [use for use in family.uses if (terms in use.offers) is is_sold] for is_sold in (True, False)
        )
        if terms.kind in FLEXIBLE:
            smallest = family.smallest
            weights = (
                float(use.on_demand.per_node_hour / smallest.on_demand.per_node_hour) for use in family.uses
            )
            curves = (use.curve.scaled(weight) for use, weight in zip(family.uses, weights, strict=True))
            sold, left_out = [replace(smallest, curve=reduce(add, curves))], []
        pools = tuple(Pool(use, terms, use.offers[terms]) for use in sold)
        return cls(family, terms, pools, tuple(left_out)).at_levels(lambda pool: pool.advised_level(days))

    @property
    def name(self) -> str:
        return f"{self.family}: {self.terms}"

    @property
    def levels(self) -> str:
        """How many of what."""
        return " and ".join(f"{pool.level} × {pool.use.instance_type}" for pool in self.pools if pool.level)

    @property
    def instances(self) -> int:
        return sum(pool.level for pool in self.pools)

    @property
    def committed_hours(self) -> float:
        return sum(pool.level * pool.use.curve.hours for pool in self.pools)

    @property
    def break_even(self) -> float:
        """The highest of the pools' break-evens, 0-1 and above."""
        return max(pool.break_even for pool in self.pools)

    @property
    def obligation(self) -> Decimal:
        """What is owed over the whole term, used or not."""
        per_hour = total(pool.level * pool.price for pool in self.pools)
        return per_hour * self.terms.years * HOURS_PER_YEAR

    @property
    def upfront(self) -> Decimal:
        """What of it is paid on the first day."""
        return self.obligation * self.terms.upfront_share

    def saving_if_prices_fall(self, percent: int) -> Decimal:
        """What the commitments still save over the period if the price on demand falls."""
        gains = (
            pool.use.on_demand.per_node_hour
            * (100 - percent)
            / 100
            * to_decimal(pool.use.curve.used(pool.level))
            - pool.price * pool.level * to_decimal(pool.use.curve.hours)
            for pool in self.pools
        )
        return round(total(gains), 6)

    def break_even_on(self, bought_on: date | None) -> date | None:
        """The day on which on-demand cost avoided has made up for the whole term's price; None beyond the term.

        From then on the commitment has cost no more than on demand, whatever use is made of it.
        """
        shares = [
            (pool.break_even, pool.use.curve.utilization(pool.level)) for pool in self.pools if pool.level
        ]
        if bought_on is None or not shares or any(not used or even > used for even, used in shares):
            return None
        term = self.terms.years * HOURS_PER_YEAR
        return bought_on + timedelta(hours=max(even / used * term for even, used in shares if used))

    def payback_months(self) -> float | None:
        """Of the slowest pool; None beyond the term, or where nothing is committed."""
        hours = [pool.payback_hours() for pool in self.pools if pool.level]
        known = [time for time in hours if time is not None]
        return round(max(known) / HOURS_PER_MONTH, 6) if hours and len(known) == len(hours) else None

    def blocks(self, usage: float = 1.0) -> list[CostBlock]:
        """What is paid where usage is `usage` of today's."""
        parts: tuple[Pool | ReservedUse, ...] = (*self.pools, *self.left_out)
        return [block for part in parts for block in part.blocks(usage)]

    def at_levels(self, level: Callable[[Pool], int]) -> Choice:
        return replace(self, pools=tuple(replace(pool, level=level(pool)) for pool in self.pools))

    def lasting_share(self) -> float:
        """The share of today's usage at which the commitments cost what on demand would."""
        return bisected(0.0, 1.0, lambda usage: sum(pool.gain(usage) for pool in self.pools) <= 0)


CHANGES = (20, -10, -20, -25, -50)
# Falls of the price on demand, in percent: p5.48xlarge fell by 44 % in June 2025.
PRICE_FALLS = (10, 20)
_HALF = Assumption("partial upfront", 50, "% of the term's price", "default")

# columns of the table, and the keys of a record that they show; "": the terms
_COLUMNS = {
    "family": "family", "commitment": "", "instances": "instances", "cost": "cost", "saving": "saving",
    "saving %": "saving_percent", "obligation": "obligation", "coverage %": "coverage_percent",
    "utilization %": "utilization_percent",
    "break-even utilization %": "break_even_utilization_percent", "upfront": "upfront_payment",
    "payback months": "payback_months",
}  # fmt: skip
_FIGURES = (
    "instances",
    "coverage_percent",
    "utilization_percent",
    "break_even_utilization_percent",
    "payback_months",
)


def answer(
    families: Sequence[Family],
    existing: Existing,
    *,
    currency: str,
    period: str,
    considered: Considered = ANYTHING,
    assumptions: Sequence[Assumption] = (),
    bought_on: date | None = None,
    stale_after_days: int = 90,
    days: float | None = None,
    any_terms: bool = False,
) -> Answer:
    """What the advised commitment of each family would have cost over the period, next to on demand.

    The headline has one year without upfront payment alone, or the terms that options chose (`any_terms`). `days` are those of
    collected data, None for described use. `bought_on` is the first day of commitments. Raises GpucostError if nothing that is
    considered is on offer.
    """
    uses = [use for family in families for use in family.uses]
    choices = [
        Choice.advised(family, terms, days)
        for family in families
        for terms in family.terms
        if considered.allows(terms)
    ]
    if not choices:
        names = ", ".join(sorted({use.instance_type for use in uses}))
        raise GpucostError(
            f"no price of a commitment is known for {names or 'any node'}",
            "gpucost collect prices asks the clouds for them; or --commitment-price 1=PRICE, or --commitment-discount 1=PERCENT",
        )
    groups = {str(family): [block for use in family.uses for block in use.blocks()] for family in families}
    costs = positions(currency, groups | {choice.name: choice.blocks() for choice in choices})
    best: dict[str, Choice] = {}
    for choice in sorted(
        choices, key=lambda choice: (costs[choice.name].cost, choice.terms.years, choice.upfront)
    ):
        if any_terms or (choice.terms.years == 1 and not choice.terms.upfront_share):
            best.setdefault(str(choice.family), choice)
    chosen = {name: choice for name, choice in best.items() if choice.instances}
    records = {
        choice.name: _record(choice, costs[str(choice.family)].cost, costs[choice.name].cost, bought_on)
        for choice in choices
    }
    records_chosen = [records[choice.name] for choice in chosen.values()]
    regret = _regret(list(chosen.values()), currency)
    # What nothing is committed of costs in the scenario what it does today: the parts of one sum, to the last digit.
    scenario = [
        costs[chosen[str(family)].name if str(family) in chosen else str(family)] for family in families
    ]
    committed_hours = round(sum(choice.committed_hours for choice in chosen.values()), 6)
    today = _total([costs[str(family)] for family in families], currency)
    obligation = total(choice.obligation for choice in chosen.values())
    after = _total(scenario, currency, committed_node_hours=committed_hours, obligation=obligation)
    eligible = _eligible(families, list(chosen.values()), existing, today, after)
    prices = [
        *((use.instance_type, use.on_demand) for use in uses),
        *((pool.use.instance_type, pool.committed) for choice in chosen.values() for pool in choice.pools),
    ]
    unit = "money per node-hour"
    note = "; ".join(f"{name}: {choice.terms}, {choice.levels}" for name, choice in chosen.items())
    return Answer(
        kind="reserve",
        title="Committing instead of paying on demand"
        + (old_prices(prices, bought_on, stale_after_days) if bought_on is not None else ""),
        period=period,
        today=today,
        scenario=after,
        figures={
            "price_per": "node",
            "best": records_chosen,
            "options": list(records.values()),
            "regret": regret,
            "obligation": obligation,
            "if_price_falls": [
                {
                    "percent": fall,
                    "saving": total(choice.saving_if_prices_fall(fall) for choice in chosen.values()),
                }
                for fall in PRICE_FALLS
            ],
            **eligible,
            "existing_commitments": [asdict(one) for one in existing.commitments],
            "existing_commitments_known": existing.is_bill_loaded,
            **({name: records_chosen[0][name] for name in _FIGURES} if len(chosen) == 1 else {}),
        },
        assumptions=(
            *assumptions,
            *(priced(f"on demand, {use.instance_type}", use.on_demand, unit) for use in uses),
            *(
                priced(f"{pool.use.instance_type}, {choice.terms}", pool.committed, unit)
                for choice in choices
                for pool in choice.pools
            ),
            *([_HALF] if any(choice.terms.payment == "partial_upfront" for choice in choices) else []),
        ),
        break_even=tuple(
            f"{name}: a committed instance pays for itself from {choice.break_even * 100:.1f} % of its hours in use on"
            f"; all of them together until usage falls by {(1 - choice.lasting_share()) * 100:.1f} %"
            + _paid_back(choice, bought_on)
            for name, choice in chosen.items()
        )
        or ("No level of use is steady enough for a commitment.",),
        time=(
            "No workload waits: committed and on-demand instances are the same machines. A commitment binds for its whole term.",
            "A savings plan or CUD is a price, not capacity: only a capacity reservation keeps instances free for you.",
        ),
        findings=(
            *_advice(chosen, obligation, currency, days),
            *_findings(families, choices, chosen, existing),
        ),
        tables=(
            Rows(
                "commitments",
                tuple(_COLUMNS),
                tuple(
                    tuple(
                        _short(records[choice.name][key]) if key else str(choice.terms)
                        for key in _COLUMNS.values()
                    )
                    for choice in choices
                ),
                f"The scenario takes: {note}. Longer terms and upfront payments are no part of it."
                if note
                else "The scenario stays on demand.",
            ),
            *Rows.of(
                "eligible spend",
                ("", "today", "scenario"),
                _spend_lines(eligible),
                "Of on-demand nodes and of what commitments cover already; spot and capacity blocks are in neither.",
            ),
            *Rows.of(
                "if usage changes",
                ("family", "usage changes %", "cost", "on demand cost", "still saves", "best cost", "regret"),
                [tuple(map(_short, row.values())) for row in regret],
                "Regret: what is paid over the best level for that usage.",
            ),
        ),
    )


def _advice(
    chosen: Mapping[str, Choice], obligation: Decimal, currency: str, days: float | None
) -> Iterator[str]:
    """The obligation, the rule of the level, and what falling prices leave."""
    if days is not None and days < LEAST_DAYS:
        yield f"{days:,.1f} days of data: under {LEAST_DAYS} days no commitment is advised."
        return
    if not chosen:
        return
    yield f"These commitments oblige you to pay {obligation:,.2f} {currency} over their terms, used or not."
    falls = (
        f"{total(choice.saving_if_prices_fall(fall) for choice in chosen.values()):,.2f} if it falls by {fall} %"
        for fall in PRICE_FALLS
    )
    yield f"The saving depends on the price on demand: {', '.join(falls)}."


def _total(parts: Sequence[Position], currency: str, **more: Value) -> Position:
    whole = sum(parts, Position(Decimal(0), currency))
    return Position(whole.cost, currency, round(whole.gpu_hours, 6), round(whole.node_hours, 6), more)


def _percent(part: float, whole: float) -> float | None:
    return round(part / whole * 100, 6) if whole else None


def _eligible(
    families: Sequence[Family], chosen: Sequence[Choice], existing: Existing, today: Position, after: Position
) -> dict[str, Any]:
    """What eligible use would cost on demand, the share of it that commitments cover, and the effective savings rate.

    That is 1 − what is paid ÷ what would be paid on demand (FinOps Foundation, effective savings rate); None where what there
    is already is not known, or billed in several currencies or another one.
    """
    uses = {
        (family.provider, family.region, use.instance_type.lower()): use
        for family in families
        for use in family.uses
    }
    before = total(use.on_demand.per_node_hour * to_decimal(use.covered_hours) for use in uses.values())
    paid = total(existing.paid[key] for key in (*uses, NOTHING) if key in existing.paid)
    covered = sum(
        (
            pool.use.on_demand.per_node_hour * to_decimal(pool.use.curve.used(pool.level))
            for choice in chosen
            for pool in choice.pools
        ),
        before,
    )
    eligible = today.cost + before
    is_known = existing.is_bill_loaded and (not paid or existing.currency == today.currency)

    def saved(cost: Decimal) -> float | None:
        return _percent(float(eligible - cost - paid), float(eligible)) if is_known else None

    return {
        "eligible_cost": eligible,
        "covered_percent_today": _percent(float(before), float(eligible)) if is_known else None,
        "covered_percent": _percent(float(covered), float(eligible)) if is_known else None,
        "effective_savings_rate_percent_today": saved(today.cost),
        "effective_savings_rate_percent": saved(after.cost),
    }


def _spend_lines(eligible: Mapping[str, Any]) -> list[Line]:
    """Nothing where what there is already is not known."""
    if eligible["covered_percent_today"] is None:
        return []
    lines: list[Line] = [("at on-demand prices", *[round(eligible["eligible_cost"], 2)] * 2)]
    for name in ("covered", "effective_savings_rate"):
        ends = (_short(eligible[f"{name}_percent{end}"]) for end in ("_today", ""))
        lines.append((f"{name.replace('_', ' ')} %", *ends))
    return lines


def _paid_back(choice: Choice, bought_on: date | None) -> str:
    day = choice.break_even_on(bought_on)
    return (
        f"; bought on {bought_on}, they have paid for themselves on {day}, even if nobody uses them again."
        if day
        else "."
    )


def _record(choice: Choice, today: Decimal, cost: Decimal, bought_on: date | None) -> dict[str, Value]:
    even = choice.break_even_on(bought_on)
    pools = choice.pools
    used = sum(pool.use.curve.used(pool.level) for pool in pools)
    # in the pools' instances; those of types left out as they are
    in_use = sum(use.curve.node_hours for use in (*(pool.use for pool in pools), *choice.left_out))
    return {
        "family": str(choice.family),
        "provider": choice.family.provider,
        "region": choice.family.region,
        "kind": choice.terms.kind,
        "term_years": choice.terms.years,
        "payment_option": choice.terms.payment,
        "offering": choice.terms.offering or None,
        "instances": choice.instances,
        "instance_types": ", ".join(pool.use.instance_type for pool in pools),
        "committed_price_per_node_hour": pools[0].price if len(pools) == 1 else None,
        "on_demand_price_per_node_hour": pools[0].use.on_demand.per_node_hour if len(pools) == 1 else None,
        "cost": cost,
        "saving": today - cost,
        "saving_percent": _percent(float(today - cost), float(today)),
        "coverage_percent": _percent(used, in_use),
        "utilization_percent": _percent(used, choice.committed_hours),
        "break_even_utilization_percent": round(choice.break_even * 100, 6),
        **({"break_even_date": None if even is None else even.isoformat()} if bought_on else {}),
        "upfront_payment": choice.upfront,
        "obligation": choice.obligation,
        "payback_months": choice.payback_months(),
    }


def _short(value: Value) -> Value:
    if isinstance(value, Decimal):
        return round(value, 2)
    return "-" if value is None else round(value, 1) if isinstance(value, float) else value


def _regret(chosen: Sequence[Choice], currency: str) -> list[dict[str, Value]]:
    """For each family and change of usage: what is paid with the commitment held, and with what would have been best then."""
    changes = [(choice, change, f"{choice.family} {change}") for choice in chosen for change in CHANGES]
    groups: dict[str, list[CostBlock]] = {}
    for choice, change, name in changes:
        usage = 1 + change / 100
        groups[f"{name} held"] = choice.blocks(usage)
        groups[f"{name} best"] = choice.at_levels(partial(Pool.best_level, usage=usage)).blocks(usage)
        groups[f"{name} on demand"] = choice.at_levels(lambda _: 0).blocks(usage)
    costs = positions(currency, groups)
    rows: list[dict[str, Value]] = []
    for choice, change, name in changes:
        held, best, alone = (costs[f"{name} {what}"].cost for what in ("held", "best", "on demand"))
        rows.append(
            {
                "family": str(choice.family),
                "usage_change_percent": change,
                "cost": round(held, 6),
                "on_demand_cost": round(alone, 6),
                "still_saves": round(alone - held, 6),
                "best_cost": round(best, 6),
                "regret": round(max(Decimal(0), held - best), 6),
            }
        )
    return rows


def _findings(
    families: Sequence[Family], choices: Sequence[Choice], chosen: dict[str, Choice], existing: Existing
) -> Iterator[str]:
    if not existing.is_bill_loaded:
        yield "Existing commitments: none known, since no bill of the period is loaded; what you have already is not counted."
    elif not existing.commitments:
        yield "Existing commitments: the bill of the period has none."
    else:
        covered = sum(use.covered_hours for family in families for use in family.uses)
        yield (
            f"Existing commitments: {len(existing.commitments)} in the bill"
            + (
                f" of {existing.month}, which are taken to go on as on its last day,"
                if existing.month
                else ","
            )
            + f" counted first; they cover {covered:,.1f} node-hours of this usage, which are in neither figure."
        )
    for one in existing.commitments:
        if not one.covered_instance_hours and not one.unused_cost:
            yield f"{one.commitment_discount_id}: the bill does not say which instances it covers, so it is not counted."
    for one in existing.commitments:
        if one.unused_cost:
            unused = f"{one.unused_cost:,.2f} {one.currency}"
            yield f"{one.commitment_discount_id} was not used for {unused} of what it cost: use it before buying more."
    priced = {str(choice.family) for choice in choices}
    for family in families:
        if str(family) not in priced:
            yield f"{family}: no price of a commitment is known; it stays on demand."
    for choice in chosen.values():
        for use in choice.left_out:
            yield f"{use.instance_type} is not sold as {choice.terms}; it stays on demand."
        if any(len(family.uses) > 1 for family in families) and choice.terms.kind != "reserved":
            yield f"{choice.family}: all sizes count as {choice.pools[0].use.instance_type}, by their price on demand."
