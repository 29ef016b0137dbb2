"""Exact solution of finite problems."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _acrl
from ._acrl import Objective, Requirement
from ._errors import InputError
from ._model import FiniteModel
from ._progress import Progress, should_show
from ._result import Result, Specification, figure, html_table, relation, request
from ._run import _plots
from ._specification import Named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "EndComponent",
    "MixturePolicy",
    "PolicyRow",
    "Relaxation",
    "Round",
    "Solution",
    "Sweep",
    "SweepPoint",
    "solve",
    "sweep",
]


@dataclass(frozen=True)
class MixturePolicy:
    """A deterministic policy of a mixture, with its weight: the share of time that is spent on it.

    ``actions[s]`` is the action in state s: its column in arrays and .npz files, or for a model with named actions its
    index among their distinct names, in the order of their first occurrence.
    """

    weight: float
    values: Named
    actions: NDArray[np.int64] = field(repr=False, compare=False)


class PolicyRow(NamedTuple):
    """A row of a policy table: the action of each policy of the mixture in one state, by name."""

    state: str
    #: In the order of the mixture.
    actions: tuple[str, ...]
    #: True if the policies differ here.
    differs: bool


class Relaxation(NamedTuple):
    """The least relaxation of bounds that makes a problem feasible, in units of each reward's range."""

    #: Of all bounds together; None if that does not help.
    uniform: float | None
    #: Of a single bound; None where that does not help.
    single: dict[str, float | None]


@dataclass(frozen=True)
class EndComponent:
    """An end component of a model, and its part in the expected optimum."""

    #: Number of states, and the name of the first of them.
    states: int
    first: str
    #: The probability of ending there.
    mass: float
    #: The long-run averages there; empty if that probability is 0.
    values: Named
    #: The long-run averages of the best policy that stays there and meets the requirements; None if there is none.
    almost_sure: Named | None
    #: The probability of ending there when the requirements are to be met on almost every path.
    almost_sure_mass: float | None


