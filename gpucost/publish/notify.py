"""The summary of a report as a message: Slack, mail."""

from __future__ import annotations

import contextlib
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from typing import TYPE_CHECKING, Any

from gpucost.config.secrets import secret
from gpucost.errors import ConfigError, GpucostError
from gpucost.http import TransientError, retry, send
from gpucost.records import frozen_dataclass
from gpucost.render.formatting import figure_text, percent, target_text, value_of
from gpucost.render.templates import environment
from gpucost.render.view import OF_ALLOCATED, OF_NODES, ReportView, Row, ratio
from gpucost.resources import reports_dir
from gpucost.texts import excerpt, one_line, readable_json, shortened, visible_parts

if TYPE_CHECKING:
    from collections.abc import Callable
    from decimal import Decimal

    from gpucost.config.model import Config, Email, Owner, Slack
    from gpucost.options import Names
    from gpucost.questions.findings.kinds import Findings

_MOST_NOTICES = 3
_LONGEST_NAME = 48
_LONGEST_SAVING = 80
_LONGEST_NOTICE = 300
_LONGEST_TITLE = 250
_MOST_SAVINGS = 3

Line = tuple[str, str, str]


@frozen_dataclass
class Message:
    """Title, figures, lines and savings as (name, value, remark), in words, each on one line without control characters.

    The title is the headline of the report. Values are not escaped: each channel escapes its own special characters.
    """

    title: str
    subtitle: str
    figures: tuple[Line, ...]
    lines_title: str
    lines: tuple[Line, ...]
    more: str
    notices: tuple[str, ...]
    link: str | None
    savings: tuple[Line, ...] = ()


def message_of(view: ReportView, findings: Findings, link: str | None, top: int) -> Message:
    """The message for `view`, whose rows are by one dimension.

    It has the totals, the `top` most expensive rows, and the largest savings of `findings`. Savings without cash
    are left out: they free capacity only.
    """
    rows = [row for row in view.rows if row.kind == "allocated"]
    left = len(rows) - top
    warnings = view.coverage.warnings
    notices = [shortened(notice.message, _LONGEST_NOTICE) for notice in warnings[:_MOST_NOTICES]]
    if len(warnings) > _MOST_NOTICES:
        notices.append(f"{len(warnings) - _MOST_NOTICES} more warnings: see the report")
    return Message(
        title=shortened(view.headline, _LONGEST_TITLE),
        subtitle=one_line(f"{view.title}; {view.subtitle}"),
        figures=tuple(_figures(view)),
        lines_title=f"Cost by {view.by[0].replace('_', ' ') if view.by else 'unit'}",
        lines=tuple(_line(row, view) for row in rows[:top]),
        more=f"and {left:,} more" if left > 0 and top else "",
        notices=tuple(notices),
        link=link,
        savings=tuple(
            (
                shortened(f"{saving.title}: {saving.subject}", _LONGEST_SAVING),
                f"{_money(saving.saving_per_month, view)} a month",
                saving.advice,
            )
            for saving in findings.savings[:_MOST_SAVINGS]
            if saving.saving_per_month
        ),
    )


def addressed(
    config: Config, teams: Names, reaches: Callable[[Owner | None], object]
) -> list[tuple[Names, Owner | None]]:
    """The teams of each message, with the owner who gets it: of all teams and of each in [[notify.teams]], or of `teams`.

    None is the channel's own recipient: for all teams, and for teams without an owner. `reaches`: the channel has an
    address of this owner.
    """
    owners = {owner.team: owner for owner in config.notify.teams if reaches(owner)}
    if teams:
        # a team of the request is followed by the teams below it
        is_one = teams[1:] == config.children(teams[0])
        return [(teams, owners.get(teams[0]) if is_one else None)]
    to_all: list[tuple[Names, Owner | None]] = [((), None)] if reaches(None) or not owners else []
    return [*to_all, *(((team,), owner) for team, owner in owners.items())]


def _figures(view: ReportView) -> list[Line]:
    totals = view.totals
    nodes = view.node_totals
    coverage = view.coverage

    costs = [
        ("Allocated", totals.cost, f"{totals.allocated_gpu_hours:,.1f} GPU-hours"),
        ("Idle", totals.idle_cost, _share(totals.idle_cost, totals.cost, OF_ALLOCATED)),
    ]
    if nodes:
        costs.insert(0, ("GPU nodes", nodes.node_cost, ""))
        others = {"Unallocated": nodes.unallocated_cost, "Not collected": nodes.not_collected_cost}
        for name, cost in others.items():
            if cost or name == "Unallocated":
                costs.append((name, cost, _share(cost, nodes.node_cost, OF_NODES)))
    if api := view.totals_api:
        costs.append(("Bought tokens", api.api_cost, ""))
    if estimated := coverage.estimated_cost:
        share = f"{_share(estimated, estimated + coverage.final_cost)} of cost, not billed yet"
        costs.append(("Estimated", estimated, share))
    return [
        *((name, _money(cost, view), remark) for name, cost, remark in costs),
        *(
            (
                figure.label.removesuffix(" ratio"),
                value_of(figure, view.currency),
                f"{target_text(figure)}, {figure.status}",
            )
            for figure in view.targets
        ),
    ]


