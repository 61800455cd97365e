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
from gpucost.store.sqlfiles import column
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value, old_prices, priced, total
from gpucost.whatif.avoidable import Commitments, Cover, Key
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
    """Commitments of the bill, and the payer's other usage. `covered` and `uncovered` hold instances, hour by hour.

    `month` is that of the bill whose last day stands for later time without a bill. `paid` is the cost by what is covered, used
    or not, after discounts; commitments that covered nothing are under NOTHING. `used` is the used part of it; `on_demand` is the
    cost of instances that nothing covers, before discounts that are rows of their own; `plan_hours` are covered by savings plans.
    """

    is_bill_loaded: bool
    commitments: tuple[Commitment, ...] = ()
    covered: dict[Key, Curve] = field(default_factory=dict)
    month: str | None = None
    paid: dict[Key, Decimal] = field(default_factory=dict)
    currency: str | None = None
    others: tuple[ReservedUse, ...] = ()
    uncovered: dict[Key, Curve] = field(default_factory=dict)
    on_demand: dict[Key, Decimal] = field(default_factory=dict)
    used: dict[Key, Decimal] = field(default_factory=dict)
    plan_hours: dict[Key, float] = field(default_factory=dict)


# By provider: when the last instance was billed, and until when the bill is complete.
_BILLED = """
CREATE OR REPLACE TEMP TABLE billed AS
SELECT b.provider, max(epoch_ms(charge_period_end)) AS last_ms, max(greatest(epoch_ms(charge_period_end), least(
    epoch_ms(strptime(b.billing_period, '%Y-%m') + INTERVAL 1 MONTH), epoch_ms(b.loaded_at)))) AS until_ms
FROM bill_rows JOIN bills AS b USING (bill_id)
WHERE kind = 'instance' AND epoch_ms(charge_period_start) < $to_ms
GROUP BY ALL HAVING max(epoch_ms(charge_period_end)) >= $from_ms - $lasts
"""
# Hours that commitments cover, their unused part and discounts; and without an id hours of $types on demand. After the bill its
# last day goes on, until the end of the commitment if a fee of the whole term shows it.
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
        OR commitment_discount_id IS NULL AND kind = 'instance' AND pricing_category = 'Standard'
            AND list_contains($types::VARCHAR[], lower(instance_type))
), spans AS (
    SELECT *, greatest(start_ms, $from_ms) AS from_ms, least(end_ms, $to_ms) AS to_ms, 1 / (end_ms - start_ms) AS share_per_ms
    FROM rows
    UNION ALL
    SELECT *, greatest(until_ms, $from_ms), expires_ms,
        (least(end_ms, last_ms) - greatest(start_ms, last_ms - $day)) / (end_ms - start_ms) / $day
    FROM rows WHERE last_ms - $day < end_ms AND start_ms < last_ms
), sums AS (
    SELECT provider, region, instance_type, commitment_discount_id AS id, any_value(commitment_discount_type) AS type,
        from_ms, to_ms, sum(CASE WHEN NOT is_unused THEN instance_hours * share_per_ms * (to_ms - from_ms) END) AS hours,
        sum(effective_cost * share_per_ms * (to_ms - from_ms)) AS cost, is_unused, any_value(billing_currency) AS currency
    FROM spans WHERE from_ms < to_ms GROUP BY ALL
)
SELECT id, type, CASE WHEN hours > 0 AND instance_type IS NOT NULL
        THEN [lower(provider), coalesce(lower(region), ''), lower(instance_type)] END AS key,
    from_ms, to_ms, coalesce(hours, 0), CASE WHEN is_unused THEN cost ELSE 0 END, currency,
    -- what covers nothing (unused parts, discounts) is shared by what the covered hours cost
    CASE WHEN sum(cost) FILTER (key IS NOT NULL) OVER same > 0
        THEN sum(cost) OVER same * if(key IS NULL, 0, cost) / sum(cost) FILTER (key IS NOT NULL) OVER same ELSE cost END,
    CASE WHEN sum(cost) FILTER (key IS NOT NULL) OVER same > 0
        THEN sum(cost) FILTER (NOT is_unused) OVER same * if(key IS NULL, 0, cost) / sum(cost) FILTER (key IS NOT NULL) OVER same
        ELSE cost END
