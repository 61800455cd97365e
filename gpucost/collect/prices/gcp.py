"""Google Cloud's list prices: every SKU of Compute Engine, and what machines are made of."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from gpucost.collect.login import NoCredentials
from gpucost.collect.prices.base import PriceCollector, one_of_each
from gpucost.collect.prices.gcp_machines import by_region, component_prices, machine_prices
from gpucost.collect.prices.gcp_skus import UnitPrice, unit_price
from gpucost.errors import SourceError
from gpucost.store.list_prices import ProviderPrices

if TYPE_CHECKING:
    from google.cloud.billing_v1 import CloudCatalogClient

COMPUTE_ENGINE = "services/6F81-5844-456A"

_PAGE_SIZE = 5000  # the most that is answered at once
_LOOPBACK = re.compile(r"(?:localhost|127(?:\.\d+){3}|\[::1\]):\d+")
# How a login that cannot be renewed shows in gRPC: as a server that is not there.
_NO_LOGIN = "metadata from plugin failed"
# gRPC itself has tried every address by then.
_NOBODY = ("failed to connect to all addresses", "name resolution", "DNS resolution failed")
_LOGIN = "gcloud auth application-default login"
_AGAIN = "gpucost collect prices --provider gcp"


class GcpPrices(PriceCollector):
    """Prices of machines with GPUs, composed of cores, memory, GPUs and bundled local SSDs, and of those parts."""

    provider: ClassVar[str] = "gcp"

    def fetch(self) -> ProviderPrices:
        with _in_words():
            units = by_region(self._units(self._client()))
        wanted = self.regions or self.config.gcp.regions
        prices = {region: one_of_each(machine_prices(region, of)) for region, of in units.items()}
        for region in wanted:
            if not prices.get(region):
                raise SourceError(
                    f"gcp: there are no prices of GPU machines in {region}",
                    f"gpucost collect prices --provider gcp --region us-central1, or name other regions under [gcp]: {region}",
                )
        if not any(prices.values()):
            raise SourceError("gcp: none of the SKUs answered prices a GPU machine", _AGAIN)
        regions = wanted or sorted(region for region in units)
        return ProviderPrices(
            "gcp",
            regions,
            [price for region in regions for price in prices[region]],
            [part for region in regions for part in component_prices(region, units[region])],
        )

    def _units(self, client: CloudCatalogClient) -> Iterator[UnitPrice]:
        from google.api_core.retry import Retry
        from google.cloud.billing_v1 import ListSkusRequest

        asked = ListSkusRequest(parent=COMPUTE_ENGINE, currency_code=self.config.currency, page_size=_PAGE_SIZE)
        # each page is tried again by itself
        pages = client.list_skus(request=asked, retry=Retry(_passing, initial=0.5, maximum=20, timeout=60), timeout=60).pages
        for number, page in enumerate(pages, start=1):
            self.tell(f"SKUs, page {number}")
            for sku in page.skus:
                if found := unit_price(sku):
                    yield found

    def _client(self) -> CloudCatalogClient:
        """Raises NoCredentials where Google's library finds none. On loopback nobody asks who is there."""
        # Where nothing answers at its address, the search for the metadata server would take ten seconds.
        os.environ.setdefault("GCE_METADATA_DETECT_RETRIES", "1")
        os.environ.setdefault("GCE_METADATA_TIMEOUT", "2")
        from google.cloud.billing_v1 import CloudCatalogClient
        from google.cloud.billing_v1.services.cloud_catalog.transports import CloudCatalogGrpcTransport

        endpoint = self.config.gcp.endpoint
        if endpoint and _LOOPBACK.fullmatch(endpoint):
            import grpc

            return CloudCatalogClient(transport=CloudCatalogGrpcTransport(channel=grpc.insecure_channel(endpoint)))
        return CloudCatalogClient(client_options={"api_endpoint": endpoint} if endpoint else None)


@contextmanager
def _in_words() -> Iterator[None]:
    """Turns failures of Google's libraries into SourceError or NoCredentials."""
    from google.api_core import exceptions as its
    from google.auth import exceptions as login

    try:
        yield
    except login.DefaultCredentialsError as error:
        # a file that is named but cannot be used is more than nobody being logged in
        if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
            raise SourceError(f"gcp: {_line(error)}", "GOOGLE_APPLICATION_CREDENTIALS names a credentials file") from None
        raise NoCredentials("gcp: no credentials found", _LOGIN) from None
    except login.RefreshError as error:
        raise SourceError(f"gcp: the login has expired: {_line(error)}", _LOGIN) from None
    except login.GoogleAuthError as error:
        raise SourceError(f"gcp: {_line(error)}", _LOGIN) from None
    except its.Unauthenticated as error:
        raise SourceError(f"gcp: the credentials have expired or are refused: {_line(error)}", _LOGIN) from None
    except its.PermissionDenied as error:
        raise SourceError(
            f"gcp: listing SKUs is not allowed: {_line(error)}", "gcloud services enable cloudbilling.googleapis.com"
        ) from None
    except its.ServiceUnavailable as error:
        if _NO_LOGIN in str(error):
            raise SourceError(f"gcp: the login has expired: {_line(error)}", _LOGIN) from None
        raise SourceError(f"gcp: cannot be reached: {_line(error)}", _AGAIN) from None
    except its.ResourceExhausted as error:
        raise SourceError(f"gcp: throttled, again and again: {_line(error)}", f"wait a while, then {_AGAIN}") from None
    except its.RetryError as error:
        raise SourceError(f"gcp: no answer in time: {_line(error)}", _AGAIN) from None
    except its.GoogleAPICallError as error:
        raise SourceError(f"gcp: half an answer, or none: {_line(error)}", _AGAIN) from None


def _passing(error: BaseException) -> bool:
    """Whether it may go better the next time."""
    from google.api_core import exceptions as its

    kinds = (its.ResourceExhausted, its.ServiceUnavailable, its.Aborted, its.DeadlineExceeded)
    return isinstance(error, kinds) and not any(words in str(error) for words in (_NO_LOGIN, *_NOBODY))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
