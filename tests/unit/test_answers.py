"""Every frozen answer in JSON is as its schema says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpucost.questions import SCHEMAS, schema
from gpucost.render.schema import json_text
from tests.unit.command import call

FROZEN = Path(__file__).parents[1] / "frozen" / "answers"


def parts(file: Path) -> dict[str, str]:
    """What came of a command by where it was written: stdout, stderr, files."""
    found = re.split(r"(?m)^-- (exit code \d+|stdout|stderr|\S+\.\w+)\n", file.read_text(encoding="utf-8"))
    return dict(zip(found[1::2], found[2::2], strict=True))


def documents() -> dict[str, Any]:
    """JSON that names its schema, by file; but for what is too long to be frozen whole."""
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
def test_answers_are_as_their_schema_says(name: str) -> None:
    told = json.loads(schema(name))
    jsonschema.Draft202012Validator.check_schema(told)
    validator = jsonschema.Draft202012Validator(told, format_checker=jsonschema.FormatChecker())
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
        )  # which may grow
        assert not validator.is_valid({key: value for key, value in answer.items() if key != "schema"})


def test_the_command_lists_and_prints_schemas() -> None:
    assert call("schema")[0].split() == [*SCHEMAS]
    for name in SCHEMAS:
        assert json.loads(call("schema", name)[0])["title"] == f"gpucost.{name}/1"


def test_what_is_no_number_has_no_place_in_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        json_text({"cost": float("nan")})
