"""Work in another region or cloud, where it costs clearly less than at home, or its data in a cache near it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Annotated

from gpucost.errors import UsageError
from gpucost.options import Names, Option, OptionGroup
from gpucost.price.listing import ListedPrice, source_of
from gpucost.records import record
from gpucost.whatif import flags
from gpucost.whatif.answer import Answer, Assumption, Line, Position, Rows, priced, stated
from gpucost.whatif.avoidable import NO_COMMITMENTS, Commitments
from gpucost.whatif.cost import CostBlock, charge, fleet_costs, position
from gpucost.whatif.flags import DAYS, HOURS_PER_MONTH, to_decimal
from gpucost.whatif.fleet import Fleet, Node, Price

Kind = tuple[str, str, str, str]  # GPU model, provider, region, on spot or on demand
_CENT = Decimal("0.01")
# Work moves if it costs at most so many percent of the primary's spot price.
_WORTH_PERCENT = 70


@record
class Work:
    """Work of one GPU model in one place; `starts` wait for their data and instance on nodes of `gpus`.

    `primary` is the spot price of a node there. `paid` is its cost today, of which `cash` leaves the bill when it goes. `places`
    are spot prices of the GPU, one for each region.
    """

    name: str
    provider: str
    region: str
    primary: Price
    gpu_hours: float
    gpus: float
    starts: float
    places: Sequence[ListedPrice]
    paid: Decimal
    cash: Decimal

    def nodes(self, price: Decimal, wait_hours: float = 0.0) -> CostBlock:
        """Its nodes at this price; each start waits on a paid node."""
        hours = self.gpu_hours / self.gpus + self.starts * wait_hours
        return CostBlock(hours, price, self.gpus)


def spot_price(row: ListedPrice, gpus: float) -> Price:
    """The price of a node with so many GPUs."""
    return Price((row.price_per_gpu_hour or row.price_per_hour) * to_decimal(gpus), *source_of(row))


@record
class Moving(OptionGroup):
    """The cost of moving. Egress is of all work together; a start waits `wait_minutes` on a paid node."""

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
    to_provider: Annotated[Names, Option("Only places of this cloud; repeatable.", "NAME")] = ()

    @property
    def wait_hours(self) -> float:
        return (self.wait_minutes or 0.0) / 60

    def check(self) -> None:
        """Raises UsageError if a number that decides is missing: nothing is guessed."""
        if self.wait_minutes is None:
            raise UsageError("--wait-minutes is missing", "15, or 0 if no start takes longer elsewhere")
        if self.egress_gb and self.egress_price_per_gb is None:
            raise UsageError("--egress-price-per-gb is missing", "the price of a GB, as the cloud charges it")


@record
class DescribedWork(OptionGroup):
    """Work that options describe, and a place for it."""

    instance_type: Annotated[str | None, Option("Instance of the work, for its spot price.", "TYPE")] = None
    region: Annotated[str | None, Option("Primary region of that instance.", "NAME")] = None
    nodes: flags.Nodes | None = None
    hours: flags.Hours = HOURS_PER_MONTH


@record
class _There:
    """A work in a place: its nodes, these with its data, and whether both cost little enough."""

    place: ListedPrice
    nodes: CostBlock
    position: Position
    pays: bool

    def __str__(self) -> str:
        """Cloud, and the zone or region."""
        return " ".join(filter(None, (self.place.provider, self.place.zone or self.place.region)))

    @property
    def is_worth_it(self) -> bool:
        return self.pays and not self.place.is_stale


@record
class _Case:
    """A work at its primary's spot price and in places, cheapest first, old prices last; `limit` is the most that it may cost."""

    work: Work
    primary: Position
    limit: Decimal
    elsewhere: list[_There]

    @property
    def best(self) -> _There | None:
        """The cheapest place with a recent price, if it is worth it."""
        return next((there for there in self.elsewhere if there.is_worth_it), None)


_COLUMNS = (
    "work",
    "where",
    "instance_type",
    "spot_price_per_node_hour",
    "price_as_of",
    "cost",
    "is_worth_it",
)


