"""What an hour of an own node costs: purchase, power, space and people, spread over its hours."""

from __future__ import annotations

import csv
import difflib
import io
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from gpucost.catalog import load_catalog
from gpucost.errors import ConfigError, UsageError
from gpucost.price.book import BadField, effective_start, node_selector
from gpucost.price.listing import aliases_of, gpu_models_called, nearest, spelled
from gpucost.resources import pricing_dir

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class Inputs:
    """One node. Money is in `currency`; None is what was not given, and counts as nothing where a part hangs on it."""

    currency: str
    purchase_price: Decimal  # of one node, GPUs included
    gpus_per_node: Decimal
    years: Decimal  # over which it is written off
    price_per_kwh: Decimal
    gpu_model: str | None = None
    gpu_watts: Decimal | None = None  # of one GPU; None: the model's TDP
    residual_percent: Decimal | None = None  # of purchase_price, got back at the end
    other_watts: Decimal | None = None  # of the node without its GPUs
    pue: Decimal | None = None  # power of the site ÷ power of its machines
    colocation_per_kw_month: Decimal | None = None
    staff_per_year: Decimal | None = None
    staff_nodes: Decimal | None = None  # that this staff runs
    network_per_node: Decimal | None = None  # once
    maintenance_percent_per_year: Decimal | None = None  # of purchase_price
    utilization_percent: Decimal | None = None

    @property
    def not_given(self) -> tuple[str, ...]:
        """Keys of the parts that count as nothing since nobody gave them."""
        return tuple(key for key in _COUNTED if getattr(self, key) is None)


@dataclass(frozen=True, slots=True)
class _Number:
    """What a number may be: from `low` (itself only where `with_low`) to `high`."""

    low: int = 0
    high: int | None = None
    with_low: bool = True
    whole: bool = False

    def allows(self, value: Decimal) -> bool:
        above = value >= self.low if self.with_low else value > self.low
        below = self.high is None or value <= self.high
        return above and below and not (self.whole and value != value.to_integral_value())

    def __str__(self) -> str:
        low = f"at least {self.low}" if self.with_low else f"above {self.low}"
        high = f" and at most {self.high}" if self.high is not None else ""
        return f"{'a whole number ' if self.whole else ''}{low}{high}"


_NUMBERS = {
    "purchase_price": _Number(with_low=False),
    "gpus_per_node": _Number(low=1, whole=True),
    "years": _Number(with_low=False, high=50),
    "price_per_kwh": _Number(),
    "gpu_watts": _Number(with_low=False),
    "residual_percent": _Number(high=100),
    "other_watts": _Number(),
    "pue": _Number(low=1, high=10),
    "colocation_per_kw_month": _Number(),
    "staff_per_year": _Number(),
    "staff_nodes": _Number(with_low=False),
    "network_per_node": _Number(),
    "maintenance_percent_per_year": _Number(high=100),
    "utilization_percent": _Number(with_low=False, high=100),
}
_TEXTS = ("currency", "gpu_model")
KEYS = (*_NUMBERS, *_TEXTS)
_REQUIRED = ("purchase_price", "gpus_per_node", "years", "price_per_kwh")
_COUNTED = ("other_watts", "pue", "colocation_per_kw_month", "staff_per_year", "network_per_node", "maintenance_percent_per_year")
_LARGEST = Decimal("1e12")


def read_file(path: Path) -> dict[str, Any]:
    """Keys and values of a TOML file of KEYS. Raises ConfigError naming what cannot be used; of an unknown key, the nearest."""
    try:
        values = tomllib.loads(path.read_bytes().decode("utf-8-sig"), parse_float=Decimal)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", f"{_example()} is an example to copy") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start})", "save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not TOML: {error}", f"{_example()} is an example to copy") from None
    for key in values:
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(KEYS)}"
            raise ConfigError(f"{path}: {key}: no such key; {hint}", f"{_example()} shows every key")
    return values


