"""Files of spot prices: which there are, what they hold, and all that is in them or nothing."""

from __future__ import annotations

import gzip
import re
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gpucost.collect.spot import base
from gpucost.collect.spot.base import BadFact, moment_of, price_of, region_of_usage
from gpucost.errors import DataError, SourceError, UsageError
from gpucost.periods import MS_PER_HOUR
from gpucost.store.prices import SpotPrice

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = ("Timestamp", "UsageType", "Operation", "InstanceID", "MyBidID", "MyMaxPrice", "MarketPrice", "Charge", "Version")
_FIX = "fetch the file again from the bucket of the data feed"

# Fields stand apart by a tab, or by spaces where the file was copied from a page.
_AMOUNT = r"(\S+)(?: ([A-Z]{3}))?"
_LINE = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+"
    + r"\s+".join((_AMOUNT, _AMOUNT, _AMOUNT))
    + r"\s+(\d+)\s*"
)
_USAGE = re.compile(r"(?:([A-Z0-9]+)-)?SpotUsage(?::(\S+))?")

# Codes behind "RunInstances:", with SV and three digits for spot left out. Source: AWS documentation, "Platform details
# and usage operation values", 2026-11.
_PRODUCTS = {
    "": "Linux/UNIX",
    "0002": "Windows",
    "000g": "SUSE Linux",
    "0010": "Red Hat Enterprise Linux",
}


class _Row(NamedTuple):
    version: int
    price: SpotPrice


def is_feed(text: str) -> bool:
    """Whether a file begins as the data feed does."""
    return text.startswith(("#Version", "#Fields"))


def parse(name: str, text: str, source: str) -> list[SpotPrice]:
    """All hours in a file, corrected versions of an hour after the older ones.

    Raises DataError, naming file and line, where any of it cannot be used.
    """
    rows: list[_Row] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.startswith("#Fields:") and tuple(line.removeprefix("#Fields:").split()) != FIELDS:
                raise BadFact(f"the fields are not {' '.join(FIELDS)}")
            if line.strip() and not line.startswith("#"):
                rows.append(_row(line, source))
        except BadFact as error:
            raise DataError(f"{name}: line {number}: {error}; nothing was loaded", _FIX) from None
    return [row.price for row in sorted(rows, key=lambda row: row.version)]


def _row(line: str, source: str) -> _Row:
    found = _LINE.fullmatch(line)
    if found is None:
        raise BadFact(f"{len(FIELDS)} fields are expected in {line[:60]!r}")
    at, usage, operation, instance_id = found.group(1, 2, 3, 4)
    market, currency = found.group(8, 9)
    type_of = _USAGE.fullmatch(usage)
    if type_of is None:
        raise BadFact(f"UsageType {usage!r} is no usage of a spot instance")
    at_ms = moment_of("Timestamp", at)
    region = region_of_usage(type_of[1] or "")
    price = SpotPrice(
        provider="aws",
        region=region,
        zone="",
        instance_type=type_of[2] or "m1.small",  # the one type whose usage is not told apart
        product=_product(operation),
        instance_id=instance_id,
        at_ms=at_ms,
        to_ms=at_ms + MS_PER_HOUR,
        price=price_of("MarketPrice", market),
        currency=currency or "USD",
        source=f"{source} {region}",
    )
    return _Row(int(found[12]), price)


def _product(operation: str) -> str:
    """The product in the words of the price history; an operation that is not known stays as it is."""
    codes = [code for code in operation.split(":")[1:] if not re.fullmatch(r"SV\d+", code)]
    return _PRODUCTS.get(":".join(codes), operation)


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
    if is_feed(text):
        result.prices += parse(str(path), text, result.name)
    elif text.lstrip()[:1] in ("{", "["):
        prices, more = base.parse(str(path), text, result.name)
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
