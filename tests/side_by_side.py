"""Small fleets in one store, each a cluster: all are attributed together and queried one by one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.store.connection import Store
from tests.replay.cases.words import at
from tests.replay.edits import move
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_book, write_config
from tests.replay.result import unpaid
from tests.replay.series import Series

#: Yields a fleet and its scrapes, receives the program's answer, and compares it with the truth.
Scene = Generator[tuple[Fleet, list[Series]], Any, None]


def asked_names(request: pytest.FixtureRequest) -> set[str] | None:
    """Return the `name` of each collected case of the module; None if one of its tests may use all cases."""
    calls = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    names = [call.params.get("name") if call else None for call in calls]
    return None if None in names else set(names)


class Scenes:
    """The scenes of a test module; its module-scoped fixture `scenes` calls `start`."""

    def __init__(self) -> None:
        self.bodies: dict[str, Callable[[], Scene]] = {}

    def __call__(self, *cases: tuple[Any, ...]) -> Callable[[Callable[..., Scene]], Callable[..., None]]:
        """Make a test of a scene, or one for each of `cases`, the scene's arguments."""

        def test_of(body: Callable[..., Scene]) -> Callable[..., None]:
            names = [f"{body.__name__[5:]}_{number}" for number, _ in enumerate(cases or [()])]
            for name, case in zip(names, cases or [()], strict=True):
                self.bodies[name] = lambda case=case: body(*case)  # type: ignore[misc]

            @pytest.mark.parametrize("name", names, ids=range(len(names)))
            def test(name: str, scenes: Mapping[str, tuple[Scene, Any]]) -> None:
                scene, answers = scenes[name]
                with pytest.raises(StopIteration):
                    scene.send(answers)

            test.__doc__ = body.__doc__
            return test

        return test_of

    @contextmanager
    def start(
        self,
        folder: Path,
        view: Callable[[Config, Store, str], Any],
        hours: float,
        asked: set[str] | None = None,
    ) -> Iterator[dict[str, tuple[Scene, Any]]]:
        """Yield every requested scene with `view` of the configuration, the store and its cluster in the first hours."""
        begun = {name: body() for name, body in self.bodies.items() if asked is None or name in asked}
        if not begun:
            yield {}
            return
        nodes, series, described, settings = [], [], {}, ""
        for name, scene in begun.items():
            described, scraped, *more = next(scene)
            settings += "".join(more)
            nodes += [{**node, "cluster": name} for node in described["nodes"]]
            series += move(scraped, name)
        everything = {**described, "nodes": nodes}
        config = write_config(everything, folder, write_book(folder), settings=settings)
        store = load(everything, series, config)
        pipeline.attribute(
            config, store, Period(*(datetime.fromtimestamp(at(hour), UTC) for hour in (0, hours)))
        )
        assert not unpaid(store)
        with store.read():  # an open store is quick to open again
            yield {name: (scene, view(config, store, name)) for name, scene in begun.items()}
