"""Fewer GPUs, slices of one, or other models for the same work, by memory, measured activity and speed."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from gpucost import inputs
from gpucost.errors import DataError, GpucostError, UsageError
from gpucost.options import Option, OptionGroup, number
from gpucost.periods import MS_PER_HOUR
from gpucost.price.listing import price_of_region
from gpucost.records import grouped, record
from gpucost.whatif import flags, share
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, old_prices, stated, today_of
from gpucost.whatif.avoidable import Held
from gpucost.whatif.cost import fleet_costs
from gpucost.whatif.flags import (
    DEAREST,
    GPUS_PER_NODE,
    HOURS_PER_MONTH,
    PricePer,
    kept,
    node_price,
    to_decimal,
    total,
)
from gpucost.whatif.fleet import Levels, Node, Pod, Price, Usage, Workload, is_batch
from gpucost.whatif.gpu_specs import Facts, GpuModel
from gpucost.whatif.packing import NO_SAVING, Change, emptied, less_cost, saved, scenario, today_held

if TYPE_CHECKING:
    from gpucost.price.listing import ListedPrice

# what a node's capacity is bought as; reserved capacity is paid whatever runs on it
PURCHASE = {"on_demand": "on_demand", "unknown": "on_demand", "spot": "spot", "flex_start": "flex_start"}


@record
class Offer:
    """An instance type's GPUs: up to `gpus` of them at `price_per_gpu_hour` each."""

    provider: str | None
    region: str | None
    instance_type: str | None
    gpu_model: str
    gpus: int
    purchase_option: str
    price_per_gpu_hour: Decimal
    source: str
    as_of: str | None = None

    @property
    def kind(self) -> tuple[str | None, ...]:
        """What has one price."""
        return self.provider, self.region, self.instance_type, self.purchase_option


def list_offers(rows: Iterable[ListedPrice]) -> list[Offer]:
    """Listed prices as offers of whole GPUs: one of each instance type, region and purchase option."""
    kinds = grouped(
        ((row.provider.lower(), row.region.lower(), row.instance_type, row.purchase_option), row)
        for row in rows
        if row.region and row.gpu_count and row.gpu_count >= 1 and row.price_per_hour > 0
    )
    offers = []
    for (provider, region, name, option), several in kinds.items():
        row = price_of_region(several)
        source = "spot_history" if row.origin == "spot_history" else "catalog"
        price = row.price_per_gpu_hour or row.price_per_hour
        gpus = int(row.gpu_count or 1)
        as_of = row.price_as_of.isoformat()
        offers.append(Offer(provider, region, name, row.gpu_model or "", gpus, option, price, source, as_of))
    return offers


def offers_near(listed: Callable[..., list[ListedPrice]], nodes: Sequence[Node]) -> list[Offer]:
    """List prices of whole GPUs in the regions of the nodes."""
    places = {
        "providers": tuple({node.provider for node in nodes if node.provider}),
        "regions": tuple({node.region for node in nodes if node.region}),
    }
    return list_offers(listed(None, purchase_options=tuple(PURCHASE.values()), **places))


def fleet_offers(nodes: Iterable[Node]) -> list[Offer]:
    """The prices of the fleet's own nodes: their latest ones, discounts and contracts included."""
    offers = {}
    for node in nodes:
        if node.is_priced and node.gpu_model and node.capacity_type in PURCHASE and node.gpus >= 1:
            price, gpus = node.prices[-1], round(node.gpus)
            place = (node.provider, node.region, node.instance_type, node.gpu_model, gpus)
            kind = (*place, PURCHASE[node.capacity_type])
            offers[kind] = Offer(*kind, round(price.per_node_hour / gpus, 12), price.source, price.as_of)
    return list(offers.values())


def merge(own: Sequence[Offer], listed: Sequence[Offer]) -> list[Offer]:
    """Both, list prices only where the fleet itself has no price of that instance type."""
    known = {offer.kind for offer in own}
    return [*own, *(offer for offer in listed if offer.kind not in known)]


