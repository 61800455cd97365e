"""`gpucost whatif schedule`: GPUs that are up only when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, output_file
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption
from gpucost.cli._whatif import AnswerFormat, write_answer
from gpucost.cli._whatif_options import (
    DAYS,
    ActiveHoursPerDayOption,
    ClusterOption,
    DaysOption,
    GpusOption,
    HoursOption,
    NamespaceOption,
    NodesOption,
    OnDemandPriceOption,
    OutputOption,
    PricePer,
    PricePerOption,
    SaveOption,
    SpotPriceOption,
    StoreOptions,
    TeamOption,
    WorkloadOption,
    cost_of,
    days_counted,
    is_calculator,
    node_price,
    node_shape,
    number_option,
    saved_answer,
    stored_usage,
)
from gpucost.errors import UsageError

if TYPE_CHECKING:
    from decimal import Decimal

    from gpucost.whatif.schedule.calculator import Options as Described
    from gpucost.whatif.schedule.hours import OfficeHours

_NOTEBOOK_IDLE_MINUTES = 60.0


@handle_errors
def whatif_schedule(
    on_demand_price: OnDemandPriceOption = None,
    spot_price: SpotPriceOption = None,
    price_per: PricePerOption = PricePer.node,
    nodes: NodesOption = None,
    gpus: GpusOption = None,
    hours: HoursOption = None,
    active_hours_per_day: ActiveHoursPerDayOption = None,
    days: DaysOption = None,
    idle_minutes: Annotated[
        float | None,
        number_option("--idle-minutes", "Release any pod's GPUs once all were idle for so long.", above=True),
    ] = None,
    notebook_idle_minutes: Annotated[
        float | None,
        number_option("--notebook-idle-minutes", "The same of notebooks; 60 where no rule is given.", above=True),
    ] = None,
    notebook: Annotated[
        list[str] | None,
        typer.Option("--notebook", metavar="GLOB", help="Workloads or namespaces that are notebooks; repeatable."),
    ] = None,
    empty_minutes: Annotated[
        float | None, number_option("--empty-minutes", "Remove a node once it was empty for so long. Default: 10.")
    ] = None,
    provision_minutes: Annotated[
        float | None, number_option("--provision-minutes", "A node comes up in so long. Default: 5; by options alone 0.")
    ] = None,
    restart_minutes: Annotated[
        float | None, number_option("--restart-minutes", "A released pod comes back in so long. Default: 2.")
    ] = None,
    office_hours: Annotated[
        str | None,
        typer.Option("--office-hours", metavar="HH:MM-HH:MM", help="Local hours outside of which all but batch work is off."),
    ] = None,
    weekdays: Annotated[str, typer.Option("--weekdays", metavar="DAYS", help="Days with office hours.")] = "mon-fri",
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
    """Say what releasing idle GPUs, removing empty nodes or office hours would save, and who would wait.

    With prices, nodes always on against the hours that are needed. Without, the store's usage is replayed under the rules.

    \b
    Examples:
      gpucost whatif schedule --nodes 8 --on-demand-price 32.77 --active-hours-per-day 10 --days 30
      gpucost whatif schedule --month 2026-10 --idle-minutes 30 --empty-minutes 10 --provision-minutes 5
      gpucost whatif schedule --team research --notebook-idle-minutes 60
      gpucost whatif schedule --namespace dev --office-hours 08:00-18:00 --weekdays mon-fri
    """
    from gpucost.config import load_config
    from gpucost.whatif.schedule.hours import OfficeHours

    settings = load_config(config, store=store)
    target, saved = output_file(output), saved_answer(settings, save)
    office = OfficeHours.parse(office_hours, weekdays) if office_hours is not None else None
    asked = StoreOptions(team, namespace, workload, cluster, month, start, end, last)
    replayed = {
        "--idle-minutes": idle_minutes,
        "--notebook-idle-minutes": notebook_idle_minutes,
        "--notebook": notebook or None,
        "--empty-minutes": empty_minutes,
        "--restart-minutes": restart_minutes,
    }
    described = {
        "--on-demand-price": on_demand_price,
        "--spot-price": spot_price,
        "--nodes": nodes,
        "--gpus": gpus,
        "--hours": hours,
        "--active-hours-per-day": active_hours_per_day,
        "--days": days,
    }
    if is_calculator(described, asked.given() | replayed):
        from gpucost.whatif.schedule import calculator

        options = _described(
            on_demand_price, spot_price, price_per, nodes, gpus, hours, active_hours_per_day, days, provision_minutes, office,
            settings.currency,
        )  # fmt: skip
        write_answer(calculator.answer(options, cost_of(settings)), format, target, saved)
        return

    from dataclasses import replace

    from gpucost import pipeline
    from gpucost.store import Store
    from gpucost.whatif.fleet import Fleet
    from gpucost.whatif.measured import NOTEBOOKS
    from gpucost.whatif.schedule import stored
    from gpucost.whatif.schedule.rules import Rules

    # a cluster's nodes are whole, those too on which nothing ran: ask for all nodes and keep the cluster's
    of_clusters = bool(cluster) and not (team or namespace or workload)
    usage = stored_usage(settings, replace(asked, cluster=None) if of_clusters else asked, quiet=quiet)
    fleet = usage.fleet
    if of_clusters:
        chosen = set(cluster or ())
        fleet = Fleet(tuple(n for n in fleet.nodes if n.cluster in chosen), tuple(p for p in fleet.pods if p.cluster in chosen))
        if not fleet.nodes:
            from gpucost.errors import GpucostError

            raise GpucostError(
                f"nothing in {usage.period} was used in {', '.join(sorted(chosen))}", "gpucost report --by cluster lists them"
            )
    no_rule = idle_minutes is None and notebook_idle_minutes is None and office is None
    rules = Rules(
        idle_minutes=idle_minutes,
        notebook_idle_minutes=_NOTEBOOK_IDLE_MINUTES if no_rule else notebook_idle_minutes,
        notebooks=tuple(notebook) if notebook else NOTEBOOKS,
        office=tuple(office.spans(usage.period, settings.tz)) if office else None,
        empty_minutes=10.0 if empty_minutes is None else empty_minutes,
        provision_minutes=5.0 if provision_minutes is None else provision_minutes,
        restart_minutes=2.0 if restart_minutes is None else restart_minutes,
    )
    at_least_ms = 0 if office else rules.shortest_idle_ms
    idle = pipeline.idle_stretches(settings, Store(settings.store), usage.period, at_least_ms)
    given = {name.removeprefix("--").replace("-", "_") for name, value in replayed.items() if value is not None}
    given |= {"notebooks"} if notebook else set()
    given |= {"provision_minutes"} if provision_minutes is not None else set()
    scope = ", ".join(sorted(cluster or ())) if of_clusters else usage.scope_name
    stored_options = stored.Options(rules, settings.currency, usage.period_name, scope, usage.is_narrowed, frozenset(given))
    write_answer(stored.answer(stored_options, fleet, idle, cost_of(settings)), format, target, saved)


def _described(
    on_demand_price: Decimal | None,
    spot_price: Decimal | None,
    price_per: PricePer,
    nodes: int | None,
    gpus: int | None,
    hours: float | None,
    active_hours_per_day: float | None,
    days: int | None,
    provision_minutes: float | None,
    office: OfficeHours | None,
    currency: str,
) -> Described:
    """The calculator's options. Raises UsageError where they do not say enough, or contradict."""
    from gpucost.whatif.answer import Assumption
    from gpucost.whatif.fleet import HOURS_PER_MONTH
    from gpucost.whatif.schedule.calculator import Options

    if on_demand_price is None:
        raise UsageError("what a node costs now is not told", "--on-demand-price 32.77 tells it, per hour")
    if (active_hours_per_day is None) == (office is None):
        raise UsageError(
            "the hours that nodes are needed are told twice" if office else "the hours that nodes are needed are not told",
            "either --active-hours-per-day 10 or --office-hours 08:00-18:00 tells them",
        )
    count, per_node = node_shape(nodes, gpus)
    counted = days_counted(days, active_hours_per_day)
    # more days than a month has are all of them today
    longest = max(HOURS_PER_MONTH, 24 * counted) if counted > DAYS else HOURS_PER_MONTH
    always = longest if hours is None else hours
    told = [
        Assumption("on-demand price", on_demand_price, f"per {price_per}-hour", "option"),
        Assumption("always on", always, "hours", "default" if hours is None else "option"),
        Assumption("nodes", count, "nodes", "default" if nodes is None else "option"),
        Assumption("GPUs of a node", per_node, "GPUs", "default" if gpus is None else "option"),
    ]
    if spot_price is not None:
        told.append(Assumption("spot price", spot_price, f"per {price_per}-hour", "option"))
    if office is not None:
        active = always * office.share_of_week
        starts = round(always / 168 * len(office.weekdays))
        told.append(Assumption("office hours", round(active, 4), f"of {always:g} hours", "option"))
    else:
        active, starts = (active_hours_per_day or 0.0) * counted, counted
        told.append(Assumption("needed", active_hours_per_day, "hours a day", "option"))
        told.append(Assumption("days", counted, "days", "default" if days is None else "option"))
        if active > always:
            raise UsageError(
                f"{active_hours_per_day:g} hours on {counted} days are {active:g}, more than the {always:g} that nodes are on",
                "--hours says how long nodes are on today, --days how many days are counted",
            )
    told.append(
        Assumption(
            "a node is provisioned in", provision_minutes or 0.0, "minutes", "default" if provision_minutes is None else "option"
        )
    )
    return Options(
        nodes=count,
        gpus_per_node=per_node,
        on_demand_price=node_price(on_demand_price, price_per, per_node),
        active_hours=active,
        currency=currency,
        hours=always,
        spot_price=node_price(spot_price, price_per, per_node) if spot_price is not None else None,
        starts=starts,
        provision_minutes=provision_minutes or 0.0,
        told=tuple(told),
    )
