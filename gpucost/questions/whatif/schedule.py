"""`gpucost whatif schedule`: GPUs that are up only when they are needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from gpucost.options import Option
from gpucost.questions.units.query import quiet_hours
from gpucost.questions.whatif.request import WhatIfRequest, flags_of
from gpucost.render.view import Document
from gpucost.whatif.fleet import idle_stretches
from gpucost.whatif.schedule import DescribedNodes, OfficeHours, Rules, answer, described, played


def whatif_schedule(
    request: WhatIfRequest,
    nodes: DescribedNodes,
    rules: Rules,
    office_hours: Annotated[
        str | None, Option("Local hours outside of which all but batch work is off.", "HH:MM-HH:MM")
    ] = None,
    weekdays: Annotated[str, Option("Days with office hours.", "DAYS", is_shown=True)] = "mon-fri",
) -> Document:
    """Say what releasing idle GPUs, removing empty nodes or office hours would save, and who would wait.

    With prices, nodes always on against the hours that are needed. Without, the store's usage is replayed under the rules.

    \b
    Examples:
      gpucost whatif schedule --nodes 8 --on-demand-price 32.77 --active-hours-per-day 10 --days 30
      gpucost whatif schedule --month 2026-10 --idle-minutes 30 --empty-minutes 10 --provision-minutes 5
      gpucost whatif schedule --team research --notebook-idle-minutes 60
      gpucost whatif schedule --namespace sandbox --office-hours 08:00-18:00 --weekdays mon-fri
    """
    settings = request.settings
    office = OfficeHours.parse(office_hours, weekdays) if office_hours is not None else None
    if request.is_described(nodes, *flags_of(rules, but=("provision_minutes",))):
        usage, then, before, even = described(nodes, rules, office, settings.currency)
        return request.finish(answer(usage, rules, then, {}, before, even))

    usage = request.usage()
    if not rules.patience_ms() and office is None:
        rules = replace(rules, notebook_idle_minutes=60.0)
    rules = replace(rules, office=tuple(office.spans(request.period, settings.tz)) if office else None)
    at_least_ms = 0 if office else rules.patience_ms() or 0
    idle, quiet = request.read(
        lambda con: (
            idle_stretches(con, settings.activity, request.period, at_least_ms),
            quiet_hours(con, request.period),
        )
    )
    then, before = played(usage, rules, idle, quiet)
    return request.finish(answer(usage, rules, then, idle, before))
