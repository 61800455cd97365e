"""Google Cloud list prices: every SKU of Compute Engine, and the machines' components."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.clouds import GRPC_NO_LOGIN, google_in_words, google_login, is_loopback
from gpucost.collect.prices.base import (
    CatalogType,
    PriceCollector,
    again,
    gpu_model,
    newest,
    types_in_catalog,
    without_duplicates,
)
from gpucost.errors import SourceError
from gpucost.records import frozen_dataclass
from gpucost.store.prices import ComponentPrice, ListPrice, ProviderPrices

if TYPE_CHECKING:
    from google.cloud.billing_v1 import CloudCatalogClient
    from google.cloud.billing_v1.types import PricingExpression, Sku

HOURS_PER_MONTH = 730  # Google's month: a twelfth of a year of 8,760 hours

# SKUs of other products: other shapes, other tenancies, future reservations, surcharges, suspended machines.
_OTHERWISE = re.compile(
    r"custom|sole tenancy|\bDWS\b|defined duration|calendar mode|^reserved |premium|extended|capacity optimized"
    r"|suspended|vm state",
    re.IGNORECASE,
)
_TERMS = {"Commit1Yr": 1, "Commit3Yr": 3}
_COMMITMENT = re.compile(r"^commitment(?: v\d+)?: ", re.IGNORECASE)
_SPOT = re.compile(r"^(?:spot )?preemptible |^spot | attached to (?:spot|preemptible)\b.*", re.IGNORECASE)
_PLACE = re.compile(r" (?:running )?in .*$| for \d years?.*$", re.IGNORECASE)
_PART = re.compile(r"^(?:(?P<family>.*?) ?)(?:instance )?(?P<part>core|cpu|ram)$", re.IGNORECASE)
_WORDS_OF_FAMILIES = re.compile(r" (?:predefined|amd|arm|intel)$", re.IGNORECASE)

# GPUs with names that only Google uses. "Plus" and "Mega" are the GPUs of A3 Mega machines, which have their
# own price.
_GPUS = {"rtx 6000 96gb": "RTX-PRO-6000"}
_MEGA = re.compile(r"\b(?:mega|plus)\b", re.IGNORECASE)
MEGA = "-Mega"


@frozen_dataclass
class PriceUnit:
    """A vCPU, GiB or GPU and its purchase option: the key of a unit price within a region.

    `part` is 'cpu', 'memory_gib', 'gpu' or 'local_ssd_gib'; `owner` is the machine family ('a2', 'a3plus') or
    the GPU model.
    """

    part: str
    owner: str
    purchase_option: str = "on_demand"
    term_years: int = 0

    @property
    def component(self) -> str:
        """The name of the component in component_prices."""
        if self.part == "local_ssd_gib":
            return self.part
        return f"gpu/{self.owner}" if self.part == "gpu" else f"{self.owner}/{self.part}"


@frozen_dataclass
class UnitPrice:
    """The hourly price of a unit in each of `regions`. `whole` if it covers its share of the whole machine."""

    unit: PriceUnit
    regions: tuple[str, ...]
    price_per_hour: Decimal
    currency: str
    effective_start: date | None
    whole: bool = False


def unit_price(sku: Sku) -> UnitPrice | None:
    """The machine part that a SKU prices; None for any other SKU."""
    words = sku.description
    if _OTHERWISE.search(words) or not sku.pricing_info:
        return None
    option, term = _bought(sku.category.usage_type, words)
    named = _part(
        sku.category.resource_group, _PLACE.sub("", _SPOT.sub("", _COMMITMENT.sub("", words))).strip()
    )
    if option is None or named is None:
        return None
    part, owner = named
    info = max(
        sku.pricing_info, key=lambda info: info.effective_time.timestamp() if info.effective_time else 0
    )
    priced = _per_hour(info.pricing_expression, part)
    if priced is None:
        return None
    started = info.effective_time.date() if info.effective_time else None
    unit = PriceUnit(part, owner, option, term)
    return UnitPrice(unit, tuple(sku.service_regions), *priced, started, whole="gpu slice" in words.lower())


def _bought(usage_type: str, words: str) -> tuple[str | None, int]:
    if term := _TERMS.get(usage_type):
        return "cud", term
    # Some spot SKUs are filed as on-demand; the description is right.
    if usage_type == "Preemptible" or (usage_type == "OnDemand" and _SPOT.search(words)):
        return "spot", 0
    return ("on_demand", 0) if usage_type == "OnDemand" and not _COMMITMENT.search(words) else (None, 0)


def _part(group: str, words: str) -> tuple[str, str] | None:
    if group == "LocalSSD":
        # Other families have their own local SSD with another name.
        return ("local_ssd_gib", "") if words.lower() in ("ssd backed local storage", "local ssd") else None
    if group == "GPU":
        return "gpu", _gpu(words)
    if group in ("CPU", "RAM", "N1Standard") and (match := _PART.match(words)):
        # N1's commitments have no family in their name.
        family = _WORDS_OF_FAMILIES.sub("", match["family"]).strip().lower() or "n1"
        return ("memory_gib" if match["part"].lower() == "ram" else "cpu"), family
    return None


def _gpu(words: str) -> str:
    """'Nvidia Tesla A100 80GB GPU' -> 'A100-SXM4-80GB', 'A4 Nvidia B200 (1 gpu slice)' -> 'B200'."""
    bare = re.sub(r"\(.*?\)|\bgpu\b", " ", words, flags=re.IGNORECASE)
    bare = re.sub(r"^.*\bnvidia\b|\btesla\b", " ", bare, flags=re.IGNORECASE)
    mega = _MEGA.search(bare) is not None
    bare = " ".join(_MEGA.sub(" ", bare).split())
    return _GPUS.get(bare.lower(), gpu_model(bare)) + (MEGA if mega else "")


def _per_hour(expression: PricingExpression, part: str) -> tuple[Decimal, str] | None:
    """The hourly price in the tier that starts at 0; None if it is free or has another unit."""
    hours = {"h": 1, "GiBy.h": 1, "GiBy.mo": HOURS_PER_MONTH}.get(expression.usage_unit)
    if hours is None or ("GiBy" in expression.usage_unit) != part.endswith("_gib"):
        return None
    first = next((tier for tier in expression.tiered_rates if tier.start_usage_amount == 0), None)
    if first is None:
        return None
    price = first.unit_price.units + Decimal(first.unit_price.nanos) / 1_000_000_000
    return (price / hours, first.unit_price.currency_code) if price > 0 else None


SOURCE = "gcp cloudbilling list_skus"

_FAMILIES = {"a3-megagpu": "a3plus", "a3-ultragpu": "a3ultra"}
_BOUGHT = (("on_demand", 0), ("spot", 0), ("cud", 1), ("cud", 3))
# GPUs are attached to N1 machines of any size: keep N1's parts, although the catalog has no such machine.
_BESIDE = {"n1"}

Units = Mapping[str, Mapping[PriceUnit, UnitPrice]]


def by_region(prices: Iterable[UnitPrice]) -> Units:
    """The unit prices of each region, the newest of each unit."""
    regions = defaultdict(list)
    for price in prices:
        for region in price.regions:
            regions[region].append(price)
    return {region: newest(sold, lambda price: price.unit) for region, sold in regions.items()}


def machine_prices(region: str, units: Mapping[PriceUnit, UnitPrice]) -> Iterator[ListPrice]:
    """The price of each machine of the catalog in a region; none if one of its parts is not sold there."""
    for machine in types_in_catalog("gcp").values():
        for option, term in _BOUGHT:
            parts = list(_parts(machine, option, term, units))
            priced = [(amount, price) for amount, price in parts if price is not None]
            if len(priced) < len(parts):
                continue
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


def component_prices(region: str, units: Mapping[PriceUnit, UnitPrice]) -> Iterator[ComponentPrice]:
    """The prices of GPU machines' parts in a region; none if no GPU is sold there."""
    if not any(unit.part == "gpu" for unit in units):
        return
    families = {family_of(name) for name in types_in_catalog("gcp")} | _BESIDE
    for unit, price in units.items():
        if unit.part in ("gpu", "local_ssd_gib") or unit.owner in families:
            bought = unit.purchase_option, unit.term_years
            yield ComponentPrice(
                region, unit.component, *bought, price.price_per_hour, price.currency, SOURCE
            )


