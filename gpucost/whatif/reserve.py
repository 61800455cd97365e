"""Commitments: what is safe to pay for around the clock, of which kind, the obligation, and what if usage or prices change."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Annotated, Any

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.periods import from_ms as at
from gpucost.records import grouped, record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value, old_prices, priced, total
from gpucost.whatif.cost import kept
from gpucost.whatif.curve import LEAST_USE, MARGIN, Curve, DescribedCurve, Evidence, counted
from gpucost.whatif.flags import HOURS_PER_MONTH, HOURS_PER_YEAR, to_decimal
from gpucost.whatif.fleet import Fleet, Node, Price
from gpucost.whatif.spot.formulas import bisected

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DAY = 24 * MS_PER_HOUR
# Two billing periods: commitments of a bill that ended longer ago may be over.
_LASTS = 62 * _DAY

# (provider, region, instance type), lower-cased.
Key = tuple[str, str, str]
NOTHING: Key = ("", "", "")


@record
class Commitment:
    """A commitment in the period: instance-hours that it covered, and the cost of its unused part."""

    commitment_discount_id: str
    type: str
    covered_instance_hours: float
    unused_cost: Decimal
    currency: str


@record
class Existing:
    """Commitments of the bill, and the payer's other usage. `covered` holds covered instances, hour by hour.

    `month` is that of the bill whose last day stands for later time without a bill. `paid` is the cost by what is covered, used or
    not, after discounts; commitments that covered nothing are under NOTHING.
    """

    is_bill_loaded: bool
    commitments: tuple[Commitment, ...] = ()
    covered: dict[Key, Curve] = field(default_factory=dict)
    month: str | None = None
    paid: dict[Key, Decimal] = field(default_factory=dict)
    currency: str | None = None
    others: dict[str, ReservedUse] = field(default_factory=dict)


# By provider: when the last instance was billed, and until when the bill is complete.
_BILLED = """
CREATE OR REPLACE TEMP TABLE billed AS
SELECT b.provider, max(epoch_ms(charge_period_end)) AS last_ms, greatest(last_ms, max(least(
    epoch_ms(strptime(b.billing_period, '%Y-%m') + INTERVAL 1 MONTH), epoch_ms(b.loaded_at)))) AS until_ms
FROM bill_rows JOIN bills AS b USING (bill_id)
WHERE kind = 'instance' AND epoch_ms(charge_period_start) < $to_ms
GROUP BY ALL HAVING last_ms >= $from_ms - $lasts
"""
# Hours that commitments cover, their unused part and discounts. After the bill its last day goes on, until the end of the
# commitment if a fee of the whole term shows it.
_COVERED = """
WITH ends AS (
    SELECT commitment_discount_id, max(epoch_ms(charge_period_end)) AS expires_ms FROM charges
    WHERE kind = 'commitment_fee' AND charge_period_end > charge_period_start + INTERVAL 62 DAYS GROUP BY ALL
), rows AS (
    SELECT c.*, epoch_ms(charge_period_start) AS start_ms, epoch_ms(charge_period_end) AS end_ms, last_ms, until_ms,
        least($to_ms, coalesce(expires_ms, $to_ms)) AS expires_ms,
        coalesce(commitment_discount_status = 'Unused', false) OR kind = 'commitment_unused' AS is_unused
    FROM charges AS c JOIN billed USING (provider) LEFT JOIN ends USING (commitment_discount_id)
    WHERE commitment_discount_id IS NOT NULL AND (charge_category = 'Usage' OR kind IN ('commitment_unused', 'discount'))
), spans AS (
    SELECT *, greatest(start_ms, $from_ms) AS from_ms, least(end_ms, $to_ms) AS to_ms, 1 / (end_ms - start_ms) AS share_per_ms
    FROM rows
    UNION ALL
    SELECT *, greatest(until_ms, $from_ms), expires_ms,
        (least(end_ms, last_ms) - greatest(start_ms, last_ms - $day)) / (end_ms - start_ms) / $day
    FROM rows WHERE last_ms - $day < end_ms AND start_ms < last_ms
), sums AS (
    SELECT provider, region, instance_type, commitment_discount_id AS id, any_value(commitment_discount_type) AS type,
        from_ms, to_ms, sum(CASE WHEN NOT is_unused THEN instance_hours * share_per_ms END) * (to_ms - from_ms) AS hours,
        sum(effective_cost * share_per_ms) * (to_ms - from_ms) AS cost, is_unused, any_value(billing_currency) AS currency
    FROM spans WHERE from_ms < to_ms GROUP BY ALL
)
SELECT id, type, CASE WHEN hours > 0 AND instance_type IS NOT NULL
        THEN [lower(provider), coalesce(lower(region), ''), lower(instance_type)] END AS key,
    from_ms, to_ms, coalesce(hours, 0), CASE WHEN is_unused THEN cost ELSE 0 END, currency,
    CASE WHEN sum(hours) FILTER (key IS NOT NULL) OVER same > 0
        THEN sum(cost) OVER same * coalesce(hours, 0) / sum(hours) FILTER (key IS NOT NULL) OVER same ELSE cost END
