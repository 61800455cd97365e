"""Work in another region or cloud, if it costs clearly less there, or its data in a cache near the work."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from typing import Annotated

from gpucost.errors import UsageError
from gpucost.options import Names, Option, OptionGroup
from gpucost.price.listing import ListedPrice, source_of
from gpucost.records import frozen_dataclass, grouped
from gpucost.whatif.answer import Answer, Assumption, Position, Rows, priced, stated
from gpucost.whatif.avoidable import NO_COMMITMENTS, NOTHING, Commitments
from gpucost.whatif.cost import CostBlock, charge, fleet_costs, position
from gpucost.whatif.flags import DAYS, HOURS_PER_MONTH, to_decimal
from gpucost.whatif.fleet import Fleet, Node, Price

Kind = tuple[str, str, str, str]  # GPU model, provider, region, on spot or on demand
_CENT = Decimal("0.01")
# Work moves if it costs at most this percentage of the primary's spot price.
_WORTH_PERCENT = 70


@frozen_dataclass
class Work:
    """Work of one GPU model in one place; `starts` wait for their data and instance on nodes with `gpus` GPUs.

    `primary` is the spot price of a node in that place. `paid` is the cost today, of which `cash` leaves the bill when the work
    moves. `places` are spot prices of the GPU in other regions, one for each.
    """

    name: str
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
    """The price of a node with this number of GPUs."""
    return Price((row.price_per_gpu_hour or row.price_per_hour) * to_decimal(gpus), *source_of(row))


@frozen_dataclass
class Moving(OptionGroup):
    """The cost of moving: the egress of all work together, and `wait_minutes` of each start on a paid node."""

    egress_gb: Annotated[
        Decimal,
        Option(
            "Data that moves there and back, in total.", "GB", is_shown=True, label="data", unit="GB in total"
        ),
    ] = NOTHING
    egress_price_per_gb: Annotated[
        Decimal | None, Option("Price of moving a GB.", label="egress", unit="money per GB")
    ] = None
    wait_minutes: Annotated[
        float | None,
        Option(
            "Required: extra minutes of each start on a paid node, for the instance, image and data.",
            label="extra time of a start",
            unit="min, paid",
        ),
    ] = None
    to_provider: Annotated[Names, Option("Only places of this cloud; repeatable.", "NAME")] = ()

    @property
    def wait_hours(self) -> float:
        return (self.wait_minutes or 0.0) / 60

    def check(self) -> None:
        """Raise UsageError if a number without a safe default is missing."""
        if self.wait_minutes is None:
            raise UsageError("--wait-minutes is missing", "15, or 0 if starts take no longer elsewhere")
        if self.egress_gb and self.egress_price_per_gb is None:
            raise UsageError("--egress-price-per-gb is missing", "the price that the cloud charges for a GB")


@frozen_dataclass
class _There:
    """Work in a place: its nodes, their position with moved data, and whether it is worth it."""

    name: str
    place: ListedPrice
    nodes: CostBlock
    position: Position
    is_worth_it: str


@frozen_dataclass
class _Case:
    """Work in all places, cheapest first, old prices last; its most worthwhile cost, and the best place."""

    work: Work
    primary: Position
    most: Decimal
    elsewhere: list[_There]
    best: _There | None


_INTERRUPTIONS = "Interruptions of spot nodes elsewhere are not counted: see gpucost whatif spot"
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

    The cost in a place is that of the work at its spot price, of paid waiting and of moved data. Raises UsageError for a cloud
    without a place.
    """
    places = chain.from_iterable(work.places for work in works)
    clouds = sorted({place.provider for place in places})
    for name in moving.to_provider if clouds else ():
        if name.lower() not in clouds:
            raise UsageError(f"--to-provider has no spot price of these GPUs: {name}", ", ".join(clouds))
    whole = sum(work.gpu_hours for work in works)
    cases = [_case(work, moving, today.currency, work.gpu_hours / whole) for work in works]
    scenario, lines, best = today, [], {}
    for case in cases:
        work, there, primary = case.work, case.best, case.primary
        best[work.name] = there and there.name
        if there:
            gone = Position(-work.cash, today.currency, -primary.gpu_hours, -primary.node_hours)
            scenario += gone + there.position
        for option in case.elsewhere:
            place, day = option.place, option.place.price_as_of.isoformat()
            price, cost = option.nodes.price, option.position.cost
            lines.append((work.name, option.name, place.instance_type, price, day, cost, option.is_worth_it))
    starts = sum(case.work.starts for case in cases if case.best)
    waiting = (
        f"Each start waits {moving.wait_minutes:g} min longer, {starts * moving.wait_hours:,.1f} h in total"
    )
    limit = f"Worth it: at most {_WORTH_PERCENT} % of the cost at the primary's spot price, and less than today's avoidable cost."
    prices = (
        priced(
            f"primary spot price: {work.name}", work.primary, f"money per hour of {work.gpus:g} GPUs, spot"
        )
        for work in works
    )
    worth = Assumption("worth it", _WORTH_PERCENT, "% of the primary's spot price", "default")
    return Answer(
        kind="move",
        title="Low-priority work in another region or cloud",
        period=period,
        today=today,
        scenario=scenario,
        figures={"best": best},
        assumptions=(use, worth, *stated(moving), *prices),
        break_even=tuple(map(_break_even, cases)),
        time=(waiting, _INTERRUPTIONS) if starts else (),
        findings=(*_findings(cases), *findings),
        tables=Rows.top("places, cheapest first", _COLUMNS, lines, "And {} more places.", limit),
    )


