"""The commands that look at the configuration and the store, as a user calls them."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpucost import __version__
from gpucost.store.connection import Store
from tests.golden.report_fleet import alone, stored
from tests.unit.command import call

fleet = stored(hours=48)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [
        name for name in os.environ if name.startswith(("GPUCOST_", "PROMETHEUS_", "KUBERNETES_", "XDG_"))
    ]:
        monkeypatch.delenv(name)
    alone(tmp_path, monkeypatch)
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    return tmp_path


@pytest.fixture(scope="module")
def one_load(module_path: Path) -> Path:
    path = module_path / "gpucost.duckdb"
    with Store(path).write() as con:
        window = [1759276800000, 1759363200000]
        con.execute(
            "INSERT INTO loads VALUES (1, 1, 'prometheus', 'main', ?, ?, 42, 3, TIMESTAMP '2025-10-02 01:02:03')",
            window,
        )
    return path


@pytest.fixture
def store(work: Path, one_load: Path) -> Path:
    return Path(shutil.copyfile(one_load, work / "gpucost.duckdb"))


def test_version_and_missing_files_are_reported(work: Path) -> None:
    assert call("--version")[0] == f"gpucost {__version__}\n"
    _, err = call("config", "show")
    assert str(work / "gpucost.toml") in err
    assert str(work / ".config" / "gpucost" / "gpucost.toml") in err
    for words in (["store", "info"], ["sql", "select 1"]):
        assert "fix: gpucost collect prometheus" in call(*words, code=1)[1]


def test_broken_config_is_reported_by_every_command(work: Path) -> None:
    (work / "gpucost.toml").write_text("[idle]\nthreshold = 5\n")
    for command in ("config show", "store info", "sql 'select 1'", "report", "collect prometheus", "doctor"):
        printed = "".join(call(*shlex.split(command), code=1))
        assert "idle.threshold" in printed and "did you mean idle.threshold_percent?" in printed, command


def test_store_info_lists_empty_tables_on_request(store: Path) -> None:
    out, _ = call("store", "info")
    assert "main" in out and "scrape_gaps" not in out
    assert "scrape_gaps" in call("store", "info", "-v")[0]


def test_sql_in_every_format(store: Path) -> None:
    assert call("sql", "select source, rows from loads")[0].splitlines()[2].split() == ["main", "42"]
    assert call("sql", "--format", "csv", "select source, rows from loads")[0] == "source,rows\nmain,42\n"
    assert json.loads(call("sql", "--format", "json", "-", stdin="select 1 as one")[0]) == [{"one": 1}]
    call("sql", "--format", "markdown", "-o", "out.md", "select 1 as one")
    assert Path("out.md").read_text() == "| one |\n| --: |\n| 1 |\n"


# Modules loaded at the end of a command: modules of gpucost, and libraries with a long import. Fewer is
# better.
LOADED = {
    "--help": ("cli cli.app cli.main questions", ""),
    "sql 'select 1'": (
        "attribute catalog cli cli.app cli.command cli.completion cli.main cli.output cli.parameters cli.setup options questions "
        "questions.request config config.files config.load "
        "config.model discover disk engine errors inputs installation periods pipeline price price.book price.discounts "
        "price.fx price.list_prices "
        "records render render.rows resources store store.bill_rules store.connection store.schema store.sqlfiles suggest texts",
        "duckdb pydantic",
    ),
    "report --month 2026-10": (
        "attribute catalog cli cli.app cli.command cli.completion cli.main cli.output cli.report "
        "cli.asking cli.parameters options questions questions.report questions.report.reading questions.request "
        "config config.files config.load config.model disk engine errors inputs installation periods pipeline price price.book "
        "price.discounts price.fx price.list_prices render render.formatting render.rows render.terminal render.view "
        "questions.report.build questions.report.coverage questions.report.headline questions.report.labels "
        "questions.report.query questions.report.rows "
        "questions.report.sections questions.report.series questions.report.sharing "
        "records resources shapes store store.bill_rules store.charges store.connection store.schema store.sqlfiles store.usage "
        "suggest texts",
        "duckdb pydantic rich",
    ),
}
HEAVY = "boto3 duckdb google jinja2 numpy obstore pandas prometheus_api_client pydantic requests rich"


def loaded_after(fleet: Path, *commands: str) -> list[set[str]]:
    """The modules loaded after each command; one process runs them all."""
    code = (
        "import sys\nfrom gpucost.cli.main import main\n"
        # mark the fleet as already attributed
        "if len(sys.argv[1].split()) > 1:\n    from gpucost import attribute\n    attribute.is_current = lambda *_: True\n"
        f"for words in {[shlex.split(command) for command in commands]!r}:\n    sys.argv = ['gpucost', *words]\n"
        "    try:\n        main()\n    except SystemExit:\n        pass\n    print('loaded', *sys.modules, file=sys.stderr)\n"
    )
    around = {**os.environ, "GPUCOST_STORE": str(fleet)}
    ran = subprocess.run(
        [sys.executable, "-c", code, commands[0]], check=True, capture_output=True, env=around, text=True
    )
    return [{*line.split()[1:]} for line in ran.stderr.splitlines() if line.startswith("loaded ")]


@pytest.mark.parametrize(
    "words", ["--help", pytest.param("sql 'select 1'", marks=pytest.mark.slow), "report --month 2026-10"]
)
def test_command_loads_only_its_modules(words: str, fleet: Path) -> None:
    # help last, in the same process: it loads more
    helps = [
        f"{name} --help"
        for name in ("report", "chargeback", "waste", "forecast", "whatif spot", "collect aws")
    ]
    modules, *after_help = loaded_after(fleet, words, *(helps if words == "--help" else ()))
    assert {name.removeprefix("gpucost.") for name in modules if name.startswith("gpucost.")} == {
        *LOADED[words][0].split()
    }
    heavy = {*HEAVY.split()}
    assert modules & heavy == {*LOADED[words][1].split()}
    assert not set.union(set(), *after_help) & heavy - {"pydantic"}
