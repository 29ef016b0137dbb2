"""Whether an environment can be trained on, and how far its rewards range."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ._acrl import Objective, Requirement
from ._errors import InputError
from ._lanes import EnvLike, Lanes, is_vector, open_env
from ._rewards import RewardSpec
from ._spaces import Part
from ._vocabulary import FloatArray, Named, as_objective, as_requirements

__all__ = ["EnvReport", "check_env"]


@dataclass(frozen=True)
class EnvReport:
    """What was seen while an environment was checked with random actions."""

    #: The least and the largest value of each reward.
    ranges: dict[str, tuple[float, float]]
    #: The average of each reward.
    averages: Named
    #: What may be a mistake, in sentences.
    remarks: tuple[str, ...]
    #: The steps of all lanes together.
    steps: int
    #: How many episodes were begun.
    episodes: int

    @property
    def scales(self) -> Named:
        """How far each reward ranges, for `AugmentedEnv` and `Agent`; 1 where it never changes."""
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
    a reward that is missing or not finite, and an environment that does not repeat itself after the same seed. What is
    odd but allowed is told in the remarks of the report.

    >>> import acrl, gymnasium
    >>> report = acrl.check_env("CartPole-v1", objective="reward", requirements=acrl.at_most("x", 0.5),
    ...                         rewards=lambda obs, action, next_obs, reward, info: {"x": abs(next_obs[0])})
    >>> report.ranges["reward"], report.remarks
    ((1.0, 1.0), ("the reward 'reward' was 1.0 at every step",))

    Args:
        env: An environment, a function that makes one, its id, or a vector environment.
        objective: What to improve, if anything.
        requirements: What is required.
        rewards: Where the rewards are, see `AugmentedEnv`.
        steps: How many steps to make, twice.
        seed: Of the environment and of the actions.
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
        remarks.append(
            "every episode ended in its first step: nothing that is done has an effect on what is seen later"
        )
    elif walk.ended == 0:
        remarks.append(f"no episode ended in {len(values)} steps: where there is no end, none is needed")
    averages = Named(zip(names, values.mean(axis=0).tolist(), strict=True))
    return EnvReport(ranges, averages, tuple(remarks), len(values), walk.lanes + walk.ended)


@dataclass
class _Walk:
    lanes: int
    observations: list[FloatArray]
    rewards: list[FloatArray]
    ended: int


def _walk(env: EnvLike, names: list[str], rewards: RewardSpec | None, steps: int, seed: int) -> _Walk:
    found, ours = open_env(env)  # a function may give a vector environment
    lanes = Lanes(found, names, num_envs=None if is_vector(found) else 1, rewards=rewards, seed=seed)
    try:
        generator = np.random.default_rng(seed)
        walk = _Walk(len(lanes), [_inside(lanes, lanes.reset(), 0)], [], 0)
        for t in range(1, -(-steps // len(lanes)) + 1):
            told = lanes.step(np.stack([_any(lanes.parts, generator) for _ in range(len(lanes))]))
            _inside(lanes, told.last, t)
            walk.observations.append(_inside(lanes, told.observations, t))
            walk.rewards.append(told.rewards[told.valid])
            walk.ended += int((told.terminated | told.truncated).sum())
        return walk
    finally:
        if ours:
            found.close()


def _any(parts: list[Part], generator: np.random.Generator) -> FloatArray:
    """A random action: uniform where there are two ends, as Gymnasium draws it elsewhere."""
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


def _inside(lanes: Lanes, seen: FloatArray, step: int) -> FloatArray:
    # With room for what single precision rounds away.
    low, high = lanes.ranges[:, 0], lanes.ranges[:, 1]
    outside = (seen < low - 1e-6 * np.abs(low)) | (seen > high + 1e-6 * np.abs(high))
    if outside.any():
        lane, i = map(int, np.argwhere(outside)[0])
        raise InputError(
            f"the observation of step {step} is outside the observation space: number {i} of it is {seen[lane, i]}, "
            f"expected {low[i]} to {high[i]}"
        )
    return seen


def _compare(first: _Walk, second: _Walk) -> None:
    for t, (a, b) in enumerate(zip(first.observations, second.observations, strict=True)):
        if not np.array_equal(a, b):
            raise InputError(f"after the same seed and actions the observation of step {t} is another one")
        if t < len(first.rewards) and not np.array_equal(first.rewards[t], second.rewards[t]):
            found, before = second.rewards[t].tolist(), first.rewards[t].tolist()
            raise InputError(
                f"after the same seed and actions the rewards of step {t + 1} are {found} and not {before}"
            )
