"""Every failure a user can meet: what failed, where it was looked for, and what to do next."""

from __future__ import annotations

import re

from gpucost.texts import concealed

# What a broken file has in place of a word, or of a sentence.
_LONG = re.compile(r"(\S{250})\S{250,}")
_LONGEST = 4000


class GpucostError(Exception):
    """A failure with a message for the user; ends the command with `exit_code`.

    `fix` is one command or setting that mends it, shown below the message.
    """

    exit_code = 1

    def __init__(self, message: str, fix: str | None = None) -> None:
        self.message = _LONG.sub(r"\1…", concealed(message))[
            :_LONGEST
        ]  # what is cut would not be known for a secret
        super().__init__(self.message)
        self.fix = fix and concealed(fix)


class UsageError(GpucostError):
    """The command was called with options that do not fit together or cannot be read."""

    exit_code = 2


class ConfigError(GpucostError):
    """A config file or environment variable that cannot be used."""


class StoreError(GpucostError):
    """The store cannot be opened, read or written."""


class SourceError(GpucostError):
    """A source of data (a Prometheus server, a file) that does not answer or answers nonsense."""


class DataError(GpucostError):
    """Broken input data; nothing of that batch was loaded."""


class PriceError(DataError):
    """A price book or catalog row that cannot be used."""


class NoDataError(GpucostError):
    """Nothing is known of the period asked for."""


class IncompleteError(GpucostError):
    """The closed period asked for was not collected in full."""

    exit_code = 4
