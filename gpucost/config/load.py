"""Read the configuration: options over GPUCOST_* variables over `gpucost.toml` over defaults."""

import json
import os
import re
import tomllib
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from gpucost import inputs
from gpucost.config.files import PREFIX, Environ, find
from gpucost.config.model import Config, StoreSettings, shown_url
from gpucost.errors import ConfigError
from gpucost.suggest import did_you_mean
from gpucost.texts import conceal

# Keys with path values, relative to their file (or the working directory).
PATH_KEYS = frozenset(
    {
        "path", "book", "fx_rates", "bearer_token_file", "token_file", "password_file", "ca_file", "cert_file", "key_file",
        "webhook_url_file",
    }
)  # fmt: skip

Key = tuple[str | int, ...]
Model = type[BaseModel]
# Line of each key.
Lines = dict[Key, int]
_STORE: Key = ("store", "path")

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_ASSIGNMENT = re.compile(
    r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([^.\s]+))\s*""")


@dataclass
class Settings:
    """Raw, unvalidated settings. `origins` has the line (0 for none) and a description of each key's source."""

    path: Path | None
    base: Path
    values: inputs.JsonObject = field(default_factory=dict)
    origins: dict[Key, tuple[int, str]] = field(default_factory=dict)

    def set(self, key: Key, value: Any, origin: str, base: Path) -> None:
        """Set `key` from `origin`; relative paths start at `base`."""
        table: Any = self.values
        for part in key[:-1]:
            table = table[part] if isinstance(part, int) else table.setdefault(part, {})
        table[key[-1]] = absolute(value, base, key[-1])
        self.origins[key] = (self.origin(key)[0], origin)

    def origin(self, key: Key) -> tuple[int, str]:
        """Line and description of the source of `key`, its nearest table, or a key in it; (0, "") for a
        default.
        """
        around = [key[:end] for end in range(len(key), 0, -1)]
        inside = [other for other in self.origins if other[: len(key)] == key]
        return next((self.origins[other] for other in (*around, *inside) if other in self.origins), (0, ""))

    def origin_names(self) -> dict[str, str]:
        """The source of each key, by dotted name, deepest first; of tables only if written on one line."""
        tables = {key[:end] for key in self.origins for end in range(1, len(key))}
        keys = sorted(self.origins.keys() - tables, key=len, reverse=True)
        return {dotted(key): self.origins[key][1] for key in keys}


def read(path: Path | None, environ: Environ, cwd: Path) -> Settings:
    """Settings from the config file, if there is one, overridden by the environment.

    Raises ConfigError if a named file is missing or invalid.
    """
    file = find(path, environ, cwd)
    settings = Settings(file, file.parent if file else cwd)
    if file:
        values, lines = parse_file(file)
        if isinstance(values.get("store"), str):
            values["store"] = {"path": values["store"]}
            lines["store", "path"] = lines.pop(("store",))
        settings.values = absolute(values, settings.base)
        is_single_server = isinstance(values.get("prometheus"), dict)
        if is_single_server:
            settings.values["prometheus"] = [settings.values["prometheus"]]
        for key, line in lines.items():
            place = ("prometheus", 0, *key[1:]) if is_single_server and key[0] == "prometheus" else key
            settings.origins[place] = (line, f"{file}:{line}")
    for name in sorted(environ):
        _overlay(settings, name, environ[name], cwd)
    return settings


def absolute(value: Any, base: Path, key: str | int = "") -> Any:
    """`value` with every relative path in it (see PATH_KEYS) made absolute from `base`."""
    if isinstance(value, dict):
        return {name: absolute(item, base, name) for name, item in value.items()}
    if isinstance(value, list):
        return [absolute(item, base) for item in value]
    if not isinstance(value, str) or not value:
        return value
    return str(base / Path(value).expanduser()) if key in PATH_KEYS else value


