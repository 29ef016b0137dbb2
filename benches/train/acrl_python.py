"""`acrl.Training`, the learner behind `acrl.train`, on a vector environment of Gymnasium that steps in one NumPy call.

The loss differs from that of the others: acrl samples the multipliers itself, by its curriculum, appends them to the
observation, and has a critic head for each of the four rewards. Only the iterations of the training are timed, not the
evaluation of the policy at its end. The first rollout, in which rewards are only measured, is timed, but its steps do
not count.
"""

from __future__ import annotations

from typing import Any

import acrl
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

import problem
from problem import CONFIGS, F32, Config, Monitoring

NAMES = ["red", "blue", "green", "orange"]
# The shares of the time of the paper's problem; they matter for the measuring at the end only.
BOUNDS = (0.20, 0.15, 0.10, 0.05)


class MonitoringEnvs(gymnasium.vector.VectorEnv[F32, F32, Any]):
    """`Monitoring` as a vector environment with four rewards; acrl draws the multipliers, so it has none."""

    def __init__(self, envs: int, seed: int, speed_limit: float) -> None:
        self.inner = Monitoring(envs, seed, speed_limit)
        self.num_envs = envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, (problem.ACT_DIM,), np.float32)
        self.observation_space = batch_space(self.single_observation_space, envs)
        self.action_space = batch_space(self.single_action_space, envs)
        self.going = np.zeros(envs, bool)
        self.ended = np.ones(envs, bool)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[F32, dict[str, Any]]:
        """Seeded when made."""
        self.inner.draw_states()
        return self.inner.place(), {}

    def step(self, actions: F32) -> tuple[F32, Any, Any, Any, dict[str, Any]]:
        """Rewards are those of the states before the move, one column per region."""
        inner = self.inner
        rewards = inner.inside()
        inner.move(actions)
        seen = inner.place()
        if inner.clock < problem.EPISODE:
            return seen, rewards, self.going, self.going, {}
        inner.draw_states()
        return inner.place(), rewards, self.going, self.ended, {"final_obs": seen, "_final_obs": self.ended}


def make(config: Config, steps: int, seed: int, speed_limit: float) -> acrl.Training:
    """A training that has not begun."""
    return acrl.Training(
        MonitoringEnvs(config.envs, seed, speed_limit),
        requirements=[acrl.at_least(name, bound) for name, bound in zip(NAMES, BOUNDS, strict=True)],
        rewards=NAMES,
        total_steps=steps,
        seed=seed,
        scales=dict.fromkeys(NAMES, 1.0),
        learner="ppo",
        settings={
            "n_steps": config.horizon,
            "update_epochs": config.passes,
            "minibatch_size": config.minibatch,
            "learning_rate": problem.LEARNING_RATE,
            "criterion": "discounted",
            "gamma": problem.GAMMA,
            "gae_lambda": problem.GAE_LAMBDA,
            "clip_range": problem.CLIP,
            "max_grad_norm": problem.MAX_GRAD_NORM,
            "hidden_sizes": [problem.HIDDEN] * 2,
        },
    )


def main() -> None:
    args = problem.command_line(__doc__ or "").parse_args()
    config = CONFIGS[args.config]
    steps = problem.iterations(args.steps, config) * config.rollout

    for _ in make(config, config.rollout, args.seed, args.speed_limit):
        pass

    training = make(config, steps, args.seed, args.speed_limit)
    watch = problem.Stopwatch()
    points = [[event.iteration * config.rollout, event.metrics["rollout/scalarized_reward"]] for event in training]
    elapsed = watch.read()
    problem.print_result(args, "acrl-python", acrl.__version__, elapsed, len(points) * config.rollout, points)


if __name__ == "__main__":
    main()
