"""The entry point: handle Ctrl-C and closed streams before any other import."""

import gc
import os
import sys


def main() -> None:
    """Entry point of the console script `gpucost`."""
    # Most objects live until the command ends: rare searches for garbage save a tenth of its time.
    gc.set_threshold(100_000)
    try:
        _open_missing_streams()
        # pydantic would search every installed package for plugins; our settings need none
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        from gpucost.cli.app import app

        try:
            app(prog_name="gpucost")
        except OSError as error:
            from gpucost.cli.output import print_error, stdout_failed

            # Commands report their own errors; --help and --version only write.
            print_error(stdout_failed(error).message, None)
            sys.exit(1)
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)  # as shells report Ctrl-C


def _open_missing_streams() -> None:
    """Replace closed standard streams; otherwise the next opened file, such as the store, would receive the output.

    Writing to a closed stdout fails, so that the command reports the lost output.
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
