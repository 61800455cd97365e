"""JSON Schemas of the answers that commands print with --format json, and of a bundle's index.json; by name, as text."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from gpucost.errors import UsageError

if TYPE_CHECKING:
    from gpucost.schemas.base import Answer


def names() -> list[str]:
    """What there are schemas of: `gpucost.NAME/1` is what the answer's own key `schema` says."""
    return ["report", *_answers()]


def schema(name: str) -> str:
    """JSON Schema (draft 2020-12), as JSON text. Raises UsageError for a name that there is none of."""
    if name == "report":
        return files("gpucost.report").joinpath("report.schema.json").read_text(encoding="utf-8")
    found = _answers().get(name)
    if found is None:
        raise UsageError(f"there is no schema of {name!r}", f"gpucost schema takes one of: {', '.join(names())}")
    from gpucost.schemas.base import PlainTitles

    made: dict[str, Any] = found.model_json_schema(schema_generator=PlainTitles)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"gpucost.{name}/1"}
    made["properties"]["schema"] = {"const": f"gpucost.{name}/1"}
    return json.dumps(head | {key: value for key, value in made.items() if key != "title"}, indent=2, ensure_ascii=False) + "\n"


def _answers() -> dict[str, type[Answer]]:
    from gpucost.schemas import accounts, chargeback, explain, spending, units, usage

    topics = (usage, spending, accounts, chargeback, explain, units)
    return {name: answer for topic in topics for name, answer in topic.ANSWERS.items()}
