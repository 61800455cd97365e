"""docs/monitoring.md and docs/scheduling.md say what the program does: every command, setting, series, alert and metric."""

from __future__ import annotations

import re
import shlex
import tomllib
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from gpucost.cli.app import app
from gpucost.config.load import load_config, places
from gpucost.config.model import Budget, Config
from gpucost.publish import openmetrics
from gpucost.publish.rules import RulePrices, alerting_rules, recording_rules

ROOT = Path(__file__).parents[2]
MONITORING = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
SCHEDULING = (ROOT / "docs" / "scheduling.md").read_text(encoding="utf-8")


def _commands(text: str) -> list[str]:
    fenced = "\n".join(re.findall(r"```(?:sh|crontab|ini|yaml)\n(.*?)```", text, re.S)).replace("\\\n", " ")
    return re.findall(r"(?:^|/|&& |run: )gpucost ([a-z].*?)(?: && | \| | >> |'?$)", fenced, re.M)


def test_every_command_of_the_recipes_can_be_parsed() -> None:
    program: Any = typer.main.get_command(app)
    commands = [*_commands(MONITORING), *_commands(SCHEDULING)]
    assert len(commands) > 14
    assert sum(line.startswith("chargeback ") for line in commands) == 3
    for line in commands:
        words = shlex.split(line, comments=True)
        command = program
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        command.make_context("recipe", words)


def test_settings_of_the_docs_are_settings(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", MONITORING, re.S)
    assert len(blocks) == 2
    for block in blocks:
        file = tmp_path / "gpucost.toml"
        file.write_text(block)
        load_config(file, environ={})
        assert tomllib.loads(block)
    for section, keys in re.findall(r"`\[(alerts|idle|targets)\] ([a-z_]+)`", MONITORING):
        assert keys in dict(type(getattr(Config(), section)).model_fields)


def test_the_variables_of_the_workflow_are_settings(tmp_path: Path) -> None:
    workflow = yaml.safe_load(re.findall(r"```yaml\n(.*?)```", SCHEDULING, re.S)[0])
    names = workflow["jobs"]["collect"]["env"]
    environ = {name: "http://x:1" if name.endswith("URL") else "NAME" for name in names if name.startswith("GPUCOST_")}
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
    copied = {word for line in lines if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")}
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)
    environment = {name: value for line in lines for name, _, value in [line.strip(" \\").partition("=")]}
    assert Path("/etc/gpucost/gpucost.toml") in places({"XDG_CONFIG_HOME": environment["XDG_CONFIG_HOME"]}, Path("/data"))
    user = next(line for line in lines if line.startswith("USER "))
    manifest = (ROOT / "reports" / "cronjob.yml.j2").read_text(encoding="utf-8")
    uid, gid = user.removeprefix("USER ").split(":")
    assert f"runAsUser: {uid}" in manifest and f"runAsGroup: {gid}" in manifest
