"""Counts that should fall, compared with ceilings that never rise.

    python -m tests.ratchets            fail if a count is above its ceiling in tests/ratchets.toml
    python -m tests.ratchets --lower    lower ceilings to current counts

Token counts exclude comments and docstrings.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests import prose

ROOT = Path(__file__).parents[1]
CEILINGS = Path(__file__).with_suffix(".toml")
LONGEST = 60
_COUNTS = """
    python_tokens cli_tokens functions_over_60_lines imports_in_functions comprehensions_of_several_for nested_comprehensions"""
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_COMMENTS = {".sql": r"--[^\n]*", ".toml": r"(?m)^\s*#[^\n]*", ".j2": r"(?s)\{#.*?#\}"}
_WORD = re.compile(r"""'(?:[^']|'')*'|"[^"]*"|\w+|[^\w\s]""")


def python_tokens(text: str, tree: ast.Module) -> int:
    """Return the token count of a module."""
    documentation = set(_documentation(tree))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(
        one.type not in _LAYOUT and not (one.type == tokenize.STRING and one.start[0] in documentation)
        for one in tokens
    )


def _documentation(tree: ast.Module) -> Iterator[int]:
    """Yield the first lines of docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            yield node.body[0].lineno


def code_lines(text: str) -> int:
    """Return the number of lines that are neither empty nor a comment."""
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in text.splitlines())


def shapes(tree: ast.Module) -> Iterator[str]:
    """Yield the name of a count for each construct in a module that should become rarer."""
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            if (node.end_lineno or node.lineno) - node.lineno >= LONGEST:
                yield "functions_over_60_lines"
            inner = [part for part in ast.walk(node) if isinstance(part, ast.Import | ast.ImportFrom)]
            yield from ["imports_in_functions"] * len(inner)
        if isinstance(node, _COMPREHENSIONS):
            if len(node.generators) > 1:
                yield "comprehensions_of_several_for"
            if any(isinstance(part, _COMPREHENSIONS) for part in ast.walk(node) if part is not node):
                yield "nested_comprehensions"


def counts() -> dict[str, float]:
    """Return every count by its name in the file of ceilings."""
    found = dict.fromkeys(_COUNTS.split(), 0)
    lines = 0
    for path in sorted((ROOT / "gpucost").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        tokens = python_tokens(text, tree)
        lines += code_lines(text)
        found["python_tokens"] += tokens
        found["cli_tokens"] += tokens if "cli" in path.relative_to(ROOT).parts[:2] else 0
        for name in shapes(tree):
            found[name] += 1
    found["tokens_per_line"] = round(found["python_tokens"] / lines, 2)
    for suffix, comments in _COMMENTS.items():
        texts = [
            path.read_text(encoding="utf-8")
            for folder in ("gpucost", "reports")
            for path in (ROOT / folder).rglob(f"*{suffix}")
        ]
        found[f"{suffix[1:]}_tokens"] = sum(len(_WORD.findall(re.sub(comments, "", text))) for text in texts)
    return found | prose.counts()


def main(arguments: list[str]) -> int:
    """Print counts and ceilings; return 1 if a count is above its ceiling."""
    ceilings = tomllib.loads(CEILINGS.read_text(encoding="utf-8")) if CEILINGS.exists() else {}
    found = counts()
    above = {name for name, count in found.items() if count > ceilings.get(name, count)}
    for name, count in found.items():
        mark = "  above its ceiling" if name in above else ""
        sys.stdout.write(f"{name:32}{count:>12,g}{ceilings.get(name, count):>12,g}{mark}\n")
    if "--lower" in arguments:
        lowest = {name: min(count, ceilings.get(name, count)) for name, count in found.items()}
        text = "# Ceilings of tests/ratchets.py. They only fall: python -m tests.ratchets --lower\n"
        CEILINGS.write_text(
            text + "".join(f"{name} = {count:g}\n" for name, count in lowest.items()), encoding="utf-8"
        )
        return 0
    if above:
        sys.stderr.write("write less, or more plainly; ceilings are not raised\n")
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
