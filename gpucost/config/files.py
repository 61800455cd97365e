"""Locations of the config file and the store. Shell completion imports this module, so it must import fast."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from gpucost import inputs
from gpucost.errors import ConfigError

Environ = Mapping[str, str]
FILE_NAME = "gpucost.toml"
PREFIX = "GPUCOST_"
STORE_NAME = "gpucost.duckdb"


def find(path: Path | None, environ: Environ, cwd: Path) -> Path | None:
    """The config file in use, absolute; None without one. Raises ConfigError if a named file is missing."""
    variable = f"{PREFIX}CONFIG"
    named = path or (Path(environ[variable]) if environ.get(variable) else None)
    if named is None:
        file = next((place for place in places(environ, cwd) if place.exists()), None)
    else:
        file = cwd / named.expanduser()
        if file.is_dir() and file.name != FILE_NAME:
            file = file / FILE_NAME
        if not file.exists():
            by = f"variable {variable}" if path is None else "option --config"
            raise ConfigError(
                f"config file not found: {file} ({by})", "gpucost init writes one; --config names another"
            )
    if file and file.is_dir():
        raise ConfigError(
            f"{file} is a directory, not a config file", "move it away, or name a file with --config"
        )
    return file


def places(environ: Environ, cwd: Path) -> list[Path]:
    """Default locations of a config file, in order."""
    found = [cwd / FILE_NAME]
    with suppress(RuntimeError):  # a user without a home directory, as in many containers
        folder = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME") or Path.home()) / ".config"
        found.append(Path(folder) / "gpucost" / FILE_NAME)
    return found


def store_file(named: Path | None, config: Path | None, environ: Environ, cwd: Path) -> Path:
    """The store in use, by --store and --config, for a valid configuration.

    Raises ConfigError, OSError or ValueError if the config file cannot be read.
    """
    file = find(config, environ, cwd)
    base, value = cwd, named or environ.get(f"{PREFIX}STORE") or environ.get(f"{PREFIX}STORE__PATH")
    if not value and file:
        base, value = file.parent, inputs.toml(inputs.text(file, inputs.SETTINGS)).get("store")
        value = value.get("path") if isinstance(value, dict) else value
    return base / Path(value or STORE_NAME).expanduser()