def _case(work: Work, moving: Moving, currency: str, share: float) -> _Case:
    """The work in every place: its nodes, and its `share` (0-1) of the data."""
    moved = charge(moving.egress_gb * to_decimal(share) * (moving.egress_price_per_gb or 0))
    primary = position(currency, [work.nodes(work.primary.per_node_hour)])
    most = min(primary.cost * _WORTH_PERCENT / 100, work.cash)
    clouds = [name.lower() for name in moving.to_provider]
    elsewhere = []
    for place in work.places:
        if clouds and place.provider not in clouds:
            continue
        name = " ".join(filter(None, (place.provider, place.zone or place.region)))
        nodes = work.nodes(spot_price(place, work.gpus).per_node_hour, moving.wait_hours)
        there = position(currency, [nodes, moved])
        is_worth_it = "no" if there.cost > most else "old price" if place.is_stale else "yes"
        elsewhere.append(_There(name, place, nodes, there, is_worth_it))
    elsewhere.sort(key=lambda there: (there.place.is_stale, there.position.cost, there.name))
    best = next((there for there in elsewhere if there.is_worth_it == "yes"), None)
    return _Case(work, primary, most, elsewhere, best)


def _break_even(case: _Case) -> str:
    """The rise of the spot price there up to which the work moves."""
    name, best = case.work.name, case.best
    if best is None:
        return f"{name}: no place costs less than today and at most {_WORTH_PERCENT} % of the primary's spot price"
    percent = (case.most - best.position.cost) / best.nodes.cost * 100
    return f"{name}: {best.name} is worth it until its spot price rises by {percent:,.1f} %"


def _findings(cases: Sequence[_Case]) -> Iterator[str]:
    """Cost that stays on the bill, missing prices, and savings without a move."""
    for case in cases:
        work, name = case.work, case.work.name
        stays, more = work.paid - work.cash, work.cash - case.primary.cost
        if stays >= _CENT:
            yield f"{name}: {stays:,.2f} stays on the bill in any place: commitments, capacity blocks or own machines"
        if not case.elsewhere:
            yield f"{name}: spot prices of this GPU in other places are missing; gpucost collect spot loads them"
        if case.best and more >= _CENT:
            yield f"{name}: {more:,.2f} of the saving needs no move: spot at the primary costs {case.primary.cost:,.2f}"