def _line(row: Row, view: ReportView) -> Line:
    name = next((value for value in row.keys.values() if value), "unknown")
    share = _share(row.measures.idle_cost, row.measures.cost)
    idle = f"{_money(row.measures.idle_cost, view)} idle" + (f", {share}" if share else "")
    return (
        shortened(name, _LONGEST_NAME),
        _money(row.measures.cost, view),
        idle if row.measures.idle_cost else "",
    )


def _money(value: Decimal, view: ReportView) -> str:
    return figure_text(value, "money", view.currency, 2)


def _share(part: Decimal, whole: Decimal, whole_name: str = "") -> str:
    share = ratio(part, whole)
    return "" if share is None else f"{percent(share)} {whole_name}".rstrip()


# Limits of Slack: https://docs.slack.dev/reference/block-kit/blocks
_SLACK_HEADER = 150
_SLACK_SECTION = 3000


def as_text(message: Message) -> str:
    """The message as plain text."""
    return _render("notify.txt.j2", message, escape=str)


def as_html(message: Message) -> str:
    """The message as an HTML page without external resources."""
    return _render("notify.html.j2", message)


def as_slack(message: Message) -> dict[str, Any]:
    """The message as the body of a Slack webhook: header, summary and link."""
    message = visible_parts(message)
    body = _render("notify.slack.j2", message, escape=_mrkdwn).strip()
    blocks: list[dict[str, Any]] = [
        {
            "type": "header",
            "text": {"type": "plain_text", "text": shortened(message.title, _SLACK_HEADER), "emoji": False},
        },
        *({"type": "section", "text": {"type": "mrkdwn", "text": part}} for part in _parts(body)),
    ]
    if message.link:
        link = _escaped(message.link)
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": f"<{link}|Full report>"}})
    # shown without room for blocks, and read by screen readers
    return {"text": _escaped(message.title), "blocks": blocks}


def _render(template: str, message: Message, escape: Callable[[str], str] | None = None) -> str:
    return environment(reports_dir(), escape=escape).get_template(template).render(message=message)


def _mrkdwn(text: str) -> str:
    """Escape text that Slack would read as a link, a mention, or the end of a code block."""
    return _escaped(text).replace("`", "'")


def _escaped(text: str) -> str:
    # https://docs.slack.dev/messaging/formatting-message-text: these three, and no others
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _parts(body: str) -> list[str]:
    """Split `body` into pieces that Slack accepts, between lines; a split code block continues as one."""
    parts = []
    lines: list[str] = []
    size = 0
    in_code = False
    for line in body.split("\n"):
        if size + len(line) + 8 > _SLACK_SECTION and lines:
            parts.append("\n".join([*lines, *(["```"] if in_code else [])]))
            lines, size = (["```"], 4) if in_code else ([], 0)
        lines.append(line)
        size += len(line) + 1
        in_code ^= line == "```"
    return [*parts, "\n".join(lines)]


# Slack's error responses, and the fix for each:
# https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
_SLACK_FIXES = {
    "invalid_token": "the webhook was revoked: make a new one in Slack",
    "no_service": "the webhook was removed or disabled: make a new one in Slack",
    "no_active_hooks": "the webhook was disabled: make a new one in Slack",
    "channel_not_found": "the webhook's channel no longer exists: make a new webhook in Slack",
    "channel_is_archived": "the channel of the webhook is archived",
    "action_prohibited": "a Slack administrator forbids it",
    "posting_to_general_channel_denied": "the webhook may not post to the general channel",
}


def send_to_slack(config: Slack, body: dict[str, Any], section: str = "notify.slack") -> None:
    """POST `body` to the webhook of a section. Raises ConfigError without one, GpucostError if Slack refuses."""
    url = secret(section, "webhook_url", config.webhook_url_file, config.webhook_url_env)
    if url is None:
        raise ConfigError(
            f"the URL of [{section}] is missing",
            f"set webhook_url_env or webhook_url_file under [{section}] in gpucost.toml",
        )
    # the URL is a secret, so it is not repeated
    if not url.startswith(("http://", "https://")) or any(letter.isspace() for letter in url):
        raise ConfigError(
            f"[{section}] the URL must begin with http:// or https:// and must not contain blanks"
        )
    headers = {"Content-Type": "application/json; charset=utf-8"}
    answer = send("POST", url, readable_json(body).encode(), headers, "Slack")
    if not 200 <= answer.status < 300:
        fix = _SLACK_FIXES.get(answer.text.split(":")[0].strip(), f"check the URL under [{section}]")
        raise GpucostError(
            f"Slack at {answer.host} answered {answer.status}: {answer.text or 'empty response'}", fix
        )


