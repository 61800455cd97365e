"""External files, read within limits; docs/limits.md lists the limits."""

import csv
import gzip
import io
import json
import tomllib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, AnyStr

from gpucost.errors import DataError

# A JSON object.
JsonObject = dict[str, Any]
MIB = 2**20
# Files of settings: configuration, plans, rules, your own nodes.
SETTINGS = MIB
# Tables and answers that are read as a whole.
TABLE = 64 * MIB
# JSON output of Slurm's commands.
ANSWER = 256 * MIB
# A line of a file that is read line by line; also the limit of Python's csv for a field.
LINE = MIB
csv.field_size_limit(LINE)


def whole(path: Path, most: int = TABLE) -> bytes:
    """The content of a file, decompressed if it is gzip.

    Raises DataError if it exceeds `most` bytes, OSError if it cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(most + 1)
    if content.startswith(b"\x1f\x8b"):
        try:
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(most + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise DataError(
                f"{path} is cut off: it is not a complete .gz file; no data was loaded",
                "fetch the file again",
            ) from None
    if len(content) > most:
        raise DataError(f"{path} holds more than {most // MIB} MiB, the limit for such a file", "split it")
    return content


def chunks(source: IO[bytes] | gzip.GzipFile, *edges: bytes) -> Iterator[bytes]:
    """A file in pieces; only the last may end with one of `edges` (longer ones first)."""
    rest = b""
    while chunk := source.read(MIB):
        chunk = rest + chunk
        rest = next((edge for edge in edges if chunk.endswith(edge)), b"")
        yield chunk.removesuffix(rest)
    yield rest


def text(path: Path, most: int = TABLE) -> str:
    """The content as UTF-8 text without a byte order mark. Raises UnicodeDecodeError, too."""
    return whole(path, most).decode("utf-8-sig")


def unreadable(path: object, error: Exception, fix: str) -> DataError:
    """The error for a file that cannot be read."""
    return DataError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", fix)


def toml(content: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Parsed TOML. Raises TOMLDecodeError, also for absurdly long numbers and deep nesting."""
    try:
        return tomllib.loads(content, parse_float=parse_float)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        raise tomllib.TOMLDecodeError("a number has thousands of digits") from None
    except RecursionError:
        raise tomllib.TOMLDecodeError("it is nested too deeply") from None


def parse_json(content: str | bytes, parse_float: Callable[[str], Any] = float) -> Any:
    """Parsed JSON. Raises ValueError, also for absurdly deep nesting."""
    try:
        return json.loads(content, parse_float=parse_float)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def lines(file: IO[AnyStr], name: str) -> Iterator[AnyStr]:
    """The lines of an open file. Raises DataError for a line longer than LINE."""
    number = 0
    while line := file.readline(LINE + 1):
        number += 1
        if len(line) > LINE:
            raise DataError(
                f"{name}, line {number}: is longer than {LINE // MIB} MiB",
                "it is broken, or not a file of lines",
            )
        yield line
