"""Commands as a user calls them."""

from __future__ import annotations

from typer.testing import CliRunner

from gpucost.cli.app import app


def call(*words: str, code: int = 0, stdin: str | None = None) -> tuple[str, str]:
    """Standard output and standard error of a command that ends with this code."""
    result = CliRunner().invoke(app, words, input=stdin)
    assert result.exit_code == code, result.output
    return result.stdout, result.stderr
