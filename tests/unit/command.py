"""Commands as a user calls them."""

from __future__ import annotations

import json
import shlex
from typing import Any

from typer.testing import CliRunner, Result

from gpucost.cli.app import app


def call(*words: str, code: int = 0, stdin: str | None = None) -> tuple[str, str]:
    """Standard output and standard error of a command that ends with this code."""
    result = CliRunner().invoke(app, words, input=stdin)
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


def run(command: str, code: int = 0) -> Result:
    """What came of a command line, which ends with this code."""
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == code, result.output
    return result


def answer(command: str, code: int = 0) -> Any:
    """What a command line answers in JSON."""
    return json.loads(run(f"{command} --format json", code).stdout)


def check_end(command: str, code: str, message: str) -> None:
    """That a command line ends with this code and says this."""
    assert message in " ".join(run(command, int(code)).stderr.split())
