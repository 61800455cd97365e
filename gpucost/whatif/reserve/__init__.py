"""Commitments: how many nodes are worth paying for around the clock, of which kind, and what if usage falls."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.engine import run_stage
from gpucost.errors import GpucostError, UsageError
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.periods import from_ms as at
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value
from gpucost.whatif.cost import Block, positions
from gpucost.whatif.curve import Curve, counted
from gpucost.whatif.fleet import HOURS_PER_MONTH, HOURS_PER_YEAR, Fleet, Node, Scenario

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_DAY = 24 * MS_PER_HOUR
# Two billing periods: a bill that ended longer ago says little of what holds now.
_LASTS = 62 * _DAY

# (provider, region, instance type), lower-cased.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Commitment:
    """One commitment in the period: instance-hours that it covered, and what of it was paid and not used."""

    name: str
    kind: str
    covered_hours: float
    unused_cost: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class Existing:
    """Commitments of the bill. `is_bill_loaded` tells none from not known; `covered` holds instances covered, hour by hour.

    `month` is that of an earlier bill whose last day stands for the period, which no bill is there of.
    """

    is_bill_loaded: bool
    commitments: tuple[Commitment, ...] = ()
    covered: dict[Key, Curve] = field(default_factory=dict)
    month: str | None = None


def read_commitments(con: DuckDBPyConnection, from_ms: int, to_ms: int) -> Existing:
    """What the bill says of commitments in [from_ms, to_ms). A charge that spans several hours covers them evenly.

    Where no bill of the period is there, they go on as on the last day of the newest one before it. Makes a temporary table.
    """
    bills = con.execute(
        "SELECT count(*) FROM bill_rows "
        "WHERE kind = 'instance' AND epoch_ms(charge_period_start) < ? AND ? < epoch_ms(charge_period_end)",
        [to_ms, from_ms],
    ).fetchall()[0][0]
    if bills:
        return _read(con, from_ms, to_ms)
    last = con.execute(
        "SELECT max(epoch_ms(charge_period_end)) FROM bill_rows "
        "WHERE kind = 'instance' AND epoch_ms(charge_period_end) BETWEEN ? AND ?",
        [from_ms - _LASTS, from_ms],
    ).fetchall()[0][0]
    if last is None:
        return Existing(is_bill_loaded=False)
    day, times = _read(con, last - _DAY, last), (to_ms - from_ms) / _DAY
    return Existing(
        True,
        tuple(
            replace(one, covered_hours=one.covered_hours * times, unused_cost=one.unused_cost * Decimal(repr(times)))
            for one in day.commitments
        ),
        {key: counted([(from_ms, to_ms, curve.mean)], from_ms, to_ms) for key, curve in day.covered.items()},
        f"{at(last - 1):%Y-%m}",
    )


def _read(con: DuckDBPyConnection, from_ms: int, to_ms: int) -> Existing:
    """What bills that are there say of the period."""
    run_stage(con, __package__, "covered", {"from_ms": from_ms, "to_ms": to_ms})
    rows = con.execute("FROM commitment_charges ORDER BY ALL").fetchall()
    spans: dict[Key, list[tuple[int, int, float]]] = {}
    known: dict[str, Commitment] = {}
    for provider, region, instance_type, name, kind, start, end, is_unused, hours, cost, currency in rows:
        share = (min(end, to_ms) - max(start, from_ms)) / (end - start)
        before = known.get(name, Commitment(name, kind or "commitment", 0.0, Decimal(0), currency))
        known[name] = Commitment(
            name,
            before.kind if kind is None else kind,
            before.covered_hours + (0.0 if is_unused else hours * share),
            before.unused_cost + (cost * Decimal(repr(share)) if is_unused else Decimal(0)),
            currency,
        )
        if instance_type and hours and not is_unused:
            instances = hours / ((end - start) / 3_600_000)
            spans.setdefault((provider, region or "", instance_type), []).append((start, end, instances))
    covered = {key: counted(found, from_ms, to_ms) for key, found in spans.items()}
    return Existing(True, tuple(known.values()), covered)


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


_AZURE = re.compile(r"(?i)^(standard_[a-z]+)\d+")
_KEPT = Decimal("1e-9")

# What is paid by the hour and cannot be taken back. Nodes of unknown capacity type count as on demand.
COMMITTABLE = ("on_demand", "unknown")


@dataclass(frozen=True, slots=True)
class Use:
    """Instances of one type in use that no commitment covers yet, their price on demand, and what they could be committed at."""

    instance_type: str
    gpus: float
    on_demand: Offer
    curve: Curve
    offers: tuple[Offer, ...] = ()
    covered_hours: float = 0.0

    def offer(self, terms: Terms) -> Offer | None:
        return next((offer for offer in self.offers if offer.terms == terms), None)


@dataclass(frozen=True, slots=True)
class Family:
    """Instance types of one family in one region."""

    provider: str
    region: str
    name: str
    uses: tuple[Use, ...]

    def __str__(self) -> str:
        return " ".join(word for word in (self.provider, self.region, self.name) if word)


def family_name(instance_type: str) -> str:
    """p4d of p4d.24xlarge, a2-highgpu of a2-highgpu-8g, Standard_NDisr_H100_v5 of Standard_ND96isr_H100_v5."""
    if _AZURE.match(instance_type):
        return _AZURE.sub(r"\1", instance_type)
    if "." in instance_type:
        return instance_type.split(".")[0]
    return instance_type.rsplit("-", 1)[0]


def families_of(
    fleet: Fleet,
    period: Period,
    existing: Existing,
    offers_of: Callable[[str, str, str], tuple[Offer, tuple[Offer, ...]]],
    *,
    is_narrowed: bool,
    wanted: Callable[[Node], bool] = lambda _: True,
) -> tuple[Family, ...]:
    """On-demand usage by family, hour by hour; what existing commitments cover is taken off first.

    Nodes of unknown capacity type count as on demand. `is_narrowed`: nodes are counted by the share of them that the fleet's pods
    hold, else whole. `offers_of(provider, region, instance type)` is the list price on demand (zero: none) and the commitments.
    The price on demand is what the nodes cost, by hours; where only a bill or nothing prices them, the list price.
    """
    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    spans: dict[tuple[str, str, str, float], list[tuple[int, int, float]]] = defaultdict(list)
    priced: dict[tuple[str, str, str, float], list[Node]] = defaultdict(list)
    for node in fleet.nodes:
        if node.capacity_type in COMMITTABLE and wanted(node):
            priced[_type(node)].append(node)
            if not is_narrowed:
                spans[_type(node)].append((node.from_ms, node.to_ms, 1.0))
    for pod in fleet.pods if is_narrowed else ():
        node = nodes[pod.cluster, pod.node]
        if node.capacity_type in COMMITTABLE and wanted(node):
            spans[_type(node)].append((pod.from_ms, pod.to_ms, pod.gpus / node.gpus))
    families: dict[Key, list[Use]] = defaultdict(list)
    for key, of_type in sorted(spans.items()):
        provider, region, instance_type, gpus = key
        listed, offers = offers_of(provider, region, instance_type)
        price = _mean_price(priced[key]) or listed
        if not price.price:
            continue
        curve = counted(of_type, period.start_ms, period.end_ms)
        there = existing.covered.get((provider, region, instance_type.lower()))
        left = curve.less(there) if there else curve
        use = Use(instance_type, gpus, price, left, offers, round(curve.node_hours - left.node_hours, 6))
        families[provider, region, family_name(instance_type)].append(use)
    return tuple(Family(*key, tuple(uses)) for key, uses in families.items())


def _type(node: Node) -> tuple[str, str, str, float]:
    return (node.provider or "", node.region or "", node.instance_type or node.gpu_model or "unknown", node.gpus)


def _mean_price(nodes: Iterable[Node]) -> Offer | None:
    """What the nodes cost per hour on the mean, leaving out what a bill says: that may hold commitments. None: nothing priced."""
    hours, amount, sources, days = Decimal(0), Decimal(0), set(), set()
    for node in nodes:
        for price, following in zip(node.prices, (*node.prices[1:], None), strict=True):
            start = max(node.from_ms, price.from_ms if price.from_ms is not None else node.from_ms)
            end = node.to_ms if following is None or following.from_ms is None else min(node.to_ms, following.from_ms)
            if price.source in ("bill", "none") or end <= start:
                continue
            hours += end - start
            amount += (end - start) * price.per_node_hour
            sources.add(price.source)
            days |= {price.as_of} if price.as_of else set()
    if not hours or not amount:
        return None
    source = ", ".join(sorted(sources)).replace("_", " ")
    return Offer(Terms("on_demand", 0, ""), (amount / hours).quantize(_KEPT), source, max(days, default=None))


@dataclass(frozen=True, slots=True)
class Pool:
    """What one commitment covers: the curve in instances of `of`, at `on_demand` by the hour or `offer` around the clock.

    Several sizes of a family are one pool for savings plans and CUDs: each counts as what it costs on demand against `of`.
    """

    of: str
    gpus: float
    on_demand: Decimal
    offer: Offer
    curve: Curve

    @property
    def break_even(self) -> float:
        """Share of the hours that a node must be in use for its commitment to cost no more than on demand; above 1: never."""
        return float(self.offer.price / self.on_demand)

    def best_level(self) -> int:
        return self.curve.best_level(self.break_even)

    def scaled(self, factor: float) -> Pool:
        return Pool(self.of, self.gpus, self.on_demand, self.offer, self.curve.scaled(factor))

    def blocks(self, level: int) -> list[Block]:
        """`level` committed nodes in all hours, and what they do not hold by the hour."""
        rest = max(0.0, self.curve.node_hours - self.curve.used(level))
        return [Block(level * self.curve.hours, self.offer.price, self.gpus), Block(rest, self.on_demand, self.gpus)]

    def payback_hours(self, level: int) -> float | None:
        """Hours until on-demand cost avoided makes up for what was paid upfront: 0 where nothing was, None beyond the term.

        Per hour and committed node: used share × on demand is avoided, and (1 − upfront share) × price is still paid.
        """
        share, used = self.offer.terms.upfront_share, self.curve.utilization(level)
        if not share or used is None:
            return 0.0
        term = self.offer.terms.years * 8760
        gained = used * float(self.on_demand) - float((1 - share) * self.offer.price)
        hours = float(share * self.offer.price) * term / gained if gained > 0 else float("inf")
        return hours if hours <= term else None


def terms_of(family: Family) -> list[Terms]:
    """The commitments on offer for the family: a flexible one where its smallest instance has it."""
    found: set[Terms] = set()
    for use in family.uses:
        found |= {offer.terms for offer in use.offers if offer.terms.kind not in FLEXIBLE}
    found |= {offer.terms for offer in _smallest(family).offers if offer.terms.kind in FLEXIBLE}
    return sorted(found, key=lambda terms: (terms.years, terms.kind, terms.payment, terms.offering))


def pools_of(family: Family, terms: Terms) -> tuple[list[Pool], list[Use]]:
    """The pools that a commitment of these terms covers, and the types that it is not sold for."""
    if terms.kind in FLEXIBLE:
        of = _smallest(family)
        offer = of.offer(terms)
        if offer is None:
            return [], list(family.uses)
        weights = [float(use.on_demand.price / of.on_demand.price) for use in family.uses]
        curves = [use.curve.scaled(weight) for use, weight in zip(family.uses, weights, strict=True)]
        whole = _sum(curves)
        return [Pool(of.instance_type, of.gpus, of.on_demand.price, offer, whole)], []
    sold = [(use, offer) for use in family.uses if (offer := use.offer(terms))]
    pools = [Pool(use.instance_type, use.gpus, use.on_demand.price, offer, use.curve) for use, offer in sold]
    return pools, [use for use in family.uses if use.offer(terms) is None]


def on_demand_blocks(uses: Iterable[Use]) -> list[Block]:
    return [Block(use.curve.node_hours, use.on_demand.price, use.gpus) for use in uses]


def lasting_share(pools: Sequence[Pool], levels: Sequence[int]) -> float | None:
    """The share of today's usage at which the commitments held cost what on demand would; None where nothing is held."""
    if not any(levels):
        return None

    def gain(share: float) -> float:
        held = zip(pools, levels, strict=True)
        return sum(
            float(pool.on_demand) * pool.curve.scaled(share).used(level) - float(pool.offer.price) * level * pool.curve.hours
            for pool, level in held
        )

    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if gain(middle) > 0 else (middle, high)
    return high


