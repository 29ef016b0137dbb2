"""The notebooks of examples/ run from the first cell to the last."""

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

mpl.use("Agg")

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    """Those with code."""
    notebook = json.loads(path.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["name"]) == (4, "python3")
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_there_are_notebooks() -> None:
    assert {"finite-models", "first-steps"} <= {path.stem for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for k, cell in enumerate(cells(path)):
        source = "".join(cell["source"])
        last = source.rstrip().splitlines()[-1]
        exec(compile(source, f"{path.name}[{k}]", "exec"), names)
        # What a notebook would show at the end of a cell, it can show.
        if last.isidentifier() or last.endswith(".plot()"):
            shown = eval(last, names)
            show = getattr(shown, "_repr_png_", None) or getattr(shown, "_repr_html_", None) or shown.__repr__
            assert show()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_committed_without_outputs(path: Path) -> None:
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells(path))
