"""`--profile`: the time of each stage, without changing the answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.cases.words import BOOK, HEADER, busy, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.unit.command import call

REPORT = ["report", "--from", "2026-03-10T00:00Z", "--to", "2026-03-10T04:00Z", "--format", "json"]


def stages(stderr: str) -> dict[str, list[str]]:
    return {line.split()[0]: line.split()[1:] for line in stderr.splitlines() if ".sql" in line}


@pytest.mark.ci
def test_first_report_profiles_all_stages_and_the_second_only_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    described = fleet(
        4,
        [node("n1", "p4de.24xlarge", 0, 4)],
        [pod("trains", "n1", [0], 1, 4, "train")],
        busy("n1", [0], 1, 4, 50),
    )
    load(described, scrape(described, lean=True), write_config(described, tmp_path, tmp_path / "prices.csv"))
    first, first_err = call(*REPORT, "--profile")
    found = stages(first_err)
    assert {"inventory/30_pods.sql", "price/50_node_prices.sql"} <= found.keys()
    runs, *_, rows = found["attribute/74_activity_hours.sql"]
    assert (runs, rows) == ("1", "3")
    # the option may also precede the command
    second, second_err = call("--profile", *REPORT)
    assert second == first
    assert not any(name.startswith(("inventory/", "price/", "attribute/")) for name in stages(second_err))
    assert "questions/report/30_rows.sql" in stages(second_err)
    # a failed command lists the stages that ran
    failed = call(*REPORT, "--team", "nobody", "--profile", code=1)[1]
    assert "questions/report/20_cost_rows.sql" in stages(failed)