def answer(
    works: Sequence[Work],
    moving: Moving,
    today: Position,
    use: Assumption,
    findings: Sequence[str] = (),
    *,
    period: str,
) -> Answer:
    """Each work in its cheapest place, if that costs at most 70 % of its primary's spot price; otherwise as it is.

    A place's cost is the work at its spot price, paid waiting and moved data.
    """
    whole = sum(work.gpu_hours for work in works)
    cases = [_case(work, moving, today.currency, work.gpu_hours / whole) for work in works]
    scenario, lines = today, []
    for case in cases:
        lines += [_line(case.work, there) for there in case.elsewhere]
        if case.best:
            home = case.primary
            gone = Position(-case.work.cash, today.currency, -home.gpu_hours, -home.node_hours)
            scenario += gone + case.best.position
    limit = f"Worth it: at most {_WORTH_PERCENT} % of the cost at the primary's spot price."
    worth = Assumption("worth it", _WORTH_PERCENT, "% of the primary's spot price", "default")
    return Answer(
        kind="move",
        title="Low-priority work in another region or cloud",
        period=period,
        today=today,
        scenario=scenario,
        figures={"best": {case.work.name: str(case.best) if case.best else None for case in cases}},
        assumptions=(use, worth, *stated(moving), *map(_primary, works)),
        break_even=tuple(map(_break_even, cases)),
        time=tuple(_time(cases, moving)),
        findings=(*_findings(cases), *findings),
        tables=Rows.top("places, cheapest first", _COLUMNS, lines, "And {} more places.", limit),
    )


def _line(work: Work, there: _There) -> Line:
    place, is_worth_it = there.place, "yes" if there.is_worth_it else "no"
    day, cost = place.price_as_of.isoformat(), there.position.cost
    return work.name, str(there), place.instance_type, there.nodes.price, day, cost, is_worth_it


def _primary(work: Work) -> Assumption:
    """The spot price where the work runs, as an assumption."""
    unit = f"money per hour of {work.gpus:g} GPUs, spot"
    return priced(f"primary spot price: {work.name}", work.primary, unit)


def _case(work: Work, moving: Moving, currency: str, share: float) -> _Case:
    """The work in every place: its nodes, and its `share` (0-1) of the data."""
    moved = charge(moving.egress_gb * to_decimal(share) * (moving.egress_price_per_gb or 0))
    primary = position(currency, [work.nodes(work.primary.per_node_hour)])
    limit = primary.cost * _WORTH_PERCENT / 100
    elsewhere = []
    for place in others(work, moving):
        nodes = work.nodes(spot_price(place, work.gpus).per_node_hour, moving.wait_hours)
        there = position(currency, [nodes, moved])
        elsewhere.append(_There(place, nodes, there, there.cost <= limit and there.cost < work.cash))
    elsewhere.sort(key=lambda one: (one.place.is_stale, one.position.cost, str(one)))
    return _Case(work, primary, limit, elsewhere)


def _break_even(case: _Case) -> str:
    """How much more expensive the place may become before the work stays."""
    name, best = case.work.name, case.best
    if best is None:
        return f"{name}: no place costs at most {_WORTH_PERCENT} % of the primary's spot price, and less than today."
    room = min(case.limit, case.work.cash) - best.position.cost
    percent = room / best.nodes.cost * 100
    return f"{name}: {best} is worth it until its spot price rises by {percent:,.1f} %."


def _time(cases: Sequence[_Case], moving: Moving) -> Iterator[str]:
    """Sentences about waiting."""
    if starts := sum(case.work.starts for case in cases if case.best):
        hours = starts * moving.wait_hours
        yield f"Each start waits {moving.wait_minutes:g} min longer, {hours:,.1f} h in all."
        yield "Interruptions of spot nodes elsewhere are not counted: gpucost whatif spot counts them."


def _findings(cases: Sequence[_Case]) -> Iterator[str]:
    """What stays on the bill, which prices are unknown or old, and what needs no move."""
    for case in cases:
        work, name = case.work, case.work.name
        stays, more = work.paid - work.cash, work.cash - case.primary.cost
        if stays >= _CENT:
            yield f"{name}: {stays:,.2f} stays on the bill wherever it runs: commitments, capacity blocks or own machines."
        if not case.elsewhere:
            yield f"{name}: no spot price of this GPU is known in another place; gpucost collect spot loads some."
        old = [there for there in case.elsewhere if there.place.is_stale and there.pays]
        if old:
            day = old[0].place.price_as_of
            yield (
                f"{name}: places with old prices would cost less: {len(old)}, the first {old[0]} ({day}). They are"
                " listed last and not counted; gpucost collect spot and gpucost collect prices load new prices."
            )
        if case.best and more >= _CENT:
            yield f"{name}: {more:,.2f} of the saving needs no move: spot at the primary costs {case.primary.cost:,.2f}."


