"""Writes the project's own cases: `python -m tests.replay.build` after changing cases.py.

Each case's figures come from the oracle and must equal the totals that were worked out by hand, which its description tells.
"""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.oracle import Figures, calculate, read_book
from tests.replay.cases import CASES_TOLD
from tests.replay.cases.words import Case
from tests.replay.fleet import CASES, period_of


def expected(case: Case, prices: Path) -> dict[str, Any]:
    """The true figures of a case, as expected.json holds them."""
    book = read_book(prices)
    bill = calculate(case.fleet, book)
    for measure, value in case.hand.items():
        said = getattr(bill.total, measure)
        if said != Fraction(value):
            raise AssertionError(f"{case.name}: {measure} is {float(said)} to the oracle, {value} by hand")
    start, end = period_of(case.fleet)
    days = {day: calculate(case.fleet, book, span).total for day, span in case.by_day.items()}
    return {
        "from": start,
        "to": end,
        "threshold": 5,
        "total": bill.total.rounded(),
        "by_namespace": [
            {"cluster": c, "namespace": n, **_held(f)} for (c, n), f in sorted(bill.namespaces.items())
        ],
        "by_pod": [
            {"cluster": c, "namespace": n, "pod": p, "uid": u, **_held(f)}
            for (c, n, p, u), f in sorted(bill.pods.items())
        ],
        **({"by_day": {day: figures.rounded() for day, figures in days.items()}} if days else {}),
    }


def _held(figures: Figures) -> dict[str, float]:
    return figures.rounded()


def write(case: Case, folder: Path) -> None:
    """Writes one case's folder."""
    folder.mkdir(parents=True)
    prices = folder / "prices.csv"
    prices.write_text("\n".join([case.header, *case.book]) + "\n")
    fleet = {"description": case.description, **case.fleet}
    (folder / "fleet.json").write_text(_json(fleet))
    (folder / "expected.json").write_text(_json(expected(case, prices)))


def _json(value: dict[str, Any]) -> str:
    """One line per entry of the outer level's lists: small files that a diff can show."""
    parts = []
    for key, item in value.items():
        if isinstance(item, list) and item and isinstance(item[0], dict):
            lines = ",\n".join("  " + json.dumps(one) for one in item)
            parts.append(f" {json.dumps(key)}: [\n{lines}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(item)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    for folder in CASES.iterdir():
        if folder.is_dir() and folder.name != "__pycache__":
            shutil.rmtree(folder)
    for case in CASES_TOLD:
        write(case, CASES / case.name)


if __name__ == "__main__":
    main()