@record
class Speeds:
    """Speeds by model, in any units that are the same for all; of several, the slowest counts.

    `across_vendors`: they are measured, so that work may move to another vendor's GPUs.
    """

    of: Mapping[str, tuple[float, ...]]
    source: str
    as_of: str | None = None
    across_vendors: bool = False

    def ratio(self, model: str, base: str) -> float | None:
        """How many GPUs of `base` one of `model` is worth; None where either is not known."""
        pairs = zip(self.of.get(model, ()), self.of.get(base, ()), strict=False)
        return min((speed / other for speed, other in pairs), default=None)


def catalog_speeds(facts: Facts) -> Speeds:
    """Dense FP16 throughput and memory bandwidth, the smaller ratio of the two: most work waits for one of them."""
    speeds, dates = {}, []
    for model in facts.models.values():
        if model.tflops and model.memory_gb_per_s:
            speeds[model.name] = (model.tflops, model.memory_gb_per_s)
            dates.append(model.as_of or "")
    return Speeds(speeds, "catalog (smaller of TFLOPS and GB/s)", max(dates, default="") or None)


def read_speeds(path: Path, facts: Facts) -> Speeds:
    """The user's table: CSV with the columns gpu_model, relative_speed. Raises DataError, naming file and line."""
    try:
        rows = list(csv.DictReader(inputs.text(path).splitlines(), strict=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise inputs.unreadable(path, error, _HINT) from None
    if not rows or not {"gpu_model", "relative_speed"} <= rows[0].keys():
        raise DataError(f"{path} holds no speeds, or other columns", _HINT)
    speeds: dict[str, tuple[float, ...]] = {}
    for line, row in enumerate(rows, 2):
        where = f"{path}, line {line}"
        try:
            speed = number(float, Option("", above=True), row["relative_speed"] or "")
        except ValueError:
            raise DataError(f"{where}: {row['relative_speed']!r} is no speed above 0", _HINT) from None
        speeds[facts.model(row["gpu_model"] or "", where).name] = (speed,)
    return Speeds(speeds, str(path), across_vendors=True)


_HINT = "its lines are gpu_model,relative_speed: A100-SXM4-40GB,1 and H100-80GB-HBM3,2.2"


# A batch job is spread over these counts; more than one GPU is taken to scale evenly.
_COUNTS = (1, 2, 3, 4, 6, 8, 16)
_TIE = 1e-9


@record
class Load:
    """What pods of a workload that are alike do with their `gpus`: `used` of them are ever active.

    `mean` and `high` are shares 0-1 of those. `memory_mib` is the most that one GPU held, None where that is not known: then
    the new GPUs need as much memory in all as those of today. `place` is the provider, region and purchase option of their
    nodes; `cost` what the GPUs cost today.
    """

    model: str
    gpus: int
    used: int
    mean: float
    high: float
    memory_mib: float | None
    is_batch: bool
    pods: tuple[Pod, ...] = ()
    place: tuple[str | None, ...] = ()
    cost: Decimal = Decimal(0)

    @property
    def owner(self) -> Workload:
        return self.pods[0].owner

    @property
    def name(self) -> str:
        """Namespace and workload."""
        return "/".join(self.owner[1:])

    @property
    def hours(self) -> float:
        """Pod-hours."""
        return sum(pod.length_ms for pod in self.pods) / MS_PER_HOUR

    @property
    def work(self) -> Decimal:
        """Units of work: active GPU-hours of today's model."""
        return to_decimal(round(self.hours * self.used * self.mean, 9))

    def per_work(self, cost: Decimal, digits: int) -> Decimal | None:
        """Per unit of work."""
        return round(cost / self.work, digits) if self.work else None


@record
class Margins(OptionGroup):
    """Percentages as in `whatif share`; a batch job may take `max_slowdown` times as long."""

    margin_percent: flags.Margin = 10.0
    headroom_percent: flags.Headroom = 20.0
    max_slowdown: Annotated[
        float,
        Option(
            "Batch work may take so many times as long. Default: 2.",
            above=True,
            says="batch work may take",
            unit="times as long",
        ),
    ] = 2.0

    @property
    def factor(self) -> float:
        """What is measured counts so many times."""
        return 1 + self.margin_percent / 100

    def sharing(self, method: share.Method) -> share.Sizing:
        """The same percentages for pods that share a GPU."""
        return share.Sizing(
            method, margin_percent=self.margin_percent, headroom_percent=self.headroom_percent
        )


@record
class Move:
    """`gpus` of an offer that do the work in `time_factor` times the hours."""

    load: Load
    offer: Offer
    gpus: int
    time_factor: float

    @property
    def order(self) -> tuple[Decimal, float, int, int]:
        """First what its GPUs cost while an hour's work of today is done: a price per unit of work; last the instance's size."""
        price = self.offer.price_per_gpu_hour * self.gpus * to_decimal(self.time_factor)
        return price, self.time_factor, self.gpus, self.offer.gpus

    @property
    def gpu_hours(self) -> Decimal:
        """GPU-hours on these GPUs."""
        return to_decimal(self.load.hours * self.gpus * self.time_factor)

    @property
    def cost(self) -> Decimal:
        """On these GPUs."""
        return kept(self.offer.price_per_gpu_hour * self.gpu_hours)

    @property
    def saving(self) -> Decimal:
        return self.load.cost - self.cost

    def then(self, pod: Pod, node: Node, *, is_empty: bool) -> Held:
        """The GPUs for a pod: of the same model on its own node, or one like it; otherwise on an instance to be bought.

        A node that does not become empty keeps the pod.
        """
        offer, gpus = self.offer, self.gpus
        end = pod.from_ms + round(pod.length_ms * self.time_factor)
        is_own = offer.instance_type == node.instance_type or not is_empty
        if is_own and offer.gpu_model == node.gpu_model:
            return Held(node, gpus, pod.from_ms, end, stays=not is_empty)
        size = max(offer.gpus, gpus)
        prices = (Price(offer.price_per_gpu_hour * size, offer.source, offer.as_of),)
        bought = replace(node, name="", gpus=size, prices=prices, instance_type=offer.instance_type)
        return Held(bought, gpus, pod.from_ms, end)


def fits(load: Load, offers: Iterable[Offer], facts: Facts, speeds: Speeds, margins: Margins) -> list[Move]:
    """All that can do it, the cheapest per unit of work first. Other vendors' GPUs need other software, and measured speeds."""
    today = facts.models.get(load.model)
    able: list[Move] = []
    for offer in offers:
        ratio, model = speeds.ratio(offer.gpu_model, load.model), facts.models.get(offer.gpu_model)
        if ratio is None or model is None:
            continue
        if not speeds.across_vendors and (today is None or today.vendor != model.vendor):
            continue
        for gpus in _counts(load, offer, ratio, margins):
            factor = time_factor(load, gpus, ratio)
            is_slow = load.is_batch and factor > margins.max_slowdown + _TIE
            if not is_slow and _holds(load, today, model, gpus, margins):
                able.append(Move(load, offer, gpus, factor))
    return sorted(able, key=lambda move: move.order)


def time_factor(load: Load, gpus: int, ratio: float) -> float:
    """Hours on `gpus` GPUs, each `ratio` times as fast, per hour of today.

    Of batch work the active share of the time shrinks or grows with speed, the rest (input, waiting) stays; everything else
    runs as long as it did.
    """
    if not load.is_batch:
        return 1.0
    return (1 - load.mean) + load.mean * load.used / (gpus * ratio)


def _counts(load: Load, offer: Offer, ratio: float, margins: Margins) -> list[int]:
    if load.is_batch:
        return [count for count in sorted({*_COUNTS, load.used}) if count <= offer.gpus]
    # what serves must be fast enough at its busiest
    least = load.used * load.high * margins.factor / (ratio * (1 - margins.headroom_percent / 100))
    return list(range(max(1, math.ceil(least - _TIE)), offer.gpus + 1))


def _holds(load: Load, today: GpuModel | None, model: GpuModel, gpus: int, margins: Margins) -> bool:
    """Whether the GPUs have the memory, together; what fits one GPU today is not spread over several."""
    filled = None if load.memory_mib is None else load.memory_mib * margins.factor
    limits = [limit for limit in (today and today.memory_mib, filled) if limit is not None]
    if not limits or model.memory_mib is None:
        return False
    each = min(limits)  # it runs on today's, margin or not
    return model.memory_mib >= each if load.used == 1 else gpus * model.memory_mib >= load.used * each


# A pod measured for less says nothing of GPUs that it never uses.
_LEAST_HOURS = 1.0


def has_whole_gpus(pod: Pod) -> bool:
    """Whether the pod holds whole GPUs, not parts of one."""
    return round(pod.gpus) >= 1 and abs(pod.gpus - round(pod.gpus)) < 1e-6


def loads_of(usage: Usage, levels: Levels) -> list[Load]:
    """What measured pods with whole GPUs of a known model do: means weighed by time, the busiest and fullest of those alike.

    Pods on reserved capacity are left out.
    """
    nodes = usage.fleet.by_name
    alike: dict[tuple[Any, ...], list[Pod]] = defaultdict(list)
    for pod in usage.fleet.pods:
        node = nodes[pod.place]
        if has_whole_gpus(pod) and node.gpu_model and node.capacity_type in PURCHASE:
            place = (node.provider, node.region, node.capacity_type)
            alike[pod.owner, node.gpu_model, round(pod.gpus), *place].append(pod)
    loads = []
    for (_, model, gpus, provider, region, capacity_type), pods in alike.items():
        measured = [(pod.length_ms, levels[pod.key]) for pod in pods if pod.key in levels]
        if not measured:
            continue
        mean = sum(level.mean * span for span, level in measured) / sum(span for span, _ in measured)
        found = [level for _, level in measured]
        long = [
            level.active_devices
            for level in found
            if level.measured_hours >= _LEAST_HOURS and level.devices >= gpus
        ]
        used = min(max(long, default=gpus), gpus)
        memories = [level.high_memory_mib for level in found if level.high_memory_mib is not None]
        loads.append(
            Load(
                model,
                gpus,
                used,
                min(mean * gpus / used, 1.0) if used else 0.0,
                max(level.high for level in found),
                max(memories) if len(memories) == len(found) else None,
                is_batch(pods[0]),
                tuple(pods),
                (provider, region, PURCHASE[capacity_type]),
                total(held.cost for held in today_held(usage, pods)),
            )
        )
    return loads


@record
class Sizer:
    """Offers, and what decides whether they can do the work of measured pods."""

    margins: Margins
    facts: Facts
    speeds: Speeds
    offers: Sequence[Offer]

    def moves(self, loads: Iterable[Load], *, other_models: bool = False) -> list[Move]:
        """Each load's cheapest GPUs, of its own model or of others, if they cost less."""
        found = []
        for load in loads:
            near = [
                offer
                for offer in self.offers
                if (offer.provider, offer.region, offer.purchase_option) == load.place
                and (offer.gpu_model != load.model) == other_models
            ]
            # without work there is nothing to size GPUs by
            able = fits(load, near, self.facts, self.speeds, self.margins) if load.used else []
            if able and (able[0].offer.gpu_model, able[0].gpus) != (load.model, load.gpus):
                found.append(able[0])
        return [move for move in found if move.saving > 0]

    def sized(self, usage: Usage, levels: Levels) -> Sized:
        """Fewer GPUs of the same model, and MIG slices for pods with one GPU if memory is measured."""
        loads = loads_of(usage, levels)
        moves = self.moves(loads)
        moved = tuple(chain.from_iterable(move.load.pods for move in moves))
        slices = Change()
        if share.has_memory(levels):
            rest = usage._replace(fleet=usage.fleet.without(moved))
            slices = share.share(rest, self.margins.sharing(share.Method.mig), levels, self.facts).change
        nodes, empty = usage.fleet.by_name, emptied(usage, moved + slices.pods)
        fewer = tuple(
            move.then(pod, nodes[pod.place], is_empty=pod.place in empty)
            for move in moves
            for pod in move.load.pods
        )
        return Sized(loads, moves, Change(moved, fewer), slices)


class Sized(NamedTuple):
    """Loads, the moves to fewer GPUs, and what they and the pods on slices change."""

    loads: list[Load]
    moves: list[Move]
    fewer: Change
    slices: Change

    @property
    def change(self) -> Change:
        return self.fewer + self.slices


@record
class DescribedLoad(OptionGroup):
    """Work that options describe, on which GPUs it runs, and the others that it is compared with."""

    gpu_model: Annotated[str | None, Option("The GPUs of today, in any spelling.", "NAME")] = None
    on_demand_price: flags.OnDemandPrice | None = None
    price_per: flags.Per = PricePer.node
    gpus: flags.Gpus = GPUS_PER_NODE
    utilization_percent: Annotated[
        float, Option("How busy the GPUs are. Default: 100.", most=100, says="GPUs are busy", unit="percent")
    ] = 100.0
    memory_per_gpu_mib: Annotated[
        float | None, Option("Memory that the work fills of each GPU.", above=True)
    ] = None
    hours: Annotated[float, replace(flags.HOURS, says="hours of work")] = HOURS_PER_MONTH
    to_gpu_model: Annotated[str | None, Option("The GPUs to compare with.", "NAME")] = None
    to_price: Annotated[
        Decimal | None,
        Option("Their price per hour, in --price-per (a node: of --to-gpus GPUs).", above=True, most=DEAREST),
    ] = None
    to_gpus: Annotated[int | None, Option("How many. Default: what costs least, up to 8.", least=1)] = None
    relative_speed: Annotated[
        float | None, Option("How many times as fast one of them is. Default: the catalog's.", above=True)
    ] = None
    serving: Annotated[bool, Option("The work runs all its hours, however fast the GPUs.")] = False


def _described(work: DescribedLoad, margins: Margins, speeds: Speeds, facts: Facts) -> tuple[Move, Speeds]:
    """The move that options describe, and the speeds of both models.

    Raises UsageError if options do not say enough, a model or its speed is not known, or the others cannot do the work.
    """
    price, to_price, to_gpus = work.on_demand_price, work.to_price, work.to_gpus
    if work.gpu_model is None or work.to_gpu_model is None or price is None or to_price is None:
        raise UsageError(
            "the GPUs to compare, or their prices, are missing",
            "--gpu-model, --on-demand-price, --to-gpu-model and --to-price tell them",
        )
    if work.price_per is PricePer.node and to_gpus is None:
        raise UsageError(
            "the number of GPUs of a node at --to-price is missing", "give --to-gpus, or --price-per gpu"
        )
    model, other = facts.model(work.gpu_model), facts.model(work.to_gpu_model, "--to-gpu-model")
    if work.relative_speed is not None:
        of = {model.name: (1.0,), other.name: (work.relative_speed,)}
        speeds = Speeds(of, "option", across_vendors=True)
    ratio = speeds.ratio(other.name, model.name)
    if ratio is None:
        raise UsageError(
            f"how fast {other.name} is beside {model.name} is not known to {speeds.source}",
            "--relative-speed 0.5 says it, or --speeds FILE",
        )
    per_gpu = round(node_price(to_price, work.price_per, to_gpus or 1) / (to_gpus or 1), 12)
    offer = Offer(None, None, None, other.name, to_gpus or GPUS_PER_NODE, "on_demand", per_gpu, "option")
    busy, filled = work.utilization_percent / 100, work.memory_per_gpu_mib
    name = "Deployment/work" if work.serving else "Job/work"
    pod = Pod("", name, work.gpus, 0, round(work.hours * MS_PER_HOUR))
    today = kept(node_price(price, work.price_per, work.gpus) * to_decimal(work.hours))
    load = Load(model.name, work.gpus, work.gpus, busy, busy, filled, not work.serving, (pod,), cost=today)
    if to_gpus:
        return Move(load, offer, to_gpus, time_factor(load, to_gpus, ratio)), speeds
    able = fits(load, [offer], facts, speeds, margins)
    if not able:
        raise UsageError(
            f"no count up to {GPUS_PER_NODE} of {other.name} has the memory and the speed for this work",
            "--to-gpus, --memory-per-gpu-mib or --max-slowdown says otherwise",
        )
    return able[0], speeds


def compare(work: DescribedLoad, margins: Margins, speeds: Speeds, facts: Facts, currency: str) -> Answer:
    """The work that options describe, on its GPUs and on others, also if those cost more. Raises UsageError as they do."""
    move, speeds = _described(work, margins, speeds, facts)
    load, gpus, hours, per = move.load, move.gpus, move.load.hours, f"per {work.price_per}-hour"
    model, other = facts.models[load.model], facts.models[move.offer.gpu_model]
    ratio = speeds.ratio(other.name, model.name) or 0.0
    then = (round(float(move.gpu_hours), 9), round(hours * move.time_factor, 9))
    return Answer(
        kind="rightsize",
        title=f"Other GPUs for {load.gpus} x {model.name}",
        period=f"{hours:g} hours",
        today=Position(
            load.cost, currency, hours * load.gpus, hours, {"gpus": load.gpus, "gpu_model": model.name}
        ),
        scenario=Position(move.cost, currency, *then, {"gpus": gpus, "gpu_model": other.name}),
        figures={
            "unit_of_work": f"active GPU-hour of {model.name}",
            "units_of_work": round(float(load.work), 6),
            "cost_per_unit_of_work_today": load.per_work(load.cost, 6),
            "cost_per_unit_of_work": load.per_work(move.cost, 6),
            "relative_speed": round(ratio, 6),
            "time_factor": round(move.time_factor, 6),
            "break_even_price_per_gpu_hour": round(load.cost / move.gpu_hours, 6),
        },
        assumptions=(
            *stated(margins, "margin_percent", "headroom_percent", "max_slowdown"),
            Assumption("price today", work.on_demand_price, per, "option"),
            Assumption("price of the others", work.to_price, per, "option"),
            *stated(work, "utilization_percent", "hours"),
            *(
                Assumption(f"memory of {one.name}", one.memory_mib, "MiB", "catalog", one.as_of)
                for one in (model, other)
            ),
            Assumption(
                "speed of one GPU beside the other", round(ratio, 4), "times", speeds.source, speeds.as_of
            ),
        ),
        break_even=(_break_even(move, "It", currency),),
        time=tuple(_time([move])),
        findings=tuple(_unfit(margins, move, facts)),
        tables=_table("Per unit of work", [move]),
    )


def answer(
    usage: Usage,
    margins: Margins,
    levels: Levels,
    facts: Facts,
    speeds: Speeds,
    listed: Sequence[Offer],
    *,
    other_models: bool = False,
    stale: tuple[date, int] | None = None,
) -> Answer:
    """The GPUs that measured workloads need: fewer of their model, or a MIG slice of one.

    `other_models`: below it stand the cheapest of other models per unit of work, which the scenario does not count. Prices over
    so many days old on a day (`stale`) stand in the title. Raises GpucostError if nothing was measured.
    """
    fleet = usage.fleet
    sizer = Sizer(margins, facts, speeds, merge(fleet_offers(fleet.nodes), listed))
    sized = sizer.sized(usage, levels)
    if not sized.loads:
        raise GpucostError(
            f"no pod of {usage.scope_name} with whole GPUs was measured in {usage.period_name}",
            "gpucost doctor says whether dcgm-exporter labels GPUs with their pods",
        )
    found, work = saved(usage, sized.change), NO_SAVING
    if fixed := share.without_preallocation(fleet, levels, facts):
        work = saved(usage, sizer.sized(usage, {**levels, **fixed}).change) - found
    others = sizer.moves(sized.loads, other_models=True) if other_models else []
    sliced = _time_slices(usage, sized, levels, sizer)
    figures = _figures(usage, sized) | share.saved_figures(found, work)
    figures |= {"memory_measured": share.has_memory(levels), "time_slices_saving": less_cost(usage, sliced)}
    if other_models:
        figures["other_models_saving"] = total(move.saving for move in others)
    how = "" if speeds.across_vendors else ": an estimate by dense FP16 throughput and memory bandwidth"
    today = today_of(usage, fleet_costs(fleet), is_held=True)
    is_limited = other_models and not speeds.across_vendors
    return Answer(
        kind="rightsize",
        title=f"Fewer or smaller GPUs for {usage.scope_name}{_old(sized.moves, stale)}",
        period=usage.period_name,
        today=today,
        scenario=scenario(today, usage, sized.change, found.cash),
        figures=figures,
        assumptions=_assumptions(usage, margins, speeds if others else None, [*sized.moves, *others]),
        break_even=(_break_evens(sized.moves, usage.currency),),
        time=tuple(_time(sized.moves)),
        findings=(
            *share.preallocation(work, usage.currency),
            *_findings(usage, levels, sized, sliced, is_limited=is_limited),
        ),
        tables=(
            *_table("Fewer GPUs of the same model", sized.moves),
            *_table(f"Other models, not counted above{how}{_old(others, stale)}", others),
        ),
    )


def _time_slices(usage: Usage, sized: Sized, levels: Levels, sizer: Sizer) -> Change:
    """Pods that could take turns on GPUs that MIG cannot cut: nothing is between them, so it is no part of the saving."""
    if not share.has_memory(levels):
        return Change()
    uncut = {name for name, model in sizer.facts.models.items() if not model.mig_slices}
    fleet = usage.fleet.without(sized.fewer.pods).only(lambda node: node.gpu_model in uncut)
    sizing = sizer.margins.sharing(share.Method.time_slicing)
    return share.share(usage._replace(fleet=fleet), sizing, levels, sizer.facts).change


def _old(moves: Iterable[Move], stale: tuple[date, int] | None) -> str:
    """Which of their list prices are old, for a title."""
    prices = []
    for offer in (move.offer for move in moves):
        if offer.source in ("catalog", "spot_history"):
            price = Price(offer.price_per_gpu_hour, offer.source, offer.as_of)
            prices.append((f"{offer.instance_type} {offer.purchase_option}", price))
    return old_prices(prices, *stale) if stale else ""


def _figures(usage: Usage, sized: Sized) -> dict[str, Any]:
    loads = sized.loads
    return {
        "workloads_measured": len({load.owner for load in loads}),
        "workloads_moved": len({move.load.owner for move in sized.moves}),
        "workloads_with_unused_gpus": len({load.owner for load in loads if 0 < load.used < load.gpus}),
        "saving_by_fewer_gpus": less_cost(usage, sized.fewer),
        "saving_by_mig_slices": less_cost(usage, sized.slices),
        "pods_on_mig_slices": len({pod.key for pod in sized.slices.pods}),
    }


def _table(title: str, moves: Sequence[Move]) -> tuple[Rows, ...]:
    """The moves, those that save most first."""
    saved = f"Together they save {total(move.saving for move in moves):,.2f}. " if len(moves) > 1 else ""
    return Rows.top(
        title,
        (
            "workload",
            "gpus_today",
            "gpus",
            "bought",
            "cost_today",
            "cost",
            "per_unit_today",
            "per_unit",
            "time_factor",
        ),
        [
            (
                move.load.owner[2],
                f"{move.load.gpus} x {move.load.model}",
                f"{move.gpus} x {move.offer.gpu_model}",
                f"{move.offer.instance_type or 'option'} {move.offer.purchase_option} ({move.offer.source})",
                round(move.load.cost, 2),
                round(move.cost, 2),
                move.load.per_work(move.load.cost, 4),
                move.load.per_work(move.cost, 4),
                round(move.time_factor, 3),
            )
            for move in sorted(
                moves, key=lambda move: (round(move.cost, 2) - round(move.load.cost, 2), move.load.owner[2])
            )
        ],
        "{} more workloads.",
        f"{saved}per_unit: cost per active GPU-hour of today's model.",
    )


def _unfit(margins: Margins, move: Move, facts: Facts) -> Iterator[str]:
    """What speaks against a count that was given."""
    load, gpus = move.load, move.gpus
    each = load.memory_mib or facts.models[load.model].memory_mib
    there = facts.models[move.offer.gpu_model].memory_mib
    if each and there and gpus * there < load.gpus * each:
        filled = "that the work fills" if load.memory_mib else "of today's GPUs (--memory-per-gpu-mib)"
        yield f"It may not fit: {gpus * there:,} MiB of memory in all, against {load.gpus * each:,.0f} MiB {filled}."
    if load.is_batch and move.time_factor > margins.max_slowdown:
        yield f"It takes more than {margins.max_slowdown:g} times as long (--max-slowdown)."


def _assumptions(
    usage: Usage, margins: Margins, speeds: Speeds | None, moves: Sequence[Move]
) -> tuple[Assumption, ...]:
    of_models: tuple[Assumption, ...] = ()
    if speeds:
        source = "option" if speeds.across_vendors else "catalog"
        of_models = (Assumption("speed of GPU models", speeds.source, "", source, speeds.as_of),)
    prices = set()
    for offer in (move.offer for move in moves):
        if offer.instance_type:
            name = f"a GPU of {offer.instance_type}, {offer.purchase_option}"
            price = round(offer.price_per_gpu_hour, 4)
            prices.add(Assumption(name, price, "per hour", offer.source, offer.as_of))
    return (
        *of_models,
        *stated(margins, "margin_percent", "headroom_percent", "max_slowdown"),
        Assumption("usage, activity and today's prices", usage.period_name, "", "store"),
        *sorted(prices, key=lambda price: price.name),
    )


def _break_evens(moves: Sequence[Move], currency: str) -> str:
    if not moves:
        return "No workload needs fewer GPUs of its model than it has."
    largest = max(moves, key=lambda move: move.load.cost)
    return _break_even(largest, f"The largest, {largest.load.owner[2]},", currency)


def _break_even(move: Move, who: str, currency: str) -> str:
    limit, offer = move.load.cost / move.gpu_hours, move.offer
    return (
        f"{who} saves as long as a {offer.gpu_model} costs less than {limit:,.4f} {currency} per GPU-hour"
        f" (now {offer.price_per_gpu_hour:,.4f})."
    )


def _time(moves: Sequence[Move]) -> Iterator[str]:
    factors = [move.time_factor for move in moves if move.load.is_batch]
    if factors:
        span = " to ".join(dict.fromkeys(f"{factor:.2f}" for factor in (min(factors), max(factors))))
        yield f"Batch work takes {span} times as long; everything else as long as it did."
    else:
        yield "What does not end by itself runs as long as it did; requests take as long as one GPU's speed says."
    if any(move.load.gpus > 1 or move.gpus > 1 for move in moves):
        yield "Several GPUs are taken to do as many times the work of one: what they tell each other is not counted."


def _findings(
    usage: Usage, levels: Levels, sized: Sized, sliced: Change, *, is_limited: bool
) -> Iterator[str]:
    if count := len({pod.key for pod in sized.slices.pods}):
        worth = f"{less_cost(usage, sized.slices):,.2f} of the saving"
        yield f"{count} pods with one GPU fit a MIG slice of it: {worth}. See gpucost whatif share --method mig."
    if count := len({pod.key for pod in sliced.pods}):
        worth = f"{less_cost(usage, sliced):,.2f} more, not counted above, as nothing keeps them apart"
        yield f"{count} pods could take turns on GPUs without MIG: {worth}. See gpucost whatif share."
    spare = [load for load in sized.loads if load.used < load.gpus]
    for load in sorted(spare, key=lambda load: (load.used - load.gpus, load.name))[:40]:
        if load.used:
            yield f"{load.name} asks for {load.gpus} GPUs and never used more than {load.used} of them."
        else:
            yield f"{load.name} held {load.gpus} GPUs and never used any: gpucost whatif schedule releases them."
    if not share.has_memory(levels):
        yield "Memory is not in the store (DCGM_FI_DEV_FB_USED): other GPUs are asked to have as much memory in all as today's."
    if is_limited:
        yield "Other vendors' GPUs need other software and are left out; --speeds with measured speeds brings them in."
    if parts := sum(not has_whole_gpus(pod) for pod in usage.fleet.pods):
        yield f"{parts} pods that hold parts of GPUs are left as they are."
    nodes = usage.fleet.by_name
    if reserved := sum(nodes[pod.place].capacity_type not in PURCHASE for pod in usage.fleet.pods):
        yield f"{reserved} pods on reserved capacity are left as they are: it is paid anyway."
    yield "Money leaves the bill only for nodes that become empty; other GPUs are free on nodes that stay."
