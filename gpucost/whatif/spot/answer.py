"""Actual usage moved from on demand to spot."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from operator import mul
from typing import TYPE_CHECKING, Annotated, Any

from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option
from gpucost.periods import MS_PER_HOUR, from_ms
from gpucost.records import grouped, record
from gpucost.whatif import flags
from gpucost.whatif.answer import (
    Answer,
    Assumption,
    Line,
    Position,
    Range,
    Rows,
    old_prices,
    priced,
    today_of,
)
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.curve import DescribedNodes
from gpucost.whatif.flags import GPUS_PER_NODE, HOURS_PER_MONTH, kept, node_price, total
from gpucost.whatif.fleet import Fleet, Node, Pod, Price, Usage, Workload
from gpucost.whatif.spot.advice import DEAR, NEEDS_WORK, NOT, RERUN, SAFE, Advice
from gpucost.whatif.spot.formulas import crossing, daly_interval, exact
from gpucost.whatif.spot.interruptions import Place, Rate
from gpucost.whatif.spot.market import Market, find_instance, read_price, read_rates
from gpucost.whatif.spot.moves import (
    Moved,
    Moves,
    SpotOptions,
    SpotQuery,
    base_name,
    movable,
    rate_assumption,
)
from gpucost.whatif.spot.parts import ENDLESS, Part, outcome, parts_of, savings_by_rate

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config


def _mean(rows: Sequence[Any], value: Callable[[Any], Any]) -> Any:
    """The mean of parts or nodes over their node-hours; of equal values that value, to the last digit."""
    values = [value(row) for row in rows]
    if len(set(values)) == 1:
        return values[0]
    hours = [row.hours for row in rows]
    return sum(map(mul, values, hours)) / sum(hours)


def _mean_rate(parts: Sequence[Part]) -> Rate:
    """How often the work's nodes are interrupted on average; a rate that an option gives has no ends."""
    low, high = _mean(parts, lambda part: part.rate.low), _mean(parts, lambda part: part.rate.high)
    return Rate(_mean(parts, lambda part: part.rate.per_hour), "", low=low, high=high)


def _break_even(parts: Sequence[Part]) -> float | None:
    """The rate at which the work costs as much on spot as today; None without one."""
    today = sum(float(part.today) for part in parts)
    return crossing(lambda rate: sum(part.cost_at(rate) for part in parts), today)


def _gang(parts: Sequence[Part]) -> int:
    """How many nodes the work needs at once, on average."""
    nodes: float = _mean(parts, lambda part: part.gang)
    return max(1, round(nodes))


def _break_even_sentences(parts: Sequence[Part], even: float | None, rate: Rate) -> Iterator[str]:
    """The rate at which spot costs as much as on demand, next to the rate assumed."""
    if even is None and sum(part.cost_at(0.0) for part in parts) < total(part.today for part in parts):
        yield "spot costs less than on demand however often it is interrupted"
    elif even is None:
        yield "spot costs as much as on demand even if nothing is interrupted: there is no break-even"
    else:
        yield f"spot costs as much as on demand at {even:,.4g} interruptions per node-hour"
        if (nodes := _gang(parts)) > 1 and not parts[0].options.on_demand_share:
            yield f"a gang of {nodes} nodes stops {_STOPS}"
        ends = "" if rate.low is None else f" ({rate.low:,.4g} to {rate.high:,.4g})"
        yield f"the rate assumed here is {rate.per_hour:,.4g}{ends}"


def _best_interval(parts: Sequence[Part], rate: Rate) -> float | None:
    """The minutes between checkpoints that cost least; None if they cost nothing, or nothing is lost."""
    options = parts[0].options
    write = options.checkpoint_write_minutes
    mean_write = _mean(parts, lambda part: 0.0 if part.advice.starts_over else write)
    written = replace(options, checkpoint_write_minutes=mean_write)
    hours = daly_interval(written.work(rate.per_hour, options.hits(_gang(parts)), parts[0].provider))
    return hours and round(hours * 60, 6)


