"""How anything is written: data to stdout or whole into a file, words to stderr, and rows in every format."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, time
from decimal import Decimal
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Any

import typer

from gpucost.errors import GpucostError, UsageError


def put(text: str = "", *, nl: bool = True) -> None:
    """Write data to stdout, what it cannot spell replaced. Raises GpucostError where stdout takes no more."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        typer.echo(text.encode(encoding, "replace").decode(encoding), nl=nl)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise stdout_failed(error) from None


def stdout_failed(error: OSError) -> GpucostError:
    """What a write to stdout failed with, in words; the interpreter is kept from failing with it once more at its end."""
    drop_stdout()
    return GpucostError(f"cannot write to standard output: {error.strerror or error}")


def output_file(output: Path | None) -> Path | None:
    """The file that -o names; None is stdout, which `-` names too. Raises UsageError for what can be no file."""
    if output is None or str(output) == "-":
        return None
    if output.is_dir():
        raise UsageError(f"-o names a directory: {output}", "-o takes a file, or - for standard output")
    return output


def note(text: str = "", *, quiet: bool = False) -> None:
    """Say something beside the data: to stderr, and not at all under -q."""
    if not quiet:
        typer.echo(text, err=True)


def write_text(text: str, output: Path) -> None:
    """Write `text` to the file `output`, as `made` does. Raises GpucostError where it cannot be written."""
    with made(output) as part:
        part.write_text(text, encoding="utf-8")


@contextmanager
def made(target: Path | None) -> Iterator[Path]:
    """A file to write, that takes the place of `target` whole where the block ends; of none where that is None, or it raises.

    What is there and is no regular file (a device, a pipe) is written into; a link's target is replaced, not the link.
    Raises GpucostError where it cannot be written.
    """
    from tempfile import TemporaryDirectory

    try:
        special = target if target and target.exists() and not target.is_file() else None
        # not of a pipe: /dev/stdout leads to a name that nothing can be opened by
        place = target.resolve() if target and not special else None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, up to Python 3.12
        raise _unwritable(target, error) from None
    try:
        with TemporaryDirectory(prefix=".gpucost-", dir=place.parent if place else None) as folder:
            part = Path(folder) / "file"
            yield part
            if special:
                with part.open("rb") as content, special.open("wb") as into:
                    shutil.copyfileobj(content, into)
            elif place:
                if place.exists():
                    part.chmod(place.stat().st_mode & 0o7777)
                part.replace(place)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(target, error) from None


def _unwritable(target: Path | None, error: Exception) -> GpucostError:
    return GpucostError(
        f"cannot write {target or 'a file'}: {getattr(error, 'strerror', None) or error}", "-o names another file"
    )


def put_or_write(text: str, output: Path | None) -> None:
    """Write `text` to the file `output`, or to stdout where it is None. Raises GpucostError where it cannot be written."""
    if output is None:
        put(text, nl=False)
    else:
        write_text(text, output)


def tell_error(message: str, fix: str | None) -> None:
    """What failed and what mends it, on stderr, in the words that every command uses."""
    typer.echo(f"{_red('error:')} {message}", err=True)
    if fix:
        typer.echo(f"fix: {fix}", err=True)


def _red(text: str) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return text if plain else f"\033[1;31m{text}\033[0m"


