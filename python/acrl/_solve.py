"""The exact answer to a finite problem."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _acrl
from ._acrl import Objective, Requirement
from ._errors import InputError
from ._model import FiniteModel
from ._progress import Progress
from ._result import Result, Specification, call, figure, html_table, named, native, relation
from ._run import _plots
from ._vocabulary import Named, as_objective, as_requirements

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Component", "EndComponent", "Relaxation", "Round", "Solution", "Sweep", "SweepPoint", "solve", "sweep"]


@dataclass(frozen=True)
class Component:
    """A deterministic policy, and the share of time that is spent on it.

    ``rule[s]`` is the action in state s: its column in arrays and .npz files, or for a model from another file its
    number among the state's actions.
    """

    weight: float
    values: Named
    rule: NDArray[np.int64] = field(repr=False, compare=False)


class Relaxation(NamedTuple):
    """By how much bounds would have to give, in units of each reward's range."""

    #: All of them together; None if that does not help.
    uniform: float | None
    #: One alone; None where that does not help.
    alone: dict[str, float | None]


@dataclass(frozen=True)
class EndComponent:
    """A part of a model that an agent cannot leave again, and what it has of the expected optimum."""

    #: How many states it has, and the name of the first of them.
    states: int
    first: str
    #: The probability to end there.
    mass: float
    #: The long-run averages there; empty where nothing ends.
    values: Named
    #: The long-run averages of one who stays there and meets the requirements; None if that cannot be.
    almost_sure: Named | None
    #: The probability to settle there when the requirements are to be met on almost every path.
    almost_sure_mass: float | None


