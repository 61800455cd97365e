"""Commitments: their safe level, their obligation, and the saving if usage or prices change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import accumulate, chain
from operator import add

from gpucost.errors import GpucostError
from gpucost.periods import Period
from gpucost.records import frozen_dataclass, grouped
from gpucost.whatif.answer import Answer, Assumption, Assumptions, Position, Range, Rows, Value, priced
from gpucost.whatif.avoidable import Key, is_own_machine
from gpucost.whatif.covered import Existing
from gpucost.whatif.curve import LEAST_USE, MARGIN, Curve, Evidence, counted
from gpucost.whatif.flags import HOURS_PER_YEAR, round_money, to_decimal, total
from gpucost.whatif.fleet import Fleet, Node, Price, Workload

KINDS = ("reserved", "savings_plan", "cud")
# The unit of other usage costs 1 under a plan.
PLAN_MONEY = Price(Decimal(1), "bill")
# Capacity types that are paid by the hour. Nodes of unknown capacity type count as on-demand.
COMMITTABLE = ("on_demand", "unknown")


@dataclass(frozen=True, slots=True, order=True)
class Terms:
    """The terms of a commitment. `offering` is the provider's name for a variant: standard, convertible, compute."""

    kind: str
    term_years: int
    payment_option: str = "no_upfront"
    offering: str = ""

    @property
    def binds_least(self) -> bool:
        """Whether the term is one year and nothing is paid upfront. Only such terms are advised."""
        return self.term_years == 1 and self.payment_option not in ("all_upfront", "partial_upfront")

    @property
    def is_wide(self) -> bool:
        """Whether it covers all instances of the payer, in any region and of any type."""
        return self.kind == "savings_plan" and self.offering != "ec2_instance"

    def scope(self, use: ReservedUse) -> str:
        """The instances that it covers if it is bought for this usage: one type, or all of a provider."""
        name = "all families" if self.is_wide else f"{use.region} {use.instance_type}"
        return " ".join(f"{use.provider} {name}".split())

    def __str__(self) -> str:
        length = f"{self.term_years} year{'s' if self.term_years > 1 else ''}"
        words = filter(None, (self.kind, length, self.payment_option, self.offering))
        return ", ".join(words).replace("_", " ")


# The on-demand list price, among the prices of an instance type.
ON_DEMAND = Terms("on_demand", 0, "")
# Prices per node-hour, paid in every hour of the term; upfront payments are amortized.
Offers = Mapping[Terms, Price]


@frozen_dataclass
class ReservedUse:
    """Instances of a type in use without a commitment, their on-demand price, and the commitments on offer."""

    instance_type: str
    gpus: float
    on_demand: Price
    curve: Curve = Curve()
    offers: Offers = field(default_factory=dict)
    provider: str = ""
    region: str = ""

    def price(self, terms: Terms) -> Decimal:
        """The price per node-hour under a commitment."""
        return self.offers[terms].per_node_hour

    def ratio(self, terms: Terms) -> Decimal:
        """The price under a commitment ÷ the on-demand price."""
        return self.price(terms) / self.on_demand.per_node_hour


@frozen_dataclass
class Demand:
    """Usage that may be committed, existing commitments, the days of data, and the cost of all usage today."""

    uses: tuple[ReservedUse, ...]
    existing: Existing
    evidence: Evidence
    today: Position
    assumptions: Assumptions = ()


