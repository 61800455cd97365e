"""A four-day fleet, loaded and attributed once, with settings that tests change (fixtures in conftest)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.store.connection import Store
from gpucost.store.metrics import load_window
from tests.replay.cases.words import BOOK, HEADER, busy, fleet, node, pod
from tests.replay.load import windows, write_config
from tests.replay.scrape import scrape

DAYS = 4
TABLES = ("cost_hourly", "node_hourly", "cost_daily", "node_daily")
#: The settings that tests change.
FIRST: dict[str, Any] = {
    "timezone": "UTC", "teams": (("one", "train"),), "threshold": 5, "step": None, "mig_share": "compute"
}  # fmt: skip


def described() -> dict[str, Any]:
    nodes = [node("n1", "p4de.24xlarge", 0, DAYS * 24), node("n2", "p4de.24xlarge", 5.5, 60, "spot")]
    pods = [
        pod("stays", "n1", [0, 1], 1, DAYS * 24, "train"),
        pod("short", "n1", [2], 30.25, 33.5, "serve"),
        pod("spot", "n2", [0, 1, 2], 6, 59, "train"),
    ]
    return fleet(
        DAYS * 24, nodes, pods, busy("n1", [0], 1, DAYS * 24, 33) | busy("n2", [0], 6, 50, 71), scrape=300
    )


def daily_loads() -> list[Any]:
    """The fleet's samples, one load per day."""
    description = described()
    return list(windows(description, scrape(description, lean=True), Config(), hours=24))


def configured(folder: Path, chosen: dict[str, Any]) -> Config:
    folder.mkdir(exist_ok=True)
    step = [f",,,p4de.24xlarge,on_demand,50.00,USD,{chosen['step']}"] if chosen["step"] else []
    (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK, *step]) + "\n")
    teams = [{"name": name, "namespaces": [glob]} for name, glob in chosen["teams"]]
    config = write_config(
        described() | {"timezone": chosen["timezone"], "teams": teams}, folder, folder / "prices.csv"
    )
    idle = config.idle.model_copy(update={"threshold_percent": chosen["threshold"]})
    mig = config.mig.model_copy(update={"share": chosen["mig_share"]})
    return config.model_copy(update={"idle": idle, "mig": mig})


def made(folder: Path, chosen: dict[str, Any], loads: list[Any]) -> Store:
    config = configured(folder, chosen)
    store = Store(config.store)
    with store.write() as con:
        for window in loads:
            load_window(con, window)
    pipeline.attribute(config, store)
    return store


def copied(file: Path, folder: Path) -> tuple[Config, Store]:
    config = configured(folder, FIRST)
    return config, Store(shutil.copyfile(file, config.store))


def figures(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    with store.read() as con:
        return {table: con.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in TABLES}
