"""Trained policies from files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _acrl
from ._acrl import Objective, Requirement
from ._errors import InputError
from ._spaces import from_description
from ._vocabulary import FloatArray, Named, ordered

__all__ = ["Advice", "Choice", "Number", "Policy"]


class Choice(NamedTuple):
    """A part of an action: one of 0 … n - 1."""

    n: int


class Number(NamedTuple):
    """A part of an action, or of an observation: a number in a range."""

    low: float
    high: float


class Advice(NamedTuple):
    """How to execute a policy, unless one knows better; found by rehearsal at the end of training.

    ``steering`` is "policy": act by π(s, λ); or "library": of the behaviours that were measured after training hold the
    one that is best at λ, for an epoch.
    """

    step_size: float
    epoch: int
    steering: Literal["policy", "library"]


class Policy:
    """A trained policy π(s, λ), as written by ``acrl train``.

    Open one with `Policy.load`. Threads may share it. Pickling keeps the path and the seed, not the numbers.
    """

    def __init__(self, path: str | os.PathLike[str], seed: int = 0) -> None:
        self._path: str | None = os.fspath(path)
        self._take(_acrl.PolicyFile(self._path, seed), seed)

    def _take(self, file: _acrl.PolicyFile, seed: int) -> None:
        self._seed = seed
        self._file = file
        spaces = None if file.spaces is None else json.loads(file.spaces)
        self._seen = None if spaces is None else from_description(spaces["observation"])
        self._done = None if spaces is None else from_description(spaces["action"])
        self._names = [requirement.name for requirement in self._file.requirements]
        self._action = [Number(low, high) if n is None else Choice(n) for n, low, high in self._file.action_space]
        self._choices = all(isinstance(part, Choice) for part in self._action)

    @classmethod
    def load(cls, path: str | os.PathLike[str], seed: int = 0) -> Policy:
        """Opens a file and checks it; ``seed`` is for actions that are drawn."""
        return cls(path, seed)

    @classmethod
    def _from_bytes(cls, content: bytes, seed: int = 0) -> Policy:
        policy = cls.__new__(cls)
        policy._path = None
        policy._take(_acrl.PolicyFile.from_bytes(content, seed), seed)
        return policy

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the policy with all that goes with it to a file, as a whole or not at all."""
        _acrl.write_atomically(path, self._file.to_bytes())

    def predict(
        self, obs: ArrayLike, multipliers: Mapping[str, float] | ArrayLike, *, deterministic: bool = True
    ) -> NDArray[Any]:
        """The action for an observation, or the actions for a batch of them.

        Args:
            obs: Numbers in the order of `observation_space`, or rows of them.
            multipliers: λ by requirement or in order; for a batch also a row for each observation.
            deterministic: The likeliest action; else one is drawn as in training.

        Returns:
            The parts of the action, in the order of `action_space`; integers if all of them are choices.
        """
        if isinstance(multipliers, Mapping):
            multipliers = ordered("multipliers", multipliers, self._names)
        prices = _numbers("the multipliers", multipliers)
        if prices.ndim not in (1, 2) or prices.shape[-1] != len(self._names):
            raise InputError(f"the multipliers have shape {prices.shape}, expected {len(self._names)} numbers")
        if (prices < 0).any():
            raise InputError(f"multipliers are nonnegative, but one is {prices.min()}")
        first = np.full((*prices.shape[:-1], 1), 0.0 if self.objective is None else 1.0)
        return self._act(obs, np.concatenate([first, prices], axis=-1), deterministic)

    def _act(self, obs: ArrayLike, weights: FloatArray, deterministic: bool) -> NDArray[Any]:
        """The same for weights w0 … wm."""
        if self._seen is not None and self._done is not None:
            one = self._seen.lanes(obs) is None
            rows = self._seen.encode(obs)[None] if one else self._seen.encode_batch(obs)
            if weights.ndim == 1:
                weights = np.broadcast_to(weights, (rows.shape[0], weights.shape[0]))
            done = self._file.predict(rows, weights, deterministic)
            return self._done.decode(done[0]) if one else self._done.decode_batch(done)
        seen = _numbers("the observation", obs)
        if seen.ndim not in (1, 2):
            raise InputError(f"the observation has shape {seen.shape}, expected one or two dimensions")
        if weights.ndim > seen.ndim:
            raise InputError(f"there are {weights.shape[0]} rows of multipliers for one observation")
        rows = np.atleast_2d(seen)
        if weights.ndim == 1:
            weights = np.broadcast_to(weights, (rows.shape[0], weights.shape[0]))
        actions: NDArray[Any] = self._file.predict(rows, weights, deterministic)
        if self._choices:
            actions = actions.astype(np.int64)
        return actions[0] if seen.ndim == 1 else actions

    def _steer(self, multipliers: FloatArray, entry: int | None, steps: int) -> tuple[int, FloatArray] | None:
        """The behaviour of the library that is best at λ, if there is one: its number, and the weights to hold."""
        first = 0.0 if self.objective is None else 1.0
        found = self._file.steer([first, *multipliers.tolist()], entry, steps)
        return None if found is None else (found[0], np.array(found[1]))

    @property
    def requirements(self) -> list[Requirement]:
        """What it was trained for. The bounds may be changed without training, the rest may not."""
        return self._file.requirements

    @property
    def objective(self) -> Objective | None:
        """What it was trained to improve, if anything."""
        return self._file.objective

    @property
    def observation_space(self) -> list[Number]:
        """The range of each number of an observation."""
        return [Number(low, high) for low, high in self._file.observation_space]

    @property
    def action_space(self) -> list[Choice | Number]:
        """The parts of an action."""
        return list(self._action)

    @property
    def hold(self) -> int:
        """For how many steps an action is held. `acrl.Agent` does so."""
        return self._file.hold

    @property
    def advice(self) -> Advice:
        """How to execute it. `acrl.Agent` does so unless told otherwise."""
        return Advice(*self._file.advice)

    @property
    def scales(self) -> Named:
        """The range of each requirement's reward."""
        return Named(zip(self._names, self._file.scales[1:], strict=True))

    @property
    def objective_scale(self) -> float:
        """The range of the objective; 1 without one."""
        return self._file.scales[0]

    def start(self, requirements: Sequence[Requirement] | None = None) -> Named:
        """The multipliers to start with: what bounds should cost, by what was measured after training.

        Args:
            requirements: Those of the policy, with other bounds; default with the bounds that it was trained for.
        """
        found = self._file.start(self.requirements if requirements is None else list(requirements))
        return Named(zip(self._names, found, strict=True))

    def __reduce__(self) -> tuple[Any, ...]:
        return Policy, (self._path, self._seed)

    def __repr__(self) -> str:
        learner, method, steps, seed = self._file.training
        return f"<acrl.Policy {self._path!r}, {self.requirements!r}, {method} by {learner}, {steps} steps, seed {seed}>"


def _numbers(what: str, values: Any) -> FloatArray:
    found = np.asarray(values)
    if found.dtype.kind not in "fiub":
        raise InputError(f"{what} has numbers of type {found.dtype}, expected floats or integers")
    return found.astype(np.float64, copy=False)
