"""`gpucost collect prometheus`: its arguments to the pipeline, and its messages about the result."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.collect.base import CollectResult, FailedWindow, MissingSpan, SourceFinding
from gpucost.config.model import Config
from gpucost.errors import GpucostError, SourceError
from gpucost.periods import Period
from gpucost.store.connection import Store
from tests.unit.command import call

HOUR = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 1, 1, tzinfo=UTC))


class Fake:
    """A fake pipeline that records its arguments and returns `results` and `errors`."""

    def __init__(self) -> None:
        self.results: list[CollectResult] = [
            CollectResult("main", HOUR, windows=1, samples=1234, new_series=1)
        ]
        self.errors: list[GpucostError] = []
        self.config = Config()
        self.period: Period | None = None

    def __call__(
        self, config: Config, store: Store, period: Period | None, progress: Any
    ) -> tuple[list[CollectResult], list[GpucostError]]:
        self.config, self.period = config, period
        assert store.path == config.store
        assert progress is None  # without a terminal, the bar is off
        return self.results, self.errors


@pytest.fixture
def fake(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    (nowhere / "gpucost.toml").write_text(
        'timezone = "Europe/Berlin"\n[[prometheus]]\nurl = "http://a"\nname = "main"\n[[prometheus]]\nurl = "http://b"\n'
    )
    fake = Fake()
    monkeypatch.setattr(pipeline, "collect", fake)
    return fake


collect = partial(call, "collect", "prometheus")


def test_default_is_all_servers_without_a_period_and_named_servers_are_used(fake: Fake) -> None:
    out, err = collect()
    assert fake.period is None
    assert [server.source for server in fake.config.prometheus] == ["main", "http://b"]
    assert (
        out
        == "main: 1,234 samples of 2026-10-01T00:00:00Z .. 2026-10-01T01:00:00Z (1 window, 1 new series)\n"
    )
    assert err == ""
    collect("--from", "2026-10-01", "--to", "2026-11-01", "--source", "http://b")
    assert str(fake.period) == "2026-09-30T22:00:00Z .. 2026-10-31T23:00:00Z"
    assert [server.source for server in fake.config.prometheus] == ["http://b"]
    assert "--source takes one of: main, http://b" in collect("--source", "other", code=2)[1]


def test_missing_metrics_are_reported_with_the_fix(fake: Fake) -> None:
    result = fake.results[0]
    result.resumed = 2
    missing = SourceFinding(
        "warning", "metric_missing", "kube_pod_info is not exported", "scrape kube-state-metrics"
    )
    result.findings = [missing, *[SourceFinding("warning", "gap", "kube-state-metrics was silent")] * 7]
    result.dropped.update({("DCGM_FI_DEV_GPU_UTIL", "sentinel"): 3, ("DCGM_FI_DEV_FB_USED", "sentinel"): 4})
    out, err = collect()
    assert "resumed an interrupted run after 2 windows" in out
    assert "warning: kube_pod_info is not exported\n    fix: scrape kube-state-metrics" in err
    assert "dropped 7 samples as sentinel: DCGM_FI_DEV_FB_USED, DCGM_FI_DEV_GPU_UTIL" in err
    assert err.count("was silent") == 5 and "and 2 more: gap" in err
    assert collect("-q") == ("", "warning: kube-state-metrics was silent\n" * 5 + "  and 2 more: gap\n")
    result.findings = [missing]
    assert collect("-q") == ("", "")


def test_run_without_samples_is_reported_despite_quiet(fake: Fake) -> None:
    fake.results[0].samples = 0
    assert collect("-q") == ("", f"warning: main: no samples in {HOUR}\n")
    assert collect()[1] == ""  # the summary includes it


LOST = "error: main: lost for good: cluster home from 2026-10-01T00:00:00Z to 2026-10-01T01:00:00Z (1.0 h): "


def test_closed_day_that_stays_incomplete_exits_with_4(fake: Fake) -> None:
    silent = MissingSpan("home", HOUR, "kube-state-metrics was silent", ("nodes", "pods"))
    fake.results[0].incomplete = [silent, MissingSpan("home", HOUR, "partial")]
    for words in ([], ["-q"]):
        first, second, fix = collect(*words, code=4)[1].splitlines()[:3]
        assert (first, second) == (f"{LOST}kube-state-metrics was silent (nodes, pods)", f"{LOST}partial")
        assert fix.startswith("fix: ")
    # a failed source can still be collected, so it is reported first
    fake.errors = [SourceError("cannot connect to http://b", "start it")]
    collect(code=1)


def test_failed_window_exits_with_1_and_names_the_command_to_repeat_it(fake: Fake) -> None:
    command = "gpucost collect prometheus --from 2026-10-01T00:00:00Z --to 2026-10-01T01:00:00Z"
    fake.results[0].failed_windows = [FailedWindow(HOUR, "the server broke off", command)]
    for words, summary in (
        (["-q"], ""),
        ([], f"main: 1,234 samples of {HOUR}, but 1 window failed (1 window, 1 new series)\n"),
    ):
        assert collect(*words, code=1) == (
            summary,
            f"error: main: {HOUR} failed: the server broke off\nfix: {command}\n",
        )


def test_failed_server_exits_with_1_and_the_others_are_reported(fake: Fake) -> None:
    fake.errors = [SourceError("cannot connect to http://b", "start it")]
    out, err = collect(code=1)
    assert out.startswith("main: 1,234 samples")
    assert err == "error: cannot connect to http://b\nfix: start it\n"


CLOUDS = """
aws s3://bucket/export                                   aws
gcp gs://bucket/export                                   gcp
azure https://account.blob.core.windows.net/container    azure
prices --provider gcp                                    gcp
spot                                                     aws"""


@pytest.mark.parametrize("line", CLOUDS.strip().splitlines())
def test_cloud_without_installed_libraries_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    *words, cloud = line.split()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpucost.clouds.find_spec", lambda _: None)
    _, err = call("collect", *words, code=1)
    assert f"{cloud}: its libraries are not installed" in err and f"[{cloud}]'" in err
