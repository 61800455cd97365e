"""Fixtures that several kinds of tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.replay.server import prometheus_over, require_prometheus
from tests.shared import SHARED

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("any_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any_machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runs", type=int, default=40, help="how many random runs tests/faults draws")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under CI=true a skipped test of what lies in ../shared is a failure, where that lies there."""
    report = yield
    if report.skipped and item.get_closest_marker("shared") and SHARED.is_dir() and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} may not be skipped where {SHARED} lies there: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output is as wide as it is in a pipe, whatever terminal the tests are started from; tests of widths set COLUMNS."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def prometheus_server(tmp_path: Path) -> Iterator[Callable[[dict[str, Any]], str]]:
    """A function from a described fleet to the URL of a real Prometheus that scraped it.

    Skips where the programs are missing; fails under CI=true, where they must be there.
    """
    require_prometheus()
    with ExitStack() as stack:
        count = iter(range(100))

        def serve(fleet: dict[str, Any]) -> str:
            return stack.enter_context(prometheus_over(fleet, tmp_path / f"prometheus-{next(count)}"))

        yield serve


@pytest.fixture(scope="session", autouse=True)
def one_command_line() -> Iterator[None]:
    """CliRunner puts all commands together for each invocation; once is enough."""
    from functools import cache

    import typer.testing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", cache(typer.testing._get_command))
        yield
