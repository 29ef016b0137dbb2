"""Algorithm 1 with any learner: observations that contain the weights, and a scalarized reward."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from ._acrl import Objective, Requirement
from ._errors import InputError, UnknownNameError
from ._former_names import reject_renamed_arguments, reject_renamed_value
from ._rewards import RewardReader, RewardSpec, unpack
from ._specification import FloatArray, as_objective, as_requirements, weights
from ._vector_env import before_1, final_obs_of, merged, pick, replaced, reset_mode, snapshot, supported

__all__ = ["AugmentedEnv", "AugmentedVectorEnv"]

Multipliers: TypeAlias = Mapping[str, float] | Sequence[float] | FloatArray


class _Weighting:
    """The scalarization of rewards: their units, the sampling of weights, and the augmented observation."""

    def __init__(
        self,
        space: spaces.Space[Any],
        objective: Objective | str | None,
        requirements: Requirement | Iterable[Requirement],
        weight_sampler: Literal["simplex", "faces"],
        resample_every: int | None,
        scales: Mapping[str, float] | None,
        weight_scale: float,
    ) -> None:
        self.objective = as_objective(objective)
        self.required = as_requirements(requirements)
        reject_renamed_value("weight_sampler", weight_sampler)
        if weight_sampler not in ("simplex", "faces"):
            raise InputError(f"weight_sampler is {weight_sampler!r}, expected 'simplex' or 'faces'")
        if resample_every is not None and resample_every < 1:
            raise InputError(f"resample_every is {resample_every}, expected a number of steps above 0")
        if not 0 < weight_scale < np.inf:
            raise InputError(f"weight_scale is {weight_scale}, expected a number above 0")
        self.weight_scale = float(weight_scale)
        terms = [] if self.objective is None else [(self.objective.reward, self.objective.sign)]
        terms += [(requirement.reward, requirement.sign) for requirement in self.required]
        if not terms:
            raise InputError("nothing to achieve: give an objective or requirements")
        self.names = [name for name, _ in terms]
        self.scales = self._ranges(scales or {})
        # A reward is weighted with its sign and in units of its range.
        self.units: FloatArray = np.array([sign for _, sign in terms]) / self.scales
        self.weight_sampler, self.resample_every = weight_sampler, resample_every
        self.generator = np.random.default_rng()
        self.codec = supported("observation", space)
        given = space.dtype if isinstance(space, spaces.Box) else getattr(spaces.flatten_space(space), "dtype", None)
        self.dtype = given if given is not None and given.kind == "f" else np.dtype(np.float32)
        ones = np.ones(len(terms))
        self.space = spaces.Box(
            np.concatenate([self.codec.ranges[:, 0], 0 * ones]).astype(self.dtype),
            np.concatenate([self.codec.ranges[:, 1], self.weight_scale * ones]).astype(self.dtype),
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
        """The weights w that are equivalent to multipliers λ."""
        if len(multipliers) != len(self.required):
            raise InputError(f"multipliers: expected {len(self.required)} numbers, found {len(multipliers)}")
        given = list(multipliers.values()) if isinstance(multipliers, Mapping) else multipliers
        # w·(r/R) has the same maximisers as r0 + λ·r if w is in proportion to (R0, λ R).
        first = 1.0 if self.objective is None else self.scales[0]
        prices = np.asarray(given, dtype=np.float64) * self.scales[len(self.names) - len(given) :] / first
        return weights(prices, self.objective is not None)

    def draw(self, count: int) -> FloatArray:
        """Sampled weights, a row for each of ``count`` environments."""
        n = len(self.names)
        drawn: FloatArray = self.generator.dirichlet(np.ones(n), size=count)
        if self.weight_sampler == "faces" and n > 1:
            for row in np.flatnonzero(self.generator.random(count) < 0.5):
                kept = self.generator.choice(n, size=self.generator.integers(1, n), replace=False)
                mask = np.zeros(n)
                mask[kept] = 1.0
                drawn[row] = drawn[row] * mask / (drawn[row] @ mask)
        return drawn

    def checked(self, given: ArrayLike, num_envs: int | None) -> FloatArray:
        """Weights of the user, one row for all environments or a row for each."""
        found = np.asarray(given, dtype=np.float64)
        n = len(self.names)
        if found.shape != (n,) and (num_envs is None or found.shape != (num_envs, n)):
            expected = f"({n},)" if num_envs is None else f"({n},) or ({num_envs}, {n})"
            raise InputError(f"the weights have shape {found.shape}, expected {expected}")
        if not (np.isfinite(found).all() and (found >= 0).all() and (found.sum(axis=-1) > 0).all()):
            raise InputError(f"the weights are {found.tolist()}, expected nonnegative numbers that are not all 0")
        scaled: FloatArray = found / found.sum(axis=-1, keepdims=True)
        return scaled if num_envs is None else np.array(np.broadcast_to(scaled, (num_envs, n)))

    def append(self, obs: Any, applied: FloatArray) -> NDArray[Any]:
        return np.concatenate([self.codec.encode(obs), self.weight_scale * applied]).astype(self.dtype)

    def append_batch(self, obs: Any, applied: FloatArray) -> NDArray[Any]:
        return np.concatenate([self.codec.encode_batch(obs), self.weight_scale * applied], axis=1).astype(self.dtype)


class AugmentedEnv(gymnasium.Wrapper[NDArray[Any], Any, Any, Any]):
    """Turns an environment with several rewards into one with a single reward, for any learner.

    Weights w are sampled at every reset, and every ``resample_every`` steps. They are appended to the observation,
    which is flattened first if it is not a vector, and the reward is w·r. The result is π(s, λ); run it with `Agent`:

    >>> import acrl, gymnasium
    >>> env = acrl.AugmentedEnv(gymnasium.make("CartPole-v1"), objective="reward", requirements=acrl.at_most("x", 0.5),
    ...                         rewards=lambda obs, action, next_obs, reward, info: {"x": abs(next_obs[0])})
    >>> env.observation_space.shape  # four numbers and two weights
    (6,)
    >>> obs, info = env.reset(seed=0)
    >>> env.augment(np.zeros(4), [1.0])  # the learner's observation while an agent runs
    array([0. , 0. , 0. , 0. , 0.5, 0.5], dtype=float32)

    With a learner's ``model`` the agent's policy is ``lambda obs, lam: model.predict(env.augment(obs, lam))[0]``.

    Args:
        env: Whose step gives a reward; or a vector of them (MO-Gymnasium); or a reward and a cost as in
            Safety-Gymnasium. Rewards are known by name: "reward", or "reward0", "reward1" … if it is a vector; "cost"
            (from Safety-Gymnasium's tuple or ``info["cost"]``; "cost0", "cost1" … if that is a vector); "terminated"
            and "truncated", which are 1 in a step that ends an episode so; and other numbers by their key in ``info``.
        objective: The objective, if there is one: a reward's name is maximised.
        requirements: The requirements. Only rewards and directions are used here; bounds matter when an agent runs.
        rewards: The names of the components of a vector reward; or a dict from names to components or keys of ``info``;
            or a function ``rewards(obs, action, next_obs, reward, info)`` that returns the rewards by name, or as a
            vector ("reward0", "reward1" …).
        weight_sampler: "simplex": uniform on the simplex; "faces": half of the samples are on one of its faces, where
            weights are 0 as they are where requirements are not binding.
        resample_every: Steps after which weights are sampled again within an episode.
        scales: Ranges of the rewards by name, the units in which they are weighted; default 1. Give them where they
            differ much, or most weights are equivalent: `acrl.check_env` measures them.
        weight_scale: Factor of the weights in the observation. Above 1 they matter more to an untrained network.
    """

    @reject_renamed_arguments
    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        objective: Objective | str | None = None,
        requirements: Requirement | Iterable[Requirement],
        rewards: RewardSpec | None = None,
        weight_sampler: Literal["simplex", "faces"] = "simplex",
        resample_every: int | None = None,
        scales: Mapping[str, float] | None = None,
        weight_scale: float = 1.0,
    ) -> None:
        super().__init__(env)
        self._weighting = _Weighting(
            env.observation_space, objective, requirements, weight_sampler, resample_every, scales, weight_scale
        )
        self._reader = RewardReader(self._weighting.names, rewards)
        self._since = 0
        self._raw: Any = None  # what was encoded last, for a function that asks
        n = len(self._weighting.names)
        self._weights: FloatArray = np.full(n, 1 / n)
        self.observation_space = self._weighting.space

    @property
    def requirements(self) -> list[Requirement]:
        """The requirements."""
        return list(self._weighting.required)

    @property
    def weights(self) -> FloatArray:
        """The present weights: of the objective, if there is one, and of each requirement."""
        return self._weights.copy()

    def augment(self, obs: Any, multipliers: Multipliers) -> NDArray[Any]:
        """The observation of the learner for multipliers λ."""
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
        self._store(obs)
        return self._weighting.append(obs, self._weights), {**info, "weights": self.weights}

    def step(self, action: Any) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """One step; ``info["rewards"]`` are the rewards by name, ``info["weights"]`` the weights that were applied."""
        returned: Any = self.env.step(action)
        obs, reward, terminated, truncated, info = unpack(returned)
        values = self._reader.read(self._raw, action, obs, reward, terminated, truncated, info)
        self._store(obs)
        applied = self._weights
        self._since += 1
        if self._weighting.resample_every is not None and self._since >= self._weighting.resample_every:
            self._weights = self._weighting.draw(1)[0]
            self._since = 0
        info = {
            **info,
            "rewards": dict(zip(self._weighting.names, values, strict=True)),
            "weights": applied.copy(),
        }
        weighted = float(applied @ (self._weighting.units * values))
        return self._weighting.append(obs, self._weights), weighted, bool(terminated), bool(truncated), info

    def _store(self, obs: Any) -> None:
        if self._reader.is_function:
            self._raw = snapshot(obs)


class AugmentedVectorEnv(gymnasium.vector.VectorEnv):
    """`AugmentedEnv` for vector environments: each environment has weights of its own.

    Environments reset by the autoreset mode of the vector environment, and sample new weights then. The final
    observation of an episode (``final_obs``) has the weights under which it ended. A function for ``rewards`` is called
    once for all environments, with arrays, and returns arrays (N,) by name or (N, n); ``infos["rewards"]`` are arrays
    by name.

    >>> import acrl, gymnasium
    >>> envs = acrl.AugmentedVectorEnv(gymnasium.make_vec("CartPole-v1", num_envs=3), objective="reward",
    ...                                requirements=acrl.at_most("terminated", 0.01))
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape, infos["weights"].shape
    ((3, 6), (3, 2))

    Args:
        env: A vector environment.
        objective: See `AugmentedEnv`, also for the others.
        requirements: The requirements.
        rewards: Where the rewards are found.
        weight_sampler: Distribution of the weights.
        resample_every: Steps after which the weights of an environment are sampled again within an episode.
        scales: Ranges of the rewards.
        weight_scale: Factor of the weights in the observation.
    """

    @reject_renamed_arguments
    def __init__(
        self,
        env: gymnasium.vector.VectorEnv,
        *,
        objective: Objective | str | None = None,
        requirements: Requirement | Iterable[Requirement],
        rewards: RewardSpec | None = None,
        weight_sampler: Literal["simplex", "faces"] = "simplex",
        resample_every: int | None = None,
        scales: Mapping[str, float] | None = None,
        weight_scale: float = 1.0,
    ) -> None:
        if not hasattr(env, "num_envs") or not hasattr(env, "single_observation_space"):
            raise InputError(f"{env!r} is no vector environment: expected a gymnasium.vector.VectorEnv")
        self.env = env
        self._weighting = _Weighting(
            env.single_observation_space, objective, requirements, weight_sampler, resample_every, scales, weight_scale
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
        """The requirements."""
        return list(self._weighting.required)

    @property
    def weights(self) -> FloatArray:
        """The present weights, a row for each environment."""
        return self._weights.copy()

    @property
    def unwrapped(self) -> Any:
        """The innermost environment."""
        return self.env.unwrapped

    def augment(self, obs: Any, multipliers: Multipliers) -> NDArray[Any]:
        """The observation of the learner for multipliers λ: of one observation, or of a batch of them."""
        applied = self._weighting.of(multipliers)
        num_envs = self._weighting.codec.num_envs(obs)
        if num_envs is None:
            return self._weighting.append(obs, applied)
        return self._weighting.append_batch(obs, np.broadcast_to(applied, (num_envs, len(applied))))

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Starts episodes with new weights, or with those of ``options={"weights": ...}``, (n,) or (N, n)."""
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
        self._store(obs)
        return self._weighting.append_batch(obs, self._weights), {**infos, "weights": self.weights}

    def step(self, actions: Any) -> tuple[NDArray[Any], FloatArray, Any, Any, dict[str, Any]]:
        """One step of each environment; one that only resets has the reward 0."""
        returned: Any = self.env.step(actions)
        obs, reward, terminated, truncated, infos = unpack(returned)
        terminated, truncated = np.asarray(terminated, dtype=np.bool_), np.asarray(truncated, dtype=np.bool_)
        begun = self._waiting
        valid = ~begun if begun.any() else None
        over = (terminated | truncated) & ~begun
        finals = final_obs_of(infos) if over.any() else None
        at_once = self._resets_at_once(finals is not None)
        step_infos, next_obs = infos, obs
        if finals is not None:
            step_infos = merged(infos, over)
            if self._reader.is_function:
                next_obs = replaced(self.env.single_observation_space, obs, finals, over)
            key = "final_obs" if "final_obs" in infos else "final_observation"
            last = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(over):
                last[i] = self._weighting.append(pick(finals, int(i)), self._weights[i])
            infos = {**infos, key: last}
        values = self._reader.read_batch(self._raw, actions, next_obs, reward, terminated, truncated, step_infos, valid)
        self._store(obs)
        applied = self._weights
        weighted = ((values * self._weighting.units) * applied).sum(axis=1)
        self._since += 1
        new = begun | over if at_once else begun
        if self._weighting.resample_every is not None:
            # Not in the step before a reset that takes one of its own: there the last observation is returned.
            new = new | ((self._since >= self._weighting.resample_every) & ~over)
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

    def _store(self, obs: Any) -> None:
        if self._reader.is_function:
            self._raw = snapshot(obs)

    def render(self) -> Any:
        """Renders the vector environment."""
        return self.env.render()

    def close(self, **kwargs: Any) -> None:
        """Closes the vector environment."""
        self.closed = True
        self.env.close(**kwargs)

    def close_extras(self, **kwargs: Any) -> None:
        """No further resources."""
