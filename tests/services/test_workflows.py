"""The workflows of docs/github-actions.md pass actionlint: events, expressions, action inputs, shell."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.programs import program

PAGE = Path(__file__).parents[2] / "docs" / "github-actions.md"


@pytest.mark.services
@pytest.mark.ci
def test_workflows_pass_actionlint(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    files = [tmp_path / f"{at}.yml" for at in range(len(blocks))]
    for file, block in zip(files, blocks, strict=True):
        file.write_text(block)
    lint = program("GPUCOST_ACTIONLINT", "actionlint")
    done = subprocess.run([lint, "-no-color", *map(str, files)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and len(files) == 2, done.stdout + done.stderr
    files[0].write_text(blocks[0].replace("github.run_id", "github.run_number_id"))
    assert subprocess.run([lint, str(files[0])], capture_output=True, check=False).returncode == 1