@dataclass(frozen=True, repr=False)
class Solution(Result):
    """What can be had, and what it costs. Everything in the signs in which it was asked for; true if it can be had.

    Its fields are those of ``acrl solve --json``.
    """

    status: Literal["optimal", "infeasible"]
    #: The long-run average of the objective; None if there is none, or the requirements cannot be met.
    objective: float | None
    #: The objective is proved to be between these.
    bounds: tuple[float, float] | None
    gap: float | None
    #: The long-run averages of the mixture.
    values: Named
    #: The price of each requirement: what the objective loses per unit by which the bound is tightened.
    multipliers: Named
    #: From the least to the largest price that is right; they agree where it is unique.
    multiplier_ranges: dict[str, tuple[float, float]]
    mixture: tuple[Component, ...]
    #: The objective on almost every path; differs where the model has parts that cannot be left.
    almost_sure: float | None
    #: Requirements that cannot be met together; without any one of them the others could.
    conflict: tuple[str, ...]
    #: If they cannot be met: y ≥ 0 with y·(V - c) < 0 for every policy.
    certificate: Named
    #: If they cannot be met: what would have to give.
    relax: Relaxation | None
    specification: Specification
    #: Whether one end component holds all that can happen in the long run; None if the requirements cannot be met.
    communicating: bool | None
    #: What each end component has of the expected optimum, where there are several.
    components: tuple[EndComponent, ...]
    #: Whether the gap that was asked for is reached: not if it was stopped, or if nothing more was found to close it.
    complete: bool
    states: int
    choices: int
    rounds: int | None
    seconds: float = field(compare=False)
    _data: dict[str, Any] = field(default_factory=dict, compare=False)
    _page: _acrl.Report | None = field(default=None, compare=False)

    @classmethod
    def _from_json(
        cls, data: dict[str, Any], rules: Sequence[NDArray[np.int64]], page: _acrl.Report | None = None
    ) -> Solution:
        multipliers, bounds, relax = Named(data.get("multipliers", {})), data.get("bounds"), data.get("relax")
        ranges = {name: (price, price) for name, price in multipliers.items()}
        for name, (low, high) in data.get("multiplier_ranges", {}).items():
            ranges[name] = (0.0 if low is None else low, math.inf if high is None else high)
        mixture = zip(data.get("mixture", ()), rules, strict=True)
        return cls(
            status=data["status"],
            objective=data.get("objective"),
            bounds=None if bounds is None else (bounds[0], bounds[1]),
            gap=data.get("gap"),
            values=Named(data.get("values", {})),
            multipliers=multipliers,
            multiplier_ranges=ranges,
            mixture=tuple(Component(entry["weight"], Named(entry["values"]), rule) for entry, rule in mixture),
            almost_sure=data.get("almost_sure"),
            conflict=tuple(data.get("conflict", ())),
            certificate=Named(data.get("certificate", {})),
            relax=None if relax is None else Relaxation(relax["uniform"], relax["alone"]),
            specification=Specification._from_json(data["specification"]),
            communicating=data.get("communicating"),
            components=tuple(_end_component(entry) for entry in data.get("components", ())),
            complete=data.get("complete", True),
            states=data["states"],
            choices=data["choices"],
            rounds=data.get("rounds"),
            seconds=data["seconds"],
            _data=data,
            _page=page,
        )

    @property
    def feasible(self) -> bool:
        """Whether the requirements can be met."""
        return self.status == "optimal"

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """What was required."""
        return self.specification.requirements

    def __bool__(self) -> bool:
        return self.feasible

    def _table(self) -> tuple[str, list[dict[str, Any]]]:
        alone = {} if self.relax is None else self.relax.alone
        rows = [
            {
                "requirement": r.name,
                "direction": r.direction,
                "bound": r.bound,
                "value": self.values.get(r.name),
                "multiplier": self.multipliers.get(r.name),
                "conflict": r.name in self.conflict,
                "relax_alone": alone.get(r.name),
            }
            for r in self.requirements
        ]
        return "requirement", rows

    def plot(self) -> Figure:
        """Values against bounds, and prices; or what would have to give. Needs matplotlib. Opens no window."""
        drawn: Figure = _plots("Solution").solution(self)
        return drawn

    def _repr_html_(self) -> str:
        head = self.status if self.objective is None else f"{self.status}: {figure(self.objective)}"
        header = (
            ["requirement", "bound", "value", "price"] if self.feasible else ["requirement", "bound", "in conflict"]
        )
        rows: list[list[str | bool | float | None]] = []
        for r in self.requirements:
            cells: list[str | bool | float | None] = [r.name, relation(r.direction, r.bound)]
            if self.feasible:
                cells += [self.values[r.name], self.multipliers[r.name]]
            else:
                cells.append("yes" if r.name in self.conflict else "no")
            rows.append(cells)
        return html_table(head, f"({self.states} states)", header, rows)

    def __repr__(self) -> str:
        if not self.feasible:
            return f"<acrl.Solution infeasible: {', '.join(self.conflict)} are in conflict>"
        wanted = self.specification.objective
        best = "feasible" if wanted is None else f"optimal: {wanted.reward} {figure(self.values[wanted.reward])}"
        prices = ", ".join(f"{name} {figure(price)}" for name, price in self.multipliers.items())
        return f"<acrl.Solution {best}; prices {prices or 'none'}>"


def _end_component(entry: dict[str, Any]) -> EndComponent:
    alone = entry["almost_sure"]
    return EndComponent(
        states=entry["states"],
        first=entry["first"],
        mass=entry["mass"],
        values=Named(entry["values"] or {}),
        almost_sure=None if alone is None else Named(alone["values"]),
        almost_sure_mass=None if alone is None else alone["mass"],
    )


class Round(NamedTuple):
    """Where a solver stands. Everything in the signs in which it was asked for."""

    #: The policies generated so far.
    round: int
    #: Proved: the best objective is not below this; None while that is not known.
    lower: float | None
    #: Proved: it is not above this; None while that is not known.
    upper: float | None
    #: The relative gap between the two.
    gap: float | None
    seconds: float

    def __str__(self) -> str:
        if self.lower is None or self.upper is None or self.gap is None:
            found = "looking for a policy that meets the requirements"
        else:
            found = f"between {figure(self.lower)} and {figure(self.upper)}, gap {self.gap:.1e}"
        return f"solving: round {self.round}, {found}, {self.seconds:.0f} s"


def _look(bar: Progress, callback: Callable[[Round], object] | None) -> Callable[..., object]:
    def look(*numbers: Any) -> object:
        found = Round(*numbers)
        bar.round(str(found))
        return None if callback is None else callback(found)

    return look


def _checked(model: object) -> None:
    if not isinstance(model, (FiniteModel, str, os.PathLike)):
        raise InputError(f"the model is {model!r}, expected an acrl.FiniteModel, a path or a bundled problem's name")


