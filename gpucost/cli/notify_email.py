"""`gpucost notify email`: the summary of a report to people's mail."""

from __future__ import annotations

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, note, put
from gpucost.cli._notify import TOP, DryRunOption, LastMonthOption, LinkOption, TeamOption, TopOption, summary
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption


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
    from gpucost.notify.mail import mail, send_mail
    from gpucost.notify.render import as_html, as_text

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
