"""Teams by AWS cost categories: pods on nodes whose bill carries one, where labels and namespaces do not decide."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from gpucost import pipeline
from gpucost.config.model import Team
from tests.replay import bill_files
from tests.replay.billing import charges
from tests.replay.cases.words import busy, fleet, node, pod
from tests.unit.test_price_bill_fleets import Billed


def test_pods_on_a_categorys_nodes_are_the_teams(tmp_path: Path) -> None:
    nodes = [node("n1", "p4de.24xlarge", 0, 4), node("n2", "p4de.24xlarge", 0, 4)]
    pods = [pod("a", "n1", [0], 0.5, 3, "train"), pod("b", "n2", [0], 0.5, 3, "train"), pod("c", "n1", [1], 0.5, 3, "serve")]
    billed = Billed(tmp_path, fleet(4, nodes, pods, busy("n1", [0], 1, 3), scrape=900))
    told = list(charges(billed.fleet, lambda *_: ("on_demand", Decimal(20))))
    lines = bill_files.aws_cur(told, legacy=True).splitlines()
    machine = next(charge.instance_id for charge in told if charge.node["name"] == "n1")
    made = [line + (",Research" if machine in line else ",Serving") for line in lines[1:]]
    billed.bill("\n".join([lines[0] + ",costCategory/Department", *made]) + "\n", "cur.csv", "aws")
    teams = [Team(name="nlp", cost_categories={"department": ["Research"]}), Team(name="front", namespaces=["serve"])]
    pipeline.attribute(billed.config.model_copy(update={"teams": teams}), billed.store)
    found = billed.store.query("SELECT DISTINCT node, namespace, team FROM costs WHERE kind = 'allocated' ORDER BY ALL")[1]
    assert found == [("n1", "serve", "front"), ("n1", "train", "nlp"), ("n2", "train", "unassigned")]
