"""Pages that are generated from the program do not drift from it, and what init writes shows every key."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import typer

from gpucost.cli import _docs
from gpucost.cli.app import app, default_command
from gpucost.collect.prometheus.queries import NEEDS, NODE_FACTS, selectors
from gpucost.config.load import all_keys, load_config
from gpucost.config.model import Config

ROOT = Path(__file__).parents[2]
STARTER = files("gpucost.cli").joinpath("starter.toml").read_text(encoding="utf-8")

# kube-state-metrics' newer spelling of eks.amazonaws.com/capacityType, and a label without a domain
OTHER_SPELLINGS = {"label_eks_amazonaws_com_capacity_type", "label_node_lifecycle"}


@pytest.mark.parametrize(("name", "page"), [("commands.md", _docs.commands_page), ("config.md", _docs.config_page)])
def test_generated_pages_are_current(name: str, page: Any) -> None:
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == page().rstrip("\n") + "\n", "run: python -m gpucost.cli._docs docs"


def test_every_command_of_the_examples_can_be_parsed() -> None:
    program = typer.main.get_command(app)
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8").replace("\\\n", "")
    lines = re.findall(r"^(?:[A-Z_]+=\S+ )?gpucost (.+)$", page, re.M)
    examples = [shlex.split(re.split(" [<>] ", line)[0]) for line in lines]
    assert len(examples) > 10
    for words in examples:
        command: Any = program
        while hasattr(command, "commands"):
            command = command.commands[default_command(command, words) or words.pop(0)]
        command.make_context("example", list(words))


def test_the_page_of_metrics_names_everything_that_is_collected_and_checked() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    collected = {selector.metric for selector in selectors(Config().activity)}
    assert {metric for metric in collected if f"`{metric}`" not in page} == set()
    assert {need.metric for need in NEEDS} <= collected
    named = {re.sub(r"[^a-zA-Z0-9]", "_", f"label_{label}").lower() for label in re.findall(r"`([a-z0-9.-]+/[\w.-]+)`", page)}
    wanted = {label.lower() for fact in NODE_FACTS for label in fact.labels} - OTHER_SPELLINGS
    assert wanted - named == set()


def test_the_starting_file_mentions_every_key() -> None:
    mentioned = set(re.findall(r"^(?:# )?([a-z_]+) = ", STARTER, re.M))
    assert {key.rpartition(".")[2] for key in all_keys(Config)} <= mentioned


def test_the_starting_file_loads_with_every_commented_key_in_force(tmp_path: Path) -> None:
    text = STARTER.replace("@url@", "http://prometheus:9090").replace("@timezone@", "UTC").replace("@store@", "gpucost.duckdb")
    bare = re.sub(r"^# (?=\[|[a-z_]+ = )", "", text, flags=re.M)
    # one login is enough, and one way to give a password
    one_login = re.sub(r"^(bearer_token_env|bearer_token_file|password_env) = .*$", "", bare, flags=re.M)
    file = tmp_path / "gpucost.toml"
    file.write_text(one_login)
    config = load_config(file, environ={})
    assert config.teams[0].name == "research"
    assert config.prometheus[0].tls.ca_file == tmp_path / "ca.pem"
    assert config.model_copy(update={"prometheus": [], "teams": []}).idle == Config().idle


def test_commented_defaults_are_the_defaults() -> None:
    names = r"timeout_seconds|concurrency|max_samples|cluster_label|\w+_metric|\w+_scale|share|min_measured"
    before, _, mlflow = STARTER.partition("# [mlflow]\n")
    lines = re.findall(rf"^# ((?:{names}) = \S+)", before, re.M)
    assert len(lines) == 10
    config = Config()
    defaults: dict[str, Any] = {}
    for section in (config.prometheus[0], config.activity, config.mig, config.idle):
        defaults |= section.model_dump()
    given = tomllib.loads("\n".join(lines))
    assert given == {name: defaults[name] for name in given}
    shown = tomllib.loads("\n".join(re.findall(r"^# (\w+ = .+)$", mlflow.partition("# [mlflow.tls]")[0], re.M)))
    of_mlflow = {key: value for key, value in config.mlflow.model_dump().items() if value and key not in ("tls", "experiments")}
    assert of_mlflow == {key: shown[key] for key in of_mlflow}
