"""Words and patterns that plain English does without, counted by kind in everything that people read.

    python -m tests.prose               counts by kind and area
    python -m tests.prose FILE …        each occurrence in these files or folders: path:line: kind: text

Prose is comments, docstrings and texts of several words in Python; comments in SQL and TOML; Markdown without its code;
templates without their tags; and the names of tests. The counts have ceilings in tests/ratchets.toml.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
AREAS = ("gpucost", "reports", "docs", "tests", "README.md", "CHANGELOG.md")
KINDS = {
    "banned": r"told|tells?|telling|said|says?|asked|dear(?:er|est)?|besides?|mend(?:s|ed)?|whoever",
    "nobody": r"nobody|no one|nothing(?= (?:is|was|has|had|can|will|else|of|that|to|in|\w+s)\b)",
    "clause_as_noun": r"what(?:ever)?(?![-‑ ]ifs?\b)(?=\s)|(?:of|by|for|to|with|is|and|or|but|than|at|in|from|over|on) who"
    r"|(?<![\w,] )who(?= (?:has|have|had|is|are|was|holds?|held|uses?|used|pays?|paid|runs?|ran|gets?|wants?|does|did|can)\b)",
    "where": r"where",
    "is_no": r"(?:is|are|was|were|be|being|been) no",
    "lies": r"stands?|stood|lies|lie|lay|comes? to|came to",
    "those_that": r"those (?:that|of|which|who|whose|with|without|in|from|by|for)|those (?:it|they|we|you|a|the|no)"
    r"|ones? (?:that|which|who|whose)|that (?:of|which)",
    "begins_with_of": r"(?-i:(?<=[.!?:] )Of|^Of)",
    "else": r"(?<=[,;:] )else",
}
_QUOTED = re.compile(r"`[^`\n]*`|“[^”\n]*”")
_FENCE = re.compile(r"(?ms)^[ ]*```.*?^[ ]*```")
_TAGS = re.compile(r"(?s)\{[#%{].*?[#%}]\}|<style.*?</style>|<script.*?</script>|<[^>]*>")
_SQL = re.compile(
    r"(?i)\b(?:select|from|update|delete|insert|using|exists|count)\b[^.]*\bwhere\b|^.{0,4}where\b[^.]*[=<>]|[*,]\s*from\b"
)
_PLACEHOLDER = re.compile(r"\{[^{}\n]*\}")
# Python 3.12 and later give the texts of an f-string as tokens of their own.
_STRINGS = (tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING))
_SEPARATE = re.compile(r"\s+")


def python_prose(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment and each string of several words, and the names of tests."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
        elif token.type in _STRINGS and " " in token.string.strip() and not _SQL.search(token.string):
            yield token.start[0], _PLACEHOLDER.sub("", token.string)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.replace("_", " ")


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each piece of prose in a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from python_prose(text)
    elif path.suffix in (".sql", ".toml"):
        mark = "--" if path.suffix == ".sql" else "#"
        for number, line in enumerate(text.splitlines(), 1):
            if mark in line:
                yield number, line.split(mark, 1)[1]
    elif path.suffix in (".md", ".j2"):
        hidden = _FENCE if path.suffix == ".md" else _TAGS
        text = hidden.sub(lambda found: "\n" * found[0].count("\n"), text)
        for number, line in enumerate(text.splitlines(), 1):
            yield number, _QUOTED.sub("`x`", line)


def occurrences(path: Path) -> Iterator[tuple[int, str, str]]:
    """Line, kind and surrounding text of each occurrence in a file."""
    for number, text in prose(path):
        for kind, pattern in _PATTERNS.items():
            for found in pattern.finditer(text):
                if kind == "clause_as_noun" and _is_question(text, found.end()):
                    continue
                line = number + text.count("\n", 0, found.start())
                near = text[max(0, found.start() - 40) : found.end() + 40]
                yield line, kind, _SEPARATE.sub(" ", near)


def _is_question(text: str, end: int) -> bool:
    """Whether the sentence around a position ends with a question mark."""
    ending = re.search(r"[.?!](?=\s|$|[\"'*)])", text[end:])
    return ending is not None and ending[0] == "?"


def files(places: tuple[str, ...] = AREAS) -> Iterator[Path]:
    """The files with prose in these files and folders."""
    for place in places:
        path = ROOT / place
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (
            one for one in found if one.suffix in (".py", ".sql", ".toml", ".md", ".j2") and one != _THIS
        )


def counts() -> dict[str, int]:
    """Occurrences of each kind in the whole project."""
    found = Counter(kind for path in files() for _, kind, _ in occurrences(path))
    return {f"prose_{kind}": found[kind] for kind in KINDS}


_THIS = Path(__file__)
_PATTERNS = {kind: re.compile(rf"\b(?:{words})\b", re.IGNORECASE) for kind, words in KINDS.items()}


def main(arguments: list[str]) -> int:
    """Prints counts by kind and area, or each occurrence in the files named."""
    if arguments:
        for path in files(tuple(arguments)):
            for line, kind, near in occurrences(path):
                sys.stdout.write(f"{path.relative_to(ROOT)}:{line}: {kind}: {near}\n")
        return 0
    by_area = {
        area: Counter(kind for path in files((area,)) for _, kind, _ in occurrences(path)) for area in AREAS
    }
    sys.stdout.write(f"{'':16}" + "".join(f"{area:>14}" for area in AREAS) + f"{'all':>10}\n")
    for kind in KINDS:
        row = [by_area[area][kind] for area in AREAS]
        sys.stdout.write(f"{kind:16}" + "".join(f"{count:>14,}" for count in row) + f"{sum(row):>10,}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
