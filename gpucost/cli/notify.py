"""`gpucost notify`: send the summary of a report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli.command import Call, command
from gpucost.cli.output import print_error, print_text
from gpucost.errors import GpucostError, UsageError
from gpucost.options import Option, PeriodOptions, TeamOption, WorkloadSelection, count
from gpucost.periods import previous_month
from gpucost.records import mixin_dataclass
from gpucost.texts import is_link, readable_json, visible

if TYPE_CHECKING:
    from gpucost.config.model import Owner
    from gpucost.publish.notify import Message


@mixin_dataclass
class NotifyCall(TeamOption, PeriodOptions, Call):
    """A command that sends the summary of a report."""

    last_month: Annotated[bool, Option("The last complete month, as in gpucost chargeback.")] = False
    link: Annotated[str | None, Option("Link to the full report (default: [notify] link).", "URL")] = None
    top: Annotated[int, count("Number of teams, or of a team's namespaces, to list.", most=100)] = 5
    dry_run: Annotated[bool, Option("Print the messages without sending them.")] = False


def send_all(
    call: NotifyCall, reaches: Callable[[Owner | None], object], send: Callable[[Message, Owner | None], None]
) -> None:
    """Send the messages of the request, each to its owner; None is the channel's own recipient.

    Exits with 1 if one of several could not be sent.
    """
    from gpucost.publish.notify import addressed, message_of
    from gpucost.questions.findings import read_findings

    call = _checked(call)
    settings = call.settings
    with call.status() as show_progress:
        findings = read_findings(settings, call.store, call.period, show_progress)
    recipients = addressed(settings, call.teams, reaches)
    failed = False
    for teams, owner in recipients:
        try:
            view = replace(call, teams=teams).report()
            savings = findings.narrowed(WorkloadSelection(teams=teams))
            send(message_of(view, savings, call.link or settings.notify.link, call.top), owner)
        except GpucostError as error:
            if len(recipients) == 1:
                raise
            failed = True
            print_error(error.message, error.fix)
    if failed:
        raise typer.Exit(1)


def _checked(call: NotifyCall) -> NotifyCall:
    """The call with the month of --last-month. Raises UsageError for an invalid link, or another period."""
    if call.link is not None and not is_link(call.link):
        raise UsageError(
            f"invalid --link {call.link!r}", "use a URL that begins with http:// or https://, without blanks"
        )
    if not call.last_month:
        return call
    if call.month or call.start or call.end or call.last:
        raise UsageError("--last-month and another period exclude each other", "give one of them")
    month = previous_month(call.now, call.tz).start.astimezone(call.tz)
    return replace(call, month=f"{month:%Y-%m}", last_month=False)


@command()
def notify_email(call: NotifyCall) -> None:
    """Send the summary of a report by mail.

    The mail has a text and an HTML part. [notify.email] contains the server, the addresses and the source of the password.
    [[notify.teams]] contains the owners of teams: each gets the message on that team.
    Default period: as in gpucost report. Exit code 1 if sending fails.

    \b
    Examples:
      gpucost notify email --dry-run
      gpucost notify email --last-month --link https://reports.example.com/gpu
      gpucost notify email --team research --last 7d
    """
    from gpucost.publish.notify import as_html, as_text, mail, send_mail

    server = call.settings.notify.email

    def send(message: Message, owner: Owner | None) -> None:
        """Send or print the mail."""
        addressed = server.model_copy(update={"recipients": (owner or server).recipients})
        letter = mail(addressed, message.title, as_text(message), as_html(message))
        if call.dry_run:
            head = visible(f"To: {letter['To']}\nFrom: {letter['From']}\nSubject: {message.title}")
            print_text(f"{head}\n\n{as_text(message)}", nl=False)
            return
        send_mail(addressed, letter)
        call.note(f"{message.title}: sent to {letter['To']}")

    send_all(call, lambda owner: (owner or server).recipients, send)


@command()
def notify_slack(call: NotifyCall) -> None:
    """Send the summary of a report to Slack.

    The webhook's URL is a secret: [notify.slack] names the file or environment variable that contains it.
    [[notify.teams]] contains the webhooks of teams' owners: each gets the message on that team.
    Default period: as in gpucost report. Exit code 1 if sending fails.

    \b
    Examples:
      gpucost notify slack --dry-run
      gpucost notify slack --last-month --link https://reports.example.com/gpu
      gpucost notify slack --team research --last 7d
    """
    from gpucost.publish.notify import as_slack, send_to_slack

    general = call.settings.notify.slack

    def send(message: Message, owner: Owner | None) -> None:
        """Post or print the message."""
        body = as_slack(message)
        if call.dry_run:
            print_text(readable_json(body, indent=2))
            return
        send_to_slack(owner or general, body, "notify.teams" if owner else "notify.slack")
        call.note(f"{message.title}: sent to Slack")

    def reaches(owner: Owner | None) -> bool:
        """Whether the owner has a webhook."""
        hook = owner or general
        return bool(hook.webhook_url_file or hook.webhook_url_env)

    send_all(call, reaches, send)
