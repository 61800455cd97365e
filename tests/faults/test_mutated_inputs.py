"""Every file parser on corrupted and edited files: read, or rejected with a message that names the file."""

from __future__ import annotations

import io
import json
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpucost.collect.progress.files import import_files
from gpucost.collect.slurm import facts, sacct
from gpucost.collect.slurm.sacct import Notes, SacctFormat
from gpucost.collect.spot.files import read_path
from gpucost.config.load import load_config
from gpucost.errors import GpucostError
from gpucost.price.book import read_book
from gpucost.price.fx import RATES
from gpucost.price.onprem import read_file, read_inputs
from gpucost.questions.policy.rules import read_rules, shipped_rules
from gpucost.resources import pricing_dir
from gpucost.store.connection import Store
from gpucost.whatif.plan import read_plan
from tests.unit import test_bill_azure, test_bill_gcp, test_bill_oci, test_bill_vendors
from tests.unit.bills import FOCUS_USAGE, Bills, csv_text, snake, usage
from tests.unit.mutations import mutations

UTC = ZoneInfo("UTC")
FORM = SacctFormat(cluster="c1")
STARTER_TEXT = (files("gpucost.cli") / "starter.toml").read_text()
STARTER = re.sub("@.*?@", "UTC", STARTER_TEXT.replace("@url@", "http://a"))
LONGEST_SECONDS = 30.0


@dataclass(frozen=True)
class Parser:
    """A parser: `seeds` are valid files by name; `many` is its number of tries per 40 of a run."""

    read: Callable[[Path], object]
    seeds: dict[str, str | bytes]
    many: int = 40

    def files(self) -> dict[str, bytes]:
        """Return the seeds as files on disk."""
        return {name: text if isinstance(text, bytes) else text.encode() for name, text in self.seeds.items()}


def parquet(rows: Sequence[dict[str, str]]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({name: [row[name] for row in rows] for name in rows[0]}), out)
    return out.getvalue()


def bill(provider: str | None) -> Callable[[Path], object]:
    """Return a function that loads a bill into a new store; a rejected bill must leave it empty."""

    def read(path: Path) -> object:
        bills = Bills(path.parent)
        run = bills.load(path, provider=provider)
        loaded = bills.charges() if bills.store.exists else []
        assert not (run.errors and loaded), (run.errors, len(loaded))
        bills.store.path.unlink(missing_ok=True)
        if run.errors:
            raise run.errors[0]
        for charge in loaded:
            assert charge["billed_cost"].is_finite() and charge["effective_cost"].is_finite()
        return loaded

    return read


def progress(path: Path) -> object:
    store = Store(path.with_name("progress.duckdb"))
    try:
        return import_files(store, [path], UTC)
    except GpucostError:
        assert not store.exists or store.query("SELECT count(*) FROM progress_values")[1] == [(0,)]
        raise
    finally:
        store.path.unlink(missing_ok=True)


