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
from gpucost.config.model import (
    AcceptedGap,
    ClusterHours,
    Config,
    CoverageSettings,
    Prices,
    PrometheusSource,
    Team,
    TeamLabels,
)
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
UTIL = "DCGM_FI_DEV_GPU_UTIL"

HEALTHY: dict[str, set[str]] = {
    REQUESTS: {"namespace", "pod", "uid", "resource"}, **{need.metric: set(need.labels) for need in NEEDS},
    "kube_pod_info": {"node", "uid"}, "kube_node_labels": {fact.labels[0] for fact in NODE_FACTS}, POD_LABELS: {"label_app"},
    UTIL: {"gpu", "UUID", "exported_pod"},
}  # fmt: skip


def without(metric: str) -> dict[str, set[str]]:
    return {name: labels for name, labels in HEALTHY.items() if name != metric}


class Server:
    """A server that holds series with the given labels; `until` says when those of some metric end, by cluster."""

    def __init__(
        self,
        labels: Mapping[str, set[str]],
        values: Mapping[str, list[str]] | None = None,
        until: Mapping[str, Mapping[str, datetime]] | None = None,
        numbers: Mapping[str, Mapping[str, int]] | None = None,
        clock: timedelta = timedelta(),
    ) -> None:
        self.until, self.numbers, self.clock = until or {}, numbers or {}, clock
        self.looked: set[str] = set()
        self.labels = labels
        self.values = {GPU_REQUESTS: ["nvidia_com_gpu"], UTIL: ["train-0"], **(values or {})}

    def __call__(self, path: str, params: Mapping[str, str]) -> Any:
        if path == "query_range":
            return self.ends(params)
        if path == "query" and "time" not in params:
            at = datetime.now(UTC) + self.clock
            return {"resultType": "vector", "result": [{"metric": {}, "value": [at.timestamp(), "1"]}]}
        if path == "query":
            counts = next((rows for part, rows in self.numbers.items() if part in params["query"]), {})
            return {
                "result": [
                    {"metric": {"cluster": name}, "value": [1, str(number)]}
                    for name, number in counts.items()
                ]
            }
        if path == "stores" and "stores" in self.numbers:
            return {
                "sidecar": [{"name": "a:10901", "lastError": None}, {"name": "b:10901", "lastError": "gone"}]
            }
        if path == "labels":
            self.looked.add(params["end"])
            return sorted(self.labels.get(params["match[]"], ()))
        if path.startswith("label/"):
            return self.values.get(params["match[]"], [])
        return {"version": "3.1.0", "storageRetention": "15d"}

    def ends(self, params: Mapping[str, str]) -> Any:
        """As Prometheus answers `query_range`: each step at which a sample lies within five minutes."""
        clusters = next((ends for metric, ends in self.until.items() if metric in params["query"]), {"": NOW})
        start, end, step = (int(params[name]) for name in ("start", "end", "step"))
        rows = []
        for name, last in clusters.items():
            steps = [[at, "1"] for at in range(start, end + 1, step) if at <= last.timestamp() + 300]
            if steps:
                rows.append({"metric": {"cluster": name} if name else {}, "values": steps})
        return {"resultType": "matrix", "result": rows}


def examine(server: Any, config: Config | None = None) -> list[Check]:
    return list(check_server(PrometheusSource(name="main"), config or Config(), NOW, server))


def problems(server: Any, config: Config | None = None) -> dict[str, Check]:
    checks = {check.subject: check for check in examine(server, config) if check.status is not Status.ok}
    assert all(check.fix for check in checks.values())
    return checks


def test_a_healthy_server_and_one_that_does_not_answer() -> None:
    checks = examine(Server(HEALTHY))
    assert {check.status for check in checks} == {Status.ok}
    assert checks[0].found == "answers, version 3.1.0, keeps 15d"

    def down(path: str, params: Mapping[str, str]) -> Any:
        raise SourceError("nothing answers", "start it")

    checks = examine(down)
    assert [(check.status, check.found, check.fix) for check in checks] == [
        (Status.fail, "nothing answers", "start it")
    ]


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: str(need.metric))
def test_each_metric_that_is_missing_is_named(need: Any) -> None:
    ((subject, check),) = problems(Server(without(need.metric))).items()
    assert (subject, check.status is Status.fail) == (need.metric, need.essential)


