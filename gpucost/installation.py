"""The commands that change this installation: to add an extra, or to upgrade."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

# The Dockerfile installs into this folder.
_IMAGE = Path("/opt/gpucost")
# The folders of uv and pipx, their commands, their records of a tool, and its extras in them.
_TOOLS = (
    (("uv", "tools"), "uv tool", "uv-receipt.toml", r'name = "gpucost"(?:, extras = \[([^\]]*))?'),
    (
        ("pipx", "venvs"),
        "pipx",
        "pipx_metadata.json",
        r'"main_package".*?"package_or_url": "[^"\[]*(?:\[([^\]]*))?',
    ),
)


def with_extra(extra: str) -> str:
    """The command that installs gpucost with an extra, as it was installed, with its other extras."""
    if Path(sys.prefix) == _IMAGE:
        return f"build an image with the extra {extra} (Dockerfile, REQUIREMENTS)"
    return _install(extra)


def upgrade() -> str:
    """The command that replaces this installation with a newer one."""
    if Path(sys.prefix) == _IMAGE:
        return "use a newer image"
    return f"get a newer version, then {_install()}"


def _install(*extras: str) -> str:
    # uv and pipx replace the whole environment, pip only adds to it
    prefix = Path(sys.prefix)
    for parent, tool, name, pattern in _TOOLS:
        if prefix.parts[-3:-1] != parent:
            continue
        record = prefix / name
        found = re.search(pattern, record.read_text("utf-8"), re.S) if record.is_file() else None
        present = re.findall(r"[\w-]+", found[1] or "") if found else ()
        command = f"{tool} install --force {_requirement(sorted({*extras, *present}))}"
        return command if found else f"{command} (add the other extras that you installed)"
    return f"{shlex.quote(sys.executable)} -m pip install {_requirement(extras)}"


def _requirement(extras: Sequence[str]) -> str:
    """The folder or repository that gpucost was installed from, with extras; DIR if unknown."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("gpucost").read_text("direct_url.json")
    except PackageNotFoundError:
        text = None
    extra = f"[{','.join(extras)}]" if extras else ""
    origin = json.loads(text) if text else {"url": "DIR"}
    if "archive_info" in origin:
        return shlex.quote(f"gpucost{extra} @ {origin['url']}")
    if "vcs_info" in origin:
        return shlex.quote(f"gpucost{extra} @ git+{origin['url']}")
    return shlex.quote(f"{unquote(origin['url'].removeprefix('file://'))}{extra}")
