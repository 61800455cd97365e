"""`gpucost whatif schedule`: GPUs that are up only when they are needed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpucost.cli.whatif import (
    ActiveHoursPerDayOption,
    DaysOption,
    GpusOption,
    HoursOption,
    NodesOption,
    OnDemandPriceOption,
    PricePerOption,
    Run,
    SpotPriceOption,
    is_calculator,
    number_option,
    options_of,
    whatif_command,
)
from gpucost.errors import GpucostError
from gpucost.whatif.fleet import PricePer

_NOTEBOOK_IDLE_MINUTES = 60.0


@whatif_command()
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
        float | None, number_option("--idle-minutes", "Release any pod's GPUs once all were idle for so long.", above=True)
    ] = None,
    notebook_idle_minutes: Annotated[
        float | None, number_option("--notebook-idle-minutes", "The same of notebooks; 60 where no rule is given.", above=True)
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
    *,
    run: Run,
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
    from dataclasses import replace

    from gpucost.whatif.fleet import NOTEBOOKS, idle_stretches
    from gpucost.whatif.schedule import OfficeHours, Rules, ScheduleOptions, answer, described, played

    settings = run.settings
    office = OfficeHours.parse(office_hours, weekdays) if office_hours is not None else None
    replayed = options_of(
        idle_minutes=idle_minutes, notebook_idle_minutes=notebook_idle_minutes, notebook=notebook, empty_minutes=empty_minutes,
        restart_minutes=restart_minutes,
    )  # fmt: skip
    describing = options_of(
        on_demand_price=on_demand_price, spot_price=spot_price, nodes=nodes, gpus=gpus, hours=hours,
        active_hours_per_day=active_hours_per_day, days=days,
    )  # fmt: skip
    if is_calculator(describing, run.asked.given() | replayed):
        options, fleet, then = described(
            on_demand_price=on_demand_price, spot_price=spot_price, price_per=price_per, nodes=nodes, gpus=gpus, hours=hours,
            active_hours_per_day=active_hours_per_day, days=days, provision_minutes=provision_minutes, office=office,
            currency=settings.currency,
        )  # fmt: skip
        run.write(run.evaluate(answer(options, fleet, then, {})))
        return

    # a cluster's nodes are whole, those too on which nothing ran: ask for all nodes and keep the cluster's
    asked = run.asked
    of_clusters = bool(asked.cluster) and not (asked.team or asked.namespace or asked.workload)
    usage = run.usage(replace(asked, cluster=None) if of_clusters else asked)
    fleet = usage.fleet
    if of_clusters:
        fleet = fleet.in_clusters(asked.cluster or ())
        if not fleet.nodes:
            named = ", ".join(sorted(set(asked.cluster or ())))
            raise GpucostError(f"nothing in {usage.period} was used in {named}", "gpucost report --by cluster lists them")
    minutes = {
        "empty_minutes": empty_minutes, "provision_minutes": provision_minutes, "restart_minutes": restart_minutes,
        "idle_minutes": idle_minutes, "notebook_idle_minutes": notebook_idle_minutes,
    }  # fmt: skip
    values: dict[str, Any] = {name: value for name, value in minutes.items() if value is not None}
    given = frozenset(values) | ({"notebooks"} if notebook else frozenset())
    if idle_minutes is None and notebook_idle_minutes is None and office is None:
        values["notebook_idle_minutes"] = _NOTEBOOK_IDLE_MINUTES
    opening = tuple(office.spans(usage.period, settings.tz)) if office else None
    rules = Rules(**values, notebooks=tuple(notebook or NOTEBOOKS), office=opening)
    at_least_ms = 0 if office else rules.shortest_idle_ms
    idle = run.read(lambda con: idle_stretches(con, settings.activity, usage.period, at_least_ms))
    scope = ", ".join(sorted(asked.cluster or ())) if of_clusters else usage.scope_name
    options = ScheduleOptions(rules, settings.currency, usage.period_name, scope, usage.is_narrowed, given)
    run.write(run.evaluate(answer(options, fleet, played(options, fleet, idle), idle)))
