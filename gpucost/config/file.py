"""Where settings stand: finding and reading `gpucost.toml`, laying GPUCOST_* variables over it, and remembering the lines."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from gpucost.errors import ConfigError

FILE_NAME = "gpucost.toml"
PREFIX = "GPUCOST_"

# Keys whose values are paths, taken relative to the file (or directory) they were written in.
PATH_KEYS = frozenset(
    {
        "store", "book", "fx_rates", "bearer_token_file", "password_file", "ca_file", "cert_file", "key_file",
        "webhook_url_file", "url_file",
    }
)  # fmt: skip

Key = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_ASSIGNMENT = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^.\s]+))\s*""")


@dataclass
class Settings:
    """Raw settings, not validated, and where each came from: a line of the file, a variable or an option."""

    path: Path | None
    base: Path
    values: dict[str, Any] = field(default_factory=dict)
    lines: dict[Key, int] = field(default_factory=dict)
    overrides: dict[Key, str] = field(default_factory=dict)

    def put(self, key: Key, value: Any, origin: str, base: Path, *, only_if_missing: bool = False) -> None:
        """Set `key`, coming from `origin`; relative paths are taken from `base`."""
        table: Any = self.values
        for part in key[:-1]:
            table = table[part] if isinstance(part, int) else table.setdefault(part, {})
        if only_if_missing and key[-1] in table:
            return
        table[key[-1]] = absolute(value, base, key[-1])
        self.overrides[key] = origin

    def origin(self, key: Key) -> str | None:
        """Where `key`, or else the nearest table around it, was set; None for a default."""
        for end in range(len(key), 0, -1):
            if key[:end] in self.overrides:
                return self.overrides[key[:end]]
            if key[:end] in self.lines:
                return f"{self.path}:{self.lines[key[:end]]}"
        return next((origin for inner, origin in self.overrides.items() if inner[: len(key)] == key), None)

    def line(self, key: Key) -> int:
        """The line of `key`, or else of the nearest table around it; 0 where it is not from the file."""
        return next((self.lines[key[:end]] for end in range(len(key), 0, -1) if key[:end] in self.lines), 0)

    def origins(self) -> dict[str, str]:
        """Where each key was set, by its dotted name, deepest first; tables only where they stand on one line."""
        keys = sorted({*self.lines, *self.overrides}, key=len, reverse=True)
        tables = {key[:end] for key in keys for end in range(1, len(key))}
        return {dotted(key): self.origin(key) or "" for key in keys if key not in tables}


def read(path: Path | None, environ: Mapping[str, str], cwd: Path, *, known: frozenset[str]) -> Settings:
    """The settings of the config file, if there is one, under those of the environment.

    `known` are the names of the top level. Raises ConfigError where a file that was asked for is missing or broken.
    """
    found = find(path, environ, cwd)
    settings = Settings(found, found.parent if found else cwd)
    if found:
        settings.values, settings.lines = _parse(found)
    settings.values = absolute(settings.values, settings.base)
    if isinstance(settings.values.get("prometheus"), dict):
        settings.values["prometheus"] = [settings.values["prometheus"]]
        settings.lines = {_in_first(key): line for key, line in settings.lines.items()}
    for name in sorted(environ):
        _overlay(settings, name, environ[name], cwd, known)
    return settings


