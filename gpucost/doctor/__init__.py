"""What is wrong with config, store, servers, metrics and prices, and the one command or setting that mends each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from gpucost.config import Config, load_config
from gpucost.config.file import places
from gpucost.doctor.check import Check, Status
from gpucost.doctor.local import check_coverage, check_prices, check_store
from gpucost.doctor.server import check_server
from gpucost.errors import ConfigError

__all__ = ["Check", "Status", "examine"]


def examine(
    config_path: Path | None, store_path: Path | None, now: datetime, *, environ: Mapping[str, str] = os.environ
) -> Iterator[Check]:
    """Every check, as it is made. Raises nothing: what cannot be examined is a check that failed.

    A config that cannot be read ends the examination, since it says where everything else is.
    """
    try:
        config = load_config(config_path, store=store_path, environ=environ)
    except ConfigError as error:
        yield Check("config", "settings", Status.fail, error.message, error.fix)
        return
    yield _config_file(config, environ)
    yield from check_store(config, now)
    for source in config.prometheus:
        yield from check_server(source, config, now)
    yield from check_prices(config, now)
    yield from check_coverage(config)


def _config_file(config: Config, environ: Mapping[str, str]) -> Check:
    if config.path:
        return Check("config", str(config.path), Status.ok, f"read; {len(config.prometheus)} server(s)")
    looked = ", ".join(str(place) for place in places(environ, Path.cwd()))
    return Check("config", "file", Status.warn, f"none; defaults are in force. Looked for {looked}", "gpucost init")