def answer(question: SpotQuery) -> Answer:
    """What moving the usage costs, with interruptions. Only what suits spot moves.

    Raises GpucostError if nothing can be moved.
    """
    usage = question.usage
    moved, stays = movable(question)
    items = list(moved.values())
    today = today_of(usage, fleet_costs(usage.fleet), is_held=usage.is_narrowed)
    suited = parts_of(question, moved)
    # the break-even is of all work that suits spot, whatever the rate; figures are of other work only if none does
    owned = [part for part in suited if part.owner]
    fixed = [part for part in owned if part.advice.suits == SAFE] or owned or suited
    parts = suited if usage.is_described else list(map(_judged, suited))
    savings = dict.fromkeys(_ORDER, Decimal(0))
    for part in parts:
        savings[part.advice.suits] += part.saving
    safe = [part for part in parts if part.advice.suits == SAFE]
    ranges, time = _ends(safe, today)
    even, rate = _break_even(fixed), _mean_rate(fixed)
    if interval := _best_interval(fixed, rate):
        time.append(f"a checkpoint every {interval:,.1f} minutes would cost least (Daly)")
    return Answer(
        kind="spot",
        title=f"Usage of {usage.scope_name}: on demand to spot{_old_prices(question, items)}",
        period=usage.period_name,
        today=today,
        scenario=replace(today, cost=today.cost - savings[SAFE]),
        figures={
            "interruptions_per_hour": rate.per_hour,
            "interruptions_per_hour_low": rate.low,
            "interruptions_per_hour_high": rate.high,
            "break_even_interruptions_per_hour": even,
            "optimal_checkpoint_minutes_daly": interval,
            "saving_by_suitability": savings,
        },
        assumptions=(
            *(usage.assumptions or _price_assumptions(items, usage.currency)),
            *_rate_assumptions(items),
            *question.options.assumptions(item.node.provider for item in items),
            *_starting_over(fixed),
        ),
        ranges=ranges,
        break_even=tuple(_break_even_sentences(fixed, even, rate)),
        time=tuple(time),
        findings=tuple(_findings(fixed, safe, stays)),
        tables=(savings_by_rate(fixed), *(() if usage.is_described else _workloads(parts))),
    )


def _ends(parts: Sequence[Part], today: Position) -> tuple[tuple[Range, ...], list[str]]:
    """Between which ends cost and time of what moves lie, and what it does to time."""
    if not parts:
        return (), []
    low, middle, high = (outcome(parts, end) for end in ("low", "middle", "high"))
    time = [f"what moves takes {middle[1]:.2f} % longer, waits for capacity included"]
    if low == high:
        return (), time
    if math.isinf(high[0]):
        return (), [*time, "interrupted as often as the high end says, it would practically never end"]
    least, most = (kept(float(today.cost) + more) for more, _ in (low, high))
    cost = Range("scenario cost", least, most, today.currency, _ENDS)
    return (cost, Range("time", round(low[1], 2), round(high[1], 2), "% longer", _ENDS)), time


def _findings(fixed: Sequence[Part], safe: Sequence[Part], stays: Mapping[str, int]) -> Iterator[str]:
    """What speaks against the move, and what stays."""
    if total(part.there for part in fixed) >= total(part.today for part in fixed):
        yield "spot costs as much as on demand here, or more: there is no discount"
    if not safe:
        yield "nothing here is both safe to move and cheaper on spot: no saving is counted"
    for why, count in sorted(stays.items()):
        yield f"{count} node(s) stay as they are: {why}"


def _judged(part: Part) -> Part:
    """The same part; work that would cost as much on spot at its own rate, or more, stays."""
    if part.advice.suits == NOT or part.saving > 0:
        return part
    return replace(part, advice=Advice(NEEDS_WORK, RERUN) if part.advice.starts_over else Advice(NOT, DEAR))


def advised_to_stay(question: SpotQuery) -> set[Workload]:
    """Workloads on demand that would cost as much on spot, or more, or lose state, and those under a commitment."""
    fleet, moved = question.usage.fleet, Moves()
    with suppress(GpucostError):
        moved, _ = movable(question)
    parts = map(_judged, parts_of(question, moved))
    leaving = {part.owner for part in parts if part.advice.suits != NOT and part.advice.why != RERUN}
    nodes = {key: node for key, node in fleet.by_name.items() if node.capacity_type == "on_demand"}
    pods = [(pod.owner, nodes[pod.place]) for pod in fleet.pods if pod.place in nodes]
    going = set()
    for owner, node in pods:
        is_committed = any(price.is_committed for price in node.prices)
        is_kept = is_committed or (node.key in moved and owner not in leaving)
        if not is_kept:
            going.add(owner)
    return {owner for owner, _ in pods} - going


_ORDER = (SAFE, NEEDS_WORK, NOT)
_STOPS = "√n times as often as one, n times at the high end: derived, as any of 4 was hit 1.1 to 2.0 times as often as one"
_ENDS = "between the 5 and 95 % ends of the rate of interruptions"


def _old_prices(question: SpotQuery, moved: Collection[Moved]) -> str:
    """Which prices of nodes that can move are old, for a title."""
    last = from_ms(max(item.node.to_ms for item in moved))
    at = datetime.now(UTC) if question.usage.is_described else last
    dated: list[tuple[str, Price]] = []
    for item in moved:
        dated += [(item.name, price) for price in (*item.there.prices, *item.node.prices)]
    return old_prices(dated, at.date(), question.config.prices.stale_after_days)


def _starting_over(parts: Sequence[Part]) -> Iterator[Assumption]:
    """How much work an interruption costs workloads without checkpoints."""
    over = [part for part in parts if part.advice.starts_over]
    if over:
        hours = round(_mean(over, lambda part: part.run_hours), 2)
        name = "without known checkpoints a run starts over: its length"
        yield Assumption(name, hours, "hours", "store, mean")


