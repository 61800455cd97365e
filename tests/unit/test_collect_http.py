"""How a collect meets servers that refuse, limit, lie or fall over: a small HTTP server that does as told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest

from gpucost import pipeline
from gpucost.collect.base import CollectResult
from gpucost.collect.prometheus.client import Retries
from gpucost.collect.prometheus.collector import collect_prometheus
from gpucost.collect.prometheus.queries import DCGM_FIX, KSM_FIX, NODE_LABELS_FIX
from gpucost.config.model import Activity, BasicAuth, Config, Idle, PrometheusSource
from gpucost.errors import SourceError
from gpucost.periods import MS_PER_HOUR, Period, from_ms, iso
from gpucost.store import runs
from gpucost.store.connection import Store
from tests.loopback import Quiet, serving

T0 = 472_222 * MS_PER_HOUR
QUICK = Retries(attempts=3, initial=0.01, longest=0.05, jitter=0.01)
Trick = Callable[["Handler", str, int, int], bool]


@dataclass
class Fake:
    """One kube-state-metrics series and one GPU, sampled every minute for ever; `trick` may answer instead."""

    url: str = ""
    trick: Trick | None = None
    queries: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


class Handler(Quiet, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: ClassVar[Fake]

    def do_GET(self) -> None:
        self._serve(urlsplit(self.path).query)

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _serve(self, form: str) -> None:
        fields = {key: values[0] for key, values in parse_qs(form).items()}
        self.fake.headers.append(dict(self.headers))
        if "/label/namespace/" in self.path:
            self.send(200, {"status": "success", "data": ["ml"]})
            return
        if "/label/__name__/" in self.path:
            if self.fake.trick is None or not self.fake.trick(self, "names", 0, 0):
                names = ["kube_node_info", "DCGM_FI_DEV_GPU_UTIL", "kube_pod_container_resource_requests"]
                self.send(200, {"status": "success", "data": names})
            return
        query, at = fields["query"], round(float(fields["time"]) * 1000)
        self.fake.queries.append(query)
        found = re.fullmatch(r".*\[(\d+)ms\]", query)
        start = at - int(found[1]) if found else at
        if self.fake.trick is not None and self.fake.trick(self, query, start, at):
            return
        if not found:
            self.send(
                200,
                {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [at / 1000, "60"]}]}},
            )
            return
        self.send(200, self.answer(query, start, at))

    def answer(self, query: str, start: int, at: int) -> dict[str, Any]:
        labels = {"__name__": query.split("{")[0].split("[")[0], "node": "n1", "UUID": "GPU-1", "namespace": "ml", "job": "j"}
        values = [[t / 1000, "50"] for t in range(-(-start // 60_000) * 60_000, at + 1, 60_000)]
        return {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": labels, "values": values}]}}

    def send(self, status: int, body: dict[str, Any] | str, headers: dict[str, str] | None = None, *, cut: int = 0) -> None:
        text = (body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(body, str) else "application/json")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if not cut:
            self.send_header("Content-Length", str(len(text)))
        else:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(text[:-cut] if cut else text)


@pytest.fixture
def fake() -> Iterator[Fake]:
    state = Fake()
    with serving(type("Bound", (Handler,), {"fake": state})) as state.url:
        yield state


def collect(fake: Fake, folder: Path, hours: int = 8, **settings: Any) -> CollectResult:
    period = Period(from_ms(T0), from_ms(T0 + hours * MS_PER_HOUR))
    source = PrometheusSource(url=fake.url, **settings)
    return collect_prometheus(source, Store(folder / "s.duckdb"), period, Activity(), Idle(), retries=QUICK)


def blocks(folder: Path) -> list[tuple[object, ...]]:
    return Store(folder / "s.duckdb").query("SELECT hour - 472222, samples FROM blocks ORDER BY hour")[1]


FULL = [(hour, 60) for hour in range(8)]


def test_every_hour_is_whole(fake: Fake, tmp_path: Path) -> None:
    result = collect(fake, tmp_path)
    assert result.ok and blocks(tmp_path) == FULL
    assert not any("query_range" in query for query in fake.queries)


def test_422_gets_smaller_questions(fake: Fake, tmp_path: Path) -> None:
    def limited(handler: Handler, query: str, start: int, at: int) -> bool:
        if "DCGM" not in query or at - start <= 2 * MS_PER_HOUR:
            return False
        handler.send(422, {"status": "error", "error": "query processing would load too many samples into memory"})
        return True

    fake.trick = limited
    result = collect(fake, tmp_path)
    assert result.ok and blocks(tmp_path) == FULL


def test_422_down_to_shards(fake: Fake, tmp_path: Path) -> None:
    def limited(handler: Handler, query: str, start: int, at: int) -> bool:
        if "DCGM" not in query:
            return False
        if "UUID" not in query:
            handler.send(422, {"status": "error", "error": "too many samples"})
        elif ".*1" in query:
            return False
        else:
            handler.send(200, {"status": "success", "data": {"resultType": "matrix", "result": []}})
        return True

    fake.trick = limited
    assert collect(fake, tmp_path).ok
    assert blocks(tmp_path) == FULL


def test_422_without_end_is_a_failed_window(fake: Fake, tmp_path: Path) -> None:
    def limited(handler: Handler, query: str, start: int, at: int) -> bool:
        if "DCGM" not in query or "ms]" not in query:
            return False
        handler.send(422, {"status": "error", "error": "too many samples"})
        return True

    fake.trick = limited
    result = collect(fake, tmp_path, 1)
    assert not result.ok and "even in sixteenths" in result.failed_windows[0].error
    assert result.failed_windows[0].command == (
        f"gpucost collect prometheus --source {fake.url} --from 2023-11-14T22:00:00Z --to 2023-11-14T23:00:00Z"
    )


@pytest.mark.parametrize("how", ["429", "503", "500", "drop", "truncate", "length"])
def test_passing_failures_are_retried(fake: Fake, tmp_path: Path, how: str) -> None:
    failed: set[str] = set()

    def shaky(handler: Handler, query: str, start: int, at: int) -> bool:
        if query in failed:
            return False
        failed.add(query)
        if how.isdigit():
            handler.send(int(how), {"status": "error", "error": "busy"}, {"Retry-After": "0"})
        elif how == "drop":
            handler.close_connection = True
        elif how == "truncate" and "ms]" in query:
            handler.send(200, handler.answer(query, start, at), cut=40)
        elif how == "length" and "ms]" in query:
            handler.send_response(200)
            handler.send_header("Content-Length", "100000")
            handler.end_headers()
            handler.wfile.write(b'{"status":"success","data":{"resultType":"matrix","result":[')
            handler.close_connection = True
        else:
            return False
        return True

    fake.trick = shaky
    result = collect(fake, tmp_path)
    assert result.ok, result.failed_windows
    assert blocks(tmp_path) == FULL


def test_a_window_that_fails_is_reported_and_the_others_go_on(fake: Fake, tmp_path: Path) -> None:
    broken = True

    def shaky(handler: Handler, query: str, start: int, at: int) -> bool:
        if not broken or "DCGM" not in query or not start < T0 + 3 * MS_PER_HOUR + 1 <= at:
            return False
        handler.send(500, {"status": "error", "error": "disk on fire"})
        return True

    fake.trick = shaky
    result = collect(fake, tmp_path, max_samples=1000)
    assert [str(window.period) for window in result.failed_windows] == ["2023-11-15T01:00:00Z .. 2023-11-15T02:00:00Z"] or (
        len(result.failed_windows) == 1
    )
    assert "disk on fire" in result.failed_windows[0].error and "tried 3 times" in result.failed_windows[0].error
    missing = result.failed_windows[0].period
    assert {int(str(hour)) for hour, _ in blocks(tmp_path)} == {
        hour for hour in range(8) if not missing.start_ms <= T0 + hour * MS_PER_HOUR < missing.end_ms
    }
    broken = False
    later = collect_prometheus(
        PrometheusSource(url=fake.url), Store(tmp_path / "s.duckdb"), None, Activity(), Idle(), now=from_ms(T0 + 8 * MS_PER_HOUR),
        retries=QUICK,
    )  # fmt: skip
    assert later.ok and [row for row in blocks(tmp_path) if int(str(row[0])) >= 0] == FULL


def test_a_server_that_goes_away_ends_the_run_quickly(fake: Fake, tmp_path: Path) -> None:
    source = PrometheusSource(url="http://127.0.0.1:9")
    with pytest.raises(SourceError, match=r"nothing answers at http://127\.0\.0\.1:9"):
        collect_prometheus(
            source, Store(tmp_path / "s.duckdb"), Period(from_ms(T0), from_ms(T0 + 1)), Activity(), Idle(), retries=QUICK
        )
    assert not (tmp_path / "s.duckdb").exists()


@pytest.mark.parametrize(
    ("status", "body", "headers", "says"),
    [
        (401, {}, {}, "refuses the credentials"),
        (403, {}, {}, "refuses the credentials"),
        (404, "404 page not found", {}, "is not there"),
        (302, "", {"Location": "https://login.example/?state=secret"}, "redirects to https://login.example/ "),
        (200, "<html>Sign in</html>", {}, "not Prometheus' JSON"),
        (200, {"hello": "world"}, {}, "not Prometheus' JSON"),
        (400, {"status": "error", "error": "parse error"}, {}, "HTTP 400: parse error"),
        (400, {"error": 'unsupported path requested: "/foo/api/v1/query"'}, {}, "/api/v1/query is not there (HTTP 400)"),
    ],
)
def test_refusals_are_one_clear_error(
    fake: Fake, tmp_path: Path, status: int, body: Any, headers: dict[str, str], says: str
) -> None:
    def refuse(handler: Handler, query: str, start: int, at: int) -> bool:
        handler.send(status, body, headers)
        return True

    fake.trick = refuse
    with pytest.raises(SourceError) as caught:
        collect(fake, tmp_path)
    assert says in caught.value.message
    assert len(fake.queries) == 1


def test_credentials_are_sent_and_never_kept(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret-token\n")
    monkeypatch.setenv("EXTRA", "s3cret-header")
    result = collect(
        fake, tmp_path, bearer_token_file=token, headers_env={"X-Extra": "EXTRA"}, tenant="team-a", headers={"X-Plain": "1"}
    )
    assert result.ok
    for sent in fake.headers:
        assert sent["Authorization"] == "Bearer s3cret-token"
        assert (sent["X-Extra"], sent["X-Scope-OrgID"], sent["X-Plain"]) == ("s3cret-header", "team-a", "1")
        assert sent["Accept-Encoding"] == "identity"
    assert b"s3cret" not in (tmp_path / "s.duckdb").read_bytes()


def test_basic_auth_and_missing_secrets(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    basic = BasicAuth(username="u", password_env="PROM_PASSWORD")  # noqa: S106
    with pytest.raises(SourceError, match="PROM_PASSWORD is not set"):
        collect(fake, tmp_path, basic_auth=basic)
    monkeypatch.setenv("PROM_PASSWORD", "p")
    assert collect(fake, tmp_path, basic_auth=basic).ok
    assert fake.headers[-1]["Authorization"] == "Basic dTpw"
    with pytest.raises(SourceError, match="cannot read"):
        collect(fake, tmp_path, bearer_token_file=tmp_path / "none")


def test_a_killed_run_goes_on_where_it_stopped(fake: Fake, tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def die(state: Any) -> None:
        if state.done_ms >= 3 * MS_PER_HOUR:
            raise Killed

    period = Period(from_ms(T0), from_ms(T0 + 8 * MS_PER_HOUR))
    source, store = PrometheusSource(url=fake.url, max_samples=1000), Store(tmp_path / "s.duckdb")
    with pytest.raises(Killed):
        collect_prometheus(source, store, period, Activity(), Idle(), die, retries=QUICK)
    had = len(blocks(tmp_path))
    assert 0 < had < 8
    result = collect_prometheus(source, store, period, Activity(), Idle(), retries=QUICK)
    assert result.resumed > 0 and blocks(tmp_path) == FULL
    assert store.query("SELECT count(*), count(finished_at) FROM collect_runs")[1] == [(1, 1)]


def test_a_killed_run_until_now_takes_its_last_hour_up_again(fake: Fake, tmp_path: Path) -> None:
    store, source = Store(tmp_path / "s.duckdb"), PrometheusSource(url=fake.url)
    began = datetime.now(UTC).replace(microsecond=0)
    first = began - timedelta(hours=3)
    collect_prometheus(source, store, Period(first, began), Activity(), Idle(), now=began, retries=QUICK)
    with store.write() as con:
        con.execute("UPDATE collect_runs SET finished_at = NULL")
    later = began + timedelta(minutes=70)
    result = collect_prometheus(source, store, Period(first, later), Activity(), Idle(), now=later, retries=QUICK)
    assert result.ok and result.resumed == 1
    samples = store.query("SELECT sum(samples) FROM blocks")[1][0][0]
    assert samples == -(-round((later - first.replace(minute=0, second=0)).total_seconds()) // 60)


def test_a_server_without_label_values(fake: Fake, tmp_path: Path) -> None:
    def refuse(handler: Handler, query: str, start: int, at: int) -> bool:
        if query == "names":
            handler.send(404, "404 page not found")
        return query == "names"

    fake.trick = refuse
    assert collect(fake, tmp_path).ok
    assert any(query.startswith("kube_job_owner") for query in fake.queries)


def test_the_first_run_begins_with_the_month_and_the_next_with_an_overlap(fake: Fake, tmp_path: Path) -> None:
    source, store = PrometheusSource(url=fake.url), Store(tmp_path / "s.duckdb")
    first = collect_prometheus(
        source, store, None, Activity(), Idle(), now=datetime(2026, 2, 3, 4, 30, tzinfo=UTC), retries=QUICK
    )
    assert str(first.asked) == "2026-02-01T00:00:00Z .. 2026-02-03T04:30:00Z"
    second = collect_prometheus(
        source, store, None, Activity(), Idle(), now=datetime(2026, 2, 3, 6, 30, tzinfo=UTC), retries=QUICK
    )
    assert str(second.asked) == "2026-02-03T02:00:00Z .. 2026-02-03T06:30:00Z"
    samples = store.query("SELECT sum(samples) FROM blocks")[1][0][0]
    assert samples == (2 * 24 + 6) * 60 + 30


def test_what_lies_before_the_oldest_data_is_not_collected(fake: Fake, tmp_path: Path) -> None:
    def young(handler: Handler, query: str, start: int, at: int) -> bool:
        born = T0 + 5 * MS_PER_HOUR + 30 * 60_000
        if "ms]" not in query:
            return False
        handler.send(200, handler.answer(query, max(start, born), at))
        return True

    fake.trick = young
    result = collect(fake, tmp_path, max_samples=1000)
    assert str(result.not_collected) == str(Period(from_ms(T0), from_ms(T0 + 5 * MS_PER_HOUR)))
    (lost,) = [finding for finding in result.findings if finding.code == "before_retention"]
    assert lost.message.endswith(f"has nothing before {iso(from_ms(T0 + 5 * MS_PER_HOUR))}; that time is lost")
    assert [finding.message for finding in collect(fake, tmp_path, hours=3).findings] == [lost.message]
    store = Store(tmp_path / "s.duckdb")
    loads = store.query("SELECT min(from_ms), min(from_ms) FILTER (rows > 0) FROM loads")[1]
    assert loads == [(T0, T0 + 5 * MS_PER_HOUR)]
    assert store.info().sources[0].start == from_ms(T0 + 5 * MS_PER_HOUR)
    # what was found empty is not asked for again by a run without a period
    now = from_ms(T0 + 9 * MS_PER_HOUR)
    source = PrometheusSource(url=fake.url)
    later = collect_prometheus(source, store, None, Activity(), Idle(), now=now, retries=QUICK, timezone=ZoneInfo("UTC"))
    assert str(later.asked) == str(Period(now.replace(day=1, hour=0), now))  # the month before that was never asked for
    again = collect_prometheus(source, store, None, Activity(), Idle(), now=now, retries=QUICK, timezone=ZoneInfo("UTC"))
    assert str(again.asked) == str(Period(from_ms(T0 + 7 * MS_PER_HOUR), now)) and again.not_collected is None
    # and does not count as collected
    pipeline.attribute(Config(store=store.path), store)
    collected = store.query("SELECT cluster, from_ms, to_ms FROM collected")[1]
    born = T0 + 5 * MS_PER_HOUR + 30 * 60_000
    assert [row[:2] for row in collected] == [("default", born - 60_000)]
    assert T0 + 9 * MS_PER_HOUR - 60_000 < int(str(collected[0][2])) <= T0 + 9 * MS_PER_HOUR


def test_a_server_without_any_data_is_asked_for_all_of_it_again(fake: Fake, tmp_path: Path) -> None:
    def nothing(handler: Handler, query: str, start: int, at: int) -> bool:
        if "ms]" in query:
            handler.send(200, {"status": "success", "data": {"resultType": "matrix", "result": []}})
        return "ms]" in query

    store, source, now = Store(tmp_path / "s.duckdb"), PrometheusSource(url=fake.url), datetime(2026, 2, 3, 4, 30, tzinfo=UTC)
    fake.trick = nothing
    empty = collect_prometheus(source, store, None, Activity(), Idle(), now=now, retries=QUICK)
    assert empty.ok and store.query("SELECT count(*) FROM loads")[1] == [(0,)]
    # the server has the metrics at this moment: nothing is to be installed
    assert [(found.code, found.fix) for found in empty.findings] == [("no_kube_state_metrics", None), ("no_activity", None)]
    fake.trick = None
    result = collect_prometheus(source, store, None, Activity(), Idle(), now=now, retries=QUICK)
    assert result.asked == empty.asked and result.not_collected is None


def test_a_server_without_the_exporters_is_told_what_to_install(fake: Fake, tmp_path: Path) -> None:
    def nothing(handler: Handler, query: str, start: int, at: int) -> bool:
        kind, found = ("matrix" if "ms]" in query else "vector"), query == "vector(1)"
        result = [{"metric": {}, "value": [at / 1000, "1"]}] if found else []
        handler.send(200, {"status": "success", "data": {"resultType": kind, "result": result}})
        return True

    fake.trick = lambda handler, query, start, at: query != "names" and nothing(handler, query, start, at)
    assert [found.fix for found in collect(fake, tmp_path).findings] == [KSM_FIX, DCGM_FIX]


def test_each_retry_is_logged_and_the_last_failure_has_a_fix(
    fake: Fake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def busy(handler: Handler, query: str, start: int, at: int) -> bool:
        handler.send(503, {"error": "overloaded"})
        return True

    fake.trick = busy
    with pytest.raises(SourceError, match=r"HTTP 503: overloaded \(tried 3 times\)") as caught:
        collect(fake, tmp_path)
    assert caught.value.fix is not None
    assert [record.levelname for record in caplog.records if record.name.startswith("gpucost")] == ["WARNING"] * 2
    assert f"{fake.url} answered HTTP 503: overloaded: trying again in 0." in caplog.text


def test_a_host_that_does_not_exist_is_asked_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(SourceError, match=r"^cannot resolve host gpucost\.invalid$") as caught:
        collect(Fake("http://gpucost.invalid:9090"), tmp_path)
    assert caught.value.fix is not None and "trying again" not in caplog.text


def test_https_where_there_is_none(fake: Fake, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not speak TLS") as caught:
        collect(Fake(fake.url.replace("http://", "https://")), tmp_path)
    assert "http://" in str(caught.value.fix)


def test_a_renamed_cluster_is_attributed_anew(fake: Fake, tmp_path: Path) -> None:
    assert collect(fake, tmp_path).ok
    store = Store(tmp_path / "s.duckdb")
    pipeline.attribute(Config(store=store.path), store)
    with store.write() as con:
        runs.settle_clusters(con, fake.url, "cluster", "default")
        assert con.execute("SELECT last_load_id > 0 FROM attribution_state").fetchall() == [(True,)]
        runs.settle_clusters(con, fake.url, "cluster", "home")
    assert store.query("SELECT DISTINCT cluster FROM series UNION SELECT cluster FROM scrape_gaps")[1] == [("home",)]
    pipeline.attribute(Config(store=store.path), store)
    assert store.query("SELECT DISTINCT cluster FROM collected")[1] == [("home",)]


def test_a_run_killed_long_ago_is_not_taken_up(fake: Fake, tmp_path: Path) -> None:
    assert collect(fake, tmp_path).ok
    store = Store(tmp_path / "s.duckdb")
    for days, resumed in ((2, False), (0, True)):
        with store.write() as con:
            began = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=days)
            con.execute("UPDATE collect_runs SET finished_at = NULL, started_at = $1", [began])
        assert bool(collect(fake, tmp_path).resumed) is resumed


def test_waiting_and_ended_pods_are_asked_for_and_no_other_phases(fake: Fake, tmp_path: Path) -> None:
    def refuse(handler: Handler, query: str, start: int, at: int) -> bool:
        if query == "names":
            handler.send(404, "404 page not found")
        return query == "names"

    fake.trick = refuse
    collect(fake, tmp_path)
    phases = {query for query in fake.queries if query.startswith("kube_pod_status_phase")}
    assert phases and all('phase=~"Pending|Succeeded|Failed"' in query for query in phases)


def test_missing_metrics_are_said_with_the_fix(fake: Fake, tmp_path: Path) -> None:
    findings = {finding.code: finding for finding in collect(fake, tmp_path).findings}
    assert findings["missing_kube_node_labels"].fix == NODE_LABELS_FIX
    assert findings["missing_kube_pod_owner"].message.endswith("has no kube_pod_owner: workloads show as single pods")
    assert "missing_kube_pod_completion_time" not in findings
    assert "missing_kube_pod_status_scheduled_time" in findings
    assert "missing_kube_node_info" not in findings


def test_hours_of_partial_answers_are_marked_and_asked_for_again(fake: Fake, tmp_path: Path) -> None:
    is_partial = True

    def half(handler: Handler, query: str, start: int, at: int) -> bool:
        if not is_partial or "ms]" not in query:
            return False
        handler.send(200, {**handler.answer(query, start, min(at, T0 + 6 * MS_PER_HOUR)), "isPartial": True})
        return True

    fake.trick = half
    store, source = Store(tmp_path / "s.duckdb"), PrometheusSource(url=fake.url, partial_response="accept", late_hours=24)

    def run(hour: float) -> CollectResult:
        now = from_ms(T0 + round(hour * MS_PER_HOUR))
        return collect_prometheus(source, store, None, Activity(), Idle(), now=now, retries=QUICK)

    def marked() -> list[int]:
        hours = store.query("SELECT hour FROM asked_hours WHERE is_partial ORDER BY hour")[1]
        return [int(str(hour)) - T0 // MS_PER_HOUR for (hour,) in hours]

    assert run(8).ok
    assert marked()[-1] == 7 and len(marked()) > 24
    is_partial = False
    whole = run(9)
    assert whole.ok and whole.asked_again == 19  # and those since two hours before the newest sample, none that is too old
    assert marked()[-1] == -16
    assert [row for row in blocks(tmp_path) if 0 <= int(str(row[0])) < 8] == FULL
    assert run(9.1).asked_again == 0
