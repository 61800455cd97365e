"""`gpucost init`: write a commented gpucost.toml, asking only what cannot be found out."""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, note, put


@handle_errors
def init(
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Prometheus' URL, instead of looking for one.", show_default=False)
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; take what was found, else the defaults.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Write a commented gpucost.toml to start from.

    Looks for a Prometheus on this machine, in PROMETHEUS_URL and, in a pod, in the cluster; asks only if there is none.

    \b
    Examples:
      gpucost init
      gpucost init --yes --url https://prometheus.example.com
      gpucost init --config ~/.config/gpucost/gpucost.toml
    """
    from gpucost import discover
    from gpucost.config import PrometheusSource, shown_url
    from gpucost.config.file import FILE_NAME
    from gpucost.errors import ConfigError

    target = (config or Path(FILE_NAME)).expanduser()
    if target.is_dir():
        target = target / FILE_NAME
    if target.exists() and not force:
        raise ConfigError(f"{target} is there already", "gpucost init --force overwrites it; --config FILE writes another")
    server = discover.probe(url.rstrip("/")) if url else discover.first_server(discover.candidates(os.environ))
    chosen = url or (server.url if server else None)
    if chosen is None:
        may_ask = not yes and sys.stdin.isatty()
        note("found no Prometheus on this machine" + ("" if may_ask else f"; taking {discover.LOCAL}"), quiet=quiet)
        chosen = typer.prompt("URL of your Prometheus", default=discover.LOCAL, err=True) if may_ask else discover.LOCAL
        server = discover.probe(chosen.rstrip("/"))
    try:
        chosen = PrometheusSource(url=chosen).url
    except ValueError as error:
        raise ConfigError(f"{shown_url(chosen)} cannot be used: {_first_reason(error)}", "give --url http://HOST:PORT") from None
    _write(target, {"url": chosen, "timezone": discover.timezone(), "store": str(store or "gpucost.duckdb")})
    put(f"wrote {target}")
    note(_about(server, chosen), quiet=quiet)
    note(_advice(target, server.retention if server else None), quiet=quiet)


def _write(target: Path, answers: dict[str, str]) -> None:
    from gpucost.errors import ConfigError

    text = files("gpucost.cli").joinpath("starter.toml").read_text(encoding="utf-8")
    for name, answer in answers.items():
        text = text.replace(f'"@{name}@"', json.dumps(answer, ensure_ascii=False))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {target}: {error.strerror}", "--config names another file") from None


def _first_reason(error: ValueError) -> str:
    from pydantic import ValidationError

    reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
    return reason.removeprefix("Value error, ")


def _about(server: object, url: str) -> str:
    from gpucost.discover import Server

    if not isinstance(server, Server):
        return f"note: nothing that speaks Prometheus' API answers at {url} yet"
    if server.needs_login:
        return f"note: {url} wants a login; name a token file or password under [prometheus]"
    return f"found {url}" + (f", version {server.version}" if server.version else "")


def _advice(target: Path, retention: str | None) -> str:
    forgets = f"Prometheus forgets after {retention}" if retention else "Prometheus forgets, by default after 15 days"
    cron = f"15 2 * * *  {shutil.which('gpucost') or 'gpucost'} collect prometheus -q --config {target.resolve()}"
    steps = "\n  ".join(["next:", "gpucost doctor", "gpucost collect prometheus", "gpucost report"])
    return f"\n{forgets}: collect every day, by cron for example:\n  {cron}\n\n{steps}"
