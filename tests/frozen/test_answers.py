"""Every command's answer, in every format, character by character: exit code, stdout, stderr and the files that it wrote.

UPDATE_GOLDEN=1 writes the goldens anew. A change of presentation belongs into the list of such changes, a changed figure nowhere.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.texts import in_markdown
from tests.asked_once import ask_findings_once
from tests.frozen.commands import (
    BILLED,
    ELSEWHERE,
    ESTIMATED,
    WRONG,
    Answer,
    all_commands,
    answers,
    command_of,
)
from tests.frozen.fleets import FLEETS
from tests.frozen.world import PRICING, standing_still
from tests.of_all_workers import made

GOLDEN = Path(__file__).parent / "answers"
WIDTH = "100"
_LARGEST = 60_000
_TEMPORARY = "/tmp"  # noqa: S108
#: As long as the folder that commands run in, so that tables are as wide.
_PLACE = f"{_TEMPORARY}/frozen-________"


class Fleet:
    """A folder that a fleet's commands run in, made anew where one of them has changed it."""

    def __init__(self, made: Path) -> None:
        self.made = made
        self.folder = Path(tempfile.mkdtemp(prefix="frozen-", dir=_TEMPORARY))
        self._refill()

    def new_files(self) -> list[Path]:
        """What a command wrote, besides stores."""
        there = {path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file()}
        return sorted(
            path for path in there if not (self.made / path).exists() and ".duckdb" not in path.name
        )

    def restore(self) -> None:
        """Puts everything back as it was made; cheap where nothing was written."""
        if self._stamps() != self._stamps_before:
            self._refill()

    def remove(self) -> None:
        shutil.rmtree(self.folder)

    def _refill(self) -> None:
        shutil.rmtree(self.folder)
        shutil.copytree(self.made, self.folder)
        self._stamps_before = self._stamps()

    def _stamps(self) -> dict[str, tuple[int, int]]:
        found = {path: path.stat() for path in self.folder.rglob("*")}
        return {str(path): (stat.st_mtime_ns, stat.st_size) for path, stat in found.items()}


@contextmanager
def alone() -> Iterator[pytest.MonkeyPatch]:
    """A world that stands still, in which findings are asked once and the environment says nothing."""
    with standing_still() as patch:
        ask_findings_once(patch)
        for name in os.environ:
            if name.startswith(
                ("GPUCOST_", "PROMETHEUS_", "KUBERNETES_", "XDG_", "AWS_", "GOOGLE_", "AZURE_", "NO_COLOR")
            ):
                patch.delenv(name)
        patch.setenv("XDG_CACHE_HOME", "/dev/null")  # which stores were checked is no answer
        yield patch


@pytest.fixture(scope="module")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Fleet]]:
    with alone(), made_once("frozen", tmp_path_factory) as found:
        yield found


@contextmanager
def made_once(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Fleet]]:
    """The folders by fleet; what they are copied from is made once."""
    found = {name: Fleet(made(tmp_path_factory, f"{kind}-{name}", make)) for name, make in FLEETS.items()}
    yield found
    for fleet in found.values():
        fleet.remove()


def run(fleet: Fleet, words: list[str], monkeypatch: pytest.MonkeyPatch, width: str | None = WIDTH) -> str:
    """What is called and what comes of it: the command on top, then exit code, stdout, stderr and files."""
    monkeypatch.chdir(fleet.folder)
    monkeypatch.setenv("HOME", str(fleet.folder))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # where no gpucost of this machine's is
    if width:
        monkeypatch.setenv("COLUMNS", width)
    result = CliRunner().invoke(app, words, prog_name="gpucost")
    parts = [
        f"$ gpucost {shlex.join(words)}\n-- exit code {result.exit_code}\n-- stdout\n{cut(result.stdout)}"
    ]
    parts += [f"-- stderr\n{result.stderr}"]
    parts += [f"-- {path}\n{shown(fleet.folder / path)}" for path in fleet.new_files()]
    fleet.restore()
    text = "".join(part if part.endswith("\n") else f"{part}\n" for part in parts)
    text = (
        text.replace(in_markdown(str(fleet.folder)), _PLACE)
        .replace(str(fleet.folder), _PLACE)
        .replace(str(PRICING), "pricing")
    )
    # how large a file gets is DuckDB's affair
    text = re.sub(r"(?m)^size     .*", "size     of the file", text)
    return re.sub(r'("(?:wal_)?size"): \d+', r"\1: 0", text)


def shown(file: Path) -> str:
    """A file as a golden holds it: rows of Parquet, pages without scripts and styles, and digests of what is long."""
    if file.suffix == ".parquet":
        table = duckdb.read_parquet(str(file))
        head = ", ".join(f"{name} {kind}" for name, kind in zip(table.columns, table.types, strict=True))
        return cut("\n".join([head, *map(str, table.fetchall())]) + "\n")
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".html":
        body = re.sub(r"(?s)<(script|style|svg)\b.*?</\1>", "", text)
        return f"digest {digest(text)}\n{cut(body)}"
    return cut(text)


def cut(text: str) -> str:
    """The text, or of a long one its beginning and digest."""
    if len(text) < _LARGEST:
        return text
    return f"{text[:2000]}\n… {len(text):,} characters, digest {digest(text)}\n"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check(text: str, golden: Path) -> None:
    """Holds the text against the golden, or writes that anew."""
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "answer",
    [pytest.param(one, id=str(one), marks=[] if one.is_quick else [pytest.mark.ci]) for one in answers()],
)
def test_an_answer_is_what_it_was(
    answer: Answer, fleets: dict[str, Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    width = None if answer.format == "pipe" else WIDTH
    check(run(fleets[answer.fleet], answer.words, monkeypatch, width), GOLDEN / f"{answer}.txt")


def test_wrong_usage_is_what_it_was(fleets: dict[str, Fleet], monkeypatch: pytest.MonkeyPatch) -> None:
    told = [run(fleets["estimated"], shlex.split(words), monkeypatch) for words in WRONG]
    assert not [text for text in told if "-- exit code 0\n" in text or "defect" in text]
    check("\n".join(told), GOLDEN / "wrong-usage.txt")


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "options"),
    [("missing-store", "--store missing.duckdb"), ("broken-config", "--config broken.toml")],
)
def test_every_command_says_what_it_misses(
    name: str, options: str, fleets: dict[str, Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    option = options.split()[0]
    asked = {}
    for words in (ESTIMATED | BILLED).values():
        if option not in words:
            asked.setdefault(command_of(shlex.split(words)), words)
    told = []
    for command in sorted(asked):
        text = run(fleets["estimated"], [*shlex.split(asked[command]), *options.split()], monkeypatch)
        if f"No such option: {option}" not in text:
            told.append(cut(text))
    check("\n".join(told), GOLDEN / f"{name}.txt")


def test_every_command_is_asked() -> None:
    asked = {command_of(shlex.split(words)) for words in (*ESTIMATED.values(), *BILLED.values())}
    assert asked == all_commands() - ELSEWHERE
    goldens = {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*.txt")}
    assert goldens == {f"{one}.txt" for one in answers()} | {
        "wrong-usage.txt",
        "missing-store.txt",
        "broken-config.txt",
    }