FROM sums WINDOW same AS (PARTITION BY id) ORDER BY ALL
"""
# Other instances on demand of the only payer of a provider: their cost, and what plans of the bill charge for such usage.
_OTHERS = """
WITH instances AS (
    FROM charges JOIN billed USING (provider) WHERE kind = 'instance'
        AND provider IN (SELECT provider FROM bills GROUP BY ALL HAVING count(DISTINCT billing_account_id) = 1)
), rates AS (
    SELECT provider, lower(instance_type) AS type, sum(effective_cost) / sum(list_cost) AS rate FROM instances
    WHERE commitment_discount_type ILIKE 'savings%plan%' AND commitment_discount_status = 'Used' AND list_cost > 0 GROUP BY ALL
)
SELECT lower(provider), epoch_ms(charge_period_start) AS from_ms, epoch_ms(charge_period_end) AS to_ms,
    sum(effective_cost), sum(effective_cost * rate)
FROM instances JOIN rates USING (provider)
WHERE lower(instance_type) = type AND NOT list_contains($types, type) AND commitment_discount_id IS NULL
    AND pricing_category = 'Standard' AND from_ms < $to_ms AND $from_ms < to_ms AND effective_cost > 0 AND rate > 0
GROUP BY ALL ORDER BY ALL
"""


def read_commitments(
    con: DuckDBPyConnection, from_ms: int, to_ms: int, gpu_types: Iterable[str] = ()
) -> Existing:
    """The commitments of the bill in [from_ms, to_ms). A charge that spans several hours covers them evenly.

    After the newest bill they go on as on its last day. Other usage is that of instance types that are not `gpu_types`.
    """
    span = {"from_ms": from_ms, "to_ms": to_ms}
    con.execute(_BILLED, span | {"lasts": _LASTS})
    until, last = con.execute("SELECT min(until_ms), max(last_ms) FROM billed").fetchall()[0]
    if until is None:
        return Existing(is_bill_loaded=False)
    spans: dict[Key, list[tuple[int, int, float]]] = defaultdict(list)
    found: dict[str, Commitment] = {}
    paid: dict[Key, Decimal] = defaultdict(Decimal)
    rows = con.execute(_COVERED, span | {"day": _DAY}).fetchall()
    for name, kind, key, start, end, hours, unused, currency, cost in rows:
        before = found.get(name, Commitment(name, "commitment", 0.0, Decimal(0), currency))
        found[name] = Commitment(
            name,
            kind or before.type,
            before.covered_instance_hours + hours,
            before.unused_cost + kept(unused),
            currency,
        )
        paid[tuple(key) if key else NOTHING] += kept(cost)
        if key:
            spans[tuple(key)].append((start, end, hours / (end - start) * MS_PER_HOUR))
    currencies = {commitment.currency for commitment in found.values()}
    return Existing(
        True,
        tuple(found.values()),
        {key: counted(several, from_ms, to_ms) for key, several in spans.items()},
        f"{at(last - 1):%Y-%m}" if until < to_ms else None,
        dict(paid),
        currencies.pop() if len(currencies) == 1 else None,
        _others(con, from_ms, to_ms, gpu_types),
    )


def _others(
    con: DuckDBPyConnection, from_ms: int, to_ms: int, gpu_types: Iterable[str]
) -> dict[str, ReservedUse]:
    """Other usage on demand by provider. One node of it is as much as costs one an hour under a savings plan."""
    span = {"from_ms": from_ms, "to_ms": to_ms, "types": [name.lower() for name in gpu_types]}
    rows = con.execute(_OTHERS, span).fetchall()
    uses = {}
    for provider, several in grouped((row[0], row[1:]) for row in rows).items():
        spans = [(start, end, float(plan) * MS_PER_HOUR / (end - start)) for start, end, _, plan in several]
        on_demand, plan = (total(kept(row[column]) for row in several) for column in (2, 3))
        price = Price(kept(on_demand / plan), "bill: other instances on demand, per money of plans")
        uses[provider] = ReservedUse("other usage", 0, price, counted(spans, from_ms, to_ms))
    return uses


KINDS = ("reserved", "savings_plan", "cud")
PAYMENTS = ("no_upfront", "partial_upfront", "all_upfront", "monthly")
# Savings plans and CUDs cover several instance types; GPU instances' reservations cover their own type.
FLEXIBLE = ("savings_plan", "cud")

_UPFRONT = {"all_upfront": Decimal(1), "partial_upfront": Decimal("0.5")}
_FORM = re.compile(r"(?:(?P<kind>[a-z_]+):)?(?P<years>\d+)(?::(?P<payment>[a-z_]+))?")
_LONGEST_WORD = 40


@dataclass(frozen=True, slots=True, order=True)
class Terms:
    """The terms of a commitment. `offering` is the provider's name of a variant ('standard', 'convertible', 'compute')."""

    kind: str
    years: int
    payment: str
    offering: str = ""

    @property
    def upfront_share(self) -> Decimal:
        """Share of the whole term's price that is paid on its first day; half of it for a partial upfront, as AWS sells it."""
        return _UPFRONT.get(self.payment, Decimal(0))

    @property
    def binds_least(self) -> bool:
        """Whether it is for one year and nothing is paid upfront: only such terms are advised."""
        return self.years == 1 and not self.upfront_share

    @property
    def is_wide(self) -> bool:
        """Whether it covers all instances of the payer, whatever their type and region."""
        return self.kind == "savings_plan" and self.offering != "ec2_instance"

    @property
    def length(self) -> str:
        return f"{self.years} year{'s' if self.years > 1 else ''}"

    def __str__(self) -> str:
        words = (self.kind, self.length, self.payment, self.offering)
        return ", ".join(word.replace("_", " ") for word in words if word)


