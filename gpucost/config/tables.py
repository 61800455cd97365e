"""TOML files of tables, such as plans and rules: errors name file, line, key and the nearest known key."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from gpucost import inputs
from gpucost.config.load import Key, Model, fields_of, line_numbers, plain_words, section_of
from gpucost.errors import DataError
from gpucost.suggest import did_you_mean

M = TypeVar("M", bound=BaseModel)


class TableFile(NamedTuple):
    """The text of a file. `kinds`: models of a tagged array's tables, by tag. `hint`: the fallback fix."""

    path: Path | None
    text: str
    kinds: Mapping[str, Model]
    hint: str

    @classmethod
    def read(cls, path: Path, kinds: Mapping[str, Model], hint: str) -> TableFile:
        """The file at a path. Raises DataError if it cannot be read."""
        try:
            return cls(path, inputs.text(path, inputs.SETTINGS), kinds, hint)
        except (OSError, UnicodeDecodeError) as error:
            raise inputs.unreadable(path, error, hint) from None

    def parsed(self, model: type[M]) -> M:
        """The tables. Raises DataError."""
        try:
            return model.model_validate(inputs.toml(self.text, parse_float=Decimal))
        except tomllib.TOMLDecodeError as error:
            raise DataError(f"{self.path} is not valid TOML: {error}", self.hint) from None
        except ValidationError as error:
            raise self._wrong(model, error) from None

    def unique(self, array: str, names: list[str]) -> None:
        """Raise DataError if two tables of an array have the same name."""
        for number, name in enumerate(names):
            if name in names[:number]:
                raise self.error((array, number, "name"), f"two {array} are named {name!r}")

    def error(self, loc: Key, message: str, fix: str = "") -> DataError:
        """An error at a key, with file and line."""
        lines = line_numbers(self.text)
        line = lines.get(loc[:3]) or lines.get(loc[:2])
        where = f"{self.path}, line {line}" if line else f"{self.path}"
        place = f" in [[{loc[0]}]] {int(loc[1]) + 1}" if len(loc) > 1 else ""
        return DataError(f"{where}{place}: {message}", fix or self.hint)

    def _wrong(self, model: Model, error: ValidationError) -> DataError:
        """The first error; unknown keys before missing keys."""
        detail = min(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
        kind, loc = detail["type"], detail["loc"]
        table = model if len(loc) == 1 else section_of(fields_of(model)[str(loc[0])].annotation) or model
        name = table.__name__.lower()
        if len(loc) > 2 and loc[2] in self.kinds:
            name, loc = str(loc[2]), (*loc[:2], *loc[3:])
            table = self.kinds[name]
        key = "" if len(loc) == 2 else str(loc[0] if len(loc) == 1 else loc[2])
        message = plain_words(detail)
        if kind == "extra_forbidden":
            return self.error(loc, f"unknown key {key!r}", nearest(key, fields_of(table)))
        if kind == "missing":
            return self.error(loc, f"{name} needs {key}")
        if kind.startswith("union_tag"):
            context: dict[str, Any] = detail.get("ctx", {})
            named, tag = context["discriminator"].strip("'"), context.get("tag", "")
            message = f"invalid {named} {tag!r}" if tag else f"{named} is missing"
            return self.error((*loc[:2], named), message, nearest(tag, self.kinds))
        if key:
            value = detail["input"]
            display = repr(value) if isinstance(value, str) else value
            message = f"{key}: {message}, got {display}"
        return self.error(loc, message)


def nearest(name: str, existing: Collection[str]) -> str:
    """The nearest known name, otherwise all names."""
    return did_you_mean(name, existing, f"use one of {', '.join(existing)}", cutoff=0.5, shown=repr)
