"""`gpucost collect focus`: FOCUS files of any provider, and OCI's cost reports, into the table of charges."""

from __future__ import annotations

from gpucost.cli._bills import ForceOption, PathsArgument, run_bills
from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors


@handle_errors
def collect_focus(
    paths: PathsArgument = None,
    force: ForceOption = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Load FOCUS cost and usage files, 1.0 to 1.4, of any provider: clouds, GPU clouds; and OCI's cost reports, in either form.

    CSV and Parquet, packed or not, columns spelled as in the specification or in snake case, from files, directories or
    s3://bucket/prefix. Costs are the file's own. A file replaces the bill whose charges it holds; one that is older or less
    than what is there is named and left out, and the command ends with 1 where the file itself was named.

    \b
    Examples:
      gpucost collect focus focus-2026-10.csv
      gpucost collect focus exports/focus/
      gpucost collect focus s3://my-bucket/focus
    """
    run_bills(None, paths or [], force=force, config=config, store=store, quiet=quiet, verbose=verbose)
