"""List prices of the clouds, written to files: one module and PriceCollector per provider."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from gpucost.clouds import NoCredentials
from gpucost.collect.prices.aws import AwsPrices
from gpucost.collect.prices.azure import AzurePrices
from gpucost.collect.prices.base import PriceCollector, ShowProgress, is_region_of
from gpucost.collect.prices.gcp import GcpPrices
from gpucost.collect.prices.gpu_clouds import RunpodPrices, VastPrices
from gpucost.collect.prices.oci import OciPrices
from gpucost.config.model import Config
from gpucost.errors import GpucostError, StoreError
from gpucost.records import frozen_dataclass
from gpucost.store.connection import Store
from gpucost.store.prices import load_prices, node_regions

_COLLECTORS = (AwsPrices, GcpPrices, AzurePrices, OciPrices, RunpodPrices, VastPrices)
PROVIDERS: dict[str, type[PriceCollector]] = {collector.provider: collector for collector in _COLLECTORS}


@frozen_dataclass
class PriceResult:
    """The counts of one provider's prices, or why it was skipped or failed."""

    provider: str
    regions: tuple[str, ...] = ()
    prices: int = 0
    priced_types: int = 0
    skipped: NoCredentials | None = None
    error: GpucostError | None = None


def collect_prices(
    config: Config,
    store: Store,
    providers: Sequence[str],
    regions: Sequence[str],
    now: datetime,
    show_progress: ShowProgress,
) -> list[PriceResult]:
    """Query the list prices of `providers` and write them, each provider completely or not at all.

    Without `regions`, each provider uses its configured ones; with them, the ones in its own spelling. A failure
    of one provider does not stop the others. `show_progress` receives progress messages. Raises StoreError if the
    store cannot be used.
    """
    seen = node_regions(store)
    results = []
    for provider in providers:

        def show_of_provider(words: str, provider: str = provider) -> None:
            show_progress(f"{provider}: {words}")

        result = partial(PriceResult, provider)
        named, near = (
            [region for region in dict.fromkeys(some) if is_region_of(provider, region)]
            for some in (regions, seen)
        )
        try:
            answer = PROVIDERS[provider](config, named, near, now.date(), show_of_provider).fetch()
            show_of_provider("writing")
            load_prices(store, answer, now)
        except NoCredentials as error:
            results.append(result(skipped=error))
        except StoreError:
            raise
        except GpucostError as error:
            results.append(result(error=error))
        else:
            regions_priced = {price.region for price in answer.prices}
            types = {price.instance_type for price in answer.prices}
            results.append(result(tuple(sorted(regions_priced)), len(answer.prices), len(types)))
    return results