def _smallest(family: Family) -> Use:
    return min(family.uses, key=lambda use: (use.on_demand.price, use.instance_type))


def _sum(curves: Sequence[Curve]) -> Curve:
    whole = curves[0]
    for curve in curves[1:]:
        whole += curve
    return whole


@dataclass(frozen=True, slots=True)
class Choice:
    """A family committed on some terms, at the level that costs least; `left_out` are types that these terms are not sold for."""

    family: Family
    terms: Terms
    pools: tuple[Pool, ...]
    levels: tuple[int, ...]
    left_out: tuple[Use, ...]

    @classmethod
    def best(cls, family: Family, terms: Terms) -> Choice:
        pools, left_out = pools_of(family, terms)
        return cls(family, terms, tuple(pools), tuple(pool.best_level() for pool in pools), tuple(left_out))

    @property
    def name(self) -> str:
        return f"{self.family}: {self.terms}"

    @property
    def committed_hours(self) -> float:
        return sum(level * pool.curve.hours for pool, level in zip(self.pools, self.levels, strict=True))

    @property
    def used_hours(self) -> float:
        return sum(pool.curve.used(level) for pool, level in zip(self.pools, self.levels, strict=True))

    @property
    def all_hours(self) -> float:
        """Node-hours in use, in the pools' instances; those of types left out as they are."""
        return sum(pool.curve.node_hours for pool in self.pools) + sum(use.curve.node_hours for use in self.left_out)

    @property
    def break_even(self) -> float:
        """The highest of the pools' break-evens, 0-1 and above."""
        return max(pool.break_even for pool in self.pools)

    def upfront(self) -> Decimal:
        """What is paid on the first day, for the whole term."""
        paid = (level * pool.offer.price for pool, level in zip(self.pools, self.levels, strict=True))
        return sum(paid, Decimal(0)) * self.terms.upfront_share * self.terms.years * HOURS_PER_YEAR

    def payback_months(self) -> float | None:
        """Of the slowest pool."""
        hours = [pool.payback_hours(level) for pool, level in zip(self.pools, self.levels, strict=True) if level]
        known = [time for time in hours if time is not None]
        return None if len(known) < len(hours) else round(max(known, default=0.0) / HOURS_PER_MONTH, 6)

    def blocks(self, usage: float = 1.0, *, levels: Sequence[int] | None = None) -> list[Block]:
        """What is paid where usage is `usage` of today's: at these levels, at others, or (all 0) on demand alone."""
        held = zip(self.pools, self.levels if levels is None else levels, strict=True)
        blocks = [block for pool, level in held for block in pool.scaled(usage).blocks(level)]
        left = [Block(use.curve.node_hours * usage, use.on_demand.price, use.gpus) for use in self.left_out]
        return blocks + left