FROM sums WINDOW same AS (PARTITION BY id) ORDER BY ALL
"""
# Other instances on demand of the only payer of a provider: their cost, and what plans of the bill charge for such usage.
_OTHERS = """
WITH instances AS (
    FROM charges JOIN billed USING (provider) WHERE kind = 'instance'
        AND provider IN (SELECT provider FROM bills GROUP BY ALL HAVING count(DISTINCT billing_account_id) = 1)
), rates AS (
    SELECT provider, lower(instance_type) AS type, sum(effective_cost) / sum(list_cost) AS rate FROM instances
    WHERE commitment_discount_type ILIKE 'savings%plan%' AND commitment_discount_status = 'Used' AND list_cost > 0
        AND (NOT $of_same_plan OR commitment_discount_id IN (
            SELECT commitment_discount_id FROM instances WHERE list_contains($types, lower(instance_type))))
    GROUP BY ALL
)
SELECT lower(provider), epoch_ms(charge_period_start) AS from_ms, epoch_ms(charge_period_end) AS to_ms,
    sum(effective_cost), sum(effective_cost * rate)
FROM instances JOIN rates USING (provider)
WHERE lower(instance_type) = type AND NOT list_contains($types, type) AND commitment_discount_id IS NULL
    AND pricing_category = 'Standard' AND from_ms < $to_ms AND $from_ms < to_ms AND effective_cost > 0 AND rate > 0
GROUP BY ALL ORDER BY ALL
"""


def read_commitments(
    con: DuckDBPyConnection,
    from_ms: int,
    to_ms: int,
    gpu_types: Iterable[str] = (),
    *,
    of_same_plan: bool = False,
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
    used: dict[Key, Decimal] = defaultdict(Decimal)
    plan_hours: dict[Key, float] = defaultdict(float)
    uncovered: dict[Key, list[tuple[int, int, float]]] = defaultdict(list)
    on_demand: dict[Key, Decimal] = defaultdict(Decimal)
    types = [name.lower() for name in gpu_types]
    rows = con.execute(_COVERED, span | {"day": _DAY, "types": types}).fetchall()
    for name, kind, key, start, end, hours, unused, currency, cost, used_cost in rows:
        if name is None:
            if key:
                uncovered[tuple(key)].append((start, end, hours / (end - start) * MS_PER_HOUR))
                on_demand[tuple(key)] += kept(cost)
            continue
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
            used[tuple(key)] += kept(used_cost)
            plan_hours[tuple(key)] += hours if (kind or "").lower().startswith("savings") else 0.0
    currencies = {commitment.currency for commitment in found.values()}
    covered, left = (_curves(by_key, from_ms, to_ms) for by_key in (spans, uncovered))
    return Existing(
        True,
        tuple(found.values()),
        covered,
        f"{at(last - 1):%Y-%m}" if until < to_ms else None,
        dict(paid),
        currencies.pop() if len(currencies) == 1 else None,
        tuple(_others(con, from_ms, to_ms, types, of_same_plan=of_same_plan)),
        left,
        dict(on_demand),
        dict(used),
        dict(plan_hours),
    )


def _curves(by_key: Mapping[Key, list[tuple[int, int, float]]], from_ms: int, to_ms: int) -> dict[Key, Curve]:
    """The hourly curves of spans (from, to, instances)."""
    return {key: counted(spans, from_ms, to_ms) for key, spans in by_key.items()}


def read_types(con: DuckDBPyConnection) -> list[str]:
    """The instance types of the store's nodes, lower-cased."""
    return column(con, "SELECT DISTINCT lower(instance_type) FROM nodes WHERE instance_type IS NOT NULL")


# The mean price of nodes by a bill, without spot: of the period, otherwise of the last months before it.
_BILLED_NODES = """
WITH spans AS (
    SELECT *, p.to_ms > $from_ms AS is_inside, greatest(p.from_ms, if(is_inside, $from_ms, $from_ms - $lasts)) AS since_ms,
        least(p.to_ms, $to_ms) - since_ms AS span_ms
    FROM node_prices AS p JOIN nodes AS n USING (node_id)
    WHERE price_source = 'bill' AND capacity_type IN ('on_demand', 'unknown', 'reserved') AND instance_type IS NOT NULL
        AND p.from_ms < $to_ms AND $from_ms - $lasts < p.to_ms
)
SELECT lower(provider), lower(coalesce(region, '')), lower(instance_type), is_inside,
    sum(price_per_hour * span_ms::DECIMAL(14, 0)) / sum(span_ms)
FROM spans GROUP BY ALL ORDER BY is_inside
"""


# Without one a large bill need not be read.
_ANY_COMMITMENT = "SELECT 1 FROM bill_details WHERE commitment_discount_id IS NOT NULL LIMIT 1"


