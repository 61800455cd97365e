"""Low-priority work in another region or cloud, where it costs clearly less than at home, data and waiting counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, NamedTuple

from gpucost.errors import UsageError
from gpucost.options import Option, OptionGroup
from gpucost.periods import MS_PER_HOUR
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, stated
from gpucost.whatif.cost import CostBlock, charge, fleet_costs, positions
from gpucost.whatif.flags import HOURS_PER_MONTH, PricePer, to_decimal
from gpucost.whatif.fleet import Fleet, Pod

_ROWS = 12
_CENT = Decimal("0.01")


@record
class BurstPlace:
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


@record
class BurstWork:
    """Work of one GPU model in one place. `gpus` are those of a node, of which `starts` wait for their data and instance.

    `today` is what it costs now; None: what the primary's spot price makes of it.
    """

    name: str
    primary: BurstPlace
    gpu_hours: float
    gpus: float
    starts: float
    places: tuple[BurstPlace, ...]
    today: Decimal | None = None

    def per_node(self, place: BurstPlace) -> Decimal:
        return place.price_per_gpu_hour * to_decimal(self.gpus)

    def nodes(self, place: BurstPlace, wait_hours: float) -> CostBlock:
        """What it takes in that place, each start waiting so long on a node that is paid already."""
        return CostBlock(
            self.gpu_hours / self.gpus + self.starts * wait_hours, self.per_node(place), self.gpus
        )


@record
class Moving(OptionGroup):
    """What moving costs. Egress is of all work together; a start waits `wait_minutes` on a node that is paid already."""

    at_most_percent: Annotated[
        float,
        Option("Worth it up to this share of the primary's spot price.", above=True, most=100, is_shown=True),
    ] = 70.0
    egress_gb: Annotated[Decimal, Option("Data that moves there and back, in all.", "GB", is_shown=True)] = (
        Decimal(0)
    )
    egress_price_per_gb: Annotated[
        Decimal | None,
        Option("Price of moving a GB, as its cloud charges it.", says="egress", unit="money per GB"),
    ] = None
    wait_minutes: Annotated[
        float | None,
        Option(
            "Needed: longer start on a paid node, for instance, image and data.",
            says="longer start",
            unit="min, paid",
        ),
    ] = None
    delay_cost_per_hour: Annotated[
        Decimal,
        Option("What an hour of waiting is worth. Default: 0.", says="delay", unit="money per hour waited"),
    ] = Decimal(0)
    transfer_gbit_per_second: Annotated[
        float | None,
        Option(
            "Speed at which data moves: how long that takes.", above=True, says="data moves at", unit="Gbit/s"
        ),
    ] = None

    def check(self) -> None:
        """Raises UsageError where a number that decides is not told: nothing is guessed."""
        if self.wait_minutes is None:
            raise UsageError(
                "how much longer a start takes elsewhere is not told",
                "--wait-minutes 15 tells it, 0 that nothing waits",
            )
        if self.egress_gb and self.egress_price_per_gb is None:
            raise UsageError(
                "what a GB costs that moves is not told",
                "--egress-price-per-gb tells it, as the cloud charges it",
            )
        if self.egress_gb and self.delay_cost_per_hour and self.transfer_gbit_per_second is None:
            raise UsageError(
                "how long the data moves is not told, and delay costs", "--transfer-gbit-per-second tells it"
            )

    @property
    def price_per_gb(self) -> Decimal:
        return self.egress_price_per_gb or Decimal(0)

    @property
    def wait_hours(self) -> float:
        """Of each start."""
        return (self.wait_minutes or 0.0) / 60

    def assumptions(self) -> Iterator[Assumption]:
        """What moving rests on."""
        yield Assumption("worth it", self.at_most_percent, "% of the primary's spot price", "option")
        yield Assumption("data", self.egress_gb, "GB in all", "option")
        yield from stated(
            self, "egress_price_per_gb", "wait_minutes", "delay_cost_per_hour", "transfer_gbit_per_second"
        )

    @property
    def transfer_hours(self) -> float:
        speed = self.transfer_gbit_per_second
        return float(self.egress_gb) * 8 / speed / 3600 if speed else 0.0


@record
class DescribedWork(OptionGroup):
    """Work that options describe, and where it could run."""

    spot_price: flags.SpotPrice | None = None
    price_per: flags.Per = PricePer.node
    gpus: flags.Gpus | None = None
    nodes: flags.Nodes = 1
    hours: flags.Hours = HOURS_PER_MONTH
    instance_type: Annotated[str | None, Option("Instance the work runs on, for its spot price.", "TYPE")] = (
        None
    )
    region: Annotated[str | None, Option("Primary region of that instance.", "NAME")] = None
    gpu_model: Annotated[
        str | None, Option("GPU that other places must have; else the instance's.", "NAME")
    ] = None
    place: Annotated[
        tuple[str, ...], Option("Another place and its spot price, in --price-per; repeatable.", "NAME=MONEY")
    ] = ()


class _Elsewhere(NamedTuple):
    """The work in a place: what it costs there, all counted, and on its nodes alone; and the verdict."""

    place: BurstPlace
    position: Position
    nodes_cost: Decimal
    percent: float  # of what it costs at the primary's spot price
    is_worth_it: bool


@record
class _Case:
    """A work with its `gb` of the data: at its primary's spot price, as it is paid today, and elsewhere, cheapest first."""

    work: BurstWork
    gb: Decimal
    primary: Position
    today: Position
    limit: Decimal
    elsewhere: list[_Elsewhere]

    @property
    def best(self) -> _Elsewhere | None:
        """Where to move; None where that is worth it nowhere, or would be a loss: a contract price may be cheaper still."""
        return next(
            (one for one in self.elsewhere if one.is_worth_it and one.position.cost < self.today.cost), None
        )


