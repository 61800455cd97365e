"""The algorithm's numbers, by which a sealed month records the version that produced its figures."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from gpucost.pipeline import ALGORITHM

# The stages that compute figures. After a change to one, check whether the same inputs still give the same
# figures. If not, raise the stage's number in gpucost.pipeline. In both cases, renew its digest here.
MADE_BY = {"inventory": "7d1ec4aa2bc8f3e0", "price": "ff2328ae024dd706", "attribute": "af5e3687b5fbfa83"}
NUMBERS = {"inventory": 5, "price": 4, "attribute": 4}


def digest(stage: str) -> str:
    """A digest of a stage's statements without comments and blanks."""
    folder = Path(str(files(f"gpucost.{stage}")))
    texts = [
        (path.relative_to(folder).as_posix(), path.read_text()) for path in sorted(folder.rglob("*.sql"))
    ]
    words = [
        (name, " ".join(" ".join(line.partition("--")[0] for line in text.splitlines()).split()))
        for name, text in texts
    ]
    return sha256(repr(words).encode()).hexdigest()[:16]


def test_stage_with_other_figures_has_another_number() -> None:
    assert {stage: digest(stage) for stage in MADE_BY} == MADE_BY, (
        "do the same inputs still make the same figures?"
    )
    assert ALGORITHM == NUMBERS