JOB = "JobIDRaw|Cluster|User|Account|Partition|State|Submit|Start|End|ElapsedRaw|NodeList|AllocTRES|ReqTRES|JobName|QOS"
RUN = (
    "17|c1|ann|ml|gpu|COMPLETED|2026-03-05T10:00:00|2026-03-05T10:01:00|2026-03-05T12:00:00|7140|n[1-2]|"
    "billing=8,gres/gpu=8|gres/gpu=8|train|normal"
)
NODES = """NodeName=n1 Arch=x86_64 CoresPerSocket=8 Gres=gpu:a100:8(S:0-1) State=IDLE BootTime=2026-03-01T00:00:00 Partitions=gpu
"""
PLAN = """
name = "p"
[[groups]]
name = "inference"
pods = 40
gpus_per_pod = 1
price_per_gpu_hour = 3.0
[[groups]]
name = "training"
gpus_per_pod = 4
pods = 600
hours = 2
price_per_gpu_hour = 3.0
[[steps]]
change = "share"
groups = ["inference"]
ways = 4
utilization_percent = 15
[[steps]]
change = "spot"
groups = ["training"]
price_per_gpu_hour = 1.2
"""
CONFIG = """
timezone = "Europe/Berlin"
[store]
path = "a.duckdb"
[prometheus]
url = "http://127.0.0.1:9090"
headers_env = { X-Key = "NAME" }
[prices]
book = "prices.csv"
[coverage]
max_bridge = "2h"
[[teams]]
name = "research"
namespaces = ["ml-*"]
[[budgets]]
name = "ml"
team = "research"
amount = 5000
[[units]]
name = "epochs"
metric = "training_epochs_total"
unit = "epoch"
"""
SPOT = b"""{"SpotPriceHistory": [
 {"AvailabilityZone": "us-east-1a", "InstanceType": "p4d.24xlarge", "ProductDescription": "Linux/UNIX", "SpotPrice": "9.1",
  "Timestamp": "2026-03-05T10:00:00+00:00"},
 {"AvailabilityZone": "us-east-1a", "InstanceType": "p4d.24xlarge", "ProductDescription": "Linux/UNIX", "SpotPrice": "9.1",
  "Timestamp": "2026-03-05T11:00:00+00:00"}
]}"""
SACCT_JSON = b"""{"jobs": [{"job_id": 17, "cluster": "c1", "account": "ml", "partition": "gpu", "user": "ann",
 "state": {"current": ["COMPLETED"]},
 "time": {"submission": 1772704800, "start": 1772704860, "end": 1772712000, "elapsed": 7140},
 "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 8}], "requested": []}, "nodes": "n1", "steps": []}]}"""
WORK_JSON = b"""{"time": "2026-03-05T10:00:00Z", "unit": "request", "value": 3, "workload": "Job/a"}
{"time": "2026-03-05T11:00:00Z", "unit": "request", "value": 3, "workload": "Job/a"}
"""
BOOK = """\
provider,region,zone,instance_type,purchase_option,price_per_hour,currency,effective_start,node_selector,per
aws,us-east-1,,p4d.24xlarge,on_demand,17.32,USD,2026-01-01,,
aws,,,,spot,10.40,USD,2026-03-01T00:00Z,,gpu
,,,,on_demand,2.4,USD,,partition=gpu;zone=a,node
"""
WORK_CSV = """\
time,unit,value,workload,namespace
2026-03-05T10:00:00Z,epoch,1,Job/a,ml
2026-03-05T11:00:00Z,epoch,1,Job/a,ml
"""
PARSERS = {
    "config": Parser(
        lambda path: load_config(path, environ={}), {"gpucost.toml": CONFIG, "other.toml": STARTER}
    ),
    "price book": Parser(lambda path: read_book(path, "USD", UTC), {"book.csv": BOOK}, 400),
    "exchange rates": Parser(
        lambda path: RATES.read(path, {"currency": "USD"}),
        {"fx.csv": "currency,rate,date\nEUR,1.08,2026-01-01\nGBP,1.27,2026-02-01\n"},
        400,
    ),
    "own nodes": Parser(
        lambda path: read_inputs(read_file(path), {}, path, "USD"),
        {"onprem.toml": (pricing_dir() / "onprem.toml").read_bytes()},
        400,
    ),
    "plan": Parser(read_plan, {"plan.toml": PLAN}, 400),
    "spot prices": Parser(read_path, {"spot.json": SPOT}, 400),
    "policy": Parser(read_rules, {"policy.toml": shipped_rules()}),
    "progress": Parser(progress, {"work.csv": WORK_CSV, "work.jsonl": WORK_JSON}),
    "sacct": Parser(
        lambda path: list(sacct.read_sacct(path, FORM, Notes())),
        {"jobs.psv": f"{JOB}\n{RUN}\n{RUN.replace('17|', '18|')}\n", "jobs.json": SACCT_JSON},
        200,
    ),
    "Slurm nodes": Parser(
        lambda path: facts.read_facts(path.read_text(errors="replace"), str(path), FORM, Notes(), 0),
        {"nodes.txt": NODES},
        400,
    ),
    "AWS bill": Parser(
        bill("aws"),
        {
            "cur.csv": csv_text([usage(), usage(11)]),
            "cur2.csv": csv_text(snake([usage(), usage(11)])),
            "cur.parquet": parquet(snake([usage(), usage(11)])),
        },
        8,
    ),
    "Google bill": Parser(
        bill("gcp"),
        {"export.json": "".join(f"{json.dumps(test_bill_gcp.row(hour=hour))}\n" for hour in range(2))},
        8,
    ),
    "Azure bill": Parser(bill("azure"), {"cost.csv": csv_text(test_bill_azure.amortized())}, 8),
    "OCI bill": Parser(
        bill(None),
        {
            "classic.csv": csv_text([test_bill_oci.classic(1)]),
            "focus.csv": csv_text([test_bill_oci.focus(1)]),
        },
        8,
    ),
    "FOCUS bill": Parser(
        bill(None), {"focus.csv": csv_text([FOCUS_USAGE]), "focus.parquet": parquet([FOCUS_USAGE])}, 8
    ),
    "OpenAI's costs": Parser(
        bill(None),
        {
            "costs.json": test_bill_vendors.text(test_bill_vendors.openai(1, 2), indent=1),
            "costs.jsonl": "".join(
                f"{test_bill_vendors.text(test_bill_vendors.openai(day))}\n" for day in (1, 2)
            ),
            "dashboard.csv": csv_text(
                [test_bill_vendors.dashboard(2, "0.5", "gpt-4o, input", "3", "tokens")]
            ),
        },
        8,
    ),
    "Anthropic's costs": Parser(
        bill(None),
        {
            "report.json": test_bill_vendors.text(test_bill_vendors.anthropic(1, 2)),
            "console.csv": csv_text([test_bill_vendors.console(1, "Claude Sonnet 4.5", "output", "0.19")]),
        },
        8,
    ),
}


