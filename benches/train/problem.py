"""The four-region monitoring problem and what every contestant shares: settings, command line, curve, report.

The README states the semantics in words; this file is the reference implementation of them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]

BOX = 10.0
CENTRES = ((2.5, 7.5), (7.5, 7.5), (2.5, 2.5), (7.5, 2.5))
HALF_SIDE = 1.0
SAMPLING_TIME = 0.05
EPISODE = 100
OBS_DIM = 6
ACT_DIM = 2
HIDDEN = 64

GAMMA = 0.97
GAE_LAMBDA = 0.95
CLIP = 0.2
VALUE_COEF = 0.5
LEARNING_RATE = 3e-4
ADAM_EPS = 1e-5
MAX_GRAD_NORM = 0.5
LOG_STD_INIT = math.log(0.6)

CURVE_WINDOW = 20_000


@dataclass(frozen=True)
class Config:
    """One PPO iteration: `envs * horizon` steps, then `passes` over them in minibatches."""

    envs: int
    horizon: int
    passes: int
    minibatch: int

    @property
    def rollout(self) -> int:
        """Environment steps per iteration."""
        return self.envs * self.horizon


CONFIGS = {
    "A": Config(envs=16, horizon=128, passes=10, minibatch=256),
    "B": Config(envs=64, horizon=128, passes=4, minibatch=2048),
}


class Monitoring:
    """All environments step in one NumPy call; they start together, so they are truncated together."""

    def __init__(self, envs: int, seed: int, speed_limit: float) -> None:
        self.envs = envs
        self.stride = np.float32(SAMPLING_TIME * speed_limit)
        self.rng = np.random.default_rng(seed)
        # One row per region, one column per environment and coordinate: (4, 1, 2).
        self.centres = np.asarray(CENTRES, np.float32)[:, None, :]
        self.rewards: list[float] = []
        self.reset()

    def reset(self) -> F32:
        """Draw s uniform in the box and lambda uniform on the simplex, for every environment."""
        self.draw_states()
        draws = self.rng.standard_exponential((self.envs, 4), np.float32)
        self.weights = draws / draws.sum(axis=1, keepdims=True)
        return self.observe()

    def draw_states(self) -> None:
        """Draw s uniform in the box, for every environment."""
        self.state = BOX * self.rng.random((self.envs, 2), np.float32)
        self.clock = 0

    def place(self) -> F32:
        """s/5 - 1."""
        return self.state / np.float32(5.0) - np.float32(1.0)

    def observe(self) -> F32:
        """(s/5 - 1, lambda)."""
        return np.concatenate((self.place(), self.weights), axis=1)

    def inside(self) -> npt.NDArray[np.bool_]:
        """Which regions s is in: one row per environment, one column per region."""
        inside: npt.NDArray[np.bool_] = np.abs(self.state - self.centres).max(axis=2) <= HALF_SIDE
        return inside.T

    def move(self, u: F32) -> None:
        """One step of s."""
        norm = np.sqrt((u * u).sum(axis=1, keepdims=True))
        self.state = np.clip(self.state + self.stride * u / np.maximum(norm, np.float32(1.0)), 0.0, BOX)
        self.clock += 1

    def step(self, u: F32) -> tuple[F32, F32, F32 | None]:
        """Returns the next observation, r(s_t) weighted by lambda, and the last observation if the episode ended."""
        reward: F32 = (self.weights * self.inside()).sum(axis=1)
        self.rewards.append(float(reward.mean()))
        self.move(u)
        obs = self.observe()
        if self.clock < EPISODE:
            return obs, reward, None
        return self.reset(), reward, obs


def curve(rewards: Sequence[float], config: Config) -> list[list[float]]:
    """At the end of each rollout, the mean reward per step over the last 20,000 environment steps.

    `rewards[k]` is the mean over environments at vector step k. The window is 20,000 // envs vector steps;
    points with a shorter past are left out.
    """
    window = CURVE_WINDOW // config.envs
    total = np.concatenate(([0.0], np.cumsum(np.asarray(rewards, np.float64))))
    ends = range(config.horizon, len(rewards) + 1, config.horizon)
    return [[k * config.envs, float((total[k] - total[k - window]) / window)] for k in ends if k >= window]


def command_line(description: str) -> argparse.ArgumentParser:
    """The command line of every contestant."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--config", choices=sorted(CONFIGS), default="A")
    parser.add_argument("--steps", type=int, default=200_000, help="rounded up to whole rollouts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--speed-limit", type=float, default=20.0)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def iterations(steps: int, config: Config) -> int:
    """Rollouts needed for at least `steps` environment steps."""
    return max(1, -(-steps // config.rollout))


class Stopwatch:
    """Wall and CPU time since it was made."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """(seconds, CPU seconds)."""
        return time.perf_counter() - self.wall, time.process_time() - self.cpu


def report(
    args: argparse.Namespace, name: str, version: str, elapsed: tuple[float, float], rewards: Sequence[float]
) -> None:
    """Print the result; `rewards[k]` is the mean over environments at vector step k."""
    config = CONFIGS[args.config]
    print_result(args, name, version, elapsed, len(rewards) * config.envs, curve(rewards, config))


def print_result(
    args: argparse.Namespace,
    name: str,
    version: str,
    elapsed: tuple[float, float],
    steps: int,
    points: Sequence[Sequence[float]],
) -> None:
    """Print the result of so many steps, with this curve."""
    seconds, cpu_seconds = elapsed
    result: dict[str, Any] = {
        "name": name,
        "version": version,
        "config": args.config,
        "steps": steps,
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "steps_per_second": steps / seconds,
        "curve": points,
    }
    if args.json:
        print(json.dumps(result))
        return
    print(f"{name} {version}, config {args.config}: {steps} steps in {seconds:.2f} s, {steps / seconds:,.0f} steps/s")
    for env_steps, reward in result["curve"][:: max(1, len(result["curve"]) // 10)]:
        print(f"{env_steps:>9.0f}  {reward:.4f}")
