"""Trained policies and their files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from . import _acrl
from ._acrl import Objective, Requirement
from ._errors import FileError, InputError, UnknownNameError
from ._spaces import from_description
from ._specification import FloatArray, Named, as_requirements, ordered
from ._tradeoff import LibraryEntry, Tradeoff

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ContinuousAction", "DiscreteAction", "ExecutionDefaults", "Interval", "Policy"]


class DiscreteAction(NamedTuple):
    """A part of an action: one of 0 … n - 1."""

    n: int


class ContinuousAction(NamedTuple):
    """A part of an action: a number in a range."""

    low: float
    high: float


class Interval(NamedTuple):
    """The range of one number of an observation."""

    low: float
    high: float


class ExecutionDefaults(NamedTuple):
    """Defaults for the execution of a policy, found by evaluation and calibration at the end of training.

    ``executor`` is "policy": act by π(s, λ); "library": hold, for each epoch, the weights of the policy library whose
    measured long-run averages are best at λ; or "time_sharing": with entries of the library in turns, in shares that
    make up for what is missing. Those of a solved policy are "stationary": act by the optimal mixture as one randomised
    policy; and "time_sharing": by one policy of the mixture after the other.
    """

    step_size: float
    epoch: int
    executor: Literal["policy", "library", "stationary", "time_sharing"]


class Policy:
    """A trained policy π(s, λ), as written by ``acrl train``; or a solved one, which is an `acrl.SolvedPolicy`.

    Open one with `Policy.load`. Threads may share it. Pickles and copies hold the policy itself, independent of the
    file.
    """

    def __init__(self, path: str | os.PathLike[str], seed: int = 0) -> None:
        name = os.fspath(path)
        found = _acrl.load_policy(name, seed)
        if not isinstance(found, _acrl.PolicyFile):
            raise FileError(f"{name}: a solved policy, expected a trained one; open it with acrl.Policy.load")
        self._set(name, found)

    def _set(self, path: str, file: _acrl.PolicyFile) -> None:
        self._path = path  # empty if it was not opened from a file
        self._file = file
        self._names = [requirement.name for requirement in file.requirements]
        spaces = None if file.spaces is None else json.loads(file.spaces)
        # The spaces of a Gymnasium environment.
        self._observation_codec = None if spaces is None else from_description(spaces["observation"])
        self._action_codec = None if spaces is None else from_description(spaces["action"])
        self._action = [
            ContinuousAction(low, high) if n is None else DiscreteAction(n) for n, low, high in file.action_space
        ]

    @classmethod
    def load(cls, path: str | os.PathLike[str], seed: int = 0) -> Self:
        """Opens a file and checks it; ``seed`` is that of sampled actions.

        Returns:
            A trained policy; or an `acrl.SolvedPolicy`, if ``acrl solve --policy`` wrote the file.
        """
        from ._solved_policy import loaded  # a subclass

        name = os.fspath(path)
        if cls is not Policy:
            return cls(name, seed)
        found = _acrl.load_policy(name, seed)
        if isinstance(found, _acrl.SolvedPolicy):
            return cast("Self", loaded(name, found))
        policy = cls.__new__(cls)
        policy._set(name, found)
        return policy

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the policy with its metadata to a file, atomically."""
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
            deterministic: The mode of the distribution instead of a sample. Default: not `draws`.

        Returns:
            An action of that environment, or a batch of them; else the parts of the action, in the order of
            `action_space`: integers if all of them are discrete.
        """
        if deterministic is None:
            deterministic = not self._file.draws
        if self._observation_codec is not None and self._action_codec is not None:
            if isinstance(multipliers, Mapping):
                multipliers = ordered("multipliers", multipliers, self._names)
            prices = _numbers("the multipliers", multipliers)
            one = self._observation_codec.num_envs(obs) is None
            encoded = self._observation_codec.encode(obs) if one else self._observation_codec.encode_batch(obs)
            action = self._file.predict(np.ascontiguousarray(encoded), prices, deterministic)
            assert action is not None
            return self._action_codec.decode(action) if one else self._action_codec.decode_batch(action)
        found = self._file.predict(obs, multipliers, deterministic)
        if found is None:  # no arrays of floats yet
            if isinstance(multipliers, Mapping):
                multipliers = ordered("multipliers", multipliers, self._names)
            prices = _numbers("the multipliers", multipliers)
            found = self._file.predict(self._observation(obs), prices, deterministic)
            assert found is not None
        return found

    def _observation(self, obs: Any) -> FloatArray:
        """An observation as the array of the native half."""
        if self._observation_codec is not None:
            return np.ascontiguousarray(self._observation_codec.encode(obs))
        return _numbers("the observation", obs)

    @property
    def requirements(self) -> list[Requirement]:
        """Requirements of the training. Their bounds can be changed without training, the rest cannot."""
        return self._file.requirements

    @property
    def objective(self) -> Objective | None:
        """Objective of the training, if there was one."""
        return self._file.objective

    @property
    def observation_space(self) -> list[Interval]:
        """The range of each number of an observation; of a Gymnasium environment, that of its normalisation."""
        return [Interval(low, high) for low, high in self._file.observation_space]

    @property
    def action_space(self) -> list[DiscreteAction | ContinuousAction]:
        """The parts of an action."""
        return list(self._action)

    @property
    def action_repeat(self) -> int:
        """Steps for which an action is repeated (frame skip). `acrl.Agent` does so."""
        return self._file.action_repeat

    @property
    def execution_defaults(self) -> ExecutionDefaults:
        """Defaults of `acrl.Agent` for this policy."""
        return ExecutionDefaults(*self._file.execution_defaults)

    @property
    def scales(self) -> Named:
        """The range of each requirement's reward."""
        return Named(zip(self._names, self._file.scales[1:], strict=True))

    @property
    def objective_scale(self) -> float:
        """The range of the objective; 1 without one."""
        return self._file.scales[0]

    def init_multipliers(self, requirements: Sequence[Requirement] | None = None) -> Named:
        """Initial multipliers: the prices of the bounds, estimated from the policy library.

        Args:
            requirements: Those of the policy, with other bounds; default: with the bounds of the training.
        """
        found = self._file.init_multipliers(self.requirements if requirements is None else list(requirements))
        return Named(zip(self._names, found, strict=True))

    @property
    def library(self) -> list[LibraryEntry]:
        """The policy library: long-run averages of the policy under fixed weights, measured after the training."""
        objective = self.objective
        names = ["" if objective is None else objective.reward, *self._names]
        begin = 1 if objective is None else 0

        def named(values: list[float]) -> Named:
            return Named(list(zip(names, values, strict=True))[begin:])

        return [
            LibraryEntry(named(weights), named(averages), named(errors), steps)
            for weights, averages, errors, steps in self._file.library
        ]

    def tradeoff(
        self,
        requirement: str,
        bounds: ArrayLike | None = None,
        *,
        requirements: Requirement | Iterable[Requirement] = (),
    ) -> Tradeoff:
        """The objective attainable by mixtures of library entries over the bound of one requirement, with prices.

        Args:
            requirement: The name of the requirement whose bound varies.
            bounds: Its bounds; default 50 from the smallest to the largest average of the library.
            requirements: Other bounds of the other requirements; default those of the policy.
        """
        objective, entries = self.objective, self.library
        if objective is None:
            raise InputError("the policy has no objective, so that there is nothing to trade for a requirement")
        found = self._file.rebound(as_requirements(requirements))
        about = next((r for r in found if r.name == requirement), None)
        if about is None:
            raise UnknownNameError(
                f"unknown requirement '{requirement}': the policy has {', '.join(self._names) or 'none'}"
            )
        if bounds is None:
            averages = [entry.averages[requirement] for entry in entries]
            at = np.linspace(min(averages), max(averages), 50) if averages else np.empty(0)
        else:
            at = _numbers("the bounds", bounds).ravel()
        points = self._file.tradeoff(requirement, at.tolist(), found)
        nothing = (np.nan, np.nan, [np.nan] * len(entries))
        values = [nothing if point is None else point for point in points]
        return Tradeoff(
            requirement=about,
            objective=objective,
            requirements=tuple(r for r in found if r.name != requirement),
            bounds=at,
            values=np.array([value for value, _, _ in values], dtype=float),
            prices=np.array([price for _, price, _ in values], dtype=float),
            shares=np.array([shares for _, _, shares in values], dtype=float).reshape(len(at), len(entries)),
            entries=tuple(entries),
        )

    @property
    def draws(self) -> bool:
        """True if actions are to be sampled instead of the mode of the distribution. `acrl.Agent` does so."""
        return self._file.draws

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._path, self._file.to_bytes(), self._file.rng)

    def __repr__(self) -> str:
        learner, method, steps, seed = self._file.training
        where = f" {self._path!r}," if self._path else ""
        return f"<acrl.Policy{where} {self.requirements!r}, {method} by {learner}, {steps} steps, seed {seed}>"


def from_training(content: bytes, seed: int) -> Policy:
    """The policy of a finished training."""
    policy = Policy.__new__(Policy)
    policy._set("", _acrl.PolicyFile.from_bytes(content, "the policy", seed=seed))
    return policy


def _restored(path: str, content: bytes, rng: str) -> Policy:
    """The policy of a pickle."""
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