def dotted(key: Key) -> str:
    """`("prometheus", 0, "url")` as `prometheus[0].url`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).lstrip(".")


def as_toml(value: Any) -> str:
    """A value as TOML. JSON spells strings, numbers, booleans and arrays the same way."""
    return json.dumps(
        value,
        ensure_ascii=False,
        default=lambda other: float(other) if isinstance(other, Decimal) else str(other),
    )


def parse_file(path: Path) -> tuple[inputs.JsonObject, Lines]:
    """The values of a TOML file, and the line of each key. Raises ConfigError if it cannot be read."""
    try:
        text = inputs.text(path, inputs.SETTINGS)
        return inputs.toml(text), line_numbers(text)
    except (OSError, UnicodeDecodeError) as error:
        failure = inputs.unreadable(path, error, "make it a readable UTF-8 text file")
        raise ConfigError(failure.message, failure.fix) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path} is not valid TOML: {error}", "fix that line; strings need quotes, tables [brackets]"
        ) from None


def line_numbers(text: str) -> Lines:
    """The line of each key and table header, by key, without keys in inline tables; tomllib has no positions."""
    lines: Lines = {}
    counts: Lines = {}
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


def _indexed(name: Key, counts: Lines, *, is_new: bool) -> Key:
    """The key of a table header, with the index of each array of tables in it."""
    key: Key = ()
    for position, part in enumerate(name):
        key += (part,)
        if is_new and position == len(name) - 1:
            counts[key] = counts.get(key, -1) + 1
        if key in counts:
            key += (counts[key],)
    return key


def _overlay(settings: Settings, name: str, text: str, cwd: Path) -> None:
    """Apply one variable to the settings; an empty one counts as unset.

    Unrelated variables are ignored (Kubernetes sets GPUCOST_PORT).
    """
    if not text or not name.startswith(PREFIX) or name == f"{PREFIX}CONFIG":
        return
    key: Key = tuple(name.removeprefix(PREFIX).lower().split("__"))
    if key[0] not in fields_of(Config):
        if removed := _removed(key[:1]):
            raise ConfigError(f"variable {name} is for a setting that was removed", removed)
        hint = did_you_mean(
            str(key[0]), fields_of(Config), cutoff=0.79, shown=lambda name: PREFIX + name.upper()
        )
        if hint:
            raise ConfigError(f"variable {name} is not a setting", hint)
        return
    key = _STORE if key == ("store",) else key
    if key[0] == "prometheus" and len(key) > 1:
        if not settings.values.get("prometheus"):
            settings.values["prometheus"] = [{}]
        if len(settings.values["prometheus"]) > 1:
            message = f"variable {name} is ambiguous: there are several [[prometheus]]"
            raise ConfigError(message, f"set it in {settings.path}")
        key = ("prometheus", 0, *key[1:])
    try:
        value = json.loads(text) if text.startswith(("[", "{")) else text
        settings.set(key, value, f"variable {name}", cwd)
    except ValueError as error:
        raise ConfigError(
            f"variable {name} is not valid JSON: {error}", 'write lists as ["a", "b"]'
        ) from None
    except (TypeError, AttributeError, IndexError):
        raise ConfigError(
            f"variable {name} sets a key inside a value that is not a table",
            "gpucost config show lists the keys",
        ) from None


# Keys that would contain a plain-text secret, and their replacements.
SECRET_KEYS = {
    "bearer_token": "bearer_token_file or bearer_token_env",
    "token": "bearer_token_file or bearer_token_env",
    "authorization": "bearer_token_file or bearer_token_env",
    "password": "[prometheus.basic_auth] with username and password_file or password_env",
    "api_key": "headers_env",
}

# Removed keys, by name without indices, and their replacements.
REMOVED_KEYS: dict[str, str] = {
    "engine.workers": 'delete it, or set engine.name = "spark" to run tasks in parallel',
    "call_logs": "load the seller's bill: gpucost collect focus FILE",
    "gateway": "load the seller's bill: gpucost collect focus FILE",
    "notify.webhook": "send it with curl: gpucost report --format json | curl --json @- URL",
    "units.gateway": "count tokens at the server that makes them, and load the seller's bill for bought ones",
    "units.team_label": "use tenant_label",
    "units.provider_label": "load the seller's bill: gpucost collect focus FILE",
    "units.base_label": "load the seller's bill: gpucost collect focus FILE",
    "units.currency": "load the seller's bill: gpucost collect focus FILE",
    "aws.price_list_url": "delete it: AWS prices are queried with a login, at endpoint_url if it is set",
    "price_lists.litellm": "use the built-in list: gpucost prices tokens",
}

# Removed values of keys, and their replacements.
REMOVED_VALUES = {
    (
        "prices.cost_basis",
        "residual",
    ): 'use "sku", which gives the same split for clouds that do not sell cores and memory separately'
}

# Secrets in settings: the password and keys of a URL, and the options that Spark's logs redact.
_SECRET_PARTS = re.compile(
    r'(?i)(?:://|url=")[^/@":]*:(?!//)([^"]+)@|[?&](?:[^=&"]*[_-])?(?:sig|signature|key|apikey|token|secret|password)=([^&#"]+)'
    r'|spark_options\.[^=]*(?:secret|password|token|key)[^=]*="(.+)"'
)

# Keys of different tables with the same meaning.
SAME_KEYS = ({"from", "start", "since"}, {"to", "until", "end"})

_PLAIN_WORDS = {
    "missing": "is missing",
    "model_type": "should be a table",
    "dict_type": "should be a table",
    "list_type": "should be an array",
    "decimal_type": "should be a number",
    "decimal_parsing": "should be a number",
    "multiple_of": "should be a whole number",
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
}


def plain_words(detail: ErrorDetails) -> str:
    """The error of a value, without its name: `should be a number`."""
    message = detail["msg"].removeprefix("Value error, ").replace("Input should", "should")
    return _PLAIN_WORDS.get(detail["type"], message)


def explain(error: ValidationError, settings: Settings) -> tuple[str, str]:
    """The message and the fix for `error`, one line per invalid key."""
    details = sorted(error.errors(include_url=False), key=lambda detail: settings.origin(detail["loc"])[0])
    lines = ["invalid setting" if len(details) == 1 else f"{len(details)} invalid settings"]
    for detail in details:
        place = settings.origin(detail["loc"])[1]
        lines.append(f"{dotted(detail['loc']) or 'config'}{f' ({place})' if place else ''}: {_wrong(detail)}")
    return "\n  ".join(
        lines
    ), "gpucost init --config example.toml writes a file with every key and its meaning"


def _wrong(detail: ErrorDetails) -> str:
    loc, kind, value = detail["loc"], detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return _unknown(loc)
    if kind == "list_type" and isinstance(value, dict) and keys_at(loc):
        return f"write [[{'.'.join(str(part) for part in loc if isinstance(part, str))}]]"
    if kind == "missing" or kind.endswith("_type"):
        return plain_words(detail)
    if removed := REMOVED_VALUES.get((dotted(loc), str(value))):
        return f"the value {value!r} was removed; {removed}"
    message = plain_words(detail)
    # Hide values that could contain a credential by mistake.
    may_be_shown = not re.search("url|exports|headers|basic_auth|bearer_token_env|spark_options", dotted(loc))
    if may_be_shown and isinstance(value, str | int | float) and repr(value) not in message:
        message += f", got {value!r}"
    return message[:1].lower() + message[1:]


def _unknown(loc: Key) -> str:
    name = str(loc[-1])
    if removed := _removed(loc):
        return f"was removed; {removed}"
    if name.lower() in SECRET_KEYS:
        return f"secrets do not belong in this file; use {SECRET_KEYS[name.lower()]}"
    siblings = keys_at(loc[:-1])
    same = [key for key in siblings if any({key, name} <= keys for keys in SAME_KEYS)]
    elsewhere = [f"did you mean {key}?" for key in all_keys(Config) if key.rpartition(".")[2] == name]
    hint = did_you_mean(
        same[0] if same else name,
        siblings,
        "".join(elsewhere[:1]),
        shown=lambda key: dotted((*loc[:-1], key)),
    )
    return f"unknown key; {hint}" if hint else "unknown key"


def _removed(loc: Key) -> str | None:
    """The replacement of a removed key; None for any other key."""
    return REMOVED_KEYS.get(".".join(part for part in loc if isinstance(part, str)))


def keys_at(loc: Key) -> list[str]:
    """The keys allowed in the table at `loc`."""
    table = "".join(f"{part}." for part in loc if isinstance(part, str))
    below = [key.removeprefix(table) for key in all_keys(Config) if key.startswith(table)]
    return list(dict.fromkeys(key.partition(".")[0] for key in below))


def fields_of(model: Model) -> dict[str, FieldInfo]:
    """The fields of a table by their keys in a file."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def all_keys(model: Model, prefix: str = "") -> list[str]:
    """Every key of `model` by its dotted name."""
    keys = []
    for name, info in fields_of(model).items():
        section = section_of(info.annotation)
        keys += all_keys(section, f"{prefix}{name}.") if section else [f"{prefix}{name}"]
    return keys