def _watched(progress: bool | None) -> Progress:
    return Progress(sys.stderr.isatty() if progress is None else progress, None)


def solve(
    model: FiniteModel | str | os.PathLike[str],
    *,
    objective: Objective | str | None = None,
    requirements: Requirement | Iterable[Requirement] = (),
    gap: float = 1e-6,
    time_limit: float | None = None,
    policy: str | os.PathLike[str] | None = None,
    callback: Callable[[Round], object] | None = None,
    progress: bool | None = None,
) -> Solution:
    """The optimum of a finite problem, the price of each requirement, or what is in conflict.

    >>> import acrl
    >>> answer = acrl.solve("monitoring")
    >>> round(answer.objective, 6), {name: round(price, 6) for name, price in answer.multipliers.items()}
    (0.333333, {'r1': 1.0, 'r2': 1.0})
    >>> acrl.solve("monitoring", requirements=[acrl.at_least("r1", 0.55), acrl.at_least("r2", 0.55)]).conflict
    ('r1', 'r2')

    Args:
        model: A model; or a problem file (.toml), a model in Storm's explicit format (.drn) or as arrays (.npz, see
            `FiniteModel.save`), or the name of a bundled problem.
        objective: What to improve: a reward's name is maximised. Default what the file says.
        requirements: Replace those of the file on the same reward and side, or are added to them.
        gap: How close the proved bounds must be, relative to the objective.
        time_limit: Seconds after which the best answer so far is given, with the gap that is proved (``complete`` is
            False then). `acrl.SolveError` if no policy that meets the requirements was found by then.
        policy: A file (.safetensors) to write the answer to, for `acrl.run`.
        callback: Is told of every round; what it returns stops the solver, like the time limit, if it is False.
        progress: Whether to show a line on standard error; default if that is a terminal.
    """
    _checked(model)
    asked = as_requirements(requirements)
    given: dict[str, Any] = {"objective": objective, "requirements": asked or None, "gap": None if gap == 1e-6 else gap}
    given |= {"time_limit": time_limit, "policy": None if policy is None else os.fspath(policy)}
    if policy is not None and not os.fspath(policy).endswith(".safetensors"):
        raise InputError(f"the policy is {os.fspath(policy)!r}, expected a file name that ends in .safetensors")
    with _watched(progress) as bar:
        data, rules, page = _acrl.solve(
            native(model),
            named(model),
            call("solve", model, given),
            as_objective(objective),
            asked,
            gap,
            time_limit,
            policy,
            _look(bar, callback),
        )
    return Solution._from_json(json.loads(data), rules, page)


@dataclass(frozen=True)
class SweepPoint:
    """The answer for one bound. Everything in the signs in which it was asked for."""

    bound: float
    status: Literal["optimal", "infeasible", "unknown"]
    #: None if there is no objective, or the requirements cannot be met.
    objective: float | None
    #: The objective is proved to be between these.
    bounds: tuple[float, float] | None
    gap: float | None
    values: Named
    #: The price of each requirement; that of the bound is the slope of the curve.
    multipliers: Named


