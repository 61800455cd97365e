"""`gpucost whatif spot`: on-demand usage moved to spot, or the reverse."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli.output import note
from gpucost.cli.whatif import (
    ActiveHoursPerDayOption,
    DaysOption,
    GpusOption,
    HoursOption,
    NodesOption,
    OnDemandPriceOption,
    PricePerOption,
    Run,
    SeedOption,
    SpotPriceOption,
    is_calculator,
    number_option,
    options_of,
    store_or_empty,
    whatif_command,
)
from gpucost.errors import UsageError
from gpucost.whatif.fleet import PricePer, hours_needed

if TYPE_CHECKING:
    from gpucost.whatif.answer import Answer
    from gpucost.whatif.spot.answer import Described
    from gpucost.whatif.spot.backtest import Replay
    from gpucost.whatif.spot.interruptions import Rate
    from gpucost.whatif.spot.simulate import Options, Question


def chosen_rate(interruptions_per_hour: float | None, traces: Sequence[Path] | None, *, quiet: bool) -> Rate | None:
    """The rate that options give: the number, or what traces come to; None where neither is given."""
    from gpucost.whatif.spot.interruptions import Rate, of_trace, read_traces

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
    from gpucost.whatif.fleet import Price, node_price
    from gpucost.whatif.spot.answer import find_place, known_price
    from gpucost.whatif.spot.backtest import Replay, job_starts
    from gpucost.whatif.spot.market import read_market

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
    from gpucost.whatif.spot.backtest import Replay, node_jobs
    from gpucost.whatif.spot.market import read_market

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


class MoveTo(StrEnum):
    """Where usage moves to."""

    spot = "spot"
    on_demand = "on-demand"


@whatif_command()
def whatif_spot(
    on_demand_price: OnDemandPriceOption = None,
    spot_price: SpotPriceOption = None,
    price_per: PricePerOption = PricePer.node,
    instance_type: Annotated[
        str | None, typer.Option("--instance-type", metavar="TYPE", help="Look prices, GPUs and interruptions of it up.")
    ] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="REGION", help="Of --instance-type.")] = None,
    zone: Annotated[str | None, typer.Option("--zone", metavar="ZONE", help="Of --instance-type.")] = None,
    nodes: NodesOption = None,
    gpus: GpusOption = None,
    hours: HoursOption = None,
    active_hours_per_day: ActiveHoursPerDayOption = None,
    days: DaysOption = None,
    interruptions_per_hour: Annotated[
        float | None,
        number_option("--interruptions-per-hour", "Interruptions of one node per hour. Default: the catalog's band of the type."),
    ] = None,
    trace: Annotated[
        list[Path] | None,
        typer.Option("--trace", metavar="PATH", help="Estimate interruptions from traces: a file or directory; repeatable."),
    ] = None,
    checkpoint_minutes: Annotated[
        float | None, number_option("--checkpoint-minutes", "Work between two checkpoints. Default: 30.", above=True)
    ] = None,
    checkpoint_write_minutes: Annotated[
        float | None, number_option("--checkpoint-write-minutes", "What writing a checkpoint takes. Default: 0.")
    ] = None,
    restart_minutes: Annotated[
        float | None,
        number_option(
            "--restart-minutes", "From an interruption until work goes on: provision, pull the image, load. Default: 0."
        ),
    ] = None,
    notice_seconds: Annotated[
        float | None,
        number_option("--notice-seconds", "Notice of an interruption; a checkpoint that fits it saves the work. Default: 0."),
    ] = None,
    capacity_wait_minutes: Annotated[
        float | None,
        number_option("--capacity-wait-minutes", "Wait for capacity after an interruption: time, not paid. Default: 0."),
    ] = None,
    first_hour_free: Annotated[
        bool, typer.Option("--first-hour-free", help="Instances interrupted within their first hour cost nothing (EC2).")
    ] = False,
    move_to: Annotated[MoveTo, typer.Option("--move-to", help="spot: on-demand usage moves to spot; on-demand: the reverse.")] = (
        MoveTo.spot
    ),
    backtest: Annotated[
        bool,
        typer.Option("--backtest", help="Replay a job (--instance-type, --hours), or real usage, over the store's spot prices."),
    ] = False,
    on_demand_share: Annotated[
        float,
        number_option("--on-demand-share", "With --backtest: what stays on demand as an anchor.", highest=1, show_default=True),
    ] = 0.3,
    runs: Annotated[
        int, typer.Option("--runs", min=100, max=1_000_000, metavar="COUNT", help="Simulated runs of the job.")
    ] = 10_000,
    seed: SeedOption = 0,
    *,
    run: Run,
) -> None:
    """Say what moving on-demand usage to spot would save, interruptions counted.

    With --on-demand-price, --instance-type, --nodes, --gpus or --hours: a calculator, no store needed. Without them: the usage
    in the store of the last complete month, or of the period and the team named. Spot prices come from --spot-price, else the
    store's spot price history, else own spot nodes of the type, else the catalog.

    Traces are JSON with metadata.gap_seconds and data (instances at each tick), CSV of milliseconds,add|remove,node, or counts:
    date,time,instances or elapsed,instances. Interruptions come from an option, else the catalog's bands by instance type.

    \b
    Examples:
      gpucost whatif spot --on-demand-price 32 --spot-price 12 --interruptions-per-hour 0.33 --checkpoint-minutes 30
      gpucost whatif spot --instance-type p4d.24xlarge --region us-east-1 --nodes 4 --restart-minutes 10
      gpucost whatif spot --team research --month 2026-10
      gpucost whatif spot --backtest --instance-type p3.2xlarge --region us-east-1 --hours 168
      gpucost whatif spot --trace traces/ --checkpoint-write-minutes 3 --format json
    """
    from gpucost.price import load_offers
    from gpucost.whatif.spot import answer
    from gpucost.whatif.spot.answer import Described
    from gpucost.whatif.spot.simulate import Options, Target

    given = {
        "checkpoint_minutes": checkpoint_minutes,
        "checkpoint_write_minutes": checkpoint_write_minutes,
        "restart_minutes": restart_minutes,
        "notice_seconds": notice_seconds,
        "capacity_wait_minutes": capacity_wait_minutes,
    }
    times = {name: value for name, value in given.items() if value is not None}
    options = Options(
        **times, first_hour_free=first_hour_free, runs=runs, seed=seed, to=Target(move_to.value), given=frozenset(times)
    )
    rate = chosen_rate(interruptions_per_hour, trace, quiet=run.quiet)
    described = options_of(
        on_demand_price=on_demand_price, instance_type=instance_type, region=region, zone=zone, nodes=nodes, gpus=gpus,
        hours=hours, active_hours_per_day=active_hours_per_day, days=days,
    )  # fmt: skip
    needed = hours_needed(hours, active_hours_per_day, days)
    fleet = Described(on_demand_price, spot_price, price_per, instance_type, region, zone, nodes, gpus, needed)
    if backtest:
        run.write(_backtest(run, options, rate, fleet, on_demand_share, described))
    elif is_calculator(described, run.asked.given()):
        with store_or_empty(run.settings) as con:
            load_offers(con, run.settings)
            question = answer.described(con, run.settings, options, fleet, rate)
        run.write(run.evaluate(answer.answer(options, question)))
    else:
        run.write(run.evaluate(answer.answer(options, _from_store(run, rate, fleet))))


def _from_store(run: Run, rate: Rate | None, fleet: Described) -> Question:
    from gpucost.price import load_offers
    from gpucost.whatif.spot.market import read_market, typical_rate
    from gpucost.whatif.spot.simulate import Question

    usage, settings = run.usage(), run.settings
    types = {node.instance_type for node in usage.fleet.nodes if node.instance_type}
    with run.store.read() as con:
        load_offers(con, settings)
        market = read_market(con, types, settings.currency, settings.prices.stale_after_days, usage.period)
        typical = typical_rate(con)
    return Question(
        usage.fleet, usage.period_name, usage.scope_name, usage.is_narrowed, market, typical, rate, fleet.spot_price,
        fleet.price_per.value,
    )  # fmt: skip


def _backtest(
    run: Run, options: Options, rate: Rate | None, fleet: Described, on_demand_share: float, described: dict[str, object]
) -> Answer:
    from gpucost.whatif.spot import backtest

    if options.to.value != MoveTo.spot.value:
        raise UsageError("--backtest compares spot with on demand; there is nothing to reverse", "leave out --move-to")
    if fleet.spot_price is not None:
        raise UsageError("--backtest takes spot prices from the store's history", "leave out --spot-price")
    if is_calculator(described, run.asked.scope()):
        question = job_replay(run, fleet, rate, on_demand_share)
    else:
        question = usage_replay(run, rate, on_demand_share)
    return run.evaluate(backtest.answer(options, question))
