"""Price lists that anybody may read: HTTP without a login."""

from __future__ import annotations

from gpucost import http
from gpucost.collect.prices.base import again

_LONGEST_SECONDS = 3600.0
_JSON_BYTES = 256 << 20


def public_list(provider: str, what: str, setting: str, url: str) -> http.JsonServer:
    """The server of a list, called `what` in messages; `setting` is the key of the configuration that holds its `url`."""
    return http.JsonServer(
        f"{provider}: {what}",
        http.session(url, _LONGEST_SECONDS, _JSON_BYTES),
        login="a proxy may stand between; it needs no login",
        address=f"check {setting}, then {again(provider)}",
        later=f"wait a while, then {again(provider)}",
    )
