"""Every command's exact answer in every format: exit code, stdout, stderr and written files.

UPDATE_GOLDEN=1 rewrites the goldens. List each change of presentation; figures must not change.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from rich.cells import cell_len
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.render import terminal
from gpucost.render.rows import TableFit, sum_of
from gpucost.render.view import Column
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
#: As long as the path of the folder in which commands run, so that tables have the same width.
_PLACE = f"{_TEMPORARY}/frozen-________"


class Fleet:
    """The folder in which a fleet's commands run, restored after a command changed it."""

    def __init__(self, made: Path) -> None:
        self.made = made
        self.folder = Path(tempfile.mkdtemp(prefix="frozen-", dir=_TEMPORARY))
        self._refill()

    def new_files(self) -> list[Path]:
        """Return the files that a command wrote, except stores."""
        there = {path.relative_to(self.folder) for path in self.folder.rglob("*") if path.is_file()}
        return sorted(
            path for path in there if not (self.made / path).exists() and ".duckdb" not in path.name
        )

    def restore(self) -> None:
        """Restore the original state; fast if no file changed."""
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
    """Yield a fixed world with findings computed once and without environment variables."""
    with standing_still() as patch:
        ask_findings_once(patch)
        for name in os.environ:
            if name.startswith(
                ("GPUCOST_", "PROMETHEUS_", "KUBERNETES_", "XDG_", "AWS_", "GOOGLE_", "AZURE_", "NO_COLOR")
            ):
                patch.delenv(name)
        patch.setenv("XDG_CACHE_HOME", "/dev/null")  # records of checked stores are not part of an answer
        yield patch


@pytest.fixture(scope="module")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Fleet]]:
    with alone(), made_once("frozen", tmp_path_factory) as found:
        yield found


@contextmanager
def made_once(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Fleet]]:
    """Yield the folders by fleet, copied from originals that are made once."""
    found = {name: Fleet(made(tmp_path_factory, f"{kind}-{name}", make)) for name, make in FLEETS.items()}
    yield found
    for fleet in found.values():
        fleet.remove()


def run(fleet: Fleet, words: list[str], monkeypatch: pytest.MonkeyPatch, width: str | None = WIDTH) -> str:
    """Run a command and return its record: the command line, exit code, stdout, stderr and files."""
    monkeypatch.chdir(fleet.folder)
    monkeypatch.setenv("HOME", str(fleet.folder))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # without an installed gpucost
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
    # DuckDB decides the size of a file
    text = re.sub(r"(?m)^size     .*", "size     of the file", text)
    return re.sub(r'("(?:wal_)?size"): \d+', r"\1: 0", text)


def shown(file: Path) -> str:
    """Return a file's text for a golden: rows of Parquet, pages without scripts and styles, digests of long texts."""
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
    """Return the text, or the beginning and digest of a long one."""
    if len(text) < _LARGEST:
        return text
    return f"{text[:2000]}\n… {len(text):,} characters, digest {digest(text)}\n"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def check(text: str, golden: Path) -> None:
    """Compare the text with the golden, or rewrite the golden."""
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


class FitAtEveryWidth(TableFit):
    """Checks each displayed table at 60 to 200 columns: no figure is split, and money stays as long as it can."""

    def __init__(self, columns: Sequence[Column], texts: Sequence[Sequence[str]]) -> None:
        super().__init__(columns, texts)
        for room in (58, 78, 98, 198):
            visible = self.visible_columns(room)
            widths = self.widths(visible, room)
            assert sum_of(widths, visible) <= room or len(visible) == 1
            for index in visible:
                if index not in self.names:
                    assert widths[index] >= max(cell_len(row[index]) for row in texts)
            missing = {index for index, column in enumerate(columns) if column.weight == 0} - {*visible}
            if any(columns[index].unit == "money" for index in missing):
                assert not [index for index in visible[1:] if columns[index].unit != "money"]


@pytest.fixture(autouse=True)
def at_every_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "TableFit", FitAtEveryWidth)


@pytest.mark.parametrize(
    "answer",
    [pytest.param(one, id=str(one), marks=[] if one.is_quick else [pytest.mark.ci]) for one in answers()],
)
def test_answer_matches_its_golden(
    answer: Answer, fleets: dict[str, Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    width = None if answer.format == "pipe" else WIDTH
    check(run(fleets[answer.fleet], answer.words, monkeypatch, width), GOLDEN / f"{answer}.txt")


def test_wrong_usage_matches_its_golden(fleets: dict[str, Fleet], monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = [run(fleets["estimated"], shlex.split(words), monkeypatch) for words in WRONG]
    assert not [text for text in outputs if "-- exit code 0\n" in text or "defect" in text]
    check("\n".join(outputs), GOLDEN / "wrong-usage.txt")


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "options"),
    [("missing-store", "--store missing.duckdb"), ("broken-config", "--config broken.toml")],
)
def test_every_command_reports_missing_store_and_broken_config(
    name: str, options: str, fleets: dict[str, Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    option = options.split()[0]
    commands = {}
    for words in (ESTIMATED | BILLED).values():
        if option not in words:
            commands.setdefault(command_of(shlex.split(words)), words)
    outputs = []
    for command in sorted(commands):
        text = run(fleets["estimated"], [*shlex.split(commands[command]), *options.split()], monkeypatch)
        if f"No such option: {option}" not in text:
            outputs.append(cut(text))
    check("\n".join(outputs), GOLDEN / f"{name}.txt")


def test_every_command_has_a_golden() -> None:
    commands = {command_of(shlex.split(words)) for words in (*ESTIMATED.values(), *BILLED.values())}
    assert commands == all_commands() - ELSEWHERE
    goldens = {path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*.txt")}
    assert goldens == {f"{one}.txt" for one in answers()} | {
        "wrong-usage.txt",
        "missing-store.txt",
        "broken-config.txt",
    }
