"""Whether an environment can be trained on, and how far its rewards range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from ._acrl import Objective, Requirement
from ._augmented import AugmentedEnv, RewardFunction
from ._errors import InputError
from ._vocabulary import Named

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
    steps: int
    episodes: int

    @property
    def scales(self) -> Named:
        """How far each reward ranges, for `AugmentedEnv` and `Agent`; 1 where it never changes."""
        return Named({name: high - low if high > low else 1.0 for name, (low, high) in self.ranges.items()})


def check_env(
    env: gymnasium.Env[Any, Any],
    *,
    objective: Objective | str | None = None,
    requirements: Requirement | Iterable[Requirement],
    rewards: RewardFunction | Sequence[str] | None = None,
    steps: int = 1000,
    seed: int = 0,
) -> EnvReport:
    """Steps an environment with random actions, twice, as `AugmentedEnv` would.

    Refuses one that lacks a reward, gives a reward that is not finite, leaves its observation space, or does not repeat
    itself after the same seed.

    >>> import acrl, gymnasium
    >>> env = gymnasium.make("CartPole-v1")
    >>> report = acrl.check_env(env, objective="reward", requirements=acrl.at_most("x", 0.5),
    ...                         rewards=lambda obs, action, reward, info: {"reward": reward, "x": abs(obs[0])})
    >>> report.ranges["reward"], report.remarks
    ((1.0, 1.0), ("the reward 'reward' was 1.0 at every step",))
    """
    if steps < 1:
        raise InputError(f"steps is {steps}, expected a number above 0")
    checked = AugmentedEnv(env, objective=objective, requirements=requirements, rewards=rewards)
    seen, values, episodes = _walk(checked, steps, seed)
    again, repeated, _ = _walk(checked, steps, seed)
    for t, (a, b) in enumerate(zip(seen, again, strict=True)):
        if not np.array_equal(a, b):
            raise InputError(f"after the same seed and actions the observation of step {t} is another one")
    for t, (x, y) in enumerate(zip(values, repeated, strict=True)):
        if x != y:
            raise InputError(f"after the same seed and actions the rewards of step {t} are {y} and not {x}")
    names = list(values[0])
    columns = {name: np.array([value[name] for value in values]) for name in names}
    ranges = {name: (float(column.min()), float(column.max())) for name, column in columns.items()}
    remarks = [f"the reward '{n}' was {low} at every step" for n, (low, high) in ranges.items() if low == high]
    for requirement in checked.requirements:
        low, high = ranges[requirement.reward]
        best = high if requirement.direction == "at_least" else low
        if requirement.sign * best < requirement.sign * requirement.bound:
            remarks.append(f"{requirement!r} was out of reach: the best of any step was {best}")
    averages = Named({name: float(column.mean()) for name, column in columns.items()})
    return EnvReport(ranges, averages, tuple(remarks), steps, episodes)


def _walk(env: AugmentedEnv, steps: int, seed: int) -> tuple[list[Any], list[dict[str, float]], int]:
    """Observations, rewards and the number of episodes."""
    env.action_space.seed(seed)
    obs, _ = env.reset(seed=seed)
    seen, values, episodes = [obs], [], 1
    for t in range(steps):
        obs, _, terminated, truncated, info = env.step(env.action_space.sample())
        values.append(info["rewards"])
        if terminated or truncated:
            obs, _ = env.reset()
            episodes += 1
        seen.append(obs)
        if not env.observation_space.contains(obs):
            raise InputError(f"the observation of step {t}, {obs.tolist()}, is outside the observation space")
    return seen, values, episodes
