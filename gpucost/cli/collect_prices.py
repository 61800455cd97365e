"""`gpucost collect prices`: refresh list prices from the clouds into the store."""

from __future__ import annotations

from collections.abc import Sequence
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
    put,
    tell_error,
)
from gpucost.cli._status import status

if TYPE_CHECKING:
    from gpucost.collect.prices import PriceResult, Replaced
    from gpucost.config import Config
    from gpucost.store import Store

SHOWN_REGIONS = 4
SHOWN_REPLACED = 10


class Provider(StrEnum):
    """A cloud whose list prices can be asked for."""

    aws = "aws"
    gcp = "gcp"
    azure = "azure"
    oci = "oci"
    runpod = "runpod"
    vast = "vast"


@handle_errors
def collect_prices(
    provider: Annotated[
        list[Provider] | None,
        typer.Option(
            "--provider",
            metavar="NAME",
            help="Only this cloud: aws, gcp, azure, oci, runpod or vast; repeatable.",
            show_default=False,
        ),
    ] = None,
    region: Annotated[
        list[str] | None,
        typer.Option(
            "--region",
            metavar="NAME",
            help="Only this region, of the cloud that spells its regions so; repeatable.",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Refresh list prices from AWS, Google Cloud, Azure, OCI, RunPod and Vast.ai into the store.

    On-demand, spot, reserved and commitment prices of every instance type with GPUs. The catalog inside gpucost stays beside
    them, and the newest price wins; what a new price replaces is shown. Without --region: the regions of the configuration;
    for AWS else those where nodes were seen, else us-east-1; for the others else all. Google Cloud needs a login and is skipped
    without one; AWS' public lists, which are read without one, have hundreds of megabytes a region. Asking again on the same
    day replaces that day's prices. A cloud whose answer is not whole leaves what was there. Ends with 1 if a cloud failed, or
    all were skipped.

    \b
    Examples:
      gpucost collect prices
      gpucost collect prices --provider aws --region us-east-1 --region eu-west-1
      gpucost collect prices --provider azure --region eastus
    """
    from gpucost.errors import GpucostError

    settings, opened = load(config, store)
    providers = _providers(provider or [], region or [])
    results = ask_clouds(settings, opened, providers, region or [], quiet=quiet, verbose=verbose)
    if all(result.skipped for result in results):
        raise GpucostError(
            "no prices were collected: there are credentials for none of the clouds asked",
            "log in to one of them, or add --provider azure, which needs no login",
        )
    if any(result.error for result in results):
        raise typer.Exit(1)


def ask_clouds(
    settings: Config, opened: Store, providers: Sequence[str], regions: Sequence[str], *, quiet: bool, verbose: bool
) -> list[PriceResult]:
    """Collect and tell the list prices of `providers`; what each came to."""
    from datetime import UTC, datetime

    from gpucost.collect.prices import collect_prices as collect

    with status(quiet=quiet, verbose=verbose) as tell:
        results = collect(settings, opened, providers, regions, datetime.now(UTC), tell)
    for result in results:
        _tell(result, quiet=quiet, verbose=verbose)
    return results


def _providers(named: Sequence[Provider], regions: Sequence[str]) -> list[str]:
    """Who is asked: those named, and with regions only those that have one of them. Raises UsageError for a region of none."""
    from gpucost.collect.prices import PROVIDERS
    from gpucost.collect.prices.base import is_region_of
    from gpucost.errors import UsageError

    asked = [name for name in PROVIDERS if not named or name in named]
    for region in regions:
        if not any(is_region_of(name, region) for name in asked):
            raise UsageError(
                f"--region {region} is spelled like no region of {', '.join(asked)}",
                "regions are spelled us-east-1 (aws), us-central1 (gcp), eastus (azure)",
            )
    return [name for name in asked if not regions or any(is_region_of(name, region) for region in regions)]


def _tell(result: PriceResult, *, quiet: bool, verbose: bool) -> None:
    """For each cloud: what was written, and what it replaced, on stdout; what was skipped or failed on stderr."""
    if result.skipped:
        note(f"{result.skipped.message}; skipped ({result.skipped.fix})", quiet=quiet)
    elif result.error:
        tell_error(result.error.message, result.error.fix)
    elif not quiet:
        parts = f", {result.components:,} prices of their parts" if result.components else ""
        put(
            f"{result.provider}: {result.prices:,} prices of {result.priced_types:,} instance types{parts}"
            f"{_regions(result.regions)}, as of {result.as_of}"
        )
        new = result.prices - len(result.replaced) - result.unchanged
        put(
            f"{result.provider}: {len(result.replaced):,} replace another price, {result.unchanged:,} confirm it, {new:,} are new"
        )
        shown = result.replaced if verbose else result.replaced[:SHOWN_REPLACED]
        for price in shown:
            put(f"  {_replaced(price)}")
        if more := len(result.replaced) - len(shown):
            put(f"  and {more:,} more, which -v shows")


def _replaced(price: Replaced) -> str:
    """`p5.48xlarge, on demand, us-east-1: 98.32 (2025-06-04) → 55.04 USD, -44.0 %`."""
    years = f"{price.term_years} year{'s' if price.term_years > 1 else ''}" if price.term_years else ""
    words = (price.instance_type, price.purchase_option, years, price.payment_option, price.offering, price.region)
    what = ", ".join(word.replace("_", " ") if word != price.instance_type else word for word in words if word)
    old, new = (f"{amount.normalize():f}" for amount in (price.old_price_per_hour, price.new_price_per_hour))
    return f"{what}: {old} ({price.old_price_as_of}) → {new} {price.currency}, {price.change:+.1%}"


def _regions(names: Sequence[str]) -> str:
    if not any(names):
        return ""  # one price everywhere
    return f" in {', '.join(names) if len(names) <= SHOWN_REGIONS else f'{len(names)} regions'}"
