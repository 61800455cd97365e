"""Files with hostile values are loaded or refused with a clear error, and shown without invisible characters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from tests.unit.spot import answer, change
from tests.unit.test_texts import HOSTILE, hidden

HERE = "@here@"
VALUES = {
    "hidden": HOSTILE,
    "lines": "a\nerror: b\r\n\tc",
    "nul": "a\x00b",
    "half a pair": "a\ud800b",
    "tags": "a\U000e0001\U000e0041b",
    "quotes": "\"'`|;,{{x}}${y}<b>\\",
    "formula": "=cmd|' /C calc'!A0",
    "markup": "[red]x[/] [bold",
    "long": "x" * 20_000,
}
PROGRESS = f'{{"workload": "Job/{HERE}", "time": "2026-03-13T06:00:00Z", "unit": "epoch", "value": 1, "model": "{HERE}"}}\n'
CONFIG = 'prometheus = []\n[prices]\nbook = "prices.csv"\n'
BOOK = "provider,region,zone,instance_type,purchase_option,price_per_hour,currency,effective_start\n"
SACCT = """JobID|JobIDRaw|JobName|Cluster|Account|User|State|Submit|Start|End|ElapsedRaw|NodeList|AllocTRES
7|7|@here@|hpc|@here@|@here@|COMPLETED|1773100800|1773100860|1773108060|7200|n1|cpu=8,gres/gpu:a100=8,gres/gpu=8,node=1
"""
TCO = f'purchase_price = 1\ngpu_model = "{HERE}"\ngpus_per_node = 8\nyears = 4\nprice_per_kwh = 1\n'
# The command and its file, the content of the file, and the table that it fills.
FILES = [
    ("collect spot history.json", answer([change("2026-03-01", "1", HERE)]), "spot_prices"),
    ("collect spot history.json", answer([change("2026-03-01", HERE)]), None),
    ("collect progress work.jsonl", PROGRESS, "progress_series"),
    ("collect progress work.jsonl", PROGRESS.replace("1,", f'"{HERE}",'), None),
    ("collect progress work.csv", f"namespace,pod,time,unit,value\nn,{HERE},2026-03-13T06:00:00Z,epoch,1\n", "progress_series"),
    ("collect progress work.csv", f"namespace,pod,time,unit,value\nn,p,{HERE},epoch,1\n", None),
    ("collect slurm jobs.psv", SACCT, None),
    ("prices H100 --config gpucost.toml", CONFIG + f'[[budgets]]\nname = "{HERE}"\namount = "{HERE}"\n', None),
    ("doctor prices.csv", BOOK + f",,,p5.48xlarge,on_demand,{HERE},USD,\n", None),
    ("config show --config gpucost.toml", CONFIG + f'[[teams]]\nname = "{HERE}"\nnamespaces = ["{HERE}"]\n', None),
    ("prices tco onprem.toml", TCO, None),
    ("whatif plan plan.toml", f'[[groups]]\nname = "{HERE}"\nteams = ["{HERE}"]\n[[steps]]\nchange = "{HERE}"\n', None),
    ("policy check --rules rules.toml", f'[[rules]]\nname = "{HERE}"\nkind = "{HERE}"\n', None),
]  # fmt: skip


def content_with(value: str, kind: str, content: str) -> bytes:
    """The file with `value` in its place, escaped for its format."""
    spelled = value
    if kind == "csv":
        spelled = '"' + value.replace('"', '""') + '"'
    elif kind != "psv":
        spelled = json.dumps(value, ensure_ascii=kind != "toml")[1:-1]
    return content.replace(HERE, spelled).encode("utf-8", "surrogatepass")


#: One file of each format runs in every test run, with one output format.
KINDS = list({row[0].rpartition(".")[2]: row for row in FILES if "doctor" not in row[0]}.values())
CASES = [
    ("hidden", KINDS, ("table",)),
    *((value, FILES, ("table", "csv", "markdown", "json")) for value in VALUES),
]


@pytest.mark.parametrize(
    ("value", "files", "kinds"),
    [
        pytest.param(*case, marks=[pytest.mark.slow] * bool(number), id=f"{case[0]}-{number}")
        for number, case in enumerate(CASES)
    ],
)
def test_hostile_values_are_shown_without_invisible_characters(
    value: str,
    files: list[tuple[str, str, str | None]],
    kinds: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, (words, content, table) in enumerate(files):
        name = words.split()[-1]
        (tmp_path / "gpucost.toml").write_text(CONFIG)
        (tmp_path / "prices.csv").write_text(BOOK)
        (tmp_path / name).write_bytes(content_with(VALUES[value], name.rpartition(".")[2], content))
        command = words.removesuffix(" prices.csv").split()
        store = ["--store", f"{number}.duckdb"]
        has_store = command[0] not in ("config", "prices")
        done = CliRunner().invoke(app, command + store * has_store)
        assert done.exit_code in (0, 1, 2) and "defect" not in done.output, (words, done.output)
        assert not hidden(done.output), (words, done.output)
        if table and done.exit_code == 0:
            for kind in kinds:
                rows = CliRunner().invoke(app, ["sql", f"from {table}", "--format", kind, *store])
                assert rows.exit_code == 0 and not hidden(rows.stdout), (words, kind)
                assert kind != "json" or json.loads(rows.stdout)