MIG = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
LACKS: list[tuple[Server, str, Status, str]] = [
    (Server(HEALTHY | {"kube_pod_info": {"pod", "uid"}}), "kube_pod_info", Status.fail, "has no label node"),
    (
        Server(HEALTHY | {"kube_pod_info": {"pod", "node"}}),
        "kube_pod_info: uid",
        Status.warn,
        "has no label uid",
    ),
    (Server(HEALTHY, {GPU_REQUESTS: []}), REQUESTS, Status.warn, "no pod requested a GPU"),
    (Server(without(REQUESTS), {GPU_REQUESTS: []}), REQUESTS, Status.fail, "nobody holds a GPU"),
    (
        Server(HEALTHY, {UNLISTED_REQUESTS: ["example_com_npu"]}),
        f"{REQUESTS}: others",
        Status.warn,
        "example_com_npu: no resource that gpucost knows",
    ),
    (
        Server(HEALTHY | {"kube_node_labels": {"node"}}),
        "kube_node_labels",
        Status.fail,
        "no node label is exported",
    ),
    (Server(without(UTIL)), UTIL, Status.fail, "not there"),
    (Server(HEALTHY | {UTIL: {"UUID"}}), UTIL, Status.warn, "names no pod"),
    (
        Server(HEALTHY | {UTIL: {"UUID", "pod"}}, {UTIL: ["dcgm-exporter-x1"]}),
        UTIL,
        Status.warn,
        "exporter's own pod",
    ),
    (Server(HEALTHY | {UTIL: {"GPU_I_ID", "exported_pod"}}), MIG, Status.warn, "not there"),
]


@pytest.mark.parametrize(("server", "subject", "status", "text"), LACKS)
def test_what_a_server_lacks(server: Server, subject: str, status: Status, text: str) -> None:
    ((name, check),) = problems(server).items()
    assert (name, check.status) == (subject, status) and text in check.found
    assert subject != "kube_node_labels" or check.fix == NODE_LABELS_FIX


def test_mig_instances_have_a_metric_and_reservations_annotations_of_their_own() -> None:
    assert problems(Server(HEALTHY | {UTIL: {"GPU_I_ID", "exported_pod"}, MIG: {"GPU_I_ID"}})) == {}
    reserved = {**HEALTHY, RESERVATIONS: {"namespace", "resource"}}
    assert problems(Server(reserved))["kube_pod_annotations"].fix == (
        "kube-state-metrics --metric-annotations-allowlist=pods=[gpu-fraction,gpu-memory,gpu-fraction-num-devices]"
    )
    assert not problems(Server({**reserved, "kube_pod_annotations": {"annotation_gpu_memory"}}))


def test_versions_of_exporters_are_named_by_metrics_and_images() -> None:
    names = {"DCGM_FI_DEV_GPU_UTIL_RATIO": {"UUID", "exported_pod"}, "gpu_gfx_activity": {"gpu_id", "pod"}}
    images = {_IMAGES: ["nvcr.io/nvidia/k8s/dcgm-exporter:4.9.0"], "gpu_gfx_activity": ["train-0"]}
    checks = {check.subject: check.found for check in examine(Server(HEALTHY | names, images))}
    assert (
        checks["dcgm-exporter"]
        == "version 2.0 to 4.8 (DCGM_FI_DEV_GPU_UTIL); version from 4.9 (DCGM_FI_DEV_GPU_UTIL_RATIO)"
    )
    assert checks["AMD device metrics exporter"] == "version 1.x (gpu_gfx_activity)"
    assert checks["exporters"] == "images nvcr.io/nvidia/k8s/dcgm-exporter:4.9.0"
    assert problems(Server(without(UTIL) | names, images)) == {}


