"""Files of spot prices: which there are, what they hold, and all that is in them or nothing."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpucost.collect.spot import answers, feed
from gpucost.errors import DataError, SourceError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from gpucost.store.spot_prices import SpotPrice

# In a directory, files of these names must be right; others are taken where they begin as what we know.
_MUST_BE_RIGHT = (".json", ".gz")
_KINDS = "answers of aws ec2 describe-spot-price-history (JSON) and files of the EC2 spot data feed are read, .gz too"


@dataclass(slots=True)
class FileSet:
    """What one path given by the user holds. `passed_over` are files that are neither kind; `unfinished` lack pages."""

    name: str
    prices: list[SpotPrice] = field(default_factory=list)
    files: int = 0
    passed_over: list[Path] = field(default_factory=list)
    unfinished: list[Path] = field(default_factory=list)


def read_path(path: Path) -> FileSet:
    """All spot prices in a file, or in the files of a directory and those below, in order of their names.

    Raises UsageError where there is no such path, SourceError where one cannot be read, DataError where one is broken.
    """
    if not path.exists():
        raise UsageError(f"there is no file or directory {path}", "name the files or directories that hold spot prices")
    name = path.resolve().name
    result = FileSet(name)
    if not path.is_dir():
        _read_file(path, result, alone=True)
        return result
    for file in sorted(item for item in path.rglob("*") if item.is_file() and not item.name.startswith(".")):
        _read_file(file, result, alone=False)
    if not result.files:
        raise DataError(f"{path} holds no file of spot prices; nothing was loaded", _KINDS)
    return result


def _read_file(path: Path, result: FileSet, *, alone: bool) -> None:
    must_be_right = alone or path.name.lower().endswith(_MUST_BE_RIGHT)
    try:
        text = _text(path)
    except UnicodeDecodeError as error:
        if must_be_right:
            raise DataError(f"{path} is no text (byte {error.start}); nothing was loaded", _KINDS) from None
        result.passed_over.append(path)
        return
    if feed.is_feed(text):
        result.prices += feed.parse(str(path), text, result.name)
    elif text.lstrip()[:1] in ("{", "["):
        prices, more = answers.parse(str(path), text, result.name)
        result.prices += prices
        if more:
            result.unfinished.append(path)
    elif must_be_right:
        what = "holds neither" if text.strip() else "is empty"
        raise DataError(f"{path} {what}{' answers nor a data feed' if text.strip() else ''}; nothing was loaded", _KINDS)
    else:
        result.passed_over.append(path)
        return
    result.files += 1


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path} breaks off: it is no whole .gz; nothing was loaded", "fetch the file again") from None
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror or error}", "make it readable, or name another file") from None
    return data.decode("utf-8-sig")