# Prices of commitments per node-hour, amortized with what is paid upfront; paid in every hour of the term.
Offers = Mapping[Terms, Price]


def parse_terms(text: str, option: str) -> Terms:
    """The terms that `[KIND:]YEARS[:PAYMENT]` names: reserved and no upfront by default. Raises UsageError."""
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

# What is paid by the hour and may be committed. Nodes of unknown capacity type count as on demand.
COMMITTABLE = ("on_demand", "unknown")


@record
class ReservedUse:
    """Instances of a type in use that no commitment covers yet, their price on demand, and commitments on offer."""

    instance_type: str
    gpus: float
    on_demand: Price
    curve: Curve
    offers: Offers = field(default_factory=dict)
    covered_hours: float = 0.0

    @property
    def cost(self) -> Decimal:
        """On demand."""
        return kept(to_decimal(self.curve.node_hours) * self.on_demand.per_node_hour)


@record
class Family:
    """Instance types of one family in one region; or all of a provider."""

    provider: str
    region: str
    name: str
    uses: tuple[ReservedUse, ...]

    def __str__(self) -> str:
        return " ".join(word for word in (self.provider, self.region, self.name) if word)

    @property
    def terms(self) -> list[Terms]:
        """The commitments on offer."""
        offered = {terms for use in self.uses for terms in use.offers}
        return sorted(offered, key=lambda terms: (terms.years, terms.kind, terms.payment, terms.offering))


@record
class Demand:
    """What may be committed, what is committed already, how much usage was seen, and the cost of all usage today."""

    families: tuple[Family, ...]
    existing: Existing
    evidence: Evidence
    today: Position
    assumptions: tuple[Assumption, ...] = ()

    @property
    def uses(self) -> list[ReservedUse]:
        return [use for family in self.families for use in family.uses]


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
    freed: Mapping[Key, Curve] | None = None,
) -> tuple[Family, ...]:
    """On-demand usage by family, hour by hour, without hours that the bill or the price book shows as committed.

    `is_narrowed`: nodes are counted by the share of them that the fleet's pods hold, otherwise whole. `offers_of(provider,
    region, instance type)` is the list price on demand and the commitments. `freed` are nodes that findings take away. The price
    on demand is what the nodes cost; if only a bill or nothing prices them, the list price.
    """
    nodes = [
        node
        for node in fleet.nodes
        # clouds sell commitments for their own machines only
        if node.capacity_type in COMMITTABLE and (node.provider or node.instance_type)
    ]
    by_type = grouped(
        (
            (
                node.provider or "",
                node.region or "",
                node.instance_type or node.gpu_model or "unknown",
                node.gpus,
            ),
            node,
        )
        for node in nodes
    )
    families: dict[Key, list[ReservedUse]] = defaultdict(list)
    for (provider, region, instance_type, gpus), several in sorted(
        by_type.items(), key=lambda item: item[0]
    ):
        spans = list(_uncommitted(fleet, several, is_narrowed=is_narrowed))
        listed, offers = offers_of(provider, region, instance_type)
        price = _mean_price(several) or listed
        if not price or not price.per_node_hour or not spans:
            continue
        curve, key = counted(spans, period.start_ms, period.end_ms), (provider, region, instance_type.lower())
        left = curve.less(existing.covered[key]) if key in existing.covered else curve
        covered = round(curve.node_hours - left.node_hours, 6)
        if freed and key in freed:
            left = left.less(freed[key])
        use = ReservedUse(instance_type, gpus, price, left, offers, covered)
        families[provider, region, family_name(instance_type)].append(use)
    return tuple(Family(*key, tuple(uses)) for key, uses in families.items())