def test_fix_installs_no_exporter_that_runs() -> None:
    assert problems(Server(without(UTIL)))[UTIL].fix == DCGM_FIX
    running = problems(Server(without(UTIL), {_DCGM: ["DCGM_FI_DEV_GPU_TEMP"]}))[UTIL].fix
    assert running == activity_fix(UTIL) and "install" not in running


@pytest.mark.parametrize("days", [0.5, 3, 12, 200])
def test_data_that_ends_in_the_past_is_one_finding(days: float) -> None:
    end = NOW - timedelta(days=days)
    server = Server(HEALTHY, until={"kube": {"a": end}, UTIL: {"a": end - timedelta(minutes=3)}})
    ((subject, check),) = problems(server).items()
    assert subject == "time" and check.status is (Status.fail if days > 1 else Status.warn)
    ago = "12 hours" if days < 1 else f"{days:.0f} days"
    assert re.fullmatch(rf"data ends at \S+Z \({ago} ago\); the day before that was checked", check.found)
    assert all(abs(int(looked) - end.timestamp()) <= 600 for looked in server.looked)


def test_an_exporter_or_a_cluster_that_fell_silent_unless_it_is_declared() -> None:
    server = Server(HEALTHY, until={"kube": {"": NOW - timedelta(minutes=7)}})
    checks = {check.subject: check for check in examine(server)}
    assert checks["time"].found == "looked at 2026-11-01T00:00:00Z and the day before, data until then"
    assert len(server.looked) == 1
    since = NOW - timedelta(days=3)
    states = problems(Server(HEALTHY, until={"kube": {"": since}}))
    assert (
        list(states) == ["kube-state-metrics"]
        and "silent since 2026-10-29T00:0" in states["kube-state-metrics"].found
    )
    activity = problems(Server(HEALTHY, until={UTIL: {"": since}}))
    assert list(activity) == [UTIL] and "unmeasured since then" in activity[UTIL].found
    none = problems(Server(HEALTHY, until={"kube": {}}))
    assert list(none) == ["kube-state-metrics"] and "no sample" in none["kube-state-metrics"].found
    server = Server(HEALTHY, until={"kube": {"a": NOW, "b": NOW - timedelta(hours=5)}})
    assert "b: nothing since 2026-10-31T19:0" in problems(server)["clusters"].found
    assert problems(server, Config(clusters=[ClusterHours(name="b", until=NOW)])) == {}


def test_shards_and_servers_that_answer_in_part() -> None:
    total, heard, targets = "total_shards", "kube_state_metrics_shard_ordinal", "kube_pod_info"
    whole = {total: {"a": 3}, heard: {"a": 3}, targets: {"a": 3}}
    assert problems(Server(HEALTHY, numbers=whole)) == {}
    lost = problems(Server(HEALTHY, numbers=whole | {heard: {"a": 2}}))["kube_state_metrics_total_shards"]
    assert lost.status is Status.fail and "2 of 3 shards" in lost.found
    unknown = problems(Server(HEALTHY, numbers={targets: {"a": 3, "b": 1}}))[
        "kube_state_metrics_total_shards"
    ]
    assert unknown.status is Status.warn and "3 kube-state-metrics report pods of cluster a" in unknown.found
    ((subject, check),) = problems(Server(HEALTHY, numbers={"stores": {}})).items()
    assert subject == "stores" and "no answer from b:10901" in check.found
    accepted = PrometheusSource(name="main", partial_response="accept")
    checks = [
        check
        for check in check_server(accepted, Config(), NOW, Server(HEALTHY))
        if check.status is Status.warn
    ]
    assert [check.subject for check in checks] == ["partial_response"]

    def partial(path: str, params: Mapping[str, str]) -> Any:
        if path == "labels":
            raise SourceError("gave a partial answer", 'partial_response = "accept"')
        return Server(HEALTHY)(path, params)

    assert [check.fix for check in examine(partial) if check.status is Status.fail] == [
        'partial_response = "accept"'
    ]


