"""Commitments: what is safe to pay for around the clock, of which kind, the obligation, and what if usage or prices change."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from functools import reduce
from itertools import accumulate, chain
from operator import add
from typing import Annotated, Any

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Names, Option, OptionGroup
from gpucost.periods import Period
from gpucost.records import grouped, record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value, old_prices, priced
from gpucost.whatif.avoidable import Key, is_own_machine
from gpucost.whatif.covered import NO_KEY, Existing
from gpucost.whatif.curve import LEAST_USE, MARGIN, Curve, DescribedCurve, Evidence, counted
from gpucost.whatif.flags import HOURS_PER_MONTH, HOURS_PER_YEAR, kept, to_decimal, total
from gpucost.whatif.fleet import Fleet, Node, Price
from gpucost.whatif.spot.formulas import bisected

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
        place, name = use.region, use.instance_type
        if self.is_wide:
            place, name = "", "all families"
        elif self.kind in FLEXIBLE:
            name = family_name(name)
        return " ".join(filter(None, (use.provider, place, name)))

    @property
    def length(self) -> str:
        return f"{self.years} year{'s' if self.years > 1 else ''}"

    def __str__(self) -> str:
        words = filter(None, (self.kind, self.length, self.payment, self.offering))
        return ", ".join(words).replace("_", " ")


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
        Names,
        Option(
            "Per hour in --price-per, upfront amortized. TERMS is [KIND:]YEARS[:PAYMENT]; repeatable.",
            "TERMS=MONEY",
        ),
    ] = ()
    commitment_discount: Annotated[
        Names,
        Option(
            "The same as percent off the price on demand; for all families of the store. Repeatable.",
            "TERMS=PERCENT",
        ),
    ] = ()
    instance_type: Annotated[
        Names, Option("Only this type; of options, the one that list prices are taken of.", "TYPE")
    ] = ()
    region: Annotated[Names, Option("Only this region; of options, where prices hold.", "NAME")] = ()
    term_years: Annotated[
        tuple[int, ...], Option("Only 1 or 3 years. Default: both.", "YEARS", least=1, most=3)
    ] = ()
    payment_option: Annotated[
        Names, Option("Only no_upfront, partial_upfront, all_upfront or monthly.", "NAME")
    ] = ()

    def __post_init__(self) -> None:
        """Raises UsageError for terms that nobody sells."""
        if 2 in self.term_years:
            raise UsageError("nobody sells commitments of 2 years", "--term-years is 1 or 3")
        for word in self.payment_option:
            if word not in PAYMENTS:
                raise UsageError(f"--payment-option {word} is not known", f"there are {', '.join(PAYMENTS)}")

    def allows(self, terms: Terms) -> bool:
        return (
            terms.years > 0
            and (not self.term_years or terms.years in self.term_years)
            and (not self.payment_option or terms.payment in self.payment_option)
        )

    def includes(self, node: Node) -> bool:
        """Whether the node is of these types and regions, if some are named."""
        named = ((self.instance_type, node.instance_type), (self.region, node.region))
        return all(not names or (name or "").lower() in map(str.lower, names) for names, name in named)


ANYTHING = Considered()
_AZURE = re.compile(r"(?i)^(standard_[a-z]+)\d+")

# What is paid by the hour and may be committed. Nodes of unknown capacity type count as on demand.
COMMITTABLE = ("on_demand", "unknown")


@record
class ReservedUse:
    """Instances of a type in use that no commitment covers yet, their price on demand, and their list prices."""

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
    offers: Mapping[Key, Offers],
    *,
    is_narrowed: bool,
    freed: Mapping[Key, Curve] | None = None,
) -> tuple[ReservedUse, ...]:
    """On-demand usage by type and region, hour by hour, without hours that the bill or the price book shows as committed.

    `is_narrowed`: nodes are counted by the share of them that the fleet's pods hold, otherwise whole. `freed` are nodes that
    findings take away. The price on demand is what the nodes cost; if only a bill or nothing prices them, the list price, which
    is among the offers.
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
        spans = list(_uncommitted(fleet, nodes, is_narrowed=is_narrowed))
        listed = offers.get(key, {})
        price = _mean_price(nodes) or listed.get(ON_DEMAND)
        if not price or not price.per_node_hour or not spans:
            continue
        curve = counted(spans, period.start_ms, period.end_ms)
        committed = existing.covered.get(key)
        left = curve.less(committed.curve if committed else None)
        covered = round(curve.node_hours - left.node_hours, 6)
        left = left.less((freed or {}).get(key))
        uses.append(ReservedUse(name, nodes[0].gpus, price, left, listed, covered, provider, region))
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
    time, amount, sources, days = 0, Decimal(0), set(), {""}
    for price, start, end in chain.from_iterable(node.steps for node in nodes):
        if price.source not in ("bill", "none") and not price.is_committed:
            time += end - start
            amount += (end - start) * price.per_node_hour
            sources.add(price.source)
            days.add(price.as_of or "")
    if not amount:
        return None
    return Price(kept(amount / time), ", ".join(sorted(sources)).replace("_", " "), max(days) or None)


