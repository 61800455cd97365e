"""`gpucost whatif schedule`: GPUs that are up only when they are needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from gpucost.options import Option
from gpucost.periods import MS_PER_HOUR
from gpucost.questions.units.query import quiet_hours
from gpucost.questions.whatif.request import WhatIfRequest, flags_of
from gpucost.questions.whatif.view import document
from gpucost.render.view import Document
from gpucost.whatif.fleet import idle_stretches
from gpucost.whatif.schedule import DescribedNodes, ScheduleRules, answer, described, office_spans


def whatif_schedule(
    request: WhatIfRequest,
    nodes: DescribedNodes,
    rules: ScheduleRules,
    office_hours: Annotated[
        str | None, Option("Local hours in which work runs; batch work always runs.", "HH:MM-HH:MM")
    ] = None,
    weekdays: Annotated[str, Option("Days with office hours.", "DAY-DAY", is_shown=True)] = "mon-fri",
) -> Document:
    """Estimate the saving of releasing idle GPUs, removing empty nodes and office hours, and the waits.

    With a price: compare nodes that are always on with nodes that run --active-hours-per-day. Without a price: replay the
    usage in the store under the rules.

    \b
    Examples:
      gpucost whatif schedule --nodes 8 --on-demand-price 32.77 --active-hours-per-day 10 --days 30
      gpucost whatif schedule --month 2026-10 --idle-minutes 30 --empty-minutes 10 --provision-minutes 5
      gpucost whatif schedule --team research
      gpucost whatif schedule --namespace sandbox --office-hours 08:00-18:00 --weekdays mon-fri
    """
    settings, period = request.settings, request.period
    office = office_spans(office_hours, weekdays, period, settings.tz) if office_hours is not None else None
    of_store = ["--office-hours"] if office_hours else []
    if request.is_described(nodes, *of_store, *flags_of(rules, but=("provision_minutes",))):
        return document(described(nodes, rules, settings.currency))

    usage = request.usage()
    if office is None and not {"idle_minutes", "empty_minutes"} & set(rules.explicit_options):
        rules = replace(rules, idle_minutes=60.0, only_notebooks=True)
    rules = replace(rules, office=office)
    at_least_ms = 0 if office is not None else rules.patience_ms or MS_PER_HOUR
    idle, quiet = request.read(
        lambda con: (idle_stretches(con, settings.activity, period, at_least_ms), quiet_hours(con, period))
    )
    return document(answer(usage, rules, idle, quiet))
