"""What the models of answers share. They describe what is printed; nothing is computed with them."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema

Instant = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time", "pattern": "Z$"})]
Day = Annotated[str, WithJsonSchema({"type": "string", "format": "date"})]
Currency = Annotated[str, Field(pattern="^[A-Z]{3}$")]
Hours = Annotated[float, Field(ge=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


def _coverage() -> dict[str, Any]:
    """As the contract gpucost.report/1 has it, without references."""
    defs = json.loads(files("gpucost.report").joinpath("report.schema.json").read_text(encoding="utf-8"))["$defs"]

    def inlined(value: Any) -> Any:
        if isinstance(value, dict):
            name = value.get("$ref", "").removeprefix("#/$defs/")
            return inlined(defs[name]) if name else {key: inlined(item) for key, item in value.items()}
        return [inlined(item) for item in value] if isinstance(value, list) else value

    found: dict[str, Any] = inlined(defs["coverage"])
    return found


Coverage = Annotated[dict[str, Any], WithJsonSchema(_coverage())]


class Part(BaseModel):
    """An object with these properties and no others."""

    model_config = ConfigDict(extra="forbid")


class Span(Part):
    start: Instant = Field(alias="from")
    end: Instant = Field(alias="to")


class Answer(Part):
    """A whole answer; `schema` says which, and of which version."""

    contract: str = Field(alias="schema")


class PlainTitles(GenerateJsonSchema):
    """Properties are called by their names alone."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic asks so
        return False
