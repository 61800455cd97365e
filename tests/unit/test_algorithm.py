"""The numbers of the algorithm, by which a sealed month says what made its figures."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from gpucost.pipeline import ALGORITHM

# What makes figures, stage by stage: whoever changes it says below whether the same inputs still make the same figures. If they
# do not, the stage's number in gpucost.pipeline rises; either way its digest here is renewed.
MADE_BY = {"inventory": "34b81eef93328b66", "price": "30d927e205a685aa", "attribute": "c080c356a63fe2df"}
NUMBERS = {"inventory": 5, "price": 4, "attribute": 3}


def digest(stage: str) -> str:
    """Of the statements alone: comments and blanks make no figures."""
    folder = Path(str(files(f"gpucost.{stage}")))
    texts = [
        (path.relative_to(folder).as_posix(), path.read_text()) for path in sorted(folder.rglob("*.sql"))
    ]
    words = [
        (name, " ".join(" ".join(line.partition("--")[0] for line in text.splitlines()).split()))
        for name, text in texts
    ]
    return sha256(repr(words).encode()).hexdigest()[:16]


def test_a_stage_that_makes_other_figures_has_another_number() -> None:
    assert {stage: digest(stage) for stage in MADE_BY} == MADE_BY, (
        "do the same inputs still make the same figures?"
    )
    assert ALGORITHM == NUMBERS
