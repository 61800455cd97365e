"""`gpucost collect spot`: spot price history from the clouds, or from files of their answers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
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
    from collections.abc import Collection

    from gpucost.collect.spot import SpotResult
    from gpucost.config import Config
    from gpucost.store import Store


@handle_errors
def collect_spot(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PATH", help="Files or directories; without any, the clouds are asked.", show_default=False),
    ] = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Pull the spot price history of GPU instances into the store, or load it from files.

    Without a path: AWS tells 90 days of changes in every region of aws.regions (else where GPU nodes were seen, else
    us-east-1), and later runs go on from the last collected moment; Azure's history comes from Resource Graph. A cloud
    without credentials is skipped. GCP has no such history: its spot prices come, dated, with gpucost collect prices.

    With paths: answers of aws ec2 describe-spot-price-history in JSON, and files of the EC2 spot data feed, .gz or not.
    Facts that are known already are not loaded again, so snapshots may overlap. A file that cannot be used is named
    with its row, and then nothing of this run is loaded.

    \b
    Examples:
      gpucost collect spot
      gpucost collect spot history.json
      gpucost collect spot snapshots/ datafeed/
    """
    from gpucost.collect import spot

    settings, opened = load(config, store)
    if paths:
        for result in spot.import_spot(opened, paths):
            _tell(result, quiet=quiet)
        return
    if not ask_clouds(settings, opened, spot.PROVIDERS, quiet=quiet, verbose=verbose):
        raise typer.Exit(1)


def ask_clouds(settings: Config, opened: Store, providers: Collection[str], *, quiet: bool, verbose: bool) -> bool:
    """Collect and tell the spot prices of `providers`; whether none of them failed. A cloud nobody is logged in to is skipped."""
    from gpucost.collect import spot

    with status(quiet=quiet, verbose=verbose) as tell:
        results = list(spot.collect_spot(settings, opened, datetime.now(UTC), tell, providers))
    for result in results:
        _tell(result, quiet=quiet)
    return not any(result.error for result in results)


def _tell(result: SpotResult, *, quiet: bool) -> None:
    """The summary on stdout, what is missing on stderr."""
    if result.error is not None:
        tell_error(result.error.message, result.error.fix)
        return
    if result.skipped is not None:
        note(f"{result.skipped.message}; skipped ({result.skipped.fix})", quiet=quiet)
        return
    loaded = result.load
    if loaded is not None and not quiet:
        when = f" of {result.period}" if result.period else ""
        corrected = f", {loaded.corrected:,} corrected" if loaded.corrected else ""
        put(f"{result.source}: {loaded.rows:,} spot prices{when}: {loaded.new:,} new, {loaded.known:,} already known{corrected}")
    for said in result.notes:
        note(f"  note: {said}", quiet=quiet)
