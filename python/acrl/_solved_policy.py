"""Solved policies of finite problems."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from . import _acrl
from ._acrl import Objective, Requirement
from ._errors import FileError, InputError
from ._policy import ContinuousAction, DiscreteAction, ExecutionDefaults, Interval, Policy
from ._specification import Named, ordered
from ._tradeoff import LibraryEntry, Tradeoff

__all__ = ["SolvedPolicy"]


@final
class SolvedPolicy(Policy):
    """A solved policy of a finite problem, as written by ``acrl solve --policy`` or `acrl.solve`.

    It is the optimal mixture of deterministic policies, with the model. An observation is a state of the model, given
    by index or by name. An action is an index: the column in a model of arrays, otherwise the place in `action_names`.

    >>> import acrl, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/monitoring.safetensors"
    ...     solution = acrl.solve("monitoring", policy=path)
    ...     policy = acrl.SolvedPolicy.load(path)
    >>> policy.state_names
    ['R0', 'R1', 'R2']
    >>> policy.actions("R1")
    {0: 'R1', 2: 'R0'}
    >>> agent = acrl.Agent(policy)
    >>> action = agent.act("R1")
    >>> moved = agent.observe({"r0": 0, "r1": 1, "r2": 0})
    """

    def __init__(self, path: str | os.PathLike[str], seed: int = 0) -> None:
        name = os.fspath(path)
        found = _acrl.load_policy(name, seed)
        if not isinstance(found, _acrl.SolvedPolicy):
            raise FileError(f"{name}: a trained policy, expected a solved one; open it with acrl.Policy.load")
        self._set_solved(name, found)

    def _set_solved(self, path: str, solved: _acrl.SolvedPolicy) -> None:
        self._path = path
        self._solved = solved
        self._names = [requirement.name for requirement in solved.requirements]
        # Those of a Gymnasium environment; a finite model has none.
        self._observation_codec = None
        self._action_codec = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the policy with its model to a file, atomically."""
        _acrl.write_atomically(path, self._solved.to_bytes())

    def predict(
        self,
        obs: Any,
        multipliers: Mapping[str, float] | ArrayLike,
        *,
        deterministic: bool | None = None,  # noqa: ARG002
    ) -> Any:
        """The action of the policy of the mixture that maximises the Lagrangian V₀ + λ·V at these multipliers.

        `acrl.Agent` does not act by it, but by the mixture, which meets the requirements at the optimum.

        Args:
            obs: A state, by index or name, or a sequence of them.
            multipliers: λ by requirement or in order.
            deterministic: Without effect.

        Returns:
            The index of the action, or an array of them.
        """
        if isinstance(multipliers, Mapping):
            multipliers = ordered("multipliers", multipliers, self._names)
        prices = np.asarray(multipliers, dtype=np.float64).ravel().tolist()
        if isinstance(obs, (Sequence, np.ndarray)) and not isinstance(obs, str) and np.ndim(obs) > 0:
            return self._solved.predict(list(obs), prices)
        return int(self._solved.predict([obs], prices)[0])

    def state(self, obs: int | str) -> int:
        """The index of a state, given by index or by name."""
        return self._solved.state(obs)

    @property
    def state_names(self) -> list[str]:
        """The names of the states; their indices if the model has no names."""
        return self._solved.state_names

    @property
    def action_names(self) -> list[str]:
        """The names of all actions by index."""
        return self._solved.action_names

    def actions(self, obs: int | str) -> dict[int, str]:
        """The actions of a state: their names by index."""
        return dict(sorted(self._solved.actions(obs)))

    @property
    def requirements(self) -> list[Requirement]:
        """Requirements for which the problem was solved. `acrl.Agent` solves it again for others."""
        return self._solved.requirements

    @property
    def objective(self) -> Objective | None:
        """Objective, if there is one."""
        return self._solved.objective

    @property
    def observation_space(self) -> list[Interval]:
        """The range of the states' indices."""
        return [Interval(0, self._solved.states - 1)]

    @property
    def action_space(self) -> list[DiscreteAction | ContinuousAction]:
        """The number of actions; see `actions` for those of a state."""
        return [DiscreteAction(len(self._solved.action_names))]

    @property
    def action_repeat(self) -> int:
        """1: each step has an action of its own."""
        return 1

    @property
    def execution_defaults(self) -> ExecutionDefaults:
        """Defaults of `acrl.Agent` for this policy: the step size, the first epoch of its schedule, the executor."""
        return ExecutionDefaults(*self._solved.execution_defaults())

    @property
    def scales(self) -> Named:
        """The range of each requirement's reward in the model."""
        return Named(zip(self._names, self._solved.scales[1:], strict=True))

    @property
    def objective_scale(self) -> float:
        """The range of the objective; 1 without one."""
        return self._solved.scales[0]

    def init_multipliers(self, requirements: Sequence[Requirement] | None = None) -> Named:
        """The optimal multipliers λ*.

        Args:
            requirements: They replace those of the policy on the same reward and direction or are added, and the
                problem is solved again. Default: those of the policy.
        """
        asked = [] if requirements is None else list(requirements)
        names = [requirement.name for requirement in self._solved.rebound(asked)]
        return Named(zip(names, self._solved.init_multipliers(asked), strict=True))

    @property
    def library(self) -> list[LibraryEntry]:
        """Only trained policies have a library: raises `acrl.InputError`."""
        raise InputError("a solved policy has no policy library; its mixture is that of acrl.solve")

    def tradeoff(
        self,
        requirement: str,  # noqa: ARG002
        bounds: ArrayLike | None = None,  # noqa: ARG002
        *,
        requirements: Requirement | Iterable[Requirement] = (),  # noqa: ARG002
    ) -> Tradeoff:
        """Only trained policies have a library: raises `acrl.InputError`. `acrl.sweep` has the exact curve."""
        raise InputError("a solved policy has no policy library: acrl.sweep has the exact curve")

    @property
    def draws(self) -> bool:
        """False: `predict` is deterministic. `acrl.Agent` draws actions where the mixture is one randomised policy."""
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._path, self._solved.to_bytes(), self._solved.rng)

    def __repr__(self) -> str:
        where = f" {self._path!r}," if self._path else ""
        return f"<acrl.SolvedPolicy{where} {self.requirements!r}, {self._solved.states} states>"


def loaded(path: str, solved: _acrl.SolvedPolicy) -> SolvedPolicy:
    """The policy of the native half."""
    policy = SolvedPolicy.__new__(SolvedPolicy)
    policy._set_solved(path, solved)
    return policy


def _restored(path: str, content: bytes, rng: str) -> SolvedPolicy:
    """The policy of a pickle."""
    return loaded(path, _acrl.SolvedPolicy.from_bytes(content, path, rng))
