"""Files from outside, read within limits; docs/limits.md names them all."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tomllib
import zlib
from typing import TYPE_CHECKING, Any

from gpucost.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import IO, AnyStr

# What JSON calls an object.
JsonObject = dict[str, Any]
MIB = 2**20
# Files of settings: configuration, plans, rules, own nodes.
SETTINGS = MIB
# Tables and answers that are read as a whole.
TABLE = 64 * MIB
# What Slurm's commands say as JSON.
ANSWER = 256 * MIB
# A line of what is read line by line; Python's csv takes fields of as many characters.
LINE = MIB
csv.field_size_limit(LINE)


def whole(path: Path, most: int = TABLE) -> bytes:
    """What a file holds, decompressed where it is gzip. Raises DataError past `most` bytes, OSError where it cannot be read."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(most + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise DataError(
                f"{path} breaks off: it is no whole .gz; nothing was loaded", "fetch the file again"
            ) from None
    if len(content) > most:
        raise DataError(
            f"{path} holds more than {most // MIB} MiB, the most that is read of such a file", "split it"
        )
    return content


def chunks(source: IO[bytes] | gzip.GzipFile, *edges: bytes) -> Iterator[bytes]:
    """A file in pieces, none of which but the last ends in one of `edges`, of which the longer come first."""
    rest = b""
    while chunk := source.read(MIB):
        chunk = rest + chunk
        rest = next((edge for edge in edges if chunk.endswith(edge)), b"")
        yield chunk.removesuffix(rest)
    yield rest


def text(path: Path, most: int = TABLE) -> str:
    """The same as text in UTF-8; a byte order mark is left out. Raises UnicodeDecodeError, too."""
    return whole(path, most).decode("utf-8-sig")


def unreadable(path: object, error: Exception, fix: str) -> DataError:
    """What to raise for a file that cannot be read."""
    return DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", fix)


def toml(content: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """What TOML says. Raises TOMLDecodeError, also for numbers and nesting that no machine could mean."""
    try:
        return tomllib.loads(content, parse_float=parse_float)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        raise tomllib.TOMLDecodeError("a number has thousands of digits") from None
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None


def parse_json(content: str | bytes, parse_float: Callable[[str], Any] = float) -> Any:
    """What JSON says. Raises ValueError, also for nesting that no program writes."""
    try:
        return json.loads(content, parse_float=parse_float)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def lines(file: IO[AnyStr], name: str) -> Iterator[AnyStr]:
    """The lines of an open file. Raises DataError for a longer one than LINE."""
    number = 0
    while line := file.readline(LINE + 1):
        number += 1
        if len(line) > LINE:
            raise DataError(
                f"{name}, line {number}: is longer than {LINE // MIB} MiB",
                "it is no file of lines, or it is broken",
            )
        yield line
