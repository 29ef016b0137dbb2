"""Comparison of A-CRL with baselines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from . import _acrl
from ._acrl import Objective, Requirement
from ._former_names import reject_renamed_arguments
from ._model import FiniteModel
from ._result import Result, Specification, html_table, relation, request, seeded, settings, whole
from ._run import _plots
from ._specification import Named, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Comparison", "MethodResult", "compare"]


@dataclass(frozen=True)
class MethodResult:
    """One method: means and worst values over runs. See ``acrl compare`` in docs/json.md."""

    method: str
    averages: Named
    worst: Named
    #: The largest shortfall, in units of ranges, in the worst run; None without requirements.
    violation: float | None
    #: The largest shortfall of running averages after the first tenth of a run, likewise.
    transient: float | None
    #: The step from which on every running average is within the tolerance, in the slowest run.
    met_from: int | None
    #: The verdict on all requirements in all runs.
    verdict: Verdict
    #: The number of runs that meet all requirements, and the number of runs.
    runs_met: tuple[int, int]
    note: str
    #: Number of parameters of a trained policy.
    numbers: int | None = None

    @property
    def met(self) -> bool:
        """True if no requirement is violated in any run."""
        return self.verdict != "violated"


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """A-CRL and the baselines. Its fields are those of ``acrl compare --json``."""

    steps: int
    #: Runs of each trained policy.
    runs: int
    #: Trainings of each method, with different seeds.
    train_seeds: int
    #: Environment steps of each training.
    train_steps: int
    tolerance: float
    step_size: float
    seed: int
    specification: Specification
    #: The optimal objective, if it is known.
    optimum: float | None
    methods: tuple[MethodResult, ...]
    #: The learner, on continuous problems.
    learner: str | None = None
    _data: dict[str, Any] = field(default_factory=dict, compare=False)
    _page: _acrl.Report | None = field(default=None, compare=False)

    @classmethod
    def _from_json(cls, data: dict[str, Any], page: _acrl.Report | None = None) -> Comparison:
        def method(entry: dict[str, Any]) -> MethodResult:
            changed = {"averages": Named(entry["averages"]), "worst": Named(entry["worst"])}
            return MethodResult(**{**entry, **changed, "runs_met": tuple(entry["runs_met"])})

        changed = {
            "specification": Specification._from_json(data["specification"]),
            "methods": tuple(method(entry) for entry in data["methods"]),
        }
        return cls(**{**data, **changed}, _data=data, _page=page)

    def __getitem__(self, method: str) -> MethodResult:
        for entry in self.methods:
            if entry.method == method:
                return entry
        raise KeyError(f"{method!r} is not among {', '.join(entry.method for entry in self.methods)}")

    def _table(self) -> tuple[str, list[dict[str, Any]]]:
        rows = []
        for entry in self.methods:
            worst = {f"{name} (worst run)": value for name, value in entry.worst.items()}
            standing = {"verdict": entry.verdict, "violation": entry.violation, "transient": entry.transient}
            rows.append({"method": entry.method, **entry.averages, **worst, **standing, "met_from": entry.met_from})
        return "method", rows

    def plot(self) -> Figure:
        """Averages of every method against the bounds; needs matplotlib. Opens no window."""
        drawn: Figure = _plots("Comparison").comparison(self)
        return drawn

    def _repr_html_(self) -> str:
        objective, requirements = self.specification
        aims = [] if objective is None else [f"{objective.reward} ({'max' if objective.sign > 0 else 'min'})"]
        aims += [f"{r.name} {relation(r.direction, r.bound)}" for r in requirements]
        rows: list[list[str | bool | float | None]] = []
        rows += [[entry.method, *entry.averages.values(), entry.verdict.replace("_", " ")] for entry in self.methods]
        note = f"({self.runs} runs of {self.steps} steps)"
        return html_table("Averages over runs", note, ["", *aims, "verdict"], rows)

    def __repr__(self) -> str:
        met = [entry.method for entry in self.methods if entry.met]
        return f"<acrl.Comparison of {len(self.methods)} methods; all requirements met by: {'; '.join(met) or 'none'}>"


@reject_renamed_arguments
def compare(
    problem: FiniteModel | str | os.PathLike[str],
    *,
    objective: Objective | str | None = None,
    requirements: Requirement | Iterable[Requirement] = (),
    steps: int | None = None,
    runs: int | None = None,
    seed: int | None = None,
    step_size: float | None = None,
    epoch: int | Literal["auto"] | None = None,
    tolerance: float | None = None,
    train_steps: int | None = None,
    methods: Sequence[str] = (),
    train_seeds: int | None = None,
) -> Comparison:
    """Compares A-CRL with baselines, with the same steps and seeds: ``acrl compare``.

    >>> import acrl
    >>> found = acrl.compare("monitoring", methods=["fixed_weights"])
    >>> [(entry.method, entry.met) for entry in found.methods]
    [('A-CRL (exact)', True), ('fixed weights', False), ('exact optimum', True)]

    Args:
        problem: A finite model, a problem file (.toml; continuous ones train each method), a model file (.drn or
            .npz), or the name of a bundled problem.
        objective: As for `acrl.run`.
        requirements: As for `acrl.run`.
        steps: Steps of each run; default the problem's, and 200,000 at least.
        runs: Runs of each method; default the problem's, and 3 at least.
        seed: As for `acrl.run`.
        step_size: As for `acrl.run`.
        epoch: As for `acrl.run`.
        tolerance: As for `acrl.run`.
        train_steps: Environment steps of each training.
        methods: These only: a_crl, fixed_weights, dual_descent, primal_dual, pid_lagrangian (continuous problems),
            primal_averaging.
        train_seeds: Number of trainings of each method, on continuous problems; default 3.
    """
    given: dict[str, Any] = {"steps": steps, "runs": runs, "seed": seed, "step_size": step_size, "epoch": epoch}
    given |= {"tolerance": tolerance, "train_steps": train_steps, "methods": list(methods) or None}
    data, page = _acrl.compare(
        request("compare", problem, objective, requirements, {**given, "train_seeds": train_seeds}),
        settings(steps, runs, step_size, epoch, tolerance),
        seeded(seed),
        whole("train_steps", train_steps, 1, 10**15),
        [methods] if isinstance(methods, str) else list(methods),
        whole("train_seeds", train_seeds, 1, 1000),
    )
    return Comparison._from_json(json.loads(data), page)
