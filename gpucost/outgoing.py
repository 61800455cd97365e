"""Sends something over HTTP to a server that the user names: with retries, and without telling its URL, which may be a secret."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpucost.errors import GpucostError

if TYPE_CHECKING:
    import requests
    import tenacity

_log = logging.getLogger(__name__)

_PAUSES_SECONDS = (0.5, 2.0, 5.0)
_TIMEOUT_SECONDS = (5.0, 15.0)  # to connect, to answer
_LONGEST_PAUSE_SECONDS = 30.0
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_MOST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Request:
    """One message. `what` says who it goes to, in errors; `repeatable` that taking it twice does no harm."""

    method: str
    url: str
    body: bytes
    headers: Mapping[str, str]
    what: str
    repeatable: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """What the server said: status, the beginning of the text on one line, and its host."""

    status: int
    text: str
    host: str


class _Passing(GpucostError):
    """A failure that may be over in a moment."""

    after: float | None = None


def send(request: Request) -> Response:
    """Send `request`, again where the server cannot be reached or asks for patience. No redirect is followed.

    A message that may have arrived is sent again only where it is `repeatable`. Raises GpucostError where no answer came at all.
    """
    import requests
    import tenacity

    host = urlsplit(request.url).netloc.rpartition("@")[2]

    def once() -> Response:
        try:
            with requests.Session() as session:
                session.auth = _keep  # else requests would take a password from ~/.netrc
                answer = session.request(
                    request.method,
                    request.url,
                    data=request.body,
                    headers={"User-Agent": "gpucost", **request.headers},
                    timeout=_TIMEOUT_SECONDS,
                    allow_redirects=False,
                )
        except (requests.exceptions.ConnectTimeout, requests.exceptions.ReadTimeout) as error:
            raise _timed_out(request, host, error) from None
        except requests.exceptions.SSLError:
            raise GpucostError(f"{request.what} at {host} has no certificate that can be trusted", _CHECK) from None
        except requests.exceptions.ConnectionError as error:
            raise _unreachable(request, host, error) from None
        except (requests.exceptions.RequestException, ValueError):
            # their words would show the URL
            raise GpucostError(f"the address of {request.what} cannot be used", _CHECK) from None
        if answer.status_code in _PASSING:
            passing = _Passing(f"{request.what} at {host} answered {answer.status_code}: {_first_words(answer.text)}", _CHECK)
            passing.after = _retry_after(answer.headers.get("Retry-After"))
            raise passing
        return Response(answer.status_code, _first_words(answer.text), host)

    def pause(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = error.after if isinstance(error, _Passing) else None
        usual = _PAUSES_SECONDS[min(state.attempt_number, len(_PAUSES_SECONDS)) - 1]
        return usual if asked is None else min(asked, _LONGEST_PAUSE_SECONDS)

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(_Passing),
        stop=tenacity.stop_after_attempt(len(_PAUSES_SECONDS) + 1),
        wait=pause,
        before_sleep=_tell,
        reraise=True,
    )
    try:
        return retrying(once)
    except _Passing as error:
        raise GpucostError(f"{error.message} (tried {len(_PAUSES_SECONDS) + 1} times)", error.fix) from None


_CHECK = "check the address, and that this machine may reach it"


def _timed_out(request: Request, host: str, error: Exception) -> GpucostError:
    import requests

    if isinstance(error, requests.exceptions.ConnectTimeout):
        return _Passing(f"{request.what} at {host} cannot be reached: timed out", _CHECK)
    if request.repeatable:
        return _Passing(f"{request.what} at {host} did not answer in time", _CHECK)
    return GpucostError(
        f"{request.what} at {host} did not answer in time; the message may have arrived",
        "look there before you send it again",
    )


def _unreachable(request: Request, host: str, error: requests.exceptions.ConnectionError) -> GpucostError:
    from urllib3.exceptions import NewConnectionError, ProtocolError

    cause = error.args[0] if error.args else None
    reason = getattr(cause, "reason", cause)
    if isinstance(reason, ProtocolError) and not request.repeatable:
        return GpucostError(
            f"{request.what} at {host} broke off; the message may have arrived", "look there before you send it again"
        )
    why = "nothing answers there" if isinstance(reason, NewConnectionError) else "the connection failed"
    return _Passing(f"{request.what} at {host} cannot be reached: {why}", _CHECK)


def _keep(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _first_words(text: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text[:1000]).split())[:_MOST_TEXT]


def _retry_after(value: str | None) -> float | None:
    return float(value) if value and value.strip().isdigit() else None


def _tell(state: tenacity.RetryCallState) -> None:
    """Why it is sent again: shown under -v."""
    error = state.outcome.exception() if state.outcome else None
    _log.warning("%s: trying again in %.1f s", error, state.upcoming_sleep)
