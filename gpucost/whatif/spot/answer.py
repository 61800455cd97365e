"""Actual usage moved from on demand to spot."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import from_ms
from gpucost.records import grouped, record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Line, Range, Rows, old_prices, priced, today_of
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import GPUS_PER_NODE, HOURS_PER_MONTH, PricePer, node_price, total
from gpucost.whatif.fleet import Price, Usage, Workload, one_node
from gpucost.whatif.spot import formulas
from gpucost.whatif.spot.advice import DEAR, NEEDS_WORK, NOT, RERUN, SAFE, Advice
from gpucost.whatif.spot.formulas import Work, exact
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import Market, Place, find_instance, read_price, read_rates
from gpucost.whatif.spot.moves import (
    Moved,
    Moves,
    SpotOptions,
    SpotQuery,
    base_name,
    movable,
    rate_assumption,
)
from gpucost.whatif.spot.parts import ENDLESS, ENDLESS_COST, Part, cases, parts_of, savings_by_rate

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config


_DIGITS = 6


@record
class _Means:
    """A fixed set of work by its means over node-hours: prices and rate per node-hour, and what interruptions make of them.

    Effective prices are of a useful GPU-hour. Hours are those of a gang: `useful` work, `paid`, and `elapsed` with waits.
    """

    work: Work
    rate: Rate
    gang: int
    gpus: float
    spot: float
    on_demand: float
    break_even: float | None
    effective: float
    useful: float
    paid: float
    elapsed: float


def _means_of(options: SpotOptions, moved: Moves, parts: Sequence[Part]) -> _Means:
    """The means over all that the parts hold."""
    owners = {part.owner for part in parts}
    held = [(item, time) for item in moved.values() for owner, time in item.hours.items() if owner in owners]
    hours = sum(time for _, time in held)
    gpus = _mean((item.node.gpus, time) for item, time in held)
    on_demand = _mean((item.node.mean_price, time) for item, time in held)
    spot = _mean((item.there.mean_price, time) for item, time in held)

    def mean(value: Callable[[Part], Any]) -> float:
        return _mean((value(part), part.hours) for part in parts)

    rate = Rate(mean(lambda part: part.rate.per_hour), "")
    if all(part.rate.low is not None for part in parts):
        rate = replace(rate, low=mean(lambda part: part.rate.low), high=mean(lambda part: part.rate.high))
    gang = max(1, round(mean(lambda part: part.gang)))
    mean_options = replace(
        options,
        checkpoint_minutes=mean(lambda part: part.options.checkpoint_minutes),
        checkpoint_write_minutes=mean(lambda part: part.options.checkpoint_write_minutes),
        notice_seconds=0.0 if all(part.advice.starts_over for part in parts) else options.notice_seconds,
    )
    work = mean_options.work(rate.per_hour, options.hits(gang), parts[0].provider)

    today = sum(float(part.today) for part in parts)

    def relative_cost(per_hour: float) -> float:
        return sum(part.cost_at(per_hour) for part in parts) / today

    even = formulas.crossing(relative_cost, 1.0) if today else None
    effective = sum(part.cost_at(part.rate.per_hour) for part in parts) / (hours * gpus)
    useful = hours / gang
    paid = formulas.expected_hours(work, useful)
    elapsed = paid + options.wait_hours * paid * work.gang_rate
    return _Means(
        work, rate, gang, gpus, spot, on_demand, even, effective, useful, paid, elapsed
    )  # fmt: skip


def _mean(values: Iterable[tuple[float, float]]) -> float:
    """The mean of (value, weight); of equal values that value, to the last digit."""
    weighted = list(values)
    if len({value for value, _ in weighted}) == 1:
        return weighted[0][0]
    return sum(value * weight for value, weight in weighted) / sum(weight for _, weight in weighted)


def _finite(value: float) -> float | None:
    return round(value, _DIGITS) if math.isfinite(value) else None


def _figures(means: _Means, per: PricePer) -> dict[str, Any]:
    """The figures of JSON answers."""
    work, best = means.work, formulas.best_checkpoints(means.work)
    gpus, share = (1.0, 1 / means.gpus) if per is PricePer.gpu else (means.gpus, 1.0)
    return {
        "price_per": per,
        "on_demand_price": round(means.on_demand * share, 9),
        "spot_price": round(means.spot * share, 9),
        "effective_price_exact": _finite(means.effective * gpus),
        "interruptions_per_hour": means.rate.per_hour,
        "interruptions_per_hour_low": means.rate.low,
        "interruptions_per_hour_high": means.rate.high,
        "break_even_interruptions_per_hour": means.break_even,
        "optimal_checkpoint_minutes": best and round(best.exact * 60, _DIGITS),
        "optimal_checkpoint_minutes_daly": best and round(best.daly * 60, _DIGITS),
        "makespan_hours": {
            "without_interruptions": means.useful,
            "expected": _finite(means.elapsed),
            "expected_paid": _finite(means.paid),
            "expected_interruptions": _finite(means.paid * work.gang_rate),
        },
    }


def _price_sentences(means: _Means, per: PricePer, currency: str) -> Iterator[str]:
    """Whether there is a discount, and the effective price."""
    if means.spot >= means.on_demand:
        dearer = "more than on demand" if means.spot > means.on_demand else "as much as on demand"
        yield f"spot costs {dearer} here: there is no discount"
    gpus = 1.0 if per is PricePer.gpu else means.gpus
    if math.isfinite(means.effective):
        yield f"effective price: {means.effective * gpus:,.4f} {currency} per useful {per}-hour"


def _break_even_sentences(means: _Means) -> Iterator[str]:
    """The rate at which spot costs as much as on demand, next to the rate assumed."""
    even, rate = means.break_even, means.rate
    if even is None and exact(replace(means.work, per_hour=0.0)) < means.on_demand / means.spot:
        yield "spot costs less than on demand however often it is interrupted"
    elif even is None:
        yield "spot costs as much as on demand even if nothing is interrupted: there is no break-even"
    else:
        gang = f", in gangs of {means.gang} nodes" if means.gang > 1 else ""
        yield f"spot costs as much as on demand at {even:,.4g} interruptions per node-hour{gang}: one in {_span(1 / even)}"
        assumed = f"the rate assumed here is {rate.per_hour:,.4g}"
        if rate.low is not None and rate.high is not None:
            assumed += f" ({rate.low:,.4g} to {rate.high:,.4g})"
        if rate.per_hour:
            times = even / rate.per_hour
            assumed += (
                f": the break-even is {times:,.1f} times that" if times > 1 else ": more than the break-even"
            )
        yield assumed


def _span(hours: float) -> str:
    """A time in the unit that suits it."""
    if hours < 1:
        return f"{hours * 60:,.1f} minutes"
    return f"{hours:,.1f} h" if hours < 48 else f"{hours / 24:,.1f} days"


def _time_sentences(means: _Means, *, is_described: bool) -> Iterator[str]:
    """How interruptions lengthen work, and the interval of checkpoints that would cost least."""
    unit = "h" if is_described else "node-hours" if means.gang == 1 else f"hours of {means.gang} nodes"
    before, elapsed = means.useful, means.elapsed
    longer = (elapsed / before - 1) * 100 if before else 0.0
    yield f"{before:,.1f} {unit} of work take {elapsed:,.1f} {unit} on spot ({longer:.2f} % longer)"
    if exact(means.work) >= ENDLESS:
        yield "it would practically never end"
    if best := formulas.best_checkpoints(means.work):
        least, daly = best.exact * 60, best.daly * 60
        yield f"a checkpoint every {least:,.1f} minutes would cost least (Daly: {daly:,.1f})"


def answer(options: SpotOptions, question: SpotQuery) -> Answer:
    """What moving the usage costs, with interruptions. Only what suits spot moves.

    Raises GpucostError if nothing can be moved.
    """
    usage, is_described, per = question.usage, question.usage.is_described, question.price_per
    moved, stays = movable(options, question)
    today = today_of(usage, fleet_costs(usage.fleet), is_held=usage.is_narrowed)
    suited = parts_of(options, question, moved)
    # the break-even is of all work that suits spot, whatever the rate; figures are of other work only if none does
    fixed = _owned(part for part in suited if part.advice.suits == SAFE) or _owned(suited) or suited
    parts = suited if is_described else list(map(_judged, suited))
    safe = [part for part in parts if part.advice.suits == SAFE]
    means = _means_of(options, moved, fixed)
    scenario = replace(today, cost=today.cost - total(part.saving for part in safe))
    figures, findings = _figures(means, per), list(_price_sentences(means, per, usage.currency))
    tables = savings_by_rate(fixed)
    ranges: tuple[Range, ...] = ()
    if safe:
        ends = cases(safe, today.cost)
        tables += (ends,)
        least, most = ends.lines[0][2], ends.lines[-1][2]
        if most is None and len(ends.lines) > 1:
            findings.append(_NEVER)
        elif len(ends.lines) > 1:
            figure = "cost on spot" if is_described else "scenario cost"
            ranges = (Range(figure, least, most, usage.currency, _ENDS),)
    if not is_described:
        own_figures, own_tables, own_findings = _stored(options, usage, parts, moved, stays)
        figures, tables, findings = figures | own_figures, tables + own_tables, findings + own_findings
    title = f"Usage of {usage.scope_name}: on demand to spot"
    return Answer(
        kind="spot",
        title=title + _old_prices(question, moved, fixed),
        period=usage.period_name,
        today=today,
        scenario=scenario,
        figures=figures,
        assumptions=(
            *(usage.assumptions or _price_assumptions(moved.values(), usage.currency)),
            *_rate_assumptions(list(moved.values())),
            *options.assumptions(dict.fromkeys(item.node.provider for item in moved.values())),
            *_starting_over(fixed),
        ),
        ranges=ranges,
        break_even=tuple(_break_even_sentences(means)),
        time=tuple(_time_sentences(means, is_described=is_described)),
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
    moved: Moves = {}
    with suppress(GpucostError):
        moved, _ = movable(options, question)
    parts = map(_judged, parts_of(options, question, moved))
    leaving = {part.owner for part in parts if part.advice.suits != NOT and part.advice.why != RERUN}
    nodes = fleet.by_name
    staying: set[Workload] = set()
    going: set[Workload] = set()
    for pod in fleet.pods:
        node = nodes[pod.place]
        if node.capacity_type == "on_demand":
            is_committed = any(price.is_committed for price in node.prices)
            is_kept = is_committed or (node.key in moved and pod.owner not in leaving)
            (staying if is_kept else going).add(pod.owner)
    return staying - going


_NEVER = "interrupted as often as the high end says, this work would practically never end"
_ENDS = "between the 5 and 95 % ends of the rate of interruptions"
_MORE = {NEEDS_WORK: "with work, more could move", NOT: "what should not move would save"}


def _stored(
    options: SpotOptions, usage: Usage, parts: Sequence[Part], moved: Moves, stays: Mapping[str, int]
) -> tuple[dict[str, Any], tuple[Rows, ...], list[str]]:
    """Figures, tables and sentences of the store's usage: what moves, what stays and why."""
    savings = dict.fromkeys((SAFE, *_MORE), Decimal(0))
    for part in parts:
        savings[part.advice.suits] += part.saving
    safe = [part for part in parts if part.advice.suits == SAFE]
    hours = sum(part.hours for part in safe) * (1 - options.kept_on_demand)
    gpu_hours = sum(item.node.gpus * sum(item.hours.values()) for item in moved.values())
    all_hours = sum(sum(item.hours.values()) for item in moved.values())
    figures = {
        "moved_nodes": len(moved),
        "moved_node_hours": round(hours, _DIGITS),
        "moved_gpu_hours": round(hours * gpu_hours / all_hours, _DIGITS),
        "saving_by_suitability": savings,
    }
    findings = []
    if not safe:
        findings.append("nothing here is both safe to move and cheaper on spot: no saving is counted")
    findings += [
        f"{text}: {savings[suits]:,.2f} {usage.currency}, not counted above"
        for suits, text in _MORE.items()
        if savings[suits] > 0
    ]
    findings += [f"{count} node(s) stay as they are: {why}" for why, count in sorted(stays.items())]
    return figures, (*_left(parts), _workloads(parts, usage)), findings


