"""Low-priority work in another region or cloud, where it costs clearly less than at home, data and waiting counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value
from gpucost.whatif.cost import Block, charge, positions
from gpucost.whatif.fleet import Fleet, Scenario

_COLUMNS = ("work", "where", "instance", "spot per node-hour", "as of", "cost", "% of primary", "worth it")
_ROWS = 12
_CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere that the work could run: its spot price per GPU-hour. `zone` and `region` are '' where there is none."""

    provider: str
    region: str
    price_per_gpu_hour: Decimal
    source: str
    as_of: str | None = None
    zone: str = ""
    instance_type: str = ""
    is_stale: bool = False

    def __str__(self) -> str:
        return " ".join(word for word in (self.provider, self.zone or self.region) if word) or "elsewhere"


@dataclass(frozen=True, slots=True)
class Work:
    """Work of one GPU model in one place. `gpus` are those of a node, of which `starts` wait for their data and instance.

    `today` is what it costs now; None: what the primary's spot price makes of it.
    """

    name: str
    primary: Place
    gpu_hours: float
    gpus: float
    starts: float
    places: tuple[Place, ...]
    today: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Moving:
    """What moving costs. Egress is of all work together; a start waits `wait_minutes` on a node that is paid already."""

    at_most_percent: float
    egress_gb: Decimal
    price_per_gb_other_cloud: Decimal
    price_per_gb_other_region: Decimal
    wait_minutes: float
    delay_cost_per_hour: Decimal
    transfer_gbit_per_second: float

    def price_per_gb(self, work: Work, place: Place) -> Decimal:
        return self.price_per_gb_other_region if place.provider == work.primary.provider else self.price_per_gb_other_cloud

    @property
    def transfer_hours(self) -> float:
        return float(self.egress_gb) * 8 / self.transfer_gbit_per_second / 3600


def answer(
    works: Sequence[Work],
    moving: Moving,
    *,
    currency: str,
    period: str,
    assumptions: Sequence[Assumption] = (),
    findings: Sequence[str] = (),
) -> Scenario[Answer]:
    """Each work in its cheapest place, where that costs at most `at_most_percent` of its primary's spot price; else as it is.

    A place's cost is the work at its spot price, paid waiting, data moved, and what delay is worth.
    """
    whole = sum(work.gpu_hours for work in works)
    groups: dict[str, list[Block]] = {}
    for work in works:
        groups[f"{work.name} primary"] = [_nodes(work, work.primary, 0.0)]
        for index, place in enumerate(work.places):
            groups[f"{work.name} {index} nodes"] = [_nodes(work, place, moving.wait_minutes)]
            groups[f"{work.name} {index}"] = [
                *groups[f"{work.name} {index} nodes"],
                charge(_share(moving, work, whole) * moving.price_per_gb(work, place)),
                charge(moving.delay_cost_per_hour, _delay_hours(moving, work, whole)),
            ]
    told = yield from positions(currency, groups)
    records, chosen = _verdicts(works, moving, told)
    today = [_today(work, told) for work in works]
    scenario = [
        told[f"{work.name} {chosen[work.name]}"] if work.name in chosen else now for work, now in zip(works, today, strict=True)
    ]
    return Answer(
        kind="burst",
        title="Low-priority work in another region or cloud",
        period=period,
        today=sum(today, Position(Decimal(0), currency, 0.0, 0.0)),
        scenario=sum(scenario, Position(Decimal(0), currency, 0.0, 0.0)),
        figures={
            "price_per": "node",
            "at_most_percent": moving.at_most_percent,
            "best": {work.name: str(work.places[chosen[work.name]]) if work.name in chosen else None for work in works},
            "primary": [
                {
                    "work": work.name,
                    "spot_price_per_node_hour": _per_node(work, work.primary),
                    "cost": told[f"{work.name} primary"].cost,
                    "gpu_hours": round(work.gpu_hours, 6),
                }
                for work in works
            ],
            "places": records,
        },
        assumptions=(*assumptions, *_assumptions(works)),
        break_even=tuple(_break_even(work, moving, chosen, told, whole) for work in works),
        time=_time(works, moving, chosen),
        findings=(*_findings(works, chosen, told), *findings),
        tables=(_table(works, moving, records),) if records else (),
    )


def _per_node(work: Work, place: Place) -> Decimal:
    return place.price_per_gpu_hour * Decimal(repr(work.gpus))


