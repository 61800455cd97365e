"""Failing commands: one message, one fix, and the right exit code; and rows in every format."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import duckdb
import pytest
import typer
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.cli.command import Call, RowsCall, command
from gpucost.disk import write_text
from gpucost.errors import IncompleteError, StoreError, UsageError
from gpucost.options import PeriodOptions, TeamOption, count
from gpucost.render.rows import RowFormat


def run(raised: Callable[[], BaseException], *arguments: str) -> tuple[int, str, str]:
    app = typer.Typer()

    @app.command()
    @command()
    def one(call: Call) -> None:
        print("data")
        raise raised()

    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


INTERRUPTED = "error: interrupted; data saved earlier is kept\n"


def failed_query() -> StoreError:
    error = StoreError("INTERRUPT Error: Interrupted!")
    error.__cause__ = duckdb.InterruptException("Interrupted!")
    return error


@pytest.mark.parametrize(
    ("raised", "code", "printed"),
    [
        (lambda: StoreError("it broke", "start it"), 1, "error: it broke\nfix: start it\n"),
        (lambda: UsageError("it broke", "start it"), 2, "error: it broke\nfix: start it\n"),
        (lambda: IncompleteError("it broke", "start it"), 4, "error: it broke\nfix: start it\n"),
        (lambda: StoreError("it broke"), 1, "error: it broke\n"),
        (KeyboardInterrupt, 130, INTERRUPTED),
        (failed_query, 130, INTERRUPTED),
        (lambda: RuntimeError("Query interrupted"), 130, INTERRUPTED),
        (BrokenPipeError, 141, ""),
    ],
)
def test_errors_have_their_exit_code_and_message(
    raised: Callable[[], BaseException], code: int, printed: str
) -> None:
    assert run(raised) == (code, "data\n", printed)


def test_missing_argument_is_wrong_usage() -> None:
    result = CliRunner().invoke(app, ["explain", "team"])
    assert (result.exit_code, "Missing argument 'NAME'." in result.stderr) == (2, True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_full_disk_behind_stdout_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        words = [sys.executable, "-m", "gpucost", "--version"]
        printed = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False)
    error = b"error: cannot write to standard output: No space left on device\n"
    assert (printed.returncode, printed.stderr) == (1, error)


CTRL_C = """
import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == 'gpucost.cli.app': raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from gpucost.cli.main import main
main()
"""


def test_ctrl_c_during_import() -> None:
    printed = subprocess.run([sys.executable, "-c", CTRL_C], stderr=subprocess.PIPE, check=False)
    assert (printed.returncode, printed.stderr) == (130, b"error: interrupted\n")


@pytest.mark.parametrize(
    ("raised", "printed"),
    [
        (ZeroDivisionError("oh"), "error: unexpected ZeroDivisionError: oh"),
        # a failing file is not a defect of the program
        (FileNotFoundError(2, "No such file", "/srv/a\x1b"), "error: /srv/a\\u001b: No such file"),
    ],
)
def test_unexpected_error_is_one_line_with_a_traceback_only_on_request(
    raised: Exception, printed: str
) -> None:
    code, _, text = run(lambda: raised)
    assert (code, text.splitlines()[0], "Traceback" in text) == (1, printed, False)
    assert "Traceback" in run(lambda: raised, "-v")[2]


COLUMNS = ("name", "cost", "at", "labels", "share")
ROWS = [
    ("a|b", Decimal("12.500000000"), datetime(2026, 10, 1, tzinfo=UTC), {"x": ["y"]}, float("nan")),
    ("two\nlines", None, None, None, 0.5),
]


def written(format: RowFormat, directory: Path) -> str:
    RowsCall(format=format, target=directory / "out").write_rows(COLUMNS, ROWS)
    return (directory / "out").read_text()


TEXTS = {
    RowFormat.markdown: """\
