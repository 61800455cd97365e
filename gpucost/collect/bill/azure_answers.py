"""Answers of Azure's cost query API: columns that are named, and rows."""

from __future__ import annotations

from typing import Any

from gpucost.errors import DataError


def is_answer(document: object) -> bool:
    """Whether a JSON document is an answer of the query API, as a page of it or a saved file."""
    properties = document.get("properties") if isinstance(document, dict) else None
    return (
        isinstance(properties, dict) and isinstance(properties.get("columns"), list) and isinstance(properties.get("rows"), list)
    )


def records(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of an answer, with their columns' names. Raises DataError for a row of another length."""
    names = [str(column.get("name")) for column in answer["properties"]["columns"]]
    rows = answer["properties"]["rows"]
    if any(len(row) != len(names) for row in rows):
        raise DataError(f"a row of the answer has not {len(names)} fields, as it has columns", "ask again; nothing was loaded")
    return [dict(zip(names, row, strict=True)) for row in rows]
