"""Price lists that anybody may read: HTTP without a login, bounded, and asked again where that can help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import requests

from gpucost import http, inputs
from gpucost.collect.prices.base import again as prices_again
from gpucost.errors import SourceError
from gpucost.http import TooLarge, TransientError, excerpt, retry

_ATTEMPTS = 5
_LONGEST_PAUSE = 120.0
_LONGEST_SECONDS = 3600.0
_JSON_BYTES = 256 << 20


@dataclass
class PublicList:
    """One provider's public price list. Its failures are SourceErrors of one line that name the provider.

    `what` the list is called in messages; `setting` is the key of the configuration that says where it is, on `server`.
    `again` asks once more, else as prices are asked for; `login` is what helps where the server refuses.
    """

    provider: str
    what: str
    setting: str
    server: str
    again: str = ""
    login: str = "a proxy may stand between; it needs no login"

    def __post_init__(self) -> None:
        self._session = http.session(self.server, _LONGEST_SECONDS, _JSON_BYTES)
        self.headers = self._session.headers
        self.again = self.again or prices_again(self.provider)

    def json(
        self,
        url: str,
        *,
        params: dict[str, str] | None = None,
        body: Any = None,
        whole: Callable[[Any], bool] = lambda _: True,
    ) -> Any:
        """A JSON answer, its numbers as Decimal; posted where there is a `body`. `whole` tells whether nothing is missing."""

        def ask() -> Any:
            content = self._content(url, params, body)
            try:
                parsed = inputs.parse_json(content, Decimal)
                complete = whole(parsed)
            except (ValueError, KeyError, TypeError, ArithmeticError) as error:
                raise TransientError(f"half an answer, cut off or no answer of {self.what} at all") from error
            if not complete:
                raise TransientError("half an answer: items are missing from a page")
            return parsed

        try:
            return retry(ask, attempts=_ATTEMPTS, longest_wait=_LONGEST_PAUSE)
        except TransientError as error:
            words = error.message.removeprefix(f"{self.provider}: ")
            raise SourceError(f"{self.provider}: {words}", f"wait a while, then {self.again}") from error

    def _content(self, url: str, params: dict[str, str] | None, body: Any) -> bytes:
        method = "GET" if body is None else "POST"
        try:
            answer = self._session.request(method, url, params=params, json=body, timeout=(10, 60))
            if answer.status_code != 200:
                raise http.refused(f"{self.provider}: {self.what}", answer, self.login, self.again)
            return answer.content
        except TooLarge as error:
            raise SourceError(f"{self.provider}: {error.message}", self.setting) from error
        except http.CUT_OFF as error:
            raise TransientError(f"half an answer, the connection broke off: {_line(error)}") from error
        except (requests.ConnectionError, requests.Timeout) as error:
            raise TransientError(f"cannot be reached, or the connection broke off: {_line(error)}") from error
        except requests.RequestException as error:
            raise SourceError(
                f"{self.provider}: {_line(error)}", f"{self.setting} says where {self.what} is"
            ) from error


def _line(error: Exception) -> str:
    """What is at the bottom of a failure: requests wraps it in what urllib3 wrapped."""
    while inner := getattr(error, "reason", None) or next(
        (arg for arg in error.args if isinstance(arg, Exception)), None
    ):
        error = inner
    return excerpt(str(error), 200)
