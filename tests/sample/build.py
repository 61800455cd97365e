"""Builds the demo: plans the fleet, and loads what was scraped of it window by window, as a collector does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from gpucost.collect.base import month_start_ms
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.collect.prometheus.collector import thresholds
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR, Period, from_ms, iso
from gpucost.store import runs
from gpucost.store.connection import Store
from gpucost.store.metrics import ReadAnswer, SampleWindow, load_window
from tests.sample import bill, slurm
from tests.sample.fleet import TEAMS, DemoSeries, months, plan
from tests.sample.samples import samples
from tests.sample.work import load_work

STORE, CONFIG, BOOK = "gpucost.duckdb", "gpucost.toml", "prices.csv"
CLUSTER = SOURCE = "demo"
_WINDOW_MS = 31 * 24 * MS_PER_HOUR
_MARK = "# The sample fleet of `gpucost demo`."
_TEAMS = "\n".join(
    f"\n[[teams]]\nname = {json.dumps(name)}\nnamespaces = {json.dumps(list(namespaces))}"
    for name, namespaces in TEAMS.items()
)
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
{_TEAMS}
"""
# What an own node of the Slurm cluster costs (`gpucost prices tco`), and the prices of the bill. Where a commitment pays for
# on-demand machines, what they cost under it: of the plan's type the mean of two, of which it pays for one and a half. From
# the middle of the month H100s in one zone are scarce.
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


def last_months(now: datetime) -> Period:
    """The last two calendar months (UTC) that are over at `now`."""
    end = from_ms(month_start_ms(now, None))
    before = (end - timedelta(days=1)).replace(day=1)
    return Period((before - timedelta(days=1)).replace(day=1), end)


def build(folder: Path, period: Period, progress: Callable[[str], None]) -> Config:
    """Fills `folder` with store, bills, price book and configuration of the sample fleet; returns the configuration.

    `period` is whole months: of the last one there is no bill yet, its prices are the price book's. `progress` gets in words
    what is going on.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    *billed, estimated = months(period)
    scarce = iso(estimated.start + timedelta(days=16, hours=9))
    (folder / BOOK).write_text(f"{_BOOK}{scarce},,\n", encoding="utf-8")
    (folder / CONFIG).write_text(_CONFIG, encoding="utf-8")
    config = load_config(folder / CONFIG, environ={}, cwd=folder)
    store = Store.of(config)
    progress("planning nodes and pods")
    fleet = plan(period)
    series = list(samples(fleet))
    count = sum(len(one.times) for one in series)
    progress(f"loading {count:,} samples of {len(series):,} series")
    idle = thresholds(config.activity, config.idle)
    with store.write() as con:
        run = runs.begin(con, "prometheus", SOURCE, (period.start_ms, period.end_ms))
        for start in range(period.start_ms, period.end_ms, _WINDOW_MS):
            end = min(start + _WINDOW_MS, period.end_ms)
            answers = list(_answers(series, start, end))
            load_window(con, SampleWindow(SOURCE, run, start, end, "cluster", CLUSTER, idle, answers))
        runs.finish(con, run)
        load_work(con, fleet, SOURCE, CLUSTER)
    progress("loading the Slurm cluster")
    slurm.load(store, period, folder)
    if billed:
        progress("loading the bill")
        trees = [LocalTree(bill.write(fleet, month, folder)) for month in billed]
        for error in collect_bills(store, trees, "aws").errors:
            raise error
    return config


def _answers(series: list[DemoSeries], start: int, end: int) -> Iterator[ReadAnswer]:
    """One answer per metric, as a server gives them."""
    by_metric: dict[str, list[DemoSeries]] = {}
    for labels, times, values in series:
        low, high = np.searchsorted(times, [start // 1000, end // 1000])
        if high > low:
            by_metric.setdefault(labels["__name__"], []).append(
                DemoSeries(labels, times[low:high], values[low:high])
            )
    for parts in by_metric.values():
        yield ReadAnswer(
            series=[part.labels for part in parts],
            series_index=np.repeat(
                np.arange(len(parts), dtype=np.int32), [len(part.times) for part in parts]
            ),
            ts_ms=np.concatenate([part.times for part in parts]) * 1000,
            values=np.concatenate([part.values for part in parts]),
        )
