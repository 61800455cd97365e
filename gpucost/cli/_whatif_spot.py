"""What `gpucost whatif spot` looks up before it asks: prices and rates of the market, by options, store and catalog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpucost.cli._common import note
from gpucost.cli._whatif_options import GPUS_PER_NODE, PricePer, StoreOptions, Usage, node_price, period_of
from gpucost.errors import UsageError

if TYPE_CHECKING:
    from decimal import Decimal

    from duckdb import DuckDBPyConnection

    from gpucost.config import Config
    from gpucost.whatif.fleet import Price
    from gpucost.whatif.spot.calculator import Quote
    from gpucost.whatif.spot.market import Market, Place
    from gpucost.whatif.spot.rates import Rate
    from gpucost.whatif.spot.replayed import Replay


@dataclass(frozen=True, slots=True)
class Described:
    """What options say of a fleet; prices are per node or per GPU, None is not given."""

    on_demand_price: Decimal | None = None
    spot_price: Decimal | None = None
    price_per: PricePer = PricePer.node
    instance_type: str | None = None
    region: str | None = None
    zone: str | None = None
    nodes: int | None = None
    gpus: int | None = None
    hours: float | None = None


@contextmanager
def market_store(settings: Config) -> Iterator[DuckDBPyConnection]:
    """The store where there is one, else an empty one in memory: the catalog can be asked beside either."""
    from gpucost.store import Store
    from gpucost.store.scratch import scratch_store

    store = Store(settings.store)
    with store.read() if store.exists else scratch_store() as con:
        yield con


def chosen_rate(interruptions_per_hour: float | None, traces: Sequence[Path] | None, *, quiet: bool) -> Rate | None:
    """The rate that options give: the number, or what traces come to; None where neither is given."""
    from gpucost.whatif.spot.rates import Rate, of_trace
    from gpucost.whatif.spot.traces import read_traces

    if interruptions_per_hour is not None and traces:
        raise UsageError("--interruptions-per-hour and --trace exclude each other", "give one of them")
    if interruptions_per_hour is not None:
        return Rate(interruptions_per_hour, "option")
    if not traces:
        return None
    trace = read_traces(traces)
    if trace.passed_over:
        note(f"passed over what holds no trace: {', '.join(path.name for path in trace.passed_over)}", quiet=quiet)
    return of_trace(trace)


def find_place(con: DuckDBPyConnection, fleet: Described) -> tuple[Place, int]:
    """Where the instance type is bought, and its GPUs. Raises UsageError for a type that is not known."""
    from gpucost.whatif.spot.market import Place, find_instance

    instance = find_instance(con, fleet.instance_type or "", None)
    if instance.gpus != int(instance.gpus):
        raise UsageError(f"{instance.name} holds {instance.gpus:g} of a GPU", "give prices and --gpus instead of --instance-type")
    if fleet.gpus not in (None, instance.gpus):
        raise UsageError(f"{instance.name} has {instance.gpus:g} GPUs, not {fleet.gpus}", "leave out --gpus")
    return Place(instance.name, instance.provider, fleet.region, fleet.zone), int(instance.gpus)


def quote_of(con: DuckDBPyConnection, settings: Config, fleet: Described) -> tuple[Quote, Rate | None]:
    """Both prices of a node, from options first, and the rate of its catalog band. Raises UsageError where a price is missing."""
    from gpucost.whatif.fleet import HOURS_PER_MONTH, Price
    from gpucost.whatif.spot.calculator import Quote
    from gpucost.whatif.spot.market import read_market

    gpus, rate, market, place = fleet.gpus or GPUS_PER_NODE, None, None, None
    if fleet.instance_type is not None:
        place, gpus = find_place(con, fleet)
        market = read_market(con, [fleet.instance_type], settings.currency, settings.prices.stale_after_days)
        rate = market.band(place)
    elif fleet.region or fleet.zone:
        raise UsageError("--region and --zone say where an --instance-type is", "give --instance-type, or leave them out")
    prices = {"on_demand": fleet.on_demand_price, "spot": fleet.spot_price}
    found: dict[str, Price] = {}
    for option, price in prices.items():
        if price is not None:
            found[option] = Price(node_price(price, fleet.price_per, gpus), "option")
        elif market is not None and place is not None:
            found[option] = known_price(market, place, option)
        else:
            name = f"--{option.replace('_', '-')}-price"
            raise UsageError(f"{name} is missing", f"give {name}, or --instance-type and --region to look it up")
    quote = Quote(
        on_demand=found["on_demand"],
        spot=found["spot"],
        nodes=fleet.nodes or 1,
        gpus=gpus,
        hours=fleet.hours or HOURS_PER_MONTH,
        currency=settings.currency,
        price_per=fleet.price_per.value,
        name=str(place.instance_type) + (f" in {place.region}" if place.region else "") if place else "",
    )
    return quote, rate


def job_replay(settings: Config, fleet: Described, asked: StoreOptions, rate: Rate | None, on_demand_share: float) -> Replay:
    """A job to start again and again over the history of its instance type. Raises GpucostError where something is not known."""
    from gpucost.store import Store
    from gpucost.whatif.fleet import Price
    from gpucost.whatif.spot.market import read_market
    from gpucost.whatif.spot.replayed import Replay, job_starts

    if fleet.instance_type is None or fleet.hours is None:
        missing = "--instance-type" if fleet.instance_type is None else "--hours"
        raise UsageError(
            f"{missing} is missing: which job should be replayed?", f"give {missing}, or no options of a fleet at all"
        )
    period, _ = period_of(settings, asked) if any(asked.period().values()) else (None, "")
    with Store(settings.store).read() as con:
        place, gpus = find_place(con, fleet)
        # a replay ends with what was collected
        market = read_market(con, [fleet.instance_type], settings.currency, 0)
    if fleet.on_demand_price is not None:
        price = Price(node_price(fleet.on_demand_price, fleet.price_per, gpus), "option")
    else:
        price = known_price(market, place, "on_demand")
    nodes = fleet.nodes or 1
    jobs, covered = job_starts(place, fleet.hours, nodes, gpus, price.per_node_hour, market, period)
    return Replay(
        jobs=jobs,
        currency=settings.currency,
        title=f"{fleet.hours:g} h on {nodes} {place.instance_type} replayed over spot prices",
        period_name=str(covered),
        on_demand_source=price.source + (f", {price.as_of}" if price.as_of else ""),
        on_demand_share=on_demand_share,
        rate=rate,
        is_sample=True,
    )


def usage_replay(settings: Config, usage: Usage, rate: Rate | None, on_demand_share: float) -> Replay:
    """The real hours of a usage's on-demand nodes. Raises GpucostError where no spot price history covers any of them."""
    from gpucost.store import Store
    from gpucost.whatif.spot.market import read_market
    from gpucost.whatif.spot.replayed import Replay, node_jobs

    types = {node.instance_type for node in usage.fleet.nodes if node.instance_type}
    with Store(settings.store).read() as con:
        market = read_market(con, types, settings.currency, settings.prices.stale_after_days)
    jobs, left_out = node_jobs(usage.fleet, market, is_narrowed=usage.is_narrowed)
    return Replay(
        jobs=jobs,
        currency=settings.currency,
        title=f"On-demand nodes of {usage.scope_name} replayed over spot prices",
        period_name=usage.period_name,
        on_demand_source="store",
        on_demand_share=on_demand_share,
        rate=rate,
        is_sample=False,
        left_out=left_out,
    )


def known_price(market: Market, place: Place, option: str) -> Price:
    """The price of the place: spot history that is not stale before list prices. Raises UsageError where none is known."""
    from datetime import UTC, datetime

    from gpucost.model import to_ms

    now_ms = to_ms(datetime.now(UTC))
    price = (market.latest_spot(place, now_ms) if option == "spot" else None) or market.list_price(place, option)
    if price is not None:
        return price
    where = f" in {place.zone or place.region}" if place.zone or place.region else ""
    words = option.replace("_", "-")
    raise UsageError(
        f"no {words} price of {place.instance_type}{where} in {market.currency} is known",
        f"give --{words}-price" + ("" if place.region else ", or --region: prices differ between regions"),
    )
