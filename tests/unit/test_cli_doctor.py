"""What the doctor finds, on servers that lack one thing each."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.collect.prometheus.client import PrometheusClient
from gpucost.collect.prometheus.queries import (
    DCGM_FIX,
    GPU_REQUESTS,
    NEEDS,
    NODE_FACTS,
    NODE_LABELS_FIX,
    POD_LABELS,
    REQUESTS,
    RESERVATIONS,
    TYPE_LABELS,
    UNLISTED_REQUESTS,
    activity_fix,
)
from gpucost.config.load import load_config
from gpucost.config.model import ClusterHours, Config, Prices, PrometheusSource, Team, TeamLabels
from gpucost.doctor import (
    _DCGM,
    _IMAGES,
    Check,
    Status,
    check_coverage,
    check_prices,
    check_server,
    check_store,
)
from gpucost.errors import SourceError
from gpucost.periods import label_name, to_ms
from gpucost.store.connection import Store
from tests.unit.command import call

NOW = datetime(2026, 11, 1, tzinfo=UTC)
MAIN = PrometheusSource(name="main")
UTIL = "DCGM_FI_DEV_GPU_UTIL"
MIG = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
KSM = "kube-state-metrics"


def words_of(text: str) -> dict[str, list[str]]:
    """Lines of a name, an arrow and words."""
    return {name: words.split() for name, words in re.findall("^(.+) -> ?(.*)$", text, re.M)}


HEALTHY = {need.metric: list(need.labels) for need in NEEDS} | words_of(f"""\
{REQUESTS} -> namespace pod resource uid
kube_pod_info -> node uid
kube_node_labels -> {" ".join(fact.labels[0] for fact in NODE_FACTS)}
{POD_LABELS} -> label_app
{UTIL} -> UUID exported_pod gpu""")
VALUES = f"{GPU_REQUESTS} -> nvidia_com_gpu\n{UTIL} -> train-0\n"


class Server:
    """A server that holds series with other labels or values. `ago`: the hours since some metric ended, by cluster."""

    def __init__(
        self,
        labels: str = "",
        values: str = "",
        config: Config | None = None,
        ago: Mapping[str, Mapping[str, float]] | None = None,
        numbers: Mapping[str, Mapping[str, int]] | None = None,
        ahead: int = 0,
    ) -> None:
        self.ago, self.numbers = ago or {}, numbers or {}
        self.config, self.ahead = config or Config(), timedelta(minutes=ahead)
        self.looked: set[str] = set()
        self.labels, self.values = HEALTHY | words_of(labels), words_of(VALUES + values)

    def __call__(self, path: str, params: Mapping[str, str]) -> Any:
        if path == "query_range":
            return self.ends(params)
        if path == "query" and "time" not in params:
            at = datetime.now(UTC) + self.ahead
            return {"resultType": "vector", "result": [{"metric": {}, "value": [at.timestamp(), "1"]}]}
        if path == "query":
            counts = next((rows for part, rows in self.numbers.items() if part in params["query"]), {})
            return {
                "result": [{"metric": {"cluster": name}, "value": [1, str(n)]} for name, n in counts.items()]
            }
        if path == "stores" and "stores" in self.numbers:
            return {
                "sidecar": [{"name": "a:10901", "lastError": None}, {"name": "b:10901", "lastError": "gone"}]
            }
        if path == "labels":
            self.looked.add(params["end"])
            return self.labels.get(params["match[]"], [])
        if path.startswith("label/"):
            return self.values.get(params["match[]"], [])
        return {"version": "3.1.0", "storageRetention": "15d"}

    def ends(self, params: Mapping[str, str]) -> Any:
        """As Prometheus answers `query_range`: each step at which a sample lies within five minutes."""
        clusters = next((ends for metric, ends in self.ago.items() if metric in params["query"]), {"": 0})
        start, end, step = (int(params[name]) for name in ("start", "end", "step"))
        rows = []
        for name, ago in clusters.items():
            last = NOW.timestamp() - ago * 3600 + 300
            if steps := [[at, "1"] for at in range(start, end + 1, step) if at <= last]:
                rows.append({"metric": {"cluster": name} if name else {}, "values": steps})
        return {"resultType": "matrix", "result": rows}

    def problems(self) -> dict[str, Check]:
        found = [check for check in examine(self, self.config) if check.status is not Status.ok]
        assert all(check.fix for check in found)
        return {check.subject: check for check in found}


def examine(server: Any, config: Config | None = None) -> list[Check]:
    return list(check_server(MAIN, config or Config(), NOW, server))


def found(server: Server) -> dict[str, str]:
    return {check.subject: check.found for check in examine(server)}


def test_a_healthy_server_has_no_problem() -> None:
    checks = examine(Server())
    assert {check.status for check in checks} == {Status.ok}
    assert checks[0].found == "answers, version 3.1.0, keeps 15d"


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: str(need.metric))
def test_each_metric_that_is_missing_is_named(need: Any) -> None:
    ((subject, check),) = Server(f"{need.metric} ->").problems().items()
    assert (subject, check.status is Status.fail) == (need.metric, need.essential)


SHARDS = {
    "kube_state_metrics_total_shards": {"a": 3},
    "kube_state_metrics_shard_ordinal": {"a": 3},
    "kube_pod_info": {"a": 3},
}
LOST_SHARD = SHARDS | {"kube_state_metrics_shard_ordinal": {"a": 2}}
UNKNOWN_SHARD = {"kube_pod_info": {"a": 3, "b": 1}}
TWO_CLUSTERS: dict[str, dict[str, float]] = {"kube": {"a": 0, "b": 5}}
POD_TEAMS = Config(team_labels=TeamLabels(pod="my-team/name"))
BOTH_TEAMS = Config(team_labels=TeamLabels(pod="my-team/name", namespace="team"))
GATHERED = Config(teams=[Team(name="a", labels={"squad": ["x"]})])
ALLOWED = f"{KSM} --metric-labels-allowlist=pods=[my-team/name"
# a server, the subject of its only problem, and what is found or how it is fixed
LACKS = [
    (Server("kube_pod_info -> pod uid"), "fail kube_pod_info", "has no label node"),
    (Server("kube_pod_info -> pod node"), "warn kube_pod_info: uid", "has no label uid"),
    (Server("", f"{GPU_REQUESTS} ->"), f"warn {REQUESTS}", "no pod requested a GPU"),
    (Server(f"{REQUESTS} ->", f"{GPU_REQUESTS} ->"), f"fail {REQUESTS}", "nobody holds a GPU"),
    (
        Server("", f"{UNLISTED_REQUESTS} -> npu"),
        f"warn {REQUESTS}: others",
        "npu: no resource that gpucost knows",
    ),
    (Server("kube_node_labels -> node"), "fail kube_node_labels", "no node label is exported"),
    (Server("kube_node_labels -> node"), "fail kube_node_labels", NODE_LABELS_FIX),
    (Server(f"{UTIL} ->"), f"fail {UTIL}", "not there"),
    (Server(f"{UTIL} ->"), f"fail {UTIL}", DCGM_FIX),
    # no fix installs an exporter that runs
    (Server(f"{UTIL} ->", f"{_DCGM} -> DCGM_FI_DEV_GPU_TEMP"), f"fail {UTIL}", activity_fix(UTIL)),
    (Server(f"{UTIL} -> UUID"), f"warn {UTIL}", "names no pod"),
    (Server(f"{UTIL} -> UUID pod", f"{UTIL} -> dcgm-exporter-x1"), f"warn {UTIL}", "exporter's own pod"),
    (Server(f"{UTIL} -> GPU_I_ID exported_pod"), f"warn {MIG}", "not there"),
    (Server(ago={"kube": {"": 72}}), f"fail {KSM}", "silent since 2026-10-29T00:0"),
    (Server(ago={UTIL: {"": 72}}), f"fail {UTIL}", "unmeasured since then"),
    (Server(ago={"kube": {}}), f"fail {KSM}", "no sample"),
    (Server(ago=TWO_CLUSTERS), "warn clusters", "b: nothing since 2026-10-31T19:0"),
    (Server(numbers=LOST_SHARD), "fail kube_state_metrics_total_shards", "2 of 3 shards"),
    (
        Server(numbers=UNKNOWN_SHARD),
        "warn kube_state_metrics_total_shards",
        "3 kube-state-metrics report pods of cluster a",
    ),
    (Server(numbers={"stores": {}}), "fail stores", "no answer from b:10901"),
    (Server(ahead=5), "warn clock", "5 minutes ahead"),
    (Server(ahead=-300), "warn clock", "300 minutes behind"),
    (Server("kube_namespace_labels -> label_team", config=BOTH_TEAMS), "fail kube_pod_labels", f"{ALLOWED}]"),
    (
        Server(f"{POD_LABELS} -> uid label_my_team_name", config=POD_TEAMS),
        "warn kube_pod_labels: workload type",
        f"{ALLOWED},{','.join(TYPE_LABELS)}]",
    ),
    (Server(config=GATHERED), "fail kube_namespace_labels", "label_squad"),
]


@pytest.mark.parametrize(
    ("server", "subject", "text"), LACKS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_a_server_lacks_is_found_and_has_a_fix(server: Server, subject: str, text: str) -> None:
    (check,) = server.problems().values()
    assert f"{check.status.value} {check.subject}" == subject
    assert check.fix == text or text in check.found


def test_reservations_have_annotations_of_their_own() -> None:
    reserved = f"{RESERVATIONS} -> namespace resource"
    assert Server(reserved).problems()["kube_pod_annotations"].fix == (
        f"{KSM} --metric-annotations-allowlist=pods=[gpu-fraction,gpu-memory,gpu-fraction-num-devices]"
    )
    assert not Server(f"{reserved}\nkube_pod_annotations -> annotation_gpu_memory").problems()


@pytest.mark.parametrize(
    "server",
    [
        Server(f"{UTIL} -> GPU_I_ID exported_pod\n{MIG} -> GPU_I_ID"),
        Server(numbers=SHARDS),
        Server(ahead=1),
        Server(ahead=-1),
        Server(ago=TWO_CLUSTERS, config=Config(clusters=[ClusterHours(name="b", until=NOW)])),
    ],
)
def test_what_is_no_problem(server: Server) -> None:
    assert not server.problems()


def test_versions_of_exporters_are_named_by_metrics_and_images() -> None:
    names = "DCGM_FI_DEV_GPU_UTIL_RATIO -> UUID exported_pod\ngpu_gfx_activity -> gpu_id pod"
    images = f"{_IMAGES} -> nvcr.io/nvidia/k8s/dcgm-exporter:4.9.0\ngpu_gfx_activity -> train-0"
    checks = found(Server(names, images))
    assert [checks[name] for name in ("dcgm-exporter", "AMD device metrics exporter", "exporters")] == [
        "version 2.0 to 4.8 (DCGM_FI_DEV_GPU_UTIL); version from 4.9 (DCGM_FI_DEV_GPU_UTIL_RATIO)",
        "version 1.x (gpu_gfx_activity)",
        "images nvcr.io/nvidia/k8s/dcgm-exporter:4.9.0",
    ]
    assert not Server(f"{names}\n{UTIL} ->", images).problems()


@pytest.mark.parametrize(
    ("hours", "status", "told"),
    [(12, Status.warn, "12 hours"), (72, Status.fail, "3 days"), (4800, Status.fail, "200 days")],
)
def test_data_that_ends_in_the_past_is_one_finding(hours: float, status: Status, told: str) -> None:
    server = Server(ago={"kube": {"a": hours}, UTIL: {"a": hours + 0.05}})
    ((subject, check),) = server.problems().items()
    assert (subject, check.status) == ("time", status)
    assert re.fullmatch(rf"data ends at \S+Z \({told} ago\); the day before that was checked", check.found)
    end = (NOW - timedelta(hours=hours)).timestamp()
    assert all(abs(int(looked) - end) <= 600 for looked in server.looked)


def test_a_silence_of_minutes_is_looked_at_as_now() -> None:
    server = Server(ago={"kube": {"": 0.1}})
    assert found(server)["time"] == ("looked at 2026-11-01T00:00:00Z and the day before, data until then")
    assert len(server.looked) == 1


def test_answers_in_part_fail_unless_they_are_accepted() -> None:
    accepted = PrometheusSource(name="main", partial_response="accept")
    checks = check_server(accepted, Config(), NOW, Server())
    assert [check.subject for check in checks if check.status is not Status.ok] == ["partial_response"]

    def partial(path: str, params: Mapping[str, str]) -> Any:
        if path == "labels":
            raise SourceError("gave a partial answer", 'partial_response = "accept"')
        return Server()(path, params)

    (failed,) = [check for check in examine(partial) if check.status is Status.fail]
    assert failed.fix == 'partial_response = "accept"'


@pytest.mark.parametrize("fact", NODE_FACTS, ids=lambda fact: str(fact.name))
def test_each_fact_about_nodes_that_no_label_tells(fact: Any) -> None:
    left = " ".join({*HEALTHY["kube_node_labels"]} - {*fact.labels})
    missing = [f"kube_node_labels: {fact.name}"] if fact.common else []
    assert list(Server(f"kube_node_labels -> {left}").problems()) == missing


def test_what_labels_are_read_is_known() -> None:
    files = [
        file
        for stage in ("inventory", "price")
        for file in (Path(pipeline.__file__).parent / stage).glob("*.sql")
    ]
    texts = {file.stem: re.findall(r"labels\['(label_\w+)'\]", file.read_text()) for file in files}
    assert {*texts.pop("43_workload_types")} <= {*map(label_name, TYPE_LABELS)}
    read = {"label_nvidia_com_mig_<profile>_replicas"}.union(*texts.values()) - {"label_runai_gpu_group"}
    assert read == {label for fact in NODE_FACTS for label in fact.labels}


def test_the_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[PrometheusClient] = []
    monkeypatch.setattr(PrometheusClient, "close", lambda client: closed.append(client))
    (check,) = check_server(PrometheusSource(url="http://127.0.0.1:1"), Config(), NOW)
    assert check.status is Status.fail and len(closed) == 1


@pytest.mark.usefixtures("own_migrations")
def test_the_store(tmp_path: Path) -> None:
    config = Config(store=tmp_path / "gpucost.duckdb", prometheus=[MAIN])
    assert [check.fix for check in check_store(config, NOW)] == ["gpucost collect prometheus"]
    with Store(config.store).write() as con:
        end = to_ms(NOW - timedelta(hours=1))
        con.execute(
            "INSERT INTO loads VALUES (1, 1, 'prometheus', 'main', ?, ?, 1, 0, now()::TIMESTAMP)",
            [end - 3_600_000, end],
        )
    assert {check.status for check in check_store(config, NOW)} == {Status.ok}
    late = [check for check in check_store(config, NOW + timedelta(days=3)) if check.status is Status.warn]
    assert "3.0 days old" in late[0].found
    other = config.model_copy(update={"prometheus": [PrometheusSource(name="other")]})
    assert any(check.fix == "gpucost collect prometheus --source other" for check in check_store(other, NOW))
    config.store.write_bytes(config.store.read_bytes()[:-1])
    (cut,) = check_store(config, NOW)
    assert cut.status is Status.fail and "is damaged" in cut.found
    config.store.write_text("no database")
    assert [check.status for check in check_store(config, NOW)] == [Status.fail]


# the first gap of `a` lies before its first sample and its fifth is not due yet; the cluster `old` ended long ago
MISSED = """
INSERT INTO collected SELECT cluster, epoch_ms(first::TIMESTAMP), epoch_ms(until::TIMESTAMP) FROM (VALUES
    ('a',   '2026-09-22', '2026-10-31'),
    ('b',   '2026-09-22', '2026-10-31'),
    ('old', '2026-01-20', '2026-02-14'),
    ('old', '2026-03-01', '2026-03-21')) AS rows(cluster, first, until);
