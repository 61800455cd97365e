"""Docs match the program (commands, settings, series, alerts, metrics), and the starter config shows every key."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from datetime import date
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from gpucost.collect.prometheus.queries import NEEDS, NODE_FACTS, selectors
from gpucost.config.load import all_keys, load_config
from gpucost.config.model import Budget, Config
from gpucost.publish import openmetrics
from gpucost.publish.rules import RulePrices, alerting_rules, recording_rules
from gpucost.store.metrics import FAMILY_SAMPLES
from tests import doc_pages
from tests.unit.test_examples import parse

ROOT = Path(__file__).parents[2]
MONITORING = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
SCHEDULING = (ROOT / "docs" / "scheduling.md").read_text(encoding="utf-8")
ACTIONS = (ROOT / "docs" / "github-actions.md").read_text(encoding="utf-8")
STARTER = files("gpucost.cli").joinpath("starter.toml").read_text(encoding="utf-8")

# the newer kube-state-metrics spelling of eks.amazonaws.com/capacityType, and a label without a domain
OTHER_SPELLINGS = {"label_eks_amazonaws_com_capacity_type", "label_node_lifecycle"}


def _commands(text: str) -> list[str]:
    fenced = "\n".join(re.findall(r"```(?:sh|crontab|ini|yaml)\n(.*?)```", text, re.S)).replace("\\\n", " ")
    return re.findall(r"(?:^|/|&& |run: )gpucost ([a-z].*?)(?: && | \| | >> |'?$)", fenced, re.M)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("name", "page"), [("commands.md", doc_pages.commands_page), ("config.md", doc_pages.config_page)]
)
def test_generated_pages_are_current(name: str, page: Any) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == page().rstrip("\n") + "\n", "run: python -m tests.doc_pages docs"


def test_every_command_in_recipes_can_be_parsed() -> None:
    """Commands in crontabs, units and manifests; test_examples.py covers shell examples."""
    recipes = [
        *_commands(MONITORING),
        *_commands(SCHEDULING),
        *re.findall("^[ -]*(?:run: )?gpucost ([a-z][^>\n]*)", ACTIONS, re.M),
    ]
    assert len(recipes) > 20
    for line in recipes:
        parse(shlex.split(line, comments=True))


def test_metrics_page_names_all_collected_and_checked_metrics() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    collected = {selector.metric for selector in selectors(Config().activity)}
    assert {metric for metric in collected if f"`{metric}`" not in page} == set()
    assert {need.metric for need in NEEDS} <= collected
    named = {
        re.sub(r"[^a-zA-Z0-9]", "_", f"label_{label}").lower()
        for label in re.findall(r"`([a-z0-9.-]+/[\w.<>-]+)`", page)
    }
    wanted = {
        re.sub("[<>]", "_", label).lower() for fact in NODE_FACTS for label in fact.labels
    } - OTHER_SPELLINGS
    assert wanted - named == set()


def test_metrics_that_inventory_reads_are_collected_and_documented() -> None:
    """Each metric name or pattern in the SQL of the inventory matches a collected metric."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    collected = {selector.metric for selector in selectors(Config().activity)}
    texts = [
        re.sub(r"--[^\n]*", "", file.read_text()) for file in (ROOT / "gpucost" / "inventory").glob("*.sql")
    ]
    read = {
        name
        for text in texts
        for name in re.findall(r"'((?:kube|node_boot|actions|kueue|karpenter|DCGM)_[^' ]*[^'_ ])'", text)
    }
    assert len(read) > 20
    read.discard(FAMILY_SAMPLES)  # the store's own name, not a metric
    read -= {"kube_resourcequota", "kube_limitrange"}  # only stores of older versions contain them
    assert {name for name in read if not any(re.fullmatch(name, metric) for metric in collected)} == set()
    matched = {metric for name in read for metric in collected if re.fullmatch(name, metric)}
    assert {metric for metric in matched if f"`{metric}" not in page} == set()


