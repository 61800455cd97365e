"""Actual usage moved from on demand to spot, or back."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import from_ms
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import (
    Answer,
    Assumption,
    Line,
    Position,
    Range,
    Rows,
    Value,
    old_prices,
    priced,
    today_of,
)
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import GPUS_PER_NODE, HOURS_PER_MONTH, PricePer, node_price
from gpucost.whatif.fleet import Price, Usage, Workload, one_node
from gpucost.whatif.spot import formulas
from gpucost.whatif.spot.advice import DEAR, NEEDS_WORK, NOT, RERUN, SAFE, Advice
from gpucost.whatif.spot.formulas import Checkpoints, Formula, Work, exact, expected_hours
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import Market, Place, Target, find_instance, read_price, read_rates
from gpucost.whatif.spot.moves import (
    Moved,
    Moves,
    SpotOptions,
    SpotQuery,
    base_name,
    movable,
    rate_assumption,
)
from gpucost.whatif.spot.parts import (
    ENDLESS,
    ENDLESS_COST,
    Part,
    break_even,
    cases,
    parts_of,
    savings_by_rate,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config


def break_even_sentences(
    exact: float | None, first_order: float | None, rate: Rate, nodes: int, *, is_cheaper: bool
) -> tuple[str, ...]:
    """The rate at which spot costs as much as on demand, next to the own rate; `is_cheaper`: spot costs less at rate 0."""
    if exact is None and is_cheaper:
        return ("spot costs less than on demand however often it is interrupted",)
    if exact is None:
        return ("spot costs as much as on demand even if nothing is interrupted: there is no break-even",)
    gang = f", in gangs of {nodes} nodes" if nodes > 1 else ""
    message = f"spot costs as much as on demand at {exact:,.4g} interruptions per node-hour{gang}: one in {_span(1 / exact)}"
    own = f"the rate assumed here is {rate.per_hour:,.4g}"
    if rate.low is not None and rate.high is not None:
        own += f" ({rate.low:,.4g} to {rate.high:,.4g})"
    if rate.per_hour:
        times = exact / rate.per_hour
        own += f": the break-even is {times:,.1f} times that" if times > 1 else ": more than the break-even"
    first = () if first_order is None else (f"the break-even by first order is {first_order:,.4g}",)
    return (message, own, *first)


def _span(hours: float) -> str:
    """A time in the unit that suits it."""
    if hours < 1:
        return f"{hours * 60:,.1f} minutes"
    return f"{hours:,.1f} h" if hours < 48 else f"{hours / 24:,.1f} days"


def time_sentences(
    before: float, expected: float, best: Checkpoints | None, unit: str, *, ends: bool
) -> tuple[str, ...]:
    """How interruptions lengthen work, and the interval of checkpoints that would cost least; `ends`: the work is ever done."""
    longer = (expected / before - 1) * 100 if before else 0.0
    sentences = [f"{before:,.1f} {unit} of work take {expected:,.1f} {unit} on spot ({longer:.2f} % longer)"]
    if not ends:
        sentences.append("it would practically never end")
    if best is not None:
        least, daly = best.exact * 60, best.daly * 60
        sentences.append(f"a checkpoint every {least:,.1f} minutes would cost least (Daly: {daly:,.1f})")
    return tuple(sentences)


_DIGITS = 6
_MORE = {NEEDS_WORK: "with work, more could move", NOT: "what should not move would save"}


@dataclass(frozen=True)
class _View:
    """A fixed set of work on spot, by its means over node-hours; prices and rate are per node-hour."""

    options: SpotOptions
    question: SpotQuery
    parts: Sequence[Part]
    hours: float
    gpus: float
    spot: float
    on_demand: float
    rate: Rate
    gang: int

    @classmethod
    def of(cls, options: SpotOptions, question: SpotQuery, moved: Moves, parts: Sequence[Part]) -> _View:
        """The means over what the parts hold."""
        owners = {part.owner for part in parts}
        held = [
            (item, time) for item in moved.values() for owner, time in item.hours.items() if owner in owners
        ]
        there, here = (
            _mean((item.price, time) for item, time in held),
            _mean((item.today_price, time) for item, time in held),
        )
        to_spot = options.to is Target.spot
        rates = [part.rate for part in parts]
        low, high = (
            _mean((getattr(part.rate, end), part.hours) for part in parts)
            if all(getattr(rate, end) is not None for rate in rates)
            else None
            for end in ("low", "high")
        )
        rate = Rate(_mean((part.rate.per_hour, part.hours) for part in parts), "", None, low, high)
        gang = max(1, round(_mean((part.gang, part.hours) for part in parts)))
        return cls(
            options, question, parts, sum(time for _, time in held), _mean((item.node.gpus, time) for item, time in held),
            there if to_spot else here, here if to_spot else there, rate, gang,
        )  # fmt: skip

    @property
    def work(self) -> Work:
        """The mean work: its interval between checkpoints, and what writing one takes, weighted by hours."""
        over = [part.advice.starts_over for part in self.parts]
        options = self.options
        if any(over):
            every = _mean((part.options.checkpoint_minutes, part.hours) for part in self.parts)
            write = _mean((part.options.checkpoint_write_minutes, part.hours) for part in self.parts)
            notice = 0.0 if all(over) else options.notice_seconds
            options = replace(
                options, checkpoint_minutes=every, checkpoint_write_minutes=write, notice_seconds=notice
            )
        return options.work(self.rate.per_hour, options.hits(self.gang), self.parts[0].provider)

    @cached_property
    def break_evens(self) -> tuple[float | None, float | None]:
        """The rate at which this work costs as much either way, exactly and by first order."""
        even = partial(formulas.break_even_rate, self.work, self.on_demand / self.spot)
        if self.options.to is Target.spot:
            even = partial(break_even, self.parts)
        return even(), even(formula=formulas.first_order)

    def effective(self, formula: Formula) -> float:
        """The price of a useful GPU-hour on spot."""
        if self.options.to is not Target.spot:
            return self.spot * formula(self.work) / self.gpus
        return sum(part.cost_at(part.rate.per_hour, formula) for part in self.parts) / (
            self.hours * self.gpus
        )

    def makespan(self) -> tuple[float, float, float, float]:
        """Hours of useful work, those paid, interruptions, and elapsed hours with waits for capacity."""
        work = self.work
        # hours on spot include what interruptions lost: the work itself is less
        useful = self.hours / self.gang / (1 if self.options.to is Target.spot else exact(work))
        paid = expected_hours(work, useful)
        interruptions = paid * work.gang_rate
        return useful, paid, interruptions, paid + self.options.wait_hours * interruptions

    def figures(self) -> dict[str, Any]:
        """The figures of JSON answers."""
        per, work = self.question.price_per, self.work
        gpus, share = (1.0, 1 / self.gpus) if per is PricePer.gpu else (self.gpus, 1.0)
        even, even_first = self.break_evens
        best, (useful, paid, interruptions, elapsed) = formulas.best_checkpoints(work), self.makespan()
        first_order, exactly = self.effective(formulas.first_order), self.effective(exact)
        between = round((self.on_demand - self.spot) / work.gang_rate, _DIGITS) if work.gang_rate else None
        return {
            "price_per": per,
            "on_demand_price": round(self.on_demand * share, 9),
            "spot_price": round(self.spot * share, 9),
            "has_discount": self.spot < self.on_demand,
            "effective_price_first_order": _finite(first_order * gpus),
            "effective_price_exact": _finite(exactly * gpus),
            "effective_price_per_gpu_hour_first_order": _finite(first_order),
            "effective_price_per_gpu_hour_exact": _finite(exactly),
            "interruptions_per_hour": self.rate.per_hour,
            "interruptions_per_hour_low": self.rate.low,
            "interruptions_per_hour_high": self.rate.high,
            "break_even_interruptions_per_hour": even,
            "break_even_interruptions_per_hour_first_order": even_first,
            "optimal_checkpoint_minutes": best and round(best.exact * 60, _DIGITS),
            "optimal_checkpoint_minutes_young": best and round(best.young * 60, _DIGITS),
            "optimal_checkpoint_minutes_daly": best and round(best.daly * 60, _DIGITS),
            # per node: what an interruption loses, and what was saved since the one before
            "lost_per_interruption": round(self.spot * (work.lost + work.restart), _DIGITS),
            "saved_between_interruptions": between,
            "makespan_hours": {
                "without_interruptions": useful,
                "expected": _finite(elapsed),
                "expected_paid": _finite(paid),
                "expected_interruptions": _finite(interruptions),
            },
        }

    def findings(self) -> Iterator[str]:
        """Sentences on prices."""
        if self.spot >= self.on_demand:
            dearer = "more than on demand" if self.spot > self.on_demand else "as much as on demand"
            yield f"spot costs {dearer} here: there is no discount"
        per = self.question.price_per
        gpus = 1.0 if per is PricePer.gpu else self.gpus
        first_order, exactly = (self.effective(formula) * gpus for formula in (formulas.first_order, exact))
        if math.isfinite(exactly):
            prices = f"{first_order:,.4f} by first order, {exactly:,.4f} exactly"
            yield f"effective price: {prices}, {self.question.usage.currency} per useful {per}-hour"

    def break_even_sentences(self) -> tuple[str, ...]:
        """The break-even and the own rate."""
        is_cheaper = exact(replace(self.work, per_hour=0.0)) < self.on_demand / self.spot
        return break_even_sentences(*self.break_evens, self.rate, self.gang, is_cheaper=is_cheaper)

    def time_sentences(self) -> tuple[str, ...]:
        """How much longer the work takes."""
        is_described = self.question.usage.is_described
        unit = "h" if is_described else "node-hours" if self.gang == 1 else f"hours of {self.gang} nodes"
        useful, _, _, elapsed = self.makespan()
        ends = exact(self.work) < ENDLESS
        return time_sentences(useful, elapsed, formulas.best_checkpoints(self.work), unit, ends=ends)


def _mean(values: Iterable[tuple[float, float]]) -> float:
    """The mean of (value, weight); of equal values that value, to the last digit."""
    weighted = list(values)
    if len({value for value, _ in weighted}) == 1:
        return weighted[0][0]
    return sum(value * weight for value, weight in weighted) / sum(weight for _, weight in weighted)


def _finite(value: float) -> float | None:
    return round(value, _DIGITS) if math.isfinite(value) else None


def answer(options: SpotOptions, question: SpotQuery) -> Answer:
    """What moving the usage costs, by the exact effective price; first order next to it. Only what suits spot moves.

    A described fleet is one that moves to spot, and back by the same figures. Raises GpucostError if nothing can be moved.
    """
    usage, is_described = question.usage, question.usage.is_described
    is_back = is_described and options.to is Target.on_demand
    options = replace(options, to=Target.spot) if is_back else options
    to_spot = options.to is Target.spot
    if to_spot and options.kept_on_demand >= 1:
        raise UsageError(
            "--on-demand-share 1 keeps everything on demand: nothing would move",
            "give a part of 1, such as 0.3",
        )
    moved, stays = movable(options, question)
    today = today_of(usage, fleet_costs(usage.fleet), is_held=usage.is_narrowed)
    suited = parts_of(options, question, moved)
    # the break-even is of all work that suits spot, whatever the rate; figures are of other work only if none does
    fixed = _owned(part for part in suited if part.advice.suits == SAFE) or _owned(suited) or suited
    parts = suited if is_described or not to_spot else list(map(_judged, suited))
    if not to_spot and any(part.cost() is None for part in parts):
        raise GpucostError(
            "interrupted so often, this work would practically never end", "more checkpoints, or a lower rate"
        )
    safe = [part for part in parts if part.advice.suits == SAFE]
    view = _View.of(options, question, moved, fixed)
    cost = moved_cost(today, safe)
    first_order: dict[str, Value] = {"cost_first_order": moved_cost(today, safe, formulas.first_order)}
    scenario = replace(today, cost=today.cost if cost is None else cost, more=first_order)
    findings, figures = list(view.findings()), view.figures()
    tables, ranges, more = _ranged(safe, fixed, today, is_described=is_described) if to_spot else ((), (), [])
    findings += more
    if not is_described:
        own_figures, own_tables, own_findings = _stored(options, usage, parts, moved, stays)
        figures, tables, findings = figures | own_figures, tables + own_tables, findings + own_findings
    title = f"Usage of {usage.scope_name}: {'on demand to spot' if to_spot and not is_back else 'spot to on demand'}"
    return Answer(
        kind="spot",
        title=title + _old_prices(question, moved, fixed),
        period=usage.period_name,
        today=scenario if is_back else today,
        scenario=today if is_back else scenario,
        figures=figures,
        assumptions=(
            *(usage.assumptions or _price_assumptions(list(moved.values()), usage.currency)),
            *_rate_assumptions(list(moved.values())),
            *options.assumptions(dict.fromkeys(item.node.provider for item in moved.values())),
            *_starting_over(fixed),
        ),
        ranges=ranges,
        break_even=view.break_even_sentences(),
        time=view.time_sentences(),
        findings=tuple(findings),
        tables=tables,
    )


def _owned(parts: Iterable[Part]) -> list[Part]:
    """The parts that a workload holds."""
    return [part for part in parts if part.owner]


def _judged(part: Part) -> Part:
    """The same part; work that would cost as much on spot at its own rate, or more, stays."""
    cost = part.cost()
    if part.advice.suits == NOT or (cost is not None and not cost >= part.today > 0):
        return part
    return replace(part, advice=Advice(NEEDS_WORK, RERUN) if part.advice.starts_over else Advice(NOT, DEAR))


def advised_to_stay(question: SpotQuery) -> set[Workload]:
    """Workloads on demand that would cost as much on spot, or more, or lose state, and those under a commitment."""
    options, fleet = SpotOptions(), question.usage.fleet
    try:
        moved, _ = movable(options, question)
    except GpucostError:
        moved = {}
    parts = map(_judged, parts_of(options, question, moved))
    leaving = {part.owner for part in parts if part.advice.suits != NOT and part.advice.why != RERUN}
    stays: dict[Workload, bool] = {}
    nodes = fleet.by_name
    for pod in fleet.pods:
        node = nodes[pod.place]
        if node.capacity_type == "on_demand":
            is_committed = any(price.is_committed for price in node.prices)
            is_kept = is_committed or (node.key in moved and pod.owner not in leaving)
            stays[pod.owner] = is_kept and stays.get(pod.owner, True)
    return {owner for owner, is_kept in stays.items() if is_kept}


def moved_cost(today: Position, parts: Sequence[Part], formula: Formula = exact) -> Decimal | None:
    """Today's cost with these parts moved; None if one would never end."""
    cost = today.cost
    for part in parts:
        there = part.cost(formula)
        if there is None:
            return None
        cost += there - part.today
    return cost


