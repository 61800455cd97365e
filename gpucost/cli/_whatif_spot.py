"""What `gpucost whatif spot` asks the store: the rate that traces come to, and what is replayed over spot price history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpucost.cli._common import note
from gpucost.cli._whatif_run import Run
from gpucost.errors import UsageError

if TYPE_CHECKING:
    from gpucost.whatif.spot.described import Described
    from gpucost.whatif.spot.rates import Rate
    from gpucost.whatif.spot.replayed import Replay


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


def job_replay(run: Run, fleet: Described, rate: Rate | None, on_demand_share: float) -> Replay:
    """A job to start again and again over the history of its instance type. Raises GpucostError where something is not known."""
    from gpucost.price import load_offers
    from gpucost.whatif.described import node_price
    from gpucost.whatif.fleet import Price
    from gpucost.whatif.spot.described import find_place, known_price
    from gpucost.whatif.spot.market import read_market
    from gpucost.whatif.spot.replayed import Replay, job_starts

    if fleet.instance_type is None or fleet.hours is None:
        missing = "--instance-type" if fleet.instance_type is None else "--hours"
        raise UsageError(
            f"{missing} is missing: which job should be replayed?", f"give {missing}, or no options of a fleet at all"
        )
    settings = run.settings
    period = run.period()[0] if any(run.asked.period().values()) else None
    with run.store.read() as con:
        place, gpus = find_place(con, fleet)
        # a replay ends with what was collected
        load_offers(con, settings)
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


def usage_replay(run: Run, rate: Rate | None, on_demand_share: float) -> Replay:
    """The real hours of a usage's on-demand nodes. Raises GpucostError where no spot price history covers any of them."""
    from gpucost.price import load_offers
    from gpucost.whatif.spot.market import read_market
    from gpucost.whatif.spot.replayed import Replay, node_jobs

    usage, settings = run.usage(), run.settings
    types = {node.instance_type for node in usage.fleet.nodes if node.instance_type}
    with run.store.read() as con:
        load_offers(con, settings)
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