def _uncommitted(
    fleet: Fleet, nodes: Sequence[Node], *, is_narrowed: bool
) -> Iterator[tuple[int, int, float]]:
    """When the nodes were in use (from, to, nodes), without prices of the price book that are under a commitment."""
    pods_of = grouped((pod.place, pod) for pod in fleet.pods)
    for node in nodes:
        for price, start, end in node.steps:
            if price.is_committed and price.source == "price_book":
                continue
            if not is_narrowed:
                yield start, end, 1.0
                continue
            for pod in pods_of[node.key]:
                yield max(start, pod.from_ms), min(end, pod.to_ms), pod.gpus / node.gpus


def _mean_price(nodes: Iterable[Node]) -> Price | None:
    """The mean price per hour on demand, without a bill's prices, which may hold commitments; None without any."""
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


@record
class Pool:
    """`level` nodes of `use` paid around the clock at `committed`, or as much money of a plan; the rest is paid on demand.

    A plan or CUD covers `others`, too, each at its own price under it, the largest discount first, as clouds apply them.
    """

    use: ReservedUse
    terms: Terms
    committed: Price
    level: float = 0
    others: tuple[ReservedUse, ...] = ()

    @property
    def price(self) -> Decimal:
        return self.committed.per_node_hour

    @property
    def uses(self) -> list[ReservedUse]:
        return sorted((self.use, *self.others), key=self._ratio)

    def _price_of(self, use: ReservedUse) -> Decimal:
        return use.offers[self.terms].per_node_hour

    def _ratio(self, use: ReservedUse) -> float:
        return float(self._price_of(use) / use.on_demand.per_node_hour)

    def _curve(self, uses: Iterable[ReservedUse]) -> Curve:
        """Usage in nodes of `use`, by prices under the commitment."""
        return reduce(add, (use.curve.scaled(float(self._price_of(use) / self.price)) for use in uses))

    @property
    def curve(self) -> Curve:
        return self._curve(self.uses)

    @property
    def break_even(self) -> float:
        """Share of the hours that a node must be in use for its commitment to cost no more than on demand; above 1: never."""
        return max(self._ratio(use) for use in self.uses if use.gpus)

    @property
    def hourly_cost(self) -> Decimal:
        """The obligation per hour."""
        return kept(to_decimal(self.level) * self.price)

    def best_level(self, usage: float = 1.0, price_change: float = 1.0) -> int:
        """The whole number of nodes that costs least if usage and prices on demand are these parts of today's."""
        return self.curve.scaled(usage).best_level(self.break_even / price_change)

    def safe_level(self, evidence: Evidence, usage: float = 1.0, price_change: float = 1.0) -> float:
        """The level to advise: whole instances, cents of a savings plan.

        Other usage fills a plan, but it makes none larger than the mean use of GPUs.
        """
        step = 0.01 / float(self.price) if self.terms.kind == "savings_plan" else 1.0
        gpus, whole = (
            self._curve(uses).scaled(usage / step)
            for uses in ([use for use in self.uses if use.gpus], self.uses)
        )
        own, filled = (
            evidence.safe_level(curve, self.break_even / price_change) for curve in (gpus, whole)
        )
        return max(own, min(filled, int(gpus.mean))) * step

    def avoided(self, usage: float = 1.0, *, is_of_gpus: bool = False) -> Decimal:
        """On-demand cost of the usage that the commitment covers, if usage is `usage` of today's."""
        amount, used = Decimal(0), 0.0
        for number, use in enumerate(self.uses, 1):
            now = self._curve(self.uses[:number]).scaled(usage).used(self.level)
            if use.gpus or not is_of_gpus:
                hours = to_decimal(round(now - used, 9))
                amount += hours * self.price * use.on_demand.per_node_hour / self._price_of(use)
            used = now
        return kept(amount)

    def gain(self, usage: float = 1.0, price_change: float = 1.0) -> Decimal:
        """What the commitment saves over on demand."""
        paid = self.hourly_cost * to_decimal(self.use.curve.hours)
        return kept(self.avoided(usage) * to_decimal(price_change) - paid)


