"""Writes a row into the price book that the configuration names, and leaves a book that loads."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from gpucost.cli._common import write_text
from gpucost.errors import ConfigError, GpucostError

if TYPE_CHECKING:
    from gpucost.config import Config
    from gpucost.price.onprem import BookEntry


def save_entry(config: Config, entry: BookEntry) -> str:
    """Put `entry` into the price book, creating the file where there is none; what was done, in a sentence.

    The file is replaced as a whole and read back: where the result would not load, it is put back as it was. Raises
    ConfigError where no book is configured, PriceError where the book cannot be read, before or after, and GpucostError
    where it cannot be written.
    """
    from gpucost.price.book import read_book
    from gpucost.price.fx import rates
    from gpucost.price.onprem import with_entry

    book = config.prices.book
    if book is None:
        raise ConfigError("no price book is configured", 'set [prices] book = "prices.csv" in gpucost.toml')
    entry.check(config.tz)
    fx = rates(config)
    if entry.currency not in (config.currency, *fx.steps):
        raise ConfigError(
            f"a price in {entry.currency} cannot be used: there is no rate from {entry.currency} to {config.currency}",
            f"set [prices] fx = {{ {entry.currency} = … }}, what 1 {entry.currency} is worth in {config.currency}",
        )
    before = ""
    is_new = not book.exists()
    if not is_new:
        read_book(book, config.currency, config.tz, fx)
        before = book.read_bytes().decode("utf-8")
    after, replaced = with_entry(before, entry, config.tz)
    try:
        write_text(after, book)
    except GpucostError as error:
        raise GpucostError(error.message, "[prices] book names the file") from None
    try:
        read_book(book, config.currency, config.tz, fx)
    except GpucostError as error:
        if is_new:
            with suppress(OSError):
                book.unlink()
        else:
            write_text(before, book)
        raise GpucostError(f"not saved, and {book} is as it was: the new row would refuse it: {error.message}") from None
    where = f"in place of line {replaced}" if replaced else "as its last line"
    return f"saved to {book} {where}: {entry.price_per_hour:f} {entry.currency} per node-hour"
