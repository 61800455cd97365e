"""`gpucost findings`: what to do about waste, ranked by money a month."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._common import (
    ConfigOption,
    QuietOption,
    StoreOption,
    VerboseOption,
    handle_errors,
    load,
    output_file,
    put_or_write,
)
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption, chosen_period
from gpucost.cli._rows import FLAT, FormatOption, OutputOption, RowFormat, write_rows
from gpucost.cli._strict import note_gaps
from gpucost.cli._whatif_options import decimal_number

if TYPE_CHECKING:
    from gpucost.findings import Findings
    from gpucost.model import Period

SCHEMA = "gpucost.findings/1"


@handle_errors
def findings(
    team: Annotated[list[str] | None, typer.Option("--team", metavar="NAME", help="Only this team's; repeatable.")] = None,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", metavar="NAME", help="Only this namespace's; repeatable.")
    ] = None,
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    minimum: Annotated[
        Decimal | None,
        typer.Option(
            "--minimum",
            metavar="MONEY",
            parser=decimal_number(),
            help="Leave out what saves less a month. Default: [findings] minimum_per_month.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[int | None, typer.Option("--top", min=1, help="Only the dearest; without it all.", show_default=False)] = None,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say what to do about waste, the dearest first: what, who, evidence, saving, and the command that shows it.

    Each finding's saving is what its `gpucost whatif` command answers on the same store. No GPU-hour's waste is in two findings.
    docs/findings.md tells the kinds, and the order in which they lay claim to GPU-hours.

    Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost findings
      gpucost findings --month 2026-10 --top 5
      gpucost findings --team research --minimum 500
      gpucost findings --last 30d --format json
    """
    from datetime import UTC, datetime

    from gpucost.cli import _findings as shown

    target = output_file(output)
    settings, opened = load(config, store)
    if minimum is not None:
        settings = settings.model_copy(update={"findings": settings.findings.model_copy(update={"minimum_per_month": minimum})})
    now = datetime.now(UTC)
    period, name, _ = chosen_period(opened, settings.tz, now, month=month, start=start, end=end, last=last)
    found = shown.narrowed(shown.found(settings, opened, period), team or (), namespace or ())
    note_gaps(settings, opened, period, quiet=quiet)
    title = f"Findings: {', '.join((*(team or ()), *(namespace or ()), name))}"
    if format in FLAT:
        write_rows(shown.columns(), shown.rows(found, top), format, target)
        return
    if format is RowFormat.json:
        written = _json(found, period, settings.currency, top)
    else:
        write = shown.markdown if format is RowFormat.markdown else shown.text
        written = write(found, title, settings.currency, top)
    put_or_write(written, target)


def _json(found: Findings, period: Period, currency: str, top: int | None) -> str:
    import json

    from gpucost.cli._findings import as_dict
    from gpucost.model import iso
    from gpucost.report.render_data import number

    head = {"schema": SCHEMA, "from": iso(period.start), "to": iso(period.end), "currency": currency}
    return json.dumps(head | as_dict(found, top), indent=2, ensure_ascii=False, default=number) + "\n"
