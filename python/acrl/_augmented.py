"""Algorithm 1 with any learner: an environment whose observations hold the weights and whose reward is weighted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from ._acrl import Objective, Requirement
from ._errors import InputError, UnknownNameError
from ._lanes import before_1, last_seen, merged, pick, replaced, reset_mode, snapshot, supported
from ._rewards import RewardReader, RewardSpec, unpack
from ._vocabulary import FloatArray, as_objective, as_requirements, weights

__all__ = ["AugmentedEnv", "AugmentedVectorEnv"]

Multipliers: TypeAlias = Mapping[str, float] | Sequence[float] | FloatArray


class _Weighting:
    """What is weighted, in which units, and how weights are drawn and put beside an observation."""

    def __init__(
        self,
        space: spaces.Space[Any],
        objective: Objective | str | None,
        requirements: Requirement | Iterable[Requirement],
        sampler: Literal["simplex", "corners"],
        every: int | None,
        scales: Mapping[str, float] | None,
        gain: float,
    ) -> None:
        self.objective = as_objective(objective)
        self.required = as_requirements(requirements)
        if sampler not in ("simplex", "corners"):
            raise InputError(f"the sampler is {sampler!r}, expected 'simplex' or 'corners'")
        if every is not None and every < 1:
            raise InputError(f"every is {every}, expected a number of steps above 0")
        if not 0 < gain < np.inf:
            raise InputError(f"the gain is {gain}, expected a number above 0")
        self.gain = float(gain)
        terms = [] if self.objective is None else [(self.objective.reward, self.objective.sign)]
        terms += [(requirement.reward, requirement.sign) for requirement in self.required]
        if not terms:
            raise InputError("nothing to achieve: give an objective or requirements")
        self.names = [name for name, _ in terms]
        self.scales = self._ranges(scales or {})
        # A reward is weighted with its sign and in units of its range.
        self.units: FloatArray = np.array([sign for _, sign in terms]) / self.scales
        self.sampler, self.every = sampler, every
        self.generator = np.random.default_rng()
        self.codec = supported("observation", space)
        given = space.dtype if isinstance(space, spaces.Box) else getattr(spaces.flatten_space(space), "dtype", None)
        self.dtype = given if given is not None and given.kind == "f" else np.dtype(np.float32)
        ones = np.ones(len(terms))
        self.space = spaces.Box(
            np.concatenate([self.codec.ranges[:, 0], 0 * ones]).astype(self.dtype),
            np.concatenate([self.codec.ranges[:, 1], self.gain * ones]).astype(self.dtype),
            dtype=self.dtype.type,
        )

    def _ranges(self, scales: Mapping[str, float]) -> FloatArray:
        for name, scale in scales.items():
            if name not in self.names:
                raise UnknownNameError(f"scales: unknown reward '{name}', expected {', '.join(self.names)}")
            # Written so that a NaN is refused too.
            if not 0 < scale < np.inf:
                raise InputError(f"the scale of '{name}' is {scale}, expected a number above 0")
        return np.array([scales.get(name, 1.0) for name in self.names], dtype=np.float64)

    def of(self, multipliers: Multipliers) -> FloatArray:
        """The weights w that mean the same as multipliers λ."""
        if len(multipliers) != len(self.required):
            raise InputError(f"multipliers: expected {len(self.required)} numbers, found {len(multipliers)}")
        given = list(multipliers.values()) if isinstance(multipliers, Mapping) else multipliers
        # w·(r/R) has the same maximisers as r0 + λ·r if w is in proportion to (R0, λ R).
        first = 1.0 if self.objective is None else self.scales[0]
        prices = np.asarray(given, dtype=np.float64) * self.scales[len(self.names) - len(given) :] / first
        return weights(prices, self.objective is not None)

    def draw(self, count: int) -> FloatArray:
        """Weights for so many lanes."""
        n = len(self.names)
        drawn: FloatArray = self.generator.dirichlet(np.ones(n), size=count)
        if self.sampler == "corners" and n > 1:
            for row in np.flatnonzero(self.generator.random(count) < 0.5):
                kept = self.generator.choice(n, size=self.generator.integers(1, n), replace=False)
                mask = np.zeros(n)
                mask[kept] = 1.0
                drawn[row] = drawn[row] * mask / (drawn[row] @ mask)
        return drawn

    def checked(self, given: ArrayLike, lanes: int | None) -> FloatArray:
        """Weights that a user gave, one row for all lanes or a row for each."""
        found = np.asarray(given, dtype=np.float64)
        n = len(self.names)
        if found.shape != (n,) and (lanes is None or found.shape != (lanes, n)):
            expected = f"({n},)" if lanes is None else f"({n},) or ({lanes}, {n})"
            raise InputError(f"the weights have shape {found.shape}, expected {expected}")
        if not (np.isfinite(found).all() and (found >= 0).all() and (found.sum(axis=-1) > 0).all()):
            raise InputError(f"the weights are {found.tolist()}, expected nonnegative numbers that are not all 0")
        scaled: FloatArray = found / found.sum(axis=-1, keepdims=True)
        return scaled if lanes is None else np.array(np.broadcast_to(scaled, (lanes, n)))

    def append(self, obs: Any, applied: FloatArray) -> NDArray[Any]:
        return np.concatenate([self.codec.encode(obs), self.gain * applied]).astype(self.dtype)

    def append_batch(self, obs: Any, applied: FloatArray) -> NDArray[Any]:
        return np.concatenate([self.codec.encode_batch(obs), self.gain * applied], axis=1).astype(self.dtype)


class AugmentedEnv(gymnasium.Wrapper[NDArray[Any], Any, Any, Any]):
    """Turns an environment with several rewards into one with a single reward, for any learner.

    At every reset, and every so many steps, weights w are drawn. They are appended to the observation, which is
    flattened first if it is not a vector, and the reward is w·r. What is learnt is π(s, λ); run it with `Agent`:

    >>> import acrl, gymnasium
    >>> env = acrl.AugmentedEnv(gymnasium.make("CartPole-v1"), objective="reward", requirements=acrl.at_most("x", 0.5),
    ...                         rewards=lambda obs, action, next_obs, reward, info: {"x": abs(next_obs[0])})
    >>> env.observation_space.shape  # four numbers and two weights
    (6,)
    >>> obs, info = env.reset(seed=0)
    >>> env.augment(np.zeros(4), [1.0])  # what the learner is to be given while an agent runs
    array([0. , 0. , 0. , 0. , 0.5, 0.5], dtype=float32)

    With a learner's ``model`` the agent's policy is ``lambda obs, lam: model.predict(env.augment(obs, lam))[0]``.

    Args:
        env: Whose step gives a reward; or a vector of them (MO-Gymnasium); or a reward and a cost as in
            Safety-Gymnasium. Rewards are known by name: "reward", or "reward0", "reward1" … if it is a vector; "cost"
            (from Safety-Gymnasium's tuple or ``info["cost"]``; "cost0", "cost1" … if that is a vector); "terminated"
            and "truncated", which are 1 in a step that ends an episode so; and other numbers by their key in ``info``.
        objective: What to improve, if anything: a reward's name is maximised.
        requirements: What is required. Only rewards and sides matter here; bounds matter when an agent runs.
        rewards: The names of the components of a vector reward; or a dict from names to components or keys of ``info``;
            or a function ``rewards(obs, action, next_obs, reward, info)`` that returns the rewards by name, or as a
            vector ("reward0", "reward1" …).
        sampler: "simplex": all weights alike; "corners": in half of the draws one or more of the weights are 0, as they
            are where requirements are met with room to spare.
        every: Draw anew after so many steps, too.
        scales: The ranges of rewards, by name, in units of which they are weighted; default 1. Give them where they
            differ much, or most weights mean the same: `acrl.check_env` measures them.
        gain: The weights in the observation are multiplied by it. Above 1 a network heeds them more at first.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        objective: Objective | str | None = None,
        requirements: Requirement | Iterable[Requirement],
        rewards: RewardSpec | None = None,
        sampler: Literal["simplex", "corners"] = "simplex",
        every: int | None = None,
        scales: Mapping[str, float] | None = None,
        gain: float = 1.0,
    ) -> None:
        super().__init__(env)
        self._weighting = _Weighting(env.observation_space, objective, requirements, sampler, every, scales, gain)
        self._reader = RewardReader(self._weighting.names, rewards)
        self._since = 0
        self._raw: Any = None  # what was seen last, for a function that asks
        n = len(self._weighting.names)
        self._weights: FloatArray = np.full(n, 1 / n)
        self.observation_space = self._weighting.space

    @property
    def requirements(self) -> list[Requirement]:
        """What is required."""
        return list(self._weighting.required)

    @property
    def weights(self) -> FloatArray:
        """The weights of now: of the objective, if there is one, and of each requirement."""
        return self._weights.copy()

    def augment(self, obs: Any, multipliers: Multipliers) -> NDArray[Any]:
        """The observation that the learner knows, for multipliers λ."""
        return self._weighting.append(obs, self._weighting.of(multipliers))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Starts an episode with new weights, or with those of ``options={"weights": [...]}``."""
        if seed is not None:
            # A generator of its own, so that the environment does what it does without weights.
            self._weighting.generator = np.random.default_rng([seed, 1])
        options = dict(options or {})
        given = options.pop("weights", None)
        self._weights = self._weighting.draw(1)[0] if given is None else self._weighting.checked(given, None)
        self._since = 0
        obs, info = self.env.reset(seed=seed, options=options or None)
        self._keep(obs)
        return self._weighting.append(obs, self._weights), {**info, "weights": self.weights}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """One step; ``info["rewards"]`` are the rewards by name, ``info["weights"]`` the weights that were applied."""
        told: Any = self.env.step(action)
        obs, reward, terminated, truncated, info = unpack(told)
        values = self._reader.read(self._raw, action, obs, reward, terminated, truncated, info)
        self._keep(obs)
        applied = self._weights
        self._since += 1
        if self._weighting.every is not None and self._since >= self._weighting.every:
            self._weights = self._weighting.draw(1)[0]
            self._since = 0
        info = {
            **info,
            "rewards": dict(zip(self._weighting.names, values, strict=True)),
            "weights": applied.copy(),
        }
        weighted = float(applied @ (self._weighting.units * values))
        return self._weighting.append(obs, self._weights), weighted, bool(terminated), bool(truncated), info

    def _keep(self, obs: Any) -> None:
        if self._reader.asks:
            self._raw = snapshot(obs)


class AugmentedVectorEnv(gymnasium.vector.VectorEnv):
    """`AugmentedEnv` for vector environments: every lane has weights of its own.

    Lanes are reset in the way of the environment, and draw anew then. What it gives for the end of an episode
    (``final_obs``) has the weights under which the episode ended. A function for ``rewards`` is asked once for all
    lanes, with arrays, and gives arrays (L,) by name or (L, n); ``infos["rewards"]`` are arrays by name.

    >>> import acrl, gymnasium
    >>> envs = acrl.AugmentedVectorEnv(gymnasium.make_vec("CartPole-v1", num_envs=3), objective="reward",
    ...                                requirements=acrl.at_most("terminated", 0.01))
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape, infos["weights"].shape
    ((3, 6), (3, 2))

    Args:
        env: A vector environment.
        objective: See `AugmentedEnv`, also for the others.
        requirements: What is required.
        rewards: Where the rewards are.
        sampler: How weights are drawn.
        every: Draw a lane's weights anew after so many steps, too.
        scales: The ranges of rewards.
        gain: What the weights in the observation are multiplied by.
    """

    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        *,
        objective: Objective | str | None = None,
        requirements: Requirement | Iterable[Requirement],
        rewards: RewardSpec | None = None,
        sampler: Literal["simplex", "corners"] = "simplex",
        every: int | None = None,
        scales: Mapping[str, float] | None = None,
        gain: float = 1.0,
    ) -> None:
        if not hasattr(env, "num_envs") or not hasattr(env, "single_observation_space"):
            raise InputError(f"{env!r} is no vector environment: expected a gymnasium.vector.VectorEnv")
        self.env = env
        self._weighting = _Weighting(
            env.single_observation_space, objective, requirements, sampler, every, scales, gain
        )
        self._reader = RewardReader(self._weighting.names, rewards)
        self.num_envs = env.num_envs
        self.metadata = env.metadata
        self.render_mode = getattr(env, "render_mode", None)
        self.spec = getattr(env, "spec", None)
        self.closed = False
        self.single_action_space = env.single_action_space
        self.action_space = env.action_space
        self.single_observation_space = self._weighting.space
        self.observation_space = gymnasium.vector.utils.batch_space(self._weighting.space, self.num_envs)
        n = len(self._weighting.names)
        self._mode = reset_mode(env)
        self._weights: FloatArray = np.full((self.num_envs, n), 1 / n)
        self._since = np.zeros(self.num_envs, dtype=np.int64)
        self._waiting = np.zeros(self.num_envs, dtype=np.bool_)  # for a reset that takes a step of its own
        self._raw: Any = None

    @property
    def requirements(self) -> list[Requirement]:
        """What is required."""
        return list(self._weighting.required)

    @property
    def weights(self) -> FloatArray:
        """The weights of now, a row for each lane."""
        return self._weights.copy()

    @property
    def unwrapped(self) -> Any:
        """The environment within."""
        return self.env.unwrapped

    def augment(self, obs: Any, multipliers: Multipliers) -> NDArray[Any]:
        """The observation that the learner knows, for multipliers λ: for one observation, or for a batch of them."""
        applied = self._weighting.of(multipliers)
        lanes = self._weighting.codec.lanes(obs)
        if lanes is None:
            return self._weighting.append(obs, applied)
        return self._weighting.append_batch(obs, np.broadcast_to(applied, (lanes, len(applied))))

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Starts episodes with new weights, or with those of ``options={"weights": ...}``, (n,) or (L, n)."""
        if seed is not None:
            parts = [seed] if isinstance(seed, int) else [-1 if part is None else part for part in seed]
            self._weighting.generator = np.random.default_rng([*(part + 1 for part in parts), 1])
        options = dict(options or {})
        given = options.pop("weights", None)
        drawn = self._weighting.draw(self.num_envs) if given is None else self._weighting.checked(given, self.num_envs)
        which = np.asarray(options.get("reset_mask", np.ones(self.num_envs, dtype=np.bool_)))
        self._weights = np.where(which[:, None], drawn, self._weights)
        self._since[which] = 0
        self._waiting[which] = False
        within: Any = self.env
        obs, infos = within.reset(seed=seed, options=options or None)
        self._keep(obs)
        return self._weighting.append_batch(obs, self._weights), {**infos, "weights": self.weights}

    def step(self, actions: Any) -> tuple[NDArray[Any], FloatArray, Any, Any, dict[str, Any]]:
        """One step of each lane; a lane that only resets has the reward 0."""
        told: Any = self.env.step(actions)
        obs, reward, terminated, truncated, infos = unpack(told)
        terminated, truncated = np.asarray(terminated, dtype=np.bool_), np.asarray(truncated, dtype=np.bool_)
        begun = self._waiting
        valid = ~begun if begun.any() else None
        over = (terminated | truncated) & ~begun
        finals = last_seen(infos) if over.any() else None
        at_once = self._resets_at_once(finals is not None)
        told_infos, next_obs = infos, obs
        if finals is not None:
            told_infos = merged(infos, over)
            if self._reader.asks:
                next_obs = replaced(self.env.single_observation_space, obs, finals, over)
            key = "final_obs" if "final_obs" in infos else "final_observation"
            last = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(over):
                last[i] = self._weighting.append(pick(finals, int(i)), self._weights[i])
            infos = {**infos, key: last}
        values = self._reader.read_batch(self._raw, actions, next_obs, reward, terminated, truncated, told_infos, valid)
        self._keep(obs)
        applied = self._weights
        weighted = ((values * self._weighting.units) * applied).sum(axis=1)
        self._since += 1
        new = begun | over if at_once else begun
        if self._weighting.every is not None:
            # Not in the step before a reset that takes one of its own: there the last observation is told.
            new = new | ((self._since >= self._weighting.every) & ~over)
        self._waiting = over & (not at_once and self._mode != "disabled")
        if new.any():
            self._weights = applied.copy()
            self._weights[new] = self._weighting.draw(int(new.sum()))
            self._since[new] = 0
        infos = {
            **infos,
            "rewards": {name: values[:, i].copy() for i, name in enumerate(self._weighting.names)},
            "weights": applied.copy(),
        }
        return self._weighting.append_batch(obs, self._weights), weighted, terminated, truncated, infos

    def _resets_at_once(self, shows: bool) -> bool:
        return self._mode == "same_step" or (self._mode is None and (shows or before_1()))

    def _keep(self, obs: Any) -> None:
        if self._reader.asks:
            self._raw = snapshot(obs)

    def render(self) -> Any:
        """What the environment within shows."""
        return self.env.render()

    def close(self, **kwargs: Any) -> None:
        """Closes the environment within."""
        self.closed = True
        self.env.close(**kwargs)

    def close_extras(self, **kwargs: Any) -> None:
        """Nothing else is to be closed."""