def family_of(machine: str) -> str:
    """The family name of a machine in the SKUs of its vCPUs and memory: A3 Mega is A3Plus."""
    first, second = machine.split("-")[:2]
    return _FAMILIES.get(f"{first}-{second}", first)


def _parts(
    machine: CatalogType, option: str, term: int, units: Mapping[PriceUnit, UnitPrice]
) -> Iterator[tuple[Decimal, UnitPrice | None]]:
    """The amounts of a machine's parts; None if a part is not sold that way."""
    family = family_of(machine.instance_type)
    gpu = units.get(PriceUnit("gpu", machine.gpu_model + (MEGA if family == "a3plus" else ""), option, term))
    yield machine.gpu_count, gpu
    if gpu is not None and gpu.whole:
        return
    yield machine.vcpus, units.get(PriceUnit("cpu", family, option, term))
    yield machine.memory_gib, units.get(PriceUnit("memory_gib", family, option, term))
    if machine.local_ssd_gib:
        yield machine.local_ssd_gib, units.get(PriceUnit("local_ssd_gib", "", option, term))


COMPUTE_ENGINE = "services/6F81-5844-456A"

_PAGE_SIZE = 5000  # the maximum per answer
# gRPC has already tried every address.
_NOBODY = ("failed to connect to all addresses", "name resolution", "DNS resolution failed")
_AGAIN = again("gcp")