def works_of(
    fleet: Fleet, list_prices: Sequence[ListedPrice], commitments: Commitments = NO_COMMITMENTS
) -> tuple[list[Work], list[str]]:
    """The pods of a fleet as work by GPU model, provider, region and spot or on demand; and findings about the rest.

    `list_prices` are spot prices, cheapest GPU-hour first. A place is the cheapest instance of a region with at least as many
    GPUs of the model as the largest pod. The primary's spot price is the mean price of the fleet's own spot nodes there,
    otherwise the listed one.
    """
    nodes = fleet.by_name
    pods_of = grouped((_kind(nodes[pod.place]), pod) for pod in fleet.pods)
    costs_of = {kind: fleet_costs(replace(fleet, pods=tuple(pods))) for kind, pods in pods_of.items()}
    works, findings = [], []
    for kind, pods in sorted(pods_of.items()):
        model, provider, region, _ = kind
        name, costs, most = " ".join(filter(None, kind)), costs_of[kind], max(pod.gpus for pod in pods)
        places: dict[tuple[str, str], ListedPrice] = {}
        for row in list_prices:
            if row.gpu_model == model and row.gpu_count and row.gpu_count >= most:
                places.setdefault((row.provider, row.region or ""), row)
        home = places.pop((provider, region), None)
        primary = spot_price(home, most) if home else None
        spot_cost = costs_of.get((model, provider, region, "on spot"))
        if spot_cost and spot_cost.cost:
            price = spot_cost.cost / to_decimal(spot_cost.allocated_gpu_hours) * to_decimal(most)
            primary = Price(price, "store: mean spot price paid")
        if not primary or not primary.per_node_hour:
            findings.append(f"{name}: its spot price is unknown; {costs.cost:,.2f} stays in place")
            continue
        starts, hours = sum(pod.gpus for pod in pods) / most, costs.allocated_gpu_hours
        at_cash = commitments.at_cash_prices(replace(fleet, pods=tuple(pods)))
        cash = min(fleet_costs(at_cash).cost, costs.cost)
        works.append(Work(name, primary, hours, most, starts, list(places.values()), costs.cost, cash))
    return works, findings


def _kind(node: Node) -> Kind:
    bought = "on spot" if node.capacity_type == "spot" else "on demand"
    return node.gpu_model or "unknown GPU", node.provider or "", node.region or "", bought


@frozen_dataclass
class Transfer(OptionGroup):
    """Starts, the data of each start, and the prices of moving and keeping it."""

    gb_per_start: Annotated[
        Decimal | None,
        Option("GB that each pod start downloads.", "GB", above=True, label="data", unit="GB per start"),
    ] = None
    starts_per_day: Annotated[
        float | None,
        Option("Starts per day of pods that share the data.", above=True, label="starts", unit="per day"),
    ] = None
    # public list prices from general knowledge, without a date
    price_per_gb: Annotated[
        Decimal,
        Option(
            "Price of downloading a GB. Default: 0.09.",
            label="download",
            unit="money per GB",
            source="default, from general knowledge: AWS, out to the internet, the first 10 TB a month",
        ),
    ] = Decimal("0.09")
    cache_price_per_gb_month: Annotated[
        Decimal,
        Option(
            "Price of keeping a GB in the cache for a month. Default: 0.30.",
            label="cache",
            unit="money per GB-month",
            source="default, from general knowledge: AWS EFS Standard, us-east-1",
        ),
    ] = Decimal("0.30")
    cache_read_price_per_gb: Annotated[
        Decimal,
        Option(
            "Price of reading a GB from the cache. Default: 0.",
            label="cache reads",
            unit="money per GB",
            source="default: one zone",
        ),
    ] = NOTHING


def cache(transfer: Transfer, currency: str) -> Answer:
    """The cost of downloads at every start over 30 days, and of a shared cache if it costs less.

    The cache downloads the data once and keeps it. Raises UsageError without the data or the number of starts.
    """
    gb, starts_per_day = transfer.gb_per_start, transfer.starts_per_day
    if not gb or not starts_per_day:
        raise UsageError("the data or the number of starts is missing", "--gb-per-start, --starts-per-day")
    starts = starts_per_day * DAYS
    download, read = gb * transfer.price_per_gb, gb * transfer.cache_read_price_per_gb
    storage = charge(gb * transfer.cache_price_per_gb_month, 24 * DAYS / HOURS_PER_MONTH).cost
    today, cached = charge(download, starts).cost, download + storage + charge(read, starts).cost
    even, text = None, "The cache never pays for itself: a read from it costs as much as a download"
    if download > read:
        even = round(float((download + storage) / (download - read)), 6)
        text = f"The cache pays for itself after {even:,.1f} reads of the same data in the period"
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
