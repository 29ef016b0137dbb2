"""Units of rewards whose range is not known in `acrl.train`."""

from __future__ import annotations

from typing import Any

import acrl
import gymnasium
import numpy as np


class Found(gymnasium.Env[Any, Any]):
    """One action is rewarded, and ten times as much from step 2,000 on, as a reward that is discovered late."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        gold = float(action) * (1.0 if self.steps < 2000 else 10.0)
        return np.zeros(1, np.float32), 0.0, False, False, {"gold": gold, "rest": 1.0 - float(action)}


def test_range_of_a_late_reward_is_re_estimated() -> None:
    requirements = [acrl.at_least("gold", 1.0), acrl.at_least("rest", 0.2)]
    training = acrl.Training(Found, requirements=requirements, learner="ppo", num_envs=4, total_steps=32_768)
    scales = [training.scales["gold"] for _ in training]
    assert len(scales) == 16
    # An eighth of the training is over before it is found; a quarter and half of it are not.
    assert scales[2] < 2.0, scales
    assert 3.0 < scales[-1] < 30.0, scales
    assert 0.2 < training.scales["rest"] < 3.0
