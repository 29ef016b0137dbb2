"""Common parts of results: tables, JSON, pages."""

from __future__ import annotations

import html
import importlib.util
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from . import _acrl
from ._acrl import Objective, Requirement
from ._errors import InputError
from ._model import FiniteModel
from ._policy import Policy
from ._specification import as_objective, as_requirements

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["Result", "Specification", "write_page"]


class Specification(NamedTuple):
    """Objective and requirements."""

    objective: Objective | None
    requirements: tuple[Requirement, ...]

    @classmethod
    def _from_json(cls, data: Mapping[str, Any]) -> Specification:
        objective, requirements = data["objective"], data["requirements"]
        return cls(
            None if objective is None else Objective(objective["reward"], objective["goal"]),
            tuple(Requirement(r["name"], r["bound"], r["direction"], r["reward"]) for r in requirements),
        )


class Result:
    """A result with a table, a JSON object and a page."""

    _data: dict[str, Any]
    _page: _acrl.Report | None

    def _table(self) -> tuple[str, list[dict[str, Any]]]:
        """The name of the index, and the rows."""
        raise NotImplementedError

    def _report(self) -> _acrl.Report:
        if self._page is None:
            raise InputError(f"there is no report of {self!r}")
        return self._page

    @overload
    def to_dataframe(self, library: Literal["pandas"]) -> pd.DataFrame: ...
    @overload
    def to_dataframe(self, library: Literal["polars"]) -> pl.DataFrame: ...
    @overload
    def to_dataframe(self, library: None = None) -> Any: ...
    def to_dataframe(self, library: Literal["pandas", "polars"] | None = None) -> Any:
        """The table as a data frame.

        Args:
            library: "pandas" or "polars"; default pandas if it is installed, else polars.
        """
        return dataframe(*self._table(), library)

    def to_json(self, indent: int | None = None) -> str:
        """The object that the program prints with ``--json``."""
        return json.dumps(self._data, indent=indent, ensure_ascii=False)

    def save_report(self, path: str | os.PathLike[str]) -> Path:
        """Writes the report, and returns the path of its page.

        Args:
            path: A file that ends in .html, which will be one page that opens without a network; or a folder, which
                gets report.html, report.json, each figure as SVG and PNG, and its numbers as CSV.
        """
        return write_page(self._report(), path)


def write_page(report: _acrl.Report, path: str | os.PathLike[str]) -> Path:
    """Writes a page to a file that ends in .html, or with its figures and data to a folder."""
    target = Path(path)
    if target.suffix == ".html":
        _acrl.write_atomically(target, report.to_html().encode())
        return target
    report.write(target)
    return target / "report.html"


def dataframe(key: str, rows: Sequence[Mapping[str, Any]], library: str | None) -> Any:
    """Rows as a frame of pandas, with ``key`` as its index, or of polars."""
    if library not in (None, "pandas", "polars"):
        raise InputError(f"the library is {library!r}, expected 'pandas' or 'polars'")
    found = next((name for name in ("pandas", "polars") if importlib.util.find_spec(name)), None)
    library = library or found
    if library is None:
        raise ImportError("to_dataframe needs pandas or polars: pip install pandas")
    columns = {name: [row[name] for row in rows] for name in (rows[0] if rows else [key])}
    try:
        if library == "polars":
            import polars as pl

            return pl.DataFrame(columns)
        import pandas as pd

        return pd.DataFrame(columns).set_index(key)
    except ImportError as error:
        raise ImportError(f"to_dataframe('{library}') needs {library}: pip install {library}") from error


def html_table(
    title: str, note: str, header: Sequence[str], rows: Iterable[Sequence[str | bool | float | None]]
) -> str:
    """A small table that inherits its colours, for light and dark themes. All text is escaped."""
    line = "border-bottom:1px solid rgba(128,128,128,.4)"
    text = [f'<div style="color:inherit"><p style="margin:.3em 0">{_strong(title)} {html.escape(note)}</p>']
    text.append('<table style="border-collapse:collapse;background:transparent;color:inherit"><thead><tr>')
    text += [f'<th style="{_side(i)};{line}">{html.escape(name)}</th>' for i, name in enumerate(header)]
    text.append("</tr></thead><tbody>")
    for row in rows:
        cells = (f'<td style="{_side(i)};{line}">{_cell(cell)}</td>' for i, cell in enumerate(row))
        text.append(f'<tr style="background:transparent">{"".join(cells)}</tr>')
    return "".join(text) + "</tbody></table></div>"


