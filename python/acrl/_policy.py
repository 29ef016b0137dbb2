"""Trained policies from files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike

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


@final
class Policy:
    """A trained policy π(s, λ), as written by ``acrl train``.

    Open one with `Policy.load`. Threads may share it. Pickles and copies hold the policy itself, whatever becomes of
    the file.
    """

    def __init__(self, path: str | os.PathLike[str], seed: int = 0) -> None:
        name = os.fspath(path)
        self._set(name, _acrl.PolicyFile(name, seed))

    def _set(self, path: str, file: _acrl.PolicyFile) -> None:
        self._path = path  # empty if it was not opened from a file
        self._file = file
        self._names = [requirement.name for requirement in file.requirements]
        spaces = None if file.spaces is None else json.loads(file.spaces)
        # How an environment of Python writes what is seen and done.
        self._seen = None if spaces is None else from_description(spaces["observation"])
        self._done = None if spaces is None else from_description(spaces["action"])
        self._action = [Number(low, high) if n is None else Choice(n) for n, low, high in file.action_space]

    @classmethod
    def load(cls, path: str | os.PathLike[str], seed: int = 0) -> Policy:
        """Opens a file and checks it; ``seed`` is for actions that are drawn."""
        return cls(path, seed)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the policy, with all that goes with it, to a file: as a whole or not at all."""
        _acrl.write_atomically(path, self._file.to_bytes())

    def predict(
        self, obs: Any, multipliers: Mapping[str, float] | ArrayLike, *, deterministic: bool | None = None
    ) -> Any:
        """The action for an observation, or the actions for a batch of them.

        Args:
            obs: An observation of the environment that `acrl.train` was given, or a batch of them as vector
                environments hold them. Of a policy from ``acrl train``: numbers in the order of `observation_space`,
                or rows of them.
            multipliers: λ by requirement or in order; for a batch also a row for each observation.
            deterministic: The likeliest action; else one is drawn as in training. Default what the policy is
                meant to do, see `draws`.

        Returns:
            An action of that environment, or a batch of them; else the parts of the action, in the order of
            `action_space`: integers if all of them are choices.
        """
        if deterministic is None:
            deterministic = not self._file.draws
        if self._seen is not None and self._done is not None:
            if isinstance(multipliers, Mapping):
                multipliers = ordered("multipliers", multipliers, self._names)
            prices = _numbers("the multipliers", multipliers)
            one = self._seen.lanes(obs) is None
            seen = self._seen.encode(obs) if one else self._seen.encode_batch(obs)
            done = self._file.predict(np.ascontiguousarray(seen), prices, deterministic)
            assert done is not None
            return self._done.decode(done) if one else self._done.decode_batch(done)
        found = self._file.predict(obs, multipliers, deterministic)
        if found is None:  # no arrays of floats yet
            if isinstance(multipliers, Mapping):
                multipliers = ordered("multipliers", multipliers, self._names)
            prices = _numbers("the multipliers", multipliers)
            found = self._file.predict(self._observation(obs), prices, deterministic)
            assert found is not None
        return found

    def _observation(self, obs: Any) -> FloatArray:
        """What the native half takes, of anything that is an observation."""
        if self._seen is not None:
            return np.ascontiguousarray(self._seen.encode(obs))
        return _numbers("the observation", obs)

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
        """The range of each number of an observation; of an environment of Python, that from which it is scaled."""
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

    @property
    def draws(self) -> bool:
        """Whether it is meant to draw its actions instead of taking the likeliest. `acrl.Agent` does so."""
        return self._file.draws

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._path, self._file.to_bytes(), self._file.rng)

    def __repr__(self) -> str:
        learner, method, steps, seed = self._file.training
        where = f" {self._path!r}," if self._path else ""
        return f"<acrl.Policy{where} {self.requirements!r}, {method} by {learner}, {steps} steps, seed {seed}>"


def from_training(content: bytes, seed: int) -> Policy:
    """The policy of a training that is over."""
    policy = Policy.__new__(Policy)
    policy._set("", _acrl.PolicyFile.from_bytes(content, "the policy", seed=seed))
    return policy


def _restored(path: str, content: bytes, rng: str) -> Policy:
    """What a pickle is made of again."""
    policy = Policy.__new__(Policy)
    policy._set(path, _acrl.PolicyFile.from_bytes(content, path, rng))
    return policy


def _numbers(what: str, values: Any) -> FloatArray:
    try:
        found = np.asarray(values)
    except (ValueError, UserWarning) as error:  # rows of different lengths; before NumPy 1.24 a warning
        raise InputError(f"{what} is no array of numbers: {error}") from error
    if found.dtype.kind not in "fiub":
        raise InputError(f"{what} has numbers of type {found.dtype}, expected floats or integers")
    return np.require(found, np.float64, ["C", "A"])
