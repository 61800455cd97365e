"""The shipped catalog: prices, instance types, GPU facts, resources and tokens.

GPU facts are models, their spellings and MIG profiles. Inventory reads the contents of instance types, price
reads their prices. Token prices belong to no node.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from gpucost.engine import run_stage
from gpucost.records import frozen_dataclass
from gpucost.resources import pricing_dir

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Activity

# Temporary table -> its file in pricing/.
TABLES = {
    "catalog_prices": "prices.csv",
    "catalog_instances": "instances.csv",
    "gpu_models": "gpus.csv",
    "gpu_aliases": "gpu_aliases.csv",
    "mig_profiles": "mig_profiles.csv",
    "resources": "resources.csv",
    "claim_series": "claim_series.csv",
    "not_sold_on_demand": "not_sold_on_demand.csv",
}
COMPONENTS = {"catalog_components": "components.csv"}
# Metrics of exporters: meaning, labels and units.
ACTIVITY = "activity_metrics.csv"

Facts = list[dict[str, str]]
# The catalog's view; listing tables would take five times as long.
_LOADED = "SELECT 1 FROM duckdb_views() WHERE temporary AND view_name = 'catalog_files'"
# Read a file of pricing/ with these columns.
_READER = """
CREATE OR REPLACE TEMP MACRO catalog_csv(name, types) AS TABLE
FROM read_csv(getvariable('pricing_dir') || '/' || name,
    header = true, auto_detect = false, delim = ',', quote = '"', columns = types)"""
# Prices per hour of one vCPU, GiB of memory, GPU or GiB of local SSD, if a cloud sells them separately;
# gpu_model is set for GPUs only. One row per (provider, region, family, component, gpu_model,
# purchase_option, term_years, price_as_of).
_COMPONENTS = """
CREATE TEMP TABLE IF NOT EXISTS catalog_components AS
FROM catalog_csv('components.csv', {
    'provider': 'VARCHAR', 'region': 'VARCHAR', 'family': 'VARCHAR', 'component': 'VARCHAR', 'gpu_model': 'VARCHAR',
    'purchase_option': 'VARCHAR', 'term_years': 'INTEGER', 'price_per_hour': 'DECIMAL(24, 12)', 'currency': 'VARCHAR',
    'price_as_of': 'DATE', 'source_id': 'VARCHAR'})"""


def load_catalog(con: DuckDBPyConnection) -> None:
    """Create the catalog's temporary tables (the keys of TABLES) if they are missing."""
    # Planning a second read of the files takes ten times as long as this check.
    if not con.execute(_LOADED).fetchall():
        _prepare(con)
        run_stage(con, "gpucost", "catalog")


def load_components(con: DuckDBPyConnection) -> None:
    """Create `catalog_components`, unit prices of an instance's parts, for split prices."""
    _prepare(con)
    con.execute(_COMPONENTS)


def _prepare(con: DuckDBPyConnection) -> None:
    con.execute("SET VARIABLE pricing_dir = $path", {"path": str(pricing_dir())})
    con.execute(_READER)


@cache
def catalog_digest() -> str:
    """A digest of the files that attribution reads."""
    digest = sha256()
    for name in sorted({*TABLES.values(), *COMPONENTS.values(), ACTIVITY}):
        digest.update(name.encode() + b"\0" + (pricing_dir() / name).read_bytes())
    return digest.hexdigest()


# Kinds of resources by which no pod holds a device: other resources, drivers of claims, and memory and cores,
# which are parts.
_NONE = "none"
_CLAIM = "claim"
_PARTS = ("memory", "percentage", "cores", "total_memory", "total_cores", "unsplit_part")


def accelerators() -> str:
    """The resources that are accelerators or parts of them, as kube-state-metrics spells them."""
    return _patterns(lambda kind: kind not in (_NONE, _CLAIM))


def devices() -> str:
    """The resources that count devices, slices or slots, not their memory and cores."""
    return _patterns(lambda kind: kind not in (_NONE, _CLAIM, *_PARTS))


