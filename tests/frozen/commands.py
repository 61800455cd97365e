"""Commands run on the fleets, by name; each has a golden of that name in every format of the command."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from typer.main import get_command

from gpucost.cli.app import app
from tests.text_tables import text_rows

_PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
#: Commands without formats; other tests cover their output, and tests of README and docs the demo's figures.
# tests/unit/test_lake.py covers lakes
ELSEWHERE = set(
    """demo
export chart
mcp
open
chargeback verify
store backup
store log
store compact
lake export
lake attribute
lake info""".splitlines()
)


ESTIMATED = dict(
    text_rows("""
report                    | report
report-by                 | report --month 2026-03 --by team,gpu_model --top 3
report-shared             | report --month 2026-03 --share-unallocated proportional
report-team               | report --last 7d --team research --by workload,day
waste                     | waste --month 2026-03 --by team,workload_type
efficiency                | efficiency --month 2026-03 --top 2
report-efficiency         | report --efficiency --month 2026-03 --team research
findings                  | findings --month 2026-03
findings-top              | findings --from 2026-03-17 --to 2026-03-24 --top 4
queue                     | queue --month 2026-03
failures                  | failures --month 2026-03
diff                      | diff 2026-03-10..2026-03-17 2026-03-17..2026-03-24
budget-check              | budget check --month 2026-03
policy-check              | policy check --month 2026-03
policy-rules              | policy rules
forecast                  | forecast --month 2026-03
forecast-months           | forecast --month 2026-03 --months 2 --growth 5
anomalies                 | anomalies --month 2026-03 --min-cost 1
explain-node              | explain node train --at 2026-03-12T06:00Z
explain-team              | explain team research --month 2026-03
explain-namespace         | explain namespace serve --day 2026-03-12 --rows 4
explain-workload          | explain workload Job/run-a --month 2026-03 -v
prices                    | prices
prices-gpu                | prices A100 --region us-west-2
prices-tco                | prices tco onprem.toml
quote                     | quote A100-SXM4-80GB --gpus 16 --days 7 --price 2 --price-per gpu --own onprem.toml
quote-files               | quote -f job.yaml
prices-history            | prices history p4de.24xlarge --region us-west-2 --from 2026-03-01
prices-tokens             | prices tokens --model '*gpt*'
unit-epoch                | unit epoch --month 2026-03 --planned-epochs 20
unit-experiment           | unit experiment --month 2026-03
unit-requests             | unit requests --month 2026-03
unit-tokens               | unit tokens --month 2026-03
unit-tokens-by            | unit tokens --month 2026-03 --by model,day --basis used
store-info                | store info
store-check               | store check
config-show               | config show
doctor                    | doctor
sql                       | sql 'SELECT node, up_from_ms, gpu_count, capacity_type FROM nodes ORDER BY ALL'
schema                    | schema
schema-epoch              | schema unit.epoch
export-alerts             | export alerts
export-recording-rules    | export recording-rules
export-dashboard          | export dashboard
export-openmetrics        | export openmetrics --month 2026-03
notify-slack              | notify slack --dry-run --month 2026-03
notify-email              | notify email --dry-run --month 2026-03
init                      | init --yes --url http://127.0.0.1:9 --config new.toml
collect-spot              | collect spot history.json
collect-progress          | collect progress epochs.csv
collect-slurm             | collect slurm jobs.psv nodes.txt --store new.duckdb
collect-prometheus        | collect prometheus
collect-prices            | collect prices --provider nobody
chargeback                | chargeback --month 2026-03 --out out
whatif-spot               | whatif spot --month 2026-03
whatif-spot-options       | whatif spot --on-demand-price 32 --spot-price 12 --interruptions-per-hour 0.3
whatif-schedule           | whatif schedule --month 2026-03 --idle-minutes 30
whatif-schedule-options   | whatif schedule --nodes 8 --on-demand-price 32.77 --active-hours-per-day 10 --days 30
whatif-share              | whatif share --month 2026-03 --method mps --ways 8
whatif-share-options      | whatif share --month 2026-03 --method mig
whatif-rightsize          | whatif rightsize --month 2026-03
whatif-reserve            | whatif reserve --month 2026-03 --commitment-discount 1=35
whatif-reserve-options    | whatif reserve --nodes 3 --hours 700 --on-demand-price 32 \
--commitment-discount 3=52.5
whatif-buy                | whatif buy onprem.toml --month 2026-03
whatif-buy-options        | whatif buy onprem.toml --nodes 4 --on-demand-price 55.04
whatif-move               | whatif move --month 2026-03 --namespace train --egress-gb 500 --egress-price-per-gb 0.09 \
--wait-minutes 15
whatif-move-data-options  | whatif move --gb-per-start 100 --starts-per-day 50 --price-per-gb 0.09
whatif-tokens             | whatif tokens --month 2026-03 --input-price-per-million 0.2 --output-price-per-million 0.8
whatif-tokens-own         | whatif tokens --prompt-tokens-per-day 240M --generation-tokens-per-day 60M --peak-factor 2 \
--input-price-per-million 0.2 --output-price-per-million 0.8 --replica-tokens-per-second 9000 \
--instance-type p4de.24xlarge --region us-west-2 --gpus-per-replica 1
whatif-tokens-own-options | whatif tokens --prompt-tokens-per-day 4B --generation-tokens-per-day 800M --peak-factor 3 \
--input-price-per-million 2.5 --output-price-per-million 10 --on-demand-price 40 --gpus-per-replica 2 \
--replica-tokens-per-second 9000
whatif-plan               | whatif plan plan.toml --month 2026-03
whatif-plan-example       | whatif plan --example
""")
)
BILLED = dict(
    text_rows("""
