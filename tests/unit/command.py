"""Commands, called as a user calls them."""

from __future__ import annotations

import json
import shlex
from typing import Any

from typer.testing import CliRunner, Result

from gpucost.cli.app import app


def call(*words: str, code: int = 0, stdin: str | None = None) -> tuple[str, str]:
    """Standard output and standard error of a command; check its exit code."""
    result = CliRunner().invoke(app, words, input=stdin)
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr


def run(command: str, code: int = 0) -> Result:
    """The result of a command line; check its exit code."""
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == code, result.output
    return result


def answer(command: str, code: int = 0) -> Any:
    """The JSON answer of a command line."""
    return json.loads(run(f"{command} --format json", code).stdout)


def check_end(command: str, code: str, message: str) -> None:
    """Check the exit code and the message of a command line."""
    assert message in " ".join(run(command, int(code)).stderr.split())
