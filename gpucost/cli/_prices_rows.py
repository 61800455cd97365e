"""The answer of `gpucost prices` as rows and as JSON. Nothing is computed here."""

from __future__ import annotations

import json
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from gpucost.cli._fit import fitted, natural_width
from gpucost.cli._rows import plain_value
from gpucost.price.listing import ListedPrice, Listing, Overview

SCHEMA = "gpucost.prices/1"

_SHOWN = Decimal("0.0001")
_PER_GPU_HOUR = "per GPU-h"
_TYPE = "instance type"
_DISCOUNT = "spot discount"
_SOURCE = "source"

# Columns that a narrow terminal may have no room for; the heaviest goes first.
_WEIGHTS = {"per hour": 1, _DISCOUNT: 1, "GPUs": 2, "more regions": 3, _SOURCE: 4}

# What a CSV file and JSON hold of each price.
FIELDS = (
    "provider", "region", "zone", "instance_type", "gpu_model", "gpu_count", "purchase_option", "term_years", "payment_option",
    "offering", "price_per_hour", "price_per_gpu_hour", "currency", "spot_discount_percent", "price_as_of", "is_stale", "source",
    "origin", "effective_start", "listed_price_per_hour", "listed_currency", "more_regions", "status",
)  # fmt: skip


def to_json(answer: Listing | Overview) -> str:
    """Schema gpucost.prices/1: of one name its prices as `rows` and `superseded`; of all, a row per GPU model."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "today": answer.today.isoformat(),
        "currency": answer.currency,
        "stale_after_days": answer.stale_after_days,
    }
    if isinstance(answer, Listing):
        document |= {
            "name": answer.name,
            "gpu_models": list(answer.gpu_models),
            "rows": [_record(row) for row in answer.rows],
            "superseded": [_record(row) for row in answer.superseded],
            "not_sold_on_demand": list(answer.not_sold_on_demand),
        }
    else:
        document["rows"] = [
            {
                "gpu_model": model,
                **{option: _record(found[option]) if option in found else None for option in answer.purchase_options},
            }
            for model, found in answer.rows
        ]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def to_rows(
    answer: Listing | Overview, *, whole: bool, superseded: bool, width: int | None = None
) -> tuple[list[str], list[list[Any]]]:
    """Column names and rows: every field where `whole`, else those that people read, in their words, and of these as many as
    a table of `width` characters has room for.
    """
    if isinstance(answer, Overview):
        if whole:
            return _whole_overview(answer)
        columns, lines = _short_overview(answer)
        if _is_wide(columns, lines, width):
            columns, lines = _long_overview(answer)
        return fitted(columns, lines, [_WEIGHTS[_SOURCE] * (name == _SOURCE) for name in columns], width)
    rows = [*answer.rows, *(answer.superseded if superseded else ())]
    if whole:
        return list(FIELDS), [list(_fields(row).values()) for row in rows]
    columns, lines = _short(answer, rows, superseded=superseded)
    if _is_wide(columns, lines, width):
        columns, lines = _short(answer, rows, superseded=superseded, tight=True)
    weights = _WEIGHTS | ({_TYPE: 2} if len({row.instance_type for row in rows}) == 1 else {})
    return fitted(columns, lines, [weights.get(name, 0) for name in columns], width)


def remarks(answer: Listing | Overview) -> list[str]:
    """What a reader must know of the rows, one sentence each."""
    rows = answer.rows if isinstance(answer, Listing) else [price for _, found in answer.rows for price in found.values()]
    said = []
    stale = sum(row.is_stale for row in rows)
    if stale:
        old = f"{stale} of {len(rows)} prices {'is' if stale == 1 else 'are'}" if len(rows) > 1 else "the price is"
        said.append(f"{old} over {answer.stale_after_days} days old; gpucost collect prices asks for new ones")
    if isinstance(answer, Overview):
        return said
    said = [*answer.not_sold_on_demand, *said]
    if fresh := answer.cheapest_fresh:
        first = answer.rows[0]
        age = (answer.today - first.price_as_of).days
        cheapest = f"{fresh.instance_type} {bought(fresh)} in {_place(fresh)} at {_money(fresh.price_per_gpu_hour)} per GPU-hour"
        said.append(
            f"the first price, {first.instance_type} {bought(first)}, is {age} days old;"
            f" the cheapest that is not stale: {cheapest}"
        )
    more = sum(1 for row in rows if row.more_regions)
    if more:
        said.append("the cheapest region of each price is shown; --all-regions shows the others")
    if answer.unconverted:
        said.append(
            f"prices in {', '.join(answer.unconverted)} stand last, unconverted: [prices] fx gives the rate to {answer.currency}"
        )
    if any(row.spot_discount_percent is not None and row.spot_discount_percent <= 0 for row in rows):
        said.append("spot at 0 % off costs as much as on demand: there is no discount there")
    return said


def _is_wide(columns: list[str], lines: list[list[Any]], width: int | None) -> bool:
    """Whether a table of `width` has no room even without sources."""
    kept = [index for index, name in enumerate(columns) if name != _SOURCE]
    narrowest = natural_width([columns[index] for index in kept], [[line[index] for index in kept] for line in lines])
    return width is not None and narrowest > width


def _short(
    answer: Listing, rows: list[ListedPrice], *, superseded: bool, tight: bool = False
) -> tuple[list[str], list[list[Any]]]:
    mixed = any(row.currency != answer.currency for row in rows)
    columns = [_PER_GPU_HOUR, "per hour", *(["currency"] if mixed else [])]
    discounted = any(row.spot_discount_percent is not None for row in rows)
    columns += ["provider", "place", _TYPE, "GPUs", "bought", *([_DISCOUNT] if discounted else []), "as of"]
    columns += ["more regions"] if any(row.more_regions is not None for row in rows) else []
    columns += [*(["status"] if superseded else []), _SOURCE]
    lines = []
    for row in rows:
        line: list[Any] = [_money(row.price_per_gpu_hour), _money(row.price_per_hour), *([row.currency] if mixed else [])]
        line += [row.provider, _place(row), row.instance_type, _gpus(row), bought(row, tight=tight)]
        line += [*([_percent(row.spot_discount_percent)] if discounted else []), _as_of(row, answer.today, tight=tight)]
        line += [row.more_regions] if "more regions" in columns else []
        line += [*([row.status] if superseded else []), row.source]
        lines.append(line)
    return columns, lines


def _short_overview(answer: Overview) -> tuple[list[str], list[list[Any]]]:
    columns = ["GPU"]
    for option in answer.purchase_options:
        columns += [option.replace("_", " "), "where", "as of", _SOURCE]
    lines = []
    for model, found in answer.rows:
        line: list[Any] = [model]
        for option in answer.purchase_options:
            row = found.get(option)
            if row is None:
                line += [None, None, None, None]
            else:
                line += [_money(row.price_per_gpu_hour), _where(row), _as_of(row, answer.today), row.source]
        lines.append(line)
    return columns, lines


def _long_overview(answer: Overview) -> tuple[list[str], list[list[Any]]]:
    """The same with a row for each price: half as wide."""
    lines: list[list[Any]] = [
        [
            model,
            option.replace("_", " "),
            _money(found[option].price_per_gpu_hour),
            _where(found[option]),
            _as_of(found[option], answer.today, tight=True),
            found[option].source,
        ]
        for model, found in answer.rows
        for option in answer.purchase_options
        if option in found
    ]
    return ["GPU", "bought", _PER_GPU_HOUR, "where", "as of", _SOURCE], lines


def _whole_overview(answer: Overview) -> tuple[list[str], list[list[Any]]]:
    rows = [found[option] for _, found in answer.rows for option in answer.purchase_options if option in found]
    return list(FIELDS), [list(_fields(row).values()) for row in rows]


def _fields(row: ListedPrice) -> dict[str, Any]:
    return {name: getattr(row, name) for name in FIELDS}


def _record(row: ListedPrice) -> dict[str, Any]:
    return {name: plain_value(value) for name, value in _fields(row).items()}


def bought(row: ListedPrice, *, tight: bool = False) -> str:
    """`reserved, 3 years, no upfront, standard`, or where there is little room `reserved 3y no upfront standard`."""
    years = f"{row.term_years} year{'s' if row.term_years > 1 else ''}" if row.term_years else None
    words = (row.purchase_option, f"{row.term_years}y" if tight and years else years, row.payment_option, row.offering)
    return (" " if tight else ", ").join(word.replace("_", " ") for word in words if word)


def _as_of(row: ListedPrice, today: date, *, tight: bool = False) -> str:
    """`2021-03-01, 1,700 days old`, or where there is little room `2021-03-01 1,700 d`; the day alone where it is not stale."""
    # a price that a newer one replaced is old in any case
    if not row.is_stale or row.status != "current":
        return row.price_as_of.isoformat()
    age = f"{(today - row.price_as_of).days:,}"
    return f"{row.price_as_of} {age} d" if tight else f"{row.price_as_of}, {age} days old"


def _where(row: ListedPrice) -> str:
    return " ".join(part for part in (row.provider, row.region, row.instance_type) if part)


def _place(row: ListedPrice) -> str:
    if row.region and row.zone and not row.zone.startswith(row.region):
        return f"{row.region} {row.zone}"  # AWS' zone ids do not say their region in full
    return row.zone or row.region or "any"


def _gpus(row: ListedPrice) -> str:
    return f"{row.gpu_count:f} × {row.gpu_model}" if row.gpu_count else "not known"


def _money(amount: Decimal | None) -> Decimal | None:
    return None if amount is None else amount.quantize(_SHOWN, ROUND_HALF_UP)


def _percent(value: Decimal | None) -> str:
    return "" if value is None else f"{value} %"
