"""What the commands of `gpucost notify` share: which report they sum up, and their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.errors import UsageError

if TYPE_CHECKING:
    from gpucost.config import Config
    from gpucost.notify.message import Message
    from gpucost.report import ReportView
    from gpucost.store import Store

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
    from gpucost.cli._periods import chosen_period
    from gpucost.config.alerts import is_link
    from gpucost.notify.message import message_of
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