def uses_of(
    fleet: Fleet,
    period: Period,
    existing: Existing,
    offers: Mapping[Key, Offers],
    *,
    is_narrowed: bool,
    freed: Collection[Workload] = (),
) -> tuple[ReservedUse, ...]:
    """On-demand usage by type and region and hour, without hours under a commitment of the bill or the price book.

    `is_narrowed`: count the part of each node that the fleet's pods hold, otherwise whole nodes. The part of `freed` workloads
    is left out. The on-demand price is the mean price of the nodes. If only a bill prices them, it is the list price, which is
    one of the offers.
    """
    # clouds sell commitments for their own machines only
    by_type = grouped(
        ((node.provider or "", node.region or "", node.instance_type or node.gpu_model or "unknown"), node)
        for node in fleet.nodes
        if node.capacity_type in COMMITTABLE and not is_own_machine(node)
    )
    uses = []
    for (provider, region, name), nodes in sorted(by_type.items()):
        key = provider, region, name.lower()
        spans = list(_uncommitted(fleet, nodes, freed, is_narrowed=is_narrowed))
        offered = dict(offers.get(key, {}))
        list_price = offered.pop(ON_DEMAND, None)
        price = _mean_price(nodes) or list_price
        if price and price.per_node_hour and spans:
            curve = counted(spans, *period.span)
            if key in existing.covered:
                curve = curve.less(existing.covered[key].curve)
            uses.append(ReservedUse(name, nodes[0].gpus, price, curve, offered, provider, region))
    return tuple(uses)


def _uncommitted(
    fleet: Fleet, nodes: Sequence[Node], freed: Collection[Workload], *, is_narrowed: bool
) -> Iterator[tuple[int, int, float]]:
    """The spans (from, to, nodes) in which nodes are in use, except at committed prices of the price book."""
    pods_of = grouped((pod.place, pod) for pod in fleet.pods)
    for node in nodes:
        for price, start, end in node.steps:
            if price.is_committed and price.source in ("price_book", "final_price_book"):
                continue
            if not is_narrowed:
                yield start, end, 1.0
            for pod in pods_of[node.key]:
                times = is_narrowed - (pod.owner in freed)
                yield max(start, pod.from_ms), min(end, pod.to_ms), times * pod.gpus / node.gpus


def _mean_price(nodes: Iterable[Node]) -> Price | None:
    """The mean on-demand price per hour, without prices of a bill, which may contain commitments; None without prices."""
    steps = [
        (price, end - start)
        for price, start, end in chain.from_iterable(node.steps for node in nodes)
        if price.source not in ("bill", "none") and not price.is_committed
    ]
    amount = total(time * price.per_node_hour for price, time in steps)
    if not amount:
        return None
    sources = sorted({price.source.replace("_", " ") for price, _ in steps})
    as_of = max((price.as_of for price, _ in steps if price.as_of), default=None)
    return Price(round_money(amount / sum(time for _, time in steps)), ", ".join(sources), as_of)


@frozen_dataclass
class Pool:
    """`level` nodes of `use` paid around the clock under `terms`, or the same money of a plan; the rest is paid on demand.

    A plan covers all `uses`, each at its own price under the plan, the largest discount first, as clouds apply them. `curves`
    are the running sums of these uses, in nodes of `use`. A node must be in use for the share `break_even` of the hours.
    """

    terms: Terms
    scope: str
    use: ReservedUse
    uses: Sequence[ReservedUse]
    curves: Sequence[Curve]
    break_even: float
    level: float
    hourly_cost: Decimal

    @property
    def obligation(self) -> Decimal:
        """The money owed over the whole term, used or not."""
        return self.hourly_cost * self.terms.term_years * HOURS_PER_YEAR

    @property
    def used(self) -> float:
        """Committed node-hours that are in use."""
        return self.curves[-1].used(self.level)

    @property
    def hours(self) -> float:
        """Committed node-hours."""
        return self.level * self.use.curve.hours

    def gain(self, usage: float = 1.0, price: float = 1.0) -> Decimal:
        """The saving if usage and on-demand prices are these parts of today's."""
        avoided, before, mine = Decimal(0), 0.0, self.use.price(self.terms)
        for use, curve in zip(self.uses, self.curves, strict=True):
            now = curve.used(self.level / usage) * usage
            hours = to_decimal(round(now - before, 9))
            avoided += hours * mine * use.on_demand.per_node_hour / use.price(self.terms)
            before = now
        return round_money(avoided * to_decimal(price) - self.hourly_cost * to_decimal(self.use.curve.hours))


