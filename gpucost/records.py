"""Plain values: what most classes here are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(kind: type[T]) -> type[T]:
    """The class as a frozen dataclass with slots: equal by its fields, and never changed."""
    return dataclass(frozen=True, slots=True)(kind)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def keyed_record(kind: type[T]) -> type[T]:
    """A record whose fields are given by name, in any order."""
    return dataclass(frozen=True, slots=True, kw_only=True)(kind)