def drop_stdout() -> None:
    """Keep the interpreter from complaining when it flushes, at its end, what stdout did not take."""
    with suppress(OSError, ValueError):  # stdout may have no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class RowFormat(StrEnum):
    """How rows are written."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"
    parquet = "parquet"


# Rows of one table and nothing beside them.
FLAT = (RowFormat.csv, RowFormat.parquet)


def write_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], format: RowFormat, output: Path | None) -> None:
    """Write rows to `output`, or to stdout where it is None.

    Raises GpucostError where the file cannot be written, UsageError for Parquet without a file.
    """
    if format is RowFormat.parquet:
        _save_parquet(columns, rows, output)
        return
    text = render_rows(columns, rows, format)
    put_or_write(text, output)


def render_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], format: RowFormat) -> str:
    """The rows as text: in any format but Parquet."""
    renderers = {RowFormat.table: _table, RowFormat.markdown: _markdown, RowFormat.csv: _csv, RowFormat.json: _json}
    return renderers[format](columns, rows)


def _save_parquet(columns: Sequence[str], rows: Sequence[Sequence[Any]], output: Path | None) -> None:
    from gpucost.store.table_files import save_rows

    types = {name: _column_type([row[i] for row in rows]) for i, name in enumerate(columns)}
    if len(types) < len(columns):
        raise UsageError("Parquet has one column of a name, and here two have the same", "give them names of their own, with AS")
    told = list(types.values())
    texts = [
        [as_text(value) if told[i] == "VARCHAR" and value is not None else value for i, value in enumerate(row)] for row in rows
    ]
    with made(file_needed(output)) as part:
        save_rows(types, texts, "parquet", part)


def file_needed(output: Path | None) -> Path:
    """The file that Parquet goes to. Raises UsageError where there is none."""
    if output is None:
        raise UsageError("parquet is no text: it needs a file", "-o report.parquet")
    return output


def _column_type(values: Sequence[Any]) -> str:
    """The DuckDB type that holds all of `values`; text where none does."""
    there = [value for value in values if value is not None]
    kinds = {type(value) for value in there}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in there):
        return "BIGINT"
    if kinds and kinds <= {int, Decimal}:
        # money has nine decimals, prices may have more
        exponents = [value.as_tuple().exponent for value in there if isinstance(value, Decimal)]
        scale = max(9, *(-exponent for exponent in exponents if isinstance(exponent, int)), 0)
        return f"DECIMAL(38,{min(scale, 18)})"
    if kinds and kinds <= {int, float, Decimal}:
        return "DOUBLE"
    if kinds == {datetime}:
        return "TIMESTAMPTZ" if all(value.tzinfo for value in there) else "TIMESTAMP"
    return "DATE" if kinds == {date} else "VARCHAR"


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    cells = [[as_text(value) for value in row] for row in rows]
    widths = [max(len(line[i]) for line in [list(columns), *cells]) for i in range(len(columns))]
    numeric = [any(_is_number(row[i]) for row in rows) for i in range(len(columns))]

    def line(texts: Sequence[str]) -> str:
        fields = zip(texts, widths, numeric, strict=True)
        padded = (text.rjust(width) if right else text.ljust(width) for text, width, right in fields)
        return "  ".join(padded).rstrip() + "\n"

    return line(columns) + line(["-" * width for width in widths]) + "".join(map(line, cells))


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    rules = ["--:" if any(_is_number(row[i]) for row in rows) else ":--" for i in range(len(columns))]
    cells = [[as_text(value).replace("|", "\\|") for value in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in [list(columns), rules, *cells])


def _csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    from gpucost.store.table_files import harmless

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(harmless, columns))
    writer.writerows([harmless(as_text(value)) if isinstance(value, str) else as_text(value) for value in row] for row in rows)
    return text.getvalue()


def _json(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    return (
        json.dumps([dict(zip(columns, map(plain_value, row), strict=True)) for row in rows], indent=2, ensure_ascii=False) + "\n"
    )


def as_text(value: Any) -> str:
    """`value` as tables and CSV show it, in one line."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.replace("\r", "").replace("\n", "\\n")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    plain = plain_value(value)
    if isinstance(plain, str):
        return plain
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(plain, ensure_ascii=False)


def plain_value(value: Any) -> Any:
    """`value` as JSON knows it: decimals become numbers, instants ISO 8601, bytes hexadecimal.

    What is no number becomes null, and infinity, which JSON cannot spell as a number either, the word.
    """
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float):
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        return None if math.isnan(value) else value
    if isinstance(value, bytes | bytearray | memoryview):
        return value.hex()
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


_GAP = 2
_NARROWEST_TEXT = 10
_SHORT_WORD = 16


