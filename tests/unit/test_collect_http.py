"""How a collect meets servers that refuse, limit, lie or fall over: a small HTTP server that does as told."""

from __future__ import annotations

import functools
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from itertools import cycle
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest

from gpucost import pipeline
from gpucost.collect.base import CollectResult
from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.collect.prometheus.collector import collect_prometheus
from gpucost.collect.prometheus.queries import KSM_FIX, NODE_LABELS_FIX, activity_fix
from gpucost.config.model import Activity, BasicAuth, Config, Idle, PrometheusSource
from gpucost.errors import SourceError
from gpucost.periods import MS_PER_HOUR, Period, from_ms, iso
from gpucost.store import runs
from gpucost.store.connection import Store
from tests.loopback import Quiet, serving

T0 = 471_936 * MS_PER_HOUR  # the third of a month: runs since its beginning are short
QUICK = Retries(attempts=3, initial=0.01, longest=0.05, jitter=0.01)
NAMES = ["kube_node_info", "DCGM_FI_DEV_GPU_UTIL", "kube_pod_container_resource_requests"]


@dataclass(frozen=True)
class Reply:
    """What is sent; of the body all but the last `cut` bytes, before the connection ends."""

    status: int = 200
    body: dict[str, Any] | str | bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0


@dataclass(frozen=True)
class Question:
    """What is asked: a query from `start` to `at`, or for a label's values (`label/…`)."""

    handler: Handler
    path: str
    query: str
    start: int
    at: int

    @property
    def is_range(self) -> bool:
        return "ms]" in self.query

    def about(self, metric: str = "DCGM") -> bool:
        """Whether samples of such a metric are asked for."""
        return self.is_range and metric in self.query

    def document(self, start: int | None = None, at: int | None = None, **more: Any) -> dict[str, Any]:
        """What the server answers: one series with a sample each minute, or one value, or names."""
        data: Any = {"resultType": "vector", "result": [{"metric": {}, "value": [self.at / 1000, "60"]}]}
        if self.query.startswith("label/"):
            data = ["ml"] if self.query == "label/namespace" else NAMES
        elif self.is_range:
            start, at = start or self.start, at or self.at
            labels = {"__name__": re.split(r"[{[]", self.query)[0], "node": "n1", "UUID": "GPU-1", "namespace": "ml", "job": "j"}
            values = [[t / 1000, "50"] for t in range(-(-start // 60_000) * 60_000, at + 1, 60_000)]
            data = {"resultType": "matrix", "result": [{"metric": labels, "values": values}]}
        return {"status": "success", "data": data, **more}


Trick = Callable[[Question], Reply | bool | None]


@dataclass
class Fake:
    """One server: its `trick` may answer a question itself (True), name another reply, or leave the usual one."""

    url: str = ""
    trick: Trick = lambda _: None
    queries: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


class Handler(Quiet, BaseHTTPRequestHandler):
    """Serves all fakes, each under its own path."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    fakes: ClassVar[dict[str, Fake]] = {}

    def do_GET(self) -> None:
        self._serve(urlsplit(self.path).query)

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _serve(self, form: str) -> None:
        fields = {key: values[0] for key, values in parse_qs(form).items()}
        fake = self.fakes[self.path.split("/")[1]]
        fake.headers.append(dict(self.headers))
        label = re.search("/(label/[^/]+)/", self.path)
        query, at = (label[1], 0) if label else (fields.get("query", ""), round(float(fields.get("time", 0)) * 1000))
        if not label:
            fake.queries.append(query)
        length = re.fullmatch(r".*\[(\d+)ms\]", query)
        question = Question(self, self.path, query, at - int(length[1]) if length else at, at)
        reply = fake.trick(question) or Reply(200, question.document())
        if isinstance(reply, Reply):
            self.send(reply)

    def send(self, reply: Reply) -> None:
        body = json.dumps(reply.body, separators=(",", ":")) if isinstance(reply.body, dict) else reply.body
        text = body.encode() if isinstance(body, str) else body
        self.send_response(reply.status)
        self.send_header("Content-Type", "text/html" if isinstance(reply.body, str) else "application/json")
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.cut:
            self.send_header("Connection", "close")
            self.close_connection = True
        elif "Content-Length" not in reply.headers:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text[: len(text) - reply.cut])


@pytest.fixture(scope="module")
def fakes() -> Iterator[Callable[[], Fake]]:
    """Makes fakes, all of one server."""
    with serving(Handler) as url:

        def new() -> Fake:
            fake = Fake(f"{url}/{len(Handler.fakes)}")
            Handler.fakes[str(len(Handler.fakes))] = fake
            return fake

        yield new


@pytest.fixture
def fake(fakes: Callable[[], Fake]) -> Fake:
    return fakes()


EIGHT_HOURS = Period(from_ms(T0), from_ms(T0 + 8 * MS_PER_HOUR))


def collect(
    fake: Fake, folder: Path, hours: int | None = 8, *, now: datetime | None = None, tz: ZoneInfo | None = None, **settings: Any
) -> CollectResult:
    """Collects the first hours, or (None) what is due at `now`."""
    period = None if hours is None else Period(from_ms(T0), from_ms(T0 + hours * MS_PER_HOUR))
    source, store = PrometheusSource(url=fake.url, **settings), Store(folder / "s.duckdb")
    return collect_prometheus(source, store, period, Activity(), Idle(), now=now, retries=QUICK, timezone=tz)


def query(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    return Store(folder / "s.duckdb").query(sql)[1]


def blocks(folder: Path) -> list[tuple[Any, ...]]:
    return query(folder, "SELECT hour - 471936, samples FROM blocks ORDER BY hour")


FULL = [(hour, 60) for hour in range(8)]


def test_what_is_missing_is_named_with_the_fix(fake: Fake, tmp_path: Path) -> None:
    result = collect(fake, tmp_path)
    assert result.ok and blocks(tmp_path) == FULL
    findings = {finding.code: finding for finding in result.findings}
    assert findings["missing_kube_node_labels"].fix == NODE_LABELS_FIX
    assert findings["missing_kube_pod_owner"].message.endswith("has no kube_pod_owner: workloads show as single pods")
    assert "missing_kube_pod_status_scheduled_time" in findings
    assert not {"missing_kube_pod_completion_time", "missing_kube_node_info"} & findings.keys()


TOO_MANY = Reply(422, {"status": "error", "error": "query processing would load too many samples into memory"})
NOTHING = Reply(200, {"status": "success", "data": {"resultType": "matrix", "result": []}})


def one_shard(question: Question) -> Reply | None:
    if "DCGM" not in question.query or ".*1" in question.query:
        return None
    return NOTHING if "UUID" in question.query else TOO_MANY


@pytest.mark.parametrize(
    "trick",
    [
        lambda question: question.about() and question.at - question.start > 2 * MS_PER_HOUR and TOO_MANY,
        pytest.param(one_shard, marks=pytest.mark.slow),
    ],
)
def test_422_gets_smaller_questions_down_to_shards(fake: Fake, tmp_path: Path, trick: Trick) -> None:
    fake.trick = trick
    assert collect(fake, tmp_path).ok and blocks(tmp_path) == FULL


def test_422_without_end_is_a_failed_window(fake: Fake, tmp_path: Path) -> None:
    fake.trick = lambda question: question.about() and TOO_MANY
    (failed,) = collect(fake, tmp_path, 1).failed_windows
    assert "even in sixteenths" in failed.error
    assert failed.command == (
        f"gpucost collect prometheus --source {fake.url} --from 2023-11-03T00:00:00Z --to 2023-11-03T01:00:00Z"
    )


def test_passing_failures_are_retried(fake: Fake, tmp_path: Path) -> None:
    failed: set[tuple[str, int]] = set()
    kinds, met = cycle(["429", "503", "500", "drop", "truncate", "length"]), Counter[str]()

    def shaky(question: Question) -> Reply | bool:
        if (question.query, question.at) in failed or not question.is_range:
            return False
        failed.add((question.query, question.at))
        kind = next(kinds)
        met[kind] += 1
        if kind.isdigit():
            return Reply(int(kind), {"status": "error", "error": "busy"}, {"Retry-After": "0"})
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


def test_a_window_that_fails_is_reported_and_the_others_go_on(fake: Fake, tmp_path: Path) -> None:
    disk = Reply(500, {"status": "error", "error": "disk on fire"})
    fake.trick = lambda question: question.about() and question.start <= T0 + 3 * MS_PER_HOUR <= question.at and disk
    (failed,) = collect(fake, tmp_path, max_samples=1000).failed_windows
    assert "disk on fire" in failed.error and "tried 3 times" in failed.error
    missing = {hour for hour in range(8) if failed.period.start_ms <= T0 + hour * MS_PER_HOUR < failed.period.end_ms}
    assert 3 in missing and {hour for hour, _ in blocks(tmp_path)} == set(range(8)) - missing
    fake.trick = lambda _: None
    assert collect(fake, tmp_path, None, now=EIGHT_HOURS.end).ok
    assert [row for row in blocks(tmp_path) if row[0] >= 0] == FULL


@pytest.mark.slow
def test_a_server_that_is_gone_in_mid_run_is_not_asked_on(fake: Fake, tmp_path: Path) -> None:
    gone = Reply(404, "404 page not found")
    fake.trick = lambda question: question.is_range and question.at > T0 + 3 * MS_PER_HOUR and gone
    result = collect(fake, tmp_path, max_samples=1000)
    (failed,) = result.failed_windows
    assert "is not there" in failed.error and failed.period.end == EIGHT_HOURS.end
    assert blocks(tmp_path) and set(blocks(tmp_path)) < set(FULL)
    assert sum("ms]" in query for query in fake.queries) < 24
    fake.trick = lambda _: None
    assert collect(fake, tmp_path).ok and blocks(tmp_path) == FULL


@pytest.mark.parametrize(
    ("url", "message", "fix"),
    [
        ("http://127.0.0.1:9", r"^nothing answers at http://127\.0\.0\.1:9$", "start it"),
        ("http://gpucost.invalid:9090", r"^cannot resolve host gpucost\.invalid$", "correct url"),
        ("https:", "does not speak TLS", "http://"),
    ],
)
def test_who_cannot_be_reached(fake: Fake, tmp_path: Path, url: str, message: str, fix: str) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        collect(Fake(fake.url.replace("http:", url) if url == "https:" else url), tmp_path)
    assert fix in str(caught.value.fix) and not (tmp_path / "s.duckdb").exists()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(401, {}), "refuses the credentials"),
        (Reply(403, {}), "refuses the credentials"),
        (Reply(404, "404 page not found"), "is not there"),
        (Reply(302, "", {"Location": "https://login.example/?state=secret"}), "redirects to https://login.example/ "),
        (Reply(200, "<html>Sign in</html>"), "not Prometheus' JSON"),
        (Reply(200, {"hello": "world"}), "not Prometheus' JSON"),
        (Reply(400, {"status": "error", "error": "parse error"}), "HTTP 400: parse error"),
        (
            Reply(400, {"error": 'unsupported path requested: "/foo/api/v1/query"'}),
            "/api/v1/query is not there (HTTP 400)",
        ),
    ],
)
def test_refusals_are_one_clear_error(fake: Fake, tmp_path: Path, reply: Reply, message: str) -> None:
    fake.trick = lambda _: reply
    with pytest.raises(SourceError) as caught:
        collect(fake, tmp_path)
    assert message in caught.value.message and len(fake.queries) == 1


def test_credentials_are_sent_and_never_kept(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret-token\n")
    monkeypatch.setenv("EXTRA", "s3cret-header")
    settings = {"headers_env": {"X-Extra": "EXTRA"}, "tenant": "team-a", "headers": {"X-Plain": "1"}}
    assert collect(fake, tmp_path, 1, bearer_token_file=token, **settings).ok
    for sent in fake.headers:
        assert sent["Authorization"] == "Bearer s3cret-token"
        assert (sent["X-Extra"], sent["X-Scope-OrgID"], sent["X-Plain"]) == ("s3cret-header", "team-a", "1")
        assert sent["Accept-Encoding"] == "identity"
    assert b"s3cret" not in (tmp_path / "s.duckdb").read_bytes()


def test_basic_auth_and_missing_secrets(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    basic = BasicAuth(username="u", password_env="PROM_PASSWORD")  # noqa: S106
    with pytest.raises(SourceError, match="PROM_PASSWORD is not set"):
        collect(fake, tmp_path, basic_auth=basic)
    with pytest.raises(SourceError, match="cannot read"):
        collect(fake, tmp_path, bearer_token_file=tmp_path / "none")
    monkeypatch.setenv("PROM_PASSWORD", "p")
    assert collect(fake, tmp_path, 1, basic_auth=basic).ok
    assert fake.headers[-1]["Authorization"] == "Basic dTpw"


def test_a_killed_run_goes_on_where_it_stopped_unless_that_is_long_ago(fake: Fake, tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def die(state: Any) -> None:
        if state.done_ms >= 3 * MS_PER_HOUR:
            raise Killed

    source, store = PrometheusSource(url=fake.url, max_samples=1000), Store(tmp_path / "s.duckdb")
    with pytest.raises(Killed):
        collect_prometheus(source, store, EIGHT_HOURS, Activity(), Idle(), die, retries=QUICK)
    assert 0 < len(blocks(tmp_path)) < 8
    result = collect(fake, tmp_path, max_samples=1000)
    assert result.resumed > 0 and blocks(tmp_path) == FULL
    assert query(tmp_path, "SELECT count(*), count(finished_at) FROM collect_runs") == [(1, 1)]
    with store.write() as con:
        began = datetime.now(UTC).replace(tzinfo=None) - timedelta(days=2)
        con.execute("UPDATE collect_runs SET finished_at = NULL, started_at = $1", [began])
    assert not collect(fake, tmp_path).resumed


def test_a_killed_run_until_now_takes_its_last_hour_up_again(fake: Fake, tmp_path: Path) -> None:
    store, source = Store(tmp_path / "s.duckdb"), PrometheusSource(url=fake.url)
    began = datetime.now(UTC).replace(microsecond=0)
    first, later = began - timedelta(hours=3), began + timedelta(minutes=70)
    run = functools.partial(collect_prometheus, source, store, activity=Activity(), idle=Idle(), retries=QUICK)
    run(period=Period(first, began), now=began)
    with store.write() as con:
        con.execute("UPDATE collect_runs SET finished_at = NULL")
    result = run(period=Period(first, later), now=later)
    assert result.ok and result.resumed == 1
    minutes = -(-round((later - first.replace(minute=0, second=0)).total_seconds()) // 60)
    assert query(tmp_path, "SELECT sum(samples) FROM blocks") == [(minutes,)]


def test_a_server_without_label_values_is_asked_for_every_metric(fake: Fake, tmp_path: Path) -> None:
    fake.trick = lambda question: question.query == "label/__name__" and Reply(404, "404 page not found")
    assert collect(fake, tmp_path, 1).ok
    assert any(query.startswith("kube_job_owner") for query in fake.queries)
    phases = {query for query in fake.queries if query.startswith("kube_pod_status_phase")}
    assert phases and all('phase=~"Pending|Succeeded|Failed"' in query for query in phases)


def test_the_first_run_begins_with_the_month_and_the_next_with_an_overlap(fake: Fake, tmp_path: Path) -> None:
    for now, asked in (
        (datetime(2026, 2, 3, 4, 30, tzinfo=UTC), "2026-02-01T00:00:00Z .. 2026-02-03T04:30:00Z"),
        (datetime(2026, 2, 3, 6, 30, tzinfo=UTC), "2026-02-03T02:00:00Z .. 2026-02-03T06:30:00Z"),
    ):
        assert str(collect(fake, tmp_path, None, now=now).asked) == asked
    assert query(tmp_path, "SELECT sum(samples) FROM blocks") == [((2 * 24 + 6) * 60 + 30,)]


def test_what_lies_before_the_oldest_data_is_not_collected(fake: Fake, tmp_path: Path) -> None:
    born = T0 + 5 * MS_PER_HOUR + 30 * 60_000
    first, now = from_ms(T0 + 5 * MS_PER_HOUR), from_ms(T0 + 9 * MS_PER_HOUR)
    fake.trick = lambda question: question.is_range and Reply(200, question.document(max(question.start, born)))
    result = collect(fake, tmp_path, max_samples=1000)
    assert str(result.not_collected) == str(Period(from_ms(T0), first))
    (lost,) = [finding for finding in result.findings if finding.code == "before_retention"]
    assert lost.message.endswith(f"has nothing before {iso(first)}; that time is lost")
    assert [finding.message for finding in collect(fake, tmp_path, 3).findings] == [lost.message]
    store = Store(tmp_path / "s.duckdb")
    assert query(tmp_path, "SELECT min(from_ms), min(from_ms) FILTER (rows > 0) FROM loads") == [(T0, T0 + 5 * MS_PER_HOUR)]
    assert store.info().sources[0].start == first
    # what was found empty is not asked for again by a run without a period
    later = collect(fake, tmp_path, None, now=now, tz=ZoneInfo("UTC"))
    assert str(later.asked) == str(Period(now.replace(day=1, hour=0), now))  # the month before that was never asked for
    again = collect(fake, tmp_path, None, now=now, tz=ZoneInfo("UTC"))
    assert str(again.asked) == str(Period(from_ms(T0 + 7 * MS_PER_HOUR), now)) and again.not_collected is None
    # and does not count as collected
    pipeline.attribute(Config(store=store.path), store)
    ((cluster, start, end),) = query(tmp_path, "SELECT cluster, from_ms, to_ms FROM collected")
    assert (cluster, start) == ("default", born - 60_000)
    assert T0 + 9 * MS_PER_HOUR - 60_000 < end <= T0 + 9 * MS_PER_HOUR
    # a cluster that is renamed is attributed anew
    with store.write() as con:
        runs.settle_clusters(con, fake.url, "cluster", "default")
        assert con.execute("SELECT last_load_id > 0 FROM attribution_state").fetchall() == [(True,)]
        runs.settle_clusters(con, fake.url, "cluster", "home")
    assert query(tmp_path, "SELECT DISTINCT cluster FROM series UNION SELECT cluster FROM scrape_gaps") == [("home",)]
    assert query(tmp_path, "SELECT last_load_id > 0 FROM attribution_state") != [(True,)]


def test_a_server_without_any_data_is_asked_for_all_of_it_again(fake: Fake, tmp_path: Path) -> None:
    now = datetime(2026, 2, 3, 4, 30, tzinfo=UTC)
    fake.trick = lambda question: question.is_range and NOTHING
    empty = collect(fake, tmp_path, None, now=now)
    assert empty.ok and query(tmp_path, "SELECT count(*) FROM loads") == [(0,)]
    # the server has the metrics at this moment: nothing is to be installed
    assert [(finding.code, finding.fix) for finding in empty.findings] == [("no_kube_state_metrics", None), ("no_activity", None)]
    fake.trick = lambda _: None
    result = collect(fake, tmp_path, None, now=now)
    assert result.asked == empty.asked and result.not_collected is None


def test_a_server_without_the_exporters_gets_the_fix(fake: Fake, tmp_path: Path) -> None:
    names, vector = ("label/__name__", "label/namespace", "vector(1)"), {"resultType": "vector", "result": []}
    nothing = Reply(200, {"status": "success", "data": vector})
    fake.trick = lambda question: question.query not in names and (NOTHING if question.is_range else nothing)
    assert [finding.fix for finding in collect(fake, tmp_path, 1).findings] == [KSM_FIX, activity_fix("DCGM_FI_DEV_GPU_UTIL")]


def test_each_retry_is_logged_and_the_last_failure_has_a_fix(
    fake: Fake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fake.trick = lambda _: Reply(503, {"error": "overloaded"})
    with pytest.raises(SourceError, match=r"HTTP 503: overloaded \(tried 3 times\)") as caught:
        collect(fake, tmp_path)
    assert caught.value.fix is not None
    assert [record.levelname for record in caplog.records if record.name.startswith("gpucost")] == ["WARNING"] * 2
    assert f"{fake.url} answered HTTP 503: overloaded: trying again in 0." in caplog.text


def test_hours_of_partial_answers_are_marked_and_asked_for_again(fake: Fake, tmp_path: Path) -> None:
    def run(hour: float) -> CollectResult:
        now = from_ms(T0 + round(hour * MS_PER_HOUR))
        return collect(fake, tmp_path, None, now=now, partial_response="accept", late_hours=24)

    def partial_hours() -> list[int]:
        return [hour for (hour,) in query(tmp_path, "SELECT hour - 471936 FROM asked_hours WHERE is_partial ORDER BY hour")]

    fake.trick = lambda question: (
        question.is_range and Reply(200, question.document(at=min(question.at, T0 + 6 * MS_PER_HOUR), isPartial=True))
    )
    assert run(8).ok
    assert partial_hours()[-1] == 7 and len(partial_hours()) > 24
    fake.trick = lambda _: None
    whole = run(9)
    assert whole.ok and whole.asked_again == 19  # and those since two hours before the newest sample, none that is too old
    assert partial_hours()[-1] == -16
    assert [row for row in blocks(tmp_path) if 0 <= row[0] < 8] == FULL
    assert run(9.1).asked_again == 0


BUSY = Reply(503, b"", {"Retry-After": "60"})


def test_closing_ends_a_pause(fake: Fake) -> None:
    fake.trick = lambda _: BUSY
    client = PrometheusClient(PrometheusSource(url=fake.url))
    errors: list[Exception] = []

    def ask() -> None:
        try:
            client.matrix("m", "m[60000ms]", 0)
        except SourceError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    deadline = time.monotonic() + 10
    while not fake.queries and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    client.close()
    thread.join(timeout=5)
    assert not thread.is_alive()
    assert len(errors) == 1 and len(fake.queries) == 1


def test_a_server_is_waited_for_as_long_as_it_asks(fake: Fake) -> None:
    fake.trick = lambda _: BUSY
    pauses: list[float | None] = []

    class Impatient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return False

    client = PrometheusClient(PrometheusSource(url=fake.url), Retries(attempts=2, initial=0, longest=0, jitter=0))
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
    command = [sys.executable, "-m", "gpucost", "collect", "prometheus", "--from", "2026-01-01", "--to", "2026-01-02", "--config"]
    # a run started in the background hands on that SIGINT is ignored
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([*command, str(tmp_path / "gpucost.toml")], stderr=subprocess.PIPE, text=True, preexec_fn=heard)
    try:
        assert silent.wait(120)
        process.send_signal(signal.SIGINT)
        assert "interrupted" in process.communicate(timeout=120)[1]
        assert process.returncode == 130
    finally:
        process.kill()
        process.wait()
