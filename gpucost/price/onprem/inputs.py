"""What the price of an own node is made of, read from a TOML file and from options."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from gpucost.errors import ConfigError, UsageError
from gpucost.resources import pricing_dir


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
