"""`gpucost notify`: send the summary of a report."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from gpucost.cli.command import Call, command
from gpucost.cli.output import print_text
from gpucost.errors import UsageError
from gpucost.options import Option, PeriodOptions, TeamOption, count
from gpucost.periods import previous_month
from gpucost.records import mixin_dataclass
from gpucost.texts import readable_json, visible

if TYPE_CHECKING:
    from gpucost.publish.notify import Message


@mixin_dataclass
class NotifyCall(TeamOption, PeriodOptions, Call):
    """A command that sends the summary of a report."""

    last_month: Annotated[bool, Option("The last complete month, as in gpucost chargeback.")] = False
    link: Annotated[str | None, Option("Link to the full report (default: [notify] link).", "URL")] = None
    top: Annotated[int, count("Number of teams, or of a team's namespaces, to list.", most=100)] = 5
    dry_run: Annotated[bool, Option("Print the message without sending it.")] = False


def summary(call: NotifyCall) -> Message:
    """The message about the requested period, otherwise the default period of gpucost report."""
    from gpucost.config.model import is_link
    from gpucost.publish.notify import message_of

    link = call.link
    if link is not None and not is_link(link):
        raise UsageError(
            f"invalid --link {link!r}", "use a URL that begins with http:// or https://, without blanks"
        )
    if call.last_month:
        if call.month or call.start or call.end or call.last:
            raise UsageError("--last-month and another period exclude each other", "give one of them")
        month = previous_month(call.now, call.tz).start.astimezone(call.tz)
        call = replace(call, month=f"{month:%Y-%m}")
    return message_of(call.report(), link or call.settings.notify.link, call.top)


@command()
def notify_email(call: NotifyCall) -> None:
    """Send the summary of a report by mail.

    The mail has a text and an HTML part. [notify.email] contains the server, the addresses and the source of the password.
    Default period: as in gpucost report. Exit code 1 if sending fails.

    \b
    Examples:
      gpucost notify email --dry-run
      gpucost notify email --last-month --link https://reports.example.com/gpu
      gpucost notify email --team research --last 7d
    """
    from gpucost.publish.notify import as_html, as_text, mail, send_mail

    server = call.settings.notify.email
    message = summary(call)
    letter = mail(server, message.title, as_text(message), as_html(message))
    if call.dry_run:
        head = visible(f"To: {letter['To']}\nFrom: {letter['From']}\nSubject: {message.title}")
        print_text(f"{head}\n\n{as_text(message)}", nl=False)
        return
    send_mail(server, letter)
    call.note(f"{message.title}: sent to {letter['To']}")


@command()
def notify_slack(call: NotifyCall) -> None:
    """Send the summary of a report to Slack.

    The webhook's URL is a secret: [notify.slack] names the file or environment variable that contains it.
    Default period: as in gpucost report. Exit code 1 if sending fails.

    \b
    Examples:
      gpucost notify slack --dry-run
      gpucost notify slack --last-month --link https://reports.example.com/gpu
      gpucost notify slack --team research --last 7d
    """
    from gpucost.publish.notify import as_slack, send_to_slack

    message = summary(call)
    body = as_slack(message)
    if call.dry_run:
        print_text(readable_json(body, indent=2))
        return
    send_to_slack(call.settings.notify.slack, body)
    call.note(f"{message.title}: sent to Slack")
