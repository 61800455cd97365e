"""Messages by their templates in reports/: plain text, HTML, and what Slack shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gpucost.report.render_data import to_json
from gpucost.resources import reports_dir

if TYPE_CHECKING:
    from gpucost.notify.message import Message
    from gpucost.report.view import ReportView

SCHEMA = "gpucost.notification/1"

# What Slack takes at most: https://docs.slack.dev/reference/block-kit/blocks
_SLACK_HEADER = 150
_SLACK_SECTION = 3000


def as_text(message: Message) -> str:
    """The message as plain text."""
    return _render("notify.txt.j2", message, autoescape=False)


def as_html(message: Message) -> str:
    """The message as one HTML page that asks for nothing from the network."""
    return _render("notify.html.j2", message, autoescape=True)


def as_slack(message: Message) -> dict[str, Any]:
    """The message as the body of an incoming webhook of Slack: header, summary and link."""
    body = _render("notify.slack.j2", message, autoescape=True, finalize=_mrkdwn).strip()
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": message.title[:_SLACK_HEADER], "emoji": False}},
        *({"type": "section", "text": {"type": "mrkdwn", "text": part}} for part in _parts(body)),
    ]
    if message.link:
        link = _escaped(message.link)
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": f"<{link}|The whole report>"}})
    # shown where there is no room for blocks, and read by screen readers
    return {"text": _escaped(message.title), "blocks": blocks}


def as_json(message: Message, view: ReportView) -> dict[str, Any]:
    """The message for programs: title, text and link, and the whole report as `gpucost report --format json` has it."""
    return {
        "schema": SCHEMA,
        "title": message.title,
        "text": as_text(message),
        "link": message.link,
        "report": json.loads(to_json(view)),
    }


def _render(template: str, message: Message, *, autoescape: bool, finalize: Any = None) -> str:
    environment = Environment(
        loader=FileSystemLoader(reports_dir()),
        undefined=StrictUndefined,
        autoescape=autoescape,  # noqa: S701 - plain text is the one without
        finalize=finalize,
        keep_trailing_newline=True,
    )
    environment.filters |= {"left": str.ljust, "right": str.rjust}
    return environment.get_template(template).render(
        message=message,
        width=max((len(label) for label, *_ in message.figures), default=0),
        name_width=max((len(name) for name, *_ in message.lines), default=0),
        value_width=max((len(value) for _, value, _ in message.lines), default=0),
    )


def _mrkdwn(value: object) -> object:
    """What a template prints: without what Slack reads as a link, a mention, or the end of a code block."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return Markup(_escaped(value).replace("`", "'"))  # noqa: S704 - this is the escaping


def _escaped(text: str) -> str:
    # https://docs.slack.dev/messaging/formatting-message-text: these three, and no others
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _parts(body: str) -> list[str]:
    """`body` in pieces that Slack takes, cut between lines; a code block that is cut goes on as one."""
    parts: list[str] = []
    lines: list[str] = []
    size, in_code = 0, False
    for line in body.split("\n"):
        if size + len(line) + 8 > _SLACK_SECTION and lines:
            parts.append("\n".join([*lines, *(["```"] if in_code else [])]))
            lines, size = (["```"], 4) if in_code else ([], 0)
        lines.append(line)
        size += len(line) + 1
        in_code ^= line == "```"
    return [*parts, "\n".join(lines)]
