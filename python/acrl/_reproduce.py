"""Reproduction of the paper."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from . import _acrl
from ._former_names import reject_renamed_arguments
from ._result import Result, html_table, seeded
from ._run import _plots
from ._specification import Named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Claim", "ReproducedFigure", "Reproduction", "reproduce"]


@dataclass(frozen=True)
class ReproducedFigure:
    """A figure of the paper: the worst verdict of its claims, and its files in the folder."""

    name: str
    title: str
    verdict: Literal["pass", "deviates", "fail"]
    claims: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper. See ``acrl reproduce`` in docs/json.md; ``place`` is ``where`` there."""

    id: str
    place: str
    figure: str | None
    says: str
    threshold: str
    measured: str
    metrics: Named
    verdict: Literal["pass", "deviates", "fail"]
    why: str | None
    settings: str
    seed: int


@dataclass(frozen=True, repr=False)
class Reproduction(Result):
    """Every figure and claim of the paper, with a verdict on each. True if no claim fails."""

    quick: bool
    seed: int
    seconds: float = field(compare=False)
    complete: bool
    #: Holds report.html, report.json, figures/ and data/.
    folder: str
    figures: tuple[ReproducedFigure, ...]
    claims: tuple[Claim, ...]
    passed: int
    deviates: int
    failed: int
    _data: dict[str, Any] = field(default_factory=dict, compare=False)
    _page: _acrl.Report | None = field(default=None, compare=False)

    @classmethod
    def _from_json(cls, data: dict[str, Any], page: _acrl.Report | None = None) -> Reproduction:
        def drawn(entry: dict[str, Any]) -> ReproducedFigure:
            return ReproducedFigure(**{**entry, "claims": tuple(entry["claims"]), "files": tuple(entry["files"])})

        def claim(entry: dict[str, Any]) -> Claim:
            rest = {key: value for key, value in entry.items() if key not in ("where", "figures")}
            metrics = Named(entry.get("metrics", entry.get("figures", {})))
            return Claim(**{**rest, "place": entry["where"], "metrics": metrics})

        figures = tuple(drawn(entry) for entry in data["figures"])
        claims = tuple(claim(entry) for entry in data["claims"])
        return cls(**{**data, "figures": figures, "claims": claims}, _data=data, _page=page)

    def __bool__(self) -> bool:
        return self.complete and self.failed == 0

    def _table(self) -> tuple[str, list[dict[str, Any]]]:
        shown = ["figure", "verdict", "says", "threshold", "measured", "why", "place"]
        return "claim", [{"claim": c.id, **{name: getattr(c, name) for name in shown}} for c in self.claims]

    def plot(self) -> Figure:
        """Verdicts on the claims of each figure; needs matplotlib. Opens no window."""
        drawn: Figure = _plots("Reproduction").reproduction(self)
        return drawn

    def _repr_html_(self) -> str:
        rows = [[c.says, c.id, c.figure or "", c.verdict] for c in self.claims]
        title = f"{self.passed} pass, {self.deviates} deviate with a stated reason, {self.failed} fail"
        return html_table(title, f"(report in {self.folder})", ["the paper says", "claim", "figure", "verdict"], rows)

    def __repr__(self) -> str:
        counts = f"{self.passed} pass, {self.deviates} deviate with a stated reason, {self.failed} fail"
        return f"<acrl.Reproduction {counts}; report in {self.folder!r}>"


@reject_renamed_arguments
def reproduce(
    out_dir: str | os.PathLike[str] = "runs/reproduce",
    *,
    quick: bool = False,
    only: Sequence[str] = (),
    seed: int = 0,
) -> Reproduction:
    """Reproduces the paper: every figure and claim, with a verdict on each; ``acrl reproduce``.

    Takes some minutes of all cores, with ``quick`` less than two.

    Args:
        out_dir: Folder for report.html, report.json, the figures as SVG and PNG, and their data as CSV.
        quick: Fewer runs, and fewer readings of unclear settings.
        only: These figures ("fig1" to "fig7", with their claims) and claims only.
        seed: The seed of all randomness.
    """
    names = [only] if isinstance(only, str) else list(only)
    data, page = _acrl.reproduce(out_dir, quick, names, seeded(seed) or 0)
    return Reproduction._from_json(json.loads(data), page)
