"""The doctor's findings about servers that lack one thing each."""

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
from gpucost.config.model import ClusterHours, Config, PrometheusSource, Team, TeamLabels
from gpucost.doctor import _DCGM, SetupCheck, Status, check_server
from gpucost.errors import SourceError
from gpucost.periods import label_name
from tests.text_tables import text_rows
from tests.unit.command import call

NOW = datetime(2026, 11, 1, tzinfo=UTC)
MAIN = PrometheusSource(name="main")
UTIL = "DCGM_FI_DEV_GPU_UTIL"
MIG = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
KSM = "kube-state-metrics"


def words_of(text: str) -> dict[str, list[str]]:
    """Words by name, from lines of a name, an arrow and words."""
    return {name: words.split() for name, words in re.findall("^(.+) -> ?(.*)$", text, re.M)}


HEALTHY = {need.metric: list(need.labels) for need in NEEDS} | words_of(f"""\
{REQUESTS} -> namespace pod resource uid
kube_pod_info -> node uid
kube_node_labels -> {" ".join(fact.labels[0] for fact in NODE_FACTS)}
{POD_LABELS} -> label_app
{UTIL} -> UUID exported_pod gpu""")
VALUES = f"{GPU_REQUESTS} -> nvidia_com_gpu\n{UTIL} -> train-0\n"


SIDECARS = '{"sidecar": [{"name": "a:10901", "lastError": null}, {"name": "b:10901", "lastError": "gone"}]}'


class Server:
    """A server with series of other labels or values; `ago`: hours since a metric ended, by cluster."""

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
            values = [{"metric": {"cluster": name}, "value": [1, f"{n}"]} for name, n in counts.items()]
            return {"result": values}
        if path == "stores" and "stores" in self.numbers:
            return json.loads(SIDECARS)
        if path == "labels":
            self.looked.add(params["end"])
            return self.labels.get(params["match[]"], [])
        if path.startswith("label/"):
            return self.values.get(params["match[]"], [])
        return {"version": "3.1.0", "storageRetention": "15d"}

    def ends(self, params: Mapping[str, str]) -> Any:
        """The answer of Prometheus to `query_range`: the steps with a sample in the previous five minutes."""
        clusters = next((ends for metric, ends in self.ago.items() if metric in params["query"]), {"": 0})
        start, end, step = (int(params[name]) for name in ("start", "end", "step"))
        rows = []
        for name, ago in clusters.items():
            last = NOW.timestamp() - ago * 3600 + 300
            if steps := [[at, "1"] for at in range(start, end + 1, step) if at <= last]:
                rows.append({"metric": {"cluster": name} if name else {}, "values": steps})
        return {"resultType": "matrix", "result": rows}

    def problems(self) -> dict[str, SetupCheck]:
        found = [check for check in examine(self, self.config) if check.status is not Status.ok]
        assert all(check.fix for check in found)
        return {check.subject: check for check in found}


def examine(server: Any, config: Config | None = None) -> list[SetupCheck]:
    return list(check_server(MAIN, config or Config(), NOW, server))


def test_healthy_server_has_no_problem() -> None:
    checks = examine(Server())
    assert {check.status for check in checks} == {Status.ok}
    assert checks[0].found == "answers, version 3.1.0, keeps 15d"


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: str(need.metric))
def test_each_missing_metric_is_named(need: Any) -> None:
    ((subject, check),) = Server(f"{need.metric} ->").problems().items()
    assert (subject, check.status is Status.fail) == (need.metric, need.essential)