def read_covers(con: DuckDBPyConnection, period: Period, currency: str) -> Commitments:
    """What commitments of the bill cover of the store's instance types, and what leaves the bill if instances go.

    Nodes share the cost of on-demand and committed hours: what the commitments leave of it is on demand, at most what the bill
    charges for such instances. In another currency than `currency` only the nodes' price is known.
    """
    if not con.execute(_ANY_COMMITMENT).fetchall():
        return Commitments()
    start, end = period.start_ms, period.end_ms
    existing = read_commitments(con, start, end, read_types(con), of_same_plan=True)
    if not existing.covered:
        return Commitments()
    span = {"from_ms": start, "to_ms": end, "lasts": _LASTS}
    means = {tuple(key): to_decimal(price) for *key, _, price in con.execute(_BILLED_NODES, span).fetchall()}
    covers = {}
    for key, curve in existing.covered.items():
        left = existing.uncovered.get(key, curve.scaled(0))
        price, returned = means.get(key), Decimal(0)
        if existing.currency == currency:
            returned = _returned(existing, key)
            if left.node_hours:
                hours = to_decimal(left.node_hours)
                billed = existing.on_demand[key] / hours
                whole = price and price * (hours + to_decimal(curve.node_hours))
                price = billed if whole is None else min(billed, (whole - existing.used[key]) / hours)
        covers[key] = Cover(curve, left, kept(max(price or Decimal(0), Decimal(0))), kept(returned))
    return Commitments(start, end, covers)


def _returned(existing: Existing, key: Key) -> Decimal:
    """What other usage costs less if a savings plan gives up an instance-hour: on average over the hours, as far as it goes."""
    other = next((use for use in existing.others if use.provider == key[0]), None)
    if other is None or not existing.plan_hours[key]:
        return Decimal(0)
    spent = reduce(
        add,
        (
            curve.scaled(float(existing.used[one]) / curve.node_hours)
            for one, curve in existing.covered.items()
            if one[0] == key[0] and existing.plan_hours[one]
        ),
    )
    taken = sum(
        min(plans, usage) * hours
        for plans, usage, hours in zip(spent.levels, other.curve.levels, spent.lengths, strict=True)
    )
    hours = existing.covered[key].node_hours
    share = to_decimal(taken / spent.node_hours * existing.plan_hours[key] / hours)
    return existing.used[key] / to_decimal(hours) * share * other.on_demand.per_node_hour


# Time that was collected from any cluster.
_COLLECTED = """
SELECT coalesce(sum(greatest(0, until_ms - greatest(since_ms, before_ms))), 0)::BIGINT, coalesce(max(until_ms), $from_ms)
FROM (
    SELECT greatest(from_ms, $from_ms) AS since_ms, least(to_ms, $to_ms) AS until_ms,
        coalesce(max(until_ms) OVER (ORDER BY from_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before_ms
    FROM collected WHERE from_ms < $to_ms AND $from_ms < to_ms
)
"""


def read_collected(con: DuckDBPyConnection, from_ms: int, to_ms: int) -> tuple[int, int]:
    """How much of a span was collected from any cluster, and until when, ms; of an attributed store."""
    [row] = con.execute(_COLLECTED, {"from_ms": from_ms, "to_ms": to_ms}).fetchall()
    return row


