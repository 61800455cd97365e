"""The history of an instance type's spot price."""

from typing import Annotated

from gpucost.options import Option, argument
from gpucost.periods import iso, to_ms
from gpucost.price.history import PriceHistory, ZoneHistory, history
from gpucost.questions.prices import price_column
from gpucost.questions.request import SpanRequest, with_notes
from gpucost.records import grouped
from gpucost.render.schema import table, to_dict
from gpucost.render.view import Document, Table, column_of, count, number, text

_STEPS_SHOWN = 20


def prices_history(
    request: SpanRequest,
    instance: Annotated[str, argument("INSTANCE", "Instance type, such as p3.2xlarge.")],
    zone: Annotated[str | None, Option("Only this zone.", "ZONE")] = None,
    region: Annotated[str | None, Option("Only this region's zones.", "REGION")] = None,
    product: Annotated[
        str | None, Option("Product as EC2 names it, such as Windows. Default: Linux.", "NAME")
    ] = None,
) -> Document:
    """Show the history of an instance type's spot price: time-weighted mean, lowest, highest, and each step.

    Prices come from gpucost collect spot. A price is valid until the next change, also across the edges of the period, but at
    most prices.stale_after_days after the end of the collected time. The mean is over the hours with a known price. A change is
    a different price inside the period. CSV has one row for each zone; JSON has the steps. Default period: all stored prices.

    \b
    Examples:
      gpucost prices history p3.2xlarge --zone us-east-1c --from 2020-02-01 --to 2020-03-01
      gpucost prices history p5.48xlarge --region us-east-1 --from 2026-10-01
      gpucost prices history p3.2xlarge --zone us-east-1c --format json
    """
    period = request.explicit_period
    which = {"instance_type": instance, "zone": zone, "region": region, "product": product}
    days = request.settings.prices.stale_after_days
    with request.store.read() as con:
        zones = history(con, which, period, to_ms(request.now), days)
    places = grouped((note, zone_history.place) for zone_history in zones for note in zone_history.notes)
    notes = [f"{', '.join(where)}: {note}" for note, where in places.items()]
    first, alone = zones[0], zones[0] if len(zones) == 1 else None
    columns = [name for name in to_dict(first) if name not in ("steps", "notes")]
    where = f" in {first.place}, {first.product}" if alone else ""
    document = Document(
        title=f"{first.instance_type}{where}, spot",
        subtitle=f"{iso(first.start)} to {iso(first.end)}",
        currency=first.currency,
        sections=(_zones_table(zones), *([_steps(alone)] if alone and alone.steps else [])),
        name="prices.history",
        data=PriceHistory(first.instance_type, first.start, first.end, alone, zones),
        flat=table(zones, columns),
        whole_in="json",
    )
    return with_notes(request, document, notes)


def _steps(zone: ZoneHistory) -> Table:
    columns = (
        text(lambda step: iso(step.start), "From"),
        column_of("price_per_hour", "Per hour", unit="price", decimals=6),
    )
    note = None
    if len(zone.steps) > _STEPS_SHOWN:
        note = f"the last {_STEPS_SHOWN} of {len(zone.steps):,} steps; --format json has all"
    return Table.of("Steps", zone.steps[-_STEPS_SHOWN:], columns, note=note)


def _zones_table(zones: list[ZoneHistory]) -> Table:
    columns = [
        text("place", "Zone"),
        price_column("mean_price_per_hour", "Mean", 6),
        price_column("min_price_per_hour", "Lowest", 6),
        price_column("max_price_per_hour", "Highest", 6),
        count("changes", weight=2),
        column_of("discount", unit="ratio", weight=1),
        text("product", weight=4),
        price_column("on_demand_price_per_hour", "On demand", 6, weight=4),
        text(lambda zone: f"{zone.on_demand_price_as_of or ''}", "On demand as of", weight=4),
        number("covered_hours", "Hours known", weight=4),
    ]
    ranked = sorted(
        zones,
        key=lambda zone: (zone.mean_price_per_hour is None, zone.mean_price_per_hour or 0, zone.zone or ""),
    )
    return Table.of("Price per hour", ranked, columns)
