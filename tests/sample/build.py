"""Builds the demo: plans the fleet and loads its scrapes window by window, like a collector."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.collect.prometheus.collector import thresholds
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.demo import build as demo
from gpucost.demo.build import CLUSTER, SOURCE
from gpucost.periods import MS_PER_HOUR, Period, iso
from gpucost.store import runs
from gpucost.store.connection import Store
from gpucost.store.metrics import SampleWindow, load_window
from tests.replay.scrape import answers
from tests.replay.series import Series
from tests.sample import bill, slurm
from tests.sample.fleet import months, plan
from tests.sample.samples import samples
from tests.sample.work import load_work

_WINDOW_MS = 31 * 24 * MS_PER_HOUR


def last_months(now: datetime) -> Period:
    """Return the last two complete calendar months (UTC) at `now`."""
    billed, estimated = demo.last_months(now)
    return Period(billed.start, estimated.end)


def build(folder: Path, period: Period, progress: Callable[[str], None]) -> Config:
    """Fill `folder` with store, bills, price book and configuration of the sample fleet; return the configuration.

    `period` is whole months. The last month has no bill yet, so its prices come from the price book. `progress` receives
    status texts.
    """
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    *billed, estimated = months(period)
    scarce = iso(estimated.start + timedelta(days=16, hours=9))
    (folder / demo.BOOK).write_text(f"{demo._BOOK}{scarce},,\n", encoding="utf-8")
    (folder / demo.CONFIG).write_text(demo._CONFIG, encoding="utf-8")
    config = load_config(folder / demo.CONFIG, environ={}, cwd=folder)
    store = Store.of(config)
    progress("planning nodes and pods")
    fleet = plan(period)
    series = [Series(labels, times * 1000, values) for labels, times, values in samples(fleet)]
    count = sum(len(one.times) for one in series)
    progress(f"loading {count:,} samples of {len(series):,} series")
    idle = thresholds(config.activity, config.idle)
    with store.write() as con:
        run = runs.begin(con, "prometheus", SOURCE, (period.start_ms, period.end_ms))
        for start in range(period.start_ms, period.end_ms, _WINDOW_MS):
            end = min(start + _WINDOW_MS, period.end_ms)
            found = list(answers(series, start, end))
            load_window(con, SampleWindow(SOURCE, run, start, end, "cluster", CLUSTER, idle, found))
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
