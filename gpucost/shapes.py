"""Base classes of answers whose JSON differs from their fields."""

from dataclasses import fields
from typing import Any, ClassVar, get_type_hints

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

# Marks the class of a schema until its printed form is known.
PENDING = "gpucost"
# `from` is a keyword in Python
KEYS = {"start": "from", "end": "to"}


class Shape:
    """Base of answer classes that are not printed field by field.

    The fields of each part named in FLAT are printed in its place; by default: the period and the dimensions
    of --by. `start` and `end` are printed as `from` and `to`. Fields with the default None are left out if
    they are None. Fields named in HIDDEN are never printed.
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
        # classes that it refers to may not have a schema yet
        handler.resolve_ref_schema(reference)[PENDING] = cls
        return reference


def renamed(row: dict[str, Any]) -> dict[str, Any]:
    """The row with its printed names."""
    return {KEYS.get(name, name): value for name, value in row.items()}


class Summary:
    """Base of classes that are printed as another answer class, the result of `printed`."""

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
