"""`gpucost notify slack`: the summary of a report to Slack."""

from __future__ import annotations

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, note, put
from gpucost.cli._notify import TOP, DryRunOption, LastMonthOption, LinkOption, TeamOption, TopOption, summary
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption


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

    from gpucost.notify.http import send_to_slack
    from gpucost.notify.render import as_slack

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
