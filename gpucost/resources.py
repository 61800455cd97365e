"""The folders of editable files: inside an installed wheel, or next to the package in a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def pricing_dir() -> Path:
    """The directory of the price catalog and GPU facts (see docs/pricing.md)."""
    return _find("pricing")


def reports_dir() -> Path:
    """The directory of the report templates."""
    return _find("reports")


def shipped(path: str) -> str:
    """The text of a file in the package."""
    return (_PACKAGE / path).read_text("utf-8")


def _find(name: str) -> Path:
    # pyproject.toml puts pricing/ and reports/ into the wheel under these names
    packed = _PACKAGE / f"_{name}"
    return packed if packed.is_dir() else _PACKAGE.parent / name
