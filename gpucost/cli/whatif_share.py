"""`gpucost whatif share`: several pods on one GPU."""

from __future__ import annotations

from typing import Annotated

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
    node_shape,
    number_option,
    saved_answer,
    stored_usage,
)
from gpucost.errors import UsageError
from gpucost.whatif.share.method import Method


@handle_errors
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
        int | None,
        typer.Option("--gpus-per-pod", min=1, metavar="COUNT", help="GPUs of each pod. Default: 1."),
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
    from gpucost.config import load_config
    from gpucost.store.scratch import scratch_store
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.facts import load_facts
    from gpucost.whatif.share.methods import Sizing

    settings = load_config(config, store=store)
    target, saved = output_file(output), saved_answer(settings, save)
    if method is Method.mig and ways is not None:
        raise UsageError("--ways is no option of MIG: its layouts say how many pods a GPU takes", "leave out --ways")
    named = {
        "method": None if method is Method.time_slicing else method,
        "ways": ways,
        "margin_percent": margin_percent,
        "headroom_percent": headroom_percent,
    }
    given = frozenset(name for name, value in named.items() if value is not None)
    sizing = Sizing(
        method,
        4 if ways is None else ways,
        10.0 if margin_percent is None else margin_percent,
        20.0 if headroom_percent is None else headroom_percent,
    )
    asked = StoreOptions(team, namespace, workload, cluster, month, start, end, last)
    described = {
        "--pods": pods,
        "--utilization-percent": utilization_percent,
        "--gpus-per-pod": gpus_per_pod,
        "--memory-per-pod-mib": memory_per_pod_mib,
        "--gpu-model": gpu_model,
        "--on-demand-price": on_demand_price,
        "--gpus": gpus,
        "--hours": hours,
    }
    with scratch_store() as con:
        facts = load_facts(con)
    if not is_calculator(described, asked.given() | {"--across-teams": across_teams or None}):
        from gpucost import pipeline
        from gpucost.store import Store
        from gpucost.whatif.share import stored

        usage = stored_usage(settings, asked, quiet=quiet)
        levels = pipeline.levels(settings, Store(settings.store), usage.period)
        stored_options = stored.Options(sizing, settings.currency, usage.period_name, usage.scope_name, across_teams, given)
        answer = stored.answer(stored_options, usage.fleet, levels, facts, cost_of(settings))
        write_answer(answer, format, target, saved)
        return

    from gpucost.whatif.fleet import HOURS_PER_MONTH
    from gpucost.whatif.share import calculator

    if pods is None or utilization_percent is None:
        raise UsageError(
            f"{'how many pods share GPUs' if pods is None else 'how busy the pods are'} is not told",
            "--pods 40 --utilization-percent 15 tells both",
        )
    model = facts.model(gpu_model) if gpu_model is not None else None
    if method is Method.mig and (model is None or not model.profiles):
        raise UsageError(
            "MIG needs a GPU model that can be cut" if model is None else f"{model.name} cannot be cut into MIG slices",
            "--gpu-model A100-SXM4-40GB names one",
        )
    if memory_per_pod_mib is not None and (model is None or model.memory_mib is None):
        raise UsageError("how much memory a GPU has is not told", "--gpu-model names the GPUs")
    _, per_node = node_shape(None, gpus)
    always = HOURS_PER_MONTH if hours is None else hours
    told = [
        Assumption("pods", pods, "pods", "option"),
        Assumption("each pod's GPUs are busy", utilization_percent, "percent", "option"),
        Assumption("GPUs of a pod", gpus_per_pod or 1, "GPUs", "option" if gpus_per_pod else "default"),
        *sizing.assumptions(given),
        Assumption("hours", always, "hours", "default" if hours is None else "option"),
    ]
    if memory_per_pod_mib is not None:
        told.append(Assumption("memory of a pod", memory_per_pod_mib, "MiB", "option"))
    if model is not None:
        told.append(Assumption(f"memory of {model.name}", model.memory_mib, "MiB", "catalog", model.as_of))
    price = None
    if on_demand_price is not None:
        price = round(node_price(on_demand_price, price_per, per_node) / per_node, 12)
        told.append(Assumption("price", on_demand_price, f"per {price_per}-hour", "option"))
    options = calculator.Options(
        sizing=sizing,
        pods=pods,
        utilization_percent=utilization_percent,
        currency=settings.currency,
        gpus_per_pod=gpus_per_pod or 1,
        memory_mib=memory_per_pod_mib,
        model=model,
        price_per_gpu_hour=price,
        hours=always,
        told=tuple(told),
    )
    write_answer(calculator.answer(options, cost_of(settings)), format, target, saved)
