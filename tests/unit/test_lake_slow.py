"""Lakes of many fleets, of two stores, after other settings and after a kill: their figures are those of a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.lake import attribution, steps
from tests.lakes import (
    GrownLake,
    attribute,
    differences,
    export,
    opened,
    stored,
    stored_together,
    unlike_the_store,
)
from tests.oracle.test_exact import Together, name_of, together
from tests.unit.test_lake import run

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("group", together(), ids=name_of)
def test_figures_of_all_cases_are_those_of_the_store(group: Together, tmp_path: Path) -> None:
    """Many clusters in one lake."""
    wrong = unlike_the_store(*stored_together(group, tmp_path), pairs=2_000)
    assert not wrong, "\n".join(wrong)


def test_two_stores_of_two_clusters_report_what_each_reported_alone(tmp_path: Path) -> None:
    """They come from servers of one name, with the same nodes and pods: only the cluster tells them apart."""
    url = tmp_path / "lake"
    alone = {}
    by_cluster = ["report", "--by", "cluster,namespace", "--format", "json"]
    for name in ("east", "west"):
        config, store = stored(tmp_path / name, cluster=name)
        alone[name] = json.loads(run(*by_cluster, "--config", str(config.path)))
        export(config, store, url)
    attribute(config, url)
    both = json.loads(run(*by_cluster, "--config", str(config.path), "--lake", str(url)))
    for name, told in alone.items():
        assert [row for row in both["rows"] if row["cluster"] == name] == told["rows"]
    assert both["totals"]["cost"] == sum(told["totals"]["cost"] for told in alone.values())


def test_figures_after_other_settings_are_those_of_the_store(grown_lake: GrownLake, tmp_path: Path) -> None:
    lake = grown_lake.copy(tmp_path / "copy")
    idle = lake.config.idle.model_copy(update={"threshold_percent": 50})
    other = lake.config.model_copy(update={"idle": idle})
    next((lake.url / "attributed/cost_runs").rglob("*.parquet")).unlink()  # a file that is lost is made again
    pipeline.attribute(other, lake.store)
    attribute(other, lake.url)
    with opened(other, lake.url) as seen:
        assert not differences(lake.store.path, seen.path)


def test_a_killed_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = tmp_path / "lake"
    config, store = stored(tmp_path / "one", "node-name-reused")
    export(config, store, url)
    monkeypatch.setattr(attribution, "_PAIRS_AT_ONCE", 24)
    work, calls = steps.run, []

    def killed(*args: Any) -> str:
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return work(*args)

    monkeypatch.setattr(steps, "run", killed)
    with pytest.raises(KeyboardInterrupt):
        attribute(config, url)
    monkeypatch.setattr(steps, "run", work)
    done = attribute(config, url)
    assert (done.done["inventory"], done.done["price"]) == (0, 0)
    pipeline.attribute(config, store)
    with opened(config, url) as seen:
        assert not differences(store.path, seen.path)
