"""Files of spot prices: which there are, what they hold, and all that is in them or nothing."""

from __future__ import annotations

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
_PRODUCTS = {"": "Linux/UNIX", "0002": "Windows", "000g": "SUSE Linux", "0010": "Red Hat Enterprise Linux"}


def _feed(name: str, text: str, source: str) -> list[SpotPrice]:
    """All hours in a file of the data feed, corrected versions of an hour after the older ones. Raises DataError."""
    rows: list[tuple[int, SpotPrice]] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if line.startswith("#Fields:") and line.removeprefix("#Fields:").split() != _FIELDS.split():
                raise BadFact(f"the fields are not {_FIELDS}")
            if line.strip() and not line.startswith("#"):
                rows.append(_versioned(line, source))
        except BadFact as error:
            raise DataError(f"{name}: line {number}: {error}; nothing was loaded", _FEED_FIX) from None
    return [price for _, price in sorted(rows, key=itemgetter(0))]


def _versioned(line: str, source: str) -> tuple[int, SpotPrice]:
    fields = _LINE.fullmatch(line)
    if fields is None:
        raise BadFact(f"{len(_FIELDS.split())} fields are expected in {line[:60]!r}")
    at, usage, operation, instance_id = fields.group(1, 2, 3, 4)
    market, currency = fields.group(8, 9)
    usage_type = _USAGE.fullmatch(usage)
    if usage_type is None:
        raise BadFact(f"UsageType {usage!r} is no usage of a spot instance")
    # in the words of the price history; an operation that is not known stays as it is
    codes = [code for code in operation.split(":")[1:] if not re.fullmatch(r"SV\d+", code)]
    at_ms = moment_of("Timestamp", at)
    # a prefix that is not known stays as it is, so that nothing is lost
    region = USAGE_PREFIXES.get(usage_type[1] or "", usage_type[1])
    price = SpotPrice(
        provider="aws",
        region=region,
        instance_type=usage_type[2] or "m1.small",  # the one type whose usage is not told apart
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
    """All changes in a file of answers, and whether it ends before the last page.

    The file holds one answer or several, one after the other or in a list, or bare lists of changes.
    Raises DataError, naming file and row, where any of it cannot be used.
    """
    prices: list[SpotPrice] = []
    answers = [answer for document in _documents(name, text) for answer in _answers(name, document)]
    for rows, _ in answers:
        for row in rows:
            try:
                prices.append(price_of_row(row, source))
            except BadFact as error:
                raise DataError(
                    f"{name}: row {len(prices) + 1}: {error}; nothing was loaded", _HISTORY_FIX
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
            raise DataError(f"{name} is no whole JSON: {error}; nothing was loaded", _HISTORY_FIX) from None
        yield document


def _answers(name: str, document: Any) -> Iterator[tuple[list[Any], bool]]:
    """Rows of each answer in a document, or of a bare list of rows, and whether another page follows it."""
    for item in document if isinstance(document, list) else [document]:
        if isinstance(item, dict) and isinstance(item.get(HISTORY), list):
            yield item[HISTORY], bool(item.get("NextToken"))
        elif isinstance(document, list):
            yield [item], False
        else:
            raise DataError(f"{name} holds JSON, but no {HISTORY}; nothing was loaded", _HISTORY_FIX)


# In a directory, files of these names must be right; others are taken where they begin as what we know.
_MUST_BE_RIGHT = (".json", ".gz")
_SHOWN = 5
_KINDS = "answers of aws ec2 describe-spot-price-history (JSON) and files of the EC2 spot data feed are read, .gz too"


@dataclass(slots=True)
class FileSet:
    """What one path holds. `notes` are what was left out, in sentences; `passed_over` are files of neither kind."""

    name: str
    prices: list[SpotPrice] = field(default_factory=list)
    files: int = 0
    passed_over: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read_path(path: Path) -> FileSet:
    """All spot prices in a file, or in the files of a directory and those below, in order of their names.

    Raises UsageError where there is no such path, SourceError where one cannot be read, DataError where one is broken.
    """
    if not path.exists():
        raise UsageError(
            f"there is no file or directory {path}", "name the files or directories that hold spot prices"
        )
    result = FileSet(path.resolve().name)
    if not path.is_dir():
        _read_file(path, result, alone=True)
        return result
    for file in sorted(item for item in path.rglob("*") if item.is_file() and not item.name.startswith(".")):
        _read_file(file, result, alone=False)
    if not result.files:
        raise DataError(f"{path} holds no file of spot prices; nothing was loaded", _KINDS)
    if result.passed_over:
        more = ", …" if len(result.passed_over) > _SHOWN else ""
        result.notes.append(
            f"passed over what holds no spot prices: {', '.join(result.passed_over[:_SHOWN])}{more}"
        )
    return result


def _read_file(path: Path, result: FileSet, *, alone: bool) -> None:
    must_be_right = alone or path.name.lower().endswith(_MUST_BE_RIGHT)
    try:
        text = inputs.text(path, inputs.ANSWER)
        why = "holds neither answers nor a data feed" if text.strip() else "is empty"
    except UnicodeDecodeError as error:
        text, why = "", f"is no text (byte {error.start})"
    except OSError as error:
        why = f"{path} cannot be read: {error.strerror or error}"
        raise SourceError(why, "make it readable, or name another file") from None
    if text.startswith(("#Version", "#Fields")):
        result.prices += _feed(str(path), text, result.name)
    elif text.lstrip()[:1] in ("{", "["):
        prices, more = _history(str(path), text, result.name)
        result.prices += prices
        if more:
            result.notes.append(f"{path} ends with a NextToken: further pages of that answer are not in it")
    elif must_be_right:
        raise DataError(f"{path} {why}; nothing was loaded", _KINDS)
    else:
        result.passed_over.append(path.name)
        return
    result.files += 1
