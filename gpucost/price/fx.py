"""What other currencies are worth, by local day: [prices.fx] and the file of rates. Any broken row refuses the whole file."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from hashlib import sha256
from operator import itemgetter
from typing import TYPE_CHECKING

from gpucost.errors import PriceError
from gpucost.periods import local_midnight, to_ms
from gpucost.price.book import BadField, Kind, bare_date, currency_code, exact_number, read_lines, unreadable

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Budget, Config

Steps = tuple[tuple[date, Decimal], ...]

FILE = Kind("file of rates", "[prices] fx_rates", ("date", "currency", "rate"))
_WHOLE_DIGITS, _DECIMALS = 6, 12


@dataclass(frozen=True, slots=True)
class FxRates:
    """Rates into one currency: by currency, the (day, rate) steps in order of days; a rate holds until the next.

    A constant rate stands under `date.min`.
    """

    currency: str
    steps: Mapping[str, Steps]
    path: Path | None = None

    def rate(self, currency: str, day: date) -> Decimal | None:
        """What one unit of `currency` is worth on a local day; None where no rate is known."""
        if currency == self.currency:
            return Decimal(1)
        steps = self.steps.get(currency, ())
        found = bisect_right(steps, day, key=itemgetter(0))
        return steps[found - 1][1] if found else None

    def convert(self, amount: Decimal, currency: str, day: date) -> Decimal:
        """`amount` of `currency` in this currency at the day's rate, unrounded. Raises PriceError where there is no rate."""
        rate = self.rate(currency, day)
        if rate is None:
            raise self.missing(currency, f"a price in {currency}", day)
        return amount * rate

    def missing(self, currency: str, what: str, day: date | None = None) -> PriceError:
        """The error for `what` (a price, a row, a node), which is in a currency that has no rate."""
        when = f" on {day}" if day and currency in self.steps else ""
        first = f"; {self.path} begins on {self.steps[currency][0][0]}" if when and self.path else ""
        return PriceError(
            f"{what}: there is no rate from {currency} to {self.currency}{when}{first}",
            f"set [prices] fx = {{ {currency} = … }}, what 1 {currency} is worth in {self.currency}, or add it to the file "
            "that [prices] fx_rates names",
        )


def rates(config: Config) -> FxRates:
    """The rates of the configuration; the file wins from its first date on. Raises PriceError naming what cannot be used."""
    steps: dict[str, dict[date, Decimal]] = defaultdict(dict)
    for currency, rate in config.prices.fx.items():
        if currency == config.currency:
            raise PriceError(
                f"[prices] fx has a rate for {currency}, which is the currency itself",
                f"remove it: a rate says what one unit of another currency is worth in {currency}",
            )
        steps[currency][date.min] = _fitting(rate, f"[prices] fx.{currency}")
    path = config.prices.fx_rates
    if path:
        for line, (day, currency, rate) in _read(path, config.currency).items():
            if steps[currency].setdefault(day, rate) != rate:
                raise PriceError(f"{path}:{line}: date: has a second rate of {currency} on {day}", "remove one of them")
    return FxRates(config.currency, {currency: tuple(sorted(days.items())) for currency, days in steps.items()}, path)


def budget_amount(config: Config, budget: Budget, day: date) -> Decimal | None:
    """What `budget` allows a month, in the report's currency at the day's rate; None where it names no amount.

    Raises PriceError where there is no rate.
    """
    if budget.amount is None or budget.currency in (None, config.currency):
        return budget.amount
    known = rates(config)
    rate = known.rate(budget.currency, day)
    if rate is None:
        raise known.missing(budget.currency, f"the budget {budget.name!r} in {budget.currency}", day)
    return budget.amount * rate


def fx_digest(config: Config) -> str:
    """A digest of the text of the file of rates; empty where there is none. Raises PriceError if it cannot be read."""
    path = config.prices.fx_rates
    if path is None:
        return ""
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise unreadable(path, FILE, error) from None


# What one unit of a currency is worth in the config's: half-open intervals that cover all time.
_RATES = """
CREATE OR REPLACE TEMP TABLE fx_rates AS
SELECT unnest($currency::VARCHAR[]) AS currency, coalesce(unnest($from_ms::BIGINT[]), -4611686018427387904) AS from_ms,
    coalesce(unnest($to_ms::BIGINT[]), 4611686018427387904) AS to_ms, unnest($rate::VARCHAR[])::DECIMAL(18, 12) AS rate"""


def load_rates(con: DuckDBPyConnection, config: Config, known: FxRates) -> None:
    """Create the temporary table fx_rates: the currency itself at 1, every other by local days, null before its first."""
    rows: list[tuple[str, int | None, int | None, str | None]] = [(known.currency, None, None, "1")]
    for currency, steps in known.steps.items():
        starts = [None if day == date.min else to_ms(local_midnight(day, config.tz)) for day, _ in steps]
        values = [str(rate) for _, rate in steps]
        if starts[0] is not None:
            rows.append((currency, None, starts[0], None))
        rows += zip([currency] * len(steps), starts, [*starts[1:], None], values, strict=True)
    columns = dict(zip(("currency", "from_ms", "to_ms", "rate"), map(list, zip(*rows, strict=True)), strict=True))
    con.execute(_RATES, columns)


def _read(path: Path, own: str) -> dict[int, tuple[date, str, Decimal]]:
    """(date, currency, rate) by the number of their line."""
    header, lines = read_lines(path, FILE)
    found = {}
    for number, fields in lines:
        record = dict(zip(header, fields, strict=True))
        try:
            currency = currency_code(record["currency"])
            if currency == own:
                raise BadField("currency", f"is {own}, the config's own: a rate says what another currency is worth in {own}")
            rate = exact_number("rate", record["rate"], _WHOLE_DIGITS, _DECIMALS)
            found[number] = (bare_date("date", record["date"]), currency, rate)
        except BadField as error:
            raise PriceError(
                f"{path}:{number}: {error.column}: {error.reason}", "correct the line; nothing of the file was used"
            ) from None
    return found


def _fitting(rate: Decimal, key: str) -> Decimal:
    try:
        return exact_number(key, f"{rate:f}", _WHOLE_DIGITS, _DECIMALS)
    except BadField as error:
        raise PriceError(f"{error.column}: {error.reason}", "write it with fewer digits") from None
