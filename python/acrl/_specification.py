"""Requirements, objectives, and numbers by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from . import _acrl
from ._acrl import Objective, Requirement
from ._errors import InputError, UnknownNameError

__all__ = ["Named", "at_least", "at_most", "maximize", "minimize", "weights"]

FloatArray: TypeAlias = NDArray[np.float64]
#: The verdict on a requirement: see docs/concepts.md.
Verdict: TypeAlias = Literal["satisfied", "within_tolerance", "violated"]


def at_least(name: str, bound: float, reward: str | None = None) -> Requirement:
    """The long-run average of a reward is at least ``bound``.

    The requirement is called ``name``, and so is the reward unless ``reward`` names it.

    >>> at_least("red", 0.3)
    acrl.at_least('red', 0.3)
    """
    return Requirement(name, bound, "at_least", reward)


def at_most(name: str, bound: float, reward: str | None = None) -> Requirement:
    """The long-run average of a reward is at most ``bound``.

    >>> at_most("power", 2, reward="watts")
    acrl.at_most('power', 2.0, reward='watts')
    """
    return Requirement(name, bound, "at_most", reward)


def maximize(reward: str) -> Objective:
    """An objective: the larger the long-run average of this reward, the better.

    >>> maximize("throughput")
    acrl.maximize('throughput')
    """
    return Objective(reward, "maximize")


def minimize(reward: str) -> Objective:
    """An objective: the smaller the long-run average of this reward, the better.

    >>> minimize("power").sign
    -1.0
    """
    return Objective(reward, "minimize")


class Named(dict[str, float]):
    """Numbers by name, in order; NumPy converts them to an array.

    >>> Named(a=1.0, b=2.0)["b"]
    2.0
    >>> np.asarray(Named(a=1.0, b=2.0))
    array([1., 2.])
    """

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The numbers, in order."""
        if copy is False:
            raise ValueError("named numbers cannot become an array without a copy")
        return np.array(list(self.values()), dtype=np.float64 if dtype is None else dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return Named, (dict(self),)


def weights(multipliers: Mapping[str, float] | Sequence[float] | FloatArray, objective: bool = True) -> FloatArray:
    """Normalised weights of multipliers: (1, λ)/(1 + Σλ), or λ/Σλ without an objective.

    The optimal policy depends on λ only by them. They are nonnegative and add up to 1. At λ = 0 without
    an objective they are equal.

    >>> weights([1.0, 2.0])
    array([0.25, 0.25, 0.5 ])
    >>> weights([1.0, 3.0], objective=False)
    array([0.25, 0.75])
    """
    values = multipliers.values() if isinstance(multipliers, Mapping) else multipliers
    found = _acrl.weights([float(x) for x in values], objective)
    return found if objective else found[1:]


def as_objective(objective: Objective | str | None) -> Objective | None:
    """An objective; a name alone is maximised."""
    if objective is None or isinstance(objective, Objective):
        return objective
    if isinstance(objective, str):
        return maximize(objective)
    raise InputError(f"the objective is {objective!r}, expected a reward's name, acrl.maximize or acrl.minimize")


def as_requirements(requirements: Requirement | Iterable[Requirement]) -> list[Requirement]:
    """A list of requirements."""
    if isinstance(requirements, Requirement):
        return [requirements]
    found = list(requirements)
    for requirement in found:
        if not isinstance(requirement, Requirement):
            raise InputError(f"{requirement!r} is no requirement, expected acrl.at_least or acrl.at_most")
    return found


def ordered(what: str, values: Mapping[str, float] | Iterable[float], names: Sequence[str]) -> list[float]:
    """Numbers by name, or in the order of the names, as a list in that order."""
    if isinstance(values, Mapping):
        for name in values:
            if name not in names:
                raise UnknownNameError(f"{what}: unknown name '{name}', expected {', '.join(names)}")
        for name in names:
            if name not in values:
                raise UnknownNameError(f"{what}: '{name}' is missing")
        return [float(values[name]) for name in names]
    found = [float(value) for value in values]
    if len(found) != len(names):
        raise InputError(f"{what}: expected {len(names)} numbers, found {len(found)}")
    return found
