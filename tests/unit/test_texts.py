"""Characters of labels that are invisible or that a terminal obeys are shown as their numbers."""

from __future__ import annotations

import csv
import io
import json
import logging
import re
import subprocess
import sys
import unicodedata
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, strategies as st
from markupsafe import Markup
from typer.testing import CliRunner

from gpucost import texts
from gpucost.cli.app import app
from gpucost.cli.command import _set_up_logging
from gpucost.cli.output import note, plain, print_error
from gpucost.errors import GpucostError
from gpucost.http import session
from gpucost.publish.notify import Message, as_html, as_slack, as_text
from gpucost.render.data import to_csv, to_parquet
from gpucost.render.html import environment
from gpucost.render.markdown import render as to_markdown
from gpucost.render.rows import RowFormat, render_rows
from gpucost.render.terminal import render as to_terminal
from gpucost.render.view import (
    Column,
    Figure,
    Figures,
    Item,
    Items,
    Line,
    Page,
    ReportView,
    Section,
    Table,
    Texts,
)
from gpucost.store.table_files import _EMPTY, csv_text, harmless, save_table
from gpucost.texts import excerpt, one_line, readable_json, visible
from tests.html_pages import HOSTILE as HOSTILE_NAMES, hostile_store, view
from tests.loopback import Quiet, serving

HOSTILE = "a\x1b[2Jb\u202ec\u200bd\x07e\u2028f\x9bg\r"
SHOWN = "a\\u001b[2Jb\\u202ec\\u200bd\\u0007e\\u2028f\\u009bg\\u000d"
# Letters and marks that Unicode ignores for display: Default_Ignorable_Code_Point
IGNORED = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
IGNORED += "".join(map(chr, [*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)]))
OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")


def hidden(text: str) -> set[str]:
    """Control characters in a text, except line ends and tabs."""
    return {letter for letter in text if letter not in "\n\t" and unicodedata.category(letter) in OBEYED}


@given(st.text())
def test_no_invisible_character_remains(text: str) -> None:
    assert not hidden(visible(text).replace("\t", ""))
    assert not hidden(one_line(text)) and "\n" not in one_line(text)


@given(st.text(alphabet=st.characters(exclude_categories=(*OBEYED, "Cn", "Co"), exclude_characters=IGNORED)))
def test_visible_characters_are_unchanged(text: str) -> None:
    assert visible(text) == text


def test_pages_show_hidden_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert visible(HOSTILE) == SHOWN
    page = page_of(HOSTILE, patch=HOSTILE)
    terminal, markdown = to_terminal(page, None, color=False), to_markdown(page)
    assert terminal.count(SHOWN) >= 13 and not hidden(terminal)
    assert not hidden(markdown) and "u001b" in markdown
    print_error(HOSTILE, HOSTILE)
    note(HOSTILE)
    print_error("no team a\nfix: rm -r b", None)
    assert capsys.readouterr().err == (
        f"error: {SHOWN}\nfix: {SHOWN}\n{SHOWN}\nerror: no team a\n  fix: rm -r b\n"
    )
    # in a single line, all line breaks become blanks
    assert excerpt(HOSTILE) == one_line(HOSTILE) == SHOWN.replace("\\u2028", " ").removesuffix("\\u000d")


@pytest.fixture(scope="module")
def report(module_path: Path) -> ReportView:
    return view(hostile_store(module_path), by=("team", "namespace"))


def test_rows_show_hidden_characters() -> None:
    for kind in (RowFormat.table, RowFormat.markdown, RowFormat.csv):
        assert not hidden(render_rows(("a", HOSTILE), [(HOSTILE, 1)], kind))
    assert list(csv.reader(io.StringIO(render_rows(("a",), [(HOSTILE,)], RowFormat.csv)))) == [["a"], [SHOWN]]


@cache
def replaced() -> set[str]:
    """All characters that are shown as their numbers."""
    return {letter for letter in map(chr, range(0x110000)) if visible(letter) != letter}


def test_all_invisible_unicode_characters_are_replaced() -> None:
    shown = replaced()
    assert {letter for letter in map(chr, range(0x110000)) if unicodedata.category(letter) in OBEYED} - {
        "\n",
        "\t",
    } <= shown
    # also other characters ignored for display, and unassigned ones
    assert {unicodedata.category(letter) for letter in shown} <= {*OBEYED, "Cn", "Lo", "Mn"}
    assert set("\u3164\ufe0f\U000e0fff\ufffe") <= shown


@given(st.text() | st.dictionaries(st.text(), st.text()))
def test_escaped_json_has_the_same_value(value: object) -> None:
    text = readable_json(value)
    assert not hidden(text) and json.loads(text) == value
    assert json.loads(visible(json.dumps(value, ensure_ascii=False))) == value