def line_width(output: Path | None = None) -> int | None:
    """How many characters a line may have: COLUMNS where it is set, else the terminal's; None into a file or a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns if output is None and sys.stdout.isatty() else None
    except (OSError, ValueError):  # a stdout that is no file has no descriptor
        return None


def natural_width(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> int:
    """Characters in a line of the table with nothing left out or broken."""
    return _sum_of(_natural(columns, _texts(rows)), range(len(columns)))


def fitted(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    weights: Sequence[int],
    width: int | None,
    *,
    figures: Sequence[int] = (),
) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows of a table of at most `width` characters, as far as that can be; None is as many as it takes.

    Columns of weight 0 always stay. Of the others the lighter ones come first: for those of weight 1 texts are broken between
    words, for heavier ones nothing is. `figures` are the columns of figures, which are never broken, where their values are texts
    already. A row whose texts are broken is followed by rows with the rest of them.
    """
    if width is None or natural_width(columns, rows) <= width:
        return list(columns), [list(row) for row in rows]
    texts = _texts(rows)
    widths = _natural(columns, texts)
    is_text = [index not in figures and not any(_is_figure(row[index]) for row in rows) for index in range(len(columns))]
    words = [_longest(texts, index, r"\S+") if of_text else 0 for index, of_text in enumerate(is_text)]
    short = [
        max(len(name), min(_SHORT_WORD, word), min(_NARROWEST_TEXT, natural)) if of_text else natural
        for name, word, of_text, natural in zip(columns, words, is_text, widths, strict=True)
    ]
    shown = [index for index, weight in enumerate(weights) if not weight]
    for index in sorted(range(len(columns)), key=lambda index: weights[index]):
        if weights[index] and _sum_of(short if weights[index] == 1 else widths, [*shown, index]) <= width:
            shown.append(index)
    shown.sort()
    names = [index for index in shown if is_text[index]]
    for least in (words, [_longest(texts, index, _PIECE) for index in range(len(columns))]):
        floors = {index: max(least[index], len(columns[index]), _NARROWEST_TEXT) for index in names}
        _narrow(widths, floors, _sum_of(widths, shown) - width)
    lines: list[list[Any]] = []
    for row, cells in zip(rows, texts, strict=True):
        folded = [_folded(cells[index], widths[index]) if is_text[index] else [row[index]] for index in shown]
        lines += [list(line) for line in zip_longest(*folded)]
    return [columns[index] for index in shown], lines


def left_out(columns: Sequence[str], shown: Sequence[str]) -> str:
    """A sentence that names the columns that `fitted` had no room for; empty where it had."""
    names = ", ".join(name for name in columns if name not in shown)
    return f"Left out for lack of room: {names}; --format json has all." if names else ""


def figures_right(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], names: Container[str]
) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows with the figures that are written as words (their thousands parted) set to the right.

    Those are the columns of `names` and money, whose names end in its currency.
    """
    columns, lines = list(columns), [list(row) for row in rows]
    for index, name in enumerate(columns):
        if name in names or name[-3:].isupper():
            most = max(len(name), *(len(line[index] or "") for line in lines), 0)
            columns[index] = name.rjust(most)
            for line in lines:
                line[index] = (line[index] or "").rjust(most)
    return columns, lines


def wrapped(text: str, indent: str = "") -> str:
    """`text` as lines no longer than the terminal's, broken between words; one line where nothing limits it."""
    width = line_width()
    if width is None:
        return indent + text
    return textwrap.fill(
        text,
        max(width, 20),
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


_PIECE = r"[^-/._\s]*[-/._]|[^-/._\s]+"


def _texts(rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [[as_text(value) for value in row] for row in rows]


def _natural(columns: Sequence[str], texts: list[list[str]]) -> list[int]:
    return [max(len(name), *(len(row[index]) for row in texts), 0) for index, name in enumerate(columns)]


def _is_figure(value: Any) -> bool:
    return value is not None and not isinstance(value, str)


def _longest(texts: list[list[str]], index: int, pattern: str) -> int:
    return max((len(piece) for row in texts for piece in re.findall(pattern, row[index])), default=0)


def _sum_of(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[index] + _GAP for index in shown) - _GAP


def _narrow(widths: list[int], floors: dict[int, int], excess: int) -> None:
    """Take `excess` characters from the widest of the columns in `floors`, evenly, as far as each keeps its least width."""
    for _ in range(max(0, excess)):
        wide = [index for index, floor in floors.items() if widths[index] > floor]
        if not wide:
            return
        widths[max(wide, key=lambda index: widths[index])] -= 1


def _folded(text: str, width: int) -> list[str]:
    """Lines of at most `width`: broken between words, and words only where they are longer than that, behind - / . or _."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if len(joined) <= width:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for piece in [word] if len(word) <= width else re.findall(_PIECE, word):
            if lines[-1] and len(lines[-1] + piece) > width:
                lines.append("")
            lines[-1] += piece
    return lines