FALLS = (10, 25, 50)

_COLUMNS = (
    "family", "commitment", "instances", "cost", "saving", "saving %", "coverage %", "utilization %",
    "break-even utilization %", "upfront", "payback months",
)  # fmt: skip


def answer(
    families: Sequence[Family],
    existing: Existing,
    *,
    currency: str,
    period: str,
    years: Sequence[int] = (),
    payments: Sequence[str] = (),
    assumptions: Sequence[Assumption] = (),
) -> Scenario[Answer]:
    """What the best commitment of each family would have cost over the period, beside on demand.

    `years` and `payments` narrow what is considered; none: all. Raises GpucostError where nothing is on offer.
    """
    choices = [
        Choice.best(family, terms)
        for family in families
        for terms in terms_of(family)
        if (not years or terms.years in years) and (not payments or terms.payment in payments)
    ]
    if not choices:
        names = ", ".join(sorted({use.instance_type for family in families for use in family.uses}))
        raise GpucostError(
            f"no price of a commitment is known for {names or 'any node'}",
            "gpucost collect prices asks the clouds for them; or --commitment-price 1=PRICE, or --commitment-discount 1=PERCENT",
        )
    groups = {str(family): on_demand_blocks(family.uses) for family in families}
    told = yield from positions(currency, groups | {choice.name: choice.blocks() for choice in choices})
    best: dict[str, Choice] = {}
    for choice in sorted(choices, key=lambda choice: (told[choice.name].cost, choice.terms.years, choice.upfront())):
        best.setdefault(str(choice.family), choice)
    chosen = {name: choice for name, choice in best.items() if any(choice.levels)}
    # What nothing is committed of costs in the scenario what it does today: the parts of one sum, to the last digit.
    scenario = [told[chosen[str(family)].name if str(family) in chosen else str(family)] for family in families]
    today = [told[str(family)] for family in families]
    regret = yield from _regret(list(chosen.values()), currency)
    return Answer(
        kind="reserve",
        title="Committing instead of paying on demand",
        period=period,
        today=_total(today, currency),
        scenario=_total(scenario, currency, committed_node_hours=round(sum(c.committed_hours for c in chosen.values()), 6)),
        figures=_figures(choices, chosen, told, existing, regret),
        assumptions=(*assumptions, *_sources(families, choices)),
        break_even=_break_even(chosen),
        time=(
            "No workload waits: committed and on-demand instances are the same machines. A commitment binds for its whole term.",
            "A savings plan or CUD is a price, not capacity: only a capacity reservation keeps instances free for you.",
        ),
        findings=_findings(families, choices, chosen, existing),
        tables=(
            Rows("commitments", _COLUMNS, tuple(_line(choice, told) for choice in choices), note=_best_note(chosen)),
            *([_falls(regret)] if regret else []),
        ),
    )


