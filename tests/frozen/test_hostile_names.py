"""Every command's answer, in every text format, about fleets with hostile names.

All names contain terminal control codes, invisible characters, and active content of Markdown, HTML, CSV, YAML, shells and
templates: labels of metrics, files of the configuration and of work, the bill. The commands still work as with other names.
"""

from __future__ import annotations

import csv
import html.parser
import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.store.progress import ProgressRun, ProgressSeries
from tests.frozen import fleets
from tests.frozen.commands import Answer, answers
from tests.frozen.test_answers import GOLDEN, WIDTH, Fleet, alone, made_once
from tests.golden import report_fleet
from tests.golden.report_fleet import HOUR, OCTOBER
from tests.replay.series import Series
from tests.text_tables import columns, text_rows
from tests.unit.command import call
from tests.unit.test_texts import hidden

HARM = (
    "\x1b]8;;https://evil.example\x1b\\\x1b]52;c;eA==\x07\x1b[2J\x08\r\x9b1m\u202e\u2066\u200d\u200b\ufeff\xad\u2028\U000e0001\U000e0041\ufe0f"
    "|`<script>alert(1)</script><!channel>\"'{{7*7}}{%x%}${x}$(x)\\\n\t*_[a](javascript:b)" + "n" * 300
)
#: A lake has a folder per cluster, and file systems limit the length of names.
OF_CLUSTERS = "\x1b[2J\x07\r\u202e\u200b\U000e0041|`<script>\"'/../$(x)\n"
#: Begins like a formula.
BEGINNING = "=cmd|"
NAMES = """
    node Hostname namespace pod created_by_name owner_name cluster_queue cohort flavor exported_namespace exported_pod model_name
    label_team instance"""
#: Facts of machines must match catalogs and the bill, so only these values are changed.
FACTS = {"NVIDIA-H100-80GB-HBM3", "NVIDIA H100 80GB HBM3", "europe-west4-a"}
#: Names of the two fleets in command lines.
CALLED = ["research", "train", "serve", "n1", "run-a"]


def harmful(name: str, harm: str = HARM) -> str:
    return f"{BEGINNING}{name}{harm}" if name else name


def harmful_labels(series: Series) -> Series:
    labels = {name: harmful_label(name, value) for name, value in series.labels.items()}
    return replace(series, labels=labels)


def harmful_label(name: str, value: str) -> str:
    if name == "cluster":
        return harmful(value, OF_CLUSTERS)
    return harmful(value) if name in NAMES.split() or value in FACTS else value


def harmful_series(series: ProgressSeries) -> ProgressSeries:
    labels = tuple((name, harmful_label(name, value)) for name, value in series.labels)
    own = {name: harmful_label("node", getattr(series, name)) for name in ("namespace", "pod", "model")}
    own["cluster"] = harmful_label("cluster", series.cluster)
    return series._replace(labels=labels, **own)


def harmful_run(run: ProgressRun) -> ProgressRun:
    own = {name: harmful(getattr(run, name)) for name in ("experiment", "name", "namespace")}
    return run._replace(workload=harmful_word(run.workload), **own)


def harmful_word(word: str) -> str:
    """Return a word of a command, made harmful if it is a name."""
    kind, slash, name = word.rpartition("/")
    return f"{kind}{slash}{harmful(name)}" if name in CALLED or (slash and kind.isalpha()) else word


def harmful_config(text: str) -> str:
    """Change names of teams, budgets and rules, and the prefixes of the namespaces that they list."""

    def changed(found: re.Match[str]) -> str:
        key, names = found.groups()
        ends = (lambda name: f"{BEGINNING}{name.rstrip('*')}*") if key == "namespaces" else harmful
        return f"{key} = " + re.sub(
            r'"(.+?)"', lambda one: json.dumps(ends(one[1]), ensure_ascii=False), names
        )

    return re.sub(r"(?m)^(name|team|teams|groups|namespaces|who|why) = (.+)$", changed, text)


def rewritten(text: str, changed: Callable[[str, str], str]) -> str:
    """Change the cells of a CSV file below the first row, by column and value."""
    head, *rows = csv.reader(io.StringIO(text))
    target = io.StringIO()
    csv.writer(target).writerows([head, *(map(changed, head, row) for row in rows)])
    return target.getvalue()


def harmful_cell(column: str, cell: str) -> str:
    """Change descriptions, products, tags and names of a bill, but not the machine and cost of a charge."""
    if not re.search("(?i)description|product_?name|tag|resourcename|invoice", column):
        return cell
    return json.dumps({harmful("k"): harmful("v")}) if cell.startswith("{") else harmful(cell)


