"""The continuous problem of the paper (Section IV) as an environment, and common parts of the examples.

An agent moves in a box and must be in four regions for 20, 15, 10 and 5 % of the time. There is no objective.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import acrl
import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

#: In units in which the box is -1 … 1: the centres, half of a side, and the longest step.
REGIONS = {"red": (-0.5, 0.5), "blue": (0.5, 0.5), "green": (-0.5, -0.5), "orange": (0.5, -0.5)}
HALF_SIDE = 0.2
REACH = 0.1

REQUIREMENTS = [
    acrl.at_least("red", 0.20),
    acrl.at_least("blue", 0.15),
    acrl.at_least("green", 0.10),
    acrl.at_least("orange", 0.05),
]

#: The horizon is a dozen steps, which it takes to cross the box.
GAMMA = 0.9
#: Rewards are weighted in units of their discounted sums, so that values are about 1.
SCALES = dict.fromkeys(REGIONS, 1 / (1 - GAMMA))
#: Four weights that add up to 1 are small compared with the position; scaled, they matter from the beginning.
WEIGHT_SCALE = 4.0


class FourRegions(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """Observes its position, chooses its velocity; ``info`` has an indicator for each region. Episodes do not end."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.place = np.zeros(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts anywhere in the box."""
        super().reset(seed=seed, options=options)
        self.place = self.np_random.uniform(-1.0, 1.0, 2)
        return self.place.astype(np.float32), {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Moves."""
        x, y = (self.place + REACH * action).tolist()
        x, y = min(max(x, -1.0), 1.0), min(max(y, -1.0), 1.0)
        self.place = np.array([x, y])
        inside = {n: float(abs(x - a) <= HALF_SIDE and abs(y - b) <= HALF_SIDE) for n, (a, b) in REGIONS.items()}
        return self.place.astype(np.float32), 0.0, False, False, inside


class ManyFourRegions(gymnasium.vector.VectorEnv):
    """Many of these environments in NumPy, with truncated episodes of ``episode`` steps."""

    def __init__(self, num_envs: int, episode: int) -> None:
        self.num_envs, self.episode = num_envs, episode
        one = FourRegions()
        self.single_observation_space, self.single_action_space = one.observation_space, one.action_space
        self.observation_space = gymnasium.vector.utils.batch_space(one.observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(one.action_space, num_envs)
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
        self.centres = np.array(list(REGIONS.values()))
        self.place = np.zeros((num_envs, 2))
        self.t = 0
        self.generator = np.random.default_rng()

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts everywhere in the box."""
        del options
        if seed is not None:
            self.generator = np.random.default_rng(seed)  # type: ignore[arg-type]
        self.place = self.generator.uniform(-1.0, 1.0, (self.num_envs, 2))
        self.t = 0
        return self.place.astype(np.float32), {}

    def step(self, actions: NDArray[np.float32]) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Moves in all environments."""
        self.place = np.clip(self.place + REACH * actions, -1.0, 1.0)
        inside = (np.abs(self.place[:, None, :] - self.centres) <= HALF_SIDE).all(axis=2).astype(np.float64)
        infos: dict[str, Any] = {name: inside[:, i] for i, name in enumerate(REGIONS)}
        self.t += 1
        over = np.full(self.num_envs, self.t >= self.episode)
        if self.t >= self.episode:
            last = np.empty(self.num_envs, dtype=object)
            last[:] = list(self.place.astype(np.float32))
            infos |= {"final_obs": last, "_final_obs": over, "final_info": dict(infos)}
            self.reset()
        return self.place.astype(np.float32), np.zeros(self.num_envs), np.zeros(self.num_envs, np.bool_), over, infos


def run(
    policy: Callable[[Any, Any], Any],
    steps: int,
    seed: int,
    env: gymnasium.Env[Any, Any] | None = None,
    requirements: list[acrl.Requirement] = REQUIREMENTS,
) -> acrl.Agent:
    """Executes π(s, λ) with dual dynamics, and prints the certificate."""
    env = FourRegions() if env is None else env
    agent = acrl.Agent(policy, requirements, objective=False, step_size=0.5, epoch="auto", epoch_start=50)
    obs, _ = env.reset(seed=seed)
    for _ in range(steps):
        obs, _, _, _, info = env.step(agent.act(obs))
        agent.observe(info)
    for name, entry in agent.certificate.items():
        verdict = "is met" if entry.met else "is NOT met"
        print(
            f"{name} {verdict}: average {entry.average:.4f} of {entry.bound}, "
            f"certified shortfall {entry.certified_shortfall:.4f}"
        )
    return agent


def arguments(description: str, steps: int, given: list[str] | None = None) -> argparse.Namespace:
    """Command line of an example."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=steps, help="steps of training (default %(default)s)")
    parser.add_argument("--run", type=int, default=50_000, help="steps of execution (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(given)
