"""Answers of `aws ec2 describe-spot-price-history`, as a server gives them or as JSON files hold them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpucost.collect.spot.facts import BadFact, moment_of, price_of, text_of
from gpucost.collect.spot.places import region_of_zone
from gpucost.errors import DataError
from gpucost.store.spot_prices import SpotPrice

if TYPE_CHECKING:
    from collections.abc import Iterator

HISTORY = "SpotPriceHistory"
_FIX = "write it again with: aws ec2 describe-spot-price-history --output json"


def price_of_row(row: Any, source: str) -> SpotPrice:
    """One change of a market price; its source is named `source` and the region. Raises BadFact."""
    if not isinstance(row, dict):
        raise BadFact(f"{json.dumps(row, default=str)[:60]} is no change of a price")
    zone = text_of(row, "AvailabilityZone")
    region = region_of_zone(zone)
    if region is None:
        raise BadFact(f"AvailabilityZone {zone!r} names no region")
    return SpotPrice(
        provider="aws",
        region=region,
        zone=zone,
        instance_type=text_of(row, "InstanceType"),
        product=text_of(row, "ProductDescription"),
        instance_id="",
        at_ms=moment_of("Timestamp", text_of(row, "Timestamp")),
        to_ms=None,
        price=price_of("SpotPrice", text_of(row, "SpotPrice")),
        currency="USD",  # AWS tells these prices in US dollars, in all regions
        source=f"{source} {region}",
    )


def parse(name: str, text: str, source: str) -> tuple[list[SpotPrice], bool]:
    """All changes in a file, and whether it ends before the last page.

    The file holds one answer or several, one after the other or in a list, or bare lists of changes.
    Raises DataError, naming file and row, where any of it cannot be used.
    """
    prices: list[SpotPrice] = []
    more = False
    for document in _documents(name, text):
        for answer in _answers(name, document):
            rows, more = answer
            for row in rows:
                try:
                    prices.append(price_of_row(row, source))
                except BadFact as error:
                    raise DataError(f"{name}: row {len(prices) + 1}: {error}; nothing was loaded", _FIX) from None
    return prices, more


def _documents(name: str, text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(parse_float=str, parse_int=str)
    position, end = 0, len(text)
    while position < end:
        if text[position].isspace():
            position += 1
            continue
        try:
            document, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            half = not text[error.pos :].strip() or error.msg.startswith("Unterminated")
            why = f"it breaks off in line {error.lineno}" if half else f"line {error.lineno} is no JSON: {error.msg}"
            raise DataError(f"{name}: {why}; nothing was loaded", _FIX) from None
        except RecursionError:
            raise DataError(f"{name} is nested too deeply for an answer; nothing was loaded", _FIX) from None
        yield document


def _answers(name: str, document: Any) -> Iterator[tuple[list[Any], bool]]:
    """Rows of each answer in a document, and whether another page follows it."""
    if isinstance(document, dict) and isinstance(document.get(HISTORY), list):
        yield document[HISTORY], bool(document.get("NextToken"))
    elif isinstance(document, list) and all(isinstance(item, dict) and HISTORY in item for item in document):
        for item in document:
            yield from _answers(name, item)
    elif isinstance(document, list):
        yield document, False
    else:
        raise DataError(f"{name} holds JSON, but no {HISTORY}; nothing was loaded", _FIX)
