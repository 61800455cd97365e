"""Shell completions: fast, from the current store, and silent if there is no store."""

from __future__ import annotations

import hashlib
import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from tests.golden.report_fleet import stored

OLD = Path(__file__).parents[1] / "stores" / "schema-16.duckdb.xz"
pytestmark = pytest.mark.ci
store = stored(hours=60)


def offered(line: str, folder: Path, *options: str) -> tuple[list[str], str]:
    """The completions of `line` and the stderr; the exit code must be 0."""
    request = {"_GPUCOST_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    environment = {"HOME": str(folder), "XDG_CACHE_HOME": "/dev/null", "PATH": os.defpath, **request}
    program = [sys.executable, *options, "-c", "from gpucost.cli.main import main; main()"]
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("report --team research --namespace ml-", ["ml-product", "ml-research"]),
        ("report --by team,work", ["team,workload", "team,workload_type"]),
        pytest.param("report --month ", ["2026-10"], marks=pytest.mark.slow),
    ],
)
def test_values_come_from_the_store_on_the_line(
    line: str, values: list[str], store: Path, tmp_path: Path
) -> None:
    assert offered(f"gpucost --store {store} {line}", tmp_path) == (values, "")


def test_values_come_from_the_store_in_the_config(store: Path, tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text(f'[store]\npath = "{os.path.relpath(store, tmp_path)}"\n')
    assert offered("gpucost waste --workload Job/", tmp_path) == (["Job/llama-finetune"], "")
    assert offered("gpucost report --team ", store.parent)[0] == []


NAMES = [
    "a\nb",
    *["$(touch x)", "`touch x`", "a;touch x", "a'b", 'a"b', "a\\b", "a\x1b[2Jb", "a|b", "aㅤb", "*"],
]


def test_names_with_shell_syntax_are_not_offered(store: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copyfile(store, tmp_path / "gpucost.duckdb"))
    with duckdb.connect(str(copy)) as con:
        con.executemany(
            "INSERT INTO cost_runs BY NAME SELECT * REPLACE ($1 AS team) FROM cost_runs LIMIT 1",
            [[name] for name in NAMES],
        )
        teams = con.execute("SELECT DISTINCT team FROM cost_runs").fetchall()
        assert {name for (name,) in teams} > {*NAMES}
    assert offered(f"gpucost --store {copy} report --team ", tmp_path) == (
        ["product", "research", "vision"],
        "",
    )


def test_slow_modules_are_not_loaded(store: Path, tmp_path: Path) -> None:
    for line in ("gpucost rep", "gpucost report --te", f"gpucost report --store {store} --team res"):
        values, loaded = offered(line, tmp_path, "-X", "importtime")
        assert len(values) == 1
        assert "pydantic" not in loaded and "rich" not in loaded


def test_store_of_an_earlier_version_is_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "gpucost.duckdb"
    file.write_bytes(lzma.decompress(OLD.read_bytes()))
    before = hashlib.sha256(file.read_bytes()).digest()
    assert offered("gpucost report --team ", tmp_path) == ([], "")
    assert hashlib.sha256(file.read_bytes()).digest() == before
    file.write_bytes(file.read_bytes()[:5000])  # a broken store gives no message either
    assert offered("gpucost report --team ", tmp_path) == ([], "")
    assert [path.name for path in tmp_path.iterdir()] == ["gpucost.duckdb"]
