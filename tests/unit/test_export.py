"""`gpucost export`: metrics with the figures of the report, manifests and rules as they should be, wrong input in words."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as text_families
from typer.testing import CliRunner, Result

from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.publish.rules import dashboard
from gpucost.render.templates import literal, quoted
from tests.golden.report_fleet import sample, stored

NAME = '<b>"x"\\ {{y}}\n|`\u202e' + "n" * 200


store = stored(hours=60, team=NAME)


pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def _values(text: str, name: str, **labels: str) -> list[float]:
    return [
        sample.value
        for family in text_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def test_metrics_hold_the_figures_of_the_report_and_of_the_last_whole_day(store: Path) -> None:
    text = run("export", "openmetrics", "--store", str(store), "--month", "2026-10").stdout
    report = json.loads(run("report", "--store", str(store), "--month", "2026-10", "--format", "json").stdout)
    for row in report["rows"]:
        if row["kind"] != "allocated":
            continue
        of = {"team": row["team"], "period": "month_to_date"}
        assert _values(text, "gpucost_team_cost", **of) == [pytest.approx(row["cost"], abs=1e-9)]
        assert _values(text, "gpucost_team_idle_cost", **of) == [pytest.approx(row["idle_cost"], abs=1e-9)]
        for state in ("active", "idle", "unmeasured"):
            assert _values(text, "gpucost_team_gpu_hours", state=state, **of) == [
                pytest.approx(row[f"{state}_gpu_hours"])
            ]
    totals = report["totals"]
    month = {"period": "month_to_date"}
    assert _values(text, "gpucost_fleet_cost", **month) == [pytest.approx(totals["node_cost"], abs=1e-9)]
    assert sum(_values(text, "gpucost_unallocated_cost", **month)) == pytest.approx(
        totals["unallocated_cost"], abs=1e-6
    )
    assert _values(text, "gpucost_gpu_price_per_hour", gpu_model="A100", capacity_type="spot", **month) == [
        pytest.approx(1.17)
    ]
    second = datetime(2026, 10, 2, tzinfo=UTC).timestamp()
    # 60 hours of October were collected: two days and a half
    assert _values(text, "gpucost_period_start_timestamp_seconds", period="last_day") == [second]
    assert _values(text, "gpucost_period_end_timestamp_seconds", period="month_to_date") == [
        second + 36 * 3600
    ]
    assert _values(text, "gpucost_period_elapsed_ratio", period="month_to_date") == [pytest.approx(60 / 744)]
    report = json.loads(
        run(
            "report", "--store", str(store), "--from", "2026-10-02", "--to", "2026-10-03", "--format", "json"
        ).stdout
    )
    assert _values(text, "gpucost_fleet_cost", period="last_day") == [
        pytest.approx(report["totals"]["node_cost"])
    ]


def test_metrics_are_read_by_both_parsers_whatever_the_names_and_have_help_type_and_unit(
    store: Path, tmp_path: Path
) -> None:
    text = run("export", "openmetrics", "--store", str(store), "--month", "2026-10").stdout
    # and are written into a file in one step
    target = tmp_path / "gpucost.prom"
    target.write_text("old")
    assert (
        run("export", "openmetrics", "--store", str(store), "--month", "2026-10", "-o", str(target)).exit_code
        == 0
    )
    assert target.read_text() == text and [item.name for item in tmp_path.iterdir()] == ["gpucost.prom"]
    assert text.endswith("# EOF\n")
    for families in (list(text_families(text)), list(openmetrics_families(text))):
        teams = {
            sample.labels["team"]
            for family in families
            for sample in family.samples
            if "team" in sample.labels
        }
        assert NAME in teams and "research" in teams
    lines = text.splitlines()
    assert len(lines) == len(set(lines))
    families = {family.name: family for family in openmetrics_families(text)}
    assert all(family.documentation and family.type == "gauge" for family in families.values())
    assert families["gpucost_not_collected_seconds"].unit == "seconds"
    assert families["gpucost_fleet_spot_ratio"].unit == "ratio"
    assert families["gpucost_team_gpu_hours"].unit == "gpu_hours"
    assert families["gpucost_team_cost"].unit == ""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("openmetrics", "--month", "2026-09"), 1, "there is no data for September 2026"),
        (("openmetrics", "--month", "2026-13"), 2, "is no month"),
        (("openmetrics", "-o", "x", "--pushgateway", "http://x"), 2, "exclude each other"),
        (
            ("openmetrics", "--month", "2026-10", "--pushgateway", "ftp://x"),
            2,
            "--pushgateway takes a base URL",
        ),
        (("openmetrics", "--month", "2026-10", "--pushgateway", "http://u:p@x"), 2, "without password"),
        (
            ("openmetrics", "--month", "2026-10", "--pushgateway", "http://127.0.0.1:9", "--job", "a/b"),
            2,
            "no name of a job",
        ),
    ],
)
def test_wrong_options_of_openmetrics(store: Path, words: tuple[str, ...], code: int, message: str) -> None:
    result = run("export", *words, "--store", str(store))
    assert result.exit_code == code, result.output
    assert message in result.stderr


def test_rules_hold_the_prices_of_the_store(store: Path) -> None:
    with_prices = store.with_name("priced.duckdb")
    with_prices.write_bytes(store.read_bytes())
    from gpucost.store.connection import Store

    with Store(with_prices).write() as con:
        con.execute(
            "INSERT INTO node_prices SELECT node_id, up_from_ms, up_to_ms, 24.48, 'price_book', NULL, NULL FROM nodes"
        )
        con.execute("UPDATE nodes SET instance_type = NULL WHERE node IN ('a100-1', 'l4-new')")
        # one name in two clusters: rules cannot tell them apart, and must not contradict themselves
        con.execute("UPDATE nodes SET node = 'a100-1', cluster = 'other' WHERE node = 'l4-new'")
    result = run("export", "recording-rules", "--store", str(with_prices))
    rules = yaml.safe_load(result.stdout)["groups"][0]["rules"]
    prices = [(rule["record"], rule["expr"], rule["labels"]) for rule in rules if "labels" in rule]
    assert ("gpucost:named_node_price:per_hour", "vector(24.48)", {"node": "a100-1"}) in prices
    spot = {"instance_type": "p4d", "region": "us-east-1", "capacity_type": "spot"}
    assert ("gpucost:instance_price:per_hour", "vector(24.48)", spot) in prices
    assert len(prices) == len({tuple(map(str, price)) for price in prices}) == 2
    assert "what the nodes in the store cost last" in result.stdout


def test_rules_without_a_store_hold_the_prices_of_the_catalog() -> None:
    text = run("export", "recording-rules").stdout
    rules = yaml.safe_load(text)["groups"][0]["rules"]
    labels = [rule["labels"] for rule in rules if rule["record"] == "gpucost:instance_price:per_hour"]
    assert {"instance_type": "p4d.24xlarge", "capacity_type": "on_demand"} in labels
    assert len({tuple(sorted(label.items())) for label in labels}) == len(labels)
    assert "on (instance_type, capacity_type)" in text


def test_thresholds_of_the_config_stand_in_the_alerts_and_without_budgets_none_is_on_them(
    tmp_path: Path,
) -> None:
    assert "Budget" not in run("export", "alerts").stdout
    (tmp_path / "gpucost.toml").write_text(
        "prometheus = []\n[idle]\nthreshold_percent = 7.5\n[targets]\nspot_ratio = 0.6\n[alerts]\nidle_minutes = 45\n"
        'queue_wait_minutes = 20\nlabels = { severity = "page" }\n[[budgets]]\nname = "all"\namount = 1234.5\n'
        '[[budgets]]\nname = "theirs"\nteam = "a b"\namount = 10\n'
    )
    result = run("export", "alerts")
    assert result.exit_code == 0, result.output
    rules = {rule["alert"]: rule for rule in yaml.safe_load(result.stdout)["groups"][0]["rules"]}
    assert "[45m]) < 7.5" in rules["GpucostGpuIdle"]["expr"]
    assert "> 1200" in rules["GpucostQueueWait"]["expr"]
    assert "< 0.6" in rules["GpucostSpotShareLow"]["expr"]
    assert "GpucostIdleShareHigh" not in rules
    assert "> 1234.5" in rules["GpucostBudgetPace"]["expr"]
    assert rules["GpucostTeamBudgetPace"]["labels"] == {"budget": "theirs", "team": "a b", "severity": "page"}


def test_thresholds_of_alerts_alone_win_over_those_of_reports(tmp_path: Path) -> None:
    (tmp_path / "gpucost.toml").write_text(
        "prometheus = []\n[idle]\nthreshold_percent = 7.5\n[targets]\nspot_ratio = 0.6\n"
        "[alerts]\nidle_percent = 2\nidle_ratio = 0.4\nidle_hours = 12\nspot_ratio = 0.3\n"
    )
    rules = {
        rule["alert"]: rule for rule in yaml.safe_load(run("export", "alerts").stdout)["groups"][0]["rules"]
    }
    assert "[60m]) < 2\n" in rules["GpucostGpuIdle"]["expr"]
    assert "[12h:5m]) > 0.4\n" in rules["GpucostIdleShareHigh"]["expr"]
    assert "< 0.3\n" in rules["GpucostSpotShareLow"]["expr"]
    assert "the limit is 0.3" in rules["GpucostSpotShareLow"]["annotations"]["description"]


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("[alerts]\nidle_ratio = 1", "alerts.idle_ratio"),
        ("[alerts]\nidle_minutes = 0", "alerts.idle_minutes"),
        ("[alerts]\nqueue_wait_minutes = 171", "alerts.queue_wait_minutes"),
        ("[[budgets]]\nname = 'a'\namount = -1", "budgets[0].amount"),
        ("[alerts]\nlabels = { 'a-b' = 'x' }", "a-b is no label name"),
        ("[alerts]\nidle_minute = 5", "did you mean alerts.idle_minutes?"),
        ("[prometheus]\ncluster_label = 'a)b'", "'a)b' is no label name"),
        ("[activity]\ndevice_metric = 'a b'", "'a b' is no metric name"),
    ],
)
def test_wrong_settings(tmp_path: Path, section: str, message: str) -> None:
    (tmp_path / "gpucost.toml").write_text(section)
    result = run("export", "recording-rules")
    assert result.exit_code in (1, 2)
    assert message in result.stderr


def test_the_dashboard_is_what_the_models_of_grafana_read() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="needs grafana-foundation-sdk of the test extra")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    made = json.loads(dashboard(Config()))
    del made["id"]  # null, which says to Grafana that the dashboard is new
    read = json.loads(json.dumps(Dashboard.from_json(made), cls=JSONEncoder))
    assert _lost(made, read, "") == []


def _lost(made: Any, read: Any, where: str) -> list[str]:
    """What of `made` is not in `read`, which may add defaults."""
    if isinstance(made, dict) and isinstance(read, dict):
        return [
            path for name, value in made.items() for path in _lost(value, read.get(name), f"{where}/{name}")
        ]
    if isinstance(made, list) and isinstance(read, list) and len(made) == len(read):
        return [
            path
            for at, pair in enumerate(zip(made, read, strict=True))
            for path in _lost(*pair, f"{where}/{at}")
        ]
    return [] if made == read else [where]


def test_a_fleet_without_nodes_costs_nothing_which_is_no_failure(store: Path) -> None:
    from gpucost.store.connection import Store

    idle = store.with_name("idle.duckdb")
    idle.write_bytes(store.read_bytes())
    with Store(idle).write() as con:
        con.execute("UPDATE collected SET to_ms = to_ms + 40 * 86400000::BIGINT")
    asked = ("export", "openmetrics", "--store", str(idle), "--month", "2026-11")
    result = run(*asked)
    assert result.exit_code == 0, result.output
    for name in ("cost", "unallocated_cost", "capacity_gpu_hours", "idle_cost"):
        assert _values(result.stdout, f"gpucost_fleet_{name}") == [0, 0]
    assert "gpucost_team_cost" not in result.stdout
    assert list(openmetrics_families(result.stdout))
    # what was never collected is not nothing
    assert run("export", "openmetrics", "--store", str(store), "--month", "2026-11").exit_code == 1


def test_month_without_data_yet_is_left_out(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpucost.store.connection import Store

    october = store.with_name("october.duckdb")
    october.write_bytes(store.read_bytes())
    november = datetime(2026, 11, 1, tzinfo=UTC)
    with Store(october).write() as con:
        con.execute("UPDATE collected SET to_ms = $1", [int(november.timestamp()) * 1000])
    monkeypatch.setattr("gpucost.questions.request.Request.now", november.replace(hour=2))
    result = run("export", "openmetrics", "--store", str(october))
    assert result.exit_code == 0, result.output
    assert "month_to_date is left out: there is no data for November 2026" in result.stderr
    assert _values(result.stdout, "gpucost_fleet_cost") == [0]


def test_a_fleet_that_nobody_uses_has_its_figures(tmp_path: Path) -> None:
    path = tmp_path / "unused.duckdb"
    fleet = sample(hours=48)
    fleet.rows["cost_hourly"] = [row for row in fleet.rows["cost_hourly"] if row[0] == "unallocated"]
    fleet.write(path)
    result = run("export", "openmetrics", "--store", str(path), "--month", "2026-10")
    assert result.exit_code == 0, result.output
    (unallocated, _) = _values(result.stdout, "gpucost_fleet_unallocated_cost")
    assert unallocated > 0
    assert sum(_values(result.stdout, "gpucost_unallocated_cost", period="month_to_date")) == pytest.approx(
        unallocated
    )
    assert _values(result.stdout, "gpucost_fleet_capacity_gpu_hours", period="month_to_date") == [21 * 48]


def test_every_panel_of_the_dashboard_has_its_place_and_its_query() -> None:
    made = json.loads(dashboard(Config(currency="AED")))
    assert made["schemaVersion"] >= 42
    panels = made["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["targets"] and panel["title"]
            refs = [target["refId"] for target in panel["targets"]]
            assert len(set(refs)) == len(refs)
    known = {f"${variable['name']}" for variable in made["templating"]["list"]}
    used = set(re.findall(r"\$[a-z_]\w*", json.dumps([panel.get("targets") for panel in panels])))
    assert used <= known
    assert "prefix:AED " in json.dumps(made)


@pytest.mark.parametrize(
    "text", ["plain", 'a"b\\', "a\nb\tc", "\u2028\u2029\x85\ufeff", "# not: a comment", "{{ x }}", "é 漢"]
)
def test_quoted_text_is_read_back_by_yaml(text: str) -> None:
    assert yaml.safe_load(f"key: {quoted(text)}")["key"] == text


def test_text_is_no_template_of_prometheus() -> None:
    assert literal("a {{ b") == 'a {{ "{{" }} b'