def answer(
    works: Sequence[BurstWork],
    moving: Moving,
    *,
    currency: str,
    period: str,
    assumptions: Sequence[Assumption] = (),
    findings: Sequence[str] = (),
) -> Answer:
    """Each work in its cheapest place, where that costs at most `at_most_percent` of its primary's spot price; else as it is.

    A place's cost is the work at its spot price, paid waiting, data moved, and what delay is worth.
    """
    moving.check()
    cases = _cases(works, moving, currency)
    everywhere = [(case.work, one, one.place) for case in cases for one in case.elsewhere]
    shown = [(case.work, one, one.place) for case in cases for one in case.elsewhere[:_ROWS]]
    dearer = f" And {left} dearer places." if (left := len(everywhere) - len(shown)) else ""
    none = Position(Decimal(0), currency)
    return Answer(
        kind="burst",
        title="Low-priority work in another region or cloud",
        period=period,
        today=sum((case.today for case in cases), none),
        scenario=sum((case.best.position if case.best else case.today for case in cases), none),
        figures={
            "price_per": "node",
            "at_most_percent": moving.at_most_percent,
            "best": {case.work.name: str(case.best.place) if case.best else None for case in cases},
            "primary": [
                {
                    "work": case.work.name,
                    "spot_price_per_node_hour": case.work.per_node(case.work.primary),
                    "cost": case.primary.cost,
                    "gpu_hours": round(case.work.gpu_hours, 6),
                }
                for case in cases
            ],
            "places": [
                {
                    "work": work.name,
                    "provider": place.provider,
                    "region": place.region,
                    "zone": place.zone or None,
                    "instance_type": place.instance_type or None,
                    "spot_price_per_node_hour": work.per_node(place),
                    "price_as_of": place.as_of,
                    "source": place.source,
                    "cost": one.position.cost,
                    "percent_of_primary": one.percent,
                    "is_worth_it": one.is_worth_it,
                }
                for work, one, place in everywhere
            ],
        },
        assumptions=(
            *assumptions,
            *moving.assumptions(),
            *(
                Assumption(f"primary: {work.name}", work.per_node(work.primary), f"money per hour of {work.gpus:g} GPUs, spot",
                           work.primary.source, work.primary.as_of)
                for work in works
            ),
            Assumption("instances with more GPUs", "are shared out", "by GPU", "default"),
        ),
        break_even=tuple(_break_even(case, moving) for case in cases),
        time=_time(cases, moving),
        findings=(*_findings(cases), *findings),
        tables=Rows.of(
            "places, cheapest first",
            ("work", "where", "instance", "spot per node-hour", "as of", "cost", "% of primary", "worth it"),
            [
                (work.name, str(place), place.instance_type or "-", work.per_node(place), place.as_of or "-",
                 round(one.position.cost, 2), round(one.percent, 1), "yes" if one.is_worth_it else "no")
                for work, one, place in shown
            ],
            f"Worth it: at most {moving.at_most_percent:g} % of what the work costs at the primary's spot price.{dearer}",
        ),
    )  # fmt: skip


def _cases(works: Sequence[BurstWork], moving: Moving, currency: str) -> list[_Case]:
    whole = sum(work.gpu_hours for work in works)
    shares = {
        work.name: work.gpu_hours / whole if whole else 0.0 for work in works
    }  # of the data, by GPU-hours
    data = {name: moving.egress_gb * to_decimal(share) for name, share in shares.items()}
    groups: dict[str, list[CostBlock]] = {}
    for work in works:
        groups[work.name] = [work.nodes(work.primary, 0.0)]
        # of all its starts, and for its data
        delay = work.starts * moving.wait_hours + moving.transfer_hours * shares[work.name]
        for index, place in enumerate(work.places):
            nodes = work.nodes(place, moving.wait_hours)
            moved = charge(data[work.name] * moving.price_per_gb)
            groups[f"{work.name} {index} nodes"] = [nodes]
            groups[f"{work.name} {index}"] = [nodes, moved, charge(moving.delay_cost_per_hour, delay)]
    costs = positions(currency, groups)
    cases = []
    for work in works:
        primary = costs[work.name]
        limit = primary.cost * to_decimal(moving.at_most_percent) / 100
        elsewhere = []
        for index, place in enumerate(work.places):
            position, nodes_cost = costs[f"{work.name} {index}"], costs[f"{work.name} {index} nodes"].cost
            percent = round(float(position.cost / primary.cost * 100), 6)
            elsewhere.append(_Elsewhere(place, position, nodes_cost, percent, position.cost <= limit))
        elsewhere.sort(key=lambda one: (one.position.cost, str(one.place)))
        today = primary if work.today is None else replace(primary, cost=work.today)
        cases.append(_Case(work, data[work.name], primary, today, limit, elsewhere))
    return cases


