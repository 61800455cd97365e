"""`gpucost failures`: incidents, and the evidence for providers."""

from pathlib import Path
from typing import Annotated

from gpucost.cli.asking import Ask, asking
from gpucost.cli.command import Call
from gpucost.cli.output import made_folder
from gpucost.options import WRITTEN, Option


@asking("failures")
def failures(
    call: Call,
    ask: Ask,
    claim: Annotated[
        Path | None, Option("Folder for claim-PROVIDER.md and .csv.", "DIR", is_shown=True, panel=WRITTEN)
    ] = None,
) -> None:
    """Show failures and their cost; write the evidence for a claim."""
    answer = ask()
    if claim:
        from gpucost.publish.claim import write_claims

        call.note(write_claims(answer, made_folder(claim, "use another folder for --claim")))
    call.answer(answer)
