"""Conformance check of an environment, and the ranges of its rewards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ._acrl import Objective, Requirement
from ._errors import InputError
from ._rewards import RewardSpec
from ._spaces import Part
from ._specification import FloatArray, Named, as_objective, as_requirements
from ._vector_env import EnvBatch, EnvLike, is_vector, open_env

__all__ = ["EnvReport", "check_env"]


@dataclass(frozen=True)
class EnvReport:
    """Result of a check of an environment with random actions."""

    #: Minimum and maximum of each reward.
    ranges: dict[str, tuple[float, float]]
    #: The average of each reward.
    averages: Named
    #: Possible mistakes, in sentences.
    remarks: tuple[str, ...]
    #: Steps, over all environments.
    steps: int
    #: Number of episodes.
    episodes: int

    @property
    def scales(self) -> Named:
        """Width of each reward's range, for `AugmentedEnv` and `Agent`; 1 where the reward is constant."""
        return Named({name: high - low if high > low else 1.0 for name, (low, high) in self.ranges.items()})


def check_env(
    env: EnvLike,
    *,
    objective: Objective | str | None = None,
    requirements: Requirement | Iterable[Requirement],
    rewards: RewardSpec | None = None,
    steps: int = 1000,
    seed: int = 0,
) -> EnvReport:
    """Steps an environment with random actions, twice, and reads its rewards as training does.

    Refuses what is no environment, spaces that cannot be used, an observation that is not finite or outside its space,
    a reward that is missing or not finite, and an environment that is not reproducible with the same seed. What is
    unusual but allowed is a remark of the report.

    >>> import acrl, gymnasium
    >>> report = acrl.check_env("CartPole-v1", objective="reward", requirements=acrl.at_most("x", 0.5),
    ...                         rewards=lambda obs, action, next_obs, reward, info: {"x": abs(next_obs[0])})
    >>> report.ranges["reward"], report.remarks
    ((1.0, 1.0), ("the reward 'reward' was 1.0 at every step",))

    Args:
        env: An environment, a function that makes one, its id, or a vector environment.
        objective: The objective, if there is one.
        requirements: The requirements.
        rewards: Where the rewards are found, see `AugmentedEnv`.
        steps: Number of steps, made twice.
        seed: Seed of the environment and of the actions.
    """
    if steps < 1:
        raise InputError(f"steps is {steps}, expected a number above 0")
    required, wanted = as_requirements(requirements), as_objective(objective)
    names = [] if wanted is None else [wanted.reward]
    names = list(dict.fromkeys([*names, *(requirement.reward for requirement in required)]))
    if not names:
        raise InputError("nothing to achieve: give an objective or requirements")
    walks = [_walk(env, names, rewards, steps, seed) for _ in range(2)]
    _compare(*walks)
    walk = walks[0]
    values = np.concatenate(walk.rewards)
    ranges = {name: (float(c.min()), float(c.max())) for name, c in zip(names, values.T, strict=True)}
    remarks = [f"the reward '{n}' was {low} at every step" for n, (low, high) in ranges.items() if low == high]
    for requirement in required:
        low, high = ranges[requirement.reward]
        best = high if requirement.direction == "at_least" else low
        if requirement.sign * best < requirement.sign * requirement.bound:
            remarks.append(f"{requirement!r} was out of reach: the best of any step was {best}")
    if walk.ended == len(values):
        remarks.append("every episode ended in its first step: no action has an effect on later observations")
    elif walk.ended == 0:
        remarks.append(f"no episode ended in {len(values)} steps: where there is no end, none is needed")
    averages = Named(zip(names, values.mean(axis=0).tolist(), strict=True))
    return EnvReport(ranges, averages, tuple(remarks), len(values), walk.num_envs + walk.ended)


@dataclass
class _Walk:
    num_envs: int
    observations: list[FloatArray]
    rewards: list[FloatArray]
    ended: int


def _walk(env: EnvLike, names: list[str], rewards: RewardSpec | None, steps: int, seed: int) -> _Walk:
    found, ours = open_env(env)  # a function may give a vector environment
    envs = EnvBatch(found, names, num_envs=None if is_vector(found) else 1, rewards=rewards, seed=seed)
    try:
        generator = np.random.default_rng(seed)
        walk = _Walk(len(envs), [_inside(envs, envs.reset(), 0)], [], 0)
        for t in range(1, -(-steps // len(envs)) + 1):
            step = envs.step(np.stack([_any(envs.parts, generator) for _ in range(len(envs))]))
            _inside(envs, step.final_observations, t)
            walk.observations.append(_inside(envs, step.observations, t))
            walk.rewards.append(step.rewards[step.mask])
            walk.ended += int((step.terminated | step.truncated).sum())
        return walk
    finally:
        if ours:
            found.close()


def _any(parts: list[Part], generator: np.random.Generator) -> FloatArray:
    """A random action: uniform in a bounded range, else distributed as in Gymnasium."""
    drawn = []
    for count, low, high in parts:
        if count is not None:
            drawn.append(float(generator.integers(count)))
        elif np.isfinite(low) and np.isfinite(high):
            drawn.append(generator.uniform(low, high))
        elif np.isfinite(low):
            drawn.append(low + generator.exponential())
        elif np.isfinite(high):
            drawn.append(high - generator.exponential())
        else:
            drawn.append(generator.normal())
    return np.array(drawn)


def _inside(envs: EnvBatch, observations: FloatArray, step: int) -> FloatArray:
    # With a margin for rounding to single precision.
    low, high = envs.ranges[:, 0], envs.ranges[:, 1]
    outside = (observations < low - 1e-6 * np.abs(low)) | (observations > high + 1e-6 * np.abs(high))
    if outside.any():
        env, i = map(int, np.argwhere(outside)[0])
        raise InputError(
            f"the observation of step {step} is outside the observation space: number {i} of it is "
            f"{observations[env, i]}, expected {low[i]} to {high[i]}"
        )
    return observations


def _compare(first: _Walk, second: _Walk) -> None:
    for t, (a, b) in enumerate(zip(first.observations, second.observations, strict=True)):
        if not np.array_equal(a, b):
            raise InputError(f"after the same seed and actions the observation of step {t} is another one")
        if t < len(first.rewards) and not np.array_equal(first.rewards[t], second.rewards[t]):
            found, before = second.rewards[t].tolist(), first.rewards[t].tolist()
            raise InputError(
                f"after the same seed and actions the rewards of step {t + 1} are {found} and not {before}"
            )
