"""Commands that fit the installation at hand."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

import pytest

from gpucost import installation

UNKNOWN = " (add the other extras that you installed)"
CASES = {
    "/opt/gpucost": "build an image with the extra mcp (Dockerfile, REQUIREMENTS)",
    "/home/ann/.local/share/uv/tools/gpucost": "uv tool install --force '/src/gpucost[mcp]'" + UNKNOWN,
    "/home/ann/.local/pipx/venvs/gpucost": "pipx install --force '/src/gpucost[mcp]'" + UNKNOWN,
    "/home/ann/venv": "/home/ann/venv/bin/python -m pip install '/src/gpucost[mcp]'",
}


class Installed:
    def __init__(self, text: str | None) -> None:
        self.text = text

    def read_text(self, name: str) -> str | None:
        return self.text if name == "direct_url.json" else None


@pytest.mark.parametrize("prefix", CASES)
def test_extra_is_added_by_the_tool_that_installed(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(sys, "executable", f"{prefix}/bin/python")
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed('{"url": "file:///src/gpucost"}'))
    assert installation.with_extra("mcp") == CASES[prefix]


RECORDS = {
    'uv/tools uv-receipt.toml [tool]\nrequirements = [{ name = "gpucost", extras = ["aws", "gcp"] }]': "aws gcp",
    'uv/tools uv-receipt.toml [tool]\nrequirements = [{ name = "gpucost" }, { name = "pip", extras = ["x"] }]': "",
    'pipx/venvs pipx_metadata.json {"main_package": {"apps": ["a"], "package_or_url": "/src[aws, keyring]"}}': "aws keyring",
    'pipx/venvs pipx_metadata.json {"main_package": {"package_or_url": "/src/gpucost"}}': "",
    "pipx/venvs pipx_metadata.json {": None,
    "uv/tools uv-receipt.toml [tool]": None,
}


@pytest.mark.parametrize("record", RECORDS)
def test_extras_of_uv_and_pipx_are_kept(record: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parent, name, text = record.split(" ", 2)
    prefix = tmp_path / parent / "gpucost"
    prefix.mkdir(parents=True)
    (prefix / name).write_text(text)
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed('{"url": "file:///src/gpucost"}'))
    kept = RECORDS[record]
    tool = "uv tool" if "uv/" in parent else "pipx"
    names = ",".join(sorted({*(kept or "").split(), "azure"}))
    end = UNKNOWN if kept is None else ""
    assert installation.with_extra("azure") == f"{tool} install --force '/src/gpucost[{names}]'{end}"
    if kept:
        same = f"{tool} install --force '/src/gpucost[{kept.replace(' ', ',')}]'"
        assert installation.upgrade() == f"get a newer version, then {same}"


def test_unclaimed_package_name_is_never_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed(None))
    assert installation.with_extra("aws").endswith("-m pip install 'DIR[aws]'")
    assert installation.upgrade().endswith("-m pip install DIR")


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        ('{"url": "file:///home/ann/my%20src"}', "'/home/ann/my src[aws]'"),
        ('{"url": "https://git.example.com/gpucost.git", "vcs_info": {"vcs": "git"}}',
         "'gpucost[aws] @ git+https://git.example.com/gpucost.git'"),
        ('{"url": "https://example.com/gpucost-1.0.0.whl", "archive_info": {}}',
         "'gpucost[aws] @ https://example.com/gpucost-1.0.0.whl'"),
    ],
)  # fmt: skip
def test_extra_comes_from_the_same_place(
    origin: str, requirement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed(origin))
    assert installation.with_extra("aws").endswith(f"-m pip install {requirement}")