def _pool(terms: Terms, uses: Sequence[ReservedUse], evidence: Evidence) -> Pool:
    """The commitment at its safe level: whole instances, or whole cents of a savings plan.

    Other usage fills a plan, but never makes it larger than the mean use of GPUs.
    """
    uses = sorted(uses, key=lambda use: use.ratio(terms))
    with_gpus = [use for use in uses if use.gpus]
    cheapest = min(with_gpus, key=lambda use: use.price(terms))
    price = cheapest.price(terms)

    def summed(several: Iterable[ReservedUse]) -> list[Curve]:
        return list(accumulate((use.curve.scaled(float(use.price(terms) / price)) for use in several), add))

    curves, break_even = summed(uses), max(float(use.ratio(terms)) for use in with_gpus)
    step = 0.01 / float(price) if terms.kind == "savings_plan" else 1.0
    gpus, filled = (curve.scaled(1 / step) for curve in (summed(with_gpus)[-1], curves[-1]))
    safe, most = (evidence.safe_level(curve, break_even) for curve in (gpus, filled))
    level = max(safe, min(most, int(gpus.mean))) * step
    hourly_cost = round_money(to_decimal(level) * price)
    return Pool(terms, terms.scope(cheapest), cheapest, uses, curves, break_even, level, hourly_cost)


def answer(demand: Demand, *, period: str) -> Answer:
    """The saving of one-year commitments without upfront payment over the period; a table lists all terms.

    Raises GpucostError if no price of a commitment is available.
    """
    pools = _pools(demand)
    advised, today = _advised(pools), demand.today
    rows = list(map(_pool_values, pools))
    scenario = today
    for pool in advised:
        unused = round(pool.hours - pool.used, 6)
        scenario += Position(-pool.gain(), today.currency, unused * pool.use.gpus, unused)
    return Answer(
        kind="reserve",
        title="Committing instead of paying on demand",
        period=period,
        today=today,
        scenario=scenario,
        figures={
            "obligation": total(pool.obligation for pool in advised),
            "best": list(map(_pool_values, advised)),
        },
        assumptions=tuple(_assumptions(demand)),
        ranges=tuple(_ranges(advised, today.currency)),
        break_even=tuple(_break_even(demand, advised)),
        time=(
            "No workload waits: committed and on-demand instances are the same machines. A commitment binds for its whole term.",
            "A savings plan or CUD is a price, not capacity: only a capacity reservation keeps instances available.",
        ),
        findings=tuple(_findings(demand)),
        tables=Rows.of(
            "commitments",
            tuple(rows[0]),
            [tuple(row.values()) for row in rows],
            "Longer terms and upfront payments are not part of the saving above.",
        ),
    )


def _pools(demand: Demand) -> list[Pool]:
    """All commitments on offer: those that bind least first, then recent prices, then the largest saving."""
    offered = defaultdict(list)
    for use in demand.uses:
        for terms in use.offers:
            offered[terms.scope(use), terms].append(use)
    if not offered:
        names = ", ".join(sorted({use.instance_type for use in demand.uses}))
        raise GpucostError(
            f"prices of commitments are missing for {names}",
            "gpucost collect prices loads them from the clouds; or give --commitment-discount 1=PERCENT",
        )
    ranked = []
    for (_, terms), uses in offered.items():
        provider = uses[0].provider
        if terms.is_wide and (other := demand.existing.others.get(provider)):
            money = {terms: PLAN_MONEY}
            uses.append(ReservedUse("other usage", 0, other.on_demand, other.curve, money, provider))
        pool = _pool(terms, uses, demand.evidence)
        is_stale = pool.use.offers[terms].is_stale
        ranked.append((not terms.binds_least, is_stale, -pool.gain(), terms, pool.scope, pool))
    return [pool for *_, pool in sorted(ranked)]


