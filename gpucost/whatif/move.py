"""Work in another region or cloud, where it costs clearly less than at home: waiting, data and price counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from operator import itemgetter
from typing import Annotated

from gpucost.errors import UsageError
from gpucost.options import Names, Option, OptionGroup
from gpucost.records import grouped, record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, Value, stated
from gpucost.whatif.avoidable import NO_COMMITMENTS, Commitments
from gpucost.whatif.cost import CostBlock, charge, fleet_costs, position
from gpucost.whatif.flags import HOURS_PER_MONTH, PricePer, to_decimal
from gpucost.whatif.fleet import Fleet

Kind = tuple[str, str, str]  # provider, region, GPU model
PartKind = tuple[str, str, str, str]  # GPU model, provider, region, on spot or on demand
_ROWS = 12
_CENT = Decimal("0.01")


@record
class Place:
    """A place for the work: its spot price per GPU-hour. Unknown names are ''."""

    provider: str
    region: str
    price_per_gpu_hour: Decimal
    source: str
    as_of: str | None = None
    zone: str = ""
    instance_type: str = ""
    is_stale: bool = False

    def __str__(self) -> str:
        """Cloud, and the zone or region."""
        return " ".join(filter(None, (self.provider, self.zone or self.region))) or "elsewhere"


@record
class Work:
    """Work of one GPU model in one place; `starts` wait for their data and instance on nodes of `gpus`.

    `paid` is its cost today, of which `cash` leaves the bill when it goes; None: the cost at the primary's spot price.
    """

    name: str
    primary: Place
    gpu_hours: float
    gpus: float
    starts: float
    places: tuple[Place, ...]
    paid: Decimal | None = None
    cash: Decimal | None = None

    def per_node(self, place: Place) -> Decimal:
        """The price of a node per hour there."""
        return place.price_per_gpu_hour * to_decimal(self.gpus)

    def nodes(self, place: Place, wait_hours: float = 0.0) -> CostBlock:
        """Its nodes in that place; each start waits on a paid node."""
        hours = self.gpu_hours / self.gpus + self.starts * wait_hours
        return CostBlock(hours, self.per_node(place), self.gpus)


@record
class Moving(OptionGroup):
    """What moving costs. Egress is of all work together; a start waits `wait_minutes` on a paid node."""

    at_most_percent: Annotated[
        float,
        Option(
            "Worth it up to this share of the primary's spot price.",
            above=True,
            most=100,
            is_shown=True,
            says="worth it",
            unit="% of the primary's spot price",
        ),
    ] = 70.0
    egress_gb: Annotated[
        Decimal,
        Option("Data that moves there and back, in all.", "GB", is_shown=True, says="data", unit="GB in all"),
    ] = Decimal(0)
    egress_price_per_gb: Annotated[
        Decimal | None, Option("Price of moving a GB.", says="egress", unit="money per GB")
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
        Decimal, Option("Cost of an hour of waiting. Default: 0.", says="delay", unit="money per hour waited")
    ] = Decimal(0)
    transfer_gbit_per_second: Annotated[
        float | None, Option("Speed at which data moves.", above=True, says="data moves at", unit="Gbit/s")
    ] = None
    to_provider: Annotated[Names, Option("Only places of this cloud; repeatable.", "NAME")] = ()

    def check(self) -> None:
        """Raises UsageError if a number that decides is missing: nothing is guessed."""
        if self.wait_minutes is None:
            raise UsageError("--wait-minutes is missing", "15, or 0 if no start takes longer elsewhere")
        if self.egress_gb and self.egress_price_per_gb is None:
            raise UsageError("--egress-price-per-gb is missing", "the price of a GB, as the cloud charges it")
        if self.egress_gb and self.delay_cost_per_hour and self.transfer_gbit_per_second is None:
            raise UsageError(
                "--transfer-gbit-per-second is missing, and delay costs", "how fast the data moves"
            )

    @property
    def price_per_gb(self) -> Decimal:
        """Price of moving a GB; 0 if nothing moves."""
        return self.egress_price_per_gb or Decimal(0)

    @property
    def wait_hours(self) -> float:
        """Longer start, in hours."""
        return (self.wait_minutes or 0.0) / 60

    @property
    def transfer_hours(self) -> float:
        """Hours in which the data moves; 0 if its speed is unknown."""
        speed = self.transfer_gbit_per_second
        return float(self.egress_gb) * 8 / speed / 3600 if speed else 0.0


@record
class DescribedWork(OptionGroup):
    """Work that options describe, and places for it."""

    spot_price: flags.SpotPrice | None = None
    price_per: flags.Per = PricePer.node
    gpus: flags.Gpus | None = None
    nodes: flags.Nodes | None = None
    hours: flags.Hours = HOURS_PER_MONTH
    instance_type: Annotated[str | None, Option("Instance of the work, for its spot price.", "TYPE")] = None
    region: Annotated[str | None, Option("Primary region of that instance.", "NAME")] = None
    gpu_model: Annotated[str | None, Option("GPU of other places. Default: the instance's.", "NAME")] = None
    place: Annotated[
        Names, Option("Another place and its spot price, in --price-per; repeatable.", "NAME=MONEY")
    ] = ()


@record
class _Case:
    """A work with its `gb` of the data: at its primary's spot price, and in places, cheapest first, old prices last."""

    work: Work
    gb: Decimal
    primary: Position
    limit: Decimal
    elsewhere: list[tuple[Place, Position]]

    @property
    def cash(self) -> Decimal:
        """What leaves the bill when the work goes."""
        return self.primary.cost if self.work.cash is None else self.work.cash

    @property
    def best(self) -> tuple[Place, Position] | None:
        """The cheapest place with a recent price, if it is worth it and costs less than what leaves the bill."""
        for place, there in self.elsewhere[:1]:
            if self.pays(there) and not place.is_stale:
                return place, there
        return None

    def pays(self, there: Position) -> bool:
        """Whether the work costs little enough there."""
        return there.cost <= self.limit and there.cost < self.cash


