"""Actual usage moved from on demand to spot."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from operator import attrgetter, mul
from typing import Any

from gpucost.config.model import Config
from gpucost.errors import GpucostError, UsageError
from gpucost.periods import MS_PER_HOUR, from_ms
from gpucost.records import DuckDBPyConnection, frozen_dataclass, grouped
from gpucost.texts import family_of
from gpucost.whatif import flags
from gpucost.whatif.answer import (
    Answer,
    Assumption,
    Line,
    Position,
    Range,
    Rows,
    Tables,
    Texts,
    old_prices,
    priced,
    stated,
    today_of,
)
from gpucost.whatif.avoidable import NOTHING, staying_nodes, why_paid
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.curve import DescribedNodes
from gpucost.whatif.flags import GPUS_PER_NODE, HOURS_PER_MONTH, node_price, round_money, total
from gpucost.whatif.fleet import Fleet, Node, Pod, Price, Usage, Workload
from gpucost.whatif.spot.advice import COSTLY, NEEDS_WORK, NOT, RERUN, SAFE, Advice
from gpucost.whatif.spot.formulas import crossing, daly_interval, exact
from gpucost.whatif.spot.interruptions import Place, Rate
from gpucost.whatif.spot.market import Market, find_instance, read_price, read_rates
from gpucost.whatif.spot.moves import Moves, SpotOptions, SpotQuery, movable, rate_assumption
from gpucost.whatif.spot.parts import ENDLESS, SpotPart, SpotParts, parts_of, savings_by_rate

_ORDER = (SAFE, NEEDS_WORK, NOT)
_STOPS = "√n times as often as one, n times at the high end: derived, as any of 4 was hit 1.1 to 2.0 times as often as one"
_ENDS = "from the low (5 %) to the high (95 %) end of the interruption rate"


def _mean(rows: Sequence[Any], name: str) -> Any:
    """The mean of an attribute of parts or nodes, weighted by node-hours; for equal values that value, to the last digit."""
    values = list(map(attrgetter(name), rows))
    if len(set(values)) == 1:
        return values[0]
    hours = [row.hours for row in rows]
    return sum(map(mul, values, hours)) / sum(hours)


def answer(question: SpotQuery) -> Answer:
    """The cost of the usage on spot, with interruptions. Only work that suits spot moves.

    Raises GpucostError if no node can move.
    """
    usage, options = question.usage, question.options
    moved, stays = movable(question)
    if not moved:
        raise GpucostError(
            f"no on-demand usage of {usage.scope_name} in {usage.period_name} can be moved: "
            + "; ".join(f"{count} node{'' if count == 1 else 's'}: {why}" for why, count in stays.items()),
            "--spot-price gives a price; --month names another period",
        )
    today = today_of(usage, fleet_costs(usage.fleet), is_held=usage.is_narrowed)
    suited = parts_of(question, moved)
    # the break-even covers all work that suits spot, at any rate of its own; other work only if none does
    owned = [part for part in suited if part.owner]
    fixed = [part for part in owned if part.advice.suits == SAFE] or owned or suited
    parts = suited if usage.is_described else list(map(_judged, suited))
    savings = dict.fromkeys(_ORDER, NOTHING)
    for part in parts:
        savings[part.advice.suits] += part.saving
    safe = [part for part in parts if part.advice.suits == SAFE]
    ranges, time = _ends(safe, today)
    rates, break_even = _rates(fixed, options)
    if interval := rates["optimal_checkpoint_minutes_daly"]:
        break_even = (*break_even, f"a checkpoint every {interval:,.1f} minutes would cost least (Daly)")
    return Answer(
        kind="spot",
        title=f"Usage of {usage.scope_name}: on demand to spot{_old_prices(question, moved, fixed)}",
        period=usage.period_name,
        today=today,
        scenario=replace(today, cost=today.cost - savings[SAFE]),
        figures=rates | {"saving_by_suitability": savings},
        assumptions=(
            *usage.assumptions,
            *_price_assumptions(moved, usage.currency),
            *_rate_assumptions(moved),
            *stated(options),
            *_starting_over(fixed),
        ),
        ranges=ranges,
        break_even=break_even,
        time=tuple(time),
        findings=(*_findings(fixed, safe, stays), *_shared(usage, moved, safe)),
        tables=(savings_by_rate(fixed), *(() if usage.is_described else _workloads(parts))),
    )


def _rates(parts: SpotParts, options: SpotOptions) -> tuple[dict[str, Any], Texts]:
    """The assumed rate, the break-even and Daly's interval of the work as figures, and sentences about them."""
    rate, low, high = (_mean(parts, f"rate.{end}") for end in ("per_hour", "low", "high"))
    gang = max(1, round(_mean(parts, "gang")))
    work = options.work(rate, options.hits(gang))
    # work that starts over writes no checkpoints
    write = work.write * (1 - _mean(parts, "advice.starts_over"))
    hours = daly_interval(replace(work, write=write))
    on_demand = float(total(part.today for part in parts))
    even = crossing(lambda per_hour: sum(part.cost_at(per_hour) for part in parts), on_demand)
    figures = {
        "interruptions_per_hour": rate,
        "interruptions_per_hour_low": low,
        "interruptions_per_hour_high": high,
        "break_even_interruptions_per_hour": even,
        "optimal_checkpoint_minutes_daly": hours and round(hours * 60, 6),
    }
    if even is None:
        none = "the break-even is missing: spot costs less, or more, than on demand at every rate of interruptions"
        return figures, (none,)
    ends = "" if low is None else f" ({low:,.4g} to {high:,.4g})"
    texts = (
        f"spot costs as much as on demand at {even:,.4g} interruptions per node-hour",
        f"the assumed rate is {rate:,.4g}{ends}",
    )
    return figures, texts if options.hits(gang) == 1 else (*texts, f"a gang of {gang} nodes stops {_STOPS}")


