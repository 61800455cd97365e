"""`gpucost prices`: what a GPU costs where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.cli._common import (
    ConfigOption,
    QuietOption,
    StoreOption,
    VerboseOption,
    handle_errors,
    load,
    note,
    output_file,
    put_or_write,
)
from gpucost.cli._rows import FLAT, FormatOption, OutputOption, RowFormat, write_rows

if TYPE_CHECKING:
    from datetime import date
    from zoneinfo import ZoneInfo

    from duckdb import DuckDBPyConnection

    from gpucost.store import Store


class PurchaseOption(StrEnum):
    """How a price is bought."""

    on_demand = "on_demand"
    spot = "spot"
    reserved = "reserved"
    savings_plan = "savings_plan"
    cud = "cud"
    capacity_block = "capacity_block"
    flex_start = "flex_start"
    calendar = "calendar"


@handle_errors
def prices(
    name: Annotated[
        str | None,
        typer.Argument(metavar="GPU or INSTANCE", help="GPU model in any spelling, or instance type.", show_default=False),
    ] = None,
    provider: Annotated[
        list[str] | None,
        typer.Option("--provider", metavar="NAME", help="Only this cloud, such as aws; repeatable.", show_default=False),
    ] = None,
    region: Annotated[
        list[str] | None,
        typer.Option(
            "--region",
            metavar="NAME",
            help="Only this region, with every zone; repeatable; may hold * and ?.",
            show_default=False,
        ),
    ] = None,
    all_regions: Annotated[
        bool, typer.Option("--all-regions", help="Every region and zone, not only the cheapest of each price.")
    ] = False,
    purchase_option: Annotated[
        list[PurchaseOption] | None,
        typer.Option(
            "--purchase-option",
            metavar="OPTION",
            help=f"Only {', '.join(PurchaseOption)}; repeatable.",
            show_default=False,
        ),
    ] = None,
    superseded: Annotated[
        bool, typer.Option("--superseded", help="Also the prices that newer ones replaced; JSON always has them.")
    ] = False,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Say what a GPU costs where, cheapest GPU-hour first.

    List prices of the catalog inside gpucost and of the store (gpucost collect prices), and the newest spot prices (gpucost
    collect spot), as they hold today. Your own price book, discounts and bills are not in it. Without a name: every GPU
    model, with its cheapest price on demand and as spot. With one: the cheapest region of every price. H100 means all H100
    models.

    \b
    Examples:
      gpucost prices
      gpucost prices H100
      gpucost prices p5.48xlarge --region us-east-1
      gpucost prices "A100 80GB" --all-regions --purchase-option spot --format csv -o a100.csv
    """
    from gpucost.cli import _prices_rows
    from gpucost.cli._fit import left_out, line_width
    from gpucost.price.fx import rates
    from gpucost.price.listing import Asked, listing, overview

    target = output_file(output)
    settings, opened = load(config, store)
    if name is None and (all_regions or superseded):
        from gpucost.errors import UsageError

        option = "--all-regions" if all_regions else "--superseded"
        raise UsageError(f"{option} needs a GPU or an instance type", f"for example: gpucost prices H100 {option}")
    asked = Asked(
        today=_today(settings.tz),
        currency=settings.currency,
        stale_after_days=settings.prices.stale_after_days,
        providers=tuple(provider or ()),
        regions=tuple(region or ()),
        purchase_options=tuple(option.value for option in purchase_option or ()),
        all_regions=all_regions,
    )
    fx = rates(settings)
    with _tables(opened) as con:
        answer = overview(con, asked, fx) if name is None else listing(con, name, asked, fx)
    if format is RowFormat.json:
        text = _prices_rows.to_json(answer)
        put_or_write(text, target)
        return
    width = line_width(target) if format is RowFormat.table else None
    columns, rows = _prices_rows.to_rows(answer, whole=format in FLAT, superseded=superseded, width=width)
    write_rows(columns, rows, format, target)
    remarks = _prices_rows.remarks(answer)
    if width is not None:
        every, _ = _prices_rows.to_rows(answer, whole=False, superseded=superseded)
        # without a name a narrow table has the same in other columns, but for the source
        remarks += filter(None, [left_out(every if name is not None else every[-1:], columns)])
    for remark in remarks:
        note(remark, quiet=quiet)


@contextmanager
def _tables(store: Store) -> Iterator[DuckDBPyConnection]:
    """The store's tables; empty ones where there is no store: the catalog answers without one."""
    from gpucost.store.scratch import scratch_store

    with store.read() if store.exists else scratch_store() as con:
        yield con


def _today(tz: ZoneInfo) -> date:
    from datetime import datetime

    return datetime.now(tz).date()
