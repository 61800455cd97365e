"""What the commands of `gpucost notify` share: which report they sum up, and their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli.command import (
    ConfigOption,
    FromOption,
    LastOption,
    MonthOption,
    QuietOption,
    StoreOption,
    ToOption,
    VerboseOption,
    handle_errors,
    load,
    note,
    put,
)
from gpucost.errors import UsageError

if TYPE_CHECKING:
    from gpucost.config.model import Config
    from gpucost.publish.notify import Message
    from gpucost.render.view import ReportView
    from gpucost.store.connection import Store

TeamOption = Annotated[
    list[str] | None, typer.Option("--team", metavar="NAME", help="Only this team; repeatable.", show_default=False)
]
LinkOption = Annotated[
    str | None,
    typer.Option("--link", metavar="URL", help="Link to the whole report; else [notify] link.", show_default=False),
]
TopOption = Annotated[int, typer.Option("--top", min=0, max=100, help="How many teams, or a team's namespaces, to list.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print what would be sent, and send nothing.")]

LastMonthOption = Annotated[
    bool, typer.Option("--last-month", help="The last month that is over, as gpucost chargeback takes it.")
]

TOP = 5


def summary(
    config: Config,
    store: Store,
    *,
    teams: list[str] | None,
    month: str | None,
    start: str | None,
    end: str | None,
    last: str | None,
    last_month: bool,
    link: str | None,
    top: int,
) -> tuple[Message, ReportView]:
    """The message, and the report it sums up: of the period that the options mean, else the one that gpucost report takes."""
    from datetime import UTC, datetime, timedelta

    from gpucost import pipeline
    from gpucost.cli.command import chosen_period
    from gpucost.config.model import is_link
    from gpucost.publish.notify import message_of
    from gpucost.report import Query

    if link is not None and not is_link(link):
        raise UsageError(f"--link {link!r} is no link", "give a URL that begins with http:// or https://, without blanks")
    now = datetime.now(UTC)
    if last_month:
        if month or start or end or last:
            raise UsageError("--last-month and another period exclude each other", "give one of them")
        month = f"{now.astimezone(config.tz).date().replace(day=1) - timedelta(days=1):%Y-%m}"
    period, name, why = chosen_period(store, config.tz, now, month=month, start=start, end=end, last=last)
    query = Query(period=period, period_name=name, teams=tuple(teams or ()), period_note=why, now=now, with_sections=False)
    view = pipeline.report(config, store, query)
    return message_of(view, config, link or config.notify.link, top), view


@handle_errors
def notify_email(
    team: TeamOption = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    last_month: LastMonthOption = False,
    link: LinkOption = None,
    top: TopOption = TOP,
    dry_run: DryRunOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Send the summary of a report by mail.

    As text and as HTML. Server, addresses and the way to the password stand under [notify.email].
    Without a period: the month that gpucost report takes. A failure to send ends with exit code 1.

    \b
    Examples:
      gpucost notify email --dry-run
      gpucost notify email --last-month --link https://reports.example.com/gpu
      gpucost notify email --team research --last 7d
    """
    from gpucost.publish.notify import as_html, as_text, mail, send_mail

    settings, opened = load(config, store)
    message, _ = summary(
        settings, opened, teams=team, month=month, start=start, end=end, last=last, last_month=last_month, link=link, top=top
    )
    made = mail(settings.notify.email, message.title, as_text(message), as_html(message))
    if dry_run:
        put(f"To: {made['To']}\nFrom: {made['From']}\nSubject: {message.title}\n\n{as_text(message)}", nl=False)
        return
    send_mail(settings.notify.email, made)
    note(f"{message.title}: sent to {made['To']}", quiet=quiet)


@handle_errors
def notify_slack(
    team: TeamOption = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    last_month: LastMonthOption = False,
    link: LinkOption = None,
    top: TopOption = TOP,
    dry_run: DryRunOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Send the summary of a report to Slack.

    The webhook's URL is a secret: [notify.slack] names the file or the variable that holds it.
    Without a period: the month that gpucost report takes. A failure to send ends with exit code 1.

    \b
    Examples:
      gpucost notify slack --dry-run
      gpucost notify slack --last-month --link https://reports.example.com/gpu
      gpucost notify slack --team research --last 7d
    """
    import json

    from gpucost.publish.notify import as_slack, send_to_slack

    settings, opened = load(config, store)
    message, _ = summary(
        settings, opened, teams=team, month=month, start=start, end=end, last=last, last_month=last_month, link=link, top=top
    )
    body = as_slack(message)
    if dry_run:
        put(json.dumps(body, indent=2, ensure_ascii=False))
        return
    send_to_slack(settings.notify.slack, body)
    note(f"{message.title}: sent to Slack", quiet=quiet)


@handle_errors
def notify_webhook(
    team: TeamOption = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    last_month: LastMonthOption = False,
    link: LinkOption = None,
    top: TopOption = TOP,
    dry_run: DryRunOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Send the summary of a report, and the report itself, to a server that takes JSON.

    The body holds schema, title, text, link, and report as `gpucost report --format json` writes it. The server, and secret
    headers, stand under [notify.webhook].
    Without a period: the month that gpucost report takes. A failure to send ends with exit code 1.

    \b
    Examples:
      gpucost notify webhook --dry-run
      gpucost notify webhook --last-month --link https://reports.example.com/gpu
      gpucost notify webhook --team research --last 7d
    """
    import json

    from gpucost.publish.notify import as_json, send_to_webhook

    settings, opened = load(config, store)
    message, view = summary(
        settings, opened, teams=team, month=month, start=start, end=end, last=last, last_month=last_month, link=link, top=top
    )
    body = as_json(message, view)
    if dry_run:
        put(json.dumps(body, indent=2, ensure_ascii=False))
        return
    send_to_webhook(settings.notify.webhook, body)
    note(f"{message.title}: sent to the webhook", quiet=quiet)