@pytest.mark.parametrize(
    ("minutes", "text"), [(1, None), (-1, None), (5, "5 minutes ahead"), (-300, "300 minutes behind")]
)
def test_clocks_that_differ(minutes: int, text: str | None) -> None:
    checks = problems(Server(HEALTHY, clock=timedelta(minutes=minutes)))
    assert list(checks) == (["clock"] if text else [])
    assert text is None or text in checks["clock"].found


@pytest.mark.parametrize("fact", NODE_FACTS, ids=lambda fact: str(fact.name))
def test_each_fact_about_nodes_that_no_label_tells(fact: Any) -> None:
    left = HEALTHY["kube_node_labels"] - set(fact.labels)
    missing = [f"kube_node_labels: {fact.name}"] if fact.common else []
    assert list(problems(Server(HEALTHY | {"kube_node_labels": left}))) == missing


def test_what_labels_are_read_is_known() -> None:
    package = Path(__file__).parents[2] / "gpucost"
    files = [file for stage in ("inventory", "price") for file in (package / stage).glob("*.sql")]
    texts = [file.read_text() for file in files if file.stem != "43_workload_types"]
    read = {name for text in texts for name in re.findall(r"labels\['(label_\w+)'\]", text)} - {
        "label_runai_gpu_group"
    }
    # slots of MIG slices have a label for each profile
    assert any(
        "'label_' || regexp_replace(r.resource, '_shared$', '') || '_replicas'" in text for text in texts
    )
    read.add("label_nvidia_com_mig_<profile>_replicas")
    assert read == {label for fact in NODE_FACTS for label in fact.labels}
    text = (Path(__file__).parents[2] / "gpucost" / "inventory" / "43_workload_types.sql").read_text()
    read = set(re.findall(r"labels\['(label_\w+)'\]", text))
    assert read <= {label_name(label) for label in TYPE_LABELS}
    silent = Server(HEALTHY | {POD_LABELS: {"uid", "label_my_team_name"}})
    (check,) = problems(silent, Config(team_labels=TeamLabels(pod="my-team/name"))).values()
    assert check.status is Status.warn and check.subject == "kube_pod_labels: workload type"
    assert (
        check.fix
        == f"kube-state-metrics --metric-labels-allowlist=pods=[my-team/name,{','.join(TYPE_LABELS)}]"
    )


def test_the_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[PrometheusClient] = []
    monkeypatch.setattr(PrometheusClient, "close", lambda client: closed.append(client))
    (check,) = check_server(PrometheusSource(url="http://127.0.0.1:1"), Config(), NOW)
    assert check.status is Status.fail and len(closed) == 1


def test_team_labels_that_the_config_asks_for() -> None:
    config = Config(team_labels=TeamLabels(pod="my-team/name", namespace="team"))
    ((subject, check),) = problems(
        Server(HEALTHY | {"kube_namespace_labels": {"label_team"}}), config
    ).items()
    assert subject == "kube_pod_labels"
    assert check.fix == "kube-state-metrics --metric-labels-allowlist=pods=[my-team/name]"
    gathered = Config(teams=[Team(name="a", labels={"squad": ["x"]})])
    assert "label_squad" in problems(Server(HEALTHY), gathered)["kube_namespace_labels"].found


