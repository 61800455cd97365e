"""Rules broken on purpose, one at a time; the fast tests must notice each."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
# the files that each fast test touches, written by `-p tests.touched`
RECORD = ROOT / ".pytest_cache" / "touched"