def _nodes(work: Work, place: Place, wait_minutes: float) -> Block:
    return Block(work.gpu_hours / work.gpus + work.starts * wait_minutes / 60, _per_node(work, place), work.gpus)


def _share(moving: Moving, work: Work, whole: float) -> Decimal:
    """The part of the data that belongs to this work, by GPU-hours."""
    return moving.egress_gb * Decimal(repr(work.gpu_hours / whole)) if whole else Decimal(0)


def _delay_hours(moving: Moving, work: Work, whole: float) -> float:
    """Waiting of all its starts, and for its data."""
    return work.starts * moving.wait_minutes / 60 + moving.transfer_hours * (work.gpu_hours / whole if whole else 0.0)


def _today(work: Work, told: Mapping[str, Position]) -> Position:
    primary = told[f"{work.name} primary"]
    return primary if work.today is None else Position(work.today, primary.currency, primary.gpu_hours, primary.node_hours)


def _verdicts(
    works: Sequence[Work], moving: Moving, told: Mapping[str, Position]
) -> tuple[list[dict[str, Value]], dict[str, int]]:
    """Every place with its verdict, cheapest first, and the best place of each work that has one."""
    records: list[dict[str, Value]] = []
    chosen: dict[str, int] = {}
    for work in works:
        primary = told[f"{work.name} primary"].cost
        order = sorted(range(len(work.places)), key=lambda index: (told[f"{work.name} {index}"].cost, str(work.places[index])))
        for index in order:
            place, cost = work.places[index], told[f"{work.name} {index}"].cost
            percent = float(cost / primary * 100)
            is_worth = cost <= primary * Decimal(repr(moving.at_most_percent)) / 100
            # Moving what is cheaper still today (a contract price, say) would be a loss.
            if is_worth and cost < _today(work, told).cost:
                chosen.setdefault(work.name, index)
            records.append(
                {
                    "work": work.name,
                    "provider": place.provider,
                    "region": place.region,
                    "zone": place.zone or None,
                    "instance_type": place.instance_type or None,
                    "spot_price_per_node_hour": _per_node(work, place),
                    "price_as_of": place.as_of,
                    "source": place.source,
                    "cost": cost,
                    "percent_of_primary": round(percent, 6),
                    "is_worth_it": is_worth,
                }
            )
    return records, chosen


def _table(works: Sequence[Work], moving: Moving, records: Sequence[dict[str, Value]]) -> Rows:
    lines: list[tuple[Value, ...]] = []
    left = 0
    for work in works:
        of_work = [record for record in records if record["work"] == work.name]
        left += max(0, len(of_work) - _ROWS)
        lines += [_line(record) for record in of_work[:_ROWS]]
    note = f"Worth it: at most {moving.at_most_percent:g} % of what the work costs at the primary's spot price."
    return Rows("places, cheapest first", _COLUMNS, tuple(lines), note=note + (f" And {left} dearer places." if left else ""))


def _line(record: Mapping[str, Value]) -> tuple[Value, ...]:
    where = " ".join(str(word) for word in (record["provider"], record["zone"] or record["region"]) if word)
    cost, percent = record["cost"], record["percent_of_primary"]
    return (
        record["work"], where, record["instance_type"] or "-", record["spot_price_per_node_hour"], record["price_as_of"] or "-",
        round(cost, 2) if isinstance(cost, Decimal) else cost, round(percent, 1) if isinstance(percent, float) else percent,
        "yes" if record["is_worth_it"] else "no",
    )  # fmt: skip


def _break_even(work: Work, moving: Moving, chosen: Mapping[str, int], told: Mapping[str, Position], whole: float) -> str:
    if work.name not in chosen:
        return (
            f"{work.name}: no place costs at most {moving.at_most_percent:g} % of the primary's spot price, and less than today."
        )
    index = chosen[work.name]
    place, limit = work.places[index], told[f"{work.name} primary"].cost * Decimal(repr(moving.at_most_percent)) / 100
    cost, nodes = told[f"{work.name} {index}"].cost, told[f"{work.name} {index} nodes"].cost
    dearer = (limit - cost) / nodes * 100
    said = f"{work.name}: {place} is worth it until its spot price rises by {dearer:,.1f} %"
    per_gb = moving.price_per_gb(work, place)
    if per_gb:
        more = _share(moving, work, whole) + (limit - cost) / per_gb
        said += f", or {more:,.0f} GB are moved instead of {_share(moving, work, whole):,.0f}"
    return said + "."


