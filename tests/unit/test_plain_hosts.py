"""Answers about machines without Kubernetes or Slurm; tests/fleets/hosts.py covers their hours and costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fleets.hosts import BY_USER, PLAIN
from tests.replay.load import load, write_config
from tests.replay.plain import PRICES, machine, smi
from tests.unit.command import call


def test_hosts_without_user_label_are_not_empty_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Box 1 has a user for 3 of 24 h and is empty for 21 h. Box 2, at $4 an hour, has no user label."""
    (tmp_path / "prices.csv").write_text(PRICES)
    config = write_config(PLAIN, tmp_path, tmp_path / "prices.csv")
    assert config.path is not None
    config.path.write_text(config.path.read_text() + BY_USER.replace("CLUSTER", "*"))
    first = machine([smi("box-1", 0), smi("box-1", 1)], users=[(0, 2, 5, "ann")])
    load(PLAIN, [*first, *machine([smi("box-2", 0), smi("box-2", 1)])], config)
    monkeypatch.chdir(tmp_path)

    def answer_of(*words: str) -> Any:
        span = f"--from 2026-03-10 --to 2026-03-11 --format json --config {config.path}".split()
        return json.loads(call(*words, *span)[0])

    waste = answer_of("waste")
    buckets = {row["bucket"]: (row["gpu_hours"], row["cost"]) for row in waste["buckets"] if row["gpu_hours"]}
    assert buckets == {"idle": (3, 6), "between_jobs": (51, 102), "empty_node": (42, 84)}
    warned = waste["coverage"]["warnings"][0]["message"]
    assert "(box-2): their time is unallocated, but never counts as empty" in warned
    answer = answer_of("whatif", "schedule", "--empty-minutes", "10")
    # 20 h 40 min of box 1 at $4
    removed = answer["today"]["node_hours"] - answer["scenario"]["node_hours"]
    assert (round(removed, 6), answer["saving"]) == (20.666667, 82.666666666)
    assert answer["findings"] == [
        "1 node stays: plain hosts without a metric of GPU users. Set [[hosts]] user_label."
    ]