@record
class Choice:
    """A family committed on some terms; `left_out` are types that these terms are not sold for."""

    family: Family
    terms: Terms
    pools: tuple[Pool, ...]
    left_out: tuple[ReservedUse, ...]

    @classmethod
    def safe(cls, family: Family, terms: Terms, demand: Demand) -> Choice:
        """At the level to advise. The family has an offer on these terms."""
        sold, left_out = (
            [use for use in family.uses if (terms in use.offers) is is_sold] for is_sold in (True, False)
        )
        pools = [Pool(use, terms, use.offers[terms]) for use in sold]
        if terms.kind in FLEXIBLE:
            smallest = min(pools, key=lambda pool: (pool.price, pool.use.instance_type))
            others = [use for use in sold if use is not smallest.use]
            if terms.is_wide and (more := demand.existing.others.get(family.provider.lower())):
                others.append(replace(more, offers={terms: Price(Decimal(1), "bill")}))
            pools = [replace(smallest, others=tuple(others))]
        choice = cls(family, terms, tuple(pools), tuple(left_out))
        return choice.at_levels(lambda pool: pool.safe_level(demand.evidence))

    def at_levels(self, level: Callable[[Pool], float]) -> Choice:
        return replace(self, pools=tuple(replace(pool, level=level(pool)) for pool in self.pools))

    @property
    def levels(self) -> str:
        """How much of what."""
        if self.terms.kind == "savings_plan":
            return f"{self.hourly_cost:,.2f} an hour"
        return " and ".join(
            f"{pool.level:,.0f} × {pool.use.instance_type}" for pool in self.pools if pool.level
        )

    @property
    def instances(self) -> int | None:
        """None for a savings plan, which is money per hour."""
        if self.terms.kind == "savings_plan":
            return None
        return round(sum(pool.level for pool in self.pools))

    @property
    def hourly_cost(self) -> Decimal:
        return total(pool.hourly_cost for pool in self.pools)

    @property
    def obligation(self) -> Decimal:
        """What is paid over the whole term, used or not."""
        return self.hourly_cost * self.terms.years * HOURS_PER_YEAR

    @property
    def unused(self) -> list[tuple[float, float]]:
        """Node-hours that are paid and not used, by pool, and the GPUs of a node."""
        return [
            (pool.level * pool.curve.hours - pool.curve.used(pool.level), pool.use.gpus)
            for pool in self.pools
        ]

    @property
    def break_even(self) -> float:
        """The highest of the pools' break-evens, 0-1 and above."""
        return max(pool.break_even for pool in self.pools)

    def avoided(self, usage: float = 1.0, *, is_of_gpus: bool = False) -> Decimal:
        return total(pool.avoided(usage, is_of_gpus=is_of_gpus) for pool in self.pools)

    def gain(self, usage: float = 1.0, price_change: float = 1.0) -> Decimal:
        return total(pool.gain(usage, price_change) for pool in self.pools)

    def break_even_on(self, bought_on: date) -> date | None:
        """The day on which avoided on-demand cost has reached the obligation, whatever is used later; None beyond the term."""
        avoided = self.avoided()
        if not avoided or self.gain() < 0:
            return None
        return bought_on + timedelta(
            hours=self.terms.years * HOURS_PER_YEAR * float(1 - self.gain() / avoided)
        )

    def payback_months(self) -> float | None:
        """Months until avoided on-demand cost has reached what was paid upfront; None beyond the term, or without commitment."""
        upfront, hours = self.obligation * self.terms.upfront_share, to_decimal(self.pools[0].curve.hours)
        gained = self.avoided() / hours - self.hourly_cost * (1 - self.terms.upfront_share)
        if not self.hourly_cost or (gained <= 0 and upfront):
            return None
        months = float(upfront / gained) / HOURS_PER_MONTH if upfront else 0.0
        return round(months, 6) if months <= self.terms.years * 12 else None

    def lasting_share(self) -> float:
        """The share of today's usage at which the commitments cost what on demand would."""
        return bisected(0.0, 1.0, lambda usage: self.gain(usage) <= 0)

    def is_old(self, day: date, most_days: int) -> bool:
        """Whether one of its prices is more than `most_days` old."""
        return bool(old_prices((("", pool.committed) for pool in self.pools), day, most_days))


# Changes of usage and of the list price, in percent.
CHANGES = ((20, 0), (-10, 0), (-20, 0), (-25, 0), (-50, 0), (0, -10), (0, -20))
_HALF = Assumption("partial upfront", 50, "% of the term's price", "default")

# columns of the table, and the keys of a record that they show; "": the terms
_COLUMNS = {
    "family": "family", "commitment": "", "instances": "instances", "per hour": "committed_per_hour", "cost": "cost",
    "saving": "saving", "obligation": "obligation", "coverage %": "coverage_percent", "utilization %": "utilization_percent",
    "break-even utilization %": "break_even_utilization_percent",
}  # fmt: skip
_LONGER_COLUMNS = _COLUMNS | {"upfront": "upfront_payment", "payback months": "payback_months"}
_FIGURES = (
    "instances",
    "coverage_percent",
    "utilization_percent",
    "break_even_utilization_percent",
    "payback_months",
)