def _workloads(parts: Iterable[Part]) -> tuple[Rows, ...]:
    """What is on nodes that could move, runs of one name together: what suits spot first, then by cost."""
    alike: dict[tuple[str, str, Advice], list[Part]] = defaultdict(list)
    for part in parts:
        _, namespace, workload = part.owner or ("", "", "unallocated")
        alike[namespace, base_name(workload), part.advice].append(part)
    rows: list[tuple[int, Decimal, Line]] = []
    for (namespace, workload, advice), several in alike.items():
        today, saving = total(part.today for part in several), total(part.saving for part in several)
        money = (round(amount, 2) for amount in (today, today - saving, saving))
        gang = max(part.gang for part in several)
        suits = advice.suits.replace("_", " ")
        line: Line = (namespace, workload, suits, gang, *money, advice.why)
        rows.append((_ORDER.index(advice.suits), -today, line))
    columns = ("namespace", "workload", "suits spot", "nodes at once", "today", "scenario", "saving", "why")
    lines = [line for *_, line in sorted(rows, key=lambda row: row[:2])]
    return Rows.top("Workloads on nodes that could move", columns, lines, "and {} more")


def _price_assumptions(moved: Iterable[Moved], currency: str) -> Iterator[Assumption]:
    """One price per instance type: the mean over its nodes' hours."""
    priced_nodes = ((item.name, item.there.prices[0], item.there) for item in moved)
    alike = grouped(((name, price.source, price.as_of), node) for name, price, node in priced_nodes)
    for (name, source, as_of), nodes in sorted(alike.items(), key=lambda entry: str(entry[0])):
        price = round(_mean(nodes, lambda node: node.mean_price), 6)
        yield Assumption(f"price of {name} there", price, f"{currency} per node-hour", source, as_of)


def _rate_assumptions(moved: Sequence[Moved]) -> Iterator[Assumption]:
    """One rate per instance type and region, or the only one."""
    rates = {(item.name, item.node.region): item.rate for item in moved}
    if len(set(rates.values())) == 1:
        yield rate_assumption(moved[0].rate)
        return
    for (name, _), rate in sorted(rates.items(), key=str):
        yield rate_assumption(rate, f"interruptions of {name}")


@record
class Described(DescribedNodes):
    """What options say of a fleet; prices are per node or per GPU, None is not given."""

    spot_price: flags.SpotPrice | None = None
    price_per: flags.Per = flags.PricePer.node
    zone: Annotated[str | None, Option("Zone of the instance type.", "ZONE")] = None
    gpus: flags.Gpus | None = None
    hours: flags.Hours | None = None


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
    if gpus != int(gpus) or fleet.gpus not in (None, gpus):
        raise UsageError(
            f"{name} has {gpus:g} GPUs",
            "leave out --gpus; of a part of a GPU give prices, and no --instance-type",
        )
    return Place(name, provider, fleet.region, fleet.zone), int(gpus)


def described(
    con: DuckDBPyConnection, settings: Config, options: SpotOptions, fleet: Described, rate: Rate | None
) -> SpotQuery:
    """One of the nodes that options describe, moved to spot: its prices from options first, else of the store and the catalog.

    Raises UsageError where a price is missing, the checkpoint interval is longer than the job, or it would never end.
    """
    place, gpus = find_place(con, fleet)
    rate = rate or read_rates(con)(place)

    def price(kind: str, given: Decimal | None) -> Price:
        if given is not None:
            return Price(node_price(given, fleet.price_per, gpus), "option")
        if place.instance_type and (listed := read_price(con, settings, place, gpus, kind)):
            return listed
        raise UsageError(
            f"--{kind.replace('_', '-')}-price is missing",
            f"give it, or --instance-type and --region of a place whose price in {settings.currency} is known",
        )

    on_demand, spot = price("on_demand", fleet.on_demand_price), price("spot", fleet.spot_price)
    nodes, hours, unit = (
        fleet.nodes or 1,
        fleet.hours or HOURS_PER_MONTH,
        f"{settings.currency} per node-hour",
    )
    if options.checkpoint_minutes > hours * 60 * (1 + 1e-9):
        raise UsageError(
            f"a checkpoint every {options.checkpoint_minutes:g} minutes is longer than the job of {hours:g} hours",
            "give --checkpoint-minutes up to the job's length, or more --hours",
        )
    if exact(options.work(rate.per_hour, options.hits(nodes), place.provider)) > ENDLESS:
        raise UsageError(
            "interrupted so often, this work would practically never end",
            "more checkpoints, or fewer interruptions per hour",
        )
    name = place.instance_type or "described nodes"
    # its hours begin at the epoch: what they cost does not depend on when they are
    end = max(1, round(hours * MS_PER_HOUR))
    kind = place.instance_type or None
    node = Node("work", gpus, 0, end, (on_demand,), provider=place.provider, instance_type=kind)
    usage = Usage(
        Fleet((node,), (Pod(node.name, "Job/work", gpus, 0, end),)),
        settings.currency,
        f"{nodes:,} node(s) of {gpus} GPUs, {hours:,g} h each",
        f"{name} in {place.region}" if place.region else name,
        times=nodes,
        assumptions=(priced("on-demand price", on_demand, unit), priced("spot price", spot, unit)),
    )
    market = Market(rate=lambda _: rate, price=spot)
    return SpotQuery(usage, market, settings, options)
