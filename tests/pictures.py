"""Make the picture of the README with the program: `python -m tests.pictures docs/img`. Needs Chromium."""

from __future__ import annotations

import base64
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from gpucost.demo.build import build, last_months
from tests.chromium import Browser, chromium


def main(folder: Path) -> None:
    """Write page.png into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place, chromium(Path(place) / "profile") as browser:
        config = build(
            Path(place) / "demo", *last_months(datetime(2026, 11, 21, tzinfo=UTC)), lambda _: None
        ).path
        page = Path(place) / "page.html"
        words = f"-m gpucost report --month 2026-10 -o {page} --config {config}"
        call = [sys.executable, *words.split()]
        subprocess.run(call, check=True, capture_output=True)
        _picture(browser, page, folder / "page.png", 1180, 745)


def _picture(browser: Browser, page: Path, target: Path, width: int, height: int) -> None:
    browser.view(width)
    browser.open(page)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    answer = browser.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    target.write_bytes(base64.b64decode(answer["data"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
