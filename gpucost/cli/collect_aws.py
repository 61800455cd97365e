"""`gpucost collect aws`: AWS billing exports into the table of charges."""

from __future__ import annotations

from gpucost.cli._bills import ForceOption, PathsArgument, run_bills
from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors


@handle_errors
def collect_aws(
    paths: PathsArgument = None,
    force: ForceOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Load AWS billing exports: Cost and Usage Reports (legacy and CUR 2.0), Data Exports, FOCUS.

    CSV and Parquet, packed or not, from files, directories or s3://bucket/prefix. Where a manifest is there, it decides
    which files count, and a billing period is replaced as a whole; half a period is refused. A loose file replaces the bill
    whose charges it holds: loading twice, a restated month, or a final month over one that was not, changes what is there
    and doubles nothing. A file that is older or less than what is there is named and left out. What is in the store is
    asked by `gpucost sql "from charges"`.

    \b
    Examples:
      gpucost collect aws s3://my-bucket/exports/cur
      gpucost collect aws march.csv.gz april.csv.gz
      gpucost collect aws --force 2026-10-not-final.csv
    """
    run_bills("aws", paths or [], force=force, config=config, store=store, quiet=quiet, verbose=verbose)
