"""OCI list prices: the files of Oracle's cost estimator, without login. One price holds in all regions."""

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import partial

from gpucost.collect.prices.base import (
    PriceCollector,
    gpu_model,
    public_list,
    read_as,
    types_in_catalog,
    without_duplicates,
)
from gpucost.errors import SourceError
from gpucost.inputs import JsonObject
from gpucost.store.prices import InstanceType, ListPrice, ProviderPrices

SOURCE = "oci cost estimator"

# "Preemptible capacity costs 50% less than on-demand capacity": docs.oracle.com, Compute, Preemptible Instances
_PREEMPTIBLE = Decimal("0.5")


class OciPrices(PriceCollector):
    """On-demand prices of every shape with GPUs, and preemptible prices of shapes that offer them."""

    provider = "oci"

    def fetch(self) -> ProviderPrices:
        server = self.config.price_lists.oci.rstrip("/")
        public = public_list(self.provider, "the cost estimator's list", "[price_lists] oci", server)
        self.show_progress("shapes and their prices")
        shapes, products = (
            public.ask("GET", f"{server}/{name}.json", number=Decimal, is_whole=_is_whole)["items"]
            for name in ("shapes", "products")
        )
        with read_as("oci: cannot read a shape or product of the cost estimator", public.later):
            per_gpu = {
                item["partNumber"]: price for item in products if (price := self._per_hour(item)) is not None
            }
            with_gpus = [
                shape
                for shape in shapes
                if shape["gpuQty"] and not shape["hidden"] and shape["status"] == "ACTIVE"
            ]
            prices = [price for shape in with_gpus for price in self._prices(shape, per_gpu)]
            priced = {price.instance_type for price in prices}
            types = [kind for kind in map(_instance_type, with_gpus) if kind.instance_type in priced]
        if not prices:
            raise SourceError(
                f"oci: no prices of GPU shapes in {self.config.currency}",
                "change currency in gpucost.toml, or [price_lists] oci",
            )
        return ProviderPrices(self.provider, [""], without_duplicates(prices), instance_types=types)

    def _per_hour(self, product: JsonObject) -> Decimal | None:
        """The price of one unit of a product; None unless it is sold by the hour, pay as you go."""
        if product["pricetype"] != "HOUR":
            return None
        for localized in product["currencyCodeLocalizations"]:
            if localized["currencyCode"] == self.config.currency:
                prices = (
                    Decimal(price["value"])
                    for price in localized["prices"]
                    if price["model"] == "PAY_AS_YOU_GO"
                )
                return max(prices, default=None)
        return None

    def _prices(self, shape: JsonObject, per_gpu: dict[str, Decimal]) -> Iterator[ListPrice]:
        # A GPU shape's single product is called an OCPU and priced per GPU.
        parts = [item["partNumber"] for item in shape["products"] if item["type"]["value"] == "ocpu"]
        price = sum((per_gpu.get(part, Decimal(0)) for part in parts), Decimal(0)) * int(shape["gpuQty"])
        if price <= 0:
            return
        bought = partial(ListPrice, "", _name(shape), currency=self.config.currency, source=SOURCE)
        yield bought("on_demand", price)
        if shape["allowPreemptible"]:
            yield bought("spot", price * _PREEMPTIBLE)


def _is_whole(answer: JsonObject) -> bool:
    return isinstance(answer["items"], list)


def _name(shape: JsonObject) -> str:
    """The shape's name in Compute: the estimator adds remarks, as in `BM.GPU.GB200.4 (NVL72)`."""
    return str(shape["name"]).partition(" (")[0]


def _instance_type(shape: JsonObject) -> InstanceType:
    name = _name(shape)
    known_type = types_in_catalog("oci").get(name)
    short_name = re.sub(r"^(BM|VM)\.GPU\.?|[.-][^.-]*$", "", name)
    return InstanceType(
        instance_type=name,
        gpu_model=known_type.gpu_model if known_type else gpu_model(short_name),
        gpu_count=float(shape["gpuQty"]),
        # Here the estimator gives the memory per GPU, there of all GPUs.
        gpu_memory_mib=known_type.gpu_memory_mib if known_type else None,
        vcpus=None,
        memory_gib=float(shape["bundleMemoryQty"]) if shape["bundleMemoryQty"] else None,
        source=SOURCE,
    )
