"""The tables read and written in each .sql file's header match the statements, according to DuckDB's own parser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

import gpucost

PACKAGE = Path(gpucost.__file__).parent
_TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\"[^\"]*\"|[A-Za-z_$][\w$]*|\s+|.", re.DOTALL)
#: A table changed in place does not count as read.
_CHANGED = "SELECT * FROM (VALUES (1)) AS changed "
_NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_]+)?")


def words(statement: str) -> list[tuple[int, str]]:
    """Return the statement's tokens without comments, each with its depth of parentheses."""
    depth, found = 0, []
    for piece in _TOKEN.findall(statement):
        depth -= piece == ")"
        if not piece.startswith("--"):
            found.append((depth, piece))
        depth += piece == "("
    return found


def split(statement: str, *keywords: str) -> list[str]:
    """Split the statement at the first occurrence of each keyword, in this order, outside of parentheses."""
    parts, sought = [""], list(keywords)
    for depth, token in words(statement):
        if depth == 0 and sought and token.upper() in sought:
            del sought[: sought.index(token.upper()) + 1]
            parts.append("")
        parts[-1] += token
    return parts


@dataclass
class Touched:
    """Tables that statements read, create and change, and the functions they call."""

    reads: set[str] = field(default_factory=set)
    makes: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)

    @property
    def writes(self) -> set[str]:
        return self.makes | self.changes


def statement_of(text: str, touched: Touched) -> str:
    """Note the tables that a statement writes; return a query that reads the same tables, or an empty text."""
    text = re.sub(r"(?i)\bWITH NO DATA\b", "", "".join(token for _, token in words(text))).strip().rstrip(";")
    head = re.sub(r"\s+", " ", text)
    name = r"(?:\w+\.)?(\w+)"

    def begins(pattern: str, target: set[str]) -> bool:
        match = re.match(f"(?i){pattern} {name}", head)
        target |= {match[1].lower()} if match else set()
        return match is not None

    new = r"CREATE (?:OR REPLACE )?(?:TEMP(?:ORARY)? )?"
    if begins(f"{new}(?:TABLE|VIEW)(?: IF NOT EXISTS)?", touched.makes):
        return "".join(split(text, "AS")[1:])[2:]
    if begins(f"{new}MACRO", touched.makes):
        body = split(text, "AS")[1][2:].strip()
        return body[5:] if re.match(r"(?i)TABLE\b", body) else f"SELECT {body}"
    if begins("INSERT (?:OR REPLACE |OR IGNORE )?INTO", touched.changes):
        body = re.sub(rf"(?is)^INSERT\s+(OR\s+\w+\s+)?INTO\s+{name}\s*(\([^)]*\))?\s*(BY\s+\w+)?", "", text)
        return re.split(r"(?i)\bON\s+CONFLICT\b", body)[0]
    if begins("DELETE FROM", touched.changes):
        parts = [re.sub(r"(?i)^USING\b", ", ", part) for part in split(text, "USING", "WHERE")[1:]]
        return "".join([_CHANGED, *parts])
    if begins("UPDATE", touched.changes):
        sets, *more = split(split(text, "SET")[1][3:], "FROM", "WHERE")
        parts = [re.sub(r"(?i)^FROM\b", ", ", part) for part in more]
        return "".join([_CHANGED.replace("*", sets), *parts])
    if begins("MERGE INTO", touched.changes):
        return "".join([_CHANGED, "JOIN", split(text, "USING", "WHEN")[1][5:]])
    if begins("(?:ALTER TABLE|DROP (?:TABLE|VIEW))(?: IF EXISTS)?", touched.changes):
        return ""
    if re.match(r"(?i)COPY \(", head):
        return split(text[4:], "TO")[0].strip()[1:-1]
    if re.match(r"(?i)SET VARIABLE", head):
        return f"SELECT {text.partition('=')[2]}"
    return text


def touched_by(con: duckdb.DuckDBPyConnection, path: Path) -> Touched:
    """Return the tables and functions of all statements of a file."""
    found = Touched()
    for statement in duckdb.extract_statements(path.read_text(encoding="utf-8")):
        made = set(found.makes)
        query = statement_of(statement.query, found).strip()
        if query:
            ((answer,),) = con.execute("SELECT json_serialize_sql($1)", [query]).fetchall()
            tree = json.loads(answer)
            assert not tree["error"], f"{path}: {tree['error_message']}: {query}"
            reads = set()
            _read(tree["statements"], frozenset(), reads, found.calls)
            found.reads |= reads - made
    return found


def _read(node: Any, known: frozenset[str], tables: set[str], functions: set[str]) -> None:
    """Collect the tables of a parsed query, except the ones in its own WITH, and the functions that it calls."""
    if isinstance(node, list):
        for one in node:
            _read(one, known, tables, functions)
    elif isinstance(node, dict):
        for one in (node.get("cte_map") or {}).get("map", []):
            is_recursive = one["value"]["query_node"]["type"] == "RECURSIVE_CTE_NODE"
            _read(one["value"], known | {one["key"].lower()} if is_recursive else known, tables, functions)
            known |= {one["key"].lower()}
        if node.get("type") == "BASE_TABLE" and node["table_name"].lower() not in known:
            tables.add(node["table_name"].lower())
        if "function_name" in node:
            functions.add(node["function_name"].lower())
        for key, one in node.items():
            if key != "cte_map":
                _read(one, known, tables, functions)


def header(path: Path) -> tuple[set[str], set[str]]:
    """Return the tables and macros that a file's header lists as read, and as written."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line.partition(":")[0] for line in lines[:3]] == ["-- reads", "-- writes", "-- invariant"], path
    read, written = (re.sub(r"\([^)]*\)", "", line.partition(":")[2]) for line in lines[:2])
    tables = [
        clause.partition(":")[0] for clause in read.split(";") if not clause.strip().startswith("variable")
    ]
    reads = {item.strip() for clause in tables for item in re.split(r",| or ", clause)}
    clauses = [] if written.startswith(" nothing;") else written.split(";")
    writes = {name for clause in clauses for name in _names(re.sub(r"^\s*the macros? ", "", clause))}
    return {item for item in reads if _NAME.fullmatch(item)} - {"nothing"}, writes


def _names(clause: str) -> Iterator[str]:
    """Yield the tables named at the beginning of a clause: nodes and pods in `nodes.zone, pods: …`."""
    for item in clause.partition(":")[0].split(", "):
        if not _NAME.fullmatch(item.strip()) or item.strip() == "nothing":
            return
        yield item.strip().partition(".")[0]


def test_headers_list_the_tables_their_statements_read_and_write() -> None:
    wrong = []
    with duckdb.connect() as con:
        for path in sorted(PACKAGE.rglob("*.sql")):
            touched = touched_by(con, path)
            reads, writes = header(path)
            # a table changed in place may be listed as read, and so may a macro
            more = reads - touched.reads - touched.changes - touched.calls
            differences = {
                "reads": (touched.reads - reads, more),
                "writes": (touched.writes - writes, writes - touched.writes),
            }
            wrong += [
                f"{path.relative_to(PACKAGE)}: {line} lacks {sorted(lacks)} and has {sorted(has)} too many"
                for line, (lacks, has) in differences.items()
                if lacks or has
            ]
    assert not wrong, "\n".join(wrong)
