"""What the README and docs/whatif.md show is what the program prints. UPDATE_GOLDEN=1 writes that into the pages instead."""

from __future__ import annotations

import os
import re
import shlex
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpucost.config.model import Config
from gpucost.questions.request import Request
from tests.unit.command import call

ROOT = Path(__file__).parents[2]
README, WHATIF = ROOT / "README.md", ROOT / "docs" / "whatif.md"
BLOCK = re.compile(r"(<!-- output: gpucost (.+?) -->\n```text\n)(.*?)(```\n<!-- end -->)", re.DOTALL)
SHOWN = {page: BLOCK.findall(page.read_text()) for page in (README, WHATIF)}
PLAN = re.search(r"(<!-- plan -->\n```text\n)(.*?)(```\n<!-- end -->)", WHATIF.read_text(), re.DOTALL)


def check(page: Path, words: list[str], head: str, shown: str, tail: str) -> None:
    out, _ = call(*words)
    if os.environ.get("UPDATE_GOLDEN"):
        page.write_text(page.read_text().replace(head + shown + tail, head + out + tail))
    else:
        assert shown == out


@pytest.mark.usefixtures("nowhere")
def test_the_readme_shows_what_is_printed(demo: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert SHOWN[README]
    for head, command, shown, tail in SHOWN[README]:
        check(README, [*command.split(), "--config", str(demo.path), "--month", "2026-10"], head, shown, tail)


# the first needs no store
@pytest.mark.parametrize(
    ("head", "command", "shown", "tail"),
    [
        pytest.param(*block, marks=[pytest.mark.slow] if at else [], id=block[1])
        for at, block in enumerate(SHOWN[WHATIF])
    ],
)
@pytest.mark.usefixtures("nowhere")
def test_the_page_of_what_ifs_shows_what_is_printed(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    head: str,
    command: str,
    shown: str,
    tail: str,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(Request, "now", datetime(2026, 11, 1, tzinfo=UTC))
    where = [] if command == SHOWN[WHATIF][0][1] else ["--config", str(request.getfixturevalue("demo").path)]
    check(WHATIF, [*shlex.split(command), *where], head, shown, tail)


@pytest.mark.slow
@pytest.mark.usefixtures("nowhere")
def test_the_page_of_what_ifs_shows_the_example_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    Path("plan.toml").write_text(call("whatif", "plan", "--example")[0])
    assert PLAN is not None and len(SHOWN[WHATIF]) > 1
    check(WHATIF, ["whatif", "plan", "plan.toml"], PLAN[1], PLAN[2], PLAN[3])


def test_every_stage_is_explained() -> None:
    explained = (ROOT / "docs" / "attribution.md").read_text()
    names = {
        path.stem
        for stage in ("inventory", "attribute")
        for path in (ROOT / "gpucost" / stage).rglob("*.sql")
    }
    assert names
    assert {name for name in names if not re.search(rf"`(days/|basis/)?{name}`", explained)} == set()