def read_evidence(con: DuckDBPyConnection, period: Period) -> Evidence:
    """How much of the period was collected."""
    time, until = read_collected(con, period.start_ms, period.end_ms)
    return Evidence(time / _DAY, (until - period.start_ms) // MS_PER_HOUR)


def _others(
    con: DuckDBPyConnection, from_ms: int, to_ms: int, gpu_types: Sequence[str], *, of_same_plan: bool
) -> Iterator[ReservedUse]:
    """Other usage on demand by provider. A node of it is as much as costs one an hour under a savings plan."""
    span = {"from_ms": from_ms, "to_ms": to_ms, "types": gpu_types, "of_same_plan": of_same_plan}
    rows = con.execute(_OTHERS, span).fetchall()
    for provider, several in grouped((row[0], row[1:]) for row in rows).items():
        spans = [(start, end, float(plan) * MS_PER_HOUR / (end - start)) for start, end, _, plan in several]
        on_demand, plan = (total(kept(row[column]) for row in several) for column in (2, 3))
        price = Price(kept(on_demand / plan), "bill: other instances on demand, per money of plans")
        yield ReservedUse("other usage", 0, price, counted(spans, from_ms, to_ms), provider=provider)


KINDS = ("reserved", "savings_plan", "cud")
PAYMENTS = ("no_upfront", "partial_upfront", "all_upfront", "monthly")
# Savings plans and CUDs cover several instance types; GPU instances' reservations cover their own type.
FLEXIBLE = ("savings_plan", "cud")

# A unit of other usage costs one under a plan.
PLAN_MONEY = Price(Decimal(1), "bill")
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

    def scope(self, use: ReservedUse) -> str:
        """What it covers if it is bought for this usage: an instance type, its family, or all of a provider."""
        name = "all families" if self.is_wide else use.instance_type
        if self.kind in FLEXIBLE and not self.is_wide:
            name = family_name(name)
        words = (use.provider, "" if self.is_wide else use.region, name)
        return " ".join(word for word in words if word)

    @property
    def length(self) -> str:
        return f"{self.years} year{'s' if self.years > 1 else ''}"

    def __str__(self) -> str:
        words = (self.kind, self.length, self.payment, self.offering)
        return ", ".join(word.replace("_", " ") for word in words if word)


# The list price on demand, among the prices of an instance type.
ON_DEMAND = Terms("on_demand", 0, "")
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
    provider: str = ""
    region: str = ""

    @property
    def key(self) -> Key:
        return self.provider, self.region, self.instance_type.lower()

    @property
    def cost(self) -> Decimal:
        """On demand."""
        return kept(to_decimal(self.curve.node_hours) * self.on_demand.per_node_hour)


@record
class Demand:
    """What may be committed, what is committed already, how much usage was seen, and the cost of all usage today."""

    uses: tuple[ReservedUse, ...]
    existing: Existing
    evidence: Evidence
    today: Position
    assumptions: tuple[Assumption, ...] = ()


def family_name(instance_type: str) -> str:
    """p4d of p4d.24xlarge, a2-highgpu of a2-highgpu-8g, Standard_NDisr_H100_v5 of Standard_ND96isr_H100_v5."""
    if _AZURE.match(instance_type):
        return _AZURE.sub(r"\1", instance_type)
    return instance_type.split(".")[0] if "." in instance_type else instance_type.rsplit("-", 1)[0]


def uses_of(
    fleet: Fleet,
    period: Period,
    existing: Existing,
    offers_of: Callable[[Key], Mapping[Terms, Price]],
    *,
    is_narrowed: bool,
    freed: Mapping[Key, Curve] | None = None,
) -> tuple[ReservedUse, ...]:
    """On-demand usage by type and region, hour by hour, without hours that the bill or the price book shows as committed.

    `is_narrowed`: nodes are counted by the share of them that the fleet's pods hold, otherwise whole. `freed` are nodes that
    findings take away. The price on demand is what the nodes cost; if only a bill or nothing prices them, the list price, which
    is among the offers.
    """
    by_type: dict[Key, list[Node]] = defaultdict(list)
    for node in fleet.nodes:
        # clouds sell commitments for their own machines only
        if node.capacity_type in COMMITTABLE and (node.provider or node.instance_type):
            name = node.instance_type or node.gpu_model or "unknown"
            by_type[node.provider or "", node.region or "", name].append(node)
    uses = []
    for (provider, region, name), nodes in sorted(by_type.items()):
        key = provider, region, name.lower()
        spans = list(_uncommitted(fleet, nodes, is_narrowed=is_narrowed))
        offers = dict(offers_of(key))
        listed = offers.pop(ON_DEMAND, None)
        price = _mean_price(nodes) or listed
        if not price or not price.per_node_hour or not spans:
            continue
        curve = counted(spans, period.start_ms, period.end_ms)
        left = curve.less(existing.covered.get(key))
        covered = round(curve.node_hours - left.node_hours, 6)
        left = left.less((freed or {}).get(key))
        uses.append(ReservedUse(name, nodes[0].gpus, price, left, offers, covered, provider, region))
    return tuple(uses)


def _uncommitted(
    fleet: Fleet, nodes: Sequence[Node], *, is_narrowed: bool
) -> Iterator[tuple[int, int, float]]:
    """When the nodes were in use (from, to, nodes), except at prices of the price book that are under a commitment."""
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
    def scope(self) -> str:
        """What it covers."""
        return self.terms.scope(self.use)

    @property
    def uses(self) -> list[ReservedUse]:
        return sorted((self.use, *self.others), key=self._ratio)

    def _price_of(self, use: ReservedUse) -> Decimal:
        return use.offers.get(self.terms, PLAN_MONEY).per_node_hour

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
        return kept(to_decimal(self.level) * self.price)

    @property
    def obligation(self) -> Decimal:
        """What is paid over the whole term, used or not."""
        return self.hourly_cost * self.terms.years * HOURS_PER_YEAR

    @property
    def used(self) -> float:
        """Node-hours of it that are in use."""
        return self.curve.used(self.level)

    @property
    def unused(self) -> float:
        return self.level * self.use.curve.hours - self.used

    @property
    def on_demand_cost(self) -> Decimal:
        """Of its GPU nodes."""
        return total(use.cost for use in self.uses if use.gpus)

    def best_level(self, usage: float = 1.0, price_change: float = 1.0) -> int:
        """The whole number of nodes that costs least if usage and prices on demand are these parts of today's."""
        return self.curve.scaled(usage).best_level(self.break_even / price_change)

    def safe_level(self, evidence: Evidence, usage: float = 1.0, price_change: float = 1.0) -> float:
        """The level to advise: whole instances, cents of a savings plan.

        Other usage fills a plan, but it makes none larger than the mean use of GPUs.
        """
        step = 0.01 / float(self.price) if self.terms.kind == "savings_plan" else 1.0
        gpus = self._curve(use for use in self.uses if use.gpus).scaled(usage / step)
        own, filled = (
            evidence.safe_level(curve, self.break_even / price_change)
            for curve in (gpus, self.curve.scaled(usage / step))
        )
        return max(own, min(filled, int(gpus.mean))) * step

    def avoided(self, usage: float = 1.0, *, is_of_gpus: bool = False) -> Decimal:
        """On-demand cost of the usage that the commitment covers, if usage is `usage` of today's."""
        amount, before = Decimal(0), 0.0
        for number, use in enumerate(self.uses, 1):
            now = self._curve(self.uses[:number]).scaled(usage).used(self.level)
            if use.gpus or not is_of_gpus:
                hours = to_decimal(round(now - before, 9))
                amount += hours * self.price * use.on_demand.per_node_hour / self._price_of(use)
            before = now
        return kept(amount)

    def gain(self, usage: float = 1.0, price_change: float = 1.0) -> Decimal:
        """What the commitment saves over on demand."""
        paid = self.hourly_cost * to_decimal(self.use.curve.hours)
        return kept(self.avoided(usage) * to_decimal(price_change) - paid)

    def break_even_on(self, bought_on: date) -> date | None:
        """The day on which avoided on-demand cost has reached the obligation, whatever is used later; None beyond the term."""
        if not self.level or self.gain() < 0:
            return None
        return bought_on + timedelta(
            hours=float(self.obligation * (1 - self.gain() / self.avoided()) / self.hourly_cost)
        )

    def lasting_share(self) -> float:
        """The share of today's usage at which the commitment costs what on demand would."""
        return bisected(0.0, 1.0, lambda usage: self.gain(usage) <= 0)

    def payback_months(self) -> float | None:
        """Months until avoided on-demand cost has reached what was paid upfront; None beyond the term."""
        share = self.terms.upfront_share
        hourly = self.avoided() / to_decimal(self.use.curve.hours) - self.hourly_cost * (1 - share)
        hours = self.obligation * share / hourly if hourly > 0 else Decimal("Infinity")
        return float(hours) / HOURS_PER_MONTH if hours <= self.terms.years * HOURS_PER_YEAR else None


# Changes of usage and of the list price, in percent.
CHANGES = ((20, 0), (-10, 0), (-20, 0), (-25, 0), (-50, 0), (0, -10), (0, -20))
_HALF = Assumption("partial upfront", 50, "% of the term's price", "default")

# columns of the tables, and the keys of the records that they show
_COLUMNS = {
    "family": "family",
    "commitment": "commitment",
    "instances": "instances",
    "hourly": "committed_per_hour",
    "cost": "cost",
    "saving": "saving",
    "obligation": "obligation",
    "coverage %": "coverage_percent",
    "utilization %": "utilization_percent",
    "break-even utilization %": "break_even_utilization_percent",
}
_LONGER_COLUMNS = _COLUMNS | {"upfront": "upfront_payment", "payback months": "payback_months"}
_REGRET_COLUMNS = {
    "family": "family",
    "usage changes %": "usage_change_percent",
    "list price changes %": "list_price_change_percent",
    "cost": "cost",
    "on demand cost": "on_demand_cost",
    "still saves": "still_saves",
    "best cost": "best_cost",
    "regret": "regret",
    "advised hourly": "advised_per_hour",
}
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
    period: str,
    bought_on: date,
    considered: Considered = ANYTHING,
    stale_after_days: int = 90,
) -> Answer:
    """What commitments for one year without upfront payment would have saved over the period; other terms in a table below.

    `bought_on` is the first day of commitments. Raises GpucostError if no price of a considered commitment is available.
    """
    pools = _pools(demand, considered, bought_on, stale_after_days)
    advised = _advised(pools)
    today, best = demand.today, [_record(pool, bought_on) for pool in advised]
    regret = [_regret(pool, demand.evidence, *change) for pool in advised for change in CHANGES]
    longer = [pool for pool in pools if not pool.terms.binds_least and pool.level]
    shortest = [pool for pool in pools if pool.terms.binds_least]
    scenario = Position(
        today.cost - total(pool.gain() for pool in advised),
        today.currency,
        round(today.gpu_hours + sum(pool.unused * pool.use.gpus for pool in advised), 6),
        round(today.node_hours + sum(pool.unused for pool in advised), 6),
        {"committed_node_hours": round(sum(pool.used + pool.unused for pool in advised), 6)},
    )
    eligible = _eligible(demand, advised)
    shown = [(use.instance_type, use.on_demand) for use in demand.uses]
    shown += [(pool.use.instance_type, pool.committed) for pool in advised]
    levels = "; ".join(f"{pool.scope}: {pool.terms}, {_level(pool)}" for pool in advised)
    return Answer(
        kind="reserve",
        title="Committing instead of paying on demand" + old_prices(shown, bought_on, stale_after_days),
        period=period,
        today=today,
        scenario=scenario,
        figures={
            "price_per": "node",
            "obligation": total(pool.obligation for pool in advised),
            "data_days": round(demand.evidence.days, 3),
            "best": best,
            "options": [_record(pool, bought_on) for pool in pools],
            "regret": regret,
            **eligible,
            "existing_commitments": [asdict(commitment) for commitment in demand.existing.commitments],
            "existing_commitments_known": demand.existing.is_bill_loaded,
            **({name: best[0][name] for name in _FIGURES} if len(best) == 1 else {}),
        },
        assumptions=tuple(_assumptions(demand, pools)),
        break_even=tuple(_break_even(demand, pools, advised, bought_on)),
        time=(
            "No workload waits: committed and on-demand instances are the same machines. A commitment binds for its whole term.",
            "A savings plan or CUD is a price, not capacity: only a capacity reservation keeps instances free for you.",
        ),
        findings=tuple(_findings(demand, pools, advised)),
        tables=(
            *_rows(
                "commitments",
                _COLUMNS,
                [_record(pool, bought_on) for pool in shortest],
                f"The scenario takes: {levels}." if levels else "The scenario stays on demand.",
            ),
            *_rows(
                "longer terms and upfront payments",
                _LONGER_COLUMNS,
                [_record(pool, bought_on) for pool in longer],
                "They bind longer, and are no part of the saving above.",
            ),
            *_spend(eligible),
            *_rows(
                "if usage or the list price changes",
                _REGRET_COLUMNS,
                regret,
                "Regret: the cost over the best level then. Advised hourly: the commitment that would be advised then.",
            ),
        ),
    )


