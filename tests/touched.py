"""A plugin (`-p tests.touched`) that records each test's package files and CPU seconds for `tests.mutants`."""

from __future__ import annotations

import ast
import importlib.machinery
import json
import marshal
import os
import resource
import sys
from collections.abc import Generator, Sequence
from hashlib import sha256
from importlib.abc import MetaPathFinder
from types import CodeType, ModuleType
from typing import Any

import pytest

from tests.mutants import RECORD, ROOT

# Modules compiled with notes, by source.
_CODE = RECORD.with_name("touched-code")
#: Files touched by the running code: paths from the root of the project.
_touched: set[str] = set()
# By fixture that outlives a test: its files and seconds.
_fixtures: dict[int, tuple[set[str], float]] = {}


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module so that each function records its calls."""

    def get_code(self, _: str) -> CodeType:
        source = self.get_data(self.path)
        kept = _CODE / sha256(source + self.path.encode() + sys.version.encode()).hexdigest()
        if kept.exists():
            return marshal.loads(kept.read_bytes())  # noqa: S302 - of our own making
        tree = ast.parse(source)
        note = f"__touched__({os.path.relpath(self.path, ROOT)!r})"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                has_doc = ast.get_docstring(node, clean=False) is not None
                # at the function's own line, so that tracebacks stay unchanged
                made = ast.increment_lineno(ast.parse(note), node.lineno - 1)
                node.body[has_doc:has_doc] = made.body
        code = compile(tree, self.path, "exec", dont_inherit=True)
        _CODE.mkdir(parents=True, exist_ok=True)
        new = kept.with_suffix(f".{os.getpid()}")
        new.write_bytes(marshal.dumps(code))
        new.replace(kept)
        return code

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__touched__"] = _touched.add
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if name.partition(".")[0] != "gpucost":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


sys.meta_path.insert(0, _Finder())


def seconds() -> float:
    """Return CPU seconds used by this process and its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def pytest_configure(config: pytest.Config) -> None:
    from gpucost import engine

    def noting(own: Any, path: Any) -> Any:
        def text(*names: str) -> str:
            _touched.add(path(*names))
            return str(own(*names))

        text.cache_clear = own.cache_clear  # type: ignore[attr-defined]
        return text

    engine.text = noting(engine.text, lambda package, name: f"{package.replace('.', '/')}/{name}.sql")
    RECORD.mkdir(parents=True, exist_ok=True)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    if worker == "main":  # it starts before the others
        for old in RECORD.glob("*.jsonl"):
            old.unlink()
    config.stash[_LOG] = (RECORD / f"{worker}.jsonl").open("w")


_LOG = pytest.StashKey[Any]()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    if fixturedef.scope == "function":
        return (yield)
    outer, begun = set(_touched), seconds()
    _touched.clear()
    try:
        return (yield)
    finally:
        _fixtures[id(fixturedef)] = (set(_touched), seconds() - begun)
        _touched.update(outer)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _touched.clear()
    begun = seconds()
    result = yield
    own, shared = seconds() - begun, 0.0
    touched = set(_touched)
    for fixtures in item._fixtureinfo.name2fixturedefs.values():  # type: ignore[attr-defined]
        files, cost = _fixtures.get(id(fixtures[-1]), (set(), 0.0))
        touched |= files
        shared += cost
    row = {
        "test": item.nodeid,
        "seconds": round(own, 3),
        "shared": round(shared, 3),
        "files": sorted(touched),
    }
    log = item.config.stash[_LOG]
    log.write(json.dumps(row) + "\n")
    log.flush()
    return result