def answer(
    demand: Demand,
    *,
    currency: str,
    period: str,
    bought_on: date,
    considered: Considered = ANYTHING,
    stale_after_days: int = 90,
) -> Answer:
    """What commitments for one year without upfront payment would have saved over the period; other terms in a table below.

    `bought_on` is the first day of commitments. Raises GpucostError if no price of a considered commitment is available.
    """
    choices, chosen = _choices(demand, considered, bought_on, stale_after_days)
    records = {(str(choice.family), choice.terms): _record(choice, bought_on) for choice in choices}
    best = [records[str(choice.family), choice.terms] for choice in chosen]
    gain = total(choice.gain() for choice in chosen)
    unused = [part for choice in chosen for part in choice.unused]
    after = Position(
        demand.today.cost - gain,
        currency,
        round(demand.today.gpu_hours + sum(hours * gpus for hours, gpus in unused), 6),
        round(demand.today.node_hours + sum(hours for hours, _ in unused), 6),
        {
            "committed_node_hours": round(
                sum(pool.level * pool.use.curve.hours for choice in chosen for pool in choice.pools), 6
            )
        },
    )
    eligible = _eligible(demand, chosen, currency)
    regret = [_regret(choice, demand.evidence, *change) for choice in chosen for change in CHANGES]
    shown = [
        *((use.instance_type, use.on_demand) for use in demand.uses),
        *((pool.use.instance_type, pool.committed) for choice in chosen for pool in choice.pools),
    ]
    return Answer(
        kind="reserve",
        title="Committing instead of paying on demand" + old_prices(shown, bought_on, stale_after_days),
        period=period,
        today=demand.today,
        scenario=after,
        figures={
            "price_per": "node",
            "obligation": total(choice.obligation for choice in chosen),
            "data_days": round(demand.evidence.days, 3),
            "best": best,
            "options": list(records.values()),
            "regret": regret,
            **eligible,
            "existing_commitments": [asdict(one) for one in demand.existing.commitments],
            "existing_commitments_known": demand.existing.is_bill_loaded,
            **({name: best[0][name] for name in _FIGURES} if len(best) == 1 else {}),
        },
        assumptions=tuple(_assumptions(demand, choices)),
        break_even=tuple(_break_even(demand, chosen, bought_on)),
        time=(
            "No workload waits: committed and on-demand instances are the same machines. A commitment binds for its whole term.",
            "A savings plan or CUD is a price, not capacity: only a capacity reservation keeps instances free for you.",
        ),
        findings=tuple(_findings(demand, choices, chosen)),
        tables=tuple(_tables(choices, chosen, records, eligible, regret)),
    )


def _choices(
    demand: Demand, considered: Considered, day: date, most_days: int
) -> tuple[list[Choice], list[Choice]]:
    """What is on offer, the best first: recent prices, then the saving. And the advice: at most one for each family."""
    choices, chosen = [], []
    for provider, families in grouped((family.provider, family) for family in demand.families).items():
        several = len(families) > 1
        whole = Family(
            provider, "", "all families", tuple(use for family in families for use in family.uses)
        )
        offered = [
            Choice.safe(family, terms, demand)
            for family in [*families, *([whole] if several else [])]
            for terms in family.terms
            if considered.allows(terms) and (not several or terms.is_wide is (family is whole))
        ]
        offered.sort(
            key=lambda choice: (
                choice.is_old(day, most_days), -choice.gain(), choice.terms.years, choice.terms.upfront_share,
            )
        )  # fmt: skip
        choices += offered
        best: dict[str, Choice] = {}
        for choice in offered:
            if choice.terms.binds_least and choice.gain() > 0:
                best.setdefault(str(choice.family), choice)
        wide = best.pop(str(whole), None)
        apart = list(best.values())
        is_wide = wide and wide.gain() >= total(choice.gain() for choice in apart)
        chosen += [wide] if wide and is_wide else apart
    if not choices:
        names = ", ".join(sorted({use.instance_type for use in demand.uses}))
        raise GpucostError(
            f"no price of a commitment is known for {names or 'any node'}",
            "gpucost collect prices asks the clouds for them; or --commitment-price 1=PRICE, or --commitment-discount 1=PERCENT",
        )
    return choices, chosen


def _percent(part: float, whole: float) -> float | None:
    return round(part / whole * 100, 6) if whole else None