def read_inputs(file: Mapping[str, Any], options: Mapping[str, str], path: Path | None, currency: str) -> Inputs:
    """Values of `options` (the texts of --years and the like, by key) over those of the file; `currency` where neither names one.

    Raises ConfigError naming the key that is missing or cannot be used, UsageError where it is an option.
    """
    said: dict[str, Any] = {"currency": currency}
    incomplete = ConfigError if path else UsageError
    for values, place in ((file, f"{path}: {{}}"), (options, "--{}")):
        for key, value in values.items():
            where = place.format(key.replace("_", "-") if values is options else key)
            said[key] = _number(where, value, _NUMBERS[key]) if key in _NUMBERS else _text(where, key, value)
    missing = [key for key in _REQUIRED if key not in said]
    if missing:
        raise incomplete(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            f"give {' '.join('--' + key.replace('_', '-') for key in missing)}, or a file: {_example()} is an example to copy",
        )
    if "gpu_model" not in said and "gpu_watts" not in said:
        raise incomplete("neither gpu_model nor gpu_watts is given", "the GPUs' power comes from --gpu-model, or --gpu-watts")
    if said.get("staff_per_year") and "staff_nodes" not in said:
        raise incomplete("staff_nodes is missing", "--staff-nodes says how many nodes the staff of staff_per_year runs")
    return Inputs(**said)


def _number(where: str, value: Any, allowed: _Number) -> Decimal:
    try:
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
            raise InvalidOperation
        number = Decimal(value.strip() if isinstance(value, str) else value)
        if not number.is_finite():
            raise InvalidOperation
    except InvalidOperation:
        raise _wrong(where)(f"{where} is {value!r}, not a number", f"it should be {allowed}") from None
    if not allowed.allows(number) or number > _LARGEST:
        raise _wrong(where)(f"{where} is {value}", f"it should be {allowed}" if number <= _LARGEST else "it is too large")
    return number


def _text(where: str, key: str, value: Any) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if key == "currency":
        text = text.upper()
        if not re.fullmatch("[A-Z]{3}", text):
            raise _wrong(where)(f"{where} is {value!r}, not a currency", "for example USD")
    elif not text:
        raise _wrong(where)(f"{where} is {value!r}, not a GPU model", "for example H100-80GB-HBM3; gpucost prices lists them")
    return text


def _wrong(where: str) -> type[ConfigError | UsageError]:
    return UsageError if where.startswith("--") else ConfigError


def _example() -> Path:
    return pricing_dir() / "onprem.toml"


HOURS_PER_YEAR = 8760
HOURS_PER_MONTH = 730  # HOURS_PER_YEAR / 12

_KEPT = Decimal("1e-9")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the price, and in words what it was reckoned from."""

    name: str
    price_per_hour: Decimal
    basis: str


@dataclass(frozen=True, slots=True)
class Tco:
    """Prices per hour in the inputs' currency, 9 decimals; that of a GPU in use is None where no utilization was given."""

    inputs: Inputs
    parts: tuple[Part, ...]
    gpu_watts: Decimal
    gpu_watts_source: str  # 'given', or 'tdp' for the model's rated power
    node_watts: Decimal  # without the site's overhead
    price_per_hour: Decimal  # of the node, in use or not
    price_per_gpu_hour: Decimal
    price_per_utilized_gpu_hour: Decimal | None


