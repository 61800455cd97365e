"""The commands that change this installation: to add an extra, or to upgrade."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

# The Dockerfile installs into this folder.
_IMAGE = Path("/opt/gpucost")


def with_extra(extra: str) -> str:
    """The command that adds an extra to this installation."""
    if Path(sys.prefix) == _IMAGE:
        return f"build an image with the extra {extra} (Dockerfile, REQUIREMENTS)"
    return f"{_installer()} {shlex.quote(f'{_source()}[{extra}]')}"


def upgrade() -> str:
    """The command that replaces this installation with a newer one."""
    if Path(sys.prefix) == _IMAGE:
        return "use a newer image"
    return f"get a newer version, then {_installer()} {shlex.quote(_source())}"


def _source() -> str:
    """The folder or address that gpucost was installed from; DIR if unknown."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("gpucost").read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    url: str = json.loads(text)["url"] if text else "DIR"
    return url.removeprefix("file://")


def _installer() -> str:
    prefix = Path(sys.prefix)
    if prefix.parts[-3:-1] == ("uv", "tools"):
        return "uv tool install --force"
    if prefix.parts[-3:-1] == ("pipx", "venvs"):
        return "pipx install --force"
    return f"{shlex.quote(sys.executable)} -m pip install"