def _old_prices(question: SpotQuery, moved: Moves, parts: Sequence[Part]) -> str:
    """Which prices of moved nodes are old, for a title."""
    owners = {part.owner for part in parts}
    used = [item for item in moved.values() if owners & item.hours.keys()]
    is_described = question.usage.is_described
    at = datetime.now(UTC) if is_described else from_ms(max(item.node.to_ms for item in used))
    dated = [
        (item.node.instance_type or "nodes", price)
        for item in used
        for price in (*item.there.prices, *item.node.prices)
    ]
    return old_prices(dated, at.date(), question.stale_after_days)


def _starting_over(parts: Sequence[Part]) -> Iterator[Assumption]:
    """How much work an interruption costs workloads without checkpoints."""
    over = [(part.run_hours, part.hours) for part in parts if part.advice.starts_over]
    if over:
        name = "without known checkpoints a run starts over: its length"
        yield Assumption(name, round(_mean(over), 2), "hours", "store, mean")


def _sums(
    parts: Iterable[Part], key: Callable[[Part], tuple[Any, ...]]
) -> list[tuple[tuple[Any, ...], list[Part], Decimal, Decimal]]:
    """(key, parts, today, saving) of parts with one key, which ends with their advice: what suits spot first, then by cost."""
    rows = []
    for name, alike in grouped((key(part), part) for part in parts).items():
        today, saving = total(part.today for part in alike), total(part.saving for part in alike)
        rows.append((name, alike, today, saving))
    order = (SAFE, *_MORE)
    return sorted(rows, key=lambda row: (order.index(row[0][-1].suits), -row[2], row[0]))