_TIMEOUT_SECONDS = 20.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def mail(config: Email, subject: str, text: str, html: str) -> EmailMessage:
    """The mail to send, with `text` for programs that do not show HTML.

    Raises ConfigError if [notify.email] lacks an address, or if a header would contain a line break.
    """
    if not config.sender or not config.recipients:
        missing = "recipients" if config.sender else "sender"
        raise ConfigError(
            f"{missing} of [notify.email] is missing", f"set {missing} under [notify.email] in gpucost.toml"
        )
    letter = EmailMessage()
    try:
        letter["Subject"] = subject
        letter["From"] = config.sender
        letter["To"] = ", ".join(config.recipients)
    except ValueError:
        raise ConfigError("a header of the mail would contain a line break, which is refused") from None
    letter["Date"] = formatdate()
    letter["Message-ID"] = make_msgid("gpucost", domain=config.sender.rpartition("@")[2])
    letter["Auto-Submitted"] = "auto-generated"  # RFC 3834: prevents vacation replies
    letter.set_content(text)
    letter.add_alternative(html, subtype="html")
    return letter


def send_mail(config: Email, letter: EmailMessage) -> None:
    """Send `letter` through the server of [notify.email], with retries for temporary failures.

    Raises ConfigError without a server, or if the password would be sent unencrypted; GpucostError if the mail is
    refused.
    """
    if config.host is None:
        raise ConfigError(
            "host of [notify.email] is missing", "set host under [notify.email] in gpucost.toml"
        )
    password = secret("notify.email", "password", config.password_file, config.password_env)
    if password is not None and config.encryption == "none" and config.host not in _LOOPBACK:
        raise ConfigError(
            "[notify.email] would send the password unencrypted",
            'set encryption = "starttls" or "tls" under [notify.email]',
        )

    def once() -> None:
        try:
            _send(config, letter, password)
        except (OSError, smtplib.SMTPException) as error:
            raise _explained(config, error) from None

    retry(once, attempts=3, longest_wait=2.0)


def _send(config: Email, letter: EmailMessage, password: str | None) -> None:
    trusted = ssl.create_default_context(cafile=str(config.ca_file) if config.ca_file else None)
    host = config.host or ""
    connect = (
        smtplib.SMTP_SSL(host, config.port, timeout=_TIMEOUT_SECONDS, context=trusted)
        if config.encryption == "tls"
        else smtplib.SMTP(host, config.port, timeout=_TIMEOUT_SECONDS)
    )
    try:
        if config.encryption == "starttls":
            connect.starttls(context=trusted)
        if config.username is not None and password is not None:
            connect.login(config.username, password)
        refused = connect.send_message(letter)
    finally:
        # the server may be gone by now; the result is already known
        with contextlib.suppress(OSError, smtplib.SMTPException):
            connect.quit()
    if refused:
        # some recipients were accepted: sending again would reach them twice
        raise GpucostError(
            f"the mail server refused {', '.join(sorted(refused))}; the others received the mail",
            "check recipients under [notify.email] in gpucost.toml",
        )


def _is_passing(error: Exception) -> bool:
    """Whether the mail was certainly not accepted, and may be on a retry."""
    match error:
        case smtplib.SMTPRecipientsRefused():
            return all(400 <= code < 500 for code, _ in error.recipients.values())
        case smtplib.SMTPAuthenticationError():
            return False
        case smtplib.SMTPResponseException():
            return 400 <= error.smtp_code < 500
    return isinstance(error, ConnectionRefusedError)


def _explained(config: Email, error: Exception) -> GpucostError:
    match error:
        case smtplib.SMTPAuthenticationError():
            what = "refused the user name or password"
            fix = "check username and password_env or password_file"
        case smtplib.SMTPNotSupportedError():
            what = f"does not support the request: {error}"
            fix = "check port, encryption and username under [notify.email]"
        case smtplib.SMTPRecipientsRefused():
            refused = sorted(error.recipients.items())
            reasons = "; ".join(f"{name}: {_words(text)}" for name, (_, text) in refused)
            what = f"refused every recipient: {reasons}"
            fix = "check sender and recipients under [notify.email]"
        case smtplib.SMTPResponseException():
            what = f"answered {error.smtp_code}: {_words(error.smtp_error)}"
            fix = "check [notify.email] in gpucost.toml"
        case smtplib.SMTPServerDisconnected():
            what = f"closed the connection: {error}; the mail may have arrived"
            fix = "check whether it arrived before you send it again"
        case ssl.SSLError():
            what = f"failed to encrypt the connection: {error.reason or error}"
            fix = 'check ca_file, and whether the port needs encryption = "tls" (465) or "starttls" (587)'
        case FileNotFoundError() if config.ca_file:
            return GpucostError(f"[notify.email] ca_file: cannot read {config.ca_file}")
        case _:
            reason = (
                "timed out"
                if isinstance(error, TimeoutError)
                else getattr(error, "strerror", None) or str(error)
            )
            what = f"cannot be reached: {reason}"
            fix = "check host and port under [notify.email]"
    kind = TransientError if _is_passing(error) else GpucostError
    return kind(f"the mail server {config.host}:{config.port} {what}", fix=fix)


def _words(text: bytes | str) -> str:
    return excerpt(text.decode("utf-8", "replace") if isinstance(text, bytes) else text, 200)
