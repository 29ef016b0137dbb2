"""Methods beside each other."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from . import _acrl
from ._acrl import Objective, Requirement
from ._model import FiniteModel
from ._result import Result, Specification, call, html_table, named, native, relation, seeded, settings, whole
from ._run import _plots
from ._vocabulary import Named, as_objective, as_requirements

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
    #: The same of running averages, after the first tenth of a run.
    transient: float | None
    #: The step from which on no running average was behind by more than the tolerance, in the slowest run.
    met_from: int | None
    #: No requirement is missed by more than the tolerance, in any run.
    met: bool
    #: The runs of which that is so, and how many there were.
    runs_met: tuple[int, int]
    note: str
    #: The numbers of which a trained policy is made.
    numbers: int | None = None


@dataclass(frozen=True, repr=False)
class Comparison(Result):
    """A-CRL beside the methods it improves on. Its fields are those of ``acrl compare --json``."""

    steps: int
    #: Of each training.
    runs: int
    #: Of each method.
    trainings: int
    #: Training steps of learning methods.
    budget: int
    tolerance: float
    step_size: float
    seed: int
    specification: Specification
    #: The best possible objective, if it is known.
    optimum: float | None
    methods: tuple[MethodResult, ...]
    #: What trained, on continuous problems.
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
            standing = {"met": entry.met, "violation": entry.violation, "transient": entry.transient}
            rows.append({"method": entry.method, **entry.averages, **worst, **standing, "met_from": entry.met_from})
        return "method", rows

    def plot(self) -> Figure:
        """Every average of every method against what is required; needs matplotlib. Opens no window."""
        drawn: Figure = _plots("Comparison").comparison(self)
        return drawn

    def _repr_html_(self) -> str:
        objective, requirements = self.specification
        aims = [] if objective is None else [f"{objective.reward} ({'max' if objective.sign > 0 else 'min'})"]
        aims += [f"{r.name} {relation(r.direction, r.bound)}" for r in requirements]
        rows: list[list[str | bool | float | None]] = []
        rows += [[entry.method, *entry.averages.values(), entry.met] for entry in self.methods]
        note = f"({self.runs} runs of {self.steps} steps)"
        return html_table("Averages over runs", note, ["", *aims, "met in every run"], rows)

    def __repr__(self) -> str:
        met = [entry.method for entry in self.methods if entry.met]
        return f"<acrl.Comparison of {len(self.methods)} methods; all requirements met by: {'; '.join(met) or 'none'}>"


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
    budget: int | None = None,
    methods: Sequence[str] = (),
    trainings: int | None = None,
) -> Comparison:
    """Compares A-CRL with the methods it improves on, with the same steps and seeds: ``acrl compare``.

    >>> import acrl
    >>> found = acrl.compare("monitoring", methods=["fixed_weights"])
    >>> [(entry.method, entry.met) for entry in found.methods]
    [('a-crl (exact)', True), ('fixed weights', False), ('exact optimum', True)]

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
        budget: Environment steps on which each learning method may train.
        methods: These only: a_crl, fixed_weights, dual_descent, primal_dual, pid_lagrangian (continuous problems),
            primal_averaging.
        trainings: Trainings of each method, on continuous problems; default 3.
    """
    given: dict[str, Any] = {"objective": objective, "requirements": requirements, "steps": steps, "runs": runs}
    given |= {"seed": seed, "step_size": step_size, "epoch": epoch, "tolerance": tolerance, "budget": budget}
    given |= {"methods": list(methods) or None, "trainings": trainings}
    subject, asked = native(problem), as_requirements(requirements)
    given["requirements"] = asked or None
    data, page = _acrl.compare(
        subject,
        named(problem),
        call("compare", problem, given),
        as_objective(objective),
        asked,
        settings(steps, runs, step_size, epoch, tolerance),
        seeded(seed),
        whole("budget", budget, 1, 10**15),
        [methods] if isinstance(methods, str) else list(methods),
        whole("trainings", trainings, 1, 1000),
    )
    return Comparison._from_json(json.loads(data), page)
