"""Exchange rates by local day: [prices.fx] and the file of rates. Any broken row refuses the whole file."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, ValidationInfo

from gpucost.errors import PriceError
from gpucost.periods import local_midnight, to_ms
from gpucost.price.book import FileRow, Kind, bare_date, currency_code, exact_number
from gpucost.records import frozen_dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Budget, Config

Steps = tuple[tuple[date, Decimal], ...]

_WHOLE_DIGITS, _DECIMALS = 6, 12


def _other_currency(text: str, info: ValidationInfo) -> str:
    currency, config_currency = currency_code(text), (info.context or {})["currency"]
    if currency == config_currency:
        raise ValueError(
            f"is {config_currency}, the config's currency; a rate converts another currency to {config_currency}"
        )
    return currency


Day = date


class RateRow(FileRow, frozen=True):
    """The value of one unit of a currency from a local day on."""

    date: Annotated[Day, BeforeValidator(bare_date)]
    currency: Annotated[str, BeforeValidator(_other_currency)]
    rate: Annotated[Decimal, BeforeValidator(lambda text: exact_number(text, _WHOLE_DIGITS, _DECIMALS))]


RATES = Kind("file of rates", "[prices] fx_rates", RateRow)


@frozen_dataclass
class FxRates:
    """Rates into one currency, as (day, rate) steps by currency.

    Steps are in order of days; a rate is valid until the next. A constant rate has the day `date.min`.
    """

    currency: str
    steps: Mapping[str, Steps]
    path: Path | None = None

    def rate(self, currency: str, day: date) -> Decimal | None:
        """The value of one unit of `currency` on a local day; None without a rate."""
        if currency == self.currency:
            return Decimal(1)
        steps = self.steps.get(currency, ())
        begun = bisect_right(steps, day, key=itemgetter(0))
        return steps[begun - 1][1] if begun else None

    def convert(self, amount: Decimal, currency: str, day: date, what: str) -> Decimal:
        """Convert `amount`, the amount of `what` in `currency`, at the day's rate, unrounded.

        Raises PriceError if the rate is missing.
        """
        rate = self.rate(currency, day)
        if rate is None:
            raise self.missing(currency, what, day)
        return amount * rate

    def missing(self, currency: str, what: str, day: date) -> PriceError:
        """The error for `what` (a price, a row, a node) in a currency without a rate."""
        when = f" on {day}" if currency in self.steps else ""
        first = f"; {self.path} begins on {self.steps[currency][0][0]}" if when and self.path else ""
        return no_rate(what, currency, self.currency, f"{when}{first}")


def no_rate(what: str, currency: str, config_currency: str, when: str) -> PriceError:
    """The error for `what` in a currency without a rate into `config_currency`.

    `when` (` on 2026-10-05`) names the day.
    """
    return PriceError(
        f"{what}: there is no rate from {currency} to {config_currency}{when}",
        f"set [prices] fx = {{ {currency} = … }} (the value of 1 {currency} in {config_currency}), or add it to the file "
        "of [prices] fx_rates",
    )


def rates(config: Config) -> FxRates:
    """The rates of the configuration; the file wins from its first date on.

    Raises PriceError naming the invalid value.
    """
    steps: dict[str, dict[date, Decimal]] = defaultdict(dict)
    for currency, rate in config.prices.fx.items():
        if currency == config.currency:
            raise PriceError(
                f"[prices] fx has a rate for {currency}, the config's own currency",
                f"remove it: a rate converts another currency to {currency}",
            )
        steps[currency][date.min] = _fitting(rate, f"[prices] fx.{currency}")
    path = config.prices.fx_rates
    if path:
        for row in RATES.read(path, {"currency": config.currency}):
            if steps[row.currency].setdefault(row.date, row.rate) != row.rate:
                raise PriceError(
                    f"{path}:{row.line}: date: has a second rate of {row.currency} on {row.date}",
                    "remove one of them",
                )
    return FxRates(
        config.currency, {currency: tuple(sorted(days.items())) for currency, days in steps.items()}, path
    )


def budget_amount(config: Config, budget: Budget, day: date) -> Decimal | None:
    """The monthly amount of `budget` in the report's currency; None without an amount.

    Converts at the day's rate. Raises PriceError if the rate is missing.
    """
    if budget.amount is None or budget.currency in (None, config.currency):
        return budget.amount
    return rates(config).convert(
        budget.amount, budget.currency, day, f"the budget {budget.name!r} in {budget.currency}"
    )


def fx_digest(config: Config) -> str:
    """A digest of the file of rates; empty without a file.

    Raises PriceError if it cannot be read.
    """
    return RATES.digest(config.prices.fx_rates)


_EVER = -(2**62)
# The value of one unit of a currency in the config's: half-open intervals that cover all time.
_RATES = """
CREATE OR REPLACE TEMP TABLE fx_rates AS
WITH steps AS (
    SELECT unnest($currency::VARCHAR[]) AS currency, unnest($from_ms::BIGINT[]) AS from_ms,
        unnest($rate::VARCHAR[])::DECIMAL(18, 12) AS rate
)
SELECT currency, from_ms, lead(from_ms, 1, 4611686018427387904) OVER (PARTITION BY currency ORDER BY from_ms) AS to_ms, rate
FROM steps"""


def load_fx_rates(con: DuckDBPyConnection, config: Config) -> FxRates:
    """Create the temporary table fx_rates, by local day.

    The config's currency has the rate 1; others are null before their first rate. Returns the rates. Raises
    PriceError for rates that cannot be used.
    """
    fx = rates(config)
    rows: list[tuple[str, int, str | None]] = [(fx.currency, _EVER, "1")]
    for currency, steps in fx.steps.items():
        if steps[0][0] != date.min:
            rows.append((currency, _EVER, None))
        for day, rate in steps:
            start = _EVER if day == date.min else to_ms(local_midnight(day, config.tz))
            rows.append((currency, start, str(rate)))
    currencies, starts, values = map(list, zip(*rows, strict=True))
    con.execute(_RATES, {"currency": currencies, "from_ms": starts, "rate": values})
    return fx


def _fitting(rate: Decimal, key: str) -> Decimal:
    try:
        return exact_number(f"{rate:f}", _WHOLE_DIGITS, _DECIMALS)
    except ValueError as error:
        raise PriceError(f"{key}: {error}", "write it with fewer digits") from None