def _time(works: Sequence[Work], moving: Moving, chosen: Mapping[str, int]) -> tuple[str, ...]:
    if not chosen:
        return ("Nothing moves, so nothing waits.",)
    starts = sum(work.starts for work in works if work.name in chosen)
    return (
        f"Each start waits {moving.wait_minutes:g} min longer, {starts * moving.wait_minutes / 60:,.1f} h in all;"
        f" the data takes {moving.transfer_hours:,.1f} h to move.",
        "Spot is interrupted elsewhere, too, maybe more often: gpucost whatif spot counts that.",
    )


def _findings(works: Iterable[Work], chosen: Mapping[str, int], told: Mapping[str, Position]) -> list[str]:
    said = []
    for work in works:
        if not work.places:
            said.append(f"{work.name}: no spot price of this GPU is known in another place; gpucost collect spot asks for some.")
        if work.name in chosen and (place := work.places[chosen[work.name]]).is_stale:
            said.append(f"{work.name}: the price of {place} is of {place.as_of}; look at today's before you move.")
        now, primary = _today(work, told).cost, told[f"{work.name} primary"].cost
        if now - primary >= _CENT and work.today is not None and work.name in chosen:
            said.append(
                f"{work.name}: {now - primary:,.2f} of the saving needs no move: spot where it runs costs {primary:,.2f}."
            )
    return said


def _assumptions(works: Sequence[Work]) -> list[Assumption]:
    rows = [
        Assumption(f"primary: {work.name}", _per_node(work, work.primary), f"money per hour of {work.gpus:g} GPUs, spot",
                   work.primary.source, work.primary.as_of)
        for work in works
    ]  # fmt: skip
    return [*rows, Assumption("instances with more GPUs", "are shared out", "by GPU", "default")]


def works_of(
    fleet: Fleet, spot_of: Mapping[tuple[str, str, str], Place], places_of: Mapping[str, Sequence[Place]]
) -> Scenario[tuple[tuple[Work, ...], tuple[str, ...]]]:
    """The pods of a fleet as work by (provider, region, GPU model), and what of it cannot be compared.

    The primary's spot price is what the fleet's own spot nodes cost there; `spot_of`, by these three, where it has none.
    `places_of` are the places that have a GPU model.
    """
    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    named = {}
    for pod in fleet.pods:
        node = nodes[pod.cluster, pod.node]
        kind = "spot" if node.capacity_type == "spot" else "other"
        named[pod] = (node.provider or "", node.region or "", node.gpu_model or "unknown GPU", kind)
    tagged = tuple(replace(pod, workload="\t".join(key), namespace="burst", team="burst") for pod, key in named.items())
    costs: dict[str, Decimal] = defaultdict(Decimal)
    (paid_today,) = yield (Fleet(fleet.nodes, tagged),)
    for (_, _, workload), amount in paid_today.by_workload.items():
        costs[workload] += amount
    groups = defaultdict(list)
    for pod, key in named.items():
        groups[key].append(pod)
    hours = {key: sum((pod.to_ms - pod.from_ms) * pod.gpus for pod in pods) / MS_PER_HOUR for key, pods in groups.items()}
    paid_spot = {
        key[:3]: Place(key[0], key[1], costs["\t".join(key)] / Decimal(repr(hours[key])), "store: mean spot price paid")
        for key in groups
        if key[3] == "spot" and hours[key] and costs["\t".join(key)]
    }
    works, said = [], []
    for key, pods in sorted(groups.items()):
        provider, region, model, kind = key
        paid = costs["\t".join(key)]
        name = " ".join(word for word in (model, provider, region, "on spot" if kind == "spot" else "on demand") if word)
        none = Place(provider, region, Decimal(0), "none")
        primary = paid_spot.get(key[:3]) or spot_of.get(key[:3], none)
        if not primary.price_per_gpu_hour:
            said.append(f"{name}: the primary's spot price is not known; {paid:,.2f} stays where it is.")
            continue
        most = max(pod.gpus for pod in pods)
        others = tuple(place for place in places_of.get(model, ()) if (place.provider, place.region) != (provider, region))
        starts = sum(pod.gpus for pod in pods) / most
        works.append(Work(name, primary, hours[key], most, starts, others, paid))
    return tuple(works), tuple(said)
