"""Builds the demo: plans the fleet, and loads what was scraped of it window by window, as a collector does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.demo import bill
from gpucost.demo.fleet import TEAMS, Series, months, plan
from gpucost.demo.samples import samples
from gpucost.demo.work import load_work
from gpucost.errors import UsageError
from gpucost.periods import MS_PER_HOUR, Period, iso
from gpucost.store import runs
from gpucost.store.connection import Store
from gpucost.store.metrics import Answer, SampleWindow, Threshold, load_window

if TYPE_CHECKING:
    from collections.abc import Mapping

STORE, CONFIG, BOOK = "gpucost.duckdb", "gpucost.toml", "prices.csv"
_MARK = "# The sample fleet of `gpucost demo`."

#: What on-demand machines of a type cost where a commitment pays for them: (instance type, purchase option, $ per node-hour).
_COMMITTED = (
    # the mean of two machines, of which the plan pays for one and a half
    (bill.PLAN_TYPE, "savings_plan", "17.32"),
    (bill.RESERVED_TYPE, "reserved", bill.RESERVED_AMORTIZED),
)
#: From the middle of the month H100s in one zone are scarce.
_DEARER = ("p5.48xlarge", "us-east-1c", "23.60", "27.90")


def prepare(folder: Path) -> None:
    """Makes `folder` an empty place for a demo; what an earlier demo left there goes.

    Raises UsageError where the folder holds anything else, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = {entry.name for entry in folder.iterdir()}
        config = folder / CONFIG
        is_demo = config.is_file() and config.read_text(encoding="utf-8").startswith(_MARK)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{folder} cannot hold a demo: {error}", "gpucost demo --keep ./gpucost-demo") from None
    if found and not is_demo:
        raise UsageError(
            f"{folder} is not empty and holds no earlier demo: {', '.join(sorted(found)[:3])}",
            "name a new directory, or empty this one",
        )
    for path in (*(folder / name for name in (STORE, f"{STORE}.wal", CONFIG, BOOK)), *folder.glob(bill.FILES)):
        path.unlink(missing_ok=True)


def write(folder: Path, month: Period) -> Path:
    """Writes configuration and price book, which is for a month that no bill is there of; returns the configuration's path."""
    (folder / BOOK).write_text(_book(month), encoding="utf-8")
    config = folder / CONFIG
    config.write_text(_config(), encoding="utf-8")
    return config


def _book(month: Period) -> str:
    rows = ["provider,region,zone,instance_type,purchase_option,price_per_hour,currency,effective_start"]
    committed = {instance_type: (option, price) for instance_type, option, price in _COMMITTED}
    for instance_type, on_demand, spot in bill.PRICES:
        option, price = committed.get(instance_type, ("on_demand", on_demand))
        rows.append(f"aws,us-east-1,,{instance_type},{option},{price},USD,")
        rows.append(f"aws,us-east-1,,{instance_type},spot,{spot},USD,")
    instance_type, zone, before, after = _DEARER
    rows.append(f"aws,us-east-1,{zone},{instance_type},spot,{before},USD,")
    rows.append(f"aws,us-east-1,{zone},{instance_type},spot,{after},USD,{iso(month.start + timedelta(days=16, hours=9))}")
    return "\n".join(rows) + "\n"


def _config() -> str:
    teams = "\n".join(
        f"\n[[teams]]\nname = {json.dumps(name)}\nnamespaces = {json.dumps(list(namespaces))}"
        for name, namespaces in TEAMS.items()
    )
    return f"""{_MARK} Nothing here is real; change it and run `gpucost report` again.
store = "{STORE}"
timezone = "UTC"
currency = "USD"
# no server to collect from: the samples in the store are made up
prometheus = []

[prices]
book = "{BOOK}"

# the enterprise agreement; a bill has it already
[[prices.discounts]]
percent = {Decimal(bill.DISCOUNT) * 100:.0f}
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
{teams}
"""


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
    prepare(folder)
    *billed, estimated = months(period)
    config = load_config(write(folder, estimated), environ={}, cwd=folder)
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
