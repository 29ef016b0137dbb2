"""The exact answer to a finite problem."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from . import _acrl
from ._acrl import Objective, Requirement
from ._errors import InputError
from ._model import FiniteModel
from ._vocabulary import Named, as_objective, as_requirements

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Component", "Solution", "solve"]


@dataclass(frozen=True)
class Component:
    """A deterministic policy, and the share of time that is spent on it.

    ``rule[s]`` is the action in state s: its column, or for a model from a file its number among the state's actions.
    """

    weight: float
    values: Named
    rule: NDArray[np.int64] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Solution:
    """What can be had, and what it costs. Everything in the signs in which it was asked for."""

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
    #: By how much all bounds would have to give, in units of each reward's range.
    relax_uniform: float | None
    #: By how much one bound alone would have to give; None where that does not help.
    relax_alone: dict[str, float | None]
    requirements: tuple[Requirement, ...]
    states: int
    seconds: float = field(compare=False)

    @property
    def feasible(self) -> bool:
        """Whether the requirements can be met."""
        return self.status == "optimal"

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {
                "requirement": r.name,
                "direction": r.direction,
                "bound": r.bound,
                "value": self.values.get(r.name),
                "multiplier": self.multipliers.get(r.name),
                "conflict": r.name in self.conflict,
                "relax_alone": self.relax_alone.get(r.name),
            }
            for r in self.requirements
        ]

    def to_dataframe(self) -> pd.DataFrame:
        """A row for each requirement; needs pandas."""
        import pandas as pd

        columns = ["requirement", "direction", "bound", "value", "multiplier", "conflict", "relax_alone"]
        return pd.DataFrame(self._rows(), columns=columns).set_index("requirement")

    def _repr_html_(self) -> str:
        head = self.status if self.objective is None else f"{self.status}: {self.objective:.6g}"
        shown = ["requirement", "bound", "value", "price"] if self.feasible else ["requirement", "bound", "in conflict"]
        lines = [f"<p><b>{html.escape(head)}</b>, {self.states} states</p><table><tr>"]
        lines += [f"<th>{name}</th>" for name in shown] + ["</tr>"]
        for row in self._rows():
            bound = f"{'≥' if row['direction'] == 'at_least' else '≤'} {row['bound']:.6g}"
            cells = [row["requirement"], bound]
            if self.feasible:
                cells += [f"{row['value']:.6g}", f"{row['multiplier']:.6g}"]
            else:
                cells.append("yes" if row["conflict"] else "no")
            lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
        return "".join(lines) + "</table>"


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
        model: A model; or a problem file (.toml), a model in Storm's explicit format (.drn), or the name of a bundled
            problem.
        objective: What to improve: a reward's name is maximised. Default what the file says.
        requirements: Replace those of the file on the same reward and side, or are added to them.
        gap: How close the proved bounds must be, relative to the objective.
    """
    if not isinstance(model, (FiniteModel, str, os.PathLike)):
        raise InputError(f"the model is {model!r}, expected an acrl.FiniteModel, a path or a bundled problem's name")
    told = _acrl.solve(
        model._model if isinstance(model, FiniteModel) else model,
        as_objective(objective),
        as_requirements(requirements),
        gap,
    )
    feasible = "conflict" not in told
    return Solution(
        status="optimal" if feasible else "infeasible",
        objective=told.get("objective"),
        bounds=told.get("bounds"),
        gap=told.get("gap"),
        values=Named(told.get("values", {})),
        multipliers=Named(told.get("multipliers", {})),
        multiplier_ranges=told.get("multiplier_ranges", {}),
        mixture=tuple(Component(w, Named(values), rule) for w, values, rule in told.get("mixture", ())),
        almost_sure=told.get("almost_sure"),
        conflict=tuple(told.get("conflict", ())),
        relax_uniform=told.get("relax_uniform"),
        relax_alone=told.get("relax_alone", {}),
        requirements=tuple(told["requirements"]),
        states=told["states"],
        seconds=told["seconds"],
    )
