"""The entry point: nothing is imported before Ctrl-C and closed streams are taken care of."""

from __future__ import annotations

import os
import sys

_INTERRUPTED = 130


def main() -> None:
    """Entry point of the console script `gpucost`."""
    try:
        _open_missing_streams()
        # pydantic would look for its plugins in all that is installed; there is none whose business our settings are
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        from gpucost.cli.app import app

        try:
            app(prog_name="gpucost")
        except OSError as error:
            from gpucost.cli.output import print_error, stdout_failed

            # Commands tell their own; --help and --version only write.
            print_error(stdout_failed(error).message, None)
            sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(_INTERRUPTED)


def _open_missing_streams() -> None:
    """Fill closed standard streams: else the next file opened, such as the store, would get what is printed.

    A closed stdout is one that cannot be written to, so that a command whose data go nowhere says so.
    """
    for number, name, mode, access in (
        (0, "stdin", "r", os.O_RDONLY),
        (1, "stdout", "w", os.O_RDONLY),
        (2, "stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, access)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False))
