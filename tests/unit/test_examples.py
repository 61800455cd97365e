"""Every `gpucost …` line in README and docs can be parsed, and runs on the sample fleet unless it needs more."""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from gpucost.cli.app import DEFAULT, app
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.questions.request import Request

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHOWN_AS_TEXT = ("text", "python", "toml", "yaml", "ini", "crontab", "json")
# Prefixes of lines that are parsed but not run, with the reason.
NOT_RUN = """
init  # prompts, and looks for a server
demo  # builds the sample that the others run on; see tests/unit/test_demo.py
collect prometheus  # needs a server
collect slurm  # needs Slurm or its files
collect aws  # needs a bill
collect gcp  # needs a bill
collect azure  # needs a bill
collect focus focus-2026-10.csv  # needs a bill
collect focus exports/focus/  # needs bills
collect focus s3:  # needs a bucket
collect spot  # needs a cloud or its files
collect prices  # needs a cloud
collect progress  # needs a server, except for a file
lake  # needs a bucket or a folder; see tests/unit/test_lake.py
report --month 2026-10 --lake s3:  # needs a bucket
notify  # sends messages; see tests/unit/test_notify_message.py
prices history  # needs collected spot prices, which the sample lacks
export alerts --config prod.toml  # needs another config
export dashboard --config prod.toml  # needs another config
export openmetrics --pushgateway  # needs a Pushgateway
chargeback --month 2026-10 --out /srv/chargeback --collect  # collects
chargeback verify  # needs a monthly bundle; see tests/unit/test_chargeback.py
sql - < question.sql  # needs a file
store info --store october.duckdb  # needs another store
store compact --store october.duckdb  # needs another store
queue --last 7d --queue research  # needs a queue of that name
queue --month 2026-10 --queue research  # needs a queue of that name
report --month 2026-10 --by label:  # needs labels that the sample lacks
report --last 7d --label  # needs labels that the sample lacks
waste --month 2026-10 --by label:  # needs labels that the sample lacks
findings --month 2026-10 --label  # needs labels that the sample lacks"""
# Exit codes on the sample: a budget is exceeded, a policy is violated, or the bill of a month is missing.
ENDS_WITH = {
    "quote -f": 3,
    "budget check": 3,
    "policy check": 3,
    "chargeback --month 2026-09": 0,
    "chargeback": 4,
}


def examples(page: Path) -> list[str]:
    """Command lines, without `gpucost`, in the fenced or indented blocks and the tables of a page."""
    found, fence = [], None
    for line in page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if mark := re.match(r"\s*```(\w*)", line):
            fence = None if fence is not None else mark[1]
        elif line.startswith("|"):
            found += re.findall(r"\| `gpucost ([a-z][^`|]*)` \|", line)
        elif fence not in SHOWN_AS_TEXT and (fence is not None or line.startswith("    ")):
            command = re.match(r"\s*(?:[A-Z_]+=\S+ )?gpucost (.+)", line)
            found += command[1].split(" && gpucost ") if command else []
    return found


EXAMPLES = {page: examples(page) for page in PAGES}


def words_of(line: str) -> tuple[list[str], str | None]:
    """The words of a command, and the file to which its output is redirected."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="<>|")
    lexer.whitespace_split = True
    words = list(lexer)
    end = next((at for at, word in enumerate(words) if word in ("<", ">", "|")), len(words))
    return words[:end], words[end + 1] if words[end : end + 1] == [">"] else None


def not_run(line: str) -> list[str]:
    if line == "collect progress work.csv":
        return []  # the sample has this file
    return [start for start in re.findall("^(.+?)  #", NOT_RUN, re.M) if line.startswith(start)]


@cache
def program() -> Any:
    return typer.main.get_command(app)


def parse(words: list[str]) -> None:
    """Raise click's UsageError if a command, option or value is invalid."""
    command = program()
    while hasattr(command, "commands"):
        has_own = DEFAULT in command.commands and words[:1] not in [[name] for name in command.commands]
        command = command.commands[DEFAULT if has_own else words.pop(0)]
    command.make_context("example", words)


@pytest.fixture
def sample(demo: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sample folder as working directory, with the files that examples name by an absolute path."""
    assert demo.path is not None
    folder = tmp_path / "sample"
    shutil.copytree(demo.path.parent, folder)
    (folder / "job.yaml").write_text(
        "{kind: Job, metadata: {name: train}, "
        "spec: {template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 1}}}]}}}}"
    )
    monkeypatch.chdir(folder)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    monkeypatch.setattr(Request, "now", datetime(2026, 11, 1, 12, tzinfo=UTC))
    return folder


#: README commands that take seconds; they run in the slow test of all pages.
HEAVY = (
    "chargeback",
    "diff",
    "findings",
    "policy",
    "report --month 2026-10 --format html",
    "whatif schedule",
    "whatif spot --team",
)
ALL = [pytest.param(page, (), id=page.name, marks=pytest.mark.slow) for page in PAGES if EXAMPLES[page]]


@pytest.mark.parametrize(
    ("page", "left_out"),
    [pytest.param(PAGES[0], HEAVY, id="fast README examples", marks=pytest.mark.ci), *ALL],
)
def test_examples_run_on_the_sample(page: Path, left_out: tuple[str, ...], sample: Path) -> None:
    failed = []
    for line in EXAMPLES[page]:
        words, target = words_of(line)
        if not_run(line) or line.startswith(left_out):
            continue
        rooted = [
            str(sample / word.lstrip("/").replace("/", "-")) if word.startswith("/") else word
            for word in words
        ]
        result = CliRunner().invoke(app, rooted)
        if target:
            Path(target).write_text(result.stdout, encoding="utf-8")
        expected = next((code for start, code in ENDS_WITH.items() if line.startswith(start)), 0)
        file = rooted[rooted.index("-o") + 1] if "-o" in rooted else None
        if result.exit_code != expected or (file and not Path(file).is_file()):
            failed.append(
                f"gpucost {line}: {result.exit_code}, not {expected}: {result.stderr}{result.exception!r}"
            )
    assert not failed, "\n".join(failed)


def test_every_example_can_be_parsed() -> None:
    for line in (line for page in EXAMPLES.values() for line in page):
        parse(words_of(line)[0])


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```toml" in page.read_text()], ids=lambda page: page.name
)
def test_settings_in_the_docs_are_valid(page: Path, tmp_path: Path) -> None:
    for block in re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.S):
        file = tmp_path / "gpucost.toml"
        file.write_text(block, encoding="utf-8")
        load_config(file, environ={})
        assert tomllib.loads(block)