#: Every run tries parsers that take milliseconds, a few times.
QUICK = [name for name, parser in PARSERS.items() if parser.many >= 200]
QUICK_TRIES = 30


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_valid_files_are_read(name: str, tmp_path: Path) -> None:
    """Otherwise the tests below would only see rejections."""
    for file, content in PARSERS[name].files().items():
        path = tmp_path / file
        path.write_bytes(content)
        assert refusal(PARSERS[name], path) is None


def refusal(parser: Parser, path: Path) -> str | None:
    """Return the message of a rejected file; None if it is read. Raise AssertionError for any other outcome."""
    try:
        parser.read(path)
    except GpucostError as error:
        return error.message
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n{path.read_bytes()!r}") from error
    return None


@pytest.mark.parametrize("name", QUICK)
def test_some_changed_files_are_read_or_rejected_with_a_message(name: str, tmp_path: Path) -> None:
    try_changed_files(name, tmp_path, QUICK_TRIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", PARSERS)
def test_changed_files_are_read_or_rejected_with_a_message(
    name: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    runs = pytestconfig.getoption("--runs")
    try_changed_files(name, tmp_path, runs if runs > 40 else PARSERS[name].many)


def try_changed_files(name: str, tmp_path: Path, tries: int) -> None:
    parser = PARSERS[name]
    refused = 0
    for number, (file, content) in enumerate(parser.files().items()):
        path = tmp_path / file
        for text in mutations(
            content, random.Random(f"{name} {number}").randrange(2**32), -(-tries // len(parser.seeds))
        ):
            path.write_bytes(text)
            began = time.monotonic()
            words = refusal(parser, path)
            assert time.monotonic() - began < LONGEST_SECONDS, text
            if words is not None:
                refused += 1
                assert path.stem in words or path.parent.name in words, (words, text)
                assert "Traceback" not in words and len(words) <= 4000, words
    print(f"{name}: {tries} files, {refused} rejected")
    # Slurm facts are read if valid, and the rest is ignored
    assert refused or name == "Slurm nodes"
