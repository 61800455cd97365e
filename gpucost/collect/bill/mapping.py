"""Files of one format, staged as text, into rows of charges: the SQL of the format, then the checks that every format passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast

from gpucost.catalog import load_catalog
from gpucost.collect.base import Finding
from gpucost.collect.bill import formats
from gpucost.errors import DataError
from gpucost.store import bill_files, bill_twins, charges

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import duckdb

    from gpucost.collect.bill.formats import Format
    from gpucost.collect.bill.opening import Opened


@dataclass(frozen=True, slots=True)
class Staged:
    """A file as text columns on disk, and what it is called for the user."""

    path: Path
    name: str


# What the rows of every format pass first: a charge that stands there twice is one.
_ONCE = ("once_1_repeated", "once_2_raw")


def stage(con: duckdb.DuckDBPyConnection, known: Format, opened: Opened, target: Path) -> Path:
    """One file as text columns named as the format's SQL reads them. Raises DataError."""
    if opened.kind == "json":
        raise DataError(f"{opened.name} is one JSON document", "give JSON lines: one object, one charge, per line")
    header = list(opened.header)
    if opened.kind == "jsonl":
        # Lines leave out what is null: a column may be there for the first time far down.
        there = formats.locate(known, header, opened.name).columns
        header += [column for column, at in there.items() if at is None]
    where = formats.locate(known, header, opened.name)
    file = bill_files.RawFile(
        opened.path,
        opened.name,
        opened.kind,
        header,
        where.columns,
        where.maps,
        opened.gzipped,
        opened.delimiter,
        where.columns[known.line_item] if known.line_item else None,
    )
    bill_files.stage(con, file, target)
    return target


def write_rows(
    con: duckdb.DuckDBPyConnection,
    known: Format,
    staged: Sequence[Staged],
    files: charges.BillFiles,
    *,
    across_files: bool = True,
) -> list[Finding]:
    """Writes the charges of staged files to the store that `con` is open on, each once, and answers what the format finds worth
    saying.

    A charge that two files tell of counts twice where not `across_files`. Raises DataError, with file and row, where a charge
    lacks what every charge has.
    """
    bill_files.staged_view(con, [file.path for file in staged], known.columns)
    con.execute("SET VARIABLE across_files = $1", [across_files])
    if known.catalog:
        load_catalog(con)
    with bill_files.values_in_words([file.name for file in staged]):
        for name in (*_ONCE, *known.sql, "formatted"):
            con.execute(formats.sql_text(name))
        if charges.lacking(con):
            raise _unread(con, known)
        charges.write(con, files)
    # What is written is read faster than it is mapped.
    con.execute("CREATE OR REPLACE TEMP VIEW charges_read AS FROM incoming")
    found = bill_files.rows(con.execute(formats.sql_text(known.findings))) if known.findings else []
    findings = [
        Finding(cast("Literal['warning', 'note']", row["level"]), row["code"], row["message"], row["fix"]) for row in found
    ]
    return findings + repeated_rows(_count_repeated(con), "of these files")


def _unread(con: duckdb.DuckDBPyConnection, known: Format) -> DataError:
    (wrong,) = bill_files.rows(con.execute(formats.sql_text("unread")))
    fix = f"row 1 is the first of data; gpucost read the file as {known.title}; nothing of it was loaded"
    if wrong["what"] == "the currency":
        fix = 'export it; or say which it is, currency = "USD" under [bills] in gpucost.toml; nothing of the file was loaded'
    return DataError(f"{wrong['source_file']}, row {wrong['source_row']}: {wrong['what']} is empty or cannot be read", fix)


def repeated_rows(count: int, where: str) -> list[Finding]:
    """What to say of rows that were left out: the same charges stand `where`."""
    if not count:
        return []
    said = "1 row repeats a charge" if count == 1 else f"{count:,} rows repeat charges"
    return [Finding("note", "repeated_rows", f"{said} {where}, the same in every column: each charge counts once")]


def _count_repeated(con: duckdb.DuckDBPyConnection) -> int:
    return int(con.execute("SELECT count(*) FROM repeated").fetchall()[0][0])


def write_loose(
    con: duckdb.DuckDBPyConnection, known: Format, staged: Sequence[Staged], files: charges.BillFiles
) -> tuple[list[Finding], dict[str, str]]:
    """As `write_rows`, of files that no manifest vouches for: those that another one supersedes are left out, and answered."""
    findings = write_rows(con, known, staged, files, across_files=False)
    if len(staged) < 2:
        return findings, {}
    lost = bill_twins.superseded(con)
    if lost or _stand_in_two_files(con):
        charges.take_back(con)
        findings = write_rows(con, known, [file for file in staged if file.name not in lost], files)
    return findings, lost


def _stand_in_two_files(con: duckdb.DuckDBPyConnection) -> bool:
    return bool(con.execute("SELECT 1 FROM raw WHERE row_digest IS NOT NULL GROUP BY row_digest HAVING count(*) > 1").fetchall())


def holders(con: duckdb.DuckDBPyConnection, known: Format, staged: Path) -> set[str]:
    """Whose charges a staged FOCUS file holds."""
    bill_files.staged_view(con, [staged], known.columns)
    con.execute(formats.sql_text("focus_provider"))
    con.execute(
        "FROM staged SELECT DISTINCT focus_provider(service_provider_name, provider_name, publisher_name, invoice_issuer_name)"
    )
    return {str(row[0]) for row in con.fetchall()}


def has_rows(con: duckdb.DuckDBPyConnection, staged: Path) -> bool:
    """Whether a staged file holds any row."""
    return bool(con.read_parquet(str(staged)).limit(1).fetchall())
