"""`gpucost whatif share`: several pods on one GPU."""

from __future__ import annotations

from typing import Annotated, Any

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
    whatif_command,
)
from gpucost.errors import UsageError
from gpucost.whatif.fleet import PricePer
from gpucost.whatif.share import Method


@whatif_command()
def whatif_share(
    method: Annotated[Method, typer.Option("--method", help="How pods share a GPU.")] = Method.time_slicing,
    ways: Annotated[
        int | None, typer.Option("--ways", min=2, max=48, metavar="COUNT", help="Most pods on one GPU; not for mig. Default: 4.")
    ] = None,
    margin_percent: Annotated[
        float | None, number_option("--margin-percent", "Added to what was measured: sharing interferes. Default: 10.")
    ] = None,
    headroom_percent: Annotated[
        float | None, number_option("--headroom-percent", "Of a GPU or slice, kept free. Default: 20.", highest=90)
    ] = None,
    across_teams: Annotated[bool, typer.Option("--across-teams", help="Pods of several teams may share a GPU.")] = False,
    pods: Annotated[int | None, typer.Option("--pods", min=1, max=100_000, metavar="COUNT", help="Pods, all alike.")] = None,
    utilization_percent: Annotated[
        float | None, number_option("--utilization-percent", "How busy each pod keeps a GPU.", highest=100)
    ] = None,
    gpus_per_pod: Annotated[
        int | None, typer.Option("--gpus-per-pod", min=1, metavar="COUNT", help="GPUs of each pod. Default: 1.")
    ] = None,
    memory_per_pod_mib: Annotated[
        float | None, number_option("--memory-per-pod-mib", "Memory that each pod fills of a GPU.", above=True)
    ] = None,
    gpu_model: Annotated[
        str | None, typer.Option("--gpu-model", metavar="NAME", help="The GPUs, in any spelling: their memory and MIG profiles.")
    ] = None,
    on_demand_price: OnDemandPriceOption = None,
    price_per: PricePerOption = PricePer.node,
    gpus: GpusOption = None,
    hours: HoursOption = None,
    *,
    run: Run,
) -> None:
    """Say how many GPUs pods need when they share them, by time slicing, MPS or MIG, and what that saves.

    Without --pods: the store's pods with one GPU each, by the 95th percentile of what was measured of their workload.

    \b
    Examples:
      gpucost whatif share --pods 40 --utilization-percent 15 --gpus-per-pod 1 --ways 4
      gpucost whatif share --pods 12 --utilization-percent 20 --method mig --gpu-model A100-SXM4-40GB \\
        --memory-per-pod-mib 4000 --on-demand-price 3 --price-per gpu
      gpucost whatif share --month 2026-10 --method mps --ways 8
      gpucost whatif share --team platform --across-teams
    """
    from gpucost.store.connection import scratch_store
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.fleet import levels
    from gpucost.whatif.gpu_specs import load_facts
    from gpucost.whatif.share import ShareOptions, Sizing, answer, described

    settings = run.settings
    if method is Method.mig and ways is not None:
        raise UsageError("--ways is no option of MIG: its layouts say how many pods a GPU takes", "leave out --ways")
    named = {"ways": ways, "margin_percent": margin_percent, "headroom_percent": headroom_percent}
    values: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    sizing = Sizing(method, **values)
    given = frozenset(values) | ({"method"} if method is not Method.time_slicing else frozenset())
    describing = options_of(
        pods=pods, utilization_percent=utilization_percent, gpus_per_pod=gpus_per_pod, memory_per_pod_mib=memory_per_pod_mib,
        gpu_model=gpu_model, on_demand_price=on_demand_price, gpus=gpus, hours=hours,
    )  # fmt: skip
    with scratch_store() as con:
        facts = load_facts(con)
    if is_calculator(describing, run.asked.given() | options_of(across_teams=across_teams)):
        options, fleet, measured = described(
            sizing=sizing, given=given, facts=facts, currency=settings.currency, pods=pods, gpus_per_pod=gpus_per_pod,
            utilization_percent=utilization_percent, memory_per_pod_mib=memory_per_pod_mib, gpu_model=gpu_model,
            on_demand_price=on_demand_price, price_per=price_per, gpus=gpus, hours=hours,
        )  # fmt: skip
        run.write(run.evaluate(answer(options, fleet, measured, facts)))
        return
    usage = run.usage()
    measured = run.read(lambda con: levels(con, settings.activity, usage.period))
    assumptions = (
        Assumption("how busy a pod is", "95th percentile of its workload's busiest GPU", "", "store"),
        Assumption("usage and prices", usage.period_name, "", "store"),
    )
    options = ShareOptions(
        sizing, settings.currency, usage.period_name, usage.scope_name, across_teams, given, assumptions=assumptions
    )
    run.write(run.evaluate(answer(options, usage.fleet, measured, facts)))