@pytest.mark.usefixtures("own_migrations")
def test_the_store(tmp_path: Path) -> None:
    config = Config(store=tmp_path / "gpucost.duckdb", prometheus=[PrometheusSource(name="main")])
    assert [check.fix for check in check_store(config, NOW)] == ["gpucost collect prometheus"]
    with Store(config.store).write() as con:
        end = to_ms(NOW - timedelta(hours=1))
        window = [end - 3_600_000, end]
        con.execute(
            "INSERT INTO loads VALUES (1, 1, 'prometheus', 'main', ?, ?, 1, 0, now()::TIMESTAMP)", window
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


def test_what_the_store_misses(tmp_path: Path) -> None:
    config = Config(store=tmp_path / "gpucost.duckdb")
    assert list(check_coverage(config)) == []
    day, now = 86_400_000, to_ms(NOW)
    end = to_ms(datetime(2026, 3, 21, tzinfo=UTC))  # of a cluster that ended long ago
    collected = [(name, now - 40 * day, now - day) for name in ("a", "b")]
    collected += [("old", end - 60 * day, end - 35 * day), ("old", end - 20 * day, end)]
    gaps = [
        ("a", 0, now - 40 * day, "not_collected", None),  # before its first sample
        ("a", now - 20 * day, now - 19 * day, "not_collected", None),
        ("a", now - 9 * day, now - 8 * day - day // 2, "not_collected", None),
        ("a", now - 5 * day, now - 4 * day, "not_collected", "Dana"),
        ("a", now - day, 2**63 - 1, "not_collected", None),  # not due yet
        ("a", now - 3 * day, now - 3 * day + day // 24, "partial", None),
        ("b", now - 5 * day, now - 4 * day, "off", None),
        ("old", 0, end - 60 * day, "not_collected", None),
        ("old", end - 35 * day, end - 20 * day, "not_collected", None),
        ("old", end, 2**63 - 1, "not_collected", None),
    ]
    with Store(config.store).write() as con:
        con.executemany("INSERT INTO collected VALUES (?, ?, ?)", collected)
        add = "INSERT INTO coverage_gaps VALUES (?, ?, ?, ?, ['nodes', 'pods'], 'a silence', ?, ?)"
        con.executemany(add, [(*gap, gap[-1]) for gap in gaps])
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


def test_names_of_clusters_that_no_series_has(tmp_path: Path) -> None:
    def checks() -> list[tuple[Status, str, str]]:
        return [(check.status, check.subject, check.found) for check in check_coverage(config)]

    gap = {"from": NOW, "to": NOW + timedelta(days=1), "who": "Dana", "why": "moved"}
    signed = [
        AcceptedGap.model_validate(gap | cluster)
        for cluster in ({}, {"cluster": "mian"}, {"cluster": "main"})
    ]
    declared = [ClusterHours(name="prd", until=NOW), ClusterHours(name="prod", until=NOW)]
    config = Config(
        store=tmp_path / "gpucost.duckdb", clusters=declared, coverage=CoverageSettings(accept=signed)
    )
    with Store(config.store).write():
        pass
    assert checks() == []
    with Store(config.store).write() as con:
        for number, cluster in enumerate(("prod", "main")):
            con.execute("INSERT INTO series VALUES (?, ?, 'a', ?, 'up', map())", [number, number, cluster])
    assert checks() == [
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


def test_how_old_the_prices_are_that_nodes_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(store=tmp_path / "gpucost.duckdb")
    monkeypatch.setattr(pipeline, "attribute", lambda *_: None)
    old, new = NOW - timedelta(days=200), NOW - timedelta(days=30)
    prices = [
        (1, 0, "catalog", old - timedelta(days=300)),  # not what the node has at last
        (1, 1, "catalog", new),
        (2, 1, "catalog", old),
        (3, 1, "spot_history", new),
        (4, 1, "price_book", None),
        (5, 1, "bill", old),
    ]
    with Store(config.store).write() as con:
        for node, number, source, as_of in prices:
            values = [node, number, number + 1, source, as_of and as_of.date()]
            con.execute("INSERT INTO node_prices VALUES (?, ?, ?, 1, ?, ?, NULL)", values)
    checks = {check.subject: (check.status, check.found, check.fix) for check in check_prices(config, NOW)}
    assert checks["catalog"] == (
        Status.warn,
        f"prices 2 nodes at present, of {old:%Y-%m-%d} to {new:%Y-%m-%d}: up to 200 days old",
        "gpucost collect prices",
    )
    assert checks["spot_history"] == (
        Status.ok,
        f"prices 1 node at present, of {new:%Y-%m-%d}: up to 30 days old",
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
