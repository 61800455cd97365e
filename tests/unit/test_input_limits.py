"""Each limit of docs/limits.md: input at the limit is read, and larger input is refused with a clear error."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gpucost import inputs
from gpucost.collect.progress.files import import_files
from gpucost.collect.slurm.sacct import Notes, SacctFormat, read_sacct
from gpucost.config.load import load_config
from gpucost.errors import DataError, GpucostError
from gpucost.price.book import read_book
from gpucost.store.connection import Store
from tests.unit.bills import Bills, csv_text, usage

UTC = ZoneInfo("UTC")


@pytest.mark.parametrize("packed", [False, True])
def test_size_limit_of_a_file_that_is_read_at_once(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for size in (inputs.SETTINGS + 1, 50 * inputs.SETTINGS, inputs.SETTINGS):
        content = b"#" * size
        path.write_bytes(gzip.compress(content) if packed else content)
        if size > inputs.SETTINGS:
            with pytest.raises(DataError, match=r"a\.csv holds more than 1 MiB"):
                inputs.whole(path, inputs.SETTINGS)
    assert inputs.whole(path, inputs.SETTINGS) == content


def test_size_limit_of_a_config_file(tmp_path: Path) -> None:
    path = tmp_path / "gpucost.toml"
    text = 'timezone = "UTC"\n'.ljust(inputs.SETTINGS, "#")
    path.write_text(text)
    assert load_config(path, environ={}).timezone == "UTC"
    path.write_text(f"{text}#")
    with pytest.raises(GpucostError, match=r"gpucost\.toml holds more than 1 MiB"):
        load_config(path, environ={})


def test_length_limit_of_a_line() -> None:
    line = "x" * (inputs.LINE - 1) + "\n"
    assert list(inputs.lines(io.StringIO(line), "a")) == [line]
    with pytest.raises(DataError, match="a, line 2: is longer than 1 MiB"):
        list(inputs.lines(io.BytesIO(f"{line}x{line}".encode()), "a"))


@pytest.mark.parametrize("size", [200_000, inputs.LINE + 10])
def test_long_field_is_read_or_refused_with_its_line(size: int, tmp_path: Path) -> None:
    """The default limit of Python's csv module is 131,072 characters, and its error does not name the file."""
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


def test_long_field_of_a_bill_is_read_or_refused(tmp_path: Path) -> None:
    bills = Bills(tmp_path)
    for size, refused in ((200_000, []), (3_000_000, [True])):
        rows = csv_text([usage(LineItemDescription="w" * size)])
        run = bills.load(bills.write("long.csv", rows), force=True)
        assert ["long.csv" in error.message for error in run.errors] == refused


def test_long_words_are_shortened_in_error_messages() -> None:
    error = DataError(f"a.csv: {'x' * 100_000} is not a price")
    assert error.message == f"a.csv: {'x' * 250}… is not a price"
    assert len(DataError("word " * 10_000).message) == 4000


def test_limits_page_names_the_limits() -> None:
    text = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()
    limits = (inputs.SETTINGS, inputs.TABLE, inputs.ANSWER, inputs.LINE)
    assert [limit // inputs.MIB for limit in limits] == [1, 64, 256, 1]
    assert all(f"{limit // inputs.MIB} MiB" in text for limit in limits)
