"""Programs that tests run and Python packages do not bring."""

from __future__ import annotations

import os
import shutil

import pytest


def require(*programs: str, package: str) -> None:
    """Skip the test where one of `programs` is not installed; fail it under CI=true, where they must be there.

    `package` is the Debian package that brings them.
    """
    missing = [program for program in programs if shutil.which(program) is None]
    if not missing:
        return
    message = f"not installed: {', '.join(missing)} (Debian: apt-get install {package})"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)
