"""`gpucost export`: metrics with the figures of the report, rules, dashboards and manifests; wrong input in words."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families

from gpucost import __version__
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.publish.rules import dashboard
from gpucost.render.templates import literal, quoted
from gpucost.store.connection import Store
from tests.golden.report_fleet import sample, stored
from tests.text_tables import text_rows, words
from tests.unit.command import answer, check_end, run

NAME = '<b>"x"\\ {{y}}\n|`\u202e' + "n" * 200


store = stored(hours=60, team=NAME)


pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def metrics(store: Path, words: str = "--month 2026-10") -> str:
    return run(f"export openmetrics --store {store} {words}").stdout


def _values(text: str, name: str, **labels: str) -> list[float]:
    samples = [sample for family in text_families(text) for sample in family.samples]
    return [one.value for one in samples if one.name == name and labels.items() <= one.labels.items()]


def test_metrics_hold_the_figures_of_the_report_and_of_the_last_whole_day(store: Path) -> None:
    text, document = metrics(store), answer(f"report --store {store} --month 2026-10")
    of_month, of_day = (partial(_values, text, period=name) for name in ("month_to_date", "last_day"))
    states = ("active", "idle", "unmeasured")
    for row in document["rows"]:
        if row["kind"] == "allocated":
            team = partial(of_month, team=row["team"])
            found = [team("gpucost_team_gpu_hours", state=state) for state in states]
            assert found == [[pytest.approx(row[f"{state}_gpu_hours"])] for state in states]
            for name in ("cost", "idle_cost"):
                assert team(f"gpucost_team_{name}") == [pytest.approx(row[name], abs=1e-9)]
    totals = document["totals"]
    assert of_month("gpucost_fleet_cost") == [pytest.approx(totals["node_cost"], abs=1e-9)]
    unallocated = sum(of_month("gpucost_unallocated_cost"))
    assert unallocated == pytest.approx(totals["unallocated_cost"], abs=1e-6)
    price = of_month("gpucost_gpu_price_per_hour", gpu_model="A100", capacity_type="spot")
    assert price == [pytest.approx(1.17)]
    second = datetime(2026, 10, 2, tzinfo=UTC).timestamp()
    # 60 hours of October were collected: two days and a half
    assert of_day("gpucost_period_start_timestamp_seconds") == [second]
    assert of_month("gpucost_period_end_timestamp_seconds") == [second + 36 * 3600]
    assert of_month("gpucost_period_elapsed_ratio") == [pytest.approx(60 / 744)]
    day = answer(f"report --store {store} --from 2026-10-02 --to 2026-10-03")
    assert of_day("gpucost_fleet_cost") == [pytest.approx(day["totals"]["node_cost"])]


UNITS = words("not_collected_seconds=seconds fleet_spot_ratio=ratio team_gpu_hours=gpu_hours team_cost=")


def test_metrics_are_read_by_both_parsers_whatever_the_names_and_have_help_type_and_unit(
    store: Path, tmp_path: Path
) -> None:
    text = metrics(store)
    # and are written into a file in one step
    target = tmp_path / "gpucost.prom"
    target.write_text("old")
    assert metrics(store, f"--month 2026-10 -o {target}") == ""
    assert target.read_text() == text and [item.name for item in tmp_path.iterdir()] == ["gpucost.prom"]
    assert text.endswith("# EOF\n")
    for parse in (text_families, openmetrics_families):
        samples = [sample for family in parse(text) for sample in family.samples]
        assert {sample.labels.get("team") for sample in samples} >= {NAME, "research"}
    lines = text.splitlines()
    assert len(lines) == len(set(lines))
    families = {family.name: family for family in openmetrics_families(text)}
    assert all(family.documentation and family.type == "gauge" for family in families.values())
    assert {name: families[f"gpucost_{name}"].unit for name in UNITS} == UNITS


WRONG = """
--month 2026-09 | 1 | no data for September 2026
--month 2026-13 | 2 | invalid month
-o x --pushgateway http://x | 2 | exclude each other
--month 2026-10 --pushgateway ftp://x | 2 | --pushgateway takes a base URL
--month 2026-10 --pushgateway http://u:p@x | 2 | without password
--month 2026-10 --pushgateway http://127.0.0.1:9 --job a/b | 2 | invalid --job
"""


@pytest.mark.parametrize(("options", "code", "message"), text_rows(WRONG))
def test_wrong_options_of_openmetrics(store: Path, options: str, code: str, message: str) -> None:
    check_end(f"export openmetrics {options} --store {store}", code, message)


def rules_of(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load(run(f"export {name}").stdout)["groups"][0]["rules"])


PRICED = """
INSERT INTO node_prices SELECT node_id, up_from_ms, up_to_ms, 24.48, 'price_book', NULL, NULL FROM nodes;
UPDATE nodes SET instance_type = NULL WHERE node IN ('a100-1', 'l4-new');
-- one name in two clusters: rules cannot tell them apart, and must not contradict themselves
UPDATE nodes SET node = 'a100-1', cluster = 'other' WHERE node = 'l4-new';
"""


def test_rules_hold_the_prices_of_the_store(store: Path) -> None:
    path = changed(store, "priced", PRICED)
    rules = rules_of(f"recording-rules --store {path}")
    prices = [(rule["record"], rule["expr"], rule["labels"]) for rule in rules if "labels" in rule]
    spot = {"instance_type": "p4d", "region": "us-east-1", "capacity_type": "spot"}
    expected = [("named_node_price", {"node": "a100-1"}), ("instance_price", spot)]
    assert sorted(prices, key=str) == sorted(
        ((f"gpucost:{name}:per_hour", "vector(24.48)", labels) for name, labels in expected), key=str
    )


def test_rules_without_a_store_hold_the_prices_of_the_catalog() -> None:
    rules = rules_of("recording-rules")
    labels = [rule["labels"] for rule in rules if rule["record"] == "gpucost:instance_price:per_hour"]
    assert {"instance_type": "p4d.24xlarge", "capacity_type": "on_demand"} in labels
    assert len({tuple(sorted(label.items())) for label in labels}) == len(labels)
    assert any("on (instance_type, capacity_type)" in rule["expr"] for rule in rules)


REPORTS = "prometheus = []\n[idle]\nthreshold_percent = 7.5\n[targets]\nspot_ratio = 0.6\n"
BUDGETS = """[alerts]
idle_minutes = 45
queue_wait_minutes = 20
labels = { severity = "page" }
[[budgets]]
name = "all"
amount = 1234.5
[[budgets]]
name = "theirs"
team = "a b"
amount = 10
"""
ALERTS = "[alerts]\nidle_percent = 2\nidle_ratio = 0.4\nidle_hours = 12\nspot_ratio = 0.3\n"
# thresholds of alerts alone win over those of reports
THRESHOLDS = {
    BUDGETS: "GpuIdle [45m]) < 7.5 | QueueWait > 1200 | SpotShareLow < 0.6 | BudgetPace > 1234.5",
    ALERTS: "GpuIdle [60m]) < 2 | IdleShareHigh [12h:5m]) > 0.4 | SpotShareLow < 0.3",
}


@pytest.mark.parametrize("config", THRESHOLDS, ids=["budgets", "alerts"])
def test_thresholds_of_the_config_stand_in_the_alerts(tmp_path: Path, config: str) -> None:
    assert not [rule for rule in rules_of("alerts") if "Budget" in rule["alert"]]
    (tmp_path / "gpucost.toml").write_text(REPORTS + config)
    rules = {rule["alert"].removeprefix("Gpucost"): rule for rule in rules_of("alerts")}
    for threshold in THRESHOLDS[config].split(" | "):
        name, _, expression = threshold.partition(" ")
        assert re.search(re.escape(expression) + r"\s", rules[name]["expr"] + " ")
    assert ("IdleShareHigh" in rules) is (config == ALERTS)
    if config == ALERTS:
        assert "the limit is 0.3" in rules["SpotShareLow"]["annotations"]["description"]
    else:
        assert rules["TeamBudgetPace"]["labels"] == {"budget": "theirs", "team": "a b", "severity": "page"}


# a slash begins a new line
SETTINGS = """
[alerts] / idle_ratio = 1 | 1 | alerts.idle_ratio
[alerts] / idle_minutes = 0 | 1 | alerts.idle_minutes
[alerts] / queue_wait_minutes = 171 | 1 | alerts.queue_wait_minutes
[[budgets]] / name = 'a' / amount = -1 | 1 | budgets[0].amount
[alerts] / labels = { 'a-b' = 'x' } | 1 | invalid label name a-b
[alerts] / idle_minute = 5 | 1 | did you mean alerts.idle_minutes?
[prometheus] / cluster_label = 'a)b' | 2 | invalid label name 'a)b'
[activity] / device_metric = 'a b' | 2 | invalid metric name 'a b'
"""


@pytest.mark.parametrize(("section", "code", "message"), text_rows(SETTINGS))
def test_wrong_settings(tmp_path: Path, section: str, code: str, message: str) -> None:
    (tmp_path / "gpucost.toml").write_text(section.replace(" / ", "\n"))
    check_end("export recording-rules", code, message)


def changed(store: Path, name: str, sql: str) -> Path:
    path = store.with_name(f"{name}.duckdb")
    path.write_bytes(store.read_bytes())
    with Store(path).write() as con:
        con.execute(sql)
    return path


def test_a_fleet_without_nodes_costs_nothing_which_is_no_failure(store: Path) -> None:
    idle = changed(store, "idle", "UPDATE collected SET to_ms = to_ms + 40 * 86400000::BIGINT")
    text = metrics(idle, "--month 2026-11")
    for name in ("cost", "unallocated_cost", "capacity_gpu_hours", "idle_cost"):
        assert _values(text, f"gpucost_fleet_{name}") == [0, 0]
    assert "gpucost_team_cost" not in text
    assert list(openmetrics_families(text))
    # what was never collected is not nothing
    run(f"export openmetrics --store {store} --month 2026-11", 1)


def test_month_without_data_yet_is_left_out(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    november = datetime(2026, 11, 1, tzinfo=UTC)
    october = changed(store, "october", f"UPDATE collected SET to_ms = {int(november.timestamp()) * 1000}")  # noqa: S608
    monkeypatch.setattr("gpucost.questions.request.Request.now", november.replace(hour=2))
    result = run(f"export openmetrics --store {october}")
    assert "skipped month_to_date: no data for November 2026" in result.stderr
    assert _values(result.stdout, "gpucost_fleet_cost") == [0]


def test_a_fleet_that_nobody_uses_has_its_figures(tmp_path: Path) -> None:
    fleet = sample(hours=48)
    fleet.rows["cost_hourly"] = [row for row in fleet.rows["cost_hourly"] if row[0] == "unallocated"]
    fleet.write(tmp_path / "unused.duckdb")
    of_month = partial(_values, metrics(tmp_path / "unused.duckdb"), period="month_to_date")
    (unallocated,) = of_month("gpucost_fleet_unallocated_cost")
    assert unallocated > 0
    assert sum(of_month("gpucost_unallocated_cost")) == pytest.approx(unallocated)
    assert of_month("gpucost_fleet_capacity_gpu_hours") == [21 * 48]


def test_every_panel_of_the_dashboard_has_its_place_and_its_query() -> None:
    made = json.loads(dashboard(Config(currency="AED")))
    panels = made["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: list[tuple[int, int]] = []
    for panel in panels:
        x, y, width, height = (panel["gridPos"][name] for name in "xywh")
        taken += product(range(x, x + width), range(y, y + height))
        refs = [target["refId"] for target in panel.get("targets", [])]
        assert panel["type"] == "row" or (panel["title"] and len(set(refs)) == len(refs) > 0)
    assert len(set(taken)) == len(taken) and max(x for x, _ in taken) < 24
    known = {f"${variable['name']}" for variable in made["templating"]["list"]}
    queries = json.dumps([panel.get("targets") for panel in panels])
    assert set(re.findall(r"\$[a-z_]\w*", queries)) <= known
    assert made["schemaVersion"] >= 42 and "prefix:AED " in json.dumps(made)


@pytest.mark.parametrize(
    "text", ["plain", 'a"b\\', "a\nb\tc", "\u2028\u2029\x85\ufeff", "# not: a comment", "{{ x }}", "é 漢"]
)
def test_quoted_text_is_read_back_by_yaml(text: str) -> None:
    assert yaml.safe_load(f"key: {quoted(text)}")["key"] == text


def test_text_is_no_template_of_prometheus() -> None:
    assert literal("a {{ b") == 'a {{ "{{" }} b'


CHART = "export chart --image registry.example.com/gpucost:1.0 --out"


WRONG_VALUES = """{"immage": "a"}
{"image": "a b"}
{"claim": {"size": "10 GB"}}
{"jobs": {"a": {"schedule": "daily", "run": [["x"]]}}}"""


def test_the_chart_has_values_that_its_own_schema_takes(tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text('timezone = "Europe/Berlin"\n')
    out = tmp_path / "charts" / "gpucost"
    for _ in range(2):  # the second run writes it anew
        assert run(f"{CHART} {out}").stdout == ""
    about, values = (yaml.safe_load((out / name).read_text()) for name in ("Chart.yaml", "values.yaml"))
    assert about["version"] == about["appVersion"] == __version__
    assert (values["image"], values["timezone"]) == ("registry.example.com/gpucost:1.0", "Europe/Berlin")
    schema = json.loads((out / "values.schema.json").read_text())
    jsonschema.validate(values, schema)
    assert set(values) | {"global"} == set(schema["properties"])
    for wrong in WRONG_VALUES.splitlines():
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(values | json.loads(wrong), schema)
    scheduling = (Path(__file__).parents[2] / "docs" / "scheduling.md").read_text(encoding="utf-8")
    (of_docs,) = re.findall(r"```yaml\n(.*?)```", scheduling, re.S)
    more = yaml.safe_load(of_docs)
    jsonschema.validate(values | more, schema)
    # what its jobs run are commands, and its config is one
    for job in (*values["jobs"].values(), *more["jobs"].values()):
        for told in job["run"]:
            run(shlex.join([*told, "--help"]))
    (tmp_path / "own.toml").write_text(values["config"])
    config = load_config(tmp_path / "own.toml", environ={})
    assert config.prometheus[0].url == "http://prometheus-operated.monitoring:9090"


def test_a_chart_of_others_stays_as_it_is(tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    (theirs / "Chart.yaml").write_text("apiVersion: v2\nname: prometheus\n")
    (tmp_path / "thesis.txt").write_text("years of work")
    check_end("export chart --image 'a\" b' --out ours", "2", "invalid --image 'a\" b' for Kubernetes")
    for out in (theirs, tmp_path, tmp_path / "thesis.txt"):
        check_end(f"{CHART} {out}", "2", "is not a gpucost chart")
    assert {path.name for path in tmp_path.rglob("*")} == {"theirs", "Chart.yaml", "thesis.txt"}
    own = ours / "templates" / "own.yaml"
    run(f"{CHART} {ours}")
    own.write_text("kind: Own\n")
    check_end(f"{CHART} {ours}", "0", "own.yaml")
    assert own.is_file()
