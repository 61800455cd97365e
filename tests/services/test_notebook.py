"""The example notebook, executed like in Jupyter, in the folder of a sample fleet."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.services
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    from tests.sample.build import build, last_months

    build(tmp_path, last_months(datetime(2026, 11, 21, tzinfo=UTC)), lambda _: None)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") for cell in notebook.cells), (
        "outputs are not stored: they would become outdated"
    )
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    texts = [
        output["data"]["text/plain"]
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    assert len(texts) >= 8
    assert any("86,888.73 USD" in text for text in texts) and texts[-1].startswith("(3,")
