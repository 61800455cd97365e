"""Secrets of the ways of sending: from the file or the variable that the configuration names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpucost.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def secret(section: str, name: str, file: Path | None, variable: str | None) -> str | None:
    """The secret `name` of `section`, on one line: from `file`, else from `variable`; None where neither is configured.

    Raises ConfigError for a file that cannot be read, a variable that is not set, or more than one line, never with its text.
    """
    if file is not None:
        try:
            value = file.read_text(encoding="utf-8").strip()
        except UnicodeDecodeError:
            raise ConfigError(f"[{section}] {name}_file: {file} is no text") from None
        except OSError as error:
            raise ConfigError(f"[{section}] {name}_file: cannot read {file}: {error.strerror}", f"put it into {file}") from None
        return _one_line(value, f"[{section}] {name}_file ({file})")
    if variable is not None:
        return from_variable(section, f"{name}_env", variable)
    return None


def from_variable(section: str, key: str, variable: str) -> str:
    """What the environment variable holds. Raises ConfigError as `secret` does."""
    value = os.environ.get(variable, "").strip()
    if not value:
        raise ConfigError(f"[{section}] {key}: the environment variable {variable} is not set", f"export {variable}=…")
    return _one_line(value, f"[{section}] {key} ({variable})")


def _one_line(value: str, where: str) -> str:
    if not value:
        raise ConfigError(f"{where} is empty")
    if len(value.splitlines()) > 1:
        raise ConfigError(f"{where} holds more than one line")
    return value
