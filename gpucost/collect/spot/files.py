"""Files of spot prices: find, parse, and load all of them or none."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from gpucost import inputs
from gpucost.collect.spot.base import HISTORY, USAGE_PREFIXES, BadFact, moment_of, price_of, price_of_row
from gpucost.errors import DataError, SourceError, UsageError
from gpucost.periods import MS_PER_HOUR
from gpucost.store.prices import SpotPrice

_FIELDS = "Timestamp UsageType Operation InstanceID MyBidID MyMaxPrice MarketPrice Charge Version"
_FEED_FIX = "fetch the file again from the bucket of the data feed"
_HISTORY_FIX = "write it again with: aws ec2 describe-spot-price-history --output json"

# Fields are separated by a tab, or by spaces if the file was copied from a page.
_AMOUNT = r"(\S+)(?: ([A-Z]{3}))?"
_LINE = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+"
    + r"\s+".join((_AMOUNT, _AMOUNT, _AMOUNT))
    + r"\s+(\d+)\s*"
)
_USAGE = re.compile(r"(?:([A-Z0-9]+)-)?SpotUsage(?::(\S+))?")

# Codes after "RunInstances:", without SV and three digits for spot. Source: AWS documentation, "Platform
# details and usage operation values", 2026-11.
_PRODUCTS = {"": "Linux/UNIX", "0002": "Windows", "000g": "SUSE Linux", "0010": "Red Hat Enterprise Linux"}


def _feed(name: str, text: str, source: str) -> list[SpotPrice]:
    """All hours in a data feed file, corrected versions of an hour after the older ones. Raises DataError."""
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.startswith("#Fields:") and line.removeprefix("#Fields:").split() != _FIELDS.split():
                raise BadFact(f"the fields are not {_FIELDS}")
            if line.strip() and not line.startswith("#"):
                rows.append(_versioned(line, source))
        except BadFact as error:
            raise DataError(f"{name}: line {number}: {error}; no prices were loaded", _FEED_FIX) from None
    return [price for _, price in sorted(rows, key=itemgetter(0))]


def _versioned(line: str, source: str) -> tuple[int, SpotPrice]:
    fields = _LINE.fullmatch(line)
    if fields is None:
        raise BadFact(f"expected {len(_FIELDS.split())} fields in {line[:60]!r}")
    at, usage, operation, instance_id = fields.group(1, 2, 3, 4)
    market, currency = fields.group(8, 9)
    usage_type = _USAGE.fullmatch(usage)
    if usage_type is None:
        raise BadFact(f"UsageType {usage!r} is not the usage of a spot instance")
    # The price history's names; unknown operations are kept.
    codes = [code for code in operation.split(":")[1:] if not re.fullmatch(r"SV\d+", code)]
    at_ms = moment_of("Timestamp", at)
    # Unknown prefixes are kept, so that no region is lost.
    region = USAGE_PREFIXES.get(usage_type[1] or "", usage_type[1])
    price = SpotPrice(
        provider="aws",
        region=region,
        instance_type=usage_type[2] or "m1.small",  # the only type whose usage has no type
        product=_PRODUCTS.get(":".join(codes), operation),
        instance_id=instance_id,
        at_ms=at_ms,
        to_ms=at_ms + MS_PER_HOUR,
        price=price_of("MarketPrice", market),
        currency=currency or "USD",
        source=f"{source} {region}",
    )
    return int(fields[12]), price


def _history(name: str, text: str, source: str) -> tuple[list[SpotPrice], bool]:
    """All changes in a file of answers, and whether its last page is missing.

    The file contains one or several answers, concatenated or in a list, or bare lists of changes. Raises
    DataError with file and row if any of it cannot be used.
    """
    prices = []
    answers = [answer for document in _documents(name, text) for answer in _answers(name, document)]
    for rows, _ in answers:
        for row in rows:
            try:
                prices.append(price_of_row(row, source))
            except BadFact as error:
                raise DataError(
                    f"{name}: row {len(prices) + 1}: {error}; no prices were loaded", _HISTORY_FIX
                ) from None
    return prices, bool(answers) and answers[-1][1]


def _documents(name: str, text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)
    position, end = 0, len(text)
    while position < end:
        if text[position].isspace():
            position += 1
            continue
        try:
            document, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{name} is not complete JSON: {error}; no prices were loaded", _HISTORY_FIX
            ) from None
        yield document


def _answers(name: str, document: Any) -> Iterator[tuple[list[Any], bool]]:
    """Rows of each answer in a document, or of a bare list, and whether another page follows."""
    for item in document if isinstance(document, list) else [document]:
        if isinstance(item, dict) and isinstance(item.get(HISTORY), list):
            yield item[HISTORY], bool(item.get("NextToken"))
        elif isinstance(document, list):
            yield [item], False
        else:
            raise DataError(f"{name} is JSON without {HISTORY}; no prices were loaded", _HISTORY_FIX)


# In a directory, files with these endings must be valid; others are used if their first bytes match.
_MUST_BE_RIGHT = (".json", ".gz")
_SHOWN = 5
_KINDS = "load answers of aws ec2 describe-spot-price-history (JSON) or files of the EC2 spot data feed, also as .gz"


@dataclass(slots=True)
class FileSet:
    """The result of one path. `notes`: sentences about omissions. `passed_over`: files of neither kind."""

    name: str
    prices: list[SpotPrice] = field(default_factory=list)
    files: int = 0
    passed_over: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_path(path: Path) -> FileSet:
    """All spot prices in a file, or in the files below a directory, by name.

    Raises UsageError if the path does not exist, SourceError if a file cannot be read, DataError if one is
    invalid.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist", "name files or directories with spot prices")
    result = FileSet(path.resolve().name)
    if not path.is_dir():
        _read_file(path, result, alone=True)
        return result
    for file in sorted(item for item in path.rglob("*") if item.is_file() and not item.name.startswith(".")):
        _read_file(file, result, alone=False)
    if not result.files:
        raise DataError(f"{path} contains no files of spot prices; no prices were loaded", _KINDS)
    if result.passed_over:
        more = ", …" if len(result.passed_over) > _SHOWN else ""
        result.notes.append(
            f"skipped files without spot prices: {', '.join(result.passed_over[:_SHOWN])}{more}"
        )
    return result


def _read_file(path: Path, result: FileSet, *, alone: bool) -> None:
    must_be_right = alone or path.name.lower().endswith(_MUST_BE_RIGHT)
    try:
        text = inputs.text(path, inputs.ANSWER)
        why = "contains neither answers nor a data feed" if text.strip() else "is empty"
    except UnicodeDecodeError as error:
        text, why = "", f"is not text (byte {error.start})"
    except OSError as error:
        why = f"cannot read {path}: {error.strerror or error}"
        raise SourceError(why, "make it readable, or name another file") from None
    if text.startswith(("#Version", "#Fields")):
        result.prices += _feed(str(path), text, result.name)
    elif text.lstrip()[:1] in ("{", "["):
        prices, more = _history(str(path), text, result.name)
        result.prices += prices
        if more:
            result.notes.append(f"{path} ends with a NextToken: the next pages of that answer are missing")
    elif must_be_right:
        raise DataError(f"{path} {why}; no prices were loaded", _KINDS)
    else:
        result.passed_over.append(path.name)
        return
    result.files += 1