| name | cost | at | labels | share |
| :-- | --: | :-- | :-- | --: |
| a\\|b | 12.500000000 | 2026-10-01T00:00:00+00:00 |""",
    RowFormat.csv: "name,cost,at,labels,share\na|b,12.500000000,2026-10-01T00:00:00+00:00,",
}


FIRST = (
    "{'name': 'a|b', 'cost': 12.5, 'at': '2026-10-01T00:00:00+00:00', 'labels': {'x': ['y']}, 'share': None}"
)


def test_rows_in_every_format(tmp_path: Path) -> None:
    for kind, begins in TEXTS.items():
        assert written(kind, tmp_path).startswith(begins)
    lines = written(RowFormat.table, tmp_path).splitlines()
    # numbers are right-aligned, line breaks in text are escaped
    assert lines[2].index("12.500000000") + 12 == lines[0].index("cost") + 4 and lines[3].startswith(
        "two\\nlines"
    )
    first, second = json.loads(written(RowFormat.json, tmp_path))
    assert str(first) == FIRST and second["cost"] is None


def test_pipe_is_written_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text("some text", pipe)
    assert os.read(reader, 100) == b"some text"
    RowsCall(format=RowFormat.parquet, target=pipe).write_rows(COLUMNS, ROWS)
    assert os.read(reader, 100_000).startswith(b"PAR1")
    os.close(reader)
    assert pipe.is_fifo()


def test_symbolic_link_is_kept_and_no_temporary_file_remains(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link, other = tmp_path / "there" / "report", tmp_path / "link", tmp_path / "other"
    target.write_text("old")
    target.chmod(0o640)
    other.write_text("not to be touched")
    link.symlink_to(target)
    (tmp_path / "there" / ".report.part").symlink_to(other)
    write_text("new", link)
    assert link.is_symlink() and target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o640
    assert other.read_text() == "not to be touched"
    assert {path.name for path in target.parent.iterdir()} == {"report", ".report.part"}


FORMATS = """
-o rows.csv                 a,b
-o rows.MD                  | a | b |
-o rows.json                [
-o rows.txt                 a  b
-o rows.csv --format json   [
--format table -o rows.csv  a  b"""


@pytest.mark.parametrize("line", FORMATS.strip().splitlines())
def test_rows_take_their_format_from_the_file_suffix(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, begins = line[:28].split(), line[28:]
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()

    @app.command()
    @command()
    def one(call: RowsCall) -> None:
        call.write_rows(("a", "b"), [(1, 2)])

    assert CliRunner().invoke(app, words).exit_code == 0
    (file,) = tmp_path.iterdir()
    assert file.read_text().startswith(begins)


def test_common_options_are_allowed_before_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def printed(*words: str) -> str:
        return CliRunner().invoke(app, words).stderr

    assert "store not found: above.duckdb" in printed("--store", "above.duckdb", "store", "info").replace(
        f"{tmp_path}/", ""
    )
    assert "own.duckdb" in printed("--store", "above.duckdb", "store", "info", "--store", "own.duckdb")
    assert "config file: none" in printed("config", "show") and printed("-q", "config", "show") == ""
    assert "missing.toml" in printed("--config", "missing.toml", "report")


@dataclass(frozen=True, kw_only=True)
class TeamCall(TeamOption, PeriodOptions, RowsCall):
    pass


def test_command_receives_the_values_of_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calls: list[tuple[TeamCall, int]] = []
    program = typer.Typer()

    @program.command()
    @command(without="store")
    def one(call: TeamCall, top: Annotated[int, count("How many.")] = 3) -> None:
        calls.append((call, top))

    words = "--team a --team b --from 2026-10-01 --to 2026-10-02 -o rows.md --top 7"
    assert CliRunner().invoke(program, words.split()).exit_code == 0
    one(month="2026-10")
    (call, top), (direct, default) = calls
    assert (call.query().teams, call.row_format, call.target, top) == (
        ("a", "b"),
        "markdown",
        Path("rows.md"),
        7,
    )
    assert call.period_name == "2026-10-01"
    assert (direct.period_name, direct.teams, direct.target, default) == ("October 2026", (), None, 3)
    assert "--store" not in CliRunner().invoke(program, ["--help"]).output


def test_closed_pipe_exits_with_141(tmp_path: Path) -> None:
    script = tmp_path / "many.py"
    script.write_text(
        "import typer\nfrom gpucost.cli.command import handle_errors\n"
        "@handle_errors(verbose=False, quiet=False)\ndef many() -> None:\n    for i in range(100_000): print(i)\n"
        "typer.run(many)\n"
    )
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        printed = process.stderr.read()
        assert (process.wait(30), printed) == (141, b"")
