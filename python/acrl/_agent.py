"""An agent that meets its requirements while it runs."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, SupportsIndex, runtime_checkable

from . import _acrl
from ._acrl import Objective, Requirement
from ._diagnosis import Diagnosis, diagnosed
from ._errors import FileError, InputError, UnknownNameError
from ._former_names import reject_renamed_arguments
from ._policy import Policy
from ._solved_policy import SolvedPolicy
from ._specification import FloatArray, Named, Verdict, as_objective, as_requirements, ordered

__all__ = ["Agent", "Predictor", "RequirementCertificate", "Requirements"]

_FORMAT = "acrl-agent"
_VERSION = 2


@runtime_checkable
class Predictor(Protocol):
    """An object that acts on an observation and multipliers, such as `acrl.Policy`."""

    def predict(self, obs: Any, multipliers: FloatArray, *, deterministic: bool) -> Any:
        """The action."""


@dataclass(frozen=True)
class RequirementCertificate:
    """Certificate of one requirement since its ledger was opened.

    ``certified_shortfall`` is a proven upper bound on the violation, for any policy. The ``verdict`` is "satisfied" if
    the average is on the right side of the bound, "within_tolerance" if the certified shortfall is at most the
    ``tolerance``, else "violated"; before the first step it is "violated".
    """

    name: str
    bound: float
    direction: Literal["at_least", "at_most"]
    average: float
    certified_shortfall: float
    tolerance: float
    verdict: Verdict
    steps: int

    @property
    def met(self) -> bool:
        """True unless violated."""
        return self.verdict != "violated"


class Requirements(Mapping[str, Requirement]):
    """The requirements of an agent by name. Assign a number to change a bound from the next step on."""

    def __init__(self, native: _acrl.Agent) -> None:
        self._native = native

    def _all(self) -> dict[str, Requirement]:
        return {requirement.name: requirement for requirement in self._native.requirements()}

    def __getitem__(self, name: str) -> Requirement:
        found = self._all()
        if name not in found:
            raise UnknownNameError(f"unknown requirement '{name}': the agent has {', '.join(found) or 'none'}")
        return found[name]

    def __setitem__(self, name: str, bound: float) -> None:
        self[name]  # raises the better error for an unknown name
        self._native.set_bound(name, bound)

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
        requirements: The requirements; default those of an `acrl.Policy`. They replace those of an `acrl.SolvedPolicy`
            on the same reward and direction or are added; if they differ, the problem is solved again.
        step_size: η, above 0. With ``scales`` it is in units of the rewards' ranges. Default 0.5.
        epoch: T₀, the steps between two updates of λ (a dual epoch), or "auto", which lengthens it as needed. Default
            "auto". With an `acrl.SolvedPolicy` "auto" follows the schedule of its plan.
        epoch_start: The initial length of "auto". Default 10.
        objective: The objective or its reward, which is then among the `averages`; or True or False.
        scales: The range of each requirement's reward, by name or in order. Default 1 each.
        objective_scale: The range of the objective. Default 1.
        init_multipliers: Initial λ, by name or in order. Default 0 each.
        tolerance: The certified shortfall that is tolerated, as a share of what is asked: of the bound, or of its
            distance from the worst long-run average in the policy library, if that is smaller, or of half the reward's
            range.
        deterministic: Argument of ``predict``. Default: not ``draws`` of an `acrl.Policy`, and True for others.
        executor: For an `acrl.Policy`: see `ExecutionDefaults`. Default that of the policy, and "policy" with a fixed
            epoch. The executor "policy" changes to "library" when "auto" has made the epoch four times as long, because
            then π(s, λ) alone does not meet the requirements. For an `acrl.SolvedPolicy` "stationary" or
            "time_sharing": how its mixture is realised; default whichever attains the optimum.

    With an `acrl.SolvedPolicy` ``act`` takes a state (index or name) and returns the index of an action. λ starts at
    the optimal multipliers. At the start of each epoch the shares of the policies of the mixture are solved for again,
    so that they make up for what is missing of each reward. A changed bound solves the problem again, which takes as
    long as `acrl.solve`; if the new bounds cannot be met, `acrl.InputError` is raised and nothing changes.
    """

    @reject_renamed_arguments
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
        init_multipliers: Mapping[str, float] | Iterable[float] | None = None,
        tolerance: float = 0.01,
        deterministic: bool | None = None,
        executor: Literal["policy", "library", "stationary", "time_sharing"] | None = None,
    ) -> None:
        if isinstance(policy, SolvedPolicy):
            required = policy._solved.rebound([] if requirements is None else as_requirements(requirements))
            if objective is not None and objective is not True and as_objective(objective or None) != policy.objective:
                raise InputError(
                    f"the objective of the solved policy is {policy.objective!r}; solve it again for another"
                )
            objective = policy.objective or False
        elif isinstance(policy, Policy):
            required = policy._file.rebound([] if requirements is None else as_requirements(requirements))
            objective = (policy.objective or False) if objective is None else objective
        elif requirements is None:
            raise InputError("an agent needs requirements, unless its policy is an acrl.Policy")
        else:
            required = _acrl.named(as_requirements(requirements))
        self._objective_name = None if isinstance(objective, bool) else as_objective(objective)
        self._has_objective = objective is not False
        # Written so that a NaN is refused too.
        if not 0 < tolerance <= 1:
            raise InputError(f"the tolerance is {tolerance}, expected a number above 0 and at most 1")
        self._tolerance = float(tolerance)
        if executor == "time_sharing" and not isinstance(policy, Policy):
            raise InputError("only an acrl.Policy can be executed by time sharing")
        if executor == "library" and (not isinstance(policy, Policy) or isinstance(policy, SolvedPolicy)):
            raise InputError("only a trained acrl.Policy can be executed by its library")
        fixed, start = _epoch(epoch, epoch_start)
        names = [requirement.name for requirement in required]
        self._native = _acrl.Agent(
            required,
            *self._settings(policy, deterministic),
            step_size=step_size,
            epoch=fixed,
            epoch_start=start,
            objective_scale=objective_scale,
            scales=None if scales is None else ordered("scales", scales, names),
            multipliers=None if init_multipliers is None else ordered("init_multipliers", init_multipliers, names),
            executor=executor,
            tolerance=self._tolerance,
        )
        self._begin()

    def _settings(
        self, policy: Any, deterministic: bool | None
    ) -> tuple[str | None, bool, _acrl.PolicyFile | None, bool, int, _acrl.SolvedPolicy | None]:
        """Arguments of the native half beside its state."""
        self._policy = policy
        self._predicts = _predicts(policy)
        solved = policy._solved if isinstance(policy, SolvedPolicy) else None
        trained = isinstance(policy, Policy) and solved is None
        self._trained, self._solved = trained, solved is not None
        # True if observations are vectors of numbers, which need no encoding.
        self._plain = trained and (policy._observation_codec is None or policy._observation_codec.plain)
        self._deterministic = not (trained and policy.draws) if deterministic is None else bool(deterministic)
        name = None if self._objective_name is None else self._objective_name.reward
        file, action_repeat = (policy._file, policy.action_repeat) if trained else (None, 1)
        return name, self._has_objective, file, self._deterministic, action_repeat, solved

    def _begin(self) -> None:
        # Only bounds can change later; names and directions cannot.
        self._required = self._native.requirements()

    def act(self, obs: Any) -> Any:
        """The action of π(obs, λ) with the present multipliers.

        With an action repeat the policy chooses a new action after that many observed steps.
        """
        if self._trained:
            action = self._native.act(obs) if self._plain else None
            if action is None:
                action = self._native.act(self._policy._observation(obs))
            return action if self._policy._action_codec is None else self._policy._action_codec.decode(action)
        if self._solved:
            return self._native.act_in_state(obs)
        multipliers = self._native.multipliers()
        if self._predicts:
            return self._policy.predict(obs, multipliers, deterministic=self._deterministic)
        return self._policy(obs, multipliers)

    def observe(
        self,
        rewards: Mapping[str, float] | Iterable[float],
        *,
        terminated: bool = False,
        truncated: bool = False,
    ) -> bool:
        """Takes the rewards of one step; True if the multipliers were updated.

        Args:
            rewards: By reward (further keys are ignored), or in the order of the requirements, with or without the
                objective before them. A missing objective counts as 0.
            terminated: True if the environment terminated the episode; a tabular policy, whose model is estimated on,
                does not count the next episode's first observation as the successor then.
            truncated: True if the episode was cut off.
        """
        return self._native.observe(rewards, terminated, truncated)

    @property
    def requirements(self) -> Requirements:
        """The requirements by name; assign a number to change a bound."""
        return Requirements(self._native)

    @property
    def multipliers(self) -> Named:
        """λ, by requirement."""
        names = (requirement.name for requirement in self._required)
        return Named(zip(names, self._native.multipliers().tolist(), strict=True))

    @property
    def weights(self) -> FloatArray:
        """(1, λ)/(1 + Σλ), or λ/Σλ without an objective; see `acrl.weights`."""
        found = self._native.weights()
        return found if self._has_objective else found[1:]

    @property
    def averages(self) -> Named:
        """The averages since the ledger was opened, by requirement; and that of the objective, if it has a name."""
        first, *rest = self._native.averages()
        found = Named() if self._objective_name is None else Named({self._objective_name.reward: first})
        found.update(zip((requirement.name for requirement in self._required), rest, strict=True))
        return found

    @property
    def certificate(self) -> dict[str, RequirementCertificate]:
        """The certificate of each requirement, by name."""
        steps, entries = self._native.certificate()
        tolerances = self._native.tolerances(self._tolerance)
        verdicts = self._native.verdicts(self._tolerance)
        return {
            name: RequirementCertificate(
                name=name,
                bound=bound,
                direction=requirement.direction,
                average=average,
                certified_shortfall=certified,
                verdict=verdict,
                tolerance=tolerance,
                steps=steps,
            )
            for (name, bound, average, certified), requirement, tolerance, verdict in zip(
                entries, self._required, tolerances, verdicts, strict=True
            )
        }

    @property
    def diagnosis(self) -> Diagnosis:
        """Why a requirement is not met, by the steps since the ledger was opened.

        For a trained `acrl.Policy` the evidence is its library of long-run averages and the rewards of its training;
        for an `acrl.SolvedPolicy` the exact averages of the policies of its mixture. For any other policy it is
        the observed rewards, so that the verdict is never "infeasible".

        >>> import acrl
        >>> idle = acrl.Agent(lambda obs, multipliers: 0, acrl.at_least("red", 0.5), epoch=10)
        >>> for _ in range(1000):
        ...     moved = idle.observe([0.1])
        >>> idle.diagnosis.verdict
        'policy_insufficient'
        >>> print(idle.diagnosis)
        Policy insufficient: no mixture of the observed rewards meets red; train it longer, or lower a bound.
        """
        names = [requirement.name for requirement in self._required]
        found = json.loads(self._native.diagnosis(self._tolerance))
        return diagnosed(
            found, names, self._native.certificate()[0], "library" if self._trained or self._solved else "observation"
        )

    @property
    def executor(self) -> Literal["policy", "library", "stationary", "time_sharing"]:
        """The present executor: "policy" acts by π(s, λ), "library" holds entries of the policy library.

        "time_sharing" acts by entries in turns, in shares that make up for what is missing.

        Of an `acrl.SolvedPolicy` "stationary" acts by its mixture as one randomised policy, "time_sharing" by one
        policy of the mixture after the other.
        """
        return self._native.executor()[0]

    @property
    def steps(self) -> int:
        """The steps observed in all."""
        return self._native.steps

    @property
    def epoch(self) -> int:
        """The length of the current epoch, in steps."""
        return self._native.epoch

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes everything but the policy to a file, atomically."""
        objective = self._objective_name
        state = {
            "format": _FORMAT,
            "version": _VERSION,
            "objective": self._has_objective if objective is None else [objective.reward, objective.goal],
            "tolerance": self._tolerance,
            "deterministic": self._deterministic,
            "state": self._native.to_json(),
        }
        _acrl.write_atomically(path, json.dumps(state, indent=1).encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str], policy: Callable[[Any, FloatArray], Any] | Predictor) -> Agent:
        """Continues a saved agent with its policy; bit-identical.

        The execution of an `acrl.SolvedPolicy` is planned again, and after a changed bound the problem is solved again;
        the result is bit-identical on the same machine.
        """
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
            agent._restore(state["state"], policy, bool(state["deterministic"]))
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"{os.fspath(path)}: the agent cannot be restored: {error}") from error
        return agent

    def _restore(self, text: str, policy: Any, deterministic: bool) -> None:
        self._native = _acrl.Agent.from_json(text, *self._settings(policy, deterministic))
        self._begin()

    def __getstate__(self) -> dict[str, Any]:
        return {
            **{name: value for name, value in self.__dict__.items() if name not in ("_native", "_required")},
            "_state": self._native.to_json(),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        text = state.pop("_state")
        self.__dict__.update(state)
        self._restore(text, state["_policy"], state["_deterministic"])

    def __repr__(self) -> str:
        return f"<acrl.Agent {self.requirements!r}, {self.steps} steps>"


def _predicts(policy: Any) -> bool:
    """True if ``predict`` is to be called; refuses objects that cannot act on multipliers."""
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


def _epoch(epoch: object, start: object) -> tuple[int | None, int | None]:
    """T₀ if it is fixed, and where "auto" starts if that is given."""
    auto = epoch is None or epoch == "auto"
    what, length = ("the epoch's start", start) if auto else ("the epoch", epoch)
    if auto and length is None:
        return None, None
    # A bool is an int to Python, but no length.
    if isinstance(length, bool) or not isinstance(length, SupportsIndex) or length.__index__() < 1:
        expected = "a number of steps above 0" if auto else 'a number of steps above 0 or "auto"'
        raise InputError(f"{what} is {length!r}, expected {expected}")
    return (None, length.__index__()) if auto else (length.__index__(), None)
