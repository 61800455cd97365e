"""`gpucost open`: the report as a page, in a browser."""

import os
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated

from gpucost.cli.command import TargetCall, command
from gpucost.cli.output import made_folder, print_text
from gpucost.disk import PRIVATE, atomic_write
from gpucost.options import LabelSelection, Names, Option, PeriodOptions
from gpucost.records import mixin_dataclass

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


@mixin_dataclass
class PageCall(LabelSelection, PeriodOptions, TargetCall):
    """A command that makes a page."""


@command()
def open(  # noqa: A001 - its name on the command line
    call: PageCall,
    by: Annotated[
        Names, Option("Dimensions of the rows, as in gpucost report (default: team).", "A,B", is_split=True)
    ] = (),
    findings: Annotated[
        int, Option("Add the N most expensive findings; takes seconds.", "COUNT", is_shown=True)
    ] = 0,
    no_browser: Annotated[bool, Option("Write the page and print its path without opening it.")] = False,
) -> None:
    """Show the report as a page in your browser: charts, waste, every workload, with search.

    The page is one file that works without a network. Without -o it is in your cache folder, readable only by you, until the
    next page replaces it. The command prints the path, with or without a browser.

    \b
    Examples:
      gpucost open
      gpucost open --team research --month 2026-10
      gpucost open --month 2026-10 --findings 10 --no-browser -o october.html
    """
    from gpucost.questions.report.page import page
    from gpucost.questions.report.reading import report

    query = call.query(by=by, with_sections=True, with_series=True)
    view = page(call.settings, call.store, query, report(call.settings, call.store, query), findings)
    path = (call.target or _private_page()).absolute()
    if not call.target:
        path.unlink(missing_ok=True)  # or its mode would stay
    with atomic_write(path, 0o666 if call.target else PRIVATE) as part:
        part.write_text(view.html(), encoding="utf-8")
    # a browser of a terminal would take its place
    has_screen = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in _SCREENS)
    if not no_browser and has_screen and webbrowser.open(path.as_uri()):
        call.note(f"{view.title}: opened in your browser")
    print_text(str(path))


def _private_page() -> Path:
    """The default path of the page. Raises GpucostError if its folder cannot be created."""
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:  # the user has no home directory
        cache = tempfile.mkdtemp()
    return made_folder(Path(cache) / "gpucost", "use -o to write it to another place", 0o700) / "report.html"
