"""Reading the configuration: options over GPUCOST_* variables over `gpucost.toml` over defaults."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpucost.config import errors, file
from gpucost.config.model import Config
from gpucost.config.servers import shown_url
from gpucost.errors import ConfigError


def load_config(
    path: Path | None = None,
    *,
    store: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    cwd: Path | None = None,
) -> Config:
    """The configuration in force: option over environment over `./gpucost.toml` over the user's file over defaults.

    `path` and `store` are the options --config and --store. Relative paths in a file, and the default store, lie
    beside that file; those of options and variables, and the default store without a file, in `cwd`.
    Raises ConfigError, naming every wrong key with its file and line or its variable.
    """
    cwd = cwd or Path.cwd()
    settings = file.read(path, environ, cwd, known=frozenset(Config.model_fields))
    settings.put(("store",), str(Config.model_fields["store"].default), "default", settings.base, only_if_missing=True)
    if store is not None:
        settings.put(("store",), str(store), "option --store", cwd)
    try:
        config = Config.model_validate(settings.values)
    except ValidationError as error:
        raise ConfigError(*errors.explain(error, settings, Config)) from None
    config._path = settings.path
    config._origins = settings.origins()
    return config


def resolved(config: Config) -> list[tuple[str, str, str]]:
    """Rows of (key, value, where it comes from) for every setting. Secrets are not read; values of headers are hidden."""
    rows = []
    for key, value in _leaves("", config.model_dump(by_alias=True)):
        origin = next(
            (text for known, text in config._origins.items() if (key + ".").startswith((f"{known}.", f"{known}["))), "default"
        )
        hidden = ".headers." in key
        value = shown_url(value) if key.endswith(".url") else value
        rows.append((key, "(hidden)" if hidden else file.as_toml(value), origin))
    return rows


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else key, item)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, item in enumerate(value):
            yield from _leaves(f"{prefix}[{index}]", item)
    elif value is not None:
        yield prefix, value
