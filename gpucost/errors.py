"""Failures that users can meet: the failure, its place, and the next step."""

import re

from gpucost.texts import concealed

# Broken files can have very long words or sentences.
_LONG = re.compile(r"(\S{250})\S{250,}")
_LONGEST = 4000


class GpucostError(Exception):
    """A failure with a message for the user; ends the command with `exit_code`.

    `fix` is one command or setting that solves it, shown below the message.
    """

    exit_code = 1

    def __init__(self, message: str, fix: str | None = None) -> None:
        self.message = _LONG.sub(r"\1…", concealed(message))[
            :_LONGEST
        ]  # conceal first: a secret that is cut would not be found
        super().__init__(self.message)
        self.fix = fix and concealed(fix)


class UsageError(GpucostError):
    """Options that cannot be read or that contradict each other."""

    exit_code = 2


class ConfigError(GpucostError):
    """A config file or environment variable that cannot be used."""


class StoreError(GpucostError):
    """The store cannot be opened, read or written."""


class SourceError(GpucostError):
    """A data source (a Prometheus server, a file) that does not answer or answers nonsense."""


class DataError(GpucostError):
    """Broken input data; none of that batch was loaded."""


class PriceError(DataError):
    """A price book or catalog row that cannot be used."""


class NoDataError(GpucostError):
    """The store has no data for the requested period."""


class IncompleteError(GpucostError):
    """The requested period is closed, but was not collected in full."""

    exit_code = 4
