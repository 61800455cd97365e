"""Immutable value classes, grouping of values, and the type of an open store."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as DuckDBPyConnection
else:
    # Importing DuckDB is slow, and a signature needs only the name.
    DuckDBPyConnection = Any

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R", bound=Mapping[str, Any])


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen_dataclass(kind: type[T]) -> type[T]:
    """The class as a frozen dataclass with slots."""
    return dataclass(frozen=True, slots=True)(kind)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def keyed_dataclass(kind: type[T]) -> type[T]:
    """A frozen dataclass whose fields are passed by name, in any order."""
    return dataclass(frozen=True, slots=True, kw_only=True)(kind)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def mixin_dataclass(kind: type[T]) -> type[T]:
    """As `keyed_dataclass`, without slots: a class can have several bases of this kind."""
    return dataclass(frozen=True, kw_only=True)(kind)


def grouped(pairs: Iterable[tuple[K, T]]) -> defaultdict[K, list[T]]:
    """The values of each key, in order."""
    groups = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def grouped_by(rows: Iterable[R], *names: str) -> defaultdict[tuple[Any, ...], list[R]]:
    """Rows grouped by their values of these columns, in order."""
    return grouped((tuple(row[name] for name in names), row) for row in rows)
