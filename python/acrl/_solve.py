"""The exact answer to a finite problem."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _acrl
from ._acrl import Objective, Requirement
from ._errors import InputError
from ._model import FiniteModel
from ._result import Result, Specification, call, figure, html_table, named, native, relation
from ._run import _plots
from ._vocabulary import Named, as_objective, as_requirements

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Component", "Relaxation", "Solution", "solve"]


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


def solve(
    model: FiniteModel | str | os.PathLike[str],
    *,
    objective: Objective | str | None = None,
    requirements: Requirement | Iterable[Requirement] = (),
    gap: float = 1e-6,
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
    """
    if not isinstance(model, (FiniteModel, str, os.PathLike)):
        raise InputError(f"the model is {model!r}, expected an acrl.FiniteModel, a path or a bundled problem's name")
    asked = as_requirements(requirements)
    given: dict[str, Any] = {"objective": objective, "requirements": asked or None, "gap": None if gap == 1e-6 else gap}
    data, rules, page = _acrl.solve(
        native(model), named(model), call("solve", model, given), as_objective(objective), asked, gap
    )
    return Solution._from_json(json.loads(data), rules, page)
