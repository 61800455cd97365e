"""Files of prices and rates as text: encoding, line endings, comments, header. What fields mean is their readers' business."""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpucost.errors import PriceError

Lines = Iterator[tuple[int, list[str]]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: what messages call it, the config key that names it, and its columns."""

    name: str
    key: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


_FIX = "correct the file; nothing of it was used"


def read_lines(path: Path, kind: Kind) -> tuple[list[str], Lines]:
    """The header and (line number, fields) of each further row, fields stripped of blanks around them.

    Blank lines, lines of commas only and lines beginning with # are passed over. Raises PriceError.
    """
    lines = _fields(path, _text(path, kind))
    required, optional = kind.required, kind.optional
    first = next(lines, None)
    if first is None:
        raise PriceError(f"{path}: is empty; its first line must name the columns {','.join((*optional[:5], *required))}", _FIX)
    number, header = first[0], [name.lower() for name in first[1]]
    for name in header:
        if name not in (*required, *optional):
            near = difflib.get_close_matches(name, (*required, *optional), 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join((*optional, *required))}"
            raise PriceError(f"{path}:{number}: {name or '(empty)'}: is no column of a {kind.name}; {hint}", _FIX)
        if header.count(name) > 1:
            raise PriceError(f"{path}:{number}: {name}: stands twice in the header", _FIX)
    for name in required:
        if name not in header:
            raise PriceError(f"{path}:{number}: {name}: is missing in the header, which names {', '.join(header)}", _FIX)
    return header, _full(path, header, lines)


def _text(path: Path, kind: Kind) -> str:
    try:
        # -sig: spreadsheets begin a UTF-8 file with a byte order mark
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise unreadable(path, kind, error) from None
    except UnicodeDecodeError as error:
        raise PriceError(f"{path}: is not UTF-8 text (byte {error.start})", "save it as CSV in UTF-8") from None


def unreadable(path: Path, kind: Kind, error: OSError) -> PriceError:
    """The error for a file that cannot be opened or read."""
    return PriceError(f"cannot read the {kind.name} {path}: {error.strerror}", f"set {kind.key} in gpucost.toml")


def _fields(path: Path, text: str) -> Lines:
    # line by line, not as a whole: no field holds a line break, and every message needs its line
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        if line.lstrip().startswith("#"):
            continue
        try:
            fields = [field.strip() for field in next(csv.reader([line], strict=True), [])]
        except csv.Error as error:
            raise PriceError(f"{path}:{number}: is not a line of CSV: {error}", _FIX) from None
        if any(fields):
            yield number, fields


def _full(path: Path, header: list[str], lines: Lines) -> Lines:
    for number, fields in lines:
        if len(fields) != len(header):
            column = header[len(fields)] if len(fields) < len(header) else f"column {len(header) + 1}"
            raise PriceError(f"{path}:{number}: {column}: the line has {len(fields)} fields, the header {len(header)}", _FIX)
        yield number, fields