def yaml_string(text: str) -> str:
    """Return a string in YAML with each character escaped, so that it may be any."""
    return '"' + "".join(f"\\U{ord(one):08x}" for one in text) + '"'


def harmful_file(name: str, text: str) -> str:
    if name.endswith(".toml") and name != "broken.toml":
        return harmful_config(text)
    if name in ("cur.csv", "focus.csv", "azure.csv"):
        return rewritten(text, harmful_cell)
    if name == "epochs.csv":
        return rewritten(text, lambda _, cell: harmful(cell) if cell == "train" else cell)
    if name == "job.yaml":
        return re.sub(r"(?<=(?:name|pace): )[\w-]+", lambda found: yaml_string(harmful(found[0])), text)
    if name == "jobs.psv":
        one_field = re.sub("[|\n\r\u2028]", "", HARM)
        return re.sub(r"\b(bert|nlp|ann|bob|hpc)\b", lambda found: found[0] + one_field, text)
    return text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Fleet]]:
    def harm(name: str, at: int, change: Callable[..., Any]) -> None:
        """Change one argument of a function that makes the fleets."""
        own = getattr(fleets, name)
        patch.setattr(fleets, name, lambda *a, **how: own(*a[:at], change(*a[: at + 1]), *a[at + 1 :], **how))

    with alone() as patch:
        harm("load", 1, lambda _, series: map(harmful_labels, series))
        harm("write", 2, lambda _, name, text: harmful_file(name, text))
        harm("put", 1, lambda _, counters: [(harmful_series(one), values) for one, values in counters])
        harm("load_runs", 3, lambda *_: list(map(harmful_run, _[3])))
        with made_once("hostile", tmp_path_factory) as found:
            yield found


class _Page(html.parser.HTMLParser):
    """The scripts and the visible text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        for name, value in attrs:
            if name.startswith("on") or (name in ("href", "src") and (value or "").startswith("javascript")):
                self.found.append(name)


def check(text: str, kind: str) -> None:
    """Check that an output text is safe and valid in its format, with any names."""
    if kind == "metrics":
        label = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
        assert re.fullmatch(rf"(?:(?:#.*|[a-z_]+\{{{label}(?:,{label})*\}} \S+|[a-z_]+ \S+)\n)+", text)
        return
    assert not hidden(text)
    if kind in ("json", "html"):
        assert kind == "html" or json.loads(text)
        page = _Page(text if kind == "html" else "")
        assert not page.found and page.scripts <= 1
    elif kind in ("csv", "focus"):
        lines = list(csv.reader(io.StringIO(text)))
        assert {len(line) for line in lines} == {len(lines[0])}
        assert not [cell for line in lines for cell in line if re.match(r"[=+@\t\r\n]|-[^\d]", cell)]
    elif kind == "xml":
        assert ET.fromstring(text) is not None  # noqa: S314 - our own
    elif kind == "yaml":
        assert list(yaml.safe_load_all(text))
    elif kind == "markdown":
        plain = re.sub(r"(?s)(?<!\\)(`+)(?!`).+?(?<!`)\1(?!`)", "", text)
        assert not re.search(r"<(?!br>)[a-z!/]|(?<!\\)\]\((?![\w./-]+\))", plain)
        for table in re.findall(r"(?m)(?:^\|.*\n)+", text):
            unescaped = re.sub(r"\\.", "", table).splitlines()
            assert len({line.count("|") for line in unescaped}) == 1


KINDS = columns("""
    export-openmetrics      metrics
    export-alerts           yaml
    export-recording-rules  yaml
    export-dashboard        json
""")


# Parquet contains names unchanged
ANSWERS = [one for one in answers() if one.format != "parquet"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a store of four hours with hostile names only."""
    fleet = report_fleet.Fleet()
    cluster = harmful("prod", OF_CLUSTERS)
    fleet.node(1, harmful("n1"), harmful("A100"), 8, "on_demand", "24.48", cluster=cluster)
    workload = harmful("run-a")
    fleet.pod(1, 1, harmful("train"), workload, f"Job/{workload}", cluster=cluster)
    for hour in range(4):
        fleet.cell(OCTOBER + hour * HOUR, 1, [(1, harmful("research"), 4, 1.0, 0.5)])
    fleet.rows["collected"].append((cluster, OCTOBER, OCTOBER + 4 * HOUR))
    path = tmp_path_factory.mktemp("small") / "store.duckdb"
    fleet.write(path)
    return path