@record
class Pool:
    """`level` nodes of `use` paid around the clock under `terms`, or as much money of a plan; the rest is paid on demand.

    A plan or CUD covers `others`, too, each at its own price under it, the largest discount first, as clouds apply them.
    """

    terms: Terms
    use: ReservedUse
    others: tuple[ReservedUse, ...]
    bought_on: date
    level: float = 0

    @property
    def committed(self) -> Price:
        return self.use.offers[self.terms]

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

    def _ratio(self, use: ReservedUse) -> float:
        return float(use.offers[self.terms].per_node_hour / use.on_demand.per_node_hour)

    def _curves(self, uses: Iterable[ReservedUse]) -> Iterator[Curve]:
        """Usage in nodes of `use`, by prices under the commitment."""
        prices = ((use, use.offers[self.terms].per_node_hour) for use in uses)
        return (use.curve.scaled(float(price / self.price)) for use, price in prices)

    @property
    def curve(self) -> Curve:
        return reduce(add, self._curves(self.uses))

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
    def hours(self) -> float:
        """Node-hours of it."""
        return self.level * self.use.curve.hours

    @property
    def used(self) -> float:
        """Node-hours of it that are in use."""
        return self.curve.used(self.level)

    @property
    def on_demand_cost(self) -> Decimal:
        """Of its GPU nodes."""
        return total(use.cost for use in self.uses if use.gpus)

    def changed(self, usage: float, price: float = 1.0) -> Pool:
        """The same commitment if usage and prices on demand are these parts of today's."""

        def edit(use: ReservedUse) -> ReservedUse:
            per_hour = use.on_demand.per_node_hour * to_decimal(price)
            on_demand = replace(use.on_demand, per_node_hour=per_hour)
            return replace(use, curve=use.curve.scaled(usage), on_demand=on_demand)

        return replace(self, use=edit(self.use), others=tuple(map(edit, self.others)))

    def at_safe_level(self, evidence: Evidence) -> Pool:
        """At the level to advise: whole instances, cents of a savings plan.

        Other usage fills a plan, but it makes none larger than the mean use of GPUs.
        """
        step = 0.01 / float(self.price) if self.terms.kind == "savings_plan" else 1.0
        gpus = reduce(add, self._curves(use for use in self.uses if use.gpus)).scaled(1 / step)
        filled = self.curve.scaled(1 / step)
        safe, most = (evidence.safe_level(curve, self.break_even) for curve in (gpus, filled))
        return replace(self, level=max(safe, min(most, int(gpus.mean))) * step)

    def avoided(self, *, is_of_gpus: bool = False) -> Decimal:
        """On-demand cost of the usage that the commitment covers."""
        amount, before = Decimal(0), 0.0
        for use, curve in zip(self.uses, accumulate(self._curves(self.uses)), strict=True):
            now = curve.used(self.level)
            if use.gpus or not is_of_gpus:
                hours = to_decimal(round(now - before, 9))
                on_demand, committed = use.on_demand.per_node_hour, use.offers[self.terms].per_node_hour
                amount += hours * self.price * on_demand / committed
            before = now
        return kept(amount)

    @property
    def gain(self) -> Decimal:
        """What the commitment saves over on demand."""
        return kept(self.avoided() - self.hourly_cost * to_decimal(self.use.curve.hours))

    @property
    def break_even_on(self) -> date | None:
        """The day on which avoided on-demand cost has reached the obligation, whatever is used later; None beyond the term."""
        if not self.level or self.gain < 0:
            return None
        hours = self.obligation * (1 - self.gain / self.avoided()) / self.hourly_cost
        return self.bought_on + timedelta(hours=float(hours))

    @property
    def lasting_share(self) -> float:
        """The share of today's usage at which the commitment costs what on demand would."""
        return bisected(0.0, 1.0, lambda usage: self.changed(usage).gain <= 0)

    @property
    def payback_months(self) -> float | None:
        """Months until avoided on-demand cost has reached what was paid upfront; None beyond the term."""
        share = self.terms.upfront_share
        hourly = self.avoided() / to_decimal(self.use.curve.hours) - self.hourly_cost * (1 - share)
        hours = self.obligation * share / hourly if hourly > 0 else Decimal("Infinity")
        return float(hours) / HOURS_PER_MONTH if hours <= self.terms.years * HOURS_PER_YEAR else None