def _pools(demand: Demand, considered: Considered, day: date, most_days: int) -> list[Pool]:
    """All commitments on offer at the level to advise; recent prices first, then the largest saving."""
    offered: dict[tuple[str, Terms], list[ReservedUse]] = defaultdict(list)
    for use in demand.uses:
        for terms in filter(considered.allows, use.offers):
            offered[terms.scope(use), terms].append(use)
    if not offered:
        names = ", ".join(sorted({use.instance_type for use in demand.uses}))
        raise GpucostError(
            f"no price of a commitment is known for {names or 'any node'}",
            "gpucost collect prices asks the clouds for them; or --commitment-price 1=PRICE, or --commitment-discount 1=PERCENT",
        )
    pools = []
    for (_, terms), uses in offered.items():
        smallest, *others = sorted(uses, key=lambda use: (use.offers[terms].per_node_hour, use.instance_type))
        if terms.is_wide:
            others += [use for use in demand.existing.others if use.provider == smallest.provider]
        pool = Pool(smallest, terms, smallest.offers[terms], 0, tuple(others))
        pools.append(replace(pool, level=pool.safe_level(demand.evidence)))

    def rank(pool: Pool) -> tuple[bool, Decimal, Terms]:
        return bool(old_prices([("", pool.committed)], day, most_days)), -pool.gain(), pool.terms

    return sorted(pools, key=rank)


