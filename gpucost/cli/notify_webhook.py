"""`gpucost notify webhook`: the summary of a report to any server that takes JSON."""

from __future__ import annotations

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, note, put
from gpucost.cli._notify import TOP, DryRunOption, LastMonthOption, LinkOption, TeamOption, TopOption, summary
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption


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

    from gpucost.notify.http import send_to_webhook
    from gpucost.notify.render import as_json

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