def _left(parts: Iterable[Part]) -> tuple[Rows, ...]:
    """Why what does not move stays, and what it would save."""
    lines: list[Line] = [
        (advice.suits.replace("_", " "), round(today, 2), round(saving, 2), advice.why)
        for (advice,), _, today, saving in _sums(parts, lambda part: (part.advice,))
        if advice.suits != SAFE
    ]
    columns = ("suits spot", "today", "saving", "why")
    return Rows.of("Left on demand, and what it would save", columns, lines)


def _workloads(parts: Iterable[Part], usage: Usage) -> Rows:
    """The workloads on nodes that could move, runs of one name together."""
    team_of = {pod.owner: pod.team for pod in usage.fleet.pods}

    def key(part: Part) -> tuple[Any, ...]:
        owner = part.owner or ("", "", "")
        return team_of[owner], owner[1], base_name(owner[2]), part.advice

    lines: list[Line] = []
    for (_, namespace, workload, advice), alike, today, saving in _sums(_owned(parts), key):
        money = (round(amount, 2) for amount in (today, today - saving, saving))
        gang = max(part.gang for part in alike)
        lines.append((namespace, workload, advice.suits.replace("_", " "), gang, *money, advice.why))
    title = "Workloads on nodes that could move"
    columns = ("namespace", "workload", "suits spot", "nodes at once", "today", "scenario", "saving", "why")
    return next(iter(Rows.top(title, columns, lines, "and {} more")), Rows(title, columns, ()))


