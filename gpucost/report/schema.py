"""The JSON Schema of the contract gpucost.report/1."""

from __future__ import annotations

from importlib.resources import files


def report_schema() -> str:
    """JSON Schema (draft 2020-12) of what `report --format json` prints, as JSON text."""
    return files("gpucost.report").joinpath("report.schema.json").read_text(encoding="utf-8")
