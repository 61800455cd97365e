"""Rules of `gpucost policy`: a fleet that violates each rule once, and a fleet that complies with all."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost.errors import DataError
from gpucost.periods import Period
from gpucost.questions.policy.rules import PolicyFacts, _checked, read_rules, shipped_rules
from tests.replay.cases.words import BOOK, HEADER, at, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.text_tables import named_rows, text_rows, words
from tests.unit import command
from tests.unit.whatif_costs import figures, listed

H = 30
L4 = "g6.12xlarge"


def answer(folder: Path, words: str = "", code: int = 3, period: str = "--month 2026-03") -> Any:
    return command.answer(f"policy check {period} --config {folder}/gpucost.toml {words}", code)


def make(
    folder: Path,
    pods: list[dict[str, Any]],
    capacity: str = "on_demand",
    is_measured: bool = True,
    others: Sequence[dict[str, Any]] = (),
) -> Path:
    there = fleet(H, [node("a", L4, 0, H, capacity), *others], pods, {"GPU-a-3": [[at(0), at(H), 0]]})
    series = [one for one in scrape(there) if is_measured or not one.labels["__name__"].startswith("DCGM")]
    book = folder / "prices.csv"
    book.write_text("\n".join([HEADER, *BOOK]) + "\n")
    load(there, series, write_config(there, folder, book))
    return folder


# names, GPUs, hours, namespaces and owners
PODS = [
    pod(name, "a", [int(gpu)], int(start), int(end), namespace, owner=owner.split("/"))
    for name, gpu, start, end, namespace, owner in text_rows("""
        embed-1 | 0 | 0 | 5  | jobs      | Job/embed-1
        embed-2 | 0 | 6 | 8  | main-prod | Job/embed-2
        bert-0  | 1 | 0 | 26 | ml        | PyTorchJob/bert
        chat    | 2 | 0 | 30 | web       | ReplicaSet/chat-5d8
        ann-0   | 3 | 0 | 30 | ml        | StatefulSet/ann-notebook""")
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("broken"), PODS)


def rules_of(found: dict[str, Any]) -> dict[str, Any]:
    return {rule["name"]: rule for rule in found["rules"]}


VIOLATIONS = """
    batch-on-spot jobs Job/embed-1: a pod was on demand for 5.0 h
    idle-notebooks ml StatefulSet/ann-notebook: idle for 30.0 h without a break
    long-training-on-demand ml PyTorchJob/bert: a pod was on demand for 26.0 h"""


def test_each_rule_has_its_violation(broken: Path) -> None:
    found = answer(broken)
    rules = rules_of(found)
    violations = [{"rule": name, **one} for name in rules for one in rules[name]["violations"]]
    listing = [f"{figures(one, 'rule namespace subject')}: {one['evidence']}" for one in violations]
    assert listing == [line.strip() for line in VIOLATIONS.split("\n") if line]
    assert figures(violations[0], "gpu_hours cost") == "5 6"
    assert figures(found, "kept broken unknown") == "0 3 0"
    assert rules["batch-on-spot"]["checked"] == 1


def test_filters_exceptions_and_limits_decide_violations(broken: Path) -> None:
    web = rules_of(answer(broken, "--namespace web", code=0))
    assert {rule["status"] for rule in web.values()} == {"unknown"}
    assert (web["batch-on-spot"]["checked"], web["batch-on-spot"]["missing"]) == (0, None)
    few = broken / "few.toml"
    few.write_text('[[rules]]\nname = "q"\nkind = "spot_for_batch"\nexcept = ["jobs", "m*"]\n')
    answer(broken, f"--rules {few}", code=0)
    few.write_text('[[rules]]\nname = "q"\nkind = "on_demand_training"\nhours = 26\n')
    answer(broken, f"--rules {few}", code=0)
    # the only batch work outside production has five GPU-hours
    few.write_text('[[rules]]\nname = "q"\nkind = "spot_for_batch"\nexcept = ["m*"]\nmin_gpu_hours = 5\n')
    answer(broken, f"--rules {few}", code=0)
    few.write_text('[[rules]]\nname = "q"\nkind = "spot_for_batch"\nseverity = "warning"\n')
    assert answer(broken, f"--rules {few}", code=0)["broken"] == 1


def test_compliant_fleet_has_no_violations(tmp_path: Path) -> None:
    pods = [one for one in PODS if one["name"] != "ann-0"]
    folder = make(tmp_path, pods, "spot")
    # no notebooks is not a violation
    found = answer(folder, code=0)
    assert figures(found, "kept broken unknown") == "2 0 1"
    assert (rules_of(found)["idle-notebooks"]["status"], rules_of(found)["idle-notebooks"]["missing"]) == (
        "unknown",
        None,
    )


def test_pods_are_judged_by_their_whole_lives(broken: Path) -> None:
    def violations(hours: str) -> dict[str, list[dict[str, Any]]]:
        start, end = (
            f"2026-03-{10 + int(hour) // 24:02}T{int(hour) % 24:02}:00Z" for hour in hours.split("-")
        )
        found = answer(broken, period=f"--from {start} --to {end}")
        return {rule["name"]: rule["violations"] for rule in found["rules"]}

    late = violations("20-29")
    # 26 hours, six of them in the period
    assert listed(late["long-training-on-demand"], "evidence gpu_hours") == "a pod was on demand for 26.0 h 6"
    assert listed(late["idle-notebooks"], "evidence gpu_hours") == "idle for 30.0 h without a break 9"
    # five hours, one of them in the period, below min_gpu_hours
    assert listed(violations("4-6")["batch-on-spot"], "subject gpu_hours") == "Job/embed-1 1"
    # three hours before its idle interval began
    assert len(violations("1-3")["idle-notebooks"]) == 1


@pytest.fixture(scope="module")
def with_spot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fleet with a spot node, so the spot price of the type is known."""
    return make(tmp_path_factory.mktemp("with-spot"), PODS, others=[node("b", L4, 0, H, "spot")])


