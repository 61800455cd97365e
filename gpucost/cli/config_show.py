"""`gpucost config show`: every setting in force and where it comes from."""

from __future__ import annotations

import os
from pathlib import Path

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, note, output_file
from gpucost.cli._rows import FormatOption, OutputOption, RowFormat, write_rows


@handle_errors
def config_show(
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show every setting in force and where it comes from.

    Secrets are not read, and values of headers are hidden.

    \b
    Examples:
      gpucost config show
      GPUCOST_TIMEZONE=Europe/Berlin gpucost config show --format json
    """
    from gpucost.config import resolved
    from gpucost.config.file import places

    settings, _ = load(config, store)
    if settings.path:
        note(f"config file: {settings.path}", quiet=quiet)
    else:
        looked = ", ".join(str(place) for place in places(os.environ, Path.cwd()))
        note(f"config file: none (looked for {looked}); gpucost init writes one", quiet=quiet)
    write_rows(("key", "value", "from"), resolved(settings), format, output_file(output))
