"""Pages say what the program does: commands, settings, series, alerts and metrics; and what init writes shows every key."""

from __future__ import annotations

import re
import shlex
import tomllib
from datetime import date
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpucost.collect.prometheus.queries import NEEDS, NODE_FACTS, selectors
from gpucost.config.files import places
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
WORKFLOWS = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", ACTIONS, re.S)]
STARTER = files("gpucost.cli").joinpath("starter.toml").read_text(encoding="utf-8")

# kube-state-metrics' newer spelling of eks.amazonaws.com/capacityType, and a label without a domain
OTHER_SPELLINGS = {"label_eks_amazonaws_com_capacity_type", "label_node_lifecycle"}


def _commands(text: str) -> list[str]:
    fenced = "\n".join(re.findall(r"```(?:sh|crontab|ini|yaml)\n(.*?)```", text, re.S)).replace("\\\n", " ")
    return re.findall(r"(?:^|/|&& |run: )gpucost ([a-z].*?)(?: && | \| | >> |'?$)", fenced, re.M)


@pytest.mark.parametrize(
    ("name", "page"), [("commands.md", doc_pages.commands_page), ("config.md", doc_pages.config_page)]
)
def test_generated_pages_are_current(name: str, page: Any) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == page().rstrip("\n") + "\n", "run: python -m tests.doc_pages docs"


def test_every_command_of_recipes_can_be_parsed() -> None:
    """Those of crontabs, units and manifests; examples of a shell have a test of their own."""
    recipes = [*_commands(MONITORING), *_commands(SCHEDULING)]
    assert len(recipes) > 14
    assert sum(line.startswith("chargeback ") for line in recipes) == 2
    for line in recipes:
        parse(shlex.split(line, comments=True))


def test_workflows_run_commands_that_there_are_and_share_one_store() -> None:
    nightly, on_request = (
        [step for job in one["jobs"].values() for step in job["steps"]] for one in WORKFLOWS
    )
    lines = [line for step in (*nightly, *on_request) for line in step.get("run", "").splitlines()]
    commands = [
        re.split(" >>? ", line.removeprefix("gpucost "))[0] for line in lines if line.startswith("gpucost ")
    ]
    assert {line.split()[0] for line in commands} == {"collect", "report", "chargeback", "notify", "budget"}
    for line in commands:
        parse(shlex.split(line, comments=True))
    # the gate comes last, so that nothing is lost where it closes
    assert on_request[-1]["run"] == "gpucost budget check --fail-on over"
    caches = [step["with"] for step in (*nightly, *on_request) if "actions/cache" in step.get("uses", "")]
    assert len(caches) == 3 and len({(cache["path"], cache["key"]) for cache in caches}) == 1


def test_the_page_of_metrics_names_everything_that_is_collected_and_checked() -> None:
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
    """Each name in its SQL is one that is asked for, and each pattern of names is one of some that are."""
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
    read.discard(FAMILY_SAMPLES)  # what a server has samples of, in the store's own words
    assert {name for name in read if not any(re.fullmatch(name, metric) for metric in collected)} == set()
    matched = {metric for name in read for metric in collected if re.fullmatch(name, metric)}
    assert {metric for metric in matched if f"`{metric}" not in page} == set()


def test_the_starting_file_mentions_every_key_and_its_commented_defaults_are_the_defaults() -> None:
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


def test_the_starting_file_loads_with_every_commented_key_in_force(tmp_path: Path) -> None:
    text = (
        STARTER.replace("@url@", "http://prometheus:9090")
        .replace("@timezone@", "UTC")
        .replace("@store@", "gpucost.duckdb")
    )
    bare = re.sub(r"^# (?=\[|[a-z_]+ = )", "", text, flags=re.M)
    # one login is enough, and one way to give a password
    one_login = re.sub(r"^(bearer_token_env|bearer_token_file|password_env) = .*$", "", bare, flags=re.M)
    file = tmp_path / "gpucost.toml"
    file.write_text(one_login)
    config = load_config(file, environ={})
    assert config.teams[0].name == "research"
    assert config.prometheus[0].tls.ca_file == tmp_path / "ca.pem"
    assert config.model_copy(update={"prometheus": [], "teams": []}).idle == Config().idle


def test_settings_that_the_page_of_monitoring_names_are_settings() -> None:
    """Its blocks are loaded with those of all pages (test_examples.py)."""
    assert MONITORING.count("```toml\n") == 2
    for section, keys in re.findall(r"`\[(alerts|idle|targets)\] ([a-z_]+)`", MONITORING):
        assert keys in dict(type(getattr(Config(), section)).model_fields)


def test_the_variables_of_the_workflow_are_settings(tmp_path: Path) -> None:
    names = WORKFLOWS[0]["jobs"]["collect"]["env"]
    environ = {
        name: "http://x:1" if name.endswith("URL") else "NAME"
        for name in names
        if name.startswith("GPUCOST_")
    }
    config = load_config(environ=environ, cwd=tmp_path)
    assert config.notify.slack.webhook_url_env == "NAME"
    assert config.prometheus[0].bearer_token_env == "NAME"  # noqa: S105 - of a variable


@pytest.mark.parametrize("kind", ["series", "alerts", "metrics"])
def test_the_page_names_all_that_is_exported(kind: str) -> None:
    budgets = [Budget(name="all", amount=Decimal(1)), Budget(name="a", team="a", amount=Decimal(1))]
    alerts = alerting_rules(Config(budgets=budgets), date(2026, 10, 1))
    names = {
        "series": set(re.findall(r"record: (\S+)", recording_rules(Config(), RulePrices((), "")))),
        "alerts": set(re.findall(r"alert: (\S+)", alerts)),
        "metrics": set(openmetrics._HELP),
    }[kind]
    assert names
    # `gpucost:pod_gpus:allocated`, `:active` names both
    short = re.sub(r"`(gpucost:\w+):(\w+)`((?:, `:\w+`)+)", lambda found: _long(*found.groups()), MONITORING)
    inner = {"gpucost:node:info", "gpucost:instance_price:per_hour"}  # what others are made from
    assert {name for name in names - inner if f"`{name}`" not in short} == set()


def _long(base: str, first: str, more: str) -> str:
    return " ".join(f"`{base}:{state}`" for state in (first, *re.findall(r"`:(\w+)`", more)))


def test_the_image_is_built_from_what_is_there_and_runs_without_root() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = {
        word
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if line.startswith("!")
    }
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)
    environment = {name: value for line in lines for name, _, value in [line.strip(" \\").partition("=")]}
    assert Path("/etc/gpucost/gpucost.toml") in places(
        {"XDG_CONFIG_HOME": environment["XDG_CONFIG_HOME"]}, Path("/data")
    )
    user = next(line for line in lines if line.startswith("USER "))
    uid, gid = user.removeprefix("USER ").split(":")
    for name in ("cronjob.yml.j2", "chart/templates/cronjob.yaml"):
        manifest = (ROOT / "reports" / name).read_text(encoding="utf-8")
        assert f"runAsUser: {uid}" in manifest and f"runAsGroup: {gid}" in manifest


def test_the_pictures_of_the_readme_are_there_and_small() -> None:
    pictures = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert len(pictures) == 2
    for _, path in pictures:
        assert (ROOT / path).read_bytes().startswith(b"\x89PNG") and (ROOT / path).stat().st_size < 300_000
