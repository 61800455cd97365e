"""Writes a price into the price book, and leaves everything else in it as it stands."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from zoneinfo import ZoneInfo

from gpucost.errors import UsageError
from gpucost.price.book_fields import BadField, effective_start, node_selector

HEADER = (
    "provider",
    "region",
    "zone",
    "instance_type",
    "purchase_option",
    "price_per_hour",
    "currency",
    "effective_start",
    "node_selector",
)


@dataclass(frozen=True, slots=True)
class BookEntry:
    """A row for nodes of any provider, place and purchase option; per hour of a whole node."""

    price_per_hour: Decimal
    currency: str
    instance_type: str = ""
    node_selector: str = ""
    effective_start: str = ""  # as the book has it: a date, an instant, or '' for since ever

    def check(self, timezone: ZoneInfo) -> None:
        """Raises UsageError, naming the option, for what the price book could not read back."""
        if not self.instance_type and not self.node_selector:
            raise UsageError(
                "--save needs the nodes that the price is for", "add --instance-type, or --node-selector label=value"
            )
        for field in (self.instance_type, self.node_selector):
            if re.search(r"[\r\n]", field) or field.startswith("#"):
                raise UsageError(
                    f"{field!r} cannot stand in the price book", "name it without line breaks, and without # in front"
                )
        try:
            node_selector(self.node_selector)
            effective_start(self.effective_start, timezone)
        except BadField as error:
            raise UsageError(
                f"--{error.column.replace('_', '-')} {error.reason}", "see docs/pricing.md, The price book"
            ) from None

    def key(self, timezone: ZoneInfo) -> tuple[object, ...]:
        """What the row prices, and since when: the book holds one row for it."""
        start, _ = effective_start(self.effective_start, timezone)
        return (self.instance_type.lower(), node_selector(self.node_selector), start)


def with_entry(text: str, entry: BookEntry, timezone: ZoneInfo) -> tuple[str, int | None]:
    """The text of a price book with `entry` in it, and the number of the line it replaced: None where it is added at the end.

    `text` is that of a book that could be read, or '' for a new one. Comments, other rows, line endings and a byte order mark
    stay; a column that the header lacks is added to it, empty in the other rows.
    """
    mark, body = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    end = next(iter(re.findall(r"\r\n|\n|\r", body)), "\n")
    lines = re.split(r"\r\n|\n|\r", body)
    if lines[-1] == "":
        lines.pop()
    rows = [number for number, line in enumerate(lines) if not line.lstrip().startswith("#") and any(_fields(line))]
    if not rows:
        return mark + end.join([*lines, ",".join(HEADER), _line(HEADER, entry)]) + end, None
    header = [name.lower() for name in _fields(lines[rows[0]])]
    values = _values(entry)
    missing = [name for name in HEADER if name not in header and values[name]]
    if missing:
        lines[rows[0]] += "".join(f",{name}" for name in missing)
        for number in rows[1:]:
            lines[number] += "," * len(missing)
        header += missing
    for number in rows[1:]:
        if _prices_the_same(dict(zip(header, _fields(lines[number]), strict=True)), entry, timezone):
            lines[number] = _line(header, entry)
            return mark + end.join(lines) + end, number + 1
    return mark + end.join([*lines, _line(header, entry)]) + end, None


def _prices_the_same(row: dict[str, str], entry: BookEntry, timezone: ZoneInfo) -> bool:
    if any(row.get(name) for name in ("provider", "region", "zone", "purchase_option")):
        return False
    there = BookEntry(
        entry.price_per_hour,
        entry.currency,
        row.get("instance_type", ""),
        row.get("node_selector", ""),
        row.get("effective_start", ""),
    )
    return there.key(timezone) == entry.key(timezone)


def _values(entry: BookEntry) -> dict[str, str]:
    given = {
        "instance_type": entry.instance_type,
        "price_per_hour": f"{entry.price_per_hour:f}",
        "currency": entry.currency,
        "effective_start": entry.effective_start,
        "node_selector": entry.node_selector,
    }
    return {name: given.get(name, "") for name in HEADER}


def _line(header: Sequence[str], entry: BookEntry) -> str:
    values = _values(entry)
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([values.get(name, "") for name in header])
    return text.getvalue()


def _fields(line: str) -> list[str]:
    return [field.strip() for field in next(csv.reader([line], strict=True), [])]