def _advised(pools: Sequence[Pool]) -> list[Pool]:
    """The commitments of the headline: the best of each scope; a wider scope if it saves more than all that it replaces."""
    best: dict[str, Pool] = {}
    for pool in pools:
        if pool.terms.binds_least and pool.gain() > 0:
            best.setdefault(pool.scope, pool)
    advised: list[Pool] = []
    for pool in sorted(best.values(), key=lambda pool: len(pool.uses)):
        keys = {use.key for use in pool.uses}
        inside = [other for other in advised if any(use.key in keys for use in other.uses)]
        if pool.gain() > total(other.gain() for other in inside):
            advised = [other for other in advised if other not in inside] + [pool]
    return advised


def _percent(part: Decimal | float, whole: Decimal | float) -> float | None:
    return round(float(part) / float(whole) * 100, 6) if whole else None


def _eligible(demand: Demand, advised: Sequence[Pool]) -> dict[str, Any]:
    """The on-demand cost of eligible use, the share of it that commitments cover, and the effective savings rate.

    That is 1 − cost ÷ on-demand cost (FinOps Foundation, effective savings rate); None if existing commitments are not known, or
    billed in several currencies or another currency.
    """
    existing, keys = demand.existing, {NOTHING, *(use.key for use in demand.uses)}
    covered = total(use.on_demand.per_node_hour * to_decimal(use.covered_hours) for use in demand.uses)
    paid = total(cost for key, cost in existing.paid.items() if key in keys)
    eligible = covered + total(use.cost for use in demand.uses)
    is_known = existing.is_bill_loaded and (not paid or existing.currency == demand.today.currency)
    parts = {
        "covered_percent_today": covered,
        "covered_percent": covered + total(pool.avoided(is_of_gpus=True) for pool in advised),
        "effective_savings_rate_percent_today": covered - paid,
        "effective_savings_rate_percent": covered - paid + total(pool.gain() for pool in advised),
    }
    shares = {name: _percent(part, eligible) if is_known else None for name, part in parts.items()}
    return {"eligible_cost": eligible} | shares