SHARD_COUNT = "kube_state_metrics_total_shards"
SHARDS = {SHARD_COUNT: {"a": 3}, "kube_state_metrics_shard_ordinal": {"a": 3}, "kube_pod_info": {"a": 3}}
LOST_SHARD = SHARDS | {"kube_state_metrics_shard_ordinal": {"a": 2}}
UNKNOWN_SHARD = {"kube_pod_info": {"a": 3, "b": 1}}
TWO_CLUSTERS: dict[str, dict[str, float]] = {"kube": {"a": 0, "b": 5}}
POD_TEAMS = Config(team_labels=TeamLabels(pod="my-team/name"))
BOTH_TEAMS = Config(team_labels=TeamLabels(pod="my-team/name", namespace="team"))
GATHERED = Config(teams=[Team(name="a", labels={"squad": ["x"]})])
ALLOWED = f"{KSM} --metric-labels-allowlist=pods=[my-team/name"
# labels and values that differ from HEALTHY, the only problem, and the finding or its fix
LACKS = text_rows(f"""
kube_pod_info -> pod uid | | fail kube_pod_info | has no label node
kube_pod_info -> pod node | | warn kube_pod_info: uid | has no label uid
kube_node_labels -> node | | fail kube_node_labels | no node label is exported
{UTIL} -> | | fail {UTIL} | missing
{UTIL} -> | | fail {UTIL} | {DCGM_FIX}
kube_node_labels -> node | | fail kube_node_labels | {NODE_LABELS_FIX}
{UTIL} -> UUID | | warn {UTIL} | does not name pods
{UTIL} -> UUID pod | {UTIL} -> dcgm-exporter-x1 | warn {UTIL} | exporter's own pod
{UTIL} -> GPU_I_ID exported_pod | | warn {MIG} | missing""")
# other servers
FAILING = [
    (Server("", f"{GPU_REQUESTS} ->"), f"warn {REQUESTS}", "no pod requested a GPU"),
    (Server(f"{REQUESTS} ->", f"{GPU_REQUESTS} ->"), f"fail {REQUESTS}", "no GPU is allocated"),
    (Server("", f"{UNLISTED_REQUESTS} -> npu"), f"warn {REQUESTS}: others", "npu: unknown to gpucost"),
    # a running exporter does not need to be installed
    (Server(f"{UTIL} ->", f"{_DCGM} -> DCGM_FI_DEV_GPU_TEMP"), f"fail {UTIL}", activity_fix(UTIL)),
    (Server(ago={"kube": {"": 72}}), f"fail {KSM}", "silent since 2026-10-29T00:0"),
    (Server(ago={UTIL: {"": 72}}), f"fail {UTIL}", "unmeasured since then"),
    (Server(ago={"kube": {}}), f"fail {KSM}", "no sample"),
    (Server(ago=TWO_CLUSTERS), "warn clusters", "b: no samples since 2026-10-31T19:0"),
    (Server(numbers=LOST_SHARD), f"fail {SHARD_COUNT}", "2 of 3 kube-state-metrics shards"),
    (Server(numbers=UNKNOWN_SHARD), f"warn {SHARD_COUNT}", "3 kube-state-metrics report pods of cluster a"),
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
FAILING += [(Server(labels, values), subject, text) for labels, values, subject, text in LACKS]


@pytest.mark.parametrize(
    ("server", "subject", "text"), FAILING, ids=lambda value: value if isinstance(value, str) else ""
)
def test_missing_data_of_a_server_is_found_and_has_a_fix(server: Server, subject: str, text: str) -> None:
    (check,) = server.problems().values()
    assert f"{check.status.value} {check.subject}" == subject
    assert check.fix == text or text in check.found


def test_reservations_need_their_own_annotations() -> None:
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
def test_harmless_differences_are_not_problems(server: Server) -> None:
    assert not server.problems()


@pytest.mark.parametrize(
    ("hours", "status", "age"),
    [(12, Status.warn, "12 hours"), (72, Status.fail, "3 days"), (4800, Status.fail, "200 days")],
)
def test_data_that_ends_in_the_past_is_one_finding(hours: float, status: Status, age: str) -> None:
    server = Server(ago={"kube": {"a": hours}, UTIL: {"a": hours + 0.05}})
    ((subject, check),) = server.problems().items()
    assert (subject, check.status) == ("time", status)
    assert re.fullmatch(rf"data ends at \S+Z \({age} ago\); the day before that was checked", check.found)
    end = (NOW - timedelta(hours=hours)).timestamp()
    assert all(abs(int(looked) - end) <= 600 for looked in server.looked)


def test_silence_of_minutes_is_checked_as_current() -> None:
    server = Server(ago={"kube": {"": 0.1}})
    (time,) = [check.found for check in examine(server) if check.subject == "time"]
    assert time == "checked at 2026-11-01T00:00:00Z and the day before, data until then"
    assert len(server.looked) == 1


def test_partial_answers_fail_unless_accepted() -> None:
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
def test_each_node_fact_without_a_label_is_named(fact: Any) -> None:
    left = " ".join({*HEALTHY["kube_node_labels"]} - {*fact.labels})
    missing = [f"kube_node_labels: {fact.name}"] if fact.common else []
    assert list(Server(f"kube_node_labels -> {left}").problems()) == missing


def test_labels_read_by_stages_are_known_to_the_doctor() -> None:
    files = [
        file
        for stage in ("inventory", "price")
        for file in (Path(pipeline.__file__).parent / stage).glob("*.sql")
    ]
    texts = {file.stem: re.findall(r"labels\['(label_\w+)'\]", file.read_text()) for file in files}
    assert {*texts.pop("43_workload_types")} <= {*map(label_name, TYPE_LABELS)}
    read = {"label_nvidia_com_mig_<profile>_replicas"}.union(*texts.values()) - {"label_runai_gpu_group"}
    assert read == {label for fact in NODE_FACTS for label in fact.labels}


def test_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[PrometheusClient] = []
    monkeypatch.setattr(PrometheusClient, "close", lambda client: closed.append(client))
    (check,) = check_server(PrometheusSource(url="http://127.0.0.1:1"), Config(), NOW)
    assert check.status is Status.fail and len(closed) == 1


def test_command_exits_with_1_and_gives_a_fix_for_each_problem(
    nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    (nowhere / "gpucost.toml").write_text('[prometheus]\nurl = "http://127.0.0.1:1"\n')
    shown, _ = call("doctor", code=1)
    assert "✗ fail  http://127.0.0.1:1: cannot connect to http://127.0.0.1:1" in shown
    assert shown.count("fix: ") == 2
    assert "✓" not in call("doctor", "-q", code=1)[0]
    answer = json.loads(call("doctor", "--format", "json", code=1)[0])
    assert [check["status"] for check in answer] == ["ok", "warn", "fail", "ok"]
