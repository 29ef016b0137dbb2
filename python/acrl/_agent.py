"""An agent that meets its requirements while it runs."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, SupportsIndex, runtime_checkable

import numpy as np

from . import _acrl
from ._acrl import Objective, Requirement
from ._errors import FileError, InputError, UnknownNameError
from ._policy import Policy
from ._vocabulary import FloatArray, Named, as_objective, as_requirements, ordered

__all__ = ["Agent", "Certified", "Predictor", "Requirements"]

_FORMAT = "acrl-agent"
_VERSION = 1


@runtime_checkable
class Predictor(Protocol):
    """An object that acts on an observation and multipliers, such as `acrl.Policy`."""

    def predict(self, obs: Any, multipliers: FloatArray, *, deterministic: bool) -> Any:
        """The action."""


@dataclass(frozen=True)
class Certified:
    """What is known about one requirement since its ledger was opened.

    ``shortfall`` is proved: the average is behind the bound by at most this, whatever the policy did. ``met`` says
    whether it is within the tolerance; before the first step nothing is.
    """

    name: str
    bound: float
    direction: Literal["at_least", "at_most"]
    average: float
    shortfall: float
    met: bool
    steps: int


class Requirements(Mapping[str, Requirement]):
    """The requirements of an agent by name. Assign a number to change a bound from the next step on."""

    def __init__(self, dynamics: _acrl.Dynamics) -> None:
        self._dynamics = dynamics

    def _all(self) -> dict[str, Requirement]:
        return {requirement.name: requirement for requirement in self._dynamics.requirements()}

    def __getitem__(self, name: str) -> Requirement:
        found = self._all()
        if name not in found:
            raise UnknownNameError(f"unknown requirement '{name}': the agent has {', '.join(found) or 'none'}")
        return found[name]

    def __setitem__(self, name: str, bound: float) -> None:
        self[name]  # an unknown name is better told here
        self._dynamics.set_bound(name, bound)

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(list(self._all().values()))


class Agent:
    """A policy π(s, λ) whose multipliers λ follow the measured deficit.

    At every step call `act`, step the environment, and `observe` the rewards.

    >>> import acrl
    >>> agent = acrl.Agent(lambda obs, multipliers: int(multipliers[0] > 0),
    ...                    [acrl.at_least("red", 0.5)], step_size=0.1, epoch=2)
    >>> for _ in range(1000):
    ...     action = agent.act(None)
    ...     moved = agent.observe({"red": action})
    >>> agent.certificate["red"].met
    True
    >>> agent.requirements["red"] = 0.7  # from the next step on

    Args:
        policy: A callable ``policy(obs, multipliers)``, an object with
            ``predict(obs, multipliers, deterministic=...)``, or an `acrl.Policy`, which also brings defaults
            for everything else.
        requirements: What is required.
        step_size: η, above 0. With ``scales`` it is in units of the rewards' ranges. Default 0.5.
        epoch: T₀, the steps between two updates of λ, or "auto", which finds a length that works. Default "auto".
        epoch_start: Where "auto" starts. Default 10.
        objective: Whether there is an objective; or which reward it is, so that `averages` knows it.
        scales: The range of each requirement's reward, by name or in order. Default 1 each.
        objective_scale: The range of the objective. Default 1.
        multipliers: Where λ starts, by name or in order. Default 0 each.
        tolerance: The certified shortfall that counts as met, as a share of the reward's range.
        deterministic: What ``predict`` is told.
        steering: For an `acrl.Policy`: see `Advice`. Default what it advises.
    """

    def __init__(
        self,
        policy: Callable[[Any, FloatArray], Any] | Predictor,
        requirements: Requirement | Iterable[Requirement] | None = None,
        *,
        step_size: float | None = None,
        epoch: int | Literal["auto"] | None = None,
        epoch_start: int | None = None,
        objective: bool | str | Objective | None = None,
        scales: Mapping[str, float] | Iterable[float] | None = None,
        objective_scale: float | None = None,
        multipliers: Mapping[str, float] | Iterable[float] | None = None,
        tolerance: float = 0.005,
        deterministic: bool = True,
        steering: Literal["policy", "library"] | None = None,
    ) -> None:
        self._set_policy(policy, deterministic, steering)
        if isinstance(policy, Policy):
            given = None if requirements is None else as_requirements(requirements)
            required = policy.requirements if given is None else _rebound(policy.requirements, given)
            step_size = policy.advice.step_size if step_size is None else step_size
            epoch_start = policy.advice.epoch if epoch_start is None else epoch_start
            scales = policy.scales if scales is None else scales
            objective_scale = policy.objective_scale if objective_scale is None else objective_scale
            multipliers = policy.start(required) if multipliers is None else multipliers
            objective = (policy.objective or False) if objective is None else objective
        elif requirements is None:
            raise InputError("an agent needs requirements, unless its policy is an acrl.Policy")
        else:
            required = as_requirements(requirements)
        self._objective_name = None if isinstance(objective, bool) else as_objective(objective)
        self._has_objective = objective is not False
        # Written so that a NaN is refused too.
        if not 0 < tolerance <= 1:
            raise InputError(f"the tolerance is {tolerance}, expected a number above 0 and at most 1")
        self._tolerance = float(tolerance)
        step_size = 0.5 if step_size is None else step_size
        length, auto = _epoch(epoch, 10 if epoch_start is None else epoch_start)
        # Once without what is given by name, to learn the names.
        names = [r.name for r in _acrl.Dynamics(required, step_size, length, auto).requirements()]
        self._dynamics = _acrl.Dynamics(
            required,
            step_size,
            length,
            auto,
            1.0 if objective_scale is None else objective_scale,
            None if scales is None else ordered("scales", scales, names),
            None if multipliers is None else ordered("multipliers", multipliers, names),
        )
        self._begin()

    def _set_policy(self, policy: Any, deterministic: bool, steering: str | None) -> None:
        self._policy = policy
        self._deterministic = deterministic
        self._predicts = _predicts(policy)
        self._hold = policy.hold if isinstance(policy, Policy) else 1
        if steering not in (None, "policy", "library"):
            raise InputError(f"the steering is {steering!r}, expected 'policy' or 'library'")
        if steering == "library" and not isinstance(policy, Policy):
            raise InputError("only an acrl.Policy can be steered by its library")
        self._steering = steering or (policy.advice.steering if isinstance(policy, Policy) else "policy")

    def _begin(self) -> None:
        self._held: tuple[int, Any] | None = None
        self._entry: tuple[int, FloatArray] | None = None
        self._steer()
        # Only the bounds ever change, so these can be kept.
        self._required = self._dynamics.requirements()

    def act(self, obs: Any) -> Any:
        """The action of π(obs, λ) with the multipliers of now.

        A policy whose actions are held for several steps is asked anew when that many have been observed.
        """
        if self._hold > 1:
            steps = self._dynamics.steps
            if self._held is not None and 0 < steps - self._held[0] < self._hold:
                return self._held[1]
            action = self._ask(obs)
            self._held = (steps, action)
            return action
        return self._ask(obs)

    def _ask(self, obs: Any) -> Any:
        if self._entry is not None:
            return self._policy._act(obs, self._entry[1], self._deterministic)
        multipliers = self._dynamics.multipliers()
        if self._predicts:
            return self._policy.predict(obs, multipliers, deterministic=self._deterministic)
        return self._policy(obs, multipliers)

    def _steer(self) -> None:
        """Chooses from the library, at the beginning of each epoch."""
        if self._steering == "library":
            current = None if self._entry is None else self._entry[0]
            self._entry = self._policy._steer(self._dynamics.multipliers(), current, self._dynamics.epoch)

    def observe(self, rewards: Mapping[str, float] | Iterable[float]) -> bool:
        """Takes note of the rewards of one step; whether the multipliers have moved.

        Args:
            rewards: By reward (others may be among them), or in the order of the requirements, with the objective
                before them or without it. An objective that is not given counts as 0.
        """
        if isinstance(rewards, Mapping):
            return self._take(self._in_order(rewards))
        values = [float(value) for value in rewards]
        if len(values) == len(self._required):
            values.insert(0, 0.0)
        elif len(values) != len(self._required) + 1:
            m = len(self._required)
            raise InputError(f"rewards: expected {m} numbers, or {m + 1} with the objective, found {len(values)}")
        return self._take(values)

    def _take(self, values: list[float]) -> bool:
        moved = self._dynamics.observe(values)
        if moved:
            self._steer()
        return moved

    def _in_order(self, rewards: Mapping[str, float]) -> list[float]:
        values = [0.0]
        if self._objective_name is not None:
            values[0] = float(rewards.get(self._objective_name.reward, 0.0))
        for requirement in self._required:
            if requirement.reward not in rewards:
                raise UnknownNameError(
                    f"the reward '{requirement.reward}' is missing: found {', '.join(map(str, rewards)) or 'none'}"
                )
            values.append(float(rewards[requirement.reward]))
        return values

    @property
    def requirements(self) -> Requirements:
        """The requirements by name; assign a number to change a bound."""
        return Requirements(self._dynamics)

    @property
    def multipliers(self) -> Named:
        """λ, by requirement."""
        names = (requirement.name for requirement in self._required)
        return Named(zip(names, self._dynamics.multipliers().tolist(), strict=True))

    @property
    def weights(self) -> FloatArray:
        """(1, λ)/(1 + Σλ), or λ/Σλ without an objective; see `acrl.weights`."""
        found = self._dynamics.weights(self._has_objective)
        return found if self._has_objective else found[1:]

    @property
    def averages(self) -> Named:
        """The averages since the ledger was opened, by requirement; and that of the objective, if it has a name."""
        first, *rest = self._dynamics.averages()
        found = Named() if self._objective_name is None else Named({self._objective_name.reward: first})
        found.update(zip((requirement.name for requirement in self._required), rest, strict=True))
        return found

    @property
    def certificate(self) -> dict[str, Certified]:
        """How far each requirement can be behind, by name."""
        steps, entries = self._dynamics.certificate()
        scales = self._dynamics.scales()
        return {
            name: Certified(
                name=name,
                bound=bound,
                direction=requirement.direction,
                average=average,
                shortfall=shortfall,
                met=steps > 0 and shortfall <= self._tolerance * scale,
                steps=steps,
            )
            for (name, bound, average, shortfall), requirement, scale in zip(
                entries, self._required, scales, strict=True
            )
        }

    @property
    def steps(self) -> int:
        """The steps observed in all."""
        return self._dynamics.steps

    @property
    def epoch(self) -> int:
        """The length of the current epoch, in steps."""
        return self._dynamics.epoch

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything but the policy to a file, as a whole or not at all."""
        objective = self._objective_name
        state = {
            "format": _FORMAT,
            "version": _VERSION,
            "objective": self._has_objective if objective is None else [objective.reward, objective.goal],
            "tolerance": self._tolerance,
            "deterministic": self._deterministic,
            "steering": self._steering,
            "entry": None if self._entry is None else [self._entry[0], self._entry[1].tolist()],
            "dynamics": self._dynamics.to_json(),
        }
        _acrl.write_atomically(path, json.dumps(state, indent=1).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str], policy: Callable[[Any, FloatArray], Any] | Predictor) -> Agent:
        """Goes on where an agent was saved, to the bit, with the policy that it had."""
        try:
            with open(path, encoding="utf-8") as file:  # noqa: PTH123 (any path-like will do)
                state = json.load(file)
        except OSError as error:
            raise FileError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from error
        except ValueError as error:
            raise FileError(f"{os.fspath(path)}: expected JSON in UTF-8: {error}") from error
        if not isinstance(state, dict) or state.get("format") != _FORMAT:
            raise FileError(f"{os.fspath(path)}: expected what acrl.Agent.save wrote")
        if state.get("version") != _VERSION:
            found = state.get("version")
            raise FileError(f"{os.fspath(path)}: its version is {found!r}, this package reads version {_VERSION}")
        agent = cls.__new__(cls)
        try:
            objective = state["objective"]
            agent._has_objective = objective is not False
            agent._objective_name = None if isinstance(objective, bool) else Objective(*objective)
            agent._tolerance = float(state["tolerance"])
            agent._dynamics = _acrl.Dynamics.from_json(state["dynamics"])
            agent._set_policy(policy, bool(state["deterministic"]), state["steering"])
            agent._begin()
            if state["entry"] is not None:
                number, held = state["entry"]
                agent._entry = (int(number), np.array(held, dtype=np.float64))
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"{os.fspath(path)}: the agent cannot be restored: {error}") from error
        return agent

    def __repr__(self) -> str:
        return f"<acrl.Agent {self.requirements!r}, {self.steps} steps>"


