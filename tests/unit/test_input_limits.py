"""Each limit of docs/limits.md at its edge: what is just within it is read, what is past it is refused in a sentence."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from gpucost import inputs
from gpucost.cli.app import app
from gpucost.collect.progress.files import import_files
from gpucost.collect.slurm.sacct import Notes, SacctFormat, read_sacct
from gpucost.config.load import load_config
from gpucost.errors import DataError, GpucostError
from gpucost.price.book import read_book
from gpucost.store.connection import Store
from tests.unit.bills import Bills, csv_text, usage

UTC = ZoneInfo("UTC")
PAGE = Path(__file__).parents[2] / "docs" / "limits.md"


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_is_read_as_a_whole(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for size, is_read in (
        (inputs.SETTINGS, True),
        (inputs.SETTINGS + 1, False),
        (50 * inputs.SETTINGS, False),
    ):
        content = b"#" * size
        path.write_bytes(gzip.compress(content) if packed else content)
        if is_read:
            assert inputs.whole(path, inputs.SETTINGS) == content
        else:
            with pytest.raises(DataError, match=r"a\.csv holds more than 1 MiB"):
                inputs.whole(path, inputs.SETTINGS)


def test_a_config_file(tmp_path: Path) -> None:
    path = tmp_path / "gpucost.toml"
    text = 'timezone = "UTC"\n'
    path.write_text(text + "#" * (inputs.SETTINGS - len(text)))
    assert load_config(path, environ={}).timezone == "UTC"
    path.write_text(text + "#" * inputs.SETTINGS)
    result = CliRunner().invoke(app, ["report", "--config", str(path)])
    assert result.exit_code == 1 and f"{path} holds more than 1 MiB" in result.stderr.replace("\n", " ")


def test_a_line_of_a_file_that_is_read_line_by_line() -> None:
    for kind in (io.StringIO, io.BytesIO):
        line = "x" * (inputs.LINE - 1) + "\n"
        text = line if kind is io.StringIO else line.encode()
        assert list(inputs.lines(kind(text), "a")) == [text]  # type: ignore[type-var]
        with pytest.raises(DataError, match="a, line 2: is longer than 1 MiB"):
            list(inputs.lines(kind(text + text[:1] + text), "a"))  # type: ignore[type-var,operator]


@pytest.mark.parametrize("size", [200_000, inputs.LINE + 10])
def test_a_long_field_is_read_or_refused_in_a_sentence(size: int, tmp_path: Path) -> None:
    """Python's csv would take 131,072 characters, and say only that a field is larger."""
    field, fits = "w" * size, size < inputs.LINE
    book = tmp_path / "book.csv"
    book.write_text(f"instance_type,price_per_hour,currency\n{field},1,USD\n")
    work = tmp_path / "work.csv"
    work.write_text(f"time,unit,value,workload\n2026-03-05T10:00:00Z,epoch,1,{field}\n")
    jobs = tmp_path / "jobs.psv"
    header = "JobIDRaw|Cluster|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|NodeList|AllocTRES|ReqTRES|JobName"
    times = "2026-03-05T10:00:00|2026-03-05T10:01:00|2026-03-05T12:00:00|7140"
    jobs.write_text(f"{header}\n17|c|ann|ml|gpu|COMPLETED|{times}|n1|gres/gpu=8|gres/gpu=8|{field}\n")
    ways = {
        book: lambda: read_book(book, "USD", UTC),
        work: lambda: import_files(Store(tmp_path / "a.duckdb"), [work], UTC),
        jobs: lambda: list(read_sacct(jobs, SacctFormat(), Notes())),
    }
    for path, read in ways.items():
        if fits:
            read()
        else:
            with pytest.raises(GpucostError, match=rf"{re.escape(path.name)}(, line |:)2\b"):
                read()


def test_a_long_field_of_a_bill(tmp_path: Path) -> None:
    bills = Bills(tmp_path)
    for size, said in ((200_000, None), (3_000_000, "long.csv")):
        run = bills.load(
            bills.write("long.csv", csv_text([usage(LineItemDescription="w" * size)])), force=True
        )
        assert (
            (not run.errors) if said is None else (len(run.errors) == 1 and said in run.errors[0].message)
        ), run.errors


def test_no_word_of_an_error_is_as_long_as_what_a_broken_file_holds() -> None:
    error = DataError(f"a.csv: {'x' * 100_000} is no price")
    assert error.message == f"a.csv: {'x' * 250}… is no price"
    assert len(DataError("word " * 10_000).message) == 4000


def test_the_page_names_the_limits() -> None:
    text = PAGE.read_text()
    for number, what in (
        (inputs.SETTINGS, "1 MiB"),
        (inputs.TABLE, "64 MiB"),
        (inputs.ANSWER, "256 MiB"),
        (inputs.LINE, "1 MiB"),
    ):
        assert f"{number // inputs.MIB} MiB" == what and what in text
