"""Collecting from servers that refuse, limit, return wrong answers or fail."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import pytest

from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.collect.prometheus.queries import KSM_FIX, NODE_LABELS_FIX, activity_fix
from gpucost.config.model import BasicAuth, PrometheusSource
from gpucost.errors import SourceError
from gpucost.periods import MS_PER_HOUR
from tests.text_tables import text_rows
from tests.unit.fake_server import (
    EIGHT_HOURS,
    FULL,
    NOTHING,
    T0,
    Fake,
    Question,
    Reply,
    Trick,
    blocks,
    collect,
    failure,
)


def test_missing_metrics_are_named_with_the_fix(fake: Fake, tmp_path: Path) -> None:
    result = collect(fake, tmp_path)
    assert result.ok and blocks(tmp_path) == FULL
    findings = {finding.code: finding for finding in result.findings}
    assert findings["missing_kube_node_labels"].fix == NODE_LABELS_FIX
    message = findings["missing_kube_pod_owner"].message
    assert message.endswith("has no kube_pod_owner: workloads show as single pods")
    assert "missing_kube_pod_status_scheduled_time" in findings
    assert not {"missing_kube_pod_completion_time", "missing_kube_node_info"} & findings.keys()


TOO_MANY = failure(422, "query processing would load too many samples into memory")


def one_shard(question: Question) -> Reply | None:
    if "DCGM" not in question.query or ".*1" in question.query:
        return None
    return NOTHING if "UUID" in question.query else TOO_MANY


@pytest.mark.parametrize(
    "trick",
    [
        lambda question: question.is_of_gpus and question.at - question.start > 2 * MS_PER_HOUR and TOO_MANY,
        pytest.param(one_shard, marks=pytest.mark.slow),
    ],
)
def test_422_leads_to_smaller_queries_down_to_shards(fake: Fake, tmp_path: Path, trick: Trick) -> None:
    fake.trick = trick
    assert collect(fake, tmp_path).ok and blocks(tmp_path) == FULL


def test_422_without_end_is_a_failed_window(fake: Fake, tmp_path: Path) -> None:
    fake.trick = lambda question: question.is_of_gpus and TOO_MANY
    (failed,) = collect(fake, tmp_path, 1).failed_windows
    assert "even in sixteenths" in failed.error
    period = "--from 2023-11-03T00:00:00Z --to 2023-11-03T01:00:00Z"
    assert failed.command == f"gpucost collect prometheus --source {fake.url} {period}"


def test_temporary_failures_are_retried(fake: Fake, tmp_path: Path) -> None:
    failed: set[tuple[str, int]] = set()
    kinds, met = cycle(["429", "503", "500", "drop", "truncate", "length"]), Counter[str]()

    def shaky(question: Question) -> Reply | bool:
        if (question.query, question.at) in failed or not question.is_range:
            return False
        failed.add((question.query, question.at))
        kind = next(kinds)
        met[kind] += 1
        if kind.isdigit():
            return failure(int(kind), "busy", **{"Retry-After": "0"})
        if kind == "truncate":
            return Reply(200, question.document(), cut=40)
        question.handler.close_connection = True
        if kind == "drop":
            return True
        half = b'{"status":"success","data":{"resultType":"matrix","result":['
        return Reply(200, half, {"Content-Length": "100000"})

    fake.trick = shaky
    result = collect(fake, tmp_path, max_samples=1000)
    assert result.ok, result.failed_windows
    assert blocks(tmp_path) == FULL and len(met) == 6


def test_failed_window_is_reported_and_the_others_continue(fake: Fake, tmp_path: Path) -> None:
    fake.trick = lambda question: question.holds_third_hour and failure(500, "disk on fire")
    (failed,) = collect(fake, tmp_path, max_samples=1000).failed_windows
    assert "disk on fire" in failed.error and "tried 3 times" in failed.error
    first, end = ((at - T0) // MS_PER_HOUR for at in (failed.period.start_ms, failed.period.end_ms))
    assert first <= 3 < end and blocks(tmp_path) == FULL[:first] + FULL[end:]
    fake.trick = lambda _: None
    assert collect(fake, tmp_path, None, now=EIGHT_HOURS.end).ok
    assert [row for row in blocks(tmp_path) if row[0] >= 0] == FULL


UNREACHED = r"""
http://127.0.0.1:9 | ^cannot connect to http://127\.0\.0\.1:9$ | start the server
http://gpucost.invalid:9090 | ^cannot resolve host gpucost\.invalid$ | correct url
https: | does not speak TLS | http://"""


@pytest.mark.parametrize(("url", "message", "fix"), text_rows(UNREACHED))
def test_unreachable_servers_are_named(fake: Fake, tmp_path: Path, url: str, message: str, fix: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        collect(Fake(fake.url.replace("http:", url) if url == "https:" else url), tmp_path)
    assert fix in str(caught.value.fix) and not (tmp_path / "s.duckdb").exists()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(401), "rejects the credentials"),
        (Reply(403), "rejects the credentials"),
        (Reply(404, "404 page not found"), "not found (HTTP 404)"),
        (
            Reply(302, "", {"Location": "https://login.example/?state=secret"}),
            "redirects to https://login.example/ ",
        ),
        (Reply(200, "<html>Sign in</html>"), "does not answer with Prometheus' JSON"),
        (Reply(200, {"hello": "world"}), "does not answer with Prometheus' JSON"),
        (failure(400, "parse error"), "HTTP 400: parse error"),
        (failure(400, 'unsupported path requested: "/foo"'), "/api/v1/query not found (HTTP 400)"),
    ],
)
def test_refusals_are_one_clear_error(fake: Fake, tmp_path: Path, reply: Reply, message: str) -> None:
    fake.trick = lambda _: reply
    with pytest.raises(SourceError) as caught:
        collect(fake, tmp_path)
    assert message in caught.value.message and len(fake.queries) == 1


