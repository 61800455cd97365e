"""The price of an own node per hour, part by part. Decimal throughout: the price is the exact sum of the parts shown."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from gpucost.price.onprem.inputs import Inputs

HOURS_PER_YEAR = 8760
HOURS_PER_MONTH = 730  # HOURS_PER_YEAR / 12

_KEPT = Decimal("1e-9")


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the price, and in words what it was reckoned from."""

    name: str
    price_per_hour: Decimal
    basis: str


@dataclass(frozen=True, slots=True)
class Tco:
    """Prices per hour in the inputs' currency, 9 decimals; that of a GPU in use is None where no utilization was given."""

    inputs: Inputs
    parts: tuple[Part, ...]
    gpu_watts: Decimal
    gpu_watts_source: str  # 'given', or 'tdp' for the model's rated power
    node_watts: Decimal  # without the site's overhead
    price_per_hour: Decimal  # of the node, in use or not
    price_per_gpu_hour: Decimal
    price_per_utilized_gpu_hour: Decimal | None


def tco(inputs: Inputs, tdp_watts: Decimal | None) -> Tco:
    """The price of a node-hour, and of a GPU-hour over all hours and over those in use.

    Straight-line depreciation to the residual value (IAS 16.62), spread over all hours of the years; a year is 8,760 hours,
    a month 730. Power of the site is power of its machines × PUE (ISO/IEC 30134-2). `tdp_watts` is the model's rated power:
    it stands in for gpu_watts, and colocation, which is contracted by rated power, counts at least it. At least one of the
    two must be known.
    """
    watts = inputs.gpu_watts if inputs.gpu_watts is not None else tdp_watts
    if watts is None:
        raise ValueError("neither gpu_watts nor the model's rated power is known")
    other, pue = inputs.other_watts or Decimal(0), inputs.pue or Decimal(1)
    node_watts = inputs.gpus_per_node * watts + other
    rated_kw = (inputs.gpus_per_node * max(watts, tdp_watts or watts) + other) / 1000
    hours = inputs.years * HOURS_PER_YEAR
    residual = inputs.residual_percent or Decimal(0)
    maintenance = inputs.maintenance_percent_per_year or Decimal(0)
    network, staff = inputs.network_per_node or Decimal(0), inputs.staff_per_year or Decimal(0)
    colocation, nodes = inputs.colocation_per_kw_month or Decimal(0), inputs.staff_nodes or Decimal(1)
    parts = (
        _part(
            "depreciation",
            inputs.purchase_price * (100 - residual) / 100 / hours,
            f"{_n(inputs.purchase_price)} less {_n(residual)} % over {_n(inputs.years)} years",
        ),
        _part(
            "maintenance",
            inputs.purchase_price * maintenance / 100 / HOURS_PER_YEAR,
            f"{_n(maintenance)} % of {_n(inputs.purchase_price)} a year",
        ),
        _part("network", network / hours, f"{_n(network)} over {_n(inputs.years)} years"),
        _part(
            "power",
            node_watts / 1000 * pue * inputs.price_per_kwh,
            f"{_n(node_watts)} W × PUE {_n(pue)} × {_n(inputs.price_per_kwh)} per kWh",
        ),
        _part("colocation", rated_kw * colocation / HOURS_PER_MONTH, f"{_n(rated_kw)} kW × {_n(colocation)} a month"),
        _part("staff", staff / nodes / HOURS_PER_YEAR, f"{_n(staff)} a year for {_n(nodes)} nodes" if staff else "0 a year"),
    )
    total = sum((part.price_per_hour for part in parts), Decimal(0))
    in_use = inputs.utilization_percent
    return Tco(
        inputs=inputs,
        parts=parts,
        gpu_watts=watts,
        gpu_watts_source="given" if inputs.gpu_watts is not None else "tdp",
        node_watts=node_watts,
        price_per_hour=total,
        price_per_gpu_hour=_kept(total / inputs.gpus_per_node),
        price_per_utilized_gpu_hour=_kept(total / inputs.gpus_per_node * 100 / in_use) if in_use is not None else None,
    )


def _part(name: str, price: Decimal, basis: str) -> Part:
    return Part(name, _kept(price), basis)


def _kept(price: Decimal) -> Decimal:
    return price.quantize(_KEPT)


def _n(number: Decimal) -> str:
    """Thousands separated, without zeros at the end."""
    return f"{number.normalize():,f}"