report             | report --month 2026-03 --by namespace
report-focus       | report --month 2026-03 --format focus
reconcile          | reconcile --month 2026-03
reconcile-unsigned | reconcile --month 2026-03 --config unsigned.toml --format json
chargeback         | chargeback --month 2026-03 --out out
explain-node       | explain node n1
explain-team       | explain team train --month 2026-03 --rows 2
store-info         | store info
findings           | findings --month 2026-03
whatif-reserve     | whatif reserve --month 2026-03
collect-aws        | collect aws cur.csv
collect-focus      | collect focus focus.csv --store new.duckdb
collect-gcp        | collect gcp gcp.jsonl --store new.duckdb
collect-azure      | collect azure azure.csv --store new.duckdb
""")
)
#: Commands that the fast tests run at a terminal; the slow tests also run them without one, with tables of any width.
QUICK = {
    "estimated": {
        "report-by", "waste", "diff", "budget-check", "explain-team", "prices-gpu", "unit-epoch", "queue", "sql", "config-show",
        "export-openmetrics", "notify-slack", "whatif-move-data-options",
    },
    "billed": {"report", "reconcile", "explain-node"},
}  # fmt: skip
#: Commands whose JSON only the slow tests check: it takes seconds, and others show the same figures.
SLOW_JSON = {"store-check", "findings-top"}
#: Invalid command lines.
WRONG = """
nonsense
report --colour
report --month 2026-13
report --by nothing
report --month 2026-03 --last 7d
report --format parquet
report --findings 3
report -o report.doc
report --team nobody
report --month 2025-01
waste --workload nothing
findings --top 0
queue --queue nobody
diff 2026-03
diff 2025-01 2025-02
budget check --fail-on never --month 2025-01
anomalies --min-cost -1
explain node nobody
explain team nobody
explain workload nothing
prices nothing
prices tco missing.toml
quote H100 --count 2
prices history p4de.24xlarge --zone nowhere
prices tokens --provider openai --model gpt-5o
schema nothing
sql 'DELETE FROM nodes'
sql
unit epoch --workload nothing
unit tokens --gpus 8 --basis used
notify slack --month 2026-03
chargeback
collect aws missing.csv
collect gcp
collect azure
collect focus
collect spot missing.json
collect progress missing.csv
collect slurm
collect slurm missing.psv
collect slurm epochs.csv --store new.duckdb
collect slurm --sacct nothing-like-it
collect slurm --sacct sacct --slurmrestd http://127.0.0.1:9
collect prices --provider nobody
reconcile --month 2026-03
whatif spot --nodes 0
whatif spot --team nobody
whatif share --method mig --ways 3
whatif plan missing.toml
whatif buy --nodes 4
export chart
init --yes --config gpucost.toml
demo --keep .
""".splitlines()


@dataclass(frozen=True)
class Answer:
    """One answer: fleet, command and output format."""

    fleet: str
    name: str
    format: str

    @property
    def words(self) -> list[str]:
        """The command line; without a format, the output is for people."""
        given = shlex.split({"estimated": ESTIMATED, "billed": BILLED}[self.fleet][self.name])
        if self.format in ("terminal", "pipe", "only"):
            return given
        into = {"parquet": ["-o", "answer.parquet"], "html": ["-o", "answer.html"]}.get(self.format, [])
        return [*given, "--format", self.format, *into]

    @property
    def is_quick(self) -> bool:
        if self.format == "json":
            return self.name not in SLOW_JSON
        return self.format in ("terminal", "only") and self.name in QUICK[self.fleet]

    def __str__(self) -> str:
        return f"{self.fleet}/{self.name}.{self.format}"


def answers() -> list[Answer]:
    """Return all answers."""
    found = []
    for fleet, commands in (("estimated", ESTIMATED), ("billed", BILLED)):
        for name, command in commands.items():
            words = shlex.split(command)
            ways = [] if "--format" in words or "--example" in words else formats().get(command_of(words), [])
            ways = [way for way in ways if way not in ("table", "focus")]
            people = ["terminal", "pipe"] if name in QUICK[fleet] else ["terminal"]
            found += [Answer(fleet, name, way) for way in ([*people, *ways] if ways else ["only"])]
    return found


@cache
def formats() -> dict[str, list[str]]:
    """Return the formats of each command from docs/commands.md, which other tests compare with the program."""
    found = {}
    for section in _PAGE.read_text(encoding="utf-8").split("\n## gpucost ")[1:]:
        choices = re.search(r"`--format <(.+?)>`", section)
        if choices:
            found[section.partition("\n")[0]] = choices[1].split(r"\|")
    return found


def command_of(words: list[str]) -> str:
    """Return the name of the command, such as `whatif spot`."""
    at = _program()
    path = []
    for word in words:
        if not hasattr(at, "commands"):
            break
        if word not in at.commands:  # the default command of its group
            break
        at = at.commands[word]
        path.append(word)
    return " ".join(path)


def all_commands() -> set[str]:
    """Return the names of all commands of the program, without groups."""

    def leaves(at: Any, path: list[str]) -> list[str]:
        if not hasattr(at, "commands"):
            return [" ".join(path)]
        inside = at.commands.items()
        return [leaf for name, one in inside for leaf in leaves(one, path if one.hidden else [*path, name])]

    return set(leaves(_program(), []))


@cache
def _program() -> Any:
    return get_command(app)