def answer(
    works: Sequence[Work],
    moving: Moving,
    today: Position | None,
    use: Assumption,
    findings: Sequence[str] = (),
    *,
    currency: str,
    period: str,
) -> Answer:
    """Each work in its cheapest place, if that costs at most `at_most_percent` of its primary's spot price; otherwise as it is.

    A place's cost is the work at its spot price, paid waiting, moved data, and the cost of delay. `today` is by default that at
    the primaries' spot prices.
    """
    moving.check()
    whole = sum(work.gpu_hours for work in works)
    cases = [_case(work, moving, currency, work.gpu_hours / whole if whole else 0.0) for work in works]
    if today is None:
        today = sum((case.primary for case in cases), Position(Decimal(0), currency))
    scenario = today
    for case in cases:
        if case.best:
            scenario = scenario + case.best[1] + -replace(case.primary, cost=case.cash)
    places = [_places(case) for case in cases]
    rows = list(chain.from_iterable(places))
    shown = chain.from_iterable(some[:_ROWS] for some in places)
    lines = list(map(itemgetter(*_COLUMNS), shown))
    hidden = len(rows) - len(lines)
    more = f" And {hidden} more expensive places." if hidden else ""
    limit = f"{moving.at_most_percent:g} % of the cost at the primary's spot price"
    return Answer(
        kind="move",
        title="Low-priority work in another region or cloud",
        period=period,
        today=today,
        scenario=scenario,
        figures={
            "price_per": "node",
            "at_most_percent": moving.at_most_percent,
            "best": {case.work.name: str(case.best[0]) if case.best else None for case in cases},
            "primary": [
                {
                    "work": case.work.name,
                    "spot_price_per_node_hour": case.work.per_node(case.work.primary),
                    "cost": case.primary.cost,
                    "gpu_hours": round(case.work.gpu_hours, 6),
                }
                for case in cases
            ],
            "places": rows,
        },
        assumptions=(use, *stated(moving), *map(_primary, works)),
        break_even=tuple(_break_even(case, moving) for case in cases),
        time=_time(cases, moving),
        findings=(*_findings(cases), *findings),
        tables=Rows.of("places, cheapest first", _COLUMNS, lines, f"Worth it: at most {limit}.{more}"),
    )


_COLUMNS = (
    "work",
    "where",
    "instance_type",
    "spot_price_per_node_hour",
    "price_as_of",
    "cost",
    "percent_of_primary",
)


def _primary(work: Work) -> Assumption:
    """The spot price where the work runs, as an assumption."""
    name, unit = f"primary: {work.name}", f"money per hour of {work.gpus:g} GPUs, spot"
    return Assumption(name, work.per_node(work.primary), unit, work.primary.source, work.primary.as_of)


def _case(work: Work, moving: Moving, currency: str, share: float) -> _Case:
    """The work in every place: its nodes, its `share` (0-1) of the data, and the cost of delay.

    Delay counts the hours that all starts wait, and those in which the data moves.
    """
    gb = moving.egress_gb * to_decimal(share)
    delay = work.starts * moving.wait_hours + moving.transfer_hours * share
    moved = [charge(gb * moving.price_per_gb), charge(moving.delay_cost_per_hour, delay)]
    primary = position(currency, [work.nodes(work.primary)])
    elsewhere = [
        (place, position(currency, [work.nodes(place, moving.wait_hours), *moved])) for place in work.places
    ]
    elsewhere.sort(key=lambda one: (one[0].is_stale, one[1].cost, str(one[0])))
    limit = primary.cost * to_decimal(moving.at_most_percent) / 100
    return _Case(work, gb, primary, limit, elsewhere)


def _places(case: _Case) -> list[dict[str, Value]]:
    """The places of a work as JSON has them."""
    return [
        {
            "work": case.work.name,
            "where": str(place),
            "provider": place.provider,
            "region": place.region,
            "zone": place.zone or None,
            "instance_type": place.instance_type or None,
            "spot_price_per_node_hour": case.work.per_node(place),
            "price_as_of": place.as_of,
            "source": place.source,
            "cost": there.cost,
            "percent_of_primary": round(float(there.cost / case.primary.cost * 100), 6),
            "is_worth_it": case.pays(there),
        }
        for place, there in case.elsewhere
    ]


