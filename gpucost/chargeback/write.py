"""Writes a bundle into a directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from gpucost.chargeback import index
from gpucost.chargeback.build import Bundle
from gpucost.chargeback.manifest import FILE, manifest_of, sentence, to_json
from gpucost.report.html import Block
from gpucost.report.html import render as html
from gpucost.report.render_data import to_csv, to_parquet
from gpucost.report.render_data import to_json as report_json
from gpucost.report.render_markdown import render as markdown
from gpucost.report.view import ReportView, Row


def write(
    bundle: Bundle, folder: Path, previous: dict[str, Any] | None, blocks: Mapping[str | None, Sequence[Block]]
) -> dict[str, Any]:
    """Write every file of `bundle` into `folder`, where its FOCUS files are already; returns its manifest.

    `previous` is the manifest of the bundle that it takes the place of, if any; `blocks` stand on the pages of teams, and those
    of None on the page of all teams and on the index.
    """
    manifest = manifest_of(bundle, previous)
    (folder / "teams").mkdir()
    lines: dict[str | None, list[Row]] = {}
    for row in bundle.ledger.rows:
        lines.setdefault(row.keys["team"], []).append(row)
    for team in manifest["teams"]:
        own = replace(bundle.ledger, rows=tuple(lines.get(team["team"], ())))
        _report(folder / team["file"], _stated(bundle.teams[team["team"]], bundle), own, blocks[team["team"]])
    _report(folder / "all-teams", _stated(bundle.overview, bundle), bundle.overview, blocks[None])
    _put(folder / "ledger.csv", to_csv(bundle.ledger))
    to_parquet(bundle.ledger, folder / "ledger.parquet")
    _put(folder / "index.md", index.to_markdown(manifest, bundle.overview.coverage))
    _put(folder / "index.html", index.to_html(manifest, bundle.overview.coverage, blocks[None]))
    manifest["files"] = [_file(path, folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    _put(folder / FILE, to_json(manifest))
    return manifest


def _stated(view: ReportView, bundle: Bundle) -> ReportView:
    state = bundle.state
    told = replace(view.coverage, state=state.name, reasons=state.reasons, reconciliation=sentence(bundle))
    return replace(view, subtitle=f"{view.subtitle}; {state.name}", coverage=told)


def _report(stem: Path, view: ReportView, lines: ReportView, blocks: Sequence[Block]) -> None:
    _put(stem.with_name(f"{stem.name}.md"), markdown(view))
    _put(stem.with_name(f"{stem.name}.html"), html(view, blocks=blocks))
    _put(stem.with_name(f"{stem.name}.json"), report_json(view))
    _put(stem.with_name(f"{stem.name}.csv"), to_csv(lines))


def _put(path: Path, text: str) -> None:
    # names from a cluster can hold halves of surrogate pairs, which no file can
    path.write_text(text, encoding="utf-8", errors="replace", newline="\n")


def _file(path: Path, folder: Path) -> dict[str, Any]:
    content = path.read_bytes()
    return {"file": path.relative_to(folder).as_posix(), "bytes": len(content), "sha256": sha256(content).hexdigest()}