def _break_even(case: _Case, moving: Moving) -> str:
    name, best = case.work.name, case.best
    if best is None:
        return f"{name}: no place costs at most {moving.at_most_percent:g} % of the primary's spot price, and less than today."
    room = case.limit - best.position.cost
    text = f"{name}: {best.place} is worth it until its spot price rises by {room / best.nodes_cost * 100:,.1f} %"
    if moving.price_per_gb:
        text += f", or {case.gb + room / moving.price_per_gb:,.0f} GB are moved instead of {case.gb:,.0f}"
    return text + "."


def _time(cases: Sequence[_Case], moving: Moving) -> tuple[str, ...]:
    starts = [case.work.starts for case in cases if case.best]
    if not starts:
        return ("Nothing moves, so nothing waits.",)
    data = f"the data takes {moving.transfer_hours:,.1f} h to move" if moving.transfer_hours else ""
    if moving.egress_gb and not data:
        data = "how long the data takes is not known (--transfer-gbit-per-second)"
    return (
        f"Each start waits {moving.wait_hours * 60:g} min longer, {sum(starts) * moving.wait_hours:,.1f} h in all"
        + (f"; {data}." if data else "."),
        "Spot is interrupted elsewhere, too, maybe more often: gpucost whatif spot counts that.",
    )


def _findings(cases: Sequence[_Case]) -> Iterator[str]:
    for case in cases:
        name = case.work.name
        if not case.elsewhere:
            yield f"{name}: no spot price of this GPU is known in another place; gpucost collect spot asks for some."
        elif case.best:
            place, more = case.best.place, case.today.cost - case.primary.cost
            if place.is_stale:
                yield f"{name}: the price of {place} is of {place.as_of}; look at today's before you move."
            if more >= _CENT:
                yield f"{name}: {more:,.2f} of the saving needs no move: spot where it runs costs {case.primary.cost:,.2f}."


def works_of(
    fleet: Fleet,
    spot_of: Mapping[tuple[str, str, str], BurstPlace],
    places_of: Mapping[str, Sequence[BurstPlace]],
) -> tuple[tuple[BurstWork, ...], tuple[str, ...]]:
    """The pods of a fleet as work by (provider, region, GPU model), and what of it cannot be compared.

    The primary's spot price is what the fleet's own spot nodes cost there; `spot_of`, by these three, where it has none.
    `places_of` are the places that have a GPU model.
    """
    nodes = fleet.by_name
    groups: dict[tuple[str, ...], list[Pod]] = defaultdict(list)
    for pod in fleet.pods:
        node = nodes[pod.place]
        kind = "spot" if node.capacity_type == "spot" else "demand"
        groups[node.provider or "", node.region or "", node.gpu_model or "unknown GPU", kind].append(pod)
    tagged = tuple(replace(pod, workload="\t".join(key)) for key, pods in groups.items() for pod in pods)
    paid: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    costs = fleet_costs(Fleet(fleet.nodes, tagged))
    for (_, _, workload), amount in costs.by_workload.items():
        paid[tuple(workload.split("\t"))] += amount
    hours = {key: sum(pod.gpu_ms for pod in pods) / MS_PER_HOUR for key, pods in groups.items()}
    works, findings = [], []
    for key, pods in sorted(groups.items()):
        provider, region, model, kind = key
        name = " ".join(word for word in (model, provider, region, f"on {kind}") if word)
        primary, on_spot = spot_of.get((provider, region, model)), (provider, region, model, "spot")
        if paid[on_spot] and hours[on_spot]:
            primary = BurstPlace(
                provider, region, paid[on_spot] / to_decimal(hours[on_spot]), "store: mean spot price paid"
            )
        if primary is None or not primary.price_per_gpu_hour:
            findings.append(
                f"{name}: the primary's spot price is not known; {paid[key]:,.2f} stays where it is."
            )
            continue
        most = max(pod.gpus for pod in pods)
        others = tuple(
            place
            for place in places_of.get(model, ())
            if (place.provider, place.region) != (provider, region)
        )
        works.append(
            BurstWork(
                name, primary, hours[key], most, sum(pod.gpus for pod in pods) / most, others, paid[key]
            )
        )
    return tuple(works), tuple(findings)