# a change of the price book, and the status of the rules for batch work on spot and on-demand training
PRICES = """
cheap                   | spot,1.80      | spot,1.80         | broken
as on demand            | spot,1.80      | spot,4.80         | kept
interruptions cost more | spot,1.80      | spot,4.70         | kept
committed               | on_demand,4.80 | savings_plan,4.80 | kept
"""


@pytest.mark.parametrize(("old", "new", "status"), named_rows(PRICES))
def test_rules_agree_with_whatif_spot(
    with_spot: Path, tmp_path: Path, old: str, new: str, status: str
) -> None:
    folder = shutil.copytree(with_spot, tmp_path / "copy")
    settings = (folder / "gpucost.toml").read_text().replace(str(with_spot), str(folder))
    (folder / "gpucost.toml").write_text(settings)
    book = (folder / "prices.csv").read_text()
    (folder / "prices.csv").write_text(book.replace(f"{L4},{old}", f"{L4},{new}"))
    rules = rules_of(answer(folder))
    for name in ("batch-on-spot", "long-training-on-demand"):
        assert (rules[name]["status"], len(rules[name]["violations"])) == (status, int(status == "broken"))


def test_notebooks_without_activity_are_unknown(tmp_path: Path) -> None:
    notebooks = rules_of(answer(make(tmp_path, PODS, is_measured=False)))["idle-notebooks"]
    assert (notebooks["status"], notebooks["checked"]) == ("unknown", 0)
    assert "the activity of the notebooks was not measured" in notebooks["missing"]


def test_work_of_unknown_capacity_type_is_unknown() -> None:
    keys = words("cluster=main namespace=ml workload=Job/a workload_type=batch capacity_type=unknown")
    life = {"gpus": 1, "life_from_ms": 0, "life_to_ms": 90 * 3_600_000}
    batch = {**keys, **life}
    training = {**batch, "workload_type": "training"}
    month = Period(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))
    costs = {tuple(keys.values()): (5.0, Decimal(5))}
    facts = PolicyFacts([batch, training], costs, month, lambda *_: ([], ()), lambda: frozenset())
    rules = [rule for rule in read_rules(None) if rule.kind in ("spot_for_batch", "on_demand_training")]
    found = {(one.status, one.missing) for one in (_checked(rule, facts) for rule in rules)}
    assert found == {("unknown", "no capacity type is known, so on-demand usage is unknown")}


WRONG = r"""
kind = "idle_notebooks" | kind = "notebooks" | line 13 in \[\[rules\]\] 2: invalid kind 'notebooks'
hours = 4       | hour = 4        | line 15 in .*: unknown key 'hour'
hours = 4       | hours = 0       | line 15 in .*: hours: should be greater than 0, got 0
hours = 4       |                 | idle_notebooks needs hours
"idle-notebooks" | "batch-on-spot" | two rules are named 'batch-on-spot'
"""


@pytest.mark.parametrize(("old", "new", "message"), text_rows(WRONG))
def test_error_in_a_rules_file_has_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in shipped_rules()
    (tmp_path / "rules.toml").write_text(shipped_rules().replace(old, new, 1))
    with pytest.raises(DataError, match=message):
        read_rules(tmp_path / "rules.toml")
