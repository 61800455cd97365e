"""Rules broken on purpose, one at a time: the fast tests have to notice each of them."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
# what each fast test touches, as `-p tests.touched` writes it
RECORD = ROOT / ".pytest_cache" / "touched"