NAMED = "report --month 2026-10 --by cluster,team,namespace,workload,pod,node,gpu_model"
CHEAP = f"""
terminal | {NAMED}
markdown | {NAMED} --format markdown
csv      | {NAMED} --format csv
json     | {NAMED} --format json
html     | {NAMED} --format html
metrics  | export openmetrics --month 2026-10
terminal | sql 'from allocations'
"""


@pytest.mark.usefixtures("in_an_empty_folder")
@pytest.mark.parametrize(("kind", "words"), text_rows(CHEAP))
def test_hostile_names_of_a_small_store_are_harmless(
    kind: str, words: str, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    out, err = call(*shlex.split(words), "--store", str(small))
    assert BEGINNING[:4] in out
    check(err, "terminal")
    check(out, kind)


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_hostile_names_are_harmless(
    answer: Answer, made: dict[str, Fleet], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = made[answer.fleet]
    monkeypatch.chdir(fleet.folder)
    monkeypatch.setenv("HOME", str(fleet.folder))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("COLUMNS", WIDTH)
    result = CliRunner().invoke(app, list(map(harmful_word, answer.words)), prog_name="gpucost")
    files = {path.name: (fleet.folder / path) for path in fleet.new_files()}
    try:
        expected = re.search(
            r"(?m)^-- exit code (\d+)$", (GOLDEN / f"{answer}.txt").read_text(encoding="utf-8")
        )
        assert expected and result.exit_code == int(expected[1]), result.output
        if names := re.search(
            rf"\b(?:{'|'.join(CALLED)})\b",
            expected.string.partition("-- stdout")[2].partition("-- stderr")[0],
        ):
            assert BEGINNING[:4] in result.stdout, f"{names[0]} is missing"
        check(result.stderr, "terminal")
        check(result.stdout, KINDS.get(answer.name, answer.format) if result.stdout else "")
        for name, path in files.items():
            kind = path.suffix.removeprefix(".")
            assert not hidden(name) and not set(name) & set("|`<>\"'\\\n")
            if kind != "parquet":
                check(path.read_text(encoding="utf-8"), {"md": "markdown"}.get(kind, kind))
    finally:
        fleet.restore()


AT_A_TERMINAL = """
estimated | report --month 2026-03 --by team,namespace -v
estimated | export openmetrics --month 2026-03
estimated | export alerts
estimated | explain team research --month 2026-03
estimated | sql 'from allocations'
estimated | collect slurm jobs.psv nodes.txt --store new.duckdb
billed    | report --month 2026-03 --format focus
billed    | collect aws cur.csv --store new.duckdb
"""


@pytest.mark.slow
@pytest.mark.parametrize(("fleet", "words"), text_rows(AT_A_TERMINAL))
def test_terminal_executes_no_name(fleet: str, words: str, made: dict[str, Fleet], tmp_path: Path) -> None:
    """The terminal receives colors and a changing status line, and no other control codes."""
    script = tmp_path / "script.py"
    script.write_text(
        "from gpucost.cli import output, main\noutput.Waiting._AFTER_SECONDS = 0\nmain.main()\n"
    )
    place = made[fleet]
    terminal, ours = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, str(script), *map(harmful_word, shlex.split(words))],
        stdout=ours, stderr=ours, cwd=place.folder, env=os.environ | {"TERM": "xterm", "COLUMNS": "300"},
    )  # fmt: skip
    os.close(ours)
    output = b""
    with suppress(OSError):  # the terminal closes with the program
        while part := os.read(terminal, 65536):
            output += part
    os.close(terminal)
    place.restore()
    assert done.wait() == 0, output
    # only the status line has carriage returns; a name would also have the rest of HARM
    text = re.sub(r"\r|\x1b\[(?:[0-9;]*m|[12]?K|1A|\?25[hl])", "", output.decode())
    assert not hidden(text) and (BEGINNING[:4] in text or words.startswith("collect"))


ELSEWHERE = """
lake export lake
lake info lake
lake info lake --format json
lake attribute lake
report --lake lake --month 2026-03 --by cluster,namespace
store compact
export chart --out chart --image gpucost:1.0
open --no-browser --month 2026-03 -o page.html
"""


@pytest.mark.slow
def test_hostile_names_in_lakes_and_pages_are_harmless(
    made: dict[str, Fleet], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fleet = made["estimated"]
    monkeypatch.chdir(fleet.folder)
    monkeypatch.setenv("GPUCOST_LAKE__WRITER", "main")
    monkeypatch.setenv("GPUCOST_ENGINE__MEMORY", "4GB")
    try:
        for words in ELSEWHERE.strip().splitlines():
            assert not hidden("".join(call(*words.split()))), words
        for path in fleet.new_files():
            assert not hidden(str(path)) and "\n" not in str(path)
    finally:
        fleet.restore()
