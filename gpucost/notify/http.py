"""Sends messages over HTTP: to Slack's incoming webhooks, and to any server that takes JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from gpucost.errors import ConfigError, GpucostError
from gpucost.notify.secrets import from_variable, secret
from gpucost.outgoing import Request, Response, send

if TYPE_CHECKING:
    from gpucost.config.alerts import Slack, Webhook

# What Slack says, and what mends it: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
_SLACK_FIXES = {
    "invalid_token": "the webhook was revoked: make a new one in Slack",
    "no_service": "the webhook was removed or disabled: make a new one in Slack",
    "no_active_hooks": "the webhook was disabled: make a new one in Slack",
    "channel_not_found": "the channel of the webhook is gone: make a new webhook in Slack",
    "channel_is_archived": "the channel of the webhook is archived",
    "action_prohibited": "an administrator of Slack forbids it",
    "posting_to_general_channel_denied": "the webhook may not post to the general channel",
}


def send_to_slack(config: Slack, body: dict[str, Any]) -> None:
    """POST `body` to the webhook of [notify.slack]. Raises ConfigError without one, GpucostError where Slack refuses."""
    url = secret("notify.slack", "webhook_url", config.webhook_url_file, config.webhook_url_env)
    if url is None:
        raise ConfigError(
            "[notify.slack] names no webhook", "set webhook_url_env or webhook_url_file under [notify.slack] in gpucost.toml"
        )
    answer = _post(_checked(url, "notify.slack"), body, {}, "Slack")
    if answer.status != 200:
        word = answer.text.split(":")[0].strip()
        raise _refused("Slack", answer, _SLACK_FIXES.get(word, "check the webhook's URL"))


def send_to_webhook(config: Webhook, body: dict[str, Any]) -> None:
    """POST `body` to the server of [notify.webhook]. Raises ConfigError without one, GpucostError where it refuses."""
    url = config.url or secret("notify.webhook", "url", config.url_file, config.url_env)
    if url is None:
        raise ConfigError(
            "[notify.webhook] names no server", "set url, url_env or url_file under [notify.webhook] in gpucost.toml"
        )
    headers = {
        name: from_variable("notify.webhook", f"headers_env.{name}", variable) for name, variable in config.headers_env.items()
    }
    answer = _post(_checked(url, "notify.webhook"), body, headers, "the webhook")
    if not 200 <= answer.status < 300:
        fixes = {
            401: "set headers_env under [notify.webhook], for example { Authorization = \"NAME_OF_VARIABLE\" }",
            403: "the credentials under [notify.webhook] are not allowed to do this",
            404: "check the URL under [notify.webhook]",
        }  # fmt: skip
        raise _refused("the webhook", answer, fixes.get(answer.status, "check the URL under [notify.webhook]"))


def _post(url: str, body: dict[str, Any], headers: dict[str, str], what: str) -> Response:
    payload = json.dumps(body, ensure_ascii=False).encode()
    return send(Request("POST", url, payload, {"Content-Type": "application/json; charset=utf-8", **headers}, what=what))


def _checked(url: str, section: str) -> str:
    # the URL is a secret: it is not repeated
    if not url.startswith(("http://", "https://")) or any(letter.isspace() for letter in url):
        raise ConfigError(f"[{section}] the URL should begin with http:// or https:// and hold no blanks")
    return url


def _refused(what: str, answer: Response, fix: str) -> GpucostError:
    return GpucostError(f"{what} at {answer.host} answered {answer.status}: {answer.text or 'nothing'}", fix)
