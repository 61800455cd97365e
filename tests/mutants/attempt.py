"""Runs tests on broken code: in a fork of this process if it can apply the change, otherwise in a copy of the project."""

from __future__ import annotations

import ast
import gc
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests import of_all_workers
from tests.mutants import ROOT

# Parts that only stores with answers depend on, those stores, and parts that no empty store depends on.
ANSWERS = ("whatif", "questions", "render")
ANSWERED = ("sealed", "restated")
STAGES = ("collect", "inventory", "price", "attribute", "publish")
COPIED = ("gpucost", "pricing", "reports", "tests", "pyproject.toml")
# limit of CPU seconds for the tests of one mutant
PATIENCE = 120
# Errors, raised in the package, of changes that cannot run: they prove nothing about the tests.
_CRASHES = """
    ParserException BinderException CatalogException ConversionException SyntaxError NameError TypeError
    AttributeError UnboundLocalError InternalException FatalException"""
# pytest's summary: the failed test and the reason
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+).*? - (\w*)", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """`test` noticed the change by an assertion (or its own error), or the change `crashes`, or (neither) it survived."""

    test: str | None = None
    crashes: bool = False


class _Unseen(Exception):
    """A fork cannot apply the change: it affects code that runs at import."""


class _Outcome:
    """A plugin of the fork that records the first failure."""

    test: str | None = None
    crashes = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        report = yield
        if call.excinfo is not None and report.failed and self.test is None:
            self.test = item.nodeid
            # hypothesis raises several at once
            error = call.excinfo.value
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            last = call.excinfo.traceback[-1].path
            is_own = isinstance(last, Path) and ROOT / "tests" in last.parents
            self.crashes = type(error).__name__ in _CRASHES.split() and not is_own
        return report


def fork(path: Path, text: str, tests: Sequence[pytest.Item]) -> Verdict | None:
    """Return the verdict on `path` with another text; None if a fork cannot apply it. Tests stop at the first failure."""
    with tempfile.NamedTemporaryFile("r") as file:
        child = os.fork()
        if not child:
            _in_child(Path(file.name), path, text, tests)
        os.waitpid(child, 0)
        answer = file.read()
    if not answer:  # it was killed: it timed out or crashed the process
        return Verdict(crashes=True)
    found = json.loads(answer)
    return None if found == "unseen" else Verdict(**found)


def _in_child(answer: Path, path: Path, text: str, tests: Sequence[pytest.Item]) -> None:
    # CPU time, since the machine may be busy; then wall time, for code that waits
    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE + 10))
    signal.alarm(10 * PATIENCE)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    try:
        outcome = _Outcome()
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
            seen = _change(path, text)
            part = path.relative_to(ROOT).parts[1]
            of_all_workers.may_keep = lambda name: (
                name not in ANSWERED if part in ANSWERS else name == "empty" and part in STAGES
            )
            config, session = tests[0].config, tests[0].session
            session.items[:] = tests  # stores of many fleets contain only the fleets of these tests
            config._tmp_path_factory._basetemp = Path(folder)  # type: ignore[attr-defined]
            config.pluginmanager.register(outcome)
            for test, following in zip(tests, [*tests[1:], None], strict=True):
                config.hook.pytest_runtest_protocol(item=test, nextitem=following)
                if outcome.test:
                    break
            if not outcome.test and not seen():
                raise _Unseen
            answer.write_text(json.dumps({"test": outcome.test, "crashes": outcome.crashes}))
    except _Unseen:
        answer.write_text('"unseen"')
    except BaseException:
        answer.write_text(json.dumps({"test": None, "crashes": True}))
    finally:
        os._exit(0)


def _change(path: Path, text: str) -> Any:
    """Change a file for this process; return a function that returns whether the change took effect."""
    return _change_sql(path, text) if path.suffix == ".sql" else _change_python(path, text)


def _change_sql(path: Path, text: str) -> Any:
    from gpucost import engine

    engine.text.cache_clear()
    own, read = Path.read_text, list[bool]()

    def read_text(self: Path, *args: Any, **more: Any) -> str:
        if self == path:
            read.append(True)
            return text
        return own(self, *args, **more)

    Path.read_text = read_text  # type: ignore[method-assign]
    return lambda: bool(read)


def _change_python(path: Path, text: str) -> Any:
    old, new = (compile(source, str(path), "exec", dont_inherit=True) for source in (path.read_text(), text))
    before = _functions(old)
    changed = {name: code for name, code in _functions(new).items() if before.get(name) != code}
    if not changed:
        return _change_texts(path, new)
    if _differs_outside(old, new) or _runs_at_import(text, {name for name, _ in changed}):
        raise _Unseen
    for function in _defined[str(path)]:
        code = changed.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
        if code is not None:
            with suppress(ValueError):
                function.__code__ = code
    return lambda: True


def _change_texts(path: Path, new: CodeType) -> Any:
    """Change the texts of a module, including imported copies; a passing test does not prove that this was complete."""
    module = import_module(_module(path))
    before, after = vars(module), dict(vars(module))
    try:
        exec(new, after)  # noqa: S102 - code of our own
    except Exception:
        raise _Unseen from None
    changed = {
        name: value
        for name, value in after.items()
        if isinstance(value, str | re.Pattern) and value != before.get(name)
    }
    old = {name: before.get(name) for name in changed}
    for importing in list(sys.modules.values()):
        for name, value in changed.items():
            if getattr(importing, "__dict__", {}).get(name, sys) is old[name]:
                setattr(importing, name, value)
    return lambda: False


def _module(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")


# The functions of files that mutants change: a search of all objects in each fork would copy their memory.
_defined: dict[str, list[FunctionType]] = {}


def find_functions(paths: set[Path]) -> None:
    """Look up the functions of files, before the first fork."""
    for path in sorted(paths):
        # commands and questions are only imported at a call
        import_module(_module(path))
        _defined[str(path)] = []
    gc.unfreeze()  # frozen objects are listed again
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and function.__code__.co_filename in _defined:
            _defined[function.__code__.co_filename].append(function)
    gc.freeze()


def _runs_at_import(text: str, names: set[str]) -> bool:
    """Return whether a module calls one of its own functions at import."""
    own = [node for node in ast.parse(text).body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    calls = [node for one in own for node in ast.walk(one) if isinstance(node, ast.Call)]
    return any(isinstance(call.func, ast.Name) and call.func.id in names for call in calls)


def _functions(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """Return every function in a module's code, by qualified name and first line."""
    found = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found[inner.co_qualname, inner.co_firstlineno] = inner
            found |= _functions(inner)
    return found