def _ends(parts: SpotParts, today: Position) -> tuple[tuple[Range, ...], list[str]]:
    """The range of the cost, and how much longer the work that moves takes."""
    if not parts:
        return (), []
    longer = sum(part.longer_hours for part in parts) / sum(part.hours for part in parts)
    time = [f"moved work takes {longer * 100:.2f} % longer, including waits for capacity"]
    low, high = sum(part.low for part in parts), sum(part.high for part in parts)
    if low == high:
        return (), time
    if math.isinf(high):
        return (), [*time, "at the high end of the rate it would practically never end"]
    stays = float(today.cost - total(part.today for part in parts))
    return (
        Range("scenario cost", round_money(stays + low), round_money(stays + high), today.currency, _ENDS),
    ), time


def _findings(fixed: SpotParts, safe: SpotParts, stays: Mapping[str, int]) -> Iterator[str]:
    """Reasons against the move, and the nodes that stay."""
    if total(part.there for part in fixed) >= total(part.today for part in fixed):
        yield "spot costs at least as much as on demand: it has no discount here"
    if not safe:
        yield "no work here is both safe to move and cheaper on spot: no saving is counted"
    yield from staying_nodes(stays)


def _shared(usage: Usage, moved: Moves, safe: SpotParts) -> Iterator[str]:
    """The nodes that pods leave, and other pods keep up."""
    going = {part.owner for part in safe}
    staying = {pod.place for pod in (*usage.fleet.pods, *usage.others) if pod.owner not in going}
    left = [
        item for item in moved if item.node.key in staying and any(pod.owner in going for pod in item.pods)
    ]
    if left:
        yield f"Other pods stay on {len(left)} of these nodes: the saving there is cash once they are packed on fewer nodes"


def _judged(part: SpotPart) -> SpotPart:
    """The same part; work that costs at least as much on spot at its own rate stays."""
    if part.advice.suits == NOT or part.saving > 0:
        return part
    return replace(part, advice=Advice(NEEDS_WORK, RERUN) if part.advice.starts_over else Advice(NOT, COSTLY))


def advised_to_stay(question: SpotQuery) -> set[Workload]:
    """Workloads on demand that would cost as much on spot, or more, or lose state, and those on nodes paid in any case."""
    fleet, (moved, _) = question.usage.fleet, movable(question)
    parts = map(_judged, parts_of(question, moved))
    leaving = {part.owner for part in parts if part.advice.suits != NOT and part.advice.why != RERUN}
    able = {item.node.key for item in moved}
    nodes, owners, going = fleet.by_name, set(), set()
    for pod in fleet.pods:
        node = nodes[pod.place]
        if node.capacity_type == "on_demand":
            owners.add(pod.owner)
            stays = bool(why_paid(node)) or (node.key in able and pod.owner not in leaving)
            if not stays:
                going.add(pod.owner)
    return owners - going


def _old_prices(question: SpotQuery, moved: Moves, parts: SpotParts) -> str:
    """The old prices of nodes with work of these parts, for a title."""
    last = from_ms(max(item.node.to_ms for item in moved))
    at = datetime.now(UTC) if question.usage.is_described else last
    owners = {part.owner for part in parts}
    dated = []
    for item in moved:
        if None in owners or not owners.isdisjoint(pod.owner for pod in item.pods):
            dated += [(item.name, price) for price in (*item.there.prices, *item.node.prices)]
    return old_prices(dated, at.date(), question.config.prices.stale_after_days)


def _starting_over(parts: SpotParts) -> Iterator[Assumption]:
    """The work that an interruption costs workloads without checkpoints."""
    over = [part for part in parts if part.advice.starts_over]
    if over:
        hours = round(_mean(over, "run_hours"), 2)
        name = "length of a run that starts over, without known checkpoints"
        yield Assumption(name, hours, "hours", "store, mean")