INSERT INTO coverage_gaps SELECT cluster, epoch_ms(first::TIMESTAMP),
    coalesce(epoch_ms(until::TIMESTAMP), 9223372036854775807), kind, ['nodes', 'pods'], 'a silence', who, who FROM (VALUES
    ('a',   '1970-01-01', '2026-09-22',       'not_collected', NULL),
    ('a',   '2026-10-12', '2026-10-13',       'not_collected', NULL),
    ('a',   '2026-10-23', '2026-10-23 12:00', 'not_collected', NULL),
    ('a',   '2026-10-27', '2026-10-28',       'not_collected', 'Dana'),
    ('a',   '2026-10-31', NULL,               'not_collected', NULL),
    ('a',   '2026-10-29', '2026-10-29 01:00', 'partial',       NULL),
    ('b',   '2026-10-27', '2026-10-28',       'off',           NULL),
    ('old', '1970-01-01', '2026-01-20',       'not_collected', NULL),
    ('old', '2026-02-14', '2026-03-01',       'not_collected', NULL),
    ('old', '2026-03-21', NULL,               'not_collected', NULL)) AS rows(cluster, first, until, kind, who)"""


def test_time_that_the_store_misses_is_found_with_the_command_that_collects_it(tmp_path: Path) -> None:
    config = Config(store=tmp_path / "gpucost.duckdb")
    assert list(check_coverage(config)) == []
    with Store(config.store).write() as con:
        con.execute(MISSED)
    missing, partial, whole, old = check_coverage(config)
    assert missing.found == (
        "collected until 2026-10-31T00:00:00Z; 36.0 h missing in the 31 days before, in 2 gap(s), the last 2026-10-23T00:00:00Z"
        " to 2026-10-23T12:00:00Z (nodes, pods): a silence"
    )
    assert missing.fix == "gpucost collect prometheus --from 2026-10-23T00:00:00Z --to 2026-10-23T12:00:00Z"
    assert "1.0 h from answers that were partial" in partial.found
    until = "collected until 2026-10-31T00:00:00Z, nothing missing in the 31 days before"
    assert (whole.status, whole.found) == (Status.ok, until)
    assert old.found == (
        "collected until 2026-03-21T00:00:00Z; 264.0 h missing in the 31 days before, in 1 gap(s), the last 2026-02-18T00:00:00Z"
        " to 2026-03-01T00:00:00Z (nodes, pods): a silence"
    )


NAMED = """
clusters = [{ name = "prd", until = 2026-11-01 }, { name = "prod", until = 2026-11-01 }]
[coverage]
accept = [
    { from = 2026-11-01, to = 2026-11-02, who = "Dana", why = "moved" },
    { from = 2026-11-01, to = 2026-11-02, who = "Dana", why = "moved", cluster = "mian" },
    { from = 2026-11-01, to = 2026-11-02, who = "Dana", why = "moved", cluster = "main" },
]"""


def test_names_of_clusters_that_no_series_has(tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text(NAMED)
    config = load_config(tmp_path, environ={}, cwd=tmp_path)
    with Store(config.store).write():
        pass
    assert list(check_coverage(config)) == []
    with Store(config.store).write() as con:
        con.execute(
            "INSERT INTO series VALUES (0, 0, 'a', 'prod', 'up', map()), (1, 1, 'a', 'main', 'up', map())"
        )
    assert [(check.status, check.subject, check.found) for check in check_coverage(config)] == [
        (Status.warn, "[[clusters]] name", "no cluster is called prd; known: main, prod"),
        (Status.warn, "[[coverage.accept]] cluster", "no cluster is called mian; known: main, prod"),
    ]


def test_a_price_book_that_is_broken_or_missing(tmp_path: Path) -> None:
    book = tmp_path / "prices.csv"
    config = Config(store=tmp_path / "none.duckdb", prices=Prices(book=book))
    assert [check.status for check in check_prices(config, NOW)] == [Status.fail]
    book.write_text("instance_type,price_per_hour,currency\np4d.24xlarge,cheap,USD\n")
    assert str(book) in next(check_prices(config, NOW)).found
    book.write_text("instance_type,price_per_hour,currency\np4d.24xlarge,20,USD\n")
    assert [(check.status, check.found) for check in check_prices(config, NOW)] == [(Status.ok, "1 prices")]


# 200 and 30 days old; the first is not what the node has at last
PRICED = """
INSERT INTO node_prices SELECT node, hour, hour + 1, 1, source, as_of, NULL FROM (VALUES
    (1, 0, 'catalog',      '2025-06-20'::DATE),
    (1, 1, 'catalog',      '2026-10-02'),
    (2, 1, 'catalog',      '2026-04-15'),
    (3, 1, 'spot_history', '2026-10-02'),
    (4, 1, 'price_book',   NULL),
    (5, 1, 'bill',         '2026-04-15')) AS rows(node, hour, source, as_of)"""


def test_how_old_the_prices_are_that_nodes_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(store=tmp_path / "gpucost.duckdb")
    monkeypatch.setattr(pipeline, "attribute", lambda *_: None)
    with Store(config.store).write() as con:
        con.execute(PRICED)
    checks = {check.subject: (check.status, check.found, check.fix) for check in check_prices(config, NOW)}
    assert checks["catalog"] == (
        Status.warn,
        "prices 2 nodes at present, of 2026-04-15 to 2026-10-02: up to 200 days old",
        "gpucost collect prices",
    )
    assert checks["spot_history"] == (
        Status.ok,
        "prices 1 node at present, of 2026-10-02: up to 30 days old",
        None,
    )
    assert checks["bill"][0] is Status.ok and "price_book" not in checks


def test_the_command_ends_with_1_and_gives_a_fix_for_each_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")
    Path("gpucost.toml").write_text('[prometheus]\nurl = "http://127.0.0.1:1"\n')
    shown, _ = call("doctor", code=1)
    assert "✗ fail  http://127.0.0.1:1: nothing answers at http://127.0.0.1:1" in shown
    assert shown.count("fix: ") == 2
    assert "✓" not in call("doctor", "-q", code=1)[0]
    answer = json.loads(call("doctor", "--format", "json", code=1)[0])
    assert [check["status"] for check in answer] == ["ok", "warn", "fail", "ok"]
