"""Shell completion of values: names and months in the store, and dimensions."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import typer

# By option. A day belongs to the month of its noon, in any time zone.
_STORED = {
    "team": "SELECT DISTINCT team FROM cost_runs WHERE team IS NOT NULL ORDER BY ALL",
    "namespace": "SELECT DISTINCT namespace FROM allocations WHERE namespace <> '' ORDER BY ALL",
    "cluster": "SELECT DISTINCT cluster FROM nodes ORDER BY ALL",
    "workload": "SELECT DISTINCT workload FROM allocations ORDER BY ALL",
    "user": 'SELECT DISTINCT "user" FROM allocations WHERE "user" IS NOT NULL ORDER BY ALL',
    "month": """SELECT DISTINCT strftime(make_timestamp((from_ms + to_ms) // 2 * 1000), '%Y-%m')
        FROM cost_daily WHERE kind = 'allocated' ORDER BY ALL DESC""",
}
# Shells evaluate completions, and names are untrusted: no quotes, no expansions, no invisible characters.
_HARMLESS = r"[\w./@:+=-]+( [\w./@:+=-]+)*"


def stored(name: str) -> Callable[[typer.Context, str], list[str]]:
    """Complete a value from an attributed store, without waiting for a lock and without changes."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        # typer drops completions with another beginning
        from gpucost.config.files import store_file
        from gpucost.store.connection import Store
        from gpucost.texts import visible

        explicit = {
            **context.find_root().params,
            **{name: value for name, value in context.params.items() if value},
        }
        named, config = (Path(explicit[name]) if explicit.get(name) else None for name in ("store", "config"))
        with suppress(Exception):  # a shell cannot show messages here
            store = Store(store_file(named, config, os.environ, Path.cwd()), wait_seconds=0)
            with store.read(may_migrate=False) as con:
                names = (value for (value,) in con.execute(_STORED[name]).fetchall())
                return [
                    value for value in names if re.fullmatch(_HARMLESS, value) and visible(value) == value
                ]
        return []

    return complete


def dimensions(incomplete: str) -> list[str]:
    """Complete the last name of a comma-separated list."""
    from gpucost.questions.report.query import DIMENSIONS

    before = incomplete[: incomplete.rfind(",") + 1]
    return [before + name for name in DIMENSIONS if name not in before.split(",")]