def _total(parts: Sequence[Position], currency: str, **more: Value) -> Position:
    whole = sum(parts, Position(Decimal(0), currency, 0.0, 0.0))
    return Position(whole.cost, currency, round(whole.gpu_hours, 6), round(whole.node_hours, 6), more)


def _percent(part: float, whole: float) -> float | None:
    return round(part / whole * 100, 6) if whole else None


def _record(choice: Choice, told: dict[str, Position]) -> dict[str, Value]:
    today, cost = told[str(choice.family)].cost, told[choice.name].cost
    return {
        "family": str(choice.family),
        "provider": choice.family.provider,
        "region": choice.family.region,
        "kind": choice.terms.kind,
        "term_years": choice.terms.years,
        "payment_option": choice.terms.payment,
        "offering": choice.terms.offering or None,
        "instances": sum(choice.levels),
        "instance_types": ", ".join(pool.of for pool in choice.pools),
        "committed_price_per_node_hour": choice.pools[0].offer.price if len(choice.pools) == 1 else None,
        "on_demand_price_per_node_hour": choice.pools[0].on_demand if len(choice.pools) == 1 else None,
        "cost": cost,
        "saving": today - cost,
        "saving_percent": _percent(float(today - cost), float(today)),
        "coverage_percent": _percent(choice.used_hours, choice.all_hours),
        "utilization_percent": _percent(choice.used_hours, choice.committed_hours),
        "break_even_utilization_percent": round(choice.break_even * 100, 6),
        "upfront_payment": choice.upfront(),
        "payback_months": choice.payback_months() if any(choice.levels) else None,
    }


