"""A large fleet in bounded memory: 2,400 nodes with 8 GPUs, over 20,000 pods, over 100,000 series per hour."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpucost.store.connection import Store

pytestmark = pytest.mark.slow

GPUS, DAYS, PEAK_MIB = 19_200, 3, 1024
IN_AN_HOUR = """
SELECT (SELECT count(*) FROM blocks WHERE hour = h)
    + (SELECT count(*) FROM states WHERE first_ms < (h + 1)::BIGINT * 3600000 AND last_ms >= h::BIGINT * 3600000)
FROM (SELECT max(hour) - 12 AS h FROM blocks)"""
ROOT = Path(__file__).parents[2]
# Prints the program's peak memory in MiB (Linux reports KiB).
MEASURED = """
import resource, subprocess, sys
command = [sys.executable, "-m", "gpucost", *sys.argv[1:]]
done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, done.returncode, done.stderr[-500:])
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "gpucost.duckdb"
    code = "import sys; from tests.bench.steps import large; large(*sys.argv[1:])"
    subprocess.run([sys.executable, "-c", code, str(path), str(GPUS), str(DAYS)], cwd=ROOT, check=True)
    path.with_name("gpucost.toml").write_text('[prices]\nbook = "prices.csv"\n')
    return path


def test_memory_is_bounded(fleet: Path) -> None:
    count = "SELECT count(DISTINCT labels['pod']), (SELECT count(DISTINCT labels['node']) FROM series) FROM series"
    pods, nodes = Store(fleet).query(count)[1][0]
    series = Store(fleet).query(IN_AN_HOUR)[1][0][0]
    assert pods >= 20_000 and nodes >= 2_000 and series >= 100_000, (pods, nodes, series)
    spans = f"--from 2026-10-01 --to 2026-10-{DAYS + 1:02}"
    for words in (f"report {spans} --by namespace,day", "store check", f"waste {spans}", "store compact"):
        places = ("--store", str(fleet), "--config", str(fleet.with_name("gpucost.toml")))
        command = [sys.executable, "-c", MEASURED, *words.split(), *places]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        peak, code, output = done.stdout.split(" ", 2)
        print(f"{words}: {peak} MiB")
        assert code == "0", output
        assert int(peak) <= PEAK_MIB, words
