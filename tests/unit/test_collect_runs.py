"""The period of a run: its start, resuming after a kill, repeats, and the collected time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from gpucost import pipeline
from gpucost.collect.base import CollectResult
from gpucost.collect.prometheus.collector import collect_prometheus
from gpucost.config.model import Config, PrometheusSource
from gpucost.periods import MS_PER_HOUR, Period, from_ms, iso, to_ms
from gpucost.store import runs
from gpucost.store.connection import Store
from tests.text_tables import named_rows
from tests.unit.fake_server import EIGHT_HOURS, FULL, NOTHING, QUICK, T0, Fake, Reply, blocks, collect, query


@pytest.mark.ci
def test_killed_run_resumes_unless_too_old(fake: Fake, tmp_path: Path) -> None:
    def die(state: Any) -> None:
        if state.done_ms >= 3 * MS_PER_HOUR:
            raise KeyboardInterrupt

    source, store = PrometheusSource(url=fake.url, max_samples=1000), Store(tmp_path / "s.duckdb")
    with pytest.raises(KeyboardInterrupt):
        collect_prometheus(Config(store=store.path), source, store, EIGHT_HOURS, die, retries=QUICK)
    assert 0 < len(blocks(tmp_path)) < 8
    result = collect(fake, tmp_path, max_samples=1000)
    assert result.resumed > 0 and blocks(tmp_path) == FULL
    assert query(tmp_path, "SELECT count(*), count(finished_at) FROM collect_runs") == [(1, 1)]
    with store.write() as con:
        con.execute(
            "UPDATE collect_runs SET finished_at = NULL, started_at = now()::TIMESTAMP - INTERVAL 2 DAY"
        )
    assert not collect(fake, tmp_path).resumed


@pytest.mark.ci
def test_killed_run_until_now_repeats_its_last_hour(fake: Fake, tmp_path: Path) -> None:
    began = datetime.now(UTC).replace(microsecond=0)
    first = began - timedelta(hours=3)
    for now, resumed in ((began, 0), (began + timedelta(minutes=70), 1)):
        source, store = PrometheusSource(url=fake.url), Store(tmp_path / "s.duckdb")
        period = Period(first, now)
        result = collect_prometheus(Config(store=store.path), source, store, period, now=now, retries=QUICK)
        assert result.ok and result.resumed == resumed
        with store.write() as con:
            con.execute("UPDATE collect_runs SET finished_at = NULL")
    minutes = -(-round((now - first.replace(minute=0, second=0)).total_seconds()) // 60)
    assert query(tmp_path, "SELECT sum(samples) FROM blocks") == [(minutes,)]


def test_first_run_starts_with_the_month_and_the_next_with_an_overlap(fake: Fake, tmp_path: Path) -> None:
    for now, asked in (
        (datetime(2026, 2, 3, 4, 30, tzinfo=UTC), "2026-02-01T00:00:00Z .. 2026-02-03T04:30:00Z"),
        (datetime(2026, 2, 3, 6, 30, tzinfo=UTC), "2026-02-03T02:00:00Z .. 2026-02-03T06:30:00Z"),
    ):
        assert str(collect(fake, tmp_path, None, now=now).requested) == asked
    assert query(tmp_path, "SELECT sum(samples) FROM blocks") == [((2 * 24 + 6) * 60 + 30,)]


#: The first day of data before the run, and the start of the first run.
FIRST = """
in the month before | 5   | 2026-01-29T04:00:00Z
in this month       | 1   | 2026-02-01T00:00:00Z
long ago            | 500 | 2025-11-03T04:00:00Z
"""


@pytest.mark.parametrize(("days", "start"), named_rows(FIRST))
def test_first_run_starts_with_the_data_of_the_server(
    fake: Fake, tmp_path: Path, days: str, start: str
) -> None:
    now = datetime(2026, 2, 3, 4, 30, tzinfo=UTC)
    first = to_ms(now - timedelta(days=int(days)))
    fake.trick = lambda question: question.nodes(first, to_ms(now)) or (question.is_range and NOTHING)
    result = collect(fake, tmp_path, None, now=now)
    assert iso(result.requested.start) == start


def test_run_without_samples_names_the_data_of_the_server(fake: Fake, tmp_path: Path) -> None:
    first, last = T0 - 90 * MS_PER_HOUR + 60_000, T0 - 20 * MS_PER_HOUR
    fake.trick = lambda question: question.nodes(first, last) or (question.is_range and NOTHING)
    result = collect(fake, tmp_path, now=from_ms(T0 + 8 * MS_PER_HOUR))
    (found,) = [finding for finding in result.findings if finding.code == "range"]
    start, end = iso(from_ms(T0 - 90 * MS_PER_HOUR)), iso(from_ms(T0 - 19 * MS_PER_HOUR))
    assert found.message == f"{fake.url} has data from {start} to {end}"
    assert found.fix == f"gpucost collect prometheus --source {fake.url} --from {start} --to {end}"
    fake.trick = lambda question: question.nodes(first, last)
    found_later = collect(fake, tmp_path, now=from_ms(T0 + 8 * MS_PER_HOUR)).findings
    assert "range" not in [finding.code for finding in found_later]


def test_time_before_the_oldest_data_is_not_collected(fake: Fake, tmp_path: Path) -> None:
    born = T0 + 5 * MS_PER_HOUR + 30 * 60_000
    first, now = from_ms(T0 + 5 * MS_PER_HOUR), from_ms(T0 + 9 * MS_PER_HOUR)
    fake.trick = lambda question: (
        question.is_range and Reply(200, question.document(max(question.start, born)))
    )
    result = collect(fake, tmp_path, max_samples=1000)
    assert str(result.not_collected) == str(Period(from_ms(T0), first))
    (lost,) = [finding.message for finding in result.findings if finding.code == "before_retention"]
    assert lost.endswith(f"has no data before {iso(first)}; that time is lost")
    assert [finding.message for finding in collect(fake, tmp_path, 3).findings] == [lost]
    store = Store(tmp_path / "s.duckdb")
    spans = "SELECT min(from_ms), min(from_ms) FILTER (rows > 0) FROM loads"
    assert query(tmp_path, spans) == [(T0, T0 + 5 * MS_PER_HOUR)]
    assert store.info().sources[0].start == first
    # a run without a period does not query empty time again
    later = collect(fake, tmp_path, None, now=now, tz=ZoneInfo("UTC"))
    month = Period(now.replace(day=1, hour=0), now)  # the previous month was never queried
    assert str(later.requested) == str(month)
    again = collect(fake, tmp_path, None, now=now, tz=ZoneInfo("UTC"))
    assert (
        str(again.requested) == str(Period(from_ms(T0 + 7 * MS_PER_HOUR), now))
        and again.not_collected is None
    )
    # and empty time is not collected
    pipeline.attribute(Config(store=store.path), store)
    ((cluster, start, end),) = query(tmp_path, "SELECT cluster, from_ms, to_ms FROM collected")
    assert (cluster, start) == ("default", born - 60_000)
    assert T0 + 9 * MS_PER_HOUR - 60_000 < end <= T0 + 9 * MS_PER_HOUR
    # a renamed cluster is attributed again
    with store.write() as con:
        runs.settle_clusters(con, fake.url, "cluster", "default")
        assert con.execute("SELECT last_load_id > 0 FROM attribution_state").fetchall() == [(True,)]
        runs.settle_clusters(con, fake.url, "cluster", "home")
    assert query(tmp_path, "SELECT DISTINCT cluster FROM series UNION SELECT cluster FROM scrape_gaps") == [
        ("home",)
    ]
    assert query(tmp_path, "SELECT last_load_id > 0 FROM attribution_state") != [(True,)]


def test_server_without_data_is_queried_for_all_of_it_again(fake: Fake, tmp_path: Path) -> None:
    now = datetime(2026, 2, 3, 4, 30, tzinfo=UTC)
    fake.trick = lambda question: question.is_range and NOTHING
    empty = collect(fake, tmp_path, None, now=now)
    assert empty.ok and query(tmp_path, "SELECT count(*) FROM loads") == [(0,)]
    # the server has the metrics now: there is nothing to install
    found = [(finding.code, finding.fix) for finding in empty.findings]
    assert found == [("no_kube_state_metrics", None), ("no_activity", None)]
    fake.trick = lambda _: None
    result = collect(fake, tmp_path, None, now=now)
    assert result.requested == empty.requested and result.not_collected is None


def test_hours_of_partial_answers_are_marked_and_queried_again(fake: Fake, tmp_path: Path) -> None:
    def run(hour: float) -> CollectResult:
        now = from_ms(T0 + round(hour * MS_PER_HOUR))
        return collect(fake, tmp_path, None, now=now, partial_response="accept", late_hours=24)

    def partial_hours() -> list[int]:
        rows = query(tmp_path, "SELECT hour - 471936 FROM asked_hours WHERE is_partial ORDER BY hour")
        return [hour for (hour,) in rows]

    fake.trick = lambda question: (
        question.is_range
        and Reply(200, question.document(at=min(question.at, T0 + 6 * MS_PER_HOUR), isPartial=True))
    )
    assert run(8).ok
    assert partial_hours()[-1] == 7 and len(partial_hours()) > 24
    fake.trick = lambda _: None
    whole = run(9)
    assert (
        whole.ok and whole.queried_again == 19
    )  # also hours from two hours before the newest sample, but none beyond late_hours
    assert partial_hours()[-1] == -16
    assert [row for row in blocks(tmp_path) if 0 <= row[0] < 8] == FULL
    assert run(9.1).queried_again == 0