def _price_assumptions(moved: Iterable[Moved], currency: str) -> tuple[Assumption, ...]:
    """One price per instance type: the mean over its nodes' hours."""
    alike = grouped(
        (
            (item.node.instance_type or "nodes", item.there.prices[0].source, item.there.prices[0].as_of),
            item.there,
        )
        for item in moved
    )
    assumptions = []
    for (name, source, as_of), nodes in sorted(alike.items(), key=lambda entry: str(entry[0])):
        price = sum(node.mean_price * node.hours for node in nodes) / sum(node.hours for node in nodes)
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
        self, con: DuckDBPyConnection, settings: Config, purchase_option: str, gpus: float, place: Place
    ) -> Price:
        """The option's price, otherwise the place's. Raises UsageError without any."""
        given = self.spot_price if purchase_option == "spot" else self.on_demand_price
        kind = purchase_option.replace("_", "-")
        name = f"--{kind}-price"
        if given is not None:
            return Price(node_price(given, self.price_per, gpus), "option")
        if not place.instance_type:
            raise UsageError(
                f"{name} is missing", f"give {name}, or --instance-type and --region to look it up"
            )
        if price := read_price(con, settings, place, gpus, purchase_option):
            return price
        where = f" in {place.zone or place.region}" if place.zone or place.region else ""
        raise UsageError(
            f"no {kind} price of {place.instance_type}{where} in {settings.currency} is known",
            f"give {name}" + ("" if place.region else ", or --region: prices differ between regions"),
        )