def _differs_outside(old: CodeType, new: CodeType) -> bool:
    """Return whether modules differ outside of functions, in code that runs at import."""

    def own(code: CodeType) -> Iterator[object]:
        yield code.co_code
        for constant in code.co_consts:
            if not isinstance(constant, CodeType):
                yield constant
            elif not constant.co_flags & 0x02:  # the body of a class
                yield from own(constant)

    return list(own(old)) != list(own(new))


def copy(path: Path, text: str, tests: Sequence[str]) -> Verdict:
    """Return the verdict from a copy of the project, in its own process."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        for part in COPIED:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part, copy_function=os.link)
            else:
                shutil.copy2(ROOT / part, folder / part)
        changed = folder / path.relative_to(ROOT)
        changed.unlink()
        changed.write_text(text)
        words = "-m pytest -x -q -n 0 -p no:cacheprovider --tb=short"
        command = [sys.executable, *words.split(), *tests]
        # wide, so that the summary contains the reason; the copy precedes an installed gpucost
        environment = os.environ | {"COLUMNS": "400", "PYTHONPATH": str(folder)}
        try:
            result = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=10 * PATIENCE
            )
        except subprocess.TimeoutExpired:
            return Verdict(crashes=True)
    if result.returncode == 0:
        return Verdict()
    failed = _FAILED.search(result.stdout)
    return Verdict(failed[1] if failed else None, not failed or failed[2] in _CRASHES.split())