def _strong(text: str) -> str:
    return f"<b>{html.escape(text)}</b>"


def _side(column: int) -> str:
    return f"text-align:{'right' if column else 'left'};padding:.2em .7em"


def _cell(cell: str | bool | float | None) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        # Two colours that can be told apart, and are readable on white and on black.
        colour, word = ("#1a9e6e", "yes") if cell else ("#e0611f", "no")
        return f'<span style="color:{colour};font-weight:600">{word}</span>'
    return html.escape(cell if isinstance(cell, str) else figure(cell))


def figure(number: float) -> str:
    """A number with a few digits."""
    return f"{number:.5g}" if abs(number) >= 1e-12 else "0"


def relation(direction: str, bound: float) -> str:
    """The bound with its relation."""
    return f"{'≥' if direction == 'at_least' else '≤'} {bound:.6g}"


def named(what: object) -> str:
    """The name in messages and on pages."""
    if isinstance(what, FiniteModel):
        return f"a model of {what.states} states"
    if isinstance(what, Policy):
        return what._path or "a policy"
    return os.fspath(what)  # type: ignore[call-overload, no-any-return]


def request(
    verb: str,
    what: object,
    objective: Objective | str | None,
    requirements: Requirement | Iterable[Requirement],
    given: Mapping[str, Any],
) -> tuple[_acrl.Model | str, str, str, Objective | None, list[Requirement]]:
    """The arguments that all verbs of the native half share; ``given`` are further ones, for the page."""
    subject, asked = native(what), as_requirements(requirements)
    shown = {"objective": objective, "requirements": asked or None, **given}
    return subject, named(what), call(verb, what, shown), as_objective(objective), asked


def call(verb: str, what: object, given: Mapping[str, Any]) -> str:
    """The call that reproduces a result, for its page."""
    first = "model" if isinstance(what, FiniteModel) else repr(named(what))
    words = [f"{name}={value!r}" for name, value in given.items() if value is not None and value != ()]
    return f"acrl.{verb}({', '.join([first, *words])})"


def native(what: object) -> _acrl.Model | str:
    """The argument of the native half."""
    if isinstance(what, FiniteModel):
        return what._model
    if isinstance(what, (str, os.PathLike, Policy)):
        return named(what)
    expected = "an acrl.FiniteModel, an acrl.Policy, a path or a bundled problem's name"
    raise InputError(f"{what!r} is no problem, model or policy, expected {expected}")


def whole(name: str, value: int | None, least: int, most: int) -> int | None:
    """A whole number in a range, or None."""
    if value is None:
        return None
    if isinstance(value, bool) or int(value) != value or not least <= value <= most:
        raise InputError(f"{name} is {value!r}, expected a whole number from {least} to {most}")
    return int(value)


def positive(name: str, value: float | None) -> float | None:
    """A number above 0, or None."""
    if value is None:
        return None
    number = float(value)
    if not 0 < number < float("inf"):
        raise InputError(f"{name} is {value!r}, expected a number greater than 0")
    return number


def settings(
    steps: int | None, runs: int | None, step_size: float | None, epoch: int | str | None, tolerance: float | None
) -> tuple[int | None, int | None, float | None, int | None, float | None]:
    """Settings of an execution, checked; epoch 0 is "auto"."""
    if isinstance(epoch, str) and epoch != "auto":
        raise InputError(f"the epoch is {epoch!r}, expected a whole number or 'auto'")
    return (
        whole("steps", steps, 1, 10**15),
        whole("runs", runs, 1, 10**6),
        positive("step_size", step_size),
        0 if isinstance(epoch, str) else whole("epoch", epoch, 1, 10**15),
        positive("tolerance", tolerance),
    )


def seeded(seed: int | None) -> int | None:
    """A seed, or None."""
    return whole("seed", seed, 0, 2**64 - 1)