@dataclass(frozen=True, repr=False)
class Solution(Result):
    """Optimum and prices, or the conflict, of a finite problem. Everything has the user's signs; true if feasible.

    Its fields are those of ``acrl solve --json``.
    """

    status: Literal["optimal", "infeasible"]
    #: The long-run average of the objective; None if there is none, or the problem is infeasible.
    objective: float | None
    #: Proven bounds on the objective.
    bounds: tuple[float, float] | None
    gap: float | None
    #: The long-run averages of the mixture.
    values: Named
    #: The price of each requirement: what the objective loses per unit by which the bound is tightened.
    multipliers: Named
    #: The smallest and the largest optimal price; equal where the price is unique.
    multiplier_ranges: dict[str, tuple[float, float]]
    mixture: tuple[MixturePolicy, ...]
    #: What each policy of the mixture does, state by state: all states; of a model with more than 1,000 states those in
    #: which the policies differ, at most 1,000. ``MixturePolicy.actions`` has every state.
    policy_table: tuple[PolicyRow, ...] = field(repr=False)
    #: The number of states in which the policies of the mixture differ.
    differing_states: int
    #: The optimum with probability 1; differs where the model has several end components.
    almost_sure: float | None
    #: An irreducible set of requirements that cannot be met together: without any of them the others can.
    conflict: tuple[str, ...]
    #: If infeasible: y ≥ 0 with y·(V - c) < 0 for every policy (Farkas).
    farkas_certificate: Named
    #: If infeasible: the least relaxation.
    relax: Relaxation | None
    specification: Specification
    #: True if there is one end component; None if infeasible.
    communicating: bool | None
    #: The end components, where there are several.
    components: tuple[EndComponent, ...]
    #: True if the requested gap is reached: not if the solver was stopped, or made no further progress.
    complete: bool
    states: int
    choices: int
    rounds: int | None
    seconds: float = field(compare=False)
    _data: dict[str, Any] = field(default_factory=dict, compare=False)
    _page: _acrl.Report | None = field(default=None, compare=False)

    @classmethod
    def _from_json(
        cls, data: dict[str, Any], policies: Sequence[NDArray[np.int64]], page: _acrl.Report | None = None
    ) -> Solution:
        multipliers, bounds, relax = Named(data.get("multipliers", {})), data.get("bounds"), data.get("relax")
        ranges = {name: (price, price) for name, price in multipliers.items()}
        for name, (low, high) in data.get("multiplier_ranges", {}).items():
            ranges[name] = (0.0 if low is None else low, math.inf if high is None else high)
        mixture = zip(data.get("mixture", ()), policies, strict=True)
        table = data.get("policy_table", {"rows": (), "differing_states": 0})
        return cls(
            status=data["status"],
            objective=data.get("objective"),
            bounds=None if bounds is None else (bounds[0], bounds[1]),
            gap=data.get("gap"),
            values=Named(data.get("values", {})),
            multipliers=multipliers,
            multiplier_ranges=ranges,
            mixture=tuple(
                MixturePolicy(entry["weight"], Named(entry["values"]), actions) for entry, actions in mixture
            ),
            policy_table=tuple(PolicyRow(row["state"], tuple(row["actions"]), row["differs"]) for row in table["rows"]),
            differing_states=table["differing_states"],
            almost_sure=data.get("almost_sure"),
            conflict=tuple(data.get("conflict", ())),
            farkas_certificate=Named(data.get("farkas_certificate", {})),
            relax=None if relax is None else Relaxation(relax["uniform"], relax["single"]),
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
        """True if the requirements can be met."""
        return self.status == "optimal"

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """The requirements."""
        return self.specification.requirements

    def __bool__(self) -> bool:
        return self.feasible

    def _table(self) -> tuple[str, list[dict[str, Any]]]:
        single = {} if self.relax is None else self.relax.single
        rows = [
            {
                "requirement": r.name,
                "direction": r.direction,
                "bound": r.bound,
                "value": self.values.get(r.name),
                "multiplier": self.multipliers.get(r.name),
                "conflict": r.name in self.conflict,
                "relax_single": single.get(r.name),
            }
            for r in self.requirements
        ]
        return "requirement", rows

    def plot(self) -> Figure:
        """Values against bounds, and prices; or the relaxation. Needs matplotlib. Opens no window."""
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
    almost_sure = entry["almost_sure"]
    return EndComponent(
        states=entry["states"],
        first=entry["first"],
        mass=entry["mass"],
        values=Named(entry["values"] or {}),
        almost_sure=None if almost_sure is None else Named(almost_sure["values"]),
        almost_sure_mass=None if almost_sure is None else almost_sure["mass"],
    )


class Round(NamedTuple):
    """Progress of a solver. Everything has the user's signs."""

    #: Policies generated so far.
    round: int
    #: Proven lower bound on the optimum; None while it is unknown.
    lower: float | None
    #: Proven upper bound; None while it is unknown.
    upper: float | None
    #: The relative gap between the two.
    gap: float | None
    seconds: float

    def __str__(self) -> str:
        if self.lower is None or self.upper is None or self.gap is None:
            found = "searching for a feasible policy"
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
    return Progress(should_show(progress), None)


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
    """Computes the optimum of a finite problem and the price of each requirement, or the conflict.

    >>> import acrl
    >>> answer = acrl.solve("monitoring")
    >>> round(answer.objective, 6), {name: round(price, 6) for name, price in answer.multipliers.items()}
    (0.333333, {'r1': 1.0, 'r2': 1.0})
    >>> acrl.solve("monitoring", requirements=[acrl.at_least("r1", 0.55), acrl.at_least("r2", 0.55)]).conflict
    ('r1', 'r2')

    Args:
        model: A model; or a problem file (.toml), a model in Storm's explicit format (.drn) or as arrays (.npz, see
            `FiniteModel.save`), or the name of a bundled problem.
        objective: The objective: a reward's name is maximised. Default that of the file.
        requirements: Replace those of the file on the same reward and direction, or are added to them.
        gap: Relative gap between the proven bounds at which the solver stops.
        time_limit: Seconds after which the best solution so far is returned, with its proven gap (``complete`` is
            False then). `acrl.SolveError` if no feasible policy was found by then.
        policy: A file (.safetensors) to write the policy to, for `acrl.run`.
        callback: Called with every `Round`; the solver stops, as with the time limit, if it returns False.
        progress: Show a line on standard error; default: in a terminal or a notebook.
    """
    _checked(model)
    given: dict[str, Any] = {"gap": None if gap == 1e-6 else gap, "time_limit": time_limit}
    given["policy"] = None if policy is None else os.fspath(policy)
    if policy is not None and not os.fspath(policy).endswith(".safetensors"):
        raise InputError(f"the policy is {os.fspath(policy)!r}, expected a file name that ends in .safetensors")
    with _watched(progress) as bar:
        asked = request("solve", model, objective, requirements, given)
        data, policies, page = _acrl.solve(asked, gap, time_limit, policy, _look(bar, callback))
    return Solution._from_json(json.loads(data), policies, page)


@dataclass(frozen=True)
class SweepPoint:
    """Solution for one bound. Everything has the user's signs."""

    bound: float
    status: Literal["optimal", "infeasible", "unknown"]
    #: None if there is no objective, or the problem is infeasible.
    objective: float | None
    #: Proven bounds on the objective.
    bounds: tuple[float, float] | None
    gap: float | None
    values: Named
    #: The price of each requirement; that of the bound is the slope of the curve.
    multipliers: Named


@dataclass(frozen=True, repr=False)
class Sweep(Result):
    """The objective as a function of the bound of one requirement; true if it is feasible for one of the bounds.

    Its fields are those of ``acrl solve --sweep --json``.
    """

    #: The name of the requirement whose bound varies.
    requirement: str
    points: tuple[SweepPoint, ...]
    specification: Specification
    #: True if there is one end component.
    communicating: bool
    #: True if the requested gap is reached at every bound.
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
        """Price of each bound: the slope of the curve; NaN where it is infeasible."""
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
    """Solves a finite problem for several bounds of one requirement: ``acrl solve --sweep``.

    >>> import acrl
    >>> curve = acrl.sweep("monitoring", acrl.at_least("r1", 0), [0.2, 0.4, 0.7])
    >>> [point.status for point in curve.points], round(curve.points[1].objective, 4)
    (['optimal', 'optimal', 'infeasible'], 0.2667)

    Policies that were generated for one bound are reused for the others, so that a curve costs less than its points.

    Args:
        model: What `acrl.solve` takes.
        requirement: The requirement whose bound varies; its own bound is not used.
        bounds: The bounds, such as ``np.linspace(0.1, 0.4, 20)``.
        objective: The objective: a reward's name is maximised. Default that of the file.
        requirements: Replace those of the file on the same reward and direction, or are added to them.
        gap: Relative gap between the proven bounds at which the solver stops.
        time_limit: Seconds for all bounds; the points that are left then are "unknown".
        callback: Called with every `Round`; the sweep stops if it returns False.
        progress: Show a line on standard error; default: in a terminal or a notebook.
    """
    _checked(model)
    points = [float(bound) for bound in bounds]
    given: dict[str, Any] = {"requirement": requirement, "bounds": points, "gap": None if gap == 1e-6 else gap}
    with _watched(progress) as bar:
        asked = request("sweep", model, objective, requirements, {**given, "time_limit": time_limit})
        data, page = _acrl.sweep(asked, requirement, points, gap, time_limit, _look(bar, callback))
    return Sweep._from_json(json.loads(data), page)
