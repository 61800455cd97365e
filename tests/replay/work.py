"""Fleets that do work: training on 8 A100s at $3 each, serving on L4s, and their metrics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.questions.units import reading as units
from gpucost.questions.units.query import UnitQuery, UnitView, prepare
from gpucost.store import runs
from gpucost.store.connection import Store
from gpucost.store.progress import ProgressBatch, ProgressSeries, load_values
from tests.replay.cases.words import HEADER, at, fleet, pod
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.text_tables import words

# Attributed stores by fleet: several tests share one.
_ATTRIBUTED: dict[str, bytes] = {}
BOOK = f"{HEADER}\n,,,p4de.24xlarge,,24.00,USD,\n,,,g6.12xlarge,,4.00,USD,\n"


def training(spans: list[tuple[float, float]], hours: float = 24, owner: str = "run-a", **more: Any) -> Fleet:
    """Return successive pods, each with all 8 GPUs of a $24 node: 8 A100s at $3 an hour."""
    pods, util = [], ""
    for number, (start, end) in enumerate(spans):
        pods.append(pod(f"{owner}-{number}", "train", list(range(8)), start, end, owner=["Job", owner]))
        util += f"train | 0 1 2 3 4 5 6 7 | {start} | {end}\n"
    return fleet(hours, [f"train | p4de.24xlarge | 0 | {hours}"], pods, util, **{"scrape": 600, **more})


def stored(described: Fleet, folder: Path, settings: str = "") -> tuple[Config, Store]:
    """Return the fleet's metrics in an attributed store, with the configuration next to it."""
    prices = folder / "prices.csv"
    prices.write_text(BOOK)
    config = write_config(described, folder, prices, settings=settings)
    key = json.dumps([described, settings])
    if key in _ATTRIBUTED:
        config.store.write_bytes(_ATTRIBUTED[key])
        return config, Store(config.store)
    store = load(described, scrape(described, lean=True), config)
    pipeline.attribute(config, store)
    _ATTRIBUTED[key] = config.store.read_bytes()
    return config, store


def put(
    store: Store,
    series_points: Sequence[tuple[ProgressSeries, Sequence[tuple[float, float]]]],
    hours: float = 24,
    source: str = "prom",
) -> None:
    """Load a server's metrics of the fleet's day: series with their values by hour."""
    batch = ProgressBatch()
    for series, points in series_points:
        values = np.array([value for _, value in points], dtype=float)
        batch.add(series, np.array([at(hour) * 1000 for hour, _ in points]), values)
    span = (at(0) * 1000, at(hours) * 1000)
    with store.write() as con:
        run = runs.begin(con, "progress", source, span)
        loaded = load_values(con, source, span, batch)
        runs.log_load(con, run, "progress", source, span, rows=loaded.values)
        runs.finish(con, run)


def counter(
    unit: str, pod_name: str, namespace: str = "train", kind: str = "counter", **more: Any
) -> ProgressSeries:
    """Return a series with the labels of a scraped pod."""
    labels = words(f"namespace={namespace} pod={pod_name} instance={pod_name}:8000") | more.pop("labels", {})
    listed = tuple(sorted(labels.items()))
    return ProgressSeries("test", unit, kind, listed, "main", namespace, pod_name, **more)


def asked(
    config: Config,
    store: Store,
    build: Any = units.epochs,
    hours: tuple[float, float] = (0, 24),
    **filters: Any,
) -> UnitView:
    """Return the answer of `build` for these hours of the day."""
    period = Period(datetime.fromtimestamp(at(hours[0]), UTC), datetime.fromtimestamp(at(hours[1]), UTC))
    ask = UnitQuery(config, period, "the day", **filters)

    def read(con: Any) -> UnitView:
        prepare(con, ask)
        return build(con, ask)

    return pipeline.read_attributed(config, store, read, period)
