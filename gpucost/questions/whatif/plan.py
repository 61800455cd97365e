"""Several changes over named groups of workloads."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from gpucost.errors import UsageError
from gpucost.options import argument
from gpucost.periods import MS_PER_HOUR
from gpucost.questions.whatif.request import PlanRequest
from gpucost.questions.whatif.view import document
from gpucost.render.view import Document
from gpucost.whatif.covered import read_evidence
from gpucost.whatif.spot.market import read_rates


def whatif_plan(
    request: PlanRequest, file: Annotated[Path | None, argument("FILE", "The plan, a TOML file.")] = None
) -> Document:
    """Build a business case from several changes, each applied to the result of the previous one.

    Changes are share, spot, schedule and reserve. The plan describes groups of workloads, or selects them from the store, for
    the last complete month or the given period.

    \b
    Examples:
      gpucost whatif plan --example > plan.toml
      gpucost whatif plan plan.toml
      gpucost whatif plan plan.toml --format markdown -o plan.md
    """
    if not file:
        raise UsageError(
            "FILE is missing", "gpucost whatif plan --example > plan.toml writes one to start from"
        )
    from gpucost.whatif.plan import Context, answer, read_plan

    plan = read_plan(file)
    context = Context(request.settings.currency, {}, file=str(file))
    usages = {group.name: request.usage(group.scope) for group in plan.groups if not group.price_per_gpu_hour}
    if usages:
        period = request.period
        context = replace(
            context,
            usages=usages,
            period=request.period_name,
            hours=(period.end_ms - period.start_ms) / MS_PER_HOUR,
            start_ms=period.start_ms,
            evidence=request.read(lambda con: read_evidence(con, period)),
            rate=request.read(read_rates),
            config=request.settings,
        )
    elif request.period_flags:
        raise UsageError(
            "a period was named, but no group of the plan is read from the store", "leave the period out"
        )
    return document(answer(plan, context))