# Changes of usage and of the list price, in percent.
CHANGES = ((20, 0), (-10, 0), (-20, 0), (-25, 0), (-50, 0), (0, -10), (0, -20))

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
    today, best, options = demand.today, list(map(_record, advised)), list(map(_record, pools))
    regret = [_regret(pool, demand.evidence, *change) for pool in advised for change in CHANGES]
    longer = [pool for pool in pools if not pool.terms.binds_least and pool.level]
    shortest = [pool for pool in pools if pool.terms.binds_least]
    scenario = Position(
        today.cost - total(pool.gain for pool in advised),
        today.currency,
        round(today.gpu_hours + sum((pool.hours - pool.used) * pool.use.gpus for pool in advised), 6),
        round(today.node_hours + sum(pool.hours - pool.used for pool in advised), 6),
        {"committed_node_hours": round(sum(pool.hours for pool in advised), 6)},
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
            "options": options,
            "regret": regret,
            **eligible,
            "existing_commitments": demand.existing.commitments,
            "existing_commitments_known": demand.existing.is_bill_loaded,
            **({name: best[0][name] for name in _FIGURES} if len(best) == 1 else {}),
        },
        assumptions=tuple(_assumptions(demand, pools)),
        break_even=tuple(_break_even(demand, pools, advised)),
        time=(
            "No workload waits: committed and on-demand instances are the same machines. A commitment binds for its whole term.",
            "A savings plan or CUD is a price, not capacity: only a capacity reservation keeps instances free for you.",
        ),
        findings=tuple(_findings(demand, pools, advised)),
        tables=(
            *_rows(
                "commitments",
                _COLUMNS,
                map(_record, shortest),
                f"The scenario takes: {levels}." if levels else "The scenario stays on demand.",
            ),
            *_rows(
                "longer terms and upfront payments",
                _LONGER_COLUMNS,
                map(_record, longer),
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
        if terms.is_wide and (other := demand.existing.others.get(smallest.provider)):
            whole = ReservedUse(
                "other usage",
                0,
                other.on_demand,
                other.curve,
                {terms: PLAN_MONEY},
                provider=smallest.provider,
            )
            others.append(whole)
        pools.append(Pool(terms, smallest, tuple(others), day).at_safe_level(demand.evidence))

    return sorted(
        pools,
        key=lambda pool: (bool(old_prices([("", pool.committed)], day, most_days)), -pool.gain, pool.terms),
    )


def _advised(pools: Sequence[Pool]) -> list[Pool]:
    """The commitments of the headline: the best of each scope; a wider scope if it saves more than all that it replaces."""
    best: dict[str, Pool] = {}
    for pool in pools:
        if pool.terms.binds_least and pool.gain > 0:
            best.setdefault(pool.scope, pool)
    advised: list[Pool] = []
    for pool in sorted(best.values(), key=lambda pool: len(pool.uses)):
        keys = {use.key for use in pool.uses}
        inside = [other for other in advised if any(use.key in keys for use in other.uses)]
        if pool.gain > total(other.gain for other in inside):
            advised = [other for other in advised if other not in inside] + [pool]
    return advised


def _percent(part: Decimal | float, whole: Decimal | float) -> float | None:
    return round(float(part) / float(whole) * 100, 6) if whole else None


def _eligible(demand: Demand, advised: Sequence[Pool]) -> dict[str, Any]:
    """The on-demand cost of eligible use, the share of it that commitments cover, and the effective savings rate.

    That is 1 − cost ÷ on-demand cost (FinOps Foundation, effective savings rate); None if existing commitments are not known, or
    billed in several currencies or another currency.
    """
    existing, keys = demand.existing, {NO_KEY, *(use.key for use in demand.uses)}
    covered = total(use.on_demand.per_node_hour * to_decimal(use.covered_hours) for use in demand.uses)
    paid = total(one.paid for key, one in existing.covered.items() if key in keys)
    eligible = covered + total(use.cost for use in demand.uses)
    is_known = existing.is_bill_loaded and (not paid or existing.currency == demand.today.currency)
    parts = {
        "covered_percent_today": covered,
        "covered_percent": covered + total(pool.avoided(is_of_gpus=True) for pool in advised),
        "effective_savings_rate_percent_today": covered - paid,
        "effective_savings_rate_percent": covered - paid + total(pool.gain for pool in advised),
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


def _record(pool: Pool) -> dict[str, Value]:
    gain, even, months = pool.gain, pool.break_even_on, pool.payback_months
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
        "utilization_percent": _percent(pool.used, pool.hours),
        "break_even_utilization_percent": round(pool.break_even * 100, 6),
        "break_even_date": even.isoformat() if even else None,
        "upfront_payment": pool.obligation * pool.terms.upfront_share,
        "payback_months": months and round(months, 6),
    }


def _regret(pool: Pool, evidence: Evidence, usage_percent: int, price_percent: int) -> dict[str, Value]:
    """The cost with the commitment after usage or the list price changed, the cost of the best level then, and the advice."""
    then = pool.changed(1 + usage_percent / 100, 1 + price_percent / 100)
    alone, held = then.on_demand_cost, then.gain
    most = max(held, replace(then, level=then.curve.best_level(then.break_even)).gain)
    amounts = {
        "cost": alone - held,
        "on_demand_cost": alone,
        "still_saves": held,
        "best_cost": alone - most,
        "regret": most - held,
        "advised_per_hour": then.at_safe_level(evidence).hourly_cost,
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
    for provider, other in demand.existing.others.items():
        yield priced(f"other usage of {provider}", other.on_demand, "money on demand per money of a plan")
    if any(pool.terms.payment == "partial_upfront" for pool in pools):
        yield Assumption("partial upfront", 50, "% of the term's price", "default")


def _break_even(demand: Demand, pools: Sequence[Pool], advised: Sequence[Pool]) -> Iterator[str]:
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
            f" {(1 - pool.lasting_share) * 100:.1f} %; bought on {pool.bought_on}, they have paid for themselves on"
            f" {pool.break_even_on}, even without any later use"
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
