"""Fleets with their bills, attributed once for all tests that read them.

A test that changes one copies it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpucost import pipeline
from gpucost.config.load import load_config
from tests.profiles import profiled_stages
from tests.replay import bill_files
from tests.replay.billing import Charge, charges
from tests.unit.test_price_bill_fleets import Billed, machines, rate

MONTH = "2026-03"
BOOTING = 600


def configured(fleet: Billed, lines: str) -> Billed:
    """The fleet with these lines added to its configuration, loaded as a command loads it."""
    path = fleet.folder / "gpucost.toml"
    path.write_text(path.read_text() + lines)
    fleet.config = load_config(path, environ={}, cwd=fleet.folder)
    return fleet


def whole(folder: Path) -> Billed:
    """A fleet whose bill covers it exactly, plus ten minutes before each machine became a node."""
    signed = (
        '[[coverage.accept]]\nfrom = 2026-03-01\nto = 2026-04-01\nwho = "Dana"\nwhy = "it ran for two days"\n'
    )
    fleet = configured(Billed(folder, machines("p4de.24xlarge")), signed)
    fleet.bill(bill_files.aws_cur(charges(fleet.fleet, rate, booting=BOOTING)), "cur.csv", "aws")
    with profiled_stages() as fleet.stages:
        pipeline.attribute(fleet.config, fleet.store)
    return fleet


def elsewhere(fleet: Billed) -> list[Charge]:
    """Charges of the fleet; charges of n3 name a machine outside the fleet."""
    return [
        replace(charge, node=charge.node | {"name": "elsewhere"}) if charge.node["name"] == "n3" else charge
        for charge in charges(fleet.fleet, rate, booting=BOOTING)
    ]


def partly(folder: Path) -> Billed:
    """A fleet whose spot node n3 is on no bill; commitments are shared as billed."""
    fleet = configured(Billed(folder, machines("p4de.24xlarge")), 'commitment_sharing = "as_billed"\n')
    fleet.bill(bill_files.aws_cur(elsewhere(fleet)), "cur.csv", "aws")
    pipeline.attribute(fleet.config, fleet.store)
    return fleet


def copied(fleet: Billed, folder: Path, sharing: str | None = None) -> Billed:
    """A copy that may be changed, attributed again if `sharing` is given."""
    made = fleet.copy(folder)
    made.config = fleet.sharing(sharing) if sharing else fleet.config
    if sharing:
        pipeline.attribute(made.config, made.store)
    return made
