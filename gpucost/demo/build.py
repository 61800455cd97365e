"""The demo: its configuration, and the fixture's tables, loaded as by collectors."""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.collect.prometheus.collector import thresholds
from gpucost.collect.slurm.collector import import_files
from gpucost.collect.slurm.sacct import SacctFormat
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.demo import fixture
from gpucost.errors import UsageError
from gpucost.periods import Period, iso, previous_month
from gpucost.records import DuckDBPyConnection
from gpucost.resources import pricing_dir
from gpucost.store import runs
from gpucost.store.connection import Store
from gpucost.store.metrics import SampleWindow, load_window
from gpucost.store.progress import load_runs, load_values

STORE, CONFIG, BOOK = "gpucost.duckdb", "gpucost.toml", "prices.csv"
CLUSTER = SOURCE = "demo"
TRACKER = "mlflow"
_MARK = "# The sample fleet of `gpucost demo`."
_CONFIG = f"""{_MARK} Nothing here is real; change it and run `gpucost report` again.
store = "{STORE}"
timezone = "UTC"
currency = "USD"
# no server to collect from: the samples in the store are made up
prometheus = []

[prices]
book = "{BOOK}"

# the enterprise agreement; a bill has it already
[[prices.discounts]]
percent = 10
provider = "aws"

[idle]
threshold_percent = 5

[targets]
efficiency = 0.80
spot_ratio = 0.70

[[budgets]]
name = "all GPUs"
amount = 85000

[[budgets]]
name = "team research"
team = "research"
amount = 25000

[[teams]]
name = "research"
namespaces = ["ml-research", "nlp-*"]

[[teams]]
name = "product"
namespaces = ["serving", "recsys"]

[[teams]]
name = "platform"
namespaces = ["inference", "ci"]

[[teams]]
name = "vision"
namespaces = ["vision-*"]

[[teams]]
name = "life-science"
namespaces = ["genomics", "cryo-em"]
"""
# Prices: the cost of a self-owned node of the Slurm cluster (`gpucost prices tco`), and the prices of the
# bill. On-demand machines under a commitment have their price under it; for the plan's type the mean of two,
# because it pays for one and a half. From the middle of the month, H100s in one zone are scarce.
_BOOK = """provider,region,zone,instance_type,purchase_option,price_per_hour,currency,effective_start,node_selector,per
,,,,on_demand,2.40,USD,,partition=gpu,node
aws,us-east-1,,p4d.24xlarge,on_demand,17.32,USD,,,
aws,us-east-1,,p4d.24xlarge,spot,10.40,USD,,,
aws,us-east-1,,p5.48xlarge,on_demand,55.04,USD,,,
aws,us-east-1,,p5.48xlarge,spot,23.60,USD,,,
aws,us-east-1,,g4dn.12xlarge,on_demand,3.91,USD,,,
aws,us-east-1,,g4dn.12xlarge,spot,1.45,USD,,,
aws,us-east-1,,g5.12xlarge,reserved,3.57,USD,,,
aws,us-east-1,,g5.12xlarge,spot,2.30,USD,,,
aws,us-east-1,us-east-1c,p5.48xlarge,spot,23.60,USD,,,
aws,us-east-1,us-east-1c,p5.48xlarge,spot,27.90,USD,"""

# Files that the store does not contain, for the examples in the docs; $MONTH and $DAY are of the estimated month.
_EXAMPLES = {
    "work.csv": """time,workload,namespace,unit,value
$MONTH-05T06:00:00Z,CronJob/nightly-scoring,recsys,prediction,41200000
$MONTH-06T06:00:00Z,CronJob/nightly-scoring,recsys,prediction,39800000
$MONTH-07T06:00:00Z,CronJob/nightly-scoring,recsys,prediction,40500000
""",
    "openai-$MONTH.csv": """start_time,end_time,amount_value,amount_currency,line_item,quantity,quantity_unit,project_id
$DAY5,$DAY6,12.50,usd,"gpt-4o-2024-08-06, input",5000000,tokens,proj_a
$DAY5,$DAY6,10.00,usd,"gpt-4o-2024-08-06, output",1000000,tokens,proj_a
$DAY6,$DAY7,15.00,usd,"gpt-4o-2024-08-06, input",6000000,tokens,proj_a
$DAY6,$DAY7,11.00,usd,"gpt-4o-2024-08-06, output",1100000,tokens,proj_a
""",
    "onprem.toml": (pricing_dir() / "onprem.toml").read_text("utf-8"),
}