def _workloads(parts: Iterable[SpotPart]) -> Tables:
    """Work on nodes that could move, runs of one name together: work that suits spot first, then by cost."""
    alike: dict[tuple[str, str, Advice], list[SpotPart]] = defaultdict(list)
    for part in parts:
        _, namespace, workload = part.owner or ("", "", "unallocated")
        # `Job/sweep-12` and `Job/sweep-13` are runs of `Job/sweep-*`
        alike[namespace, family_of(workload), part.advice].append(part)
    rows: list[tuple[int, Decimal, Line]] = []
    for (namespace, workload, advice), several in alike.items():
        today, saving = total(part.today for part in several), total(part.saving for part in several)
        money = (round(amount, 2) for amount in (today, today - saving, saving))
        gang = max(part.gang for part in several)
        line: Line = (namespace, workload, advice.suits.replace("_", " "), gang, *money, advice.why)
        rows.append((_ORDER.index(advice.suits), -today, line))
    columns = ("namespace", "workload", "suits spot", "nodes at once", "today", "scenario", "saving", "why")
    lines = [line for *_, line in sorted(rows, key=lambda row: row[:2])]
    return Rows.top("Workloads on nodes that could move", columns, lines, "and {} more")


def _price_assumptions(moved: Moves, currency: str) -> Iterator[Assumption]:
    """One price per instance type and source: the mean over its nodes' hours."""
    first = ((item.name, item.there.prices[0], item.there) for item in moved)
    alike = grouped(((name, price.source, price.as_of), node) for name, price, node in first)
    for (name, source, as_of), nodes in sorted(alike.items(), key=str):
        price = round(_mean(nodes, "mean_price"), 6)
        yield Assumption(f"spot price of {name}", price, f"{currency} per node-hour", source, as_of)


def _rate_assumptions(moved: Moves) -> Iterator[Assumption]:
    """One rate per instance type and region."""
    rates = {(item.name, item.node.region): item.rate for item in moved}
    for (name, _), rate in sorted(rates.items(), key=str):
        yield rate_assumption(rate, f"interruptions of {name}")


@frozen_dataclass
class Described(DescribedNodes):
    """A fleet that options describe; prices are per node or per GPU."""

    spot_price: flags.SpotPrice | None = None
    price_per: flags.Per = flags.PricePer.node
    gpus: flags.Gpus | None = None
    hours: flags.Hours | None = None


def find_place(con: DuckDBPyConnection, fleet: Described) -> tuple[Place, int]:
    """The place of the instance type (empty without one), and its GPUs. Raises UsageError for an unknown type."""
    if fleet.instance_type is None:
        if fleet.region:
            raise UsageError("--region needs an --instance-type", "give it, or leave out --region")
        return Place(""), fleet.gpus or GPUS_PER_NODE
    provider, name, gpus = find_instance(con, fleet.instance_type)
    if gpus != int(gpus) or fleet.gpus not in (None, gpus):
        raise UsageError(
            f"{name} has {gpus:g} GPUs",
            "leave out --gpus; for a part of a GPU give prices, and no --instance-type",
        )
    return Place(name, provider, fleet.region), int(gpus)


def described(
    con: DuckDBPyConnection, settings: Config, options: SpotOptions, fleet: Described, rate: Rate | None
) -> SpotQuery:
    """One of the nodes that options describe: its prices from options first, otherwise from the store and the catalog.

    Raises UsageError if a price is missing, the checkpoint interval is longer than the job, or the job would never end.
    """
    place, gpus = find_place(con, fleet)
    rate = rate or read_rates(con)(place)

    def price(kind: str, explicit: Decimal | None) -> Price:
        """The price per node-hour: the option, otherwise a known price."""
        if explicit is not None:
            return Price(node_price(explicit, fleet.price_per, gpus), "option")
        if place.instance_type and (list_price := read_price(con, settings, place, gpus, kind)):
            return list_price
        raise UsageError(
            f"--{kind.replace('_', '-')}-price is missing",
            f"give it, or --instance-type and --region of a place with a known price in {settings.currency}",
        )

    on_demand, spot = price("on_demand", fleet.on_demand_price), price("spot", fleet.spot_price)
    nodes, hours = fleet.nodes or 1, fleet.hours or HOURS_PER_MONTH
    if options.checkpoint_minutes > hours * 60 * (1 + 1e-9):
        raise UsageError(
            f"a checkpoint every {options.checkpoint_minutes:g} minutes is longer than the job of {hours:g} hours",
            "give --checkpoint-minutes up to the job's length, or more --hours",
        )
    if exact(options.work(rate.per_hour, options.hits(nodes))) > ENDLESS:
        raise UsageError(
            "at this rate of interruptions the work would practically never end",
            "give more checkpoints, or fewer interruptions per hour",
        )
    # the hours begin at the epoch, because their cost does not depend on the date
    end = max(1, round(hours * MS_PER_HOUR))
    kind = place.instance_type or None
    node = Node("work", gpus, 0, end, (on_demand,), provider=place.provider, instance_type=kind)
    name = kind or "described nodes"
    usage = Usage(
        Fleet((node,), (Pod(node.name, "Job/work", gpus, 0, end),)),
        settings.currency,
        f"{nodes:,} node{'' if nodes == 1 else 's'} with {gpus} GPUs, {hours:,g} h each",
        f"{name} in {place.region}" if place.region else name,
        times=nodes,
        assumptions=(priced("on-demand price", on_demand, f"{settings.currency} per node-hour"),),
    )
    return SpotQuery(usage, Market(rate=lambda _: rate, price=spot), settings, options)