def _ranged(
    safe: Sequence[Part], fixed: Sequence[Part], today: Position, *, is_described: bool
) -> tuple[tuple[Rows, ...], tuple[Range, ...], list[str]]:
    """Savings at five rates of all work that suits spot; the cost of what moves at the ends of its rate; sentences."""
    rates = savings_by_rate(fixed)
    if not safe:
        return rates, (), []
    ends = cases(safe, today.cost)
    if len(ends.lines) == 1:
        return (*rates, ends), (), []
    least, *_, most = (line[2] for line in ends.lines)
    if most is None:
        message = "interrupted as often as the high end says, this work would practically never end"
        return (*rates, ends), (), [message]
    figure = "cost on spot" if is_described else "scenario cost"
    meaning = "between the 5 and 95 % ends of the rate of interruptions"
    return (*rates, ends), (Range(figure, least, most, today.currency, meaning),), []


def _stored(
    options: SpotOptions, usage: Usage, parts: Sequence[Part], moved: Moves, stays: Mapping[str, int]
) -> tuple[dict[str, Any], tuple[Rows, ...], list[str]]:
    """Figures, tables and sentences of the store's usage: what moves, what stays and why."""
    to_spot = options.to is Target.spot
    safe = [part for part in parts if part.advice.suits == SAFE]
    savings, tables = _by_workload(parts, usage)
    hours = sum(part.hours for part in safe) * (1 - options.kept_on_demand if to_spot else 1)
    gpu_hours = sum(item.node.gpus * sum(item.hours.values()) for item in moved.values())
    all_hours = sum(sum(item.hours.values()) for item in moved.values())
    figures = {
        "moved_nodes": len(moved),
        "moved_node_hours": round(hours, _DIGITS),
        "moved_gpu_hours": round(hours * gpu_hours / all_hours, _DIGITS),
        "saving_by_suitability": savings,
    }
    findings = []
    if to_spot:
        if not safe:
            findings.append("nothing here is both safe to move and cheaper on spot: no saving is counted")
        findings += [
            f"{text}: {savings[suits]:,.2f} {usage.currency}, not counted above"
            for suits, text in _MORE.items()
            if savings[suits] > 0
        ]
    findings += [f"{count} node(s) stay as they are: {why}" for why, count in sorted(stays.items())]
    return figures, tables, findings


