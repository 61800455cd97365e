"""Several changes over named groups of workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gpucost.errors import UsageError
from gpucost.options import argument
from gpucost.periods import MS_PER_HOUR
from gpucost.questions.whatif.request import PlanRequest
from gpucost.render.view import Document


def whatif_plan(
    request: PlanRequest, file: Annotated[Path | None, argument("FILE", "The plan, a TOML file.")] = None
) -> Document:
    """Say what several changes save together, in order, none counted twice: a business case.

    Changes are share, spot, schedule, rightsize, reserve and move. Groups of workloads are described in the plan, or
    read from the store: the last complete month, or the period named.

    \b
    Examples:
      gpucost whatif plan --example > plan.toml
      gpucost whatif plan plan.toml
      gpucost whatif plan plan.toml --format markdown -o plan.md
    """
    if not file:
        raise UsageError(
            "no plan is named", "gpucost whatif plan --example > plan.toml makes one to start from"
        )
    from gpucost.whatif.plan import Context, answer, read_plan

    plan = read_plan(file)
    context = Context(request.settings.currency, {}, file=str(file))
    fleets = {group.name: request.usage(group.scope).fleet for group in plan.groups if group.is_stored}
    if fleets:
        start = request.period.start_ms
        hours = (request.period.end_ms - start) / MS_PER_HOUR
        context = Context(
            context.currency, fleets, request.period_name, hours, hours / 24, context.file, start
        )
    elif request.period_flags:
        raise UsageError(
            "a period was named, but no group of the plan is read from the store", "leave the period out"
        )
    return request.finish(answer(plan, context))
