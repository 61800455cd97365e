"""GPU clouds whose prices anybody may ask for, GPU by GPU: RunPod's list, and the median of what is offered at Vast.ai."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from statistics import median
from typing import Any, ClassVar

from gpucost.collect.prices.base import PriceCollector, gpu_model, known_types, one_of_each
from gpucost.collect.prices.public import PublicList
from gpucost.errors import SourceError
from gpucost.store.prices import InstanceType, ListPrice, ProviderPrices

_RUNPOD_QUERY = "query GpuTypes { gpuTypes { id displayName memoryInGb securePrice communityPrice } }"
_VAST_OFFERS = 20_000  # about ten times as many as there are

# (GPU, purchase option, what stands behind the GPU in the instance type, price)
Offer = tuple[str, str, str, Decimal]


class RunpodPrices(PriceCollector):
    """What one GPU costs at RunPod, in its own data centers (SECURE) and on hosts of third parties (COMMUNITY)."""

    provider: ClassVar[str] = "runpod"

    def fetch(self) -> ProviderPrices:
        public = PublicList(self.provider, "the list of GPUs", "[price_lists] runpod")
        self.tell("GPUs and their prices")
        body = {"query": _RUNPOD_QUERY}
        answer = public.json(
            self.config.price_lists.runpod, body=body, whole=lambda answer: isinstance(answer["data"]["gpuTypes"], list)
        )
        return _by_gpu(self.provider, "runpod graphql gpuTypes", public.again, lambda: _runpod(answer["data"]["gpuTypes"]))


class VastPrices(PriceCollector):
    """What one GPU costs at Vast.ai: the median of what hosts ask for, on demand and as the lowest bid (spot)."""

    provider: ClassVar[str] = "vast"

    def fetch(self) -> ProviderPrices:
        public = PublicList(self.provider, "the list of offers", "[price_lists] vast")
        self.tell("offers of one GPU")
        body = {
            "rentable": {"eq": True},
            "rented": {"eq": False},
            "num_gpus": {"eq": 1},
            "limit": _VAST_OFFERS,
        }
        answer = public.json(
            self.config.price_lists.vast, body=body, whole=lambda answer: 0 < len(answer["offers"]) < _VAST_OFFERS
        )
        return _by_gpu(self.provider, "vast.ai bundles, median", public.again, lambda: _vast(answer["offers"]))


def _runpod(types: Iterable[Mapping[str, Any]]) -> Iterator[Offer]:
    for item in types:
        model = gpu_model(f"{item['displayName']} {item['memoryInGb']}GB", item["displayName"])
        for cloud in ("SECURE", "COMMUNITY"):
            if price := item[f"{cloud.lower()}Price"]:
                yield model, "on_demand", f"_{cloud}", Decimal(price)


def _vast(offers: Iterable[Mapping[str, Any]]) -> Iterator[Offer]:
    asked: dict[tuple[str, str], list[Decimal]] = {}
    for offer in offers:
        if offer["num_gpus"] != 1:
            continue
        name = offer["gpu_name"]
        model = gpu_model(f"{name} {round(offer['gpu_ram'] / 1024)}GB", name)
        for option, field in (("on_demand", "dph_base"), ("spot", "min_bid")):
            if price := offer.get(field):
                asked.setdefault((model, option), []).append(Decimal(price))
    for (model, option), found in asked.items():
        yield model, option, "", median(found)


def _by_gpu(provider: str, source: str, again: str, offers: Callable[[], Iterator[Offer]]) -> ProviderPrices:
    """Prices of instance types that are called by their GPU, as the catalog calls them. Raises SourceError."""
    names = {kind.gpu_model: re.sub("_(SECURE|COMMUNITY)$", "", name) for name, kind in known_types(provider).items()}
    prices, types = [], {}
    try:
        for model, option, suffix, price in offers():
            if price <= 0:
                continue
            name = names.get(model, f"1x_{model}") + suffix
            prices.append(ListPrice("", name, option, price, "USD", source))
            types[name] = InstanceType(name, model, 1.0, None, None, None, source)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise SourceError(f"{provider}: the answer cannot be read: {type(error).__name__} {str(error)[:80]}", again) from error
    if not prices:
        raise SourceError(f"{provider}: there are no prices of GPUs", again)
    return ProviderPrices(provider, [""], one_of_each(prices), instance_types=list(types.values()))