def tco(inputs: Inputs, tdp_watts: Decimal | None) -> Tco:
    """The price of a node-hour, and of a GPU-hour over all hours and over those in use.

    Straight-line depreciation to the residual value (IAS 16.62), spread over all hours of the years; a year is 8,760 hours,
    a month 730. Power of the site is power of its machines × PUE (ISO/IEC 30134-2). `tdp_watts` is the model's rated power:
    it stands in for gpu_watts, and colocation, which is contracted by rated power, counts at least it. At least one of the
    two must be known.
    """
    watts = inputs.gpu_watts if inputs.gpu_watts is not None else tdp_watts
    if watts is None:
        raise ValueError("neither gpu_watts nor the model's rated power is known")
    other, pue = inputs.other_watts or Decimal(0), inputs.pue or Decimal(1)
    node_watts = inputs.gpus_per_node * watts + other
    rated_kw = (inputs.gpus_per_node * max(watts, tdp_watts or watts) + other) / 1000
    hours = inputs.years * HOURS_PER_YEAR
    residual = inputs.residual_percent or Decimal(0)
    maintenance = inputs.maintenance_percent_per_year or Decimal(0)
    network, staff = inputs.network_per_node or Decimal(0), inputs.staff_per_year or Decimal(0)
    colocation, nodes = inputs.colocation_per_kw_month or Decimal(0), inputs.staff_nodes or Decimal(1)
    parts = (
        _part(
            "depreciation",
            inputs.purchase_price * (100 - residual) / 100 / hours,
            f"{_n(inputs.purchase_price)} less {_n(residual)} % over {_n(inputs.years)} years",
        ),
        _part(
            "maintenance",
            inputs.purchase_price * maintenance / 100 / HOURS_PER_YEAR,
            f"{_n(maintenance)} % of {_n(inputs.purchase_price)} a year",
        ),
        _part("network", network / hours, f"{_n(network)} over {_n(inputs.years)} years"),
        _part(
            "power",
            node_watts / 1000 * pue * inputs.price_per_kwh,
            f"{_n(node_watts)} W × PUE {_n(pue)} × {_n(inputs.price_per_kwh)} per kWh",
        ),
        _part("colocation", rated_kw * colocation / HOURS_PER_MONTH, f"{_n(rated_kw)} kW × {_n(colocation)} a month"),
        _part("staff", staff / nodes / HOURS_PER_YEAR, f"{_n(staff)} a year for {_n(nodes)} nodes" if staff else "0 a year"),
    )
    total = sum((part.price_per_hour for part in parts), Decimal(0))
    in_use = inputs.utilization_percent
    return Tco(
        inputs=inputs,
        parts=parts,
        gpu_watts=watts,
        gpu_watts_source="given" if inputs.gpu_watts is not None else "tdp",
        node_watts=node_watts,
        price_per_hour=total,
        price_per_gpu_hour=_kept(total / inputs.gpus_per_node),
        price_per_utilized_gpu_hour=_kept(total / inputs.gpus_per_node * 100 / in_use) if in_use is not None else None,
    )


def _part(name: str, price: Decimal, basis: str) -> Part:
    return Part(name, _kept(price), basis)


def _kept(price: Decimal) -> Decimal:
    return price.quantize(_KEPT)


def _n(number: Decimal) -> str:
    """Thousands separated, without zeros at the end."""
    return f"{number.normalize():,f}"


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


def rated_power(con: DuckDBPyConnection, name: str, *, needed: bool) -> tuple[str, Decimal | None]:
    """The one name of the GPU that `name` means, and its rated power in watts; `name` and None where it is not known.

    Reads the catalog on `con`. Raises ConfigError where the power is needed and not known, and for a name of several GPUs.
    """
    load_catalog(con)
    watts = {str(model): tdp for model, tdp in con.execute("SELECT gpu_model, tdp_watts FROM gpu_models").fetchall()}
    aliases = aliases_of(con)
    exact = aliases.get(spelled(name))
    found = (exact,) if exact else gpu_models_called(name, watts, aliases)
    if len(found) > 1:
        raise ConfigError(f"gpu_model {name!r} may be {', '.join(found)}", "name one of them")
    if not found:
        if needed:
            near = ", ".join(nearest(name, watts))
            raise ConfigError(
                f"no GPU is called {name!r}; did you mean {near}?",
                "where it is none of these, --gpu-watts gives the power of one GPU",
            )
        return name, None
    if watts[found[0]] is None and needed:
        raise ConfigError(f"the catalog does not know the power of {found[0]}", "--gpu-watts gives the power of one GPU")
    return found[0], None if watts[found[0]] is None else Decimal(watts[found[0]])
