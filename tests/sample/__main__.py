"""Write the fixture of `gpucost demo` into gpucost/demo."""

from __future__ import annotations

import sys

from gpucost.demo.fixture import FOLDER
from tests.sample.fixture import write

if __name__ == "__main__":
    for path in write(FOLDER):
        sys.stdout.write(f"{path.stat().st_size:>9,} {path}\n")
