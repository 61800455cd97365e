"""Output in README and docs/whatif.md is current (UPDATE_GOLDEN=1 updates it); frozen JSON matches its schema."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpucost.config.model import Config
from gpucost.questions import SCHEMAS, schema
from gpucost.questions.request import Request
from gpucost.render.schema import json_text
from tests.unit.command import run

ROOT = Path(__file__).parents[2]
README, WHATIF = ROOT / "README.md", ROOT / "docs" / "whatif.md"
BLOCK = re.compile(r"(<!-- output: gpucost (.+?) -->\n```text\n)(.*?)(```\n<!-- end -->)", re.DOTALL)
SHOWN = {page: BLOCK.findall(page.read_text()) for page in (README, WHATIF)}
PLAN = re.search(r"(<!-- plan -->\n```text\n)(.*?)(```\n<!-- end -->)", WHATIF.read_text(), re.DOTALL)


def check(page: Path, command: str, head: str, shown: str, tail: str) -> None:
    result = run(command)
    if os.environ.get("UPDATE_GOLDEN"):
        page.write_text(page.read_text().replace(head + shown + tail, head + result.stdout + tail))
    else:
        assert shown == result.stdout


@pytest.mark.ci
@pytest.mark.usefixtures("nowhere")
def test_readme_shows_current_output(demo: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert SHOWN[README]
    for head, command, shown, tail in SHOWN[README]:
        check(README, f"{command} --config {demo.path} --month 2026-10", head, shown, tail)


@pytest.mark.ci
# the first command needs no store
@pytest.mark.parametrize(
    ("head", "command", "shown", "tail"),
    [
        pytest.param(*block, marks=[pytest.mark.slow] if at else [], id=block[1])
        for at, block in enumerate(SHOWN[WHATIF])
    ],
)
@pytest.mark.usefixtures("nowhere")
def test_whatif_page_shows_current_output(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    head: str,
    command: str,
    shown: str,
    tail: str,
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(Request, "now", datetime(2026, 11, 1, tzinfo=UTC))
    if command != SHOWN[WHATIF][0][1]:
        command += f" --config {request.getfixturevalue('demo').path}"
    check(WHATIF, command, head, shown, tail)


@pytest.mark.slow
@pytest.mark.usefixtures("nowhere")
def test_whatif_page_shows_example_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    Path("plan.toml").write_text(run("whatif plan --example").stdout)
    assert PLAN is not None and len(SHOWN[WHATIF]) > 1
    check(WHATIF, "whatif plan plan.toml", *PLAN.groups())


def test_every_stage_is_documented() -> None:
    explained = (ROOT / "docs" / "attribution.md").read_text()
    names = {
        path.stem
        for stage in ("inventory", "attribute")
        for path in (ROOT / "gpucost" / stage).rglob("*.sql")
    }
    assert names
    assert {name for name in names if not re.search(rf"`(days/|basis/)?{name}`", explained)} == set()


FROZEN = Path(__file__).parents[1] / "frozen" / "answers"


def parts(file: Path) -> dict[str, str]:
    """Output of a command by destination: stdout, stderr, files."""
    found = re.split(r"(?m)^-- (exit code \d+|stdout|stderr|\S+\.\w+)\n", file.read_text(encoding="utf-8"))
    return dict(zip(found[1::2], found[2::2], strict=True))


def documents() -> dict[str, Any]:
    """JSON documents with a schema, by file; without documents that are frozen only in part."""
    texts = {
        f"{file.parent.name}/{file.name} {name}": text
        for file in FROZEN.glob("*/*.txt")
        for name, text in parts(file).items()
    }
    whole = {
        name: json.loads(text)
        for name, text in texts.items()
        if text.startswith("{\n") and "… " not in text[2000:2010]
    }
    return {name: document for name, document in whole.items() if "schema" in document}


DOCUMENTS = documents()


@pytest.mark.parametrize("name", SCHEMAS)
def test_answers_match_their_schema(name: str) -> None:
    description = json.loads(schema(name))
    jsonschema.Draft202012Validator.check_schema(description)
    validator = jsonschema.Draft202012Validator(description, format_checker=jsonschema.FormatChecker())
    answers = [one for one in DOCUMENTS.values() if one["schema"] == f"gpucost.{name}/1"]
    assert answers
    for answer in answers:
        assert [
            f"{list(error.absolute_path)}: {error.message}" for error in validator.iter_errors(answer)
        ] == []
    for answer in answers[:1]:
        assert not validator.is_valid(answer | {"surprise": 1}) or name in (
            "report",
            "prices.history",
            "whatif",
        )  # these may gain fields
        assert not validator.is_valid({key: value for key, value in answer.items() if key != "schema"})


def test_schema_command_lists_and_prints_schemas() -> None:
    assert run("schema").stdout.split() == [*SCHEMAS]
    for name in SCHEMAS:
        assert json.loads(run(f"schema {name}").stdout)["title"] == f"gpucost.{name}/1"


def test_json_refuses_nan() -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_text({"cost": float("nan")})
