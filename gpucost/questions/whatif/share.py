"""`gpucost whatif share`: several pods on one GPU."""

from __future__ import annotations

from gpucost.errors import UsageError
from gpucost.questions.whatif.request import WhatIfRequest
from gpucost.questions.whatif.view import document
from gpucost.render.view import Document
from gpucost.whatif.fleet import levels
from gpucost.whatif.gpu_specs import load_facts
from gpucost.whatif.share import DescribedPods, Sizing, answer, described


def whatif_share(request: WhatIfRequest, sizing: Sizing, pods: DescribedPods) -> Document:
    """Say how many GPUs pods need when they share them, by time slicing, MPS or MIG, and what that saves.

    Without --pods: the store's pods with one GPU each, by their activity in the same hours and their workload's highest memory.

    \b
    Examples:
      gpucost whatif share --pods 40 --utilization-percent 15 --gpus-per-pod 1 --ways 4
      gpucost whatif share --pods 12 --utilization-percent 20 --method mig --gpu-model A100-SXM4-40GB \\
        --memory-per-pod-mib 4000 --on-demand-price 3 --price-per gpu
      gpucost whatif share --month 2026-10 --method mps --ways 8
      gpucost whatif share --team platform --across-teams
    """
    settings = request.settings
    if sizing.is_mig and "ways" in sizing.given:
        raise UsageError(
            "--ways is no option of MIG: its layouts say how many pods a GPU takes", "leave out --ways"
        )
    facts = load_facts()
    if request.is_described(pods, *(["--across-teams"] if sizing.across_teams else [])):
        usage, measured = described(sizing, pods, facts, settings.currency)
    else:
        usage, measured = (
            request.usage(),
            request.read(lambda con: levels(con, settings.activity, request.period)),
        )
    return document(answer(usage, sizing, measured, facts))
