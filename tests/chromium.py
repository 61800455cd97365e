"""A headless Chromium controlled over its debugging pipe by the DevTools protocol, without other software."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TIMEOUT = 60.0
_COMMAND = """
    chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking
    --hide-scrollbars --remote-debugging-pipe"""


class Browser:
    """One page. `messages` has its console output and errors, `requests` every requested address."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading, self._writing = reading, writing
        self._buffer = b""
        self._last_id = 0
        self._session: str | None = None
        self.messages: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the browser's answer to a command."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._last_id:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self._note(answer)

    def open(self, page: Path) -> None:
        """Load the page and wait until it is complete."""
        self.messages.clear()
        self.requests.clear()
        self._loaded = False
        self.send("Page.navigate", url=page.as_uri())
        while not self._loaded:
            self._note(self._next())

    def view(self, width: int, *, dark: bool = False, media: str = "screen") -> None:
        """Set the width of the page; below 600, as on a phone."""
        shape = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **shape)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key."""
        codes = {"Tab": (9, ""), "Enter": (13, "\r")}
        code, text = codes[key]
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
        self.send("Input.dispatchKeyEvent", type="keyUp", **named)

    def pdf(self) -> bytes:
        """Return the page in print layout."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + _TIMEOUT
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._reading], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self._reading, 1 << 20)
            assert part, "the browser ended"
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event.get("method"), event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.messages.append(" ".join(str(part.get("value")) for part in params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.messages.append(str(params["entry"]["text"]))
        elif method == "Page.javascriptDialogOpening":
            self.messages.append(f"dialog: {params['message']}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Page.loadEventFired":
            self._loaded = True


@contextmanager
def chromium(profile: Path) -> Iterator[Browser]:
    """Start a new browser with its profile in the directory `profile`."""
    commands_in, commands_out = os.pipe()
    answers_in, answers_out = os.pipe()

    def as_pipe() -> None:
        # the browser reads commands from 3 and writes answers to 4; our descriptors may have the same numbers
        read, write = os.dup(commands_in), os.dup(answers_out)
        high_read, high_write = (_high(one) for one in (read, write))
        os.dup2(high_read, 3)
        os.dup2(high_write, 4)

    silent = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    process = subprocess.Popen(
        [*_COMMAND.split(), f"--user-data-dir={profile}"], close_fds=False, preexec_fn=as_pipe, **silent,
    )  # fmt: skip
    try:
        os.close(commands_in)
        os.close(answers_out)
        yield Browser(answers_in, commands_out)
    finally:
        process.terminate()
        process.wait(timeout=20)
        os.close(commands_out)
        os.close(answers_in)


def _high(descriptor: int) -> int:
    """Return a copy of the descriptor above the reserved numbers."""
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10)