def _line(choice: Choice, told: dict[str, Position]) -> tuple[Value, ...]:
    row = _record(choice, told)
    money = (round(told[choice.name].cost, 2), round(told[str(choice.family)].cost - told[choice.name].cost, 2))
    shares = ("saving_percent", "coverage_percent", "utilization_percent", "break_even_utilization_percent")
    return (
        str(choice.family), str(choice.terms), sum(choice.levels), *money,
        *(_short(row[name]) for name in shares), round(choice.upfront(), 2), _short(row["payback_months"]),
    )  # fmt: skip


def _short(value: Value) -> Value:
    return "-" if value is None else round(value, 1) if isinstance(value, float) else value


def _best_note(chosen: dict[str, Choice]) -> str | None:
    said = "; ".join(f"{name}: {choice.terms}, {_levels(choice)}" for name, choice in chosen.items())
    return f"The cheapest, which the scenario takes: {said}." if said else "On demand alone is the cheapest."


def _levels(choice: Choice) -> str:
    return " and ".join(f"{level} × {pool.of}" for pool, level in zip(choice.pools, choice.levels, strict=True) if level)


def _figures(
    choices: Sequence[Choice],
    chosen: dict[str, Choice],
    told: dict[str, Position],
    existing: Existing,
    regret: list[dict[str, Value]],
) -> dict[str, object]:
    best = [_record(choice, told) for choice in chosen.values()]
    figures: dict[str, object] = {
        "price_per": "node",
        "best": best,
        "options": [_record(choice, told) for choice in choices],
        "regret": regret,
        "existing_commitments": [
            {
                "commitment_discount_id": there.name,
                "type": there.kind,
                "covered_instance_hours": there.covered_hours,
                "unused_cost": there.unused_cost,
                "currency": there.currency,
            }
            for there in existing.commitments
        ],
        "existing_commitments_known": existing.is_bill_loaded,
    }
    if len(best) == 1:
        names = ("instances", "coverage_percent", "utilization_percent", "break_even_utilization_percent", "payback_months")
        figures |= {name: best[0][name] for name in names}
    return figures


