"""`gpucost whatif plan`: several changes over named groups of workloads."""

from typing import Annotated

from gpucost.cli.asking import Ask, asking
from gpucost.cli.command import Call
from gpucost.errors import UsageError
from gpucost.options import Option
from gpucost.resources import shipped


@asking("whatif plan")
def whatif_plan(
    call: Call, ask: Ask, example: Annotated[bool, Option("Print a plan to start from.")] = False
) -> None:
    """Write the plan's answer, or a plan to start from."""
    if not example:
        call.answer(ask())
    elif "file" in ask.keywords:
        raise UsageError(
            "--example prints a plan, FILE runs one",
            "gpucost whatif plan --example > plan.toml writes one to start from",
        )
    else:
        call.write(shipped("whatif/example-plan.toml"))
