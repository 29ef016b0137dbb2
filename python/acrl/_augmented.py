"""Algorithm 1 with any learner: an environment whose observations hold the weights and whose reward is weighted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, SupportsFloat, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from ._acrl import Objective, Requirement
from ._errors import InputError, UnknownNameError
from ._vocabulary import FloatArray, as_objective, as_requirements, weights

__all__ = ["AugmentedEnv"]

#: From the next observation, the action, the environment's reward and its info to the rewards by name.
RewardFunction: TypeAlias = Callable[[Any, Any, Any, dict[str, Any]], Mapping[str, SupportsFloat]]


class AugmentedEnv(gymnasium.Wrapper[NDArray[Any], Any, Any, Any]):
    """Turns an environment with several rewards into one with a single reward, for any learner.

    At every reset, and every so many steps, weights w are drawn. They are appended to the observation, which is
    flattened first if it is not a vector, and the reward is w·r. What is learnt is π(s, λ); run it with `Agent`:

    >>> import acrl, gymnasium
    >>> env = acrl.AugmentedEnv(gymnasium.make("CartPole-v1"), objective="reward", requirements=acrl.at_most("x", 0.5),
    ...                         rewards=lambda obs, action, reward, info: {"reward": reward, "x": abs(obs[0])})
    >>> env.observation_space.shape  # four numbers and two weights
    (6,)
    >>> obs, info = env.reset(seed=0)
    >>> env.augment(np.zeros(4), [1.0])  # what the learner is to be given while an agent runs
    array([0. , 0. , 0. , 0. , 0.5, 0.5], dtype=float32)

    With a learner's ``model`` the agent's policy is ``lambda obs, lam: model.predict(env.augment(obs, lam))[0]``.

    Args:
        env: Whose step gives a reward; or a vector of them (MO-Gymnasium); or a reward and a cost as in
            Safety-Gymnasium. Rewards are known by name: "reward", "cost" (from Safety-Gymnasium's tuple or
            ``info["cost"]``; "cost0", "cost1" … if that is a vector), and other numbers by their key in ``info``.
        objective: What to improve, if anything: a reward's name is maximised.
        requirements: What is required. Only rewards and sides matter here; bounds matter when an agent runs.
        rewards: The names of the components of a vector reward; or a function
            ``rewards(next_obs, action, reward, info)`` that returns the rewards by name.
        sampler: "simplex": all weights alike; "corners": in half of the draws one or more of the weights are 0, as they
            are where requirements are met with room to spare.
        every: Draw anew after so many steps, too.
        scales: The ranges of rewards, by name, in units of which they are weighted; default 1. Give them where they
            differ much, or most weights mean the same: `acrl.check_env` measures them.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        objective: Objective | str | None = None,
        requirements: Requirement | Iterable[Requirement],
        rewards: RewardFunction | Sequence[str] | None = None,
        sampler: Literal["simplex", "corners"] = "simplex",
        every: int | None = None,
        scales: Mapping[str, float] | None = None,
    ) -> None:
        super().__init__(env)
        self._objective = as_objective(objective)
        self._required = as_requirements(requirements)
        if sampler not in ("simplex", "corners"):
            raise InputError(f"the sampler is {sampler!r}, expected 'simplex' or 'corners'")
        if every is not None and every < 1:
            raise InputError(f"every is {every}, expected a number of steps above 0")
        self._terms = [] if self._objective is None else [(self._objective.reward, self._objective.sign)]
        self._terms += [(requirement.reward, requirement.sign) for requirement in self._required]
        if not self._terms:
            raise InputError("nothing to achieve: give an objective or requirements")
        self._scales = self._ranges(scales or {})
        if isinstance(rewards, str):
            raise InputError(f"rewards is '{rewards}', expected a list of names or a function")
        self._function = rewards if callable(rewards) else None
        self._names = None if rewards is None or callable(rewards) else list(rewards)
        self._sampler = sampler
        self._every = every
        self._since = 0
        self._generator = np.random.default_rng()
        self._weights: FloatArray = np.full(len(self._terms), 1 / len(self._terms))
        flat = spaces.flatten_space(env.observation_space)
        if not isinstance(flat, spaces.Box):
            raise InputError(f"the observation space {env.observation_space} cannot be made a vector")
        self._dtype = flat.dtype if flat.dtype is not None and flat.dtype.kind == "f" else np.dtype(np.float32)
        ones = np.ones(len(self._terms))
        self.observation_space = spaces.Box(
            np.concatenate([flat.low.reshape(-1), 0 * ones]).astype(self._dtype),
            np.concatenate([flat.high.reshape(-1), ones]).astype(self._dtype),
            dtype=self._dtype.type,
        )

    @property
    def requirements(self) -> list[Requirement]:
        """What is required."""
        return list(self._required)

    @property
    def weights(self) -> FloatArray:
        """The weights of now: of the objective, if there is one, and of each requirement."""
        return self._weights.copy()

    def augment(self, obs: Any, multipliers: Mapping[str, float] | Sequence[float] | FloatArray) -> NDArray[Any]:
        """The observation that the learner knows, for multipliers λ."""
        if len(multipliers) != len(self._required):
            raise InputError(f"multipliers: expected {len(self._required)} numbers, found {len(multipliers)}")
        given = list(multipliers.values()) if isinstance(multipliers, Mapping) else multipliers
        # w·(r/R) has the same maximisers as r0 + λ·r if w is in proportion to (R0, λ R).
        first = 1.0 if self._objective is None else self._scales[0]
        prices = np.asarray(given, dtype=np.float64) * self._scales[-len(given) :] / first
        return self._append(obs, weights(prices, self._objective is not None))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Starts an episode with new weights, or with those of ``options={"weights": [...]}``."""
        if seed is not None:
            # A generator of its own, so that the environment does what it does without weights.
            self._generator = np.random.default_rng([seed, 1])
        options = dict(options or {})
        given = options.pop("weights", None)
        self._weights = self._draw() if given is None else self._checked(given)
        self._since = 0
        obs, info = self.env.reset(seed=seed, options=options or None)
        return self._append(obs, self._weights), {**info, "weights": self.weights}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """One step; ``info["rewards"]`` are the rewards by name, ``info["weights"]`` the weights that were applied."""
        told: tuple[Any, ...] = self.env.step(action)
        if len(told) == 6:  # Safety-Gymnasium has the cost in the middle
            obs, reward, cost, terminated, truncated, info = told
            info = {**info, "cost": cost}
        else:
            obs, reward, terminated, truncated, info = told
        named = self._named(obs, action, reward, info)
        values = np.array([sign * self._reward(name, named, info) for name, sign in self._terms])
        values = values / self._scales
        applied = self.weights
        self._since += 1
        if self._every is not None and self._since >= self._every:
            self._weights = self._draw()
            self._since = 0
        info = {**info, "rewards": {name: self._reward(name, named, info) for name, _ in self._terms}}
        info["weights"] = applied
        return (
            self._append(obs, self._weights),
            float(applied @ values),
            bool(terminated),
            bool(truncated),
            info,
        )

    def _named(self, obs: Any, action: Any, reward: Any, info: dict[str, Any]) -> Mapping[str, SupportsFloat]:
        if self._function is not None:
            return self._function(obs, action, reward, info)
        found = np.asarray(reward, dtype=np.float64)
        if self._names is not None:
            if found.shape != (len(self._names),):
                raise InputError(f"the reward has shape {found.shape}, expected one number for each of {self._names}")
            named = dict(zip(self._names, found.tolist(), strict=True))
        elif found.size == 1:
            named = {"reward": found.item()}
        else:
            raise InputError(f"the reward has shape {found.shape}: name its components by rewards=[...]")
        cost = np.asarray(info.get("cost", []))
        if cost.size == 1:
            named.setdefault("cost", float(cost.item()))
        else:
            named.update({f"cost{i}": float(value) for i, value in enumerate(cost.reshape(-1))})
        return named

    @staticmethod
    def _reward(name: str, named: Mapping[str, SupportsFloat], info: dict[str, Any]) -> float:
        if name not in named and name not in info:
            known = ", ".join([*named, *map(str, info)]) or "none"
            raise UnknownNameError(f"the environment gave no reward '{name}': it gave {known}")
        value = float(named[name] if name in named else info[name])
        if not np.isfinite(value):
            raise InputError(f"the reward '{name}' must be a finite number, but it is {value}")
        return value

    def _ranges(self, scales: Mapping[str, float]) -> FloatArray:
        names = [name for name, _ in self._terms]
        for name, scale in scales.items():
            if name not in names:
                raise UnknownNameError(f"scales: unknown reward '{name}', expected {', '.join(names)}")
            # Written so that a NaN is refused too.
            if not 0 < scale < np.inf:
                raise InputError(f"the scale of '{name}' is {scale}, expected a number above 0")
        return np.array([scales.get(name, 1.0) for name in names], dtype=np.float64)

    def _draw(self) -> FloatArray:
        n = len(self._terms)
        drawn: FloatArray = self._generator.dirichlet(np.ones(n))
        if self._sampler == "corners" and n > 1 and self._generator.random() < 0.5:
            kept = self._generator.choice(n, size=self._generator.integers(1, n), replace=False)
            mask = np.zeros(n)
            mask[kept] = 1.0
            drawn = drawn * mask / (drawn @ mask)
        return drawn

    def _checked(self, given: ArrayLike) -> FloatArray:
        found = np.asarray(given, dtype=np.float64)
        if found.shape != (len(self._terms),):
            raise InputError(f"the weights have shape {found.shape}, expected ({len(self._terms)},)")
        if not (np.isfinite(found).all() and (found >= 0).all() and found.sum() > 0):
            raise InputError(f"the weights are {found.tolist()}, expected nonnegative numbers that are not all 0")
        scaled: FloatArray = found / found.sum()
        return scaled

    def _append(self, obs: Any, applied: FloatArray) -> NDArray[Any]:
        flat = np.asarray(spaces.flatten(self.env.observation_space, obs)).reshape(-1)
        return np.concatenate([flat, applied]).astype(self._dtype)
