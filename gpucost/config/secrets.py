"""Secrets from files, environment variables or the system's keyring; the configuration names the place."""

import os
from pathlib import Path

from gpucost.errors import ConfigError, GpucostError
from gpucost.installation import with_extra
from gpucost.texts import conceal

# Prefix of a keyring entry in place of a variable: `keyring:SERVICE/NAME`.
KEYRING = "keyring:"


def secret(
    section: str,
    name: str,
    file: Path | None = None,
    variable: str | None = None,
    error: type[GpucostError] = ConfigError,
) -> str | None:
    """The secret `name` of `section`, from `file`, otherwise from `variable`; None if neither is configured.

    `keyring:SERVICE/NAME` instead of a variable reads the keyring. Raises `error`, without the secret, if the
    file cannot be read, the variable or entry is missing, or the secret has several lines.
    """
    if file is not None:
        where = f"[{section}] {name}_file"
        try:
            value = file.read_text("utf-8").strip()
        except UnicodeDecodeError:
            raise error(f"{where}: {file} is not a text file") from None
        except OSError as failure:
            raise error(f"{where}: cannot read {file}: {failure.strerror}", f"write it to {file}") from None
        return _single_line(value, f"{where} ({file})", error)
    return from_variable(section, f"{name}_env", variable, error) if variable is not None else None


def from_variable(section: str, key: str, variable: str, error: type[GpucostError] = ConfigError) -> str:
    """The value of the environment variable or keyring entry. Raises `error` as `secret` does."""
    where = f"[{section}] {key}"
    if variable.startswith(KEYRING):
        value = _from_keyring(where, variable, error)
    else:
        value = os.environ.get(variable, "").strip()
        if not value:
            raise error(f"{where}: the environment variable {variable} is not set", f"export {variable}=…")
    return _single_line(value, f"{where} ({variable})", error)


def from_environment(variable: str) -> str:
    """The value of a variable that other programs use, too, and no setting names; '' if it is not set."""
    value = os.environ.get(variable, "").strip()
    conceal(value)
    return value


def _from_keyring(where: str, place: str, error: type[GpucostError]) -> str:
    service, _, name = place.removeprefix(KEYRING).rpartition("/")
    if not service or not name:
        raise error(f"{where}: invalid keyring entry {place}", f"write it as {KEYRING}SERVICE/NAME")
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        raise error(f"{where}: {place} needs the package keyring", with_extra("keyring")) from None
    try:
        value = keyring.get_password(service, name)
    except KeyringError as failure:
        raise error(
            f"{where}: cannot read the keyring: {type(failure).__name__}",
            "run keyring diagnose to see which one is used",
        ) from None
    if not value:
        raise error(f"{where}: {service}/{name} is not in the keyring", f"keyring set {service} {name}")
    return str(value).strip()


def _single_line(value: str, where: str, error: type[GpucostError]) -> str:
    if not value:
        raise error(f"{where} is empty")
    # A client would repeat the whole value in its error about a header.
    if len(value.splitlines()) > 1:
        raise error(f"{where} contains more than one line")
    conceal(value)
    return value
