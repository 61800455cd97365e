"""Asking a cloud again where that can help: as long as it says to wait, else twice as long each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import tenacity

# Throttled, or a server that may be well again in a moment.
PASSING = (429, 500, 502, 503, 504)

_T = TypeVar("_T")


class Passing(Exception):
    """A refusal that may pass; `wait` is what the server asks for, in seconds."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


def asked_again(ask: Callable[[], _T], *, attempts: int, longest_wait: float) -> _T:
    """What `ask` answers, which is called up to `attempts` times while it raises Passing. Raises the last Passing."""

    def pause(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.wait if isinstance(error, Passing) else None
        return min(asked if asked is not None else 0.5 * 2 ** (state.attempt_number - 1), longest_wait)

    answer: _T = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(attempts), wait=pause, retry=tenacity.retry_if_exception_type(Passing), reraise=True
    )(ask)
    return answer


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The longest wait, in seconds, that any header named `…Retry-After` asks for; None where none says a number."""
    waits = [float(text) for name, text in headers.items() if name.lower().endswith("retry-after") and text.strip().isdigit()]
    return max(waits, default=None)