def test_duckdb_replaces_the_same_characters(tmp_path: Path) -> None:
    odd = sorted((replaced() - set(map(chr, range(0xD800, 0xE000)))) | set(map(chr, range(256))))
    texts = [f"{text}{one}" for text in ("a", "", "\n", "é\t=") for one in odd]
    texts += ["=1", "＝1", " =1", "\u202e=1", "'", 'a"b;c,d', HOSTILE]
    with duckdb.connect() as con:
        con.execute('CREATE TABLE texts AS SELECT unnest($1::VARCHAR[]) AS "of ""all"""', [texts])
        save_table(con, "texts", {"text": 'of "all"'}, "csv", tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open(encoding="utf-8", newline="") as file:
        assert [row[0] for row in csv.reader(file)][1:] == list(map(harmless, texts))


def test_passwords_in_addresses_of_servers_are_concealed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_SECRETS", set())
    address = "http://me:hunter2@127.0.0.1:1/slurm"
    session(address, 1).close()
    session("http://127.0.0.1:9090/a@b", 1).close()
    assert (
        GpucostError(f"cannot connect to {address}").message
        == "cannot connect to http://me:***@127.0.0.1:1/slurm"
    )
    assert {"hunter2", "aHVudGVyMg=="} == texts._SECRETS


def test_csv_cells_with_a_separator_are_quoted(report: ReportView, tmp_path: Path) -> None:
    cells = ["a;b", ";", "a,b", 'a"b', "a\nb", "plain", "#a", "", "é ;"]
    written = ['"a;b"', '";"', '"a,b"', '"a""b"', '"a\nb"', "plain", "#a", "", '"é ;"']
    assert csv_text([cells, [""]]) == ",".join(written) + '\n""\n'
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT unnest($1::VARCHAR[]) AS a, 'x' AS b", [cells])
        save_table(con, "t", {"a;": "a", "b": "b"}, "csv", tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == '"a;",b\n' + "".join(f"{one or _EMPTY},x\n" for one in written)
    assert render_rows(("a;", "b"), [("c;d", 1)], RowFormat.csv) == '"a;",b\n"c;d",1\n'
    text = to_csv(report)
    odd = {cell.replace('"', '""') for line in csv.reader(io.StringIO(text)) for cell in line if ";" in cell}
    assert odd and all(f'"{cell}"' in text for cell in odd)


def test_text_of_csv_starts_no_formula(report: ReportView, tmp_path: Path) -> None:
    texts = ["=1+1", "+1", "-1", "@sum", "\tpod", "a=1"]
    assert [harmless(text) for text in texts] == [*(f"'{text}" for text in texts[:5]), "a=1"]
    rows = [("=x", Decimal("-1.5")), ("y", -2)]
    assert render_rows(("=a", "b"), rows, RowFormat.csv) == "'=a,b\n'=x,-1.5\ny,-2\n"
    to_parquet(report, tmp_path / "r.parquet")
    teams = [{row["team"] for row in csv.DictReader(io.StringIO(to_csv(report)))}]
    teams.append({row["team"] for row in json.loads(report.json())["rows"]})
    found = duckdb.read_parquet(str(tmp_path / "r.parquet")).select("team").fetchall()
    teams.append({team for (team,) in found})
    assert [
        f"{quote}{HOSTILE_NAMES[1]}" in names for quote, names in zip(("'", "", ""), teams, strict=True)
    ] == [True] * 3


def page_of(name: str, *more: Section, patch: str | None = None) -> Page:
    """A page with this text in every place of every kind of section."""
    item = Item(name, Decimal(1), "money", name, name, name, patch=patch)
    sections = (
        Table(name, (Column(name, "text"),), (Line((name,), name),), name),
        Figures(name, (Figure(name, name, "text", 0.5, name),)),
        Texts(name, (name,), name),
        Items((item,), name),
        *more,
    )
    return Page(title=name, subtitle=name, currency="USD", sections=sections)


def test_line_ends_of_names_are_shown_in_text() -> None:
    name, shown = "web\nTOTAL\t$1", "web\\nTOTAL\\t$1"
    columns = (Column(name, "text"), Column("", "money"))
    total = Table(name, columns, (Line((name, Decimal(1))),), name, has_header=False)
    page = page_of(name, total, patch="kind: a\nname: b")
    text = to_terminal(page, None, color=False)
    assert text.count(shown) >= 15 and "kind: a\nname: b" in to_markdown(page)
    for shown in (text, to_markdown(page), render_rows((name,), [(name,)], RowFormat.table)):
        assert "\nTOTAL" not in shown


MARKUP = "<b>bold</b> `x` | \u202e"


def test_no_string_is_rendered_as_markup() -> None:
    data, text = Markup(MARKUP), str(MARKUP)  # noqa: S704 - unsafe on purpose
    markdown = to_markdown(page_of(data))
    assert markdown == to_markdown(page_of(text))
    # a command is a code span
    assert "<b>" not in re.sub("`` .+? ``", "", markdown)
    for write in (as_text, as_html, as_slack):
        assert write(message_of(data)) == write(message_of(text))
    blocks = [block["text"] for block in as_slack(message_of(data))["blocks"]]
    slack = [block["text"] for block in blocks if block["type"] == "mrkdwn"]
    assert "<b>" not in as_html(message_of(data)) + "".join(slack)
    html = environment().from_string(
        "{{ given.title }}{{ names[0] }}{% for name, _ in pairs.items() %}{{ name }}{% endfor %}"
    )
    values = {"given": page_of(data), "names": [data], "pairs": {data: 1}}
    assert html.render(values) == 3 * "&lt;b&gt;bold&lt;/b&gt; `x` | \\u202e"


def message_of(text: str) -> Message:
    return Message(text, text, ((text, text, text),), text, ((text, text, text),), text, (text,), text)


def run(script: str, *words: str | bytes, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60, **more
    )


def test_logs_and_tracebacks_show_hidden_characters() -> None:
    done = run(f"""
import logging, typer
from gpucost.cli.command import handle_errors
try:
    with handle_errors(verbose=True, quiet=False):
        logging.getLogger("urllib3").warning("%s", {HOSTILE!r})
        logging.getLogger("urllib3").error("failed", exc_info=ValueError({HOSTILE!r}))
        raise ValueError({HOSTILE!r})
except typer.Exit:
    pass
""")
    assert done.stderr.count(SHOWN) == 4 and not hidden(done.stderr)


def test_progress_text_is_not_markup() -> None:
    assert plain(f"[red]{HOSTILE}\n[/nothing]").plain == f"[red]{one_line(HOSTILE + ' [/nothing]')}"


def test_file_names_in_errors_show_hidden_characters(tmp_path: Path) -> None:
    odd = b"/\xff\x1b]0;x\x07\xe2\x80\xaex"
    done = run("from gpucost.cli.main import main; main()", "report", "--config", odd, cwd=tmp_path)
    assert done.returncode and not hidden(done.stderr + done.stdout) and "\\u202e" in done.stderr, done.stderr


@pytest.mark.parametrize("where", ["json", pytest.param("text", marks=pytest.mark.slow)])
def test_messages_of_servers_show_hidden_characters(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = {"error": HOSTILE, "message": HOSTILE, "errors": [{"error": HOSTILE}]}
    body = json.dumps({"status": "error"} | words) if where == "json" else HOSTILE

    class Answering(Quiet):
        def do_GET(self) -> None:  # noqa: N802
            self.send_response(422)
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_PUT = do_GET  # noqa: N815

    with serving(Answering) as url:
        keys = "[[prometheus]]\nurl,[mlflow]\nurl,[azure]\nretail_prices_url,[price_lists]\noci,runpod,vast"
        (tmp_path / "gpucost.toml").write_text("".join(f'{key} = "{url}"\n' for key in keys.split(",")))
        shown = 0
        for command in (
            "collect prometheus",
            f"collect slurm --slurmrestd {url}",
            "collect progress",
            "doctor",
            f"init --url {url} --config new.toml",
            *(f"collect prices --provider {name}" for name in ("azure", "oci", "runpod", "vast")),
        ):
            output = CliRunner().invoke(app, command.split()).output
            assert not hidden(output) and "defect" not in output, output
            shown += "\\u202e" in output
        assert shown >= 6


def test_secrets_are_concealed_before_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_SECRETS", set())
    secret = "planted-" + "s3cr3t" * 120
    texts.conceal(secret)
    texts.conceal("https://hooks.example.com/report")
    message = GpucostError(f"the server sent {secret}").message
    assert (message, excerpt(" " * 3980 + secret)) == ("the server sent ***", "***")
    # a word of an address is part of many texts
    assert excerpt("monthly report") == "monthly report"


def test_secret_inside_a_name_is_concealed_only_in_messages_and_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(texts, "_SECRETS", set())
    texts.conceal("research")
    name = "team research-nlp"
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t AS SELECT $1 AS name", [name])
        save_table(con, "t", {"name": "name"}, "csv", tmp_path / "t.csv")
    for text in (
        visible(name), harmless(name), readable_json([name]), render_rows(("a",), [(name,)], RowFormat.table),
        to_markdown(page_of(name)), to_terminal(page_of(name), None, color=False), as_text(message_of(name)),
        (tmp_path / "t.csv").read_text(),
    ):  # fmt: skip
        assert "research" in text and "***" not in text
    error = GpucostError(f"no {name}", f"fix {name}")
    note(f"wrote {name}")
    print_error(f"lost {name}", error.fix)
    log = logging.getLogger("gpucost.store")
    monkeypatch.setattr(log, "handlers", [])
    _set_up_logging(verbose=False, quiet=False)
    log.warning("kept %s", name)
    assert (str(error), error.message, excerpt(name)) == (
        "no team ***-nlp",
        "no team ***-nlp",
        "team ***-nlp",
    )
    assert capsys.readouterr().err == (
        "wrote team ***-nlp\nerror: lost team ***-nlp\nfix: fix team ***-nlp\nkept team ***-nlp\n"
    )
