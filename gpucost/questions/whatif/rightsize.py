"""`gpucost whatif rightsize`: fewer GPUs, slices or other models for the same work."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

from gpucost.options import Option
from gpucost.questions.whatif.prices import list_prices
from gpucost.questions.whatif.request import WhatIfRequest
from gpucost.questions.whatif.view import document
from gpucost.render.view import Document
from gpucost.whatif.fleet import levels
from gpucost.whatif.gpu_specs import load_facts
from gpucost.whatif.rightsize import (
    DescribedLoad,
    Margins,
    answer,
    catalog_speeds,
    compare,
    offers_near,
    read_speeds,
)


def whatif_rightsize(
    request: WhatIfRequest,
    work: DescribedLoad,
    margins: Margins,
    speeds: Annotated[
        Path | None, Option("CSV of gpu_model,relative_speed instead of the catalog's.", "FILE")
    ] = None,
    other_models: Annotated[
        bool, Option("Also other GPU models: a table of its own, no part of the saving.")
    ] = False,
) -> Document:
    """Say which workloads could do with fewer GPUs, or a MIG slice of one; with --other-models also with other GPUs.

    Without --gpu-model: every workload measured in the store, by its highest memory and activity. Other models are
    compared by cost per unit of work: by measured speeds of --speeds, else by an estimate.

    \b
    Examples:
      gpucost whatif rightsize --month 2026-10
      gpucost whatif rightsize --team research --other-models --max-slowdown 1.5 --speeds speeds.csv
      gpucost whatif rightsize --gpu-model A100-SXM4-40GB --gpus 4 --on-demand-price 3 --price-per gpu \\
        --to-gpu-model H100-80GB-HBM3 --to-price 6 --to-gpus 2
    """
    settings, facts = request.settings, load_facts()
    measured_speeds = read_speeds(speeds, facts) if speeds is not None else catalog_speeds(facts)
    if request.is_described(work, *(["--other-models"] if other_models else [])):
        return document(compare(work, margins, measured_speeds, facts, settings.currency))
    usage = request.usage()
    offers = offers_near(partial(list_prices, settings), usage.fleet.nodes)
    measured = request.read(lambda con: levels(con, settings.activity, request.period))
    stale = request.period.end.date(), settings.prices.stale_after_days
    return document(
        answer(
            usage, margins, measured, facts, measured_speeds, offers, other_models=other_models, stale=stale
        )
    )
