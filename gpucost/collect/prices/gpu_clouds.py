"""GPU clouds with public prices per GPU: RunPod's list, and the median of Vast.ai's offers."""

import re
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from statistics import median
from typing import Any, ClassVar

from gpucost.collect.prices.base import (
    PriceCollector,
    gpu_model,
    public_list,
    read_as,
    types_in_catalog,
    without_duplicates,
)
from gpucost.errors import SourceError
from gpucost.store.prices import InstanceType, ListPrice, ProviderPrices

_VAST_OFFERS = 20_000  # about ten times the current number

# (GPU, purchase option, suffix of the instance type, price)
Offer = tuple[str, str, str, Decimal]


class GpuPrices(PriceCollector):
    """One list's prices of instance types that are named by their GPU, in the catalog's spelling."""

    source: ClassVar[str]
    what: ClassVar[tuple[str, str]]  # the list and the queried items, in messages
    body: ClassVar[dict[str, Any]]

    @staticmethod
    @abstractmethod
    def is_whole(answer: Any) -> bool:
        """Whether the list is complete."""

    @staticmethod
    @abstractmethod
    def offers(answer: Any) -> Iterator[Offer]:
        """The rows of the list."""

    def fetch(self) -> ProviderPrices:
        name_of_list, words = self.what
        url = getattr(self.config.price_lists, self.provider)
        public = public_list(self.provider, name_of_list, f"[price_lists] {self.provider}", url)
        self.show_progress(words)
        answer = public.ask("POST", url, json=self.body, number=Decimal, is_whole=self.is_whole)
        catalog_types = types_in_catalog(self.provider).items()
        names = {kind.gpu_model: re.sub("_(SECURE|COMMUNITY)$", "", name) for name, kind in catalog_types}
        prices, types = [], {}
        with read_as(f"{self.provider}: cannot read the answer", public.later):
            for model, option, suffix, price in self.offers(answer):
                if price > 0:
                    name = names.get(model, f"1x_{model}") + suffix
                    prices.append(ListPrice("", name, option, price, "USD", self.source))
                    types[name] = InstanceType(name, model, 1.0, None, None, None, self.source)
        if not prices:
            raise SourceError(f"{self.provider}: no prices of GPUs", public.later)
        return ProviderPrices(
            self.provider, [""], without_duplicates(prices), instance_types=list(types.values())
        )


class RunpodPrices(GpuPrices):
    """The price of one GPU at RunPod, in its own data centers (SECURE) and on third-party hosts (COMMUNITY)."""

    provider = "runpod"
    source = "runpod graphql gpuTypes"
    what = ("the list of GPUs", "GPUs and their prices")
    body: ClassVar = {
        "query": "query GpuTypes { gpuTypes { id displayName memoryInGb securePrice communityPrice } }"
    }

    @staticmethod
    def is_whole(answer: Any) -> bool:
        return isinstance(answer["data"]["gpuTypes"], list)

    @staticmethod
    def offers(answer: Any) -> Iterator[Offer]:
        for item in answer["data"]["gpuTypes"]:
            model = gpu_model(f"{item['displayName']} {item['memoryInGb']}GB", item["displayName"])
            for cloud in ("SECURE", "COMMUNITY"):
                if price := item[f"{cloud.lower()}Price"]:
                    yield model, "on_demand", f"_{cloud}", Decimal(price)


class VastPrices(GpuPrices):
    """The price of one GPU at Vast.ai: the median of the hosts' prices, on-demand and as the lowest bid
    (spot).
    """

    provider = "vast"
    source = "vast.ai bundles, median"
    what = ("the list of offers", "offers of one GPU")
    body: ClassVar = {
        "rentable": {"eq": True},
        "rented": {"eq": False},
        "num_gpus": {"eq": 1},
        "limit": _VAST_OFFERS,
    }

    @staticmethod
    def is_whole(answer: Any) -> bool:
        return 0 < len(answer["offers"]) < _VAST_OFFERS

    @staticmethod
    def offers(answer: Any) -> Iterator[Offer]:
        prices = defaultdict(list)
        for offer in answer["offers"]:
            if offer["num_gpus"] == 1:
                model = gpu_model(
                    f"{offer['gpu_name']} {round(offer['gpu_ram'] / 1024)}GB", offer["gpu_name"]
                )
                for option, field in (("on_demand", "dph_base"), ("spot", "min_bid")):
                    if price := offer.get(field):
                        prices[model, option].append(Decimal(price))
        for (model, option), of_hosts in prices.items():
            yield model, option, "", median(of_hosts)
