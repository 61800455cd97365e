"""The program: every command, and nothing that a command does."""

from __future__ import annotations

from typing import Annotated

import typer

from gpucost import __version__
from gpucost.cli.collect_prometheus import collect_prometheus
from gpucost.cli.config_show import config_show
from gpucost.cli.demo import demo
from gpucost.cli.doctor import doctor
from gpucost.cli.init import init
from gpucost.cli.report import report
from gpucost.cli.sql import sql
from gpucost.cli.store_info import store_info


def _group(help: str) -> typer.Typer:
    return typer.Typer(
        help=help,
        no_args_is_help=True,
        # Plain help comes up in a third of the time that boxes take, and reads the same in a pipe.
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gpucost {__version__}")
        raise typer.Exit


app = _group("What your GPUs cost, who used them, and what you could do about it.")


@app.callback(
    epilog="Start with: gpucost demo. Exit codes: 0 done, 1 failed, 2 wrong usage, 4 the period asked for is incomplete, "
    "130 interrupted.",
)
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """What your GPUs cost, who used them, and what you could do about it."""


config_group = _group("The configuration in force.")
config_group.command("show")(config_show)

collect_group = _group("Pull data from a source into the store.")
collect_group.command("prometheus")(collect_prometheus)

store_group = _group("The store: one DuckDB file.")
store_group.command("info")(store_info)

app.command("demo")(demo)
app.command("init")(init)
app.command("doctor")(doctor)
app.add_typer(config_group, name="config")
app.add_typer(collect_group, name="collect")
app.command("report")(report)
app.add_typer(store_group, name="store")
app.command("sql")(sql)