class GcpPrices(PriceCollector):
    """Prices of GPU machines, composed of cores, memory, GPUs and bundled local SSDs, and of these parts."""

    provider = "gcp"

    def fetch(self) -> ProviderPrices:
        allowing = "gcloud services enable cloudbilling.googleapis.com"
        with google_in_words(self.provider, _AGAIN, ("listing SKUs is ", allowing), "incomplete answer: "):
            units = by_region(self._units(self._client()))
        wanted = self.regions or self.config.gcp.regions
        prices = {
            region: without_duplicates(machine_prices(region, unit_prices))
            for region, unit_prices in units.items()
        }
        for region in wanted:
            if not prices.get(region):
                raise SourceError(
                    f"gcp: no prices of GPU machines in {region}",
                    f"gpucost collect prices --provider gcp --region us-central1, or set other regions in [gcp]: {region}",
                )
        if not any(prices.values()):
            raise SourceError("gcp: no SKU in the answer prices a GPU machine", _AGAIN)
        regions = wanted or sorted(units)
        return ProviderPrices(
            "gcp",
            regions,
            [price for region in regions for price in prices[region]],
            [part for region in regions for part in component_prices(region, units[region])],
        )

    def _units(self, client: CloudCatalogClient) -> Iterator[UnitPrice]:
        from google.api_core.retry import Retry
        from google.cloud.billing_v1 import ListSkusRequest

        request = ListSkusRequest(
            parent=COMPUTE_ENGINE, currency_code=self.config.currency, page_size=_PAGE_SIZE
        )
        # Each page is retried by itself.
        pages = client.list_skus(
            request=request, retry=Retry(_passing, initial=0.5, maximum=20, timeout=60), timeout=60
        ).pages
        for number, page in enumerate(pages, start=1):
            self.show_progress(f"SKUs, page {number}")
            for sku in page.skus:
                if price := unit_price(sku):
                    yield price

    def _client(self) -> CloudCatalogClient:
        """Raises NoCredentials if Google's library finds none. Servers on loopback need no credentials."""
        endpoint = self.config.gcp.endpoint
        credentials, _ = google_login(endpoint, None)
        from google.cloud.billing_v1 import CloudCatalogClient
        from google.cloud.billing_v1.services.cloud_catalog.transports import CloudCatalogGrpcTransport

        if is_loopback(endpoint):
            import grpc

            return CloudCatalogClient(
                transport=CloudCatalogGrpcTransport(channel=grpc.insecure_channel(endpoint))
            )
        return CloudCatalogClient(
            credentials=credentials, client_options={"api_endpoint": endpoint} if endpoint else None
        )


def _passing(error: BaseException) -> bool:
    """Whether a retry may succeed."""
    from google.api_core import exceptions as its

    kinds = (its.ResourceExhausted, its.ServiceUnavailable, its.Aborted, its.DeadlineExceeded)
    return isinstance(error, kinds) and not any(words in str(error) for words in (GRPC_NO_LOGIN, *_NOBODY))
