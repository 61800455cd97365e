"""`gpucost whatif share`: several pods on one GPU."""

from __future__ import annotations

from gpucost.errors import UsageError
from gpucost.questions.whatif.request import WhatIfRequest
from gpucost.questions.whatif.view import document
from gpucost.render.view import Document
from gpucost.whatif.fleet import levels
from gpucost.whatif.gpu_specs import load_facts
from gpucost.whatif.share import Sizing, answer


def whatif_share(request: WhatIfRequest, sizing: Sizing) -> Document:
    """Estimate the saving if pods share GPUs by time slicing, MPS or MIG, and the number of GPUs they need.

    Only pods with one GPU can share. Each pod needs its measured activity in every hour, and the peak memory of its workload.

    \b
    Examples:
      gpucost whatif share --month 2026-10 --method mps --ways 8
      gpucost whatif share --month 2026-10 --method mig
      gpucost whatif share --team platform --across-teams
    """
    if sizing.is_mig and "ways" in sizing.explicit_options:
        raise UsageError(
            "--ways has no meaning with --method mig, whose layouts limit the pods on a GPU",
            "leave out --ways",
        )
    usage = request.usage()
    measured = request.read(lambda con: levels(con, request.settings.activity, request.period))
    return document(answer(usage, sizing, measured, load_facts()))