def test_starter_config_has_every_key_and_the_real_defaults() -> None:
    mentioned = set(re.findall(r"^(?:# )?([a-z_]+) = ", STARTER, re.M))
    assert {key.rpartition(".")[2] for key in all_keys(Config)} <= mentioned
    names = r"timeout_seconds|concurrency|max_samples|cluster_label|\w+_metric|share|min_measured"
    before, _, mlflow = STARTER.partition("# [mlflow]\n")
    lines = re.findall(rf"^# ((?:{names}) = \S+)", before, re.M)
    assert len(lines) == 8
    config = Config()
    defaults: dict[str, Any] = {}
    for section in (config.prometheus[0], config.activity, config.mig, config.idle):
        defaults |= section.model_dump()
    given = tomllib.loads("\n".join(lines))
    assert given == {name: defaults[name] for name in given}
    shown = tomllib.loads(
        "\n".join(re.findall(r"^# (\w+ = .+)$", mlflow.partition("# [mlflow.tls]")[0], re.M))
    )
    of_mlflow = {
        key: value
        for key, value in config.mlflow.model_dump().items()
        if value and key not in ("tls", "experiments")
    }
    assert of_mlflow == {key: shown[key] for key in of_mlflow}


def test_starter_config_loads_with_every_key_uncommented(tmp_path: Path) -> None:
    text = (
        STARTER.replace("@url@", "http://prometheus:9090")
        .replace("@timezone@", "UTC")
        .replace("@store@", "gpucost.duckdb")
    )
    bare = re.sub(r"^# (?=\[|[a-z_]+ = )", "", text, flags=re.M)
    # keep one login and one way to give its password
    one_login = re.sub(r"^(bearer_token_env|bearer_token_file|password_env) = .*$", "", bare, flags=re.M)
    file = tmp_path / "gpucost.toml"
    file.write_text(one_login)
    config = load_config(file, environ={})
    assert config.teams[0].name == "research"
    assert config.prometheus[0].tls.ca_file == tmp_path / "ca.pem"
    assert config.model_copy(update={"prometheus": [], "teams": []}).idle == Config().idle


def test_monitoring_page_names_all_exported_series_and_alerts() -> None:
    budgets = [Budget(name="all", amount=Decimal(1)), Budget(name="a", team="a", amount=Decimal(1))]
    alerts = re.findall(r"alert: (\S+)", alerting_rules(Config(budgets=budgets), date(2026, 10, 1)))
    series = re.findall(r"record: (\S+)", recording_rules(Config(), RulePrices((), "")))
    assert series and alerts
    # `gpucost:pod_gpus:allocated`, `:active` names two series
    short = re.sub(r"`(gpucost:\w+):(\w+)`((?:, `:\w+`)+)", lambda found: _long(*found.groups()), MONITORING)
    inner = {"gpucost:node:info", "gpucost:instance_price:per_hour"}  # intermediate series
    names = {*series, *alerts, *openmetrics._HELP} - inner
    assert {name for name in names if f"`{name}`" not in short} == set()


def _long(base: str, first: str, more: str) -> str:
    return " ".join(f"`{base}:{state}`" for state in (first, *re.findall(r"`:(\w+)`", more)))


INVENTED = "gpucost/questions/pods/__init__.py"  # example in CONTRIBUTING


def test_stages_and_paths_in_the_docs_exist() -> None:
    stages = {path.stem for path in (ROOT / "gpucost").rglob("*.sql")}
    missing = []
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for name in re.findall(r"`([^`\n*]+)`", page.read_text(encoding="utf-8")):
            stage = re.fullmatch(r"(?:[a-z_/]+/)?(\d\d_\w+?)(?:\.sql)?", name)
            path = re.fullmatch(r"(?:gpucost|pricing|reports|tests|docs|\.ci)/[\w./-]+", name)
            if (stage and stage[1] not in stages) or (
                path and name != INVENTED and not (ROOT / name).exists()
            ):
                missing.append(f"{page.name}: {name}")
    assert len(stages) > 150
    assert missing == []


def test_messages_cite_no_page_that_users_lack() -> None:
    """Packages contain neither docs/ nor README.md; docstrings and option help may cite them."""
    cited = []
    for path in (ROOT / "gpucost").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        helps = [
            node for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ]
        helps += [
            node for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Option"
        ]
        skipped = {id(part) for node in helps for part in ast.walk(node)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
                cited += [(path.name, page) for page in re.findall(r"docs/[\w-]+\.md|README", node.value)]
    assert not cited
