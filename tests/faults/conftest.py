"""Fixtures of all disturbances of commands; `--runs` sets the number of tries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.disk import Disk, built
from tests.faults.scenes import COMMANDS, Scene, scenes

#: From this number of runs on, every case is tried.
ALL = 1000


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scene" in metafunc.fixturenames:
        metafunc.parametrize("scene", COMMANDS, indirect=True)


@pytest.fixture(scope="session")
def all_scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Scene]]:
    with scenes(tmp_path_factory.mktemp("scenes").resolve()) as found:
        yield found


@pytest.fixture
def scene(request: pytest.FixtureRequest, all_scenes: dict[str, Scene]) -> Scene:
    return all_scenes[request.param]


@pytest.fixture
def runs(request: pytest.FixtureRequest) -> int:
    """Return the number of tries that take seconds each."""
    return int(request.config.getoption("runs"))


@pytest.fixture(scope="session")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    folder = tmp_path_factory.mktemp("disk")
    return Disk(built(folder), folder)