@dataclass(frozen=True, repr=False)
class Sweep(Result):
    """How the objective depends on the bound of one requirement; true if one of the bounds can be met.

    Its fields are those of ``acrl solve --sweep --json``.
    """

    #: The name of the requirement whose bound was moved.
    requirement: str
    points: tuple[SweepPoint, ...]
    specification: Specification
    #: Whether one end component holds all that can happen in the long run.
    communicating: bool
    #: Whether it was not stopped, and the gap that was asked for is reached at every bound.
    complete: bool
    states: int
    choices: int
    seconds: float = field(compare=False)
    _data: dict[str, Any] = field(default_factory=dict, compare=False)
    _page: _acrl.Report | None = field(default=None, compare=False)

    @classmethod
    def _from_json(cls, data: dict[str, Any], page: _acrl.Report | None = None) -> Sweep:
        def point(entry: dict[str, Any]) -> SweepPoint:
            bounds = entry["bounds"]
            return SweepPoint(
                entry["bound"],
                entry["status"],
                entry["objective"],
                None if bounds is None else (bounds[0], bounds[1]),
                entry["gap"],
                Named(entry["values"] or {}),
                Named(entry["multipliers"] or {}),
            )

        return cls(
            requirement=data["requirement"],
            points=tuple(point(entry) for entry in data["sweep"]),
            specification=Specification._from_json(data["specification"]),
            communicating=data["communicating"],
            complete=data["complete"],
            states=data["states"],
            choices=data["choices"],
            seconds=data["seconds"],
            _data=data,
            _page=page,
        )

    @property
    def prices(self) -> NDArray[np.float64]:
        """What the objective loses per unit of each bound: the slope of the curve; NaN where it cannot be met."""
        return np.array([point.multipliers.get(self.requirement, np.nan) for point in self.points], dtype=float)

    def __bool__(self) -> bool:
        return any(point.status == "optimal" for point in self.points)

    def __len__(self) -> int:
        return len(self.points)

    def _table(self) -> tuple[str, list[dict[str, Any]]]:
        rows = [
            {
                "bound": point.bound,
                "status": point.status,
                "objective": point.objective,
                "lower": None if point.bounds is None else point.bounds[0],
                "upper": None if point.bounds is None else point.bounds[1],
                "price": point.multipliers.get(self.requirement),
                **{
                    f"{kind}.{r.name}": values.get(r.name)
                    for kind, values in (("value", point.values), ("multiplier", point.multipliers))
                    for r in self.specification.requirements
                },
            }
            for point in self.points
        ]
        return "bound", rows

    def plot(self) -> Figure:
        """The objective and the price over the bound. Needs matplotlib. Opens no window."""
        drawn: Figure = _plots("Sweep").sweep(self)
        return drawn

    def _repr_html_(self) -> str:
        header = ["bound", "objective", "price"]
        rows = [
            [figure(p.bound), p.status if p.objective is None else p.objective, p.multipliers.get(self.requirement)]
            for p in self.points
        ]
        return html_table(f"over {self.requirement}", f"({self.states} states)", header, rows)

    def __repr__(self) -> str:
        met = sum(point.status == "optimal" for point in self.points)
        return f"<acrl.Sweep over {self.requirement}: {met} of {len(self.points)} bounds can be met>"


def sweep(
    model: FiniteModel | str | os.PathLike[str],
    requirement: Requirement,
    bounds: Iterable[float],
    *,
    objective: Objective | str | None = None,
    requirements: Requirement | Iterable[Requirement] = (),
    gap: float = 1e-6,
    time_limit: float | None = None,
    callback: Callable[[Round], object] | None = None,
    progress: bool | None = None,
) -> Sweep:
    """How the optimum depends on the bound of one requirement: ``acrl solve --sweep``.

    >>> import acrl
    >>> curve = acrl.sweep("monitoring", acrl.at_least("r1", 0), [0.2, 0.4, 0.7])
    >>> [point.status for point in curve.points], round(curve.points[1].objective, 4)
    (['optimal', 'optimal', 'infeasible'], 0.2667)

    Each bound is solved from the policies that were found for the others, so that a curve costs less than its points.

    Args:
        model: What `acrl.solve` takes.
        requirement: Whose bound is moved; its own bound does not matter.
        bounds: The bounds, such as ``np.linspace(0.1, 0.4, 20)``.
        objective: What to improve: a reward's name is maximised. Default what the file says.
        requirements: Replace those of the file on the same reward and side, or are added to them.
        gap: How close the proved bounds on the objective must be, relative to it.
        time_limit: Seconds for all of it; the points that are left then are "unknown".
        callback: Is told of every round; what it returns stops the sweep if it is False.
        progress: Whether to show a line on standard error; default if that is a terminal.
    """
    _checked(model)
    asked, points = as_requirements(requirements), [float(bound) for bound in bounds]
    given: dict[str, Any] = {"requirement": requirement, "bounds": points, "objective": objective}
    given |= {"requirements": asked or None, "gap": None if gap == 1e-6 else gap, "time_limit": time_limit}
    with _watched(progress) as bar:
        data, page = _acrl.sweep(
            native(model),
            named(model),
            call("sweep", model, given),
            requirement,
            points,
            as_objective(objective),
            asked,
            gap,
            time_limit,
            _look(bar, callback),
        )
    return Sweep._from_json(json.loads(data), page)