def _regret(chosen: Sequence[Choice], currency: str) -> Scenario[list[dict[str, Value]]]:
    """For each family and fall of usage: what is paid with the commitment held, and with what would have been best then."""
    groups: dict[str, list[Block]] = {}
    for choice in chosen:
        for fall in FALLS:
            usage, name = 1 - fall / 100, f"{choice.family} -{fall}"
            then = [pool.scaled(usage).best_level() for pool in choice.pools]
            groups[f"{name} held"] = choice.blocks(usage)
            groups[f"{name} best"] = choice.blocks(usage, levels=then)
            groups[f"{name} on demand"] = choice.blocks(usage, levels=[0] * len(choice.pools))
    told = yield from positions(currency, groups)
    rows: list[dict[str, Value]] = []
    for choice in chosen:
        for fall in FALLS:
            name = f"{choice.family} -{fall}"
            held, best, alone = (told[f"{name} {what}"].cost for what in ("held", "best", "on demand"))
            rows.append(
                {
                    "family": str(choice.family),
                    "usage_falls_percent": fall,
                    "cost": round(held, 6),
                    "on_demand_cost": round(alone, 6),
                    "still_saves": round(alone - held, 6),
                    "best_cost": round(best, 6),
                    "regret": round(max(Decimal(0), held - best), 6),
                }
            )
    return rows


def _falls(regret: Sequence[dict[str, Value]]) -> Rows:
    lines = (tuple(round(value, 2) if isinstance(value, Decimal) else value for value in row.values()) for row in regret)
    columns = (name.replace("_percent", " %").replace("_", " ") for name in regret[0])
    return Rows("if usage falls", tuple(columns), tuple(lines), note="Regret: what is paid over the best level for that usage.")


def _break_even(chosen: dict[str, Choice]) -> tuple[str, ...]:
    said = []
    for name, choice in chosen.items():
        share = lasting_share(choice.pools, choice.levels)
        said.append(
            f"{name}: a committed instance pays for itself from {choice.break_even * 100:.1f} % of its hours in use on"
            + (f"; all of them together until usage falls by {(1 - share) * 100:.1f} %." if share is not None else ".")
        )
    return tuple(said) or ("At no level of use that was seen does a commitment cost less than on demand.",)


def _sources(families: Sequence[Family], choices: Sequence[Choice]) -> list[Assumption]:
    rows = [_price(f"on demand, {use.instance_type}", use.on_demand) for family in families for use in family.uses]
    for choice in choices:
        rows += [_price(f"{pool.of}, {choice.terms}", pool.offer) for pool in choice.pools]
    if any(choice.terms.payment == "partial_upfront" for choice in choices):
        rows.append(Assumption("partial upfront", 50, "% of the term's price", "default"))
    return rows


def _price(name: str, offer: Offer) -> Assumption:
    return Assumption(name, offer.price, "money per node-hour", offer.source, offer.as_of)


def _findings(
    families: Sequence[Family], choices: Sequence[Choice], chosen: dict[str, Choice], existing: Existing
) -> tuple[str, ...]:
    said = []
    if not existing.is_bill_loaded:
        said.append(
            "Existing commitments: none known, since no bill of the period is loaded; what you have already is not counted."
        )
    elif not existing.commitments:
        said.append("Existing commitments: the bill of the period has none.")
    else:
        covered = sum(use.covered_hours for family in families for use in family.uses)
        said.append(
            f"Existing commitments: {len(existing.commitments)} in the bill"
            + (f" of {existing.month}, which are taken to go on as on its last day," if existing.month else ",")
            + f" counted first; they cover {covered:,.1f} node-hours of this usage, which are in neither figure."
        )
        silent = [c for c in existing.commitments if not c.covered_hours and not c.unused_cost]
        said += [f"{c.name}: the bill does not say which instances it covers, so it is not counted." for c in silent]
        unused = [c for c in existing.commitments if c.unused_cost]
        said += [
            f"{c.name} was not used for {c.unused_cost:,.2f} {c.currency} of what it cost: use it before buying more."
            for c in unused
        ]
    priced = {str(choice.family) for choice in choices}
    said += [
        f"{family}: no price of a commitment is known; it stays on demand." for family in families if str(family) not in priced
    ]
    for choice in chosen.values():
        said += [f"{use.instance_type} is not sold as {choice.terms}; it stays on demand." for use in choice.left_out]
        if any(len(family.uses) > 1 for family in families) and choice.terms.kind != "reserved":
            said.append(f"{choice.family}: all sizes count as {choice.pools[0].of}, by their price on demand.")
    return tuple(said)