def section_of(annotation: Any) -> Model | None:
    """The model inside an annotation such as `list[Team]` or `Tls | None`; None for plain values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inside = (section_of(argument) for argument in typing.get_args(annotation))
    return next((section for section in inside if section), None)


def load_config(
    path: Path | None = None,
    *,
    store: Path | None = None,
    environ: Environ = os.environ,
    cwd: Path | None = None,
) -> Config:
    """The configuration: option over environment over `./gpucost.toml` over the user's file over defaults.

    `path` and `store` are the options --config and --store. Relative paths in a file, and the default store,
    start at the file's folder; relative paths of options and variables, and the default store without a file,
    at `cwd`. Raises ConfigError with every invalid key and its file and line, or its variable.
    """
    cwd = cwd or Path.cwd()
    settings = read(path, environ, cwd)
    if isinstance(
        store_settings := settings.values.setdefault("store", {}), dict
    ):  # otherwise invalid, and the model reports it
        if store is not None:
            settings.set(_STORE, str(store), "option --store", cwd)
        elif "path" not in store_settings:
            settings.set(_STORE, str(StoreSettings.model_fields["path"].default), "default", settings.base)
    try:
        config = Config.model_validate(settings.values)
    except ValidationError as error:
        raise ConfigError(*explain(error, settings)) from None
    config._path = settings.path
    config._origins = settings.origin_names()
    for key, value in _leaves("", config.model_dump(by_alias=True)):
        for parts in _SECRET_PARTS.findall(f"{key}={as_toml(value)}"):
            conceal("".join(parts))
    return config


def resolved(config: Config) -> list[tuple[str, str, str]]:
    """Rows of (key, value, source) for every setting.

    Secrets are not read. Values of headers and Spark options, and logins and queries of URLs, are hidden.
    """
    rows = []
    for key, value in _leaves("", config.model_dump(by_alias=True)):
        places = (
            place
            for set_key, place in config._origins.items()
            if f"{key}.".startswith((f"{set_key}.", f"{set_key}["))
        )
        text = "(hidden)" if re.search(r"\.(headers|spark_options)\.", key) else as_toml(_visible(key, value))
        rows.append((key, text, next(places, "default")))
    return rows


def _visible(key: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_visible(key, item) for item in value]
    return shown_url(value) if isinstance(value, str) and ("://" in value or key.endswith("url")) else value


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(f"{prefix}.{key}" if prefix else key, item)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, item in enumerate(value):
            yield from _leaves(f"{prefix}[{index}]", item)
    elif value is not None:
        yield prefix, value