def _spend(eligible: Mapping[str, Any]) -> tuple[Rows, ...]:
    """A table of `_eligible`; none if existing commitments are not known."""
    cost, *shares = map(_short, eligible.values())
    if "-" in shares:
        return ()
    lines = [
        ("at on-demand prices", cost, cost),
        ("covered %", *shares[:2]),
        ("effective savings rate %", *shares[2:]),
    ]
    note = (
        "Of on-demand nodes and of what commitments cover already; spot and capacity blocks are in neither."
    )
    return Rows.of("eligible spend", ("", "today", "scenario"), lines, note)


def _level(pool: Pool) -> str:
    if pool.terms.kind == "savings_plan":
        return f"{pool.hourly_cost:,.2f} an hour"
    return f"{pool.level:,.0f} × {pool.use.instance_type}"


def _record(pool: Pool, bought_on: date) -> dict[str, Value]:
    gain, even, months = pool.gain(), pool.break_even_on(bought_on), pool.payback_months()
    return {
        "family": pool.scope,
        "commitment": str(pool.terms),
        "provider": pool.use.provider,
        "region": pool.use.region,
        "kind": pool.terms.kind,
        "term_years": pool.terms.years,
        "payment_option": pool.terms.payment,
        "offering": pool.terms.offering or None,
        "instances": None if pool.terms.kind == "savings_plan" else round(pool.level),
        "instance_types": ", ".join(use.instance_type for use in pool.uses),
        "committed_per_hour": pool.hourly_cost,
        "obligation": pool.obligation,
        "committed_price_per_node_hour": pool.price,
        "on_demand_price_per_node_hour": pool.use.on_demand.per_node_hour,
        "cost": pool.on_demand_cost - gain,
        "saving": gain,
        "saving_percent": _percent(gain, pool.on_demand_cost),
        "coverage_percent": _percent(pool.used, pool.curve.node_hours),
        "utilization_percent": _percent(pool.used, pool.used + pool.unused),
        "break_even_utilization_percent": round(pool.break_even * 100, 6),
        "break_even_date": even.isoformat() if even else None,
        "upfront_payment": pool.obligation * pool.terms.upfront_share,
        "payback_months": months and round(months, 6),
    }