def test_credentials_are_sent_and_never_stored(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    with pytest.raises(SourceError, match="cannot read"):
        collect(fake, tmp_path, bearer_token_file=token)
    token.write_text("s3cret-token\n")
    monkeypatch.setenv("EXTRA", "s3cret-header")
    settings = {"headers_env": {"X-Extra": "EXTRA"}, "tenant": "team-a", "headers": {"X-Plain": "1"}}
    assert collect(fake, tmp_path, 1, bearer_token_file=token, **settings).ok
    expected = {"Authorization": "Bearer s3cret-token", "X-Extra": "s3cret-header", "X-Scope-OrgID": "team-a",
                "X-Plain": "1", "Accept-Encoding": "identity"}  # fmt: skip
    for sent in fake.headers:
        assert expected.items() <= sent.items()
    assert b"s3cret" not in (tmp_path / "s.duckdb").read_bytes()
    basic = BasicAuth(username="u", password_env="PROM_PASSWORD")  # noqa: S106
    with pytest.raises(SourceError, match="PROM_PASSWORD is not set"):
        collect(fake, tmp_path, basic_auth=basic)
    monkeypatch.setenv("PROM_PASSWORD", "p")
    assert collect(fake, tmp_path, 1, basic_auth=basic).ok
    assert fake.headers[-1]["Authorization"] == "Basic dTpw"


def test_server_without_label_values_is_queried_for_every_metric(fake: Fake, tmp_path: Path) -> None:
    fake.trick = lambda question: question.query == "label/__name__" and Reply(404, "404 page not found")
    assert collect(fake, tmp_path, 1).ok
    assert any(query.startswith("kube_job_owner") for query in fake.queries)
    phases = {query for query in fake.queries if query.startswith("kube_pod_status_phase")}
    assert phases and all('phase=~"Pending|Succeeded|Failed"' in query for query in phases)


def test_server_without_the_exporters_gets_the_fix(fake: Fake, tmp_path: Path) -> None:
    vector = Reply(200, b'{"status": "success", "data": {"resultType": "vector", "result": []}}')
    fake.trick = lambda question: (
        question.query not in ("label/__name__", "label/namespace", "vector(1)")
        and (NOTHING if question.is_range else vector)
    )
    fixes = [finding.fix for finding in collect(fake, tmp_path, 1).findings]
    assert fixes == [KSM_FIX, activity_fix("DCGM_FI_DEV_GPU_UTIL")]


def test_each_retry_is_logged_and_the_last_failure_has_a_fix(
    fake: Fake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake.trick = lambda _: failure(503, "overloaded")
    with pytest.raises(SourceError, match=r"HTTP 503: overloaded \(tried 3 times\)") as caught:
        collect(fake, tmp_path)
    again = f"{fake.url} answered HTTP 503: overloaded: trying again in 0."
    assert caught.value.fix and caplog.text.count(again) == 2


BUSY = Reply(503, b"", {"Retry-After": "60"})


def test_closing_ends_a_pause(fake: Fake) -> None:
    fake.trick = lambda _: BUSY
    client = PrometheusClient(PrometheusSource(url=fake.url))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.matrix, "m", "m[60000ms]", 0)
        deadline = time.monotonic() + 10
        while not fake.queries and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.1)
        client.close()
        assert isinstance(answer.exception(timeout=5), SourceError)
    assert len(fake.queries) == 1


def test_retry_after_of_the_server_is_respected(fake: Fake) -> None:
    fake.trick = lambda _: BUSY
    pauses: list[float | None] = []

    class Impatient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return False

    client = PrometheusClient(
        PrometheusSource(url=fake.url), Retries(attempts=2, initial=0, longest=0, jitter=0)
    )
    client._stop = Impatient()
    with pytest.raises(SourceError, match="tried 2 times"):
        client.value("1", 0)
    assert pauses == [60] and len(fake.queries) == 2


@pytest.mark.slow
def test_ctrl_c_does_not_wait_for_a_silent_server(fake: Fake, tmp_path: Path) -> None:
    silent = threading.Event()

    def mute(question: Question) -> bool:
        if question.is_range:
            silent.set()
            time.sleep(300)
        return question.is_range

    fake.trick = mute
    (tmp_path / "gpucost.toml").write_text(f'[prometheus]\nurl = "{fake.url}"\n')
    process = subprocess.Popen(
        f"{sys.executable} -m gpucost collect prometheus --from 2026-01-01 --to 2026-01-02".split(),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        # processes started in the background inherit an ignored SIGINT
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert silent.wait(120)
        process.send_signal(signal.SIGINT)
        assert "interrupted" in process.communicate(timeout=120)[1]
        assert process.returncode == 130
    finally:
        process.kill()
        process.wait()
