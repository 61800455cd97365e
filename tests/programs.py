"""Programs that tests run and that are not in Python packages."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest


def require(*programs: str, package: str) -> None:
    """Skip the test if one of `programs` is not installed; fail it under CI=true.

    `package` is their Debian package.
    """
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        _absent(f"not installed: {', '.join(missing)} (Debian: apt-get install {package})")


def program(variable: str, name: str) -> str:
    """Return the program in `variable`, otherwise `name` on the PATH; skip the test without one.

    Under CI=true, the test fails instead: `.ci/install-programs` installs the program and prints the variable.
    """
    missing = f"{variable} does not name {name}, and it is not installed (.ci/install-programs)"
    return os.environ.get(variable) or shutil.which(name) or _absent(missing)


def _absent(message: str) -> NoReturn:
    """Skip the test; fail it under CI=true."""
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def listening(command: list[str], port: int, log: Path, seconds: float = 30) -> Iterator[str]:
    """Yield the URL of a program that listens on this loopback port and writes to `log`."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + seconds
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if time.monotonic() > deadline or process.poll() is not None:
                pytest.fail(log.read_text())
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # some programs wait for connections that clients keep open
            process.kill()
            process.wait()
