"""Composes the price of a Google Cloud machine from the prices of its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from gpucost.collect.prices.gcp_skus import MEGA, Unit, UnitPrice
from gpucost.collect.prices.known import KnownType, known_types
from gpucost.store.list_prices import ComponentPrice, ListPrice

SOURCE = "gcp cloudbilling list_skus"

_FAMILIES = {"a3-megagpu": "a3plus", "a3-ultragpu": "a3ultra"}
_BOUGHT = (("on_demand", 0), ("spot", 0), ("cud", 1), ("cud", 3))
# GPUs are attached to N1 machines of any size: their parts are kept, though the catalog holds no such machine.
_BESIDE = {"n1"}

Units = Mapping[str, Mapping[Unit, UnitPrice]]


def by_region(found: Iterable[UnitPrice]) -> Units:
    """The unit prices of each region. Of two for one unit the one that began last counts, and of those the dearer."""
    regions: dict[str, dict[Unit, UnitPrice]] = {}
    for price in found:
        for region in price.regions:
            units = regions.setdefault(region, {})
            had = units.get(price.unit)
            if had is None or _rank(price) > _rank(had):
                units[price.unit] = price
    return regions


def machine_prices(region: str, units: Mapping[Unit, UnitPrice]) -> Iterator[ListPrice]:
    """What each machine of the catalog costs in a region. One of whose parts is not sold there has no price there."""
    for machine in known_types("gcp").values():
        for option, term in _BOUGHT:
            parts = list(_parts(machine, option, term, units))
            if not parts or any(price is None for _, price in parts):
                continue
            priced = [(amount, price) for amount, price in parts if price is not None]
            starts = [price.effective_start for _, price in priced if price.effective_start]
            yield ListPrice(
                region=region,
                instance_type=machine.instance_type,
                purchase_option=option,
                term_years=term,
                payment_option="no_upfront" if option == "cud" else "",
                price_per_hour=sum((amount * price.price_per_hour for amount, price in priced), Decimal(0)),
                currency=priced[0][1].currency,
                effective_start=max(starts, default=None),
                source=SOURCE,
            )


def component_prices(region: str, units: Mapping[Unit, UnitPrice]) -> Iterator[ComponentPrice]:
    """What the parts of machines with GPUs cost in a region; none where no GPU is sold there."""
    if not any(unit.part == "gpu" for unit in units):
        return
    families = {family_of(name) for name in known_types("gcp")} | _BESIDE
    for unit, price in units.items():
        if unit.part in ("gpu", "local_ssd_gib") or unit.of in families:
            yield ComponentPrice(
                region=region,
                component=unit.component,
                purchase_option=unit.purchase_option,
                term_years=unit.term_years,
                price_per_hour=price.price_per_hour,
                currency=price.currency,
                source=SOURCE,
            )


def family_of(machine: str) -> str:
    """What the SKUs of a machine's vCPUs and memory call its family: A3 Mega is A3Plus."""
    first, second = machine.split("-")[:2]
    return _FAMILIES.get(f"{first}-{second}", first)


def _parts(
    machine: KnownType, option: str, term: int, units: Mapping[Unit, UnitPrice]
) -> Iterator[tuple[Decimal, UnitPrice | None]]:
    """How much of which part a machine is made of; None where a part is not sold that way."""
    family = family_of(machine.instance_type)
    gpu = units.get(Unit("gpu", machine.gpu_model + (MEGA if family == "a3plus" else ""), option, term))
    yield machine.gpu_count, gpu
    if gpu is not None and gpu.whole:
        return
    yield machine.vcpus, units.get(Unit("cpu", family, option, term))
    yield machine.memory_gib, units.get(Unit("memory_gib", family, option, term))
    if machine.local_ssd_gib:
        yield machine.local_ssd_gib, units.get(Unit("local_ssd_gib", "", option, term))


def _rank(price: UnitPrice) -> tuple[str, Decimal]:
    return (price.effective_start.isoformat() if price.effective_start else "", price.price_per_hour)