def _regret(pool: Pool, evidence: Evidence, usage_percent: int, price_percent: int) -> dict[str, Value]:
    """The cost with the commitment after usage or the list price changed, the cost of the best level then, and the advice."""
    change = 1 + usage_percent / 100, 1 + price_percent / 100
    alone = pool.on_demand_cost * to_decimal(change[0]) * to_decimal(change[1])
    held = pool.gain(*change)
    most = max(held, replace(pool, level=pool.best_level(*change)).gain(*change))
    amounts = {
        "cost": alone - held,
        "on_demand_cost": alone,
        "still_saves": held,
        "best_cost": alone - most,
        "regret": most - held,
        "advised_per_hour": replace(pool, level=pool.safe_level(evidence, *change)).hourly_cost,
    }
    return {
        "family": pool.scope,
        "usage_change_percent": usage_percent,
        "list_price_change_percent": price_percent,
        **{name: round(amount, 6) for name, amount in amounts.items()},
    }


def _assumptions(demand: Demand, pools: Sequence[Pool]) -> Iterator[Assumption]:
    yield from demand.assumptions
    yield Assumption("least use of a committed instance", LEAST_USE * 100, "% of the hours", "default")
    yield Assumption("least use over the price ratio", MARGIN * 100, "points", "default")
    unit = "money per node-hour"
    for use in demand.uses:
        yield priced(f"on demand, {use.instance_type}", use.on_demand, unit)
        for terms, price in use.offers.items():
            if any(pool.terms == terms for pool in pools):
                yield priced(f"{use.instance_type}, {terms}", price, unit)
    for use in demand.existing.others:
        yield priced(f"other usage of {use.provider}", use.on_demand, "money on demand per money of a plan")
    if any(pool.terms.payment == "partial_upfront" for pool in pools):
        yield _HALF


def _break_even(
    demand: Demand, pools: Sequence[Pool], advised: Sequence[Pool], bought_on: date
) -> Iterator[str]:
    if demand.evidence.shortage:
        yield demand.evidence.shortage
    elif not any(pool.terms.binds_least for pool in pools):
        yield "No price of a commitment for one year without upfront payment is known"
    elif not advised:
        yield (
            "No commitment for one year without upfront payment is safe: an instance must be in use for"
            f" {LEAST_USE * 100:.0f} % of the hours, for {MARGIN * 100:.0f} points more than its price ratio, and as much"
            " in the last week"
        )
    for pool in advised:
        yield (
            f"{pool.scope}: {pool.obligation:,.2f} is owed over {pool.terms.length}, used or not; a committed instance pays for"
            f" itself from {pool.break_even * 100:.1f} % of its hours in use on; all of them together until usage falls by"
            f" {(1 - pool.lasting_share()) * 100:.1f} %; bought on {bought_on}, they have paid for themselves on"
            f" {pool.break_even_on(bought_on)}, even without any later use"
        )


def _rows(
    title: str, columns: Mapping[str, str], records: Iterable[Mapping[str, Value]], note: str
) -> tuple[Rows, ...]:
    """A table of records."""
    lines = [tuple(_short(row[key]) for key in columns.values()) for row in records]
    return Rows.of(title, tuple(columns), lines, note)


def _short(value: Value) -> Value:
    if isinstance(value, Decimal):
        return round(value, 2)
    return "-" if value is None else round(value, 1) if isinstance(value, float) else value


def _findings(demand: Demand, pools: Sequence[Pool], advised: Sequence[Pool]) -> Iterator[str]:
    existing = demand.existing
    if not existing.is_bill_loaded:
        yield "Existing commitments: unknown, since no bill of the period is loaded; they are not counted"
    elif not existing.commitments:
        yield "Existing commitments: the bill of the period has none"
    else:
        later = (
            f" of {existing.month}, which are taken to go on as on its last day," if existing.month else ","
        )
        yield (
            f"Existing commitments: {len(existing.commitments)} in the bill{later} counted first; they cover"
            f" {sum(use.covered_hours for use in demand.uses):,.1f} node-hours of this usage, which no commitment here counts"
        )
    for commitment in existing.commitments:
        name, unused = commitment.commitment_discount_id, commitment.unused_cost
        if unused:
            yield f"{name} was not used for {unused:,.2f} {commitment.currency} of what it cost: use it before buying more"
        elif not commitment.covered_instance_hours:
            yield f"{name}: the bill does not say which instances it covers, so it is not counted"
    offered = {use.key for pool in pools for use in pool.uses}
    for use in demand.uses:
        if use.key not in offered:
            yield f"{use.instance_type}: no price of a commitment is known; it stays on demand"
    for pool in advised:
        if pool.others:
            names = ", ".join(use.instance_type for use in pool.uses)
            yield f"{pool.scope}: the commitment covers {names}, each at its own price under it"
