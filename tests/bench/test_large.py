"""Commands on a large store: 10,000 GPUs, 30 days, 156,000 pods, 40 teams."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.bench.conftest import Attributed, Stores
from tests.bench.measured import Page, gpucost, step

pytestmark = pytest.mark.bench

LARGE = (10_000, 30)
SPAN = ("--from", "2026-10-01", "--to", "2026-10-31")
# Targets: CPU seconds, memory and size of each command; the exponent of growth; bytes per sample; a lake over a store.
CHARGEBACK, PAGE, JSON, EXPONENT, BYTES, OVERHEAD = (60, 1000), (6, 600, 3), 5, 1.05, 1, 1.3
FINDINGS = ((250, 30), (1_000, 30))


@pytest.fixture(scope="module")
def large(stores: Stores) -> Attributed:
    return stores.attributed(*LARGE)


def test_chargeback(large: Attributed, page: Page, tmp_path: Path) -> None:
    # the month has one more day: the bundle is marked as incomplete
    words = ("chargeback", "--month", "2026-10", "--out", str(tmp_path))
    ran = gpucost(*words, folder=large.path.parent, limit=240, codes=(0, 4))
    seconds, peak = CHARGEBACK
    met = ran.cpu <= seconds and ran.peak_mb <= peak
    cells = f"{ran.cpu:.1f} s, {ran.peak_mb:,.0f} MB", f"wall {ran.wall:.0f} s"
    why = "a report and a page for every team, the ledger and a FOCUS file, and the findings of the month."
    assert page.row(
        "chargeback, 156,000 pods, 40 teams", f"≤ {seconds} s, ≤ {peak:,} MB", met, *cells, why=why
    )


def test_page(large: Attributed, page: Page, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    ran = gpucost("report", *SPAN, "--format", "html", "-o", str(file), folder=large.path.parent, limit=120)
    size = file.stat().st_size / 1e6
    seconds, peak, most = PAGE
    met = ran.cpu <= seconds and ran.peak_mb <= peak and size <= most
    cells = f"{ran.cpu:.1f} s, {ran.peak_mb:,.0f} MB, {size:.2f} MB"
    name = "page of that store: CPU, memory, size"
    why = "the page has the findings of its period, which look at every workload."
    assert page.row(name, f"≤ {seconds} s, ≤ {peak} MB, ≤ {most} MB", met, cells, why=why)


def test_workloads_as_json(large: Attributed, page: Page, tmp_path: Path) -> None:
    words = ("report", *SPAN, "--by", "workload", "--format", "json", "-o", str(tmp_path / "rows.json"))
    ran = gpucost(*words, folder=large.path.parent, limit=120)
    rows = (tmp_path / "rows.json").stat().st_size / 1e6
    cells = f"{ran.cpu:.1f} s, {ran.peak_mb:,.0f} MB", f"{rows:.0f} MB of JSON"
    why = "every pod is a workload of its own; each row has all measures."
    assert page.row(
        "`report --by workload --format json` of that store", f"≤ {JSON} s", ran.cpu <= JSON, *cells, why=why
    )


def test_findings_are_linear_in_workloads(stores: Stores, page: Page) -> None:
    taken = []
    for fleet in FINDINGS:
        folder = stores.attributed(*fleet).path.parent
        taken.append(min(gpucost("findings", *SPAN, folder=folder).cpu for _ in "ab"))
    slope = math.log(taken[1] / taken[0]) / math.log(FINDINGS[1][0] / FINDINGS[0][0])
    name = "findings, 3,900 and 15,600 one-pod workloads"
    cells = ", ".join(f"{seconds:.2f} s" for seconds in taken), "", f"exponent {slope:.2f}"
    assert page.row(name, f"exponent ≤ {EXPONENT}", slope <= EXPONENT, *cells)


def test_lake(stores: Stores, page: Page, tmp_path: Path) -> None:
    fleet = (1_000, 30)
    store, lake = stores.attributed(*fleet), tmp_path / "lake"
    exported = step("lake_export", stores.filled(*fleet), lake)[0]
    ran = step("lake_attribute", store.path, lake)[0]
    own = store.measured["all"]
    assert page.row(
        f"a new lake, {fleet[0]:,} GPUs × {fleet[1]} days",
        f"≤ {OVERHEAD} × the store",
        ran.cpu <= OVERHEAD * own,
        f"{ran.cpu:.1f} s, {ran.peak_mb:,.0f} MB",
        f"one store {own:.1f} s; the export before {exported.cpu:.0f} s",
        f"{ran.cpu / own:.2f} ×; wall {ran.wall:.0f} s",
        why="series and states are read from Parquet, and each task fills its own store.",
    )


def test_bytes_per_sample(large: Attributed, page: Page) -> None:
    """The last one: it rewrites the store."""
    measured = step("compact", large.path)[1]
    cells = f"{measured['after']:.2f}", f"{measured['before']:.2f} before"
    name = "bytes per sample after `store compact`"
    why = (
        "the file size includes attributed data; the values are drawn from 0 to 100 and packed in 7 bits each (0.9 bytes), and "
        "each hour has a row of sums."
    )
    assert page.row(name, f"≤ {BYTES}", measured["after"] <= BYTES, *cells, why=why)
