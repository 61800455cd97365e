"""Bases of answer classes: how what commands print as JSON differs from the fields that they have."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, get_type_hints

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

# Where a schema says of which class it is, until it is settled what that class prints.
PENDING = "gpucost"
# `from` is a word of Python's
KEYS = {"start": "from", "end": "to"}


class Shape:
    """Base of answer classes that are not printed field by field.

    What FLAT names is printed as its own fields, in its place: in classes that name nothing else, a period and the dimensions of
    --by. `start` and `end` are called `from` and `to`. What is None by default is left out where it is None. HIDDEN is never
    printed.
    """

    __slots__ = ()
    FLAT: ClassVar[tuple[str, ...]] = ("period", "keys")
    HIDDEN: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        schema = handler(source)
        optional = {field.name for field in fields(source) if field.default is None}

        def dump(answer: Any, inner: core_schema.SerializerFunctionWrapHandler) -> dict[str, Any]:
            row: dict[str, Any] = {}
            for name, value in inner(answer).items():
                if name in cls.FLAT:
                    row |= renamed(value or {}) if name == "period" else value or {}
                elif value is not None or name not in optional:
                    row[KEYS.get(name, name)] = value
            for name in cls.HIDDEN:
                row.pop(name, None)
            return row

        schema["serialization"] = core_schema.wrap_serializer_function_ser_schema(dump)  # type: ignore[index]
        return schema

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        reference = handler(core)
        # what it names may have no schema yet
        handler.resolve_ref_schema(reference)[PENDING] = cls
        return reference


def renamed(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the names that are printed."""
    return {KEYS.get(name, name): value for name, value in row.items()}


class Summary:
    """Base of what is printed as another answer class: as what its `printed` returns."""

    __slots__ = ()

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        shape = handler.generate_schema(get_type_hints(source.printed)["return"])
        return core_schema.no_info_before_validator_function(
            lambda answer: answer,
            shape,
            serialization=core_schema.wrap_serializer_function_ser_schema(
                lambda answer, inner: inner(answer.printed()), schema=shape
            ),
        )
