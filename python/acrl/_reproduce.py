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

__all__ = ["Claim", "Criterion", "ReproducedFigure", "Reproduction", "reproduce"]


@dataclass(frozen=True)
class ReproducedFigure:
    """A figure of the paper: the worst verdict of its claims, and its files in the folder."""

    name: str
    title: str
    verdict: Literal["pass", "erratum", "deviates", "fail"]
    claims: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class Criterion:
    """A threshold of a claim, and the number measured for it."""

    metric: str
    relation: Literal["at_least", "at_most"]
    bound: float
    #: None if it was not measured.
    measured: float | None
    holds: bool


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
    verdict: Literal["pass", "erratum", "deviates", "fail"]
    why: str | None
    settings: str
    seed: int
    criteria: tuple[Criterion, ...] = ()
    evidence: tuple[Criterion, ...] = ()
    sample: str = ""
    full_sample: str | None = None


@dataclass(frozen=True, repr=False)
class Reproduction(Result):
    """Every figure and claim of the paper, with a verdict on each. True if no claim fails.

    Errata of the paper and stated deviations are not failures.
    """

    quick: bool
    seed: int
    seconds: float = field(compare=False)
    complete: bool
    #: Holds report.html, report.json, figures/ and data/.
    folder: str
    figures: tuple[ReproducedFigure, ...]
    claims: tuple[Claim, ...]
    headline: str
    passed: int
    errata: int
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
            checks = {key: tuple(Criterion(**c) for c in entry.get(key, ())) for key in ("criteria", "evidence")}
            return Claim(**{**rest, **checks, "place": entry["where"], "metrics": metrics})

        figures = tuple(drawn(entry) for entry in data["figures"])
        claims = tuple(claim(entry) for entry in data["claims"])
        # Results of earlier versions have no errata.
        passed, deviates, failed = (data[key] for key in ("passed", "deviates", "failed"))
        since = {"errata": 0, "headline": f"{passed} reproduced, {deviates} deviate, {failed} fail"}
        return cls(**{**since, **data, "figures": figures, "claims": claims}, _data=data, _page=page)

    def __bool__(self) -> bool:
        return self.complete and self.failed == 0

    def _table(self) -> tuple[str, list[dict[str, Any]]]:
        shown = ["figure", "verdict", "says", "threshold", "measured", "sample", "why", "place"]
        return "claim", [{"claim": c.id, **{name: getattr(c, name) for name in shown}} for c in self.claims]

    def plot(self) -> Figure:
        """Verdicts on the claims of each figure; needs matplotlib. Opens no window."""
        drawn: Figure = _plots("Reproduction").reproduction(self)
        return drawn

    def _repr_html_(self) -> str:
        rows = [[c.says, c.id, c.figure or "", c.verdict] for c in self.claims]
        header = ["the paper says", "claim", "figure", "verdict"]
        return html_table(self.headline, f"(report in {self.folder})", header, rows)

    def __repr__(self) -> str:
        return f"<acrl.Reproduction {self.headline}; report in {self.folder!r}>"


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
