"""Stable-Baselines3 with one fixed penalty per reward: trains, runs, and prints averages as JSON.

    python peer.py {ppo,sac,dqn} TASK PENALTY --steps N --run N --seed S

It runs in the environment of the peers; see run.py. PPO and SAC have the library's default settings; with discrete
actions DQN takes the place of SAC.
"""

from __future__ import annotations

import argparse
import json
import resource
from typing import Any

import gymnasium
import torch
from stable_baselines3 import DQN, PPO, SAC
from tasks import TASKS, Task

LEARNERS = {"ppo": PPO, "sac": SAC, "dqn": DQN}


class Penalized(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose reward is objective − penalty · Σ cost / |bound|, in units of the objective."""

    def __init__(self, task: Task, penalty: float) -> None:
        super().__init__(gymnasium.make(task.env))
        self.task, self.penalty, self.last = task, penalty, None
        self.rewards: dict[str, float] = {}

    def reset(self, **options: Any) -> Any:
        self.last, info = self.env.reset(**options)
        return self.last, info

    def step(self, action: Any) -> Any:
        task = self.task
        next_obs, reward, terminated, truncated, info = self.env.step(action)
        self.rewards = task.rewards(self.last, action, next_obs, reward, info) | {"terminated": float(terminated)}
        self.last, cost = next_obs, 0.0
        for (name, side), bound in zip(task.required, task.bounds[0], strict=True):
            cost += self.rewards[name] / abs(bound) * (1 if side == "at_most" else -1)
        scalar = task.signed(self.rewards) / task.typical - self.penalty * cost
        return next_obs, scalar, terminated, truncated, info


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("learner", choices=LEARNERS)
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("penalty", type=float)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--run", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    env = Penalized(TASKS[arguments.task], arguments.penalty)
    model = LEARNERS[arguments.learner]("MlpPolicy", env, seed=arguments.seed, device="cpu")
    model.learn(arguments.steps)
    seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    sums: dict[str, float] = {}
    obs, _ = env.reset(seed=1000 + arguments.seed)
    for _ in range(arguments.run):
        action, _ = model.predict(obs, deterministic=True)
        obs, _, terminated, truncated, _ = env.step(action)
        for name, value in env.rewards.items():
            sums[name] = sums.get(name, 0.0) + value
        if terminated or truncated:
            obs, _ = env.reset()
    averages = {name: float(total) / arguments.run for name, total in sums.items()}
    print(json.dumps({"averages": averages, "cpu_seconds": seconds}))


if __name__ == "__main__":
    main()