def _break_even(case: _Case, moving: Moving) -> str:
    """How much more expensive the place may become, or how much more data may move, before the work stays."""
    name = case.work.name
    if case.best is None:
        return f"{name}: no place costs at most {moving.at_most_percent:g} % of the primary's spot price, and less than today."
    place, there = case.best
    room, nodes = min(case.limit, case.cash) - there.cost, case.work.nodes(place, moving.wait_hours)
    text = f"{name}: {place} is worth it until its spot price rises by {room / nodes.cost * 100:,.1f} %"
    if moving.price_per_gb:
        text += f", or {case.gb + room / moving.price_per_gb:,.0f} GB are moved instead of {case.gb:,.0f}"
    return text + "."


def _time(cases: Sequence[_Case], moving: Moving) -> tuple[str, ...]:
    """Sentences about waiting."""
    starts = [case.work.starts for case in cases if case.best]
    if not starts:
        return ("Nothing moves, so nothing waits.",)
    hours = sum(starts) * moving.wait_hours
    texts = [f"Each start waits {moving.wait_hours * 60:g} min longer, {hours:,.1f} h in all."]
    if moving.transfer_hours:
        texts.append(f"The data takes {moving.transfer_hours:,.1f} h to move.")
    elif moving.egress_gb:
        texts.append("How long the data takes is unknown: --transfer-gbit-per-second.")
    return (*texts, "Interruptions of spot nodes elsewhere are not counted: gpucost whatif spot counts them.")


def _findings(cases: Sequence[_Case]) -> Iterator[str]:
    """What stays on the bill, which prices are unknown or old, and what needs no move."""
    for case in cases:
        name, more = case.work.name, case.cash - case.primary.cost
        stays = (case.work.paid or case.cash) - case.cash
        if stays >= _CENT:
            yield f"{name}: {stays:,.2f} stays on the bill wherever it runs: commitments, capacity blocks or own machines."
        if not case.elsewhere:
            yield f"{name}: no spot price of this GPU is known in another place; gpucost collect spot loads some."
        old = [place for place, there in case.elsewhere if place.is_stale and case.pays(there)]
        if old:
            yield (
                f"{name}: places with old prices would cost less: {len(old)}, the first {old[0]} ({old[0].as_of}). They are"
                " listed last and not counted; gpucost collect spot and gpucost collect prices load new prices."
            )
        if case.best and more >= _CENT:
            yield f"{name}: {more:,.2f} of the saving needs no move: spot at the primary costs {case.primary.cost:,.2f}."


def works_of(
    fleet: Fleet,
    spot_of: Mapping[Kind, Place],
    places_of: Mapping[str, Sequence[Place]],
    commitments: Commitments = NO_COMMITMENTS,
) -> tuple[list[Work], list[str]]:
    """The pods of a fleet as work by provider, region, GPU model and spot or not; and findings about the rest.

    The primary's spot price is what the fleet's own spot nodes cost there, otherwise that of `spot_of`. `places_of` are the
    places that have a GPU model.
    """
    parts = _parts(fleet)
    works, findings = [], []
    for kind, part in sorted(parts.items()):
        model, provider, region, _ = kind
        name = " ".join(filter(None, kind))
        others = [one for one in places_of.get(model, ()) if (one.provider, one.region) != (provider, region)]
        primary = _primary_of(kind, parts, spot_of)
        costs, most = fleet_costs(part), max(pod.gpus for pod in part.pods)
        starts = sum(pod.gpus for pod in part.pods) / most
        if primary is None:
            findings.append(f"{name}: the spot price there is unknown; {costs.cost:,.2f} stays where it is.")
            continue
        cash = min(fleet_costs(commitments.at_cash_prices(part)).cost, costs.cost)
        works.append(
            Work(name, primary, costs.allocated_gpu_hours, most, starts, tuple(others), costs.cost, cash)
        )
    return works, findings


def _parts(fleet: Fleet) -> Mapping[PartKind, Fleet]:
    """The nodes with pods, by GPU model, provider, region and spot or not."""
    parts: dict[PartKind, Fleet] = defaultdict(Fleet)
    pods = grouped((pod.place, pod) for pod in fleet.pods)
    for node in fleet.nodes:
        if node.key in pods:
            bought = "on spot" if node.capacity_type == "spot" else "on demand"
            kind = (node.gpu_model or "unknown GPU", node.provider or "", node.region or "", bought)
            parts[kind] += Fleet((node,), tuple(pods[node.key]))
    return parts


def _primary_of(
    kind: PartKind, parts: Mapping[PartKind, Fleet], spot_of: Mapping[Kind, Place]
) -> Place | None:
    """The spot price where the work runs; None if it is unknown."""
    model, provider, region, _ = kind
    costs = fleet_costs(parts.get((model, provider, region, "on spot"), Fleet()))
    if costs.cost:
        price = costs.cost / to_decimal(costs.allocated_gpu_hours)
        return Place(provider, region, price, "store: mean spot price paid")
    listed = spot_of.get((provider, region, model))
    return listed if listed and listed.price_per_gpu_hour else None