def find_place(con: DuckDBPyConnection, fleet: Described) -> tuple[Place, int]:
    """Where the instance type is bought, nowhere without one, and its GPUs. Raises UsageError for a type that is not known."""
    if fleet.instance_type is None:
        if fleet.region or fleet.zone:
            raise UsageError(
                "--region and --zone say where an --instance-type is",
                "give --instance-type, or leave them out",
            )
        return Place(""), fleet.gpus or GPUS_PER_NODE
    provider, name, gpus = find_instance(con, fleet.instance_type)
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
    place, gpus = find_place(con, fleet)
    market = Market({}, {}, *read_rates(con)) if place.instance_type else Market()
    rate = rate or market.rate(place)
    on_demand = fleet.price(con, settings, "on_demand", gpus, place)
    spot = fleet.price(con, settings, "spot", gpus, place)
    nodes, hours, unit = fleet.nodes, fleet.hours or HOURS_PER_MONTH, f"{settings.currency} per node-hour"
    if options.checkpoint_minutes > hours * 60 * (1 + 1e-9):
        raise UsageError(
            f"a checkpoint every {options.checkpoint_minutes:g} minutes is longer than the job of {hours:g} hours",
            "give --checkpoint-minutes up to the job's length, or more --hours",
        )
    if exact(options.work(rate.per_hour, options.hits(nodes), place.provider)) > ENDLESS_COST:
        raise UsageError(
            "interrupted so often, this work would practically never end",
            "more checkpoints, or fewer interruptions per hour",
        )
    name = place.instance_type or "described nodes"
    node = one_node("Job/work", gpus, hours, on_demand).with_nodes(
        lambda node: replace(node, provider=place.provider, instance_type=place.instance_type or None)
    )
    usage = Usage(
        node,
        settings.currency,
        f"{nodes:,} node(s) of {gpus} GPUs, {hours:,g} h each",
        f"{name} in {place.region}" if place.region else name,
        times=nodes,
        assumptions=(priced("on-demand price", on_demand, unit), priced("spot price", spot, unit)),
    )
    amount = spot.per_node_hour / (gpus if fleet.price_per is PricePer.gpu else 1)
    there = replace(spot, per_node_hour=amount)
    return SpotQuery(
        usage, market, rate, there, fleet.price_per, stale_after_days=settings.prices.stale_after_days
    )
