"""JSON of answers and its JSON Schema, both from one TypeAdapter of the answer class."""

import json
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from gpucost.periods import iso
from gpucost.shapes import KEYS, PENDING, renamed
from gpucost.texts import readable_json

JsonSchema = dict[str, Any]


class _Schemas(GenerateJsonSchema):
    """Money is a number, an instant ends with Z, an object has no other properties, and these need no titles."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic asks so
        return False

    def decimal_schema(self, schema: Any) -> JsonSchema:  # noqa: ARG002
        return {"type": "number"}

    def datetime_schema(self, schema: Any) -> JsonSchema:  # noqa: ARG002
        return {"type": "string", "format": "date-time", "pattern": "Z$"}

    def dataclass_schema(self, schema: Any) -> JsonSchema:
        return super().dataclass_schema(schema) | {"additionalProperties": False}

    def typed_dict_schema(self, schema: Any) -> JsonSchema:
        return {"additionalProperties": False} | super().typed_dict_schema(schema)


@cache
def _adapter(answer: Any) -> TypeAdapter[Any]:
    return TypeAdapter(answer)


def to_dict(answer: Any) -> dict[str, Any]:
    """The output of to_json without its schema; money still Decimal, moments unchanged."""
    # a value of another type is printed unchanged: tests check answers against their schemas
    kind: Any = type(answer)
    found: dict[str, Any] = _adapter(kind).dump_python(answer, by_alias=True, warnings=False)
    return found


def table(rows: Sequence[Any], columns: Sequence[str] = ()) -> tuple[list[str], list[list[Any]]]:
    """Rows of one class as columns and values, all of to_dict or only `columns`; moments are text.

    Without rows, only `columns` are known.
    """
    found = list(map(to_dict, rows))
    names = list(columns or next(iter(found), ()))
    return names, [
        [iso(row[name]) if isinstance(row[name], datetime) else row[name] for name in names] for row in found
    ]


def columns_of(row: Any) -> list[str]:
    """The fields of rows of a class, without dimensions."""
    return list(_schema_of(_adapter(row))["properties"])


def to_json(answer: Any, name: str, shape: Any = None) -> str:
    """The answer as the JSON contract gpucost.NAME/1; `shape` is its class, if it is a dict. Raises TypeError for
    invalid values.
    """
    kind: Any = shape or type(answer)
    plain = _adapter(kind).dump_python(answer, by_alias=True, warnings=False)
    return json_text({"schema": f"gpucost.{name}/1", **plain})


def json_text(document: Mapping[str, Any], **how: Any) -> str:
    """JSON in the format of every answer: money as a number, instants in UTC. Raises TypeError or ValueError for
    invalid values.
    """
    return readable_json(document, **{"indent": 2} | how, allow_nan=False, default=plain) + "\n"


def plain(value: object) -> object:
    """Money as a JSON number, moments as ISO 8601 in UTC, for json.dumps. Raises TypeError for other values."""
    if isinstance(value, Decimal):
        return float(value)  # 15 significant digits: at least 6 decimals up to a billion
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date | Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not allowed in an answer")


def schema(name: str, shape: Any) -> str:
    """JSON Schema (draft 2020-12) of the JSON contract gpucost.NAME/1 with the class `shape`, as JSON text."""
    found = _schema_of(_adapter(shape))
    contract = f"gpucost.{name}/1"
    found["properties"] = {"schema": {"const": contract}} | found["properties"]
    found["required"] = ["schema", *found["required"]]
    found = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | found | {"title": contract}
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _schema_of(adapter: TypeAdapter[Any]) -> JsonSchema:
    shape = adapter.json_schema(schema_generator=_Schemas)
    defs = shape.pop("$defs", {})
    for part in (shape, *defs.values()):
        _settle(part, defs)
    if used := _used(shape, defs):
        shape["$defs"] = used
    return shape


def _settle(whole: Any, defs: JsonSchema) -> None:
    """Apply FLAT, HIDDEN and the names of Shape to a schema and its parts."""
    for part in whole.values() if isinstance(whole, dict) else whole:
        if isinstance(part, dict | list):
            _settle(part, defs)
    if not isinstance(whole, dict) or PENDING not in whole:
        return
    cls = whole.pop(PENDING)
    required = set(whole.get("required", ()))
    properties = {}
    for name, shape in whole["properties"].items():
        if name not in cls.FLAT:
            properties[KEYS.get(name, name)] = shape
            continue
        (inner,) = (each for each in shape.get("anyOf", [shape]) if each.get("type") != "null")
        inner = defs[inner["$ref"].removeprefix("#/$defs/")] if "$ref" in inner else inner
        _settle(inner, defs)
        names = set(inner.get("required", ()))
        properties |= renamed(inner.get("properties", {}))
        if inner.get("additionalProperties"):
            whole["additionalProperties"] = inner["additionalProperties"]
        together = whole.setdefault("dependentRequired", {})
        if "anyOf" in shape:  # all of it or none of it
            keys = {KEYS.get(each, each) for each in whole["properties"]}
            together |= {each: sorted(names) for each in sorted(names - keys)}
        else:
            required |= names
            together |= inner.get("dependentRequired", {})
    for name in cls.HIDDEN:
        properties.pop(name)
    required = {KEYS.get(name, name) for name in required}
    whole |= {"properties": properties, "required": [name for name in properties if name in required]}
    if not whole.get("dependentRequired", True):
        del whole["dependentRequired"]


def _used(shape: JsonSchema, defs: JsonSchema) -> JsonSchema:
    """The definitions that a schema resolves to."""
    whole = json.dumps([shape, defs])
    used = {
        name: definition
        for name, definition in sorted(defs.items())
        if json.dumps(f"#/$defs/{name}") in whole
    }
    return used if len(used) == len(defs) else _used(shape, used)
