"""`gpucost whatif rightsize`: fewer GPUs for the same work."""

from __future__ import annotations

from functools import partial

from gpucost.questions.whatif.prices import list_prices
from gpucost.questions.whatif.request import WhatIfRequest
from gpucost.questions.whatif.view import document
from gpucost.render.view import Document
from gpucost.whatif.fleet import levels
from gpucost.whatif.gpu_specs import load_facts
from gpucost.whatif.rightsize import Limits, answer, offers_near


def whatif_rightsize(request: WhatIfRequest, limits: Limits) -> Document:
    """Find workloads that need fewer GPUs than they request, from their peak memory and activity.

    \b
    Examples:
      gpucost whatif rightsize --month 2026-10
      gpucost whatif rightsize --team research --headroom-percent 30
    """
    settings, usage = request.settings, request.usage()
    offers = offers_near(partial(list_prices, settings), usage.fleet.nodes)
    measured = request.read(lambda con: levels(con, settings.activity, request.period))
    stale = request.period.end.date(), settings.prices.stale_after_days
    return document(answer(usage, limits, measured, load_facts(), offers, stale))
