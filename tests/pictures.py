"""The pictures of the README, made by the program itself: `python -m tests.pictures docs/img`. Needs Chromium."""

from __future__ import annotations

import base64
import html
import io
import os
import pty
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from gpucost.demo.build import build, last_months
from tests.chromium import Browser, chromium

_COLUMNS, _LINES = 132, 40
_STYLE = "margin:0;padding:16px 20px;background:#0c0c0c;color:#d9d9d9;font:14px/1.25 'DejaVu Sans Mono',monospace;white-space:pre"


def main(folder: Path) -> None:
    """Writes terminal.png and page.png into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place, chromium(Path(place) / "profile") as browser:
        config = build(
            Path(place) / "demo", *last_months(datetime(2026, 11, 21, tzinfo=UTC)), lambda _: None
        ).path
        shown, page = Path(place) / "terminal.html", Path(place) / "page.html"
        shown.write_text(_as_page("gpucost report --month 2026-10", config), encoding="utf-8")
        _picture(browser, shown, folder / "terminal.png", 1160, 726)
        words = f"-m gpucost report --month 2026-10 -o {page} --config {config}"
        call = [sys.executable, *words.split()]
        subprocess.run(call, check=True, capture_output=True)
        _picture(browser, page, folder / "page.png", 1180, 745)


def _as_page(command: str, config: Path) -> str:
    """What the command shows on a terminal, as a page of the same letters and colors."""
    terminal, ours = pty.openpty()
    env = os.environ | {"COLUMNS": str(_COLUMNS), "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    call = [sys.executable, "-m", *command.split(), "--config", str(config), "-q"]
    process = subprocess.Popen(call, stdout=ours, stderr=ours, env=env)
    os.close(ours)
    told = b""
    with suppress(OSError):  # the terminal is gone with the program
        while part := os.read(terminal, 65536):
            told += part
    assert process.wait() == 0, told.decode()
    lines = told.decode().replace("\r\n", "\n").splitlines()[:_LINES]
    console = Console(
        record=True, width=_COLUMNS, file=io.StringIO(), color_system="standard", legacy_windows=False
    )
    console.print(Text.from_ansi(f"$ {command}"), Text.from_ansi("\n".join(lines)), sep="\n", soft_wrap=True)
    code = console.export_html(inline_styles=True, theme=MONOKAI, code_format="{code}")
    return f'<!doctype html><meta charset="utf-8"><title>{html.escape(command)}</title><body style="{_STYLE}">{code}</body>'


def _picture(browser: Browser, page: Path, target: Path, width: int, height: int) -> None:
    browser.view(width)
    browser.open(page)
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    answer = browser.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
    target.write_bytes(base64.b64decode(answer["data"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
