"""The commands that change this installation: to add an extra, or to upgrade."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from urllib.parse import unquote

# The Dockerfile installs into this folder.
_IMAGE = Path("/opt/gpucost")


def with_extra(extra: str) -> str:
    """The command that installs gpucost with an extra, as it was installed."""
    if Path(sys.prefix) == _IMAGE:
        return f"build an image with the extra {extra} (Dockerfile, REQUIREMENTS)"
    return f"{_installer()} {_requirement(f'[{extra}]')}"


def upgrade() -> str:
    """The command that replaces this installation with a newer one."""
    if Path(sys.prefix) == _IMAGE:
        return "use a newer image"
    return f"get a newer version, then {_installer()} {_requirement('')}"


def _requirement(extra: str) -> str:
    """The folder or repository that gpucost was installed from, with an extra; DIR if unknown."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("gpucost").read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    origin = json.loads(text) if text else {"url": "DIR"}
    if "vcs_info" in origin:
        return shlex.quote(f"gpucost{extra} @ git+{origin['url']}")
    return shlex.quote(f"{unquote(origin['url'].removeprefix('file://'))}{extra}")


def _installer() -> str:
    prefix = Path(sys.prefix)
    if prefix.parts[-3:-1] == ("uv", "tools"):
        return "uv tool install --force"
    if prefix.parts[-3:-1] == ("pipx", "venvs"):
        return "pipx install --force"
    return f"{shlex.quote(sys.executable)} -m pip install"