def other_resources() -> str:
    """The resources that are known not to be accelerators."""
    return _patterns(lambda kind: kind == _NONE)


def claim_metrics(kind: str) -> list[str]:
    """The metrics that map pods ('pod') or devices ('device') to resource claims."""
    return [row["metric"] for row in facts("claim_series.csv") if row["kind"] == kind]


@frozen_dataclass
class ActivityMetric:
    """A metric that counts as `part`.

    `part` is device, mig (instances), memory, power, compared (to settle a device's scale), or profile (for
    effective cost). `scale` converts to percent, memory to MiB, power to watts, energy to joules and throttling to seconds;
    `is_set` if the configuration sets the scale.
    `unit`: a series covers a device or one of its cores. `only` is a matcher for names that other exporters
    use, too.
    """

    part: str
    metric: str
    exporter: str
    versions: str
    measures: str
    scale: float
    is_set: bool
    unit: str
    device: tuple[str, ...]
    model: tuple[str, ...]
    host: str
    only: str


# A metric that is not in the table, with the labels of dcgm-exporter.
_UNLISTED = {"vendor": "nvidia", "unit": "device", "device": "UUID uuid", "model": "modelName model_name"}


def activity_metrics(activity: Activity) -> list[ActivityMetric]:
    """All metrics that measure activity, memory and power, by the configuration.

    Includes metrics with the same meaning as the configured ones, and the busy metrics of other vendors'
    devices.
    """
    rows = facts(ACTIVITY)
    found = []

    def add(part: str, wanted: Facts, name: str = "", scale: float | None = None) -> None:
        for row in wanted:
            is_set = scale is not None and row["metric"].lower() == name.lower()
            columns = {
                key: row.get(key, "")
                for key in ("metric", "exporter", "versions", "measures", "unit", "host", "only")
            }
            factor = float(scale if is_set and scale is not None else row["scale"])
            lists = {key: tuple(row[key].split()) for key in ("device", "model")}
            found.append(ActivityMetric(part=part, scale=factor, is_set=is_set, **columns, **lists))  # type: ignore[arg-type]

    by_name = {row["metric"].lower(): row for row in rows}
    device = by_name.get(
        activity.device_metric.lower(), _UNLISTED | {"metric": activity.device_metric, "scale": "1"}
    )
    mig = by_name.get(
        activity.mig_metric.lower(), _UNLISTED | {"metric": activity.mig_metric, "scale": "100"}
    )
    for part, mine, scale in (("device", device, activity.device_scale), ("mig", mig, activity.mig_scale)):
        same = [
            row for row in rows if (row["vendor"], row["measures"]) == (mine["vendor"], mine.get("measures"))
        ]
        others = [row for row in rows if row["measures"] == "device_busy" and row["vendor"] != mine["vendor"]]
        add(part, (same or [mine]) + (others if part == "device" else []), mine["metric"], scale)
    for part, measure in (("memory", "memory_used"), ("power", "power")):
        add(part, [row for row in rows if row["measures"] == measure])
    for measure in ("engine", "sm", "power"):
        if measure != device.get("measures"):
            add(
                "compared",
                [row for row in rows if row["measures"] == measure and row["vendor"] == device["vendor"]],
            )
    if activity.profile:
        add("profile", [row for row in rows if row["measures"] != "device_busy"])
    return found


def _patterns(counts: Callable[[str], bool]) -> str:
    return "|".join(dict.fromkeys(row["resource"] for row in facts("resources.csv") if counts(row["kind"])))


def facts(name: str) -> Facts:
    """The rows of a file in pricing/, as text."""
    return _rows(pricing_dir() / name)


@cache
def _rows(path: Path) -> Facts:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def spelled(name: str) -> str:
    """A GPU's name as `gpu_aliases` compares it: lower-case letters and digits, without the maker."""
    return re.sub(r"^(nvidia|tesla)+", "", re.sub(r"[^a-z0-9]", "", name.lower()))
