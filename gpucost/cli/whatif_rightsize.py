"""`gpucost whatif rightsize`: other GPU models and counts for the same work."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, output_file
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption
from gpucost.cli._whatif import AnswerFormat, write_answer
from gpucost.cli._whatif_options import (
    ClusterOption,
    GpusOption,
    HoursOption,
    NamespaceOption,
    OnDemandPriceOption,
    OutputOption,
    PricePer,
    PricePerOption,
    SaveOption,
    StoreOptions,
    TeamOption,
    WorkloadOption,
    cost_of,
    is_calculator,
    node_price,
    number_option,
    price_option,
    saved_answer,
    stored_usage,
)
from gpucost.errors import UsageError

if TYPE_CHECKING:
    from gpucost.whatif.facts import Facts
    from gpucost.whatif.rightsize.calculator import Options
    from gpucost.whatif.rightsize.sizing import Margins
    from gpucost.whatif.rightsize.speeds import Speeds


@handle_errors
def whatif_rightsize(
    gpu_model: Annotated[
        str | None, typer.Option("--gpu-model", metavar="NAME", help="The GPUs of today, in any spelling.")
    ] = None,
    on_demand_price: OnDemandPriceOption = None,
    price_per: PricePerOption = PricePer.node,
    gpus: GpusOption = None,
    utilization_percent: Annotated[
        float | None, number_option("--utilization-percent", "How busy the GPUs are. Default: 100.", highest=100)
    ] = None,
    memory_per_gpu_mib: Annotated[
        float | None, number_option("--memory-per-gpu-mib", "Memory that the work fills of each GPU.", above=True)
    ] = None,
    hours: HoursOption = None,
    to_gpu_model: Annotated[str | None, typer.Option("--to-gpu-model", metavar="NAME", help="The GPUs to compare with.")] = None,
    to_price: Annotated[
        Decimal | None, price_option("--to-price", "Their price per hour, in --price-per (a node: of --to-gpus GPUs).")
    ] = None,
    to_gpus: Annotated[
        int | None,
        typer.Option("--to-gpus", min=1, metavar="COUNT", help="How many. Default: what costs least, up to 8."),
    ] = None,
    relative_speed: Annotated[
        float | None,
        number_option("--relative-speed", "One is so many times as fast. Default: the catalog's.", above=True),
    ] = None,
    serving: Annotated[bool, typer.Option("--serving", help="The work runs all its hours, however fast the GPUs.")] = False,
    speeds: Annotated[
        Path | None,
        typer.Option(
            "--speeds", metavar="FILE", help="CSV of gpu_model,relative_speed instead of the catalog's.", show_default=False
        ),
    ] = None,
    same_model: Annotated[bool, typer.Option("--same-model", help="Keep GPU models, and change counts only.")] = False,
    margin_percent: Annotated[
        float | None, number_option("--margin-percent", "Added to memory and activity measured. Default: 10.")
    ] = None,
    headroom_percent: Annotated[
        float | None, number_option("--headroom-percent", "Of GPUs that serve, kept free. Default: 20.", highest=90)
    ] = None,
    max_slowdown: Annotated[
        float | None, number_option("--max-slowdown", "Batch work may take so many times as long. Default: 2.", above=True)
    ] = None,
    team: TeamOption = None,
    namespace: NamespaceOption = None,
    workload: WorkloadOption = None,
    cluster: ClusterOption = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    format: Annotated[AnswerFormat, typer.Option("--format", help="How to write it.")] = AnswerFormat.table,
    output: OutputOption = None,
    save: SaveOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say which GPUs would do the same work for less: cost per unit of work, not per hour.

    Without --gpu-model: every workload measured in the store, by its memory and activity, and GPUs that it never used.

    \b
    Examples:
      gpucost whatif rightsize --month 2026-10
      gpucost whatif rightsize --team research --max-slowdown 1.5 --speeds speeds.csv
      gpucost whatif rightsize --gpu-model A100-SXM4-40GB --gpus 4 --on-demand-price 3 --price-per gpu \\
        --to-gpu-model H100-80GB-HBM3 --to-price 6 --to-gpus 2
    """
    from gpucost.config import load_config
    from gpucost.store.scratch import scratch_store
    from gpucost.whatif.facts import load_facts
    from gpucost.whatif.rightsize.sizing import Margins
    from gpucost.whatif.rightsize.speeds import catalog_speeds, read_speeds

    settings = load_config(config, store=store)
    target, saved = output_file(output), saved_answer(settings, save)
    with scratch_store() as con:
        facts = load_facts(con)
    speed_table = read_speeds(speeds, facts) if speeds is not None else catalog_speeds(facts)
    named = {
        "margin_percent": margin_percent,
        "headroom_percent": headroom_percent,
        "max_slowdown": max_slowdown,
        "speeds": speeds,
    }
    margins = Margins(
        10.0 if margin_percent is None else margin_percent,
        20.0 if headroom_percent is None else headroom_percent,
        2.0 if max_slowdown is None else max_slowdown,
    )
    asked = StoreOptions(team, namespace, workload, cluster, month, start, end, last)
    described = {
        "--gpu-model": gpu_model,
        "--on-demand-price": on_demand_price,
        "--gpus": gpus,
        "--utilization-percent": utilization_percent,
        "--memory-per-gpu-mib": memory_per_gpu_mib,
        "--hours": hours,
        "--to-gpu-model": to_gpu_model,
        "--to-price": to_price,
        "--to-gpus": to_gpus,
        "--relative-speed": relative_speed,
        "--serving": serving or None,
    }
    if is_calculator(described, asked.given() | {"--same-model": same_model or None}):
        from gpucost.whatif.rightsize import calculator

        if gpu_model is None or to_gpu_model is None or on_demand_price is None or to_price is None:
            raise UsageError(
                "the GPUs to compare, or what they cost, are not told",
                "--gpu-model, --on-demand-price, --to-gpu-model and --to-price tell them",
            )
        options, speed_table = _described(
            facts, speed_table, margins, settings.currency, gpu_model, on_demand_price, price_per, gpus, utilization_percent,
            memory_per_gpu_mib, hours, to_gpu_model, to_price, to_gpus, relative_speed, serving=serving,
        )  # fmt: skip
        write_answer(calculator.answer(options, facts, speed_table, cost_of(settings)), format, target, saved)
        return

    from datetime import timedelta

    from gpucost import pipeline
    from gpucost.store import Store
    from gpucost.whatif.rightsize import stored
    from gpucost.whatif.rightsize.offers import list_offers

    usage = stored_usage(settings, asked, quiet=quiet)
    with Store(settings.store).read() as con:
        facts = load_facts(con)
        offers = list_offers(con, settings.currency)
    levels = pipeline.levels(settings, Store(settings.store), usage.period)
    given = frozenset(name for name, value in named.items() if value is not None)
    stale_before = (usage.period.end - timedelta(days=settings.prices.stale_after_days)).date().isoformat()
    stored_options = stored.Options(
        settings.currency, usage.period_name, usage.scope_name, margins, same_model, stale_before, given
    )
    answer = stored.answer(stored_options, usage.fleet, levels, facts, speed_table, offers, cost_of(settings))
    write_answer(answer, format, target, saved)


