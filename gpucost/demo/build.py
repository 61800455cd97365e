"""Builds the demo: plans the fleet, and loads what was scraped of it window by window, as a collector does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.trees import LocalTree
from gpucost.config import Config, load_config
from gpucost.demo import bill, files
from gpucost.demo.fleet import plan
from gpucost.demo.model import Series, months
from gpucost.demo.samples import samples
from gpucost.demo.work import load_work
from gpucost.model import MS_PER_HOUR, Period
from gpucost.store import Store, runs
from gpucost.store.samples import Answer, SampleWindow, load_window
from gpucost.store.validity import Threshold

if TYPE_CHECKING:
    from collections.abc import Mapping

CLUSTER = SOURCE = "demo"
_WINDOW_HOURS = 31 * 24


def last_months(now: datetime) -> Period:
    """The last two calendar months (UTC) that are over at `now`."""
    end = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    before = (end - timedelta(days=1)).replace(day=1)
    return Period((before - timedelta(days=1)).replace(day=1), end)


def build(folder: Path, period: Period, progress: Callable[[str], None]) -> Config:
    """Fills `folder` with store, bills, price book and configuration of the sample fleet; returns the configuration.

    `period` is whole months: of the last one there is no bill yet, its prices are the price book's. `progress` is told in words
    what is going on. Raises UsageError where the folder is in other use.
    """
    folder = folder.absolute()
    files.prepare(folder)
    *billed, estimated = months(period)
    config = load_config(files.write(folder, estimated), environ={}, cwd=folder)
    store = Store(config.store)
    progress("planning nodes and pods")
    fleet = plan(period)
    series = list(samples(fleet))
    count = sum(len(one.times) for one in series)
    progress(f"loading {count:,} samples of {len(series):,} series")
    with store.write() as con:
        run = runs.begin(con, "prometheus", SOURCE, (period.start_ms, period.end_ms))
        for start in range(period.start_ms, period.end_ms, _WINDOW_HOURS * MS_PER_HOUR):
            end = min(start + _WINDOW_HOURS * MS_PER_HOUR, period.end_ms)
            window = SampleWindow(
                source=SOURCE,
                run_id=run,
                from_ms=start,
                to_ms=end,
                cluster_label="cluster",
                default_cluster=CLUSTER,
                activity=_thresholds(config),
                answers=list(_answers(series, start, end)),
            )
            load_window(con, window)
        runs.finish(con, run)
        load_work(con, fleet, SOURCE, CLUSTER)
    if billed:
        progress("loading the bill")
        trees = [LocalTree(bill.write(fleet, month, folder)) for month in billed]
        for error in collect_bills(store, trees, "aws").errors:
            raise error
    return config


def _thresholds(config: Config) -> Mapping[str, Threshold]:
    activity, idle = config.activity, config.idle.threshold_percent
    return {
        metric: Threshold(idle / scale, 0.0, 100 / scale)
        for metric, scale in ((activity.device_metric, activity.device_scale), (activity.mig_metric, activity.mig_scale))
    }


def _answers(series: list[Series], start: int, end: int) -> Iterator[Answer]:
    """One answer per metric, as a server gives them."""
    by_metric: dict[str, list[tuple[Series, slice]]] = {}
    for one in series:
        if not len(one.times) or one.times[-1] * 1000 < start or one.times[0] * 1000 >= end:
            continue
        low, high = np.searchsorted(one.times, [start // 1000, end // 1000])
        if high > low:
            by_metric.setdefault(one.labels["__name__"], []).append((one, slice(int(low), int(high))))
    for found in by_metric.values():
        yield Answer(
            series=[one.labels for one, _ in found],
            series_index=np.repeat(np.arange(len(found), dtype=np.int32), [part.stop - part.start for _, part in found]),
            ts_ms=np.concatenate([one.times[part] for one, part in found]) * 1000,
            values=np.concatenate([one.values[part] for one, part in found]),
        )
