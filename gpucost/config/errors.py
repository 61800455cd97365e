"""What is wrong with a configuration, in words: every wrong key with its place, and the nearest right one."""

from __future__ import annotations

import difflib
import typing
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from gpucost.config.file import Key, Settings, dotted

# Keys that would hold a secret in clear, and what to write instead.
SECRET_KEYS = {
    "bearer_token": "bearer_token_file or bearer_token_env",
    "token": "bearer_token_file or bearer_token_env",
    "authorization": "bearer_token_file or bearer_token_env",
    "password": "[prometheus.basic_auth] with username and password_file or password_env",
    "api_key": "headers_env",
}

# Keys of different tables that mean the same.
SAME_KEYS = ({"from", "start", "since"}, {"to", "until", "end"})

PLAIN_WORDS = {
    "missing": "is missing",
    "model_type": "should be a table",
    "dict_type": "should be a table",
    "list_type": "should be an array",
}


def explain(error: ValidationError, settings: Settings, model: type[BaseModel]) -> tuple[str, str]:
    """The message and the fix for all that `error` found in `settings`, one line for each wrong key."""
    found = sorted(error.errors(include_url=False), key=lambda detail: settings.line(detail["loc"]))
    lines = [f"{dotted(detail['loc']) or 'config'}{_place(detail['loc'], settings)}: {_wrong(detail, model)}" for detail in found]
    count = "a wrong setting" if len(lines) == 1 else f"{len(lines)} wrong settings"
    return "\n  ".join([count, *lines]), "docs/config.md lists every key; gpucost init writes a file to start from"


def _place(loc: Key, settings: Settings) -> str:
    origin = settings.origin(loc)
    return f" ({origin})" if origin else ""


def _wrong(detail: ErrorDetails, model: type[BaseModel]) -> str:
    if detail["type"] == "extra_forbidden":
        return _unknown(detail["loc"], model)
    if detail["type"] == "list_type" and isinstance(detail["input"], dict) and keys_at(detail["loc"], model):
        return f"write [[{'.'.join(str(part) for part in detail['loc'] if isinstance(part, str))}]]"
    if detail["type"] in PLAIN_WORDS:
        return PLAIN_WORDS[detail["type"]]
    said = detail["msg"].removeprefix("Value error, ").replace("Input should", "should")
    value = detail["input"]
    if _may_be_shown(detail["loc"]) and isinstance(value, str | int | float) and repr(value) not in said:
        said += f", got {value!r}"
    return said[:1].lower() + said[1:]


def _may_be_shown(loc: Key) -> bool:
    """Values that could hold a credential by mistake stay out of messages."""
    return not {"url", "headers", "headers_env", "basic_auth", "bearer_token_env"} & set(loc)


def _unknown(loc: Key, model: type[BaseModel]) -> str:
    name = str(loc[-1])
    if name.lower() in SECRET_KEYS:
        return f"secrets are not written here; use {SECRET_KEYS[name.lower()]}"
    siblings = keys_at(loc[:-1], model)
    same = [key for key in siblings if any({key, name} <= keys for keys in SAME_KEYS)]
    near = same or difflib.get_close_matches(name, siblings, 1, 0.6)
    if near:
        return f"no such key; did you mean {dotted((*loc[:-1], near[0]))}?"
    elsewhere = [key for key in all_keys(model) if key.rpartition(".")[2] == name]
    return f"no such key; did you mean {elsewhere[0]}?" if elsewhere else "no such key"


def keys_at(loc: Key, model: type[BaseModel]) -> list[str]:
    """The keys that the table at `loc` may hold."""
    section: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, str):
            annotation = fields_of(section)[part].annotation if section and part in fields_of(section) else None
            section = section_of(annotation)
    return list(fields_of(section)) if section else []


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a table by the keys that a file calls them."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def all_keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Every key of `model` by its dotted name."""
    keys = []
    for name, info in fields_of(model).items():
        section = section_of(info.annotation)
        keys += all_keys(section, f"{prefix}{name}.") if section else [f"{prefix}{name}"]
    return keys


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The model inside an annotation such as `list[Team]` or `Tls | None`; None for plain values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inside = (section_of(argument) for argument in typing.get_args(annotation))
    return next((section for section in inside if section), None)
