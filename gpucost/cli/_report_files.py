"""Reports that are no text: Parquet, and FOCUS files."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from gpucost.cli._common import made, note, stdout_failed
from gpucost.cli._rows import file_needed
from gpucost.errors import UsageError

if TYPE_CHECKING:
    from gpucost.config import Config
    from gpucost.report import Query, ReportView
    from gpucost.store import Store


def write_parquet(view: ReportView, target: Path | None) -> None:
    """The report's rows to a Parquet file, whole or not at all. Raises UsageError without a file."""
    from gpucost.report.render_data import to_parquet

    with made(file_needed(target)) as part:
        to_parquet(view, part)


def write_focus(
    config: Config, store: Store, query: Query, month: str | None, version: str, target: Path | None, *, quiet: bool
) -> None:
    """The bill of a month as a FOCUS file, CSV or, by its suffix, Parquet; CSV to stdout where `target` is None.

    Raises UsageError without a month, and for a report that is narrowed: the file takes the place of whole charges.
    """
    from gpucost import pipeline

    if month is None:
        raise UsageError("a FOCUS file is of one billing period", "add --month, for example --month 2026-10")
    if query.is_narrowed or query.clusters or query.by or query.share_unallocated:
        raise UsageError(
            "--format focus takes no --team, --namespace, --cluster, --by or --share-unallocated: its rows take the place of "
            "whole charges",
            "its columns x_gpucost_team, x_gpucost_namespace and x_gpucost_cluster tell them apart",
        )
    is_parquet = target is not None and target.suffix.lower() == ".parquet"
    with made(target) as part:
        totals = pipeline.focus_file(config, store, month, version, "parquet" if is_parquet else "csv", part)
        if target is None:
            _to_stdout(part)
    billed = "; ".join(f"{cost:,.2f} {currency} effective" for currency, cost in totals.effective_cost.items()) or "no bill"
    note(
        f"FOCUS {version} of {month}: {totals.charges:,} charges in {totals.billed_rows:,} rows, {billed}; "
        f"{totals.estimated_rows:,} rows of estimates, {totals.estimated_cost:,.2f} {config.currency}",
        quiet=quiet,
    )


def _to_stdout(file: Path) -> None:
    try:
        with file.open("rb") as content:
            shutil.copyfileobj(content, sys.stdout.buffer)
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise
    except OSError as error:
        raise stdout_failed(error) from None