def _eligible(demand: Demand, chosen: Sequence[Choice], currency: str) -> dict[str, Any]:
    """The on-demand cost of eligible use, the share of it that commitments cover, and the effective savings rate.

    That is 1 − cost ÷ on-demand cost (FinOps Foundation, effective savings rate); None if existing commitments are not known, or
    billed in several currencies or another currency.
    """
    existing = demand.existing
    keys = [
        (family.provider, family.region, use.instance_type.lower())
        for family in demand.families
        for use in family.uses
    ]
    uncovered = total(use.cost for use in demand.uses)
    covered = total(use.on_demand.per_node_hour * to_decimal(use.covered_hours) for use in demand.uses)
    paid = total(existing.paid[key] for key in {*keys, NOTHING} & existing.paid.keys())
    eligible = uncovered + covered
    is_known = existing.is_bill_loaded and (not paid or existing.currency == currency)
    newly = total(choice.avoided(is_of_gpus=True) for choice in chosen)
    gain = total(choice.gain() for choice in chosen)
    parts = {
        "covered_percent_today": covered,
        "covered_percent": covered + newly,
        "effective_savings_rate_percent_today": covered - paid,
        "effective_savings_rate_percent": covered - paid + gain,
    }
    shares = {
        name: _percent(float(part), float(eligible)) if is_known else None for name, part in parts.items()
    }
    return {"eligible_cost": eligible} | shares


def _record(choice: Choice, bought_on: date) -> dict[str, Value]:
    pools, only = choice.pools, choice.pools[0] if len(choice.pools) == 1 else None
    used = sum(pool.curve.used(pool.level) for pool in pools)
    # in the pools' instances; those of types left out as they are
    in_use = sum(use.curve.node_hours for use in (*pools, *choice.left_out))
    cost, even = total(use.cost for use in choice.family.uses), choice.break_even_on(bought_on)
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
        "committed_per_hour": choice.hourly_cost,
        "obligation": choice.obligation,
        "committed_price_per_node_hour": only and only.price,
        "on_demand_price_per_node_hour": only and only.use.on_demand.per_node_hour,
        "cost": cost - choice.gain(),
        "saving": choice.gain(),
        "saving_percent": _percent(float(choice.gain()), float(cost)),
        "coverage_percent": _percent(used, in_use),
        "utilization_percent": _percent(used, used + sum(hours for hours, _ in choice.unused)),
        "break_even_utilization_percent": round(choice.break_even * 100, 6),
        "break_even_date": even and even.isoformat(),
        "upfront_payment": choice.obligation * choice.terms.upfront_share,
        "payback_months": choice.payback_months(),
    }


def _regret(choice: Choice, evidence: Evidence, usage_percent: int, price_percent: int) -> dict[str, Value]:
    """The cost with the commitment held after a change of usage or of the list price, with the best level then, and the advice then."""
    usage, price = 1 + usage_percent / 100, 1 + price_percent / 100
    alone = total(use.cost for use in choice.family.uses) * to_decimal(usage) * to_decimal(price)
    best = choice.at_levels(lambda pool: pool.best_level(usage, price))
    held, most = choice.gain(usage, price), max(Decimal(0), best.gain(usage, price))
    advised = choice.at_levels(lambda pool: pool.safe_level(evidence, usage, price))
    return {
        "family": str(choice.family),
        "usage_change_percent": usage_percent,
        "list_price_change_percent": price_percent,
        "cost": round(alone - held, 6),
        "on_demand_cost": round(alone, 6),
        "still_saves": round(held, 6),
        "advised_per_hour": round(advised.hourly_cost, 6),
        "best_cost": round(alone - max(held, most), 6),
        "regret": round(max(Decimal(0), most - held), 6),
    }


def _assumptions(demand: Demand, choices: Sequence[Choice]) -> Iterator[Assumption]:
    yield from demand.assumptions
    if demand.evidence.last_hour is not None:
        yield Assumption("days of data", round(demand.evidence.days, 1), "days", "the curve")
    yield Assumption("least use of a committed instance", LEAST_USE * 100, "% of the hours", "default")
    yield Assumption("least use over the price ratio", MARGIN * 100, "points", "default")
    unit = "money per node-hour"
    for use in demand.uses:
        yield priced(f"on demand, {use.instance_type}", use.on_demand, unit)
    pools = {(pool.use.instance_type, pool.terms): pool for choice in choices for pool in choice.pools}
    for (name, terms), pool in pools.items():
        yield priced(f"{name}, {terms}", pool.committed, unit)
    for provider, other in demand.existing.others.items():
        yield priced(f"other usage of {provider}", other.on_demand, "money on demand per money of a plan")
    if any(choice.terms.payment == "partial_upfront" for choice in choices):
        yield _HALF


