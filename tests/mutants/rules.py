"""Mutants by rule: every place in a file at which a rule can be broken."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

from tests.mutants import ROOT
from tests.text_tables import words


@dataclass(frozen=True)
class Change:
    """Replacement of characters [start, end) of a file by `new`."""

    file: str
    rule: str
    start: int
    end: int
    new: str
    name: str

    def apply(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]


# Replacement of a match of a pattern in SQL: a text with groups, or a function of the match.
Replacement = str | Callable[[re.Match[str]], str]
_SWAPPED = words("""
    min=max max=min least=greatest greatest=least arg_min=arg_max arg_max=arg_min min_by=max_by max_by=min_by lag=lead lead=lag
    first_value=last_value last_value=first_value floor=ceil ceil=floor bool_or=bool_and bool_and=bool_or sum=max""")
_TESTED = r"[\w.']+(?: IS (?:NOT )?(?:NULL|TRUE)| [<>=!]+ [\w.']+)"
_OPERAND = r"(?:[\w.]+(?![\w.(])|\d[\d_.e]*)"
_SQL: tuple[tuple[str, str, Replacement], ...] = (
    ("bound", r"(?<![<>=!\-|])(?:<=|>=|<(?![>=@&|<\-])|>(?![>=]))", lambda m: m[0][0] if len(m[0]) == 2 else m[0] + "="),
    ("extreme", rf"\b({'|'.join(_SWAPPED)})(?=\()", lambda m: _SWAPPED[m[0]]),
    ("filter", rf"(?<=AND )(?:NOT )?{_TESTED}(?=\)|\s*\n|;| AND| OR| THEN)", "true"),
    ("filter", rf"(?<=WHERE )(?:NOT )?(?:{_TESTED}|[\w.]+)(?=\)|\s*\n|;| AND)", "true"),
    ("factor", rf" [*/] {_OPERAND}(?! ?\()", ""),
    ("sign", r"(?<=[\w)]) ([+-]) (?=[\w(])", lambda m: " - " if m[1] == "+" else " + "),
    ("join key", r"(?<=USING \()([\w\", ]+), [\w\"]+(?=\))", r"\1"),
    ("outer join", r"\bLEFT JOIN\b", "JOIN"),
    ("either", r"(?<= )OR(?= )", "AND"),
    ("order", r" DESC\b", ""),
    ("condition of a sum", r" FILTER \((?:WHERE )?[^()]*(?:\([^()]*\)[^()]*)*\)", ""),
    ("distinct", r"\bDISTINCT (?!ON|FROM)", ""),
    ("default", r"\bcoalesce\(([\w.]+), [\w.']+\)", r"\1"),
    ("in", r"\bNOT IN\b", "IN"),
)  # fmt: skip
_MASKED = re.compile(r"--[^\n]*|'(?:[^']|'')*'|/\*.*?\*/", re.DOTALL)
# window frames, and BETWEEN
_FRAME = re.compile(
    r"\bROWS BETWEEN[^)]*|\bRANGE BETWEEN[^)]*|\bBETWEEN [^\n]*? AND|CREATE [^\n;]*?\(\n(?:    \w+ +[A-Z][^\n]*\n)+"
)


def _of_sql(text: str) -> Iterator[tuple[str, int, int, str]]:
    masked = _MASKED.sub(lambda m: "'" + "q" * (len(m[0]) - 2) + "'" if m[0][0] == "'" else _blank(m), text)
    masked = _FRAME.sub(_blank, masked)
    for rule, pattern, replacement in _SQL:
        for match in re.finditer(pattern, masked):
            if "\x00" in match[0] or _in_text(masked, match.start()):
                continue
            yield (
                rule,
                match.start(),
                match.end(),
                replacement(match) if callable(replacement) else match.expand(replacement),
            )


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", "\x00", match[0])


def _in_text(masked: str, at: int) -> bool:
    line = masked[masked.rfind("\n", 0, at) + 1 : at]
    return line.count("'") % 2 == 1


_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in", ast.NotIn: "in",
    ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_CALLS = words("min=max max=min sum=max any=all all=any")


class _Python(ast.NodeVisitor):
    """Collects changes in function bodies, except messages, annotations and defaults."""

    def __init__(self, text: str) -> None:
        self.found: list[tuple[str, int, int, str]] = []
        self.depth = 0
        self.lines = [0]
        for line in text.encode().splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.raw = text.encode()

    def at(self, line: int, column: int) -> int:
        return len(self.raw[: self.lines[line - 1] + column].decode())

    def span(self, node: ast.AST) -> tuple[int, int]:
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def add(self, rule: str, start: int, end: int, new: str) -> None:
        if self.depth:
            self.found.append((rule, start, end, new))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.depth += 1
        for statement in node.body:
            self.visit(statement)
        self.depth -= 1

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Messages are not mutated."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Errors are not mutated either."""

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            start, end = self.span(node.left)[1], self.span(node.comparators[0])[0]
            self.add("bound" if isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE) else "equality", start, end,
                     f" {_COMPARED[type(node.ops[0])]} ")  # fmt: skip
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        is_text = any(isinstance(side, ast.Constant | ast.JoinedStr) and not isinstance(getattr(side, "value", 0), int | float)
                      for side in (node.left, node.right))  # fmt: skip
        between = (self.span(node.left)[1], self.span(node.right)[0])
        if isinstance(node.op, ast.Add | ast.Sub) and not is_text:
            self.add("sign", *between, " - " if isinstance(node.op, ast.Add) else " + ")
        if isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv) and not is_text:
            self.add("factor", self.span(node.left)[1], self.span(node)[1], "")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        new = "or" if isinstance(node.op, ast.And) else "and"
        self.add("either", self.span(node.values[0])[1], self.span(node.values[1])[0], f" {new} ")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            self.add("extreme", *self.span(node.func), _CALLS[node.func.id])
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self.add("condition", *self.span(node.test), "True")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.add("condition", *self.span(node.test), "True")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self.add("filter", *self.span(condition), "True")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.add("not", *self.span(node), "(" + self.raw.decode()[slice(*self.span(node.operand))] + ")")
        self.generic_visit(node)


def _of_python(text: str) -> Iterator[tuple[str, int, int, str]]:
    visitor = _Python(text)
    visitor.visit(ast.parse(text))
    for rule, start, end, new in visitor.found:
        if "\n" not in text[start:end]:
            yield rule, start, end, new


@cache
def changes(file: str) -> tuple[Change, ...]:
    """Return all changes of the rules in a file, in an order that does not depend on its other lines."""
    text = (ROOT / file).read_text(encoding="utf-8")
    found, seen = [], dict[str, int]()
    for rule, start, end, new in _of_sql(text) if file.endswith(".sql") else _of_python(text):
        line_start, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        line = " ".join(
            [
                *text[line_start:start].split(),
                f"[{text[start:end].strip()} → {new.strip()}]",
                *text[end:line_end].split(),
            ]
        )
        name = f"{file}: {rule}: {line}"
        seen[name] = seen.get(name, 0) + 1
        name += f" ({seen[name]})" * (seen[name] > 1)
        found.append(Change(file, rule, start, end, new, name))
    return tuple(sorted(found, key=lambda change: sha256(change.name.encode()).digest()))
