"""`gpucost whatif rightsize`: other GPU models and counts for the same work."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated

import typer

from gpucost.cli.whatif import (
    GpusOption,
    HoursOption,
    OnDemandPriceOption,
    PricePerOption,
    Run,
    is_calculator,
    number_option,
    options_of,
    price_option,
    whatif_command,
)
from gpucost.whatif.fleet import PricePer


@whatif_command()
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
        int | None, typer.Option("--to-gpus", min=1, metavar="COUNT", help="How many. Default: what costs least, up to 8.")
    ] = None,
    relative_speed: Annotated[
        float | None, number_option("--relative-speed", "One is so many times as fast. Default: the catalog's.", above=True)
    ] = None,
    serving: Annotated[bool, typer.Option("--serving", help="The work runs all its hours, however fast the GPUs.")] = False,
    speeds: Annotated[
        Path | None, typer.Option("--speeds", metavar="FILE", help="CSV of gpu_model,relative_speed instead of the catalog's.")
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
    *,
    run: Run,
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
    from datetime import timedelta

    from gpucost.price import load_offers
    from gpucost.store.connection import scratch_store
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.fleet import levels
    from gpucost.whatif.gpu_specs import load_facts
    from gpucost.whatif.rightsize import (
        Margins,
        RightsizeOptions,
        answer,
        catalog_speeds,
        described,
        list_offers,
        read_speeds,
    )  # fmt: skip

    settings = run.settings
    with scratch_store() as con:
        facts = load_facts(con)
    speed_table = read_speeds(speeds, facts) if speeds is not None else catalog_speeds(facts)
    named = {"margin_percent": margin_percent, "headroom_percent": headroom_percent, "max_slowdown": max_slowdown}
    values = {name: value for name, value in named.items() if value is not None}
    margins, given = Margins(**values), frozenset(values) | ({"speeds"} if speeds else frozenset())
    describing = options_of(
        gpu_model=gpu_model, on_demand_price=on_demand_price, gpus=gpus, utilization_percent=utilization_percent,
        memory_per_gpu_mib=memory_per_gpu_mib, hours=hours, to_gpu_model=to_gpu_model, to_price=to_price, to_gpus=to_gpus,
        relative_speed=relative_speed, serving=serving,
    )  # fmt: skip
    if is_calculator(describing, run.asked.given() | options_of(same_model=same_model)):
        options, fleet, measured, speed_table, offer = described(
            facts=facts, speeds=speed_table, margins=margins, given=given, currency=settings.currency, gpu_model=gpu_model,
            on_demand_price=on_demand_price, price_per=price_per, gpus=gpus, utilization_percent=utilization_percent,
            memory_per_gpu_mib=memory_per_gpu_mib, hours=hours, to_gpu_model=to_gpu_model, to_price=to_price, to_gpus=to_gpus,
            relative_speed=relative_speed, serving=serving,
        )  # fmt: skip
        run.write(run.evaluate(answer(options, fleet, measured, facts, speed_table, [offer])))
        return
    usage = run.usage()
    with run.store.read() as con:
        facts = load_facts(con)
        load_offers(con, settings)
        offers = list_offers(con)
    measured = run.read(lambda con: levels(con, settings.activity, usage.period))
    stale_before = (usage.period.end - timedelta(days=settings.prices.stale_after_days)).date().isoformat()
    use = Assumption("usage, activity and today's prices", usage.period_name, "", "store")
    options = RightsizeOptions(
        settings.currency, usage.period_name, usage.scope_name, margins, same_model, stale_before, given, (use,)
    )
    run.write(run.evaluate(answer(options, usage.fleet, measured, facts, speed_table, offers)))
