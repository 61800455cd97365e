"""What-ifs run as commands."""

from __future__ import annotations

import json
import shlex
from typing import Any

from typer.testing import CliRunner

from gpucost.cli.app import app


def ask(what_if: str, words: str) -> dict[str, Any]:
    """What `gpucost whatif …` answers, as JSON."""
    result = CliRunner().invoke(app, ["whatif", what_if, *shlex.split(words), "--format", "json"])
    assert result.exit_code == 0, result.output
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def assert_refused(what_if: str, words: str, message: str, exit_code: int = 2) -> None:
    """That `gpucost whatif …` fails, and with this in what it says."""
    result = CliRunner().invoke(app, ["whatif", what_if, *shlex.split(words)])
    assert (message in " ".join(result.output.split()), result.exit_code) == (True, exit_code), result.output
