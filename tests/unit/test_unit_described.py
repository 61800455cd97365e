"""`gpucost unit epoch|requests|tokens` by options alone, without a store."""

from __future__ import annotations

import pytest

from tests.text_tables import text_rows
from tests.unit.command import answer, check_end
from tests.unit.whatif_costs import figures

pytestmark = pytest.mark.usefixtures("nowhere")


# 20 an hour for 9,000 × 3,600 × 0.4 tokens
DESCRIBED = """
    tokens --gpus 8 --price-per-gpu-hour 2.5 --tokens-per-second 9000 --busy-percent 40 \
| cost_per_hour per cost | 20 1000000 1.543209877
    requests --gpus 2 --price-per-gpu-hour 1.2 --requests-per-second 15 --busy-percent 40 \
| cost | 0.111111111
    epoch --gpus 16 --price-per-gpu-hour 3 --hours-per-epoch 3 --planned-epochs 20 \
| cost planned_hours planned_cost | 144 60 2880
"""


@pytest.mark.parametrize(("words", "names", "expected"), text_rows(DESCRIBED))
def test_what_is_described_has_its_price(words: str, names: str, expected: str) -> None:
    assert figures(answer(f"unit {words}"), names) == expected


WRONG = """
tokens --gpus 8 --tokens-per-second 9000 | --price-per-gpu-hour and --busy-percent are missing
epoch --hours-per-epoch 2                | --gpus and --price-per-gpu-hour are missing
requests --gpus 8 --team x        | --gpus describes work by options, --team asks for that in the store
epoch --gpus 8 --month 2026-10    | --gpus describes work by options, a period asks for that in the store
tokens --tokens-per-second 0      | '0' is no number above 0
"""


@pytest.mark.parametrize(("words", "message"), text_rows(WRONG))
def test_what_is_missing_or_asks_for_a_store(words: str, message: str) -> None:
    check_end(f"unit {words}", "2", message)
