"""Secrets: in files, environment variables or the system's keyring; the configuration only says where."""

from __future__ import annotations

import os
from pathlib import Path

from gpucost.errors import ConfigError, GpucostError
from gpucost.texts import conceal

# A variable of this name is no variable: `keyring:SERVICE/NAME`.
KEYRING = "keyring:"


def secret(
    section: str,
    name: str,
    file: Path | None = None,
    variable: str | None = None,
    error: type[GpucostError] = ConfigError,
) -> str | None:
    """The secret `name` of `section`, on one line: from `file`, else from `variable`; None where neither is configured.

    A variable called `keyring:SERVICE/NAME` is looked up in the keyring. Raises `error` for a file that cannot be read, for what
    is not set, and for more than one line, never with what it read.
    """
    if file is not None:
        where = f"[{section}] {name}_file"
        try:
            value = file.read_text(encoding="utf-8").strip()
        except UnicodeDecodeError:
            raise error(f"{where}: {file} is no text") from None
        except OSError as failure:
            raise error(f"{where}: cannot read {file}: {failure.strerror}", f"put it into {file}") from None
        return _one_line(value, f"{where} ({file})", error)
    return from_variable(section, f"{name}_env", variable, error) if variable is not None else None


def from_variable(section: str, key: str, variable: str, error: type[GpucostError] = ConfigError) -> str:
    """What the environment variable or the keyring holds. Raises `error` as `secret` does."""
    where = f"[{section}] {key}"
    if variable.startswith(KEYRING):
        value = _from_keyring(where, variable, error)
    else:
        value = os.environ.get(variable, "").strip()
        if not value:
            raise error(f"{where}: the environment variable {variable} is not set", f"export {variable}=…")
    return _one_line(value, f"{where} ({variable})", error)


def from_environment(variable: str) -> str:
    """What a variable holds that no setting names, since other programs know it by this name, too; '' where it is not set."""
    value = os.environ.get(variable, "").strip()
    conceal(value)
    return value


def _from_keyring(where: str, place: str, error: type[GpucostError]) -> str:
    service, _, name = place.removeprefix(KEYRING).rpartition("/")
    if not service or not name:
        raise error(f"{where}: {place} is no place in a keyring", f"write it as {KEYRING}SERVICE/NAME")
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise error(f"{where}: {place} needs the package keyring", "pip install 'gpucost[keyring]'") from None
    try:
        value = keyring.get_password(service, name)
    except KeyringError as failure:
        raise error(
            f"{where}: the keyring cannot be read: {type(failure).__name__}",
            "keyring diagnose says which is used",
        ) from None
    if not value:
        raise error(f"{where}: the keyring holds no {service}/{name}", f"keyring set {service} {name}")
    return str(value).strip()


def _one_line(value: str, where: str, error: type[GpucostError]) -> str:
    if not value:
        raise error(f"{where} is empty")
    # a client would repeat all of it in its error about a header
    if len(value.splitlines()) > 1:
        raise error(f"{where} holds more than one line")
    conceal(value)
    return value