def find(path: Path | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """The config file in force, absolute; None where there is none. Raises ConfigError if one was named and is not there."""
    named = environ.get(f"{PREFIX}CONFIG")
    for given, by in ((path, "option --config"), (Path(named) if named else None, f"variable {PREFIX}CONFIG")):
        if given is not None:
            wanted = cwd / given.expanduser()
            if wanted.is_dir() and wanted.name != FILE_NAME:
                wanted = wanted / FILE_NAME
            if wanted.is_dir():
                raise _directory(wanted)
            if not wanted.exists():
                raise ConfigError(f"no config file at {wanted} ({by})", "gpucost init writes one; --config names another")
            return wanted
    found = next((place for place in places(environ, cwd) if place.exists()), None)
    if found and found.is_dir():
        raise _directory(found)
    return found


def _directory(path: Path) -> ConfigError:
    return ConfigError(f"{path} is a directory, not a config file", "move it away, or name a file with --config")


def places(environ: Mapping[str, str], cwd: Path) -> list[Path]:
    """Where a config file is looked for when none is named, in this order."""
    home = Path(environ.get("HOME") or Path.home())
    return [cwd / FILE_NAME, Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "gpucost" / FILE_NAME]


def absolute(value: Any, base: Path, key: str | int = "") -> Any:
    """`value` with every relative path in it (see PATH_KEYS) made absolute from `base`."""
    if isinstance(value, dict):
        return {name: absolute(item, base, name) for name, item in value.items()}
    if isinstance(value, list):
        return [absolute(item, base) for item in value]
    return str(base / Path(value).expanduser()) if key in PATH_KEYS and isinstance(value, str) and value else value


def dotted(key: Key) -> str:
    """`("prometheus", 0, "url")` as `prometheus[0].url`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).lstrip(".")


def as_toml(value: Any) -> str:
    """A value as TOML writes it; JSON's spelling of strings, numbers, booleans and arrays is TOML's too."""
    return json.dumps(value, ensure_ascii=False, default=lambda other: float(other) if isinstance(other, Decimal) else str(other))


def _parse(path: Path) -> tuple[dict[str, Any], dict[Key, int]]:
    try:
        text = path.read_text(encoding="utf-8")
        return tomllib.loads(text), line_numbers(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", "make it a readable UTF-8 text file") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}", "mend that line; text needs quotes, tables [brackets]") from None


def line_numbers(text: str) -> dict[Key, int]:
    """The line of each key and table header, by key; tomllib keeps no positions. Keys inside inline tables are left out."""
    lines: dict[Key, int] = {}
    counts: dict[Key, int] = {}
    table: Key = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _indexed(_split(header[2]), counts, is_new=header[1] == "[[")
            lines.setdefault(table, number)
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault(table + _split(assignment[1]), number)
    return lines


def _split(name: str) -> Key:
    return tuple(double or single or bare for double, single, bare in _PART.findall(name))


def _indexed(name: Key, counts: dict[Key, int], *, is_new: bool) -> Key:
    """The key of a table header, with the running index of each array of tables on the way."""
    key: Key = ()
    for position, part in enumerate(name):
        key += (part,)
        if is_new and position == len(name) - 1:
            counts[key] = counts.get(key, -1) + 1
        if key in counts:
            key += (counts[key],)
    return key


def _in_first(key: Key) -> Key:
    return ("prometheus", 0, *key[1:]) if key[0] == "prometheus" else key


def _overlay(settings: Settings, name: str, text: str, cwd: Path, known: frozenset[str]) -> None:
    """Lay one variable over the settings; an empty one counts as unset.

    Variables that are none of ours are left alone (Kubernetes makes GPUCOST_PORT).
    """
    if not text or not name.startswith(PREFIX) or name == f"{PREFIX}CONFIG":
        return
    parts = name.removeprefix(PREFIX).lower().split("__")
    if parts[0] not in known:
        near = difflib.get_close_matches(parts[0], known, 1, 0.79)
        if near:
            raise ConfigError(f"variable {name} is no setting", f"did you mean {PREFIX}{near[0].upper()}?")
        return
    key: Key = tuple(parts)
    if parts[0] == "prometheus" and len(parts) > 1:
        if not settings.values.get("prometheus"):
            settings.values["prometheus"] = [{}]
        if len(settings.values["prometheus"]) > 1:
            message = f"variable {name} does not say which of several [[prometheus]] it means"
            raise ConfigError(message, f"set it in {settings.path}")
        key = ("prometheus", 0, *parts[1:])
    try:
        value = json.loads(text) if text.startswith(("[", "{")) else text
        settings.put(key, value, f"variable {name}", cwd)
    except ValueError as error:
        raise ConfigError(f"variable {name} is not valid JSON: {error}", 'write lists as ["a", "b"]') from None
    except (TypeError, AttributeError, IndexError):
        raise ConfigError(f"variable {name} goes into a key that is no table", "name a key from docs/config.md") from None