def _advised(pools: Sequence[Pool]) -> list[Pool]:
    """The commitments of the headline: the best of each scope, or a wider one that saves more than all that it replaces."""
    best: dict[str, Pool] = {}
    for pool in pools:
        if pool.terms.binds_least and pool.gain() > 0:
            best.setdefault(pool.scope, pool)
    advised: list[Pool] = []
    for pool in sorted(best.values(), key=lambda pool: len(pool.uses)):
        inside = [other for other in advised if any(use in pool.uses for use in other.uses)]
        if pool.gain() > total(other.gain() for other in inside):
            advised = [other for other in advised if other not in inside] + [pool]
    return advised


def _pool_values(pool: Pool) -> dict[str, Value]:
    gain, terms = pool.gain(), pool.terms
    return {
        "family": pool.scope,
        "commitment": str(terms),
        "instances": None if terms.kind == "savings_plan" else round(pool.level),
        "committed_per_hour": pool.hourly_cost,
        "saving": gain,
        "obligation": pool.obligation,
        "utilization_percent": round(pool.used / pool.hours * 100, 6) if pool.level else None,
        "break_even_utilization_percent": round(pool.break_even * 100, 6),
    }


def _ranges(advised: Sequence[Pool], currency: str) -> Iterator[Range]:
    """The saving if usage or prices change."""

    def saving(usage: float, price: float) -> Decimal:
        return total(pool.gain(usage, price) for pool in advised)

    if advised:
        meaning = "usage is 20 % lower to 20 % higher"
        yield Range("saving", saving(0.8, 1), saving(1.2, 1), currency, meaning)
        meaning = "on-demand prices fall by 20 % to 10 %"
        yield Range("saving", saving(1, 0.8), saving(1, 0.9), currency, meaning)


def _assumptions(demand: Demand) -> Iterator[Assumption]:
    yield from demand.assumptions
    yield Assumption("minimum use of a committed instance", LEAST_USE * 100, "% of the hours", "default")
    yield Assumption("minimum use above the price ratio", MARGIN * 100, "points", "default")
    unit = "money per node-hour"
    for use in (use for use in demand.uses if use.offers):
        yield priced(f"{use.instance_type}: on demand", use.on_demand, unit)
        for terms, price in use.offers.items():
            yield priced(f"{use.instance_type}: {terms}", price, unit)
    for provider, other in demand.existing.others.items():
        yield priced(f"other usage of {provider}", other.on_demand, "on-demand money per money of a plan")


def _break_even(demand: Demand, advised: Sequence[Pool]) -> Iterator[str]:
    if demand.evidence.shortage:
        yield demand.evidence.shortage
    elif not advised:
        yield (
            "No one-year commitment without upfront payment has a price and is safe: an instance must be in use for 80 % of"
            " the hours, for 5 points more than its price ratio, and as much in the last week"
        )
    for pool in advised:
        yield (
            f"{pool.scope}: {pool.level:,.6g} × {pool.use.instance_type}, {pool.terms}: {pool.obligation:,.2f} is owed, used or"
            f" not; a committed instance pays for itself if it is in use for {pool.break_even * 100:.1f} % of the hours"
        )


def _findings(demand: Demand) -> Iterator[str]:
    existing = demand.existing
    if existing.is_bill_loaded:
        month = f" of {existing.month}, assumed to continue as on its last day" if existing.month else ""
        yield f"Existing commitments: {len(existing.commitments)} in the bill{month}; the hours that they cover are left out"
    else:
        yield "Existing commitments: unknown and not counted, because no bill of the period is loaded"
    for commitment in existing.commitments:
        if unused := commitment.unused_cost:
            cost = f"{unused:,.2f} {commitment.currency} of its cost was unused"
            yield f"{commitment.commitment_discount_id}: {cost}; use it before you buy more"
    for use in demand.uses:
        if not use.offers:
            yield f"{use.instance_type}: stays on demand, because prices of commitments are missing"
