"""`gpucost policy`: rules that a fleet should keep, with an exit code for pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from gpucost.cli.asking import Ask, asking
from gpucost.cli.command import Call, command
from gpucost.disk import write_text
from gpucost.options import Option


@asking("policy check")
def policy_check(
    call: Call,
    ask: Ask,
    junit: Annotated[Path | None, Option("Write JUnit XML here too, for a CI server.", "FILE")] = None,
) -> None:
    """Write the answer, and the same as JUnit XML."""
    from gpucost.questions.policy.rules import junit as as_junit

    answer = ask()
    if junit:
        write_text(as_junit(answer.data), junit)
    call.answer(answer)


@command(without="config store")
def policy_rules(call: Call) -> None:
    """Print the rules that gpucost has, to start from.

    \b
    Examples:
      gpucost policy rules > policy.toml
    """
    from gpucost.questions.policy.rules import shipped_rules

    call.write(shipped_rules())