def prepare(folder: Path) -> None:
    """Make `folder` an empty place for a demo; remove an earlier demo.

    Raises UsageError if the folder has other content or cannot be created.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = sorted(entry.name for entry in folder.iterdir())
        config = folder / CONFIG
        is_demo = config.is_file() and config.read_text("utf-8").startswith(_MARK)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{folder} cannot hold a demo: {error}", "gpucost demo --keep ./gpucost-demo"
        ) from None
    if names and not is_demo:
        message = f"{folder} is not empty and not an earlier demo: {', '.join(names[:3])}"
        raise UsageError(message, "name a new directory, or empty this one")
    for pattern in (
        STORE,
        f"{STORE}.wal",
        CONFIG,
        BOOK,
        fixture.BILLS,
        fixture.SLURM,
        "work.csv",
        "openai-*.csv",
        "onprem.toml",
    ):
        for path in folder.glob(pattern):
            path.unlink()


def last_months(now: datetime) -> tuple[Period, Period]:
    """The last two complete calendar months (UTC) before `now`."""
    last = previous_month(now, ZoneInfo("UTC"))
    return previous_month(last.start, ZoneInfo("UTC")), last


def build(folder: Path, billed: Period, estimated: Period, progress: Callable[[str], None]) -> Config:
    """Fill `folder` with two months of the sample fleet; return the configuration.

    The folder gets a store, a bill, a price book, a configuration, and example files. `progress` gets a text for
    each step. Raises UsageError if the folder is in other use.
    """
    folder = folder.absolute()
    prepare(folder)
    scarce = iso(estimated.start + timedelta(days=16, hours=9))
    (folder / BOOK).write_text(f"{_BOOK}{scarce},,\n", "utf-8")
    (folder / CONFIG).write_text(_CONFIG, "utf-8")
    dates = {"$MONTH": f"{estimated.start:%Y-%m}"}
    dates |= {f"$DAY{day}": f"{estimated.start.timestamp() + (day - 1) * 86400:.0f}" for day in (5, 6, 7)}
    for name, text in _EXAMPLES.items():
        for mark, date in dates.items():
            name, text = name.replace(mark, date), text.replace(mark, date)
        (folder / name).write_text(text, "utf-8")
    config = load_config(folder / CONFIG, environ={}, cwd=folder)
    store = Store.of(config)
    period = Period(billed.start, estimated.end)
    base_s = fixture.base_of(period)
    with fixture.opened(folder) as files:
        progress("loading the samples")
        with store.write() as con:
            _load_samples(con, files, base_s, period, config)
            _load_work(con, files, base_s, period)
        progress("loading the Slurm cluster")
        paths = fixture.write_slurm(files, base_s, period, folder)
        import_files(store, paths, SacctFormat(), period, period.end)
        progress("loading the bill")
        bill = fixture.write_bill(files, base_s, billed, folder)
    for error in collect_bills(store, [LocalTree(bill)], "aws").errors:
        raise error
    return config


def _load_samples(
    con: DuckDBPyConnection, files: DuckDBPyConnection, base_s: int, period: Period, config: Config
) -> None:
    span = period.span
    run = runs.begin(con, "prometheus", SOURCE, span)
    idle = thresholds(config.activity, config.idle)
    answers = list(fixture.answers(files, base_s))
    load_window(con, SampleWindow(SOURCE, run, *span, "cluster", CLUSTER, idle, answers))
    runs.finish(con, run)


def _load_work(con: DuckDBPyConnection, files: DuckDBPyConnection, base_s: int, period: Period) -> None:
    span = period.span
    run = runs.begin(con, "progress", SOURCE, span)
    loaded = load_values(con, SOURCE, span, fixture.work(files, base_s, period, SOURCE))
    epochs = fixture.work(files, base_s, period, TRACKER)
    load_runs(con, TRACKER, span, fixture.tracked(files, base_s, period), epochs)
    runs.log_load(con, run, "progress", SOURCE, span, rows=loaded.values)
    runs.finish(con, run)