def _old_prices(question: SpotQuery, moved: Moves, parts: Sequence[Part]) -> str:
    """Which prices of moved nodes are old, for a title."""
    owners = {part.owner for part in parts}
    used = [item for item in moved.values() if owners & item.hours.keys()]
    is_described = question.usage.is_described
    at = datetime.now(UTC) if is_described else from_ms(max(item.node.to_ms for item in used))
    dated = [
        (item.node.instance_type or "nodes", price)
        for item in used
        for price in (*item.prices, *item.node.prices)
    ]
    return old_prices(dated, at.date(), question.stale_after_days)


def _starting_over(parts: Sequence[Part]) -> Iterator[Assumption]:
    """How much work an interruption costs workloads without checkpoints."""
    over = [part for part in parts if part.advice.starts_over]
    if over:
        mean = sum(part.run_hours * part.hours for part in over) / sum(part.hours for part in over)
        yield Assumption(
            "without known checkpoints a run starts over: its length", round(mean, 2), "hours", "store, mean"
        )


def _by_workload(parts: Sequence[Part], usage: Usage) -> tuple[dict[str, Decimal], tuple[Rows, ...]]:
    """Savings by suitability; why what does not move stays; the workloads on nodes that could move. Runs of one name together."""
    team_of = {pod.owner: pod.team for pod in usage.fleet.pods}
    rows: dict[tuple[str, str, str, Advice], list[Any]] = defaultdict(lambda: [0, Decimal(0), Decimal(0)])
    left: dict[Advice, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    savings = {SAFE: Decimal(0), NEEDS_WORK: Decimal(0), NOT: Decimal(0)}
    for part in parts:
        cost = part.cost()
        after = part.today if cost is None else cost
        savings[part.advice.suits] += part.today - after
        if part.advice.suits != SAFE:
            sums = left[part.advice]
            sums[:] = sums[0] + part.today, sums[1] + part.today - after
        if part.owner:
            _, namespace, workload = part.owner
            row = rows[team_of[part.owner], namespace, base_name(workload), part.advice]
            row[:] = max(row[0], part.gang), row[1] + part.today, row[2] + after
    order = list(savings)
    below = [
        (advice.suits.replace("_", " "), round(today, 2), round(saving, 2), advice.why)
        for advice, (today, saving) in sorted(
            left.items(), key=lambda item: (order.index(item[0].suits), -item[1][0], item[0])
        )
    ]
    lines: list[Line] = []
    for (_, namespace, workload, advice), (gang, today, after) in sorted(
        rows.items(), key=lambda item: (order.index(item[0][3].suits), -item[1][1], item[0])
    ):
        money = (round(amount, 2) for amount in (today, after, today - after))
        lines.append((namespace, workload, advice.suits.replace("_", " "), gang, *money, advice.why))
    title = "Workloads on nodes that could move"
    columns = ("namespace", "workload", "suits spot", "nodes at once", "today", "scenario", "saving", "why")
    stay = Rows.of("Left on demand, and what it would save", ("suits spot", "today", "saving", "why"), below)
    return savings, (*stay, *(Rows.top(title, columns, lines, "and {} more") or (Rows(title, columns, ()),)))


def _price_assumptions(moved: Sequence[Moved], currency: str) -> tuple[Assumption, ...]:
    """One price per instance type: the mean over its nodes' hours."""
    alike: dict[tuple[str, str, str | None], list[Moved]] = defaultdict(list)
    for item in moved:
        alike[item.node.instance_type or "nodes", item.prices[0].source, item.prices[0].as_of].append(item)
    assumptions = []
    for (name, source, as_of), items in sorted(alike.items(), key=lambda entry: str(entry[0])):
        price = sum(item.price * item.node.hours for item in items) / sum(item.node.hours for item in items)
        unit = f"{currency} per node-hour"
        assumptions.append(Assumption(f"price of {name} there", round(price, _DIGITS), unit, source, as_of))
    return tuple(assumptions)


def _rate_assumptions(moved: Sequence[Moved]) -> tuple[Assumption, ...]:
    rates = {(item.node.instance_type or "nodes", item.node.region): item.rate for item in moved}
    if len(set(rates.values())) == 1:
        return (rate_assumption(moved[0].rate),)
    return tuple(
        rate_assumption(rate, f"interruptions of {name}")
        for (name, _), rate in sorted(rates.items(), key=str)
    )


@record
class Described(OptionGroup):
    """What options say of a fleet; prices are per node or per GPU, None is not given."""

    on_demand_price: flags.OnDemandPrice | None = None
    spot_price: flags.SpotPrice | None = None
    price_per: flags.Per = PricePer.node
    instance_type: Annotated[str | None, Option("Look prices, GPUs and interruptions of it up.", "TYPE")] = (
        None
    )
    region: Annotated[str | None, Option("Of --instance-type.", "REGION")] = None
    zone: Annotated[str | None, Option("Of --instance-type.", "ZONE")] = None
    nodes: flags.Nodes = 1
    gpus: flags.Gpus | None = None
    hours: flags.Hours | None = None
    active_hours_per_day: flags.ActiveHours | None = None
    days: flags.Days | None = None

    def price(
        self, con: DuckDBPyConnection, settings: Config, target: Target, gpus: float, place: Place | None
    ) -> Price:
        """The option's price, otherwise the place's. Raises UsageError without any."""
        name, given = f"--{target}-price", self.spot_price if target is Target.spot else self.on_demand_price
        if given is not None:
            return Price(node_price(given, self.price_per, gpus), "option")
        if place is None:
            raise UsageError(
                f"{name} is missing", f"give {name}, or --instance-type and --region to look it up"
            )
        if price := read_price(con, settings, place, gpus, target):
            return price
        where = f" in {place.zone or place.region}" if place.zone or place.region else ""
        raise UsageError(
            f"no {target} price of {place.instance_type}{where} in {settings.currency} is known",
            f"give {name}" + ("" if place.region else ", or --region: prices differ between regions"),
        )


def find_place(con: DuckDBPyConnection, fleet: Described) -> tuple[Place, int]:
    """Where the instance type is bought, and its GPUs. Raises UsageError for a type that is not known."""
    provider, name, gpus = find_instance(con, fleet.instance_type or "")
    if gpus != int(gpus):
        raise UsageError(
            f"{name} holds {gpus:g} of a GPU", "give prices and --gpus instead of --instance-type"
        )
    if fleet.gpus not in (None, gpus):
        raise UsageError(f"{name} has {gpus:g} GPUs, not {fleet.gpus}", "leave out --gpus")
    return Place(name, provider, fleet.region, fleet.zone), int(gpus)


def described(
    con: DuckDBPyConnection, settings: Config, options: SpotOptions, fleet: Described, rate: Rate | None
) -> SpotQuery:
    """One of the nodes that options describe, moved to spot: its prices from options first, else of the store and the catalog.

    Raises UsageError where a price is missing, the checkpoint interval is longer than the job, or it would never end.
    """
    gpus, market, place = fleet.gpus or GPUS_PER_NODE, Market(Target.spot), None
    if fleet.instance_type is not None:
        place, gpus = find_place(con, fleet)
        market = Market(Target.spot, {}, {}, *read_rates(con))
    elif fleet.region or fleet.zone:
        raise UsageError(
            "--region and --zone say where an --instance-type is", "give --instance-type, or leave them out"
        )
    rate = rate or market.rate(place or Place(""))
    prices = {
        target: fleet.price(con, settings, target, gpus, place) for target in (Target.on_demand, Target.spot)
    }
    nodes, hours, unit = fleet.nodes, fleet.hours or HOURS_PER_MONTH, f"{settings.currency} per node-hour"
    options.check(hours)
    provider = place.provider if place else None
    if exact(options.work(rate.per_hour, options.hits(nodes), provider)) > ENDLESS_COST:
        raise UsageError(
            "interrupted so often, this work would practically never end",
            "more checkpoints, or fewer interruptions per hour",
        )
    name = (
        f"{place.instance_type}{f' in {place.region}' if place.region else ''}"
        if place
        else "described nodes"
    )
    node = one_node("Job/work", gpus, hours, prices[Target.on_demand])
    if place:
        node = node.with_nodes(lambda one: replace(one, provider=provider, instance_type=place.instance_type))
    usage = Usage(
        node,
        settings.currency,
        f"{nodes:,} node(s) of {gpus} GPUs, {hours:,g} h each",
        name,
        times=nodes,
        assumptions=tuple(priced(f"{target} price", price, unit) for target, price in prices.items()),
    )
    amount = prices[Target.spot].per_node_hour / (gpus if fleet.price_per is PricePer.gpu else 1)
    there = replace(prices[Target.spot], per_node_hour=amount)
    return SpotQuery(
        usage, market, rate, there, fleet.price_per, stale_after_days=settings.prices.stale_after_days
    )