def _predicts(policy: Any) -> bool:
    """Whether to call ``predict``; refuses what cannot act on multipliers."""
    predict = getattr(policy, "predict", None)
    if callable(predict):
        try:
            known = "multipliers" in inspect.signature(predict).parameters
        except (TypeError, ValueError):  # written in another language
            known = False
        if known:
            return True
    if callable(policy):
        return False
    raise InputError(
        f"the policy is {policy!r}, expected a callable policy(obs, multipliers) or an object with "
        "predict(obs, multipliers, deterministic=...)"
    )


def _epoch(epoch: object, start: object) -> tuple[int, bool]:
    """T₀ and whether it may grow."""
    auto = epoch is None or epoch == "auto"
    what, length = ("the epoch's start", start) if auto else ("the epoch", epoch)
    # A bool is an int to Python, but no length.
    if isinstance(length, bool) or not isinstance(length, SupportsIndex) or length.__index__() < 1:
        expected = "a number of steps above 0" if auto else 'a number of steps above 0 or "auto"'
        raise InputError(f"{what} is {length!r}, expected {expected}")
    return length.__index__(), auto


def _rebound(trained: list[Requirement], given: list[Requirement]) -> list[Requirement]:
    """What a policy was trained for, with other bounds: nothing else can be had without training."""
    found = list(trained)
    for requirement in given:
        same = [
            i
            for i, r in enumerate(found)
            if r.direction == requirement.direction and (r.reward == requirement.reward or r.name == requirement.name)
        ]
        if not same:
            raise InputError(f"the policy was not trained for {requirement!r}; it was trained for {trained!r}")
        old = found[same[0]]
        found[same[0]] = Requirement(old.name, requirement.bound, old.direction, old.reward)
    return found