def works_of(
    fleet: Fleet,
    places_of: Callable[[str, float], Sequence[ListedPrice]],
    commitments: Commitments = NO_COMMITMENTS,
) -> tuple[list[Work], list[str]]:
    """The pods of a fleet as work by GPU model, provider, region and spot or not; and findings about the rest.

    `places_of`: the cheapest place of each region that has nodes with at least so many GPUs of a model. The primary's spot price
    is what the fleet's own spot nodes cost there, otherwise that of `places_of`.
    """
    held = {pod.place for pod in fleet.pods}
    kinds = {node.key: _kind(node) for node in fleet.nodes if node.key in held}

    def part(kind: Kind) -> Fleet:
        return fleet.only(lambda node: kinds.get(node.key) == kind)

    works, findings = [], []
    for kind in sorted(set(kinds.values())):
        model, provider, region, _ = kind
        name, here = " ".join(filter(None, kind)), part(kind)
        costs, most = fleet_costs(here), max(pod.gpus for pod in here.pods)
        places = places_of(model, most)
        home = [row for row in places if (row.provider, row.region or "") == (provider, region)]
        primary = spot_price(home[0], most) if home else None
        own = fleet_costs(part((model, provider, region, "on spot")))
        if own.cost:
            price = own.cost / to_decimal(own.allocated_gpu_hours) * to_decimal(most)
            primary = Price(price, "store: mean spot price paid")
        if not primary or not primary.per_node_hour:
            findings.append(f"{name}: the spot price there is unknown; {costs.cost:,.2f} stays where it is.")
            continue
        starts, hours = sum(pod.gpus for pod in here.pods) / most, costs.allocated_gpu_hours
        cash = min(fleet_costs(commitments.at_cash_prices(here)).cost, costs.cost)
        works.append(Work(name, provider, region, primary, hours, most, starts, places, costs.cost, cash))
    return works, findings


def _kind(node: Node) -> Kind:
    bought = "on spot" if node.capacity_type == "spot" else "on demand"
    return node.gpu_model or "unknown GPU", node.provider or "", node.region or "", bought


def others(work: Work, moving: Moving) -> list[ListedPrice]:
    """The places elsewhere, of the named clouds if some are."""
    clouds, home = [name.lower() for name in moving.to_provider], (work.provider, work.region)
    return [
        place
        for place in work.places
        if (place.provider, place.region or "") != home and (not clouds or place.provider in clouds)
    ]


@record
class Transfer(OptionGroup):
    """Starts, the data of each, and the prices of moving and keeping it."""

    gb_per_start: Annotated[
        Decimal | None,
        Option("GB that each pod start downloads.", "GB", above=True, says="data", unit="GB per start"),
    ] = None
    starts_per_day: Annotated[
        float | None,
        Option("Starts a day of pods that share the data.", above=True, says="starts", unit="per day"),
    ] = None
    # public list prices from general knowledge, of no certain day
    price_per_gb: Annotated[
        Decimal,
        Option(
            "Price of downloading a GB. Default: 0.09.",
            says="download",
            unit="money per GB",
            source="default, from general knowledge: AWS, out to the internet, the first 10 TB a month",
        ),
    ] = Decimal("0.09")
    cache_price_per_gb_month: Annotated[
        Decimal,
        Option(
            "Price of keeping a GB in the cache for a month. Default: 0.30.",
            says="cache",
            unit="money per GB-month",
            source="default, from general knowledge: AWS EFS Standard, us-east-1",
        ),
    ] = Decimal("0.30")
    cache_read_price_per_gb: Annotated[
        Decimal,
        Option(
            "Price of reading a GB from the cache. Default: 0.",
            says="cache reads",
            unit="money per GB",
            source="default: one zone",
        ),
    ] = Decimal(0)


def cache(transfer: Transfer, currency: str) -> Answer:
    """The cost of downloading at every start over 30 days, and that of a shared cache if it costs less.

    The cache downloads the data once and keeps it. Raises UsageError without a number of starts.
    """
    gb, starts_per_day = transfer.gb_per_start, transfer.starts_per_day
    if not gb or not starts_per_day:
        raise UsageError("the data or the number of starts is missing", "--gb-per-start, --starts-per-day")
    starts = starts_per_day * DAYS
    download, read = gb * transfer.price_per_gb, gb * transfer.cache_read_price_per_gb
    storage = charge(gb * transfer.cache_price_per_gb_month, 24 * DAYS / HOURS_PER_MONTH).cost
    today, cached = charge(download, starts).cost, download + storage + charge(read, starts).cost
    even, text = None, "The cache never pays: reading from it costs as much as downloading."
    if download > read:
        even = round(float((download + storage) / (download - read)), 6)
        text = (
            f"The cache pays for itself if the same data is read more than {even:,.1f} times in the period."
        )
    return Answer(
        kind="move",
        title="A shared cache instead of a download at every pod start",
        period=f"{DAYS} days",
        today=Position(today, currency),
        scenario=Position(min(today, cached), currency),
        figures={"starts": starts, "break_even_starts": even},
        assumptions=(
            *stated(transfer),
            Assumption("versions of the data", 1, "in the period; the cache downloads each once", "default"),
        ),
        break_even=(text,),
    )