def _described(
    facts: Facts,
    speeds: Speeds,
    margins: Margins,
    currency: str,
    gpu_model: str,
    on_demand_price: Decimal,
    price_per: PricePer,
    gpus: int | None,
    utilization_percent: float | None,
    memory_per_gpu_mib: float | None,
    hours: float | None,
    to_gpu_model: str,
    to_price: Decimal,
    to_gpus: int | None,
    relative_speed: float | None,
    *,
    serving: bool,
) -> tuple[Options, Speeds]:
    """The calculator's options and speeds. Raises UsageError where a model is not known, or a node's GPUs are not told."""
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.fleet import HOURS_PER_MONTH
    from gpucost.whatif.rightsize.calculator import Options
    from gpucost.whatif.rightsize.sizing import Load
    from gpucost.whatif.rightsize.speeds import Speeds

    if price_per is PricePer.node and to_gpus is None:
        raise UsageError("how many GPUs a node of --to-price has is not told", "--to-gpus tells it, or --price-per gpu")
    model, other = facts.model(gpu_model), facts.model(to_gpu_model, "--to-gpu-model")
    count = gpus or 8
    busy = 1.0 if utilization_percent is None else utilization_percent / 100
    if relative_speed is not None:
        speeds = Speeds({model.name: 1.0, other.name: relative_speed}, "option", across_vendors=True)
    load = Load(model.name, count, count, busy, busy, memory_per_gpu_mib, is_batch=not serving)
    always = HOURS_PER_MONTH if hours is None else hours
    told = (
        Assumption("price today", on_demand_price, f"per {price_per}-hour", "option"),
        Assumption("price of the others", to_price, f"per {price_per}-hour", "option"),
        Assumption("GPUs are busy", busy * 100, "percent", "default" if utilization_percent is None else "option"),
        Assumption("hours of work", always, "hours", "default" if hours is None else "option"),
        Assumption(f"memory of {model.name}", model.memory_mib, "MiB", "catalog", model.as_of),
        Assumption(f"memory of {other.name}", other.memory_mib, "MiB", "catalog", other.as_of),
    )
    options = Options(
        load=load,
        price_per_gpu_hour=round(node_price(on_demand_price, price_per, count) / count, 12),
        to_model=other.name,
        to_price_per_gpu_hour=round(node_price(to_price, price_per, to_gpus or 1) / (to_gpus or 1), 12),
        currency=currency,
        to_gpus=to_gpus,
        hours=always,
        margins=margins,
        told=told,
    )
    return options, speeds