def _break_even(demand: Demand, chosen: Sequence[Choice], bought_on: date) -> Iterator[str]:
    if demand.evidence.shortage:
        yield demand.evidence.shortage
    elif not chosen:
        yield (
            f"No commitment for one year without upfront payment is safe: each instance must be in use for"
            f" {LEAST_USE * 100:.0f} % of the hours, {MARGIN * 100:.0f} points more than its price ratio, and in the last week, too"
        )
    for choice in chosen:
        even = choice.break_even_on(bought_on)
        yield (
            f"{choice.family}: {choice.obligation:,.2f} is owed over {choice.terms.length}, used or not;"
            f" a committed instance pays for itself from {choice.break_even * 100:.1f} % of its hours in use on;"
            f" all of them together until usage falls by {(1 - choice.lasting_share()) * 100:.1f} %"
            + (f"; bought on {bought_on}, they have paid for themselves on {even}, even without any use after" if even else "")
        )  # fmt: skip


def _tables(
    choices: Sequence[Choice],
    chosen: Sequence[Choice],
    records: Mapping[tuple[str, Terms], Mapping[str, Value]],
    eligible: Mapping[str, Any],
    regret: Sequence[Mapping[str, Value]],
) -> Iterator[Rows]:
    def rows(title: str, columns: Mapping[str, str], shown: Iterable[Choice], note: str) -> tuple[Rows, ...]:
        lines = []
        for choice in shown:
            row = records[str(choice.family), choice.terms]
            lines.append(tuple(_short(row[key]) if key else str(choice.terms) for key in columns.values()))
        return Rows.of(title, tuple(columns), lines, note)

    advised = "; ".join(f"{choice.family}: {choice.terms}, {choice.levels}" for choice in chosen)
    yield from rows(
        "commitments",
        _COLUMNS,
        [choice for choice in choices if choice.terms.binds_least],
        f"The scenario takes: {advised}." if advised else "The scenario stays on demand.",
    )
    yield from rows(
        "longer terms and upfront payments",
        _LONGER_COLUMNS,
        [choice for choice in choices if not choice.terms.binds_least and choice.obligation],
        "They bind longer, and are no part of the saving above.",
    )
    if eligible["covered_percent_today"] is not None:
        lines = [("at on-demand prices", *[round(eligible["eligible_cost"], 2)] * 2)]
        for name in ("covered", "effective_savings_rate"):
            ends = (_short(eligible[f"{name}_percent{end}"]) for end in ("_today", ""))
            lines.append((f"{name.replace('_', ' ')} %", *ends))
        yield Rows(
            "eligible spend",
            ("", "today", "scenario"),
            tuple(lines),
            "Of on-demand nodes and of what commitments cover already; spot and capacity blocks are in neither.",
        )
    yield from Rows.of(
        "if usage or the list price changes",
        ("family", "usage %", "list price %", "cost", "on demand cost", "still saves", "advised per hour", "best cost", "regret"),
        [tuple(map(_short, row.values())) for row in regret],
        "Regret: the cost over the best level then. Advised per hour: the commitment that would be advised then.",
    )  # fmt: skip


def _short(value: Value) -> Value:
    if isinstance(value, Decimal):
        return round(value, 2)
    return "-" if value is None else round(value, 1) if isinstance(value, float) else value


def _findings(demand: Demand, choices: Sequence[Choice], chosen: Sequence[Choice]) -> Iterator[str]:
    existing = demand.existing
    if not existing.is_bill_loaded:
        yield "Existing commitments: unknown, since no bill of the period is loaded; they are not counted"
    elif not existing.commitments:
        yield "Existing commitments: the bill of the period has none"
    else:
        later = f" of {existing.month}, which are taken to go on as on its last day," if existing.month else ","
        yield (
            f"Existing commitments: {len(existing.commitments)} in the bill{later} counted first; they cover"
            f" {sum(use.covered_hours for use in demand.uses):,.1f} node-hours of this usage, which no commitment here counts"
        )
    for one in existing.commitments:
        if not one.covered_instance_hours and not one.unused_cost:
            yield f"{one.commitment_discount_id}: the bill does not say which instances it covers, so it is not counted"
        if one.unused_cost:
            unused = f"{one.unused_cost:,.2f} {one.currency}"
            yield f"{one.commitment_discount_id} was not used for {unused} of what it cost: use it before buying more"
    priced_types = {use.instance_type for choice in choices for pool in choice.pools for use in pool.uses}
    for family in demand.families:
        if not any(use.instance_type in priced_types for use in family.uses):
            yield f"{family}: no price of a commitment is known; it stays on demand"
    for choice in chosen:
        for use in choice.left_out:
            yield f"{use.instance_type} is not sold as {choice.terms}; it stays on demand"
        for pool in choice.pools:
            if pool.others:
                names = ", ".join(use.instance_type for use in pool.uses)
                yield f"{choice.family}: the commitment covers {names}, each at its own price under it"
