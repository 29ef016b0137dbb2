"""Tasks of Gymnasium with an objective and two requirements; needs neither acrl nor Stable-Baselines3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Rewards = Callable[[Any, Any, Any, Any, Any], dict[str, float]]


@dataclass(frozen=True)
class Task:
    """An environment, what is optimised, and what is required."""

    env: str
    #: The objective, and whether it is maximised.
    objective: str
    maximize: bool
    #: Rewards of which at most or at least the bound is required: ("energy", "at_most").
    required: tuple[tuple[str, str], ...]
    #: Bounds that the policy is trained for, and two changed sets.
    bounds: tuple[tuple[float, ...], ...]
    #: Rewards by name from (obs, action, next_obs, reward, info); "terminated" is there without it.
    rewards: Rewards
    #: Typical magnitude of the objective, by which peers scale their penalties.
    typical: float

    def signed(self, averages: dict[str, float]) -> float:
        """The objective, more is better."""
        return averages[self.objective] if self.maximize else -averages[self.objective]

    def satisfied(self, averages: dict[str, float], bounds: tuple[float, ...]) -> bool:
        """Whether every average is on the right side of its bound, without a tolerance."""
        return all(
            averages[name] <= bound if side == "at_most" else averages[name] >= bound
            for (name, side), bound in zip(self.required, bounds, strict=True)
        )


def energy(action: Any) -> float:
    return float(np.square(action).sum())


def cheetah(_obs: Any, action: Any, next_obs: Any, _reward: Any, info: Any) -> dict[str, float]:
    """Speed, squared torques, and the angle of the torso."""
    return {"speed": info["x_velocity"], "energy": energy(action), "tilt": abs(float(next_obs[1]))}


def walking(_obs: Any, action: Any, _next_obs: Any, _reward: Any, info: Any) -> dict[str, float]:
    """Speed and squared torques."""
    return {"speed": info["x_velocity"], "energy": energy(action)}


def reacher(_obs: Any, action: Any, next_obs: Any, _reward: Any, info: Any) -> dict[str, float]:
    """Squared torques, distance from the target, and speed of the joints."""
    swing = float(np.abs(next_obs[6:8]).mean())
    return {"control": energy(action), "distance": -info["reward_dist"], "swing": swing}


def lander(_obs: Any, action: Any, _next_obs: Any, reward: Any, _info: Any) -> dict[str, float]:
    """Fuel as the environment prices it, the score, and crashes."""
    fuel = 0.3 * (action == 2) + 0.03 * (action in (1, 3))
    return {"fuel": float(fuel), "score": float(reward), "crash": float(reward <= -100)}


def pusher(_obs: Any, action: Any, next_obs: Any, _reward: Any, _info: Any) -> dict[str, float]:
    """Squared torques, distance of the object from the goal, and of the hand from the object."""
    hand, thing, goal = (np.asarray(next_obs[k : k + 3]) for k in (14, 17, 20))
    away, reach = float(np.linalg.norm(thing - goal)), float(np.linalg.norm(hand - thing))
    return {"control": energy(action), "away": away, "reach": reach}


def acrobot(_obs: Any, action: Any, next_obs: Any, _reward: Any, _info: Any) -> dict[str, float]:
    """Steps with a torque, and speed of the joints; the goal is a termination."""
    return {"torque": float(action != 1), "spin": float(np.abs(next_obs[4:6]).mean())}


def biped(_obs: Any, action: Any, next_obs: Any, _reward: Any, _info: Any) -> dict[str, float]:
    """Speed and squared torques."""
    return {"speed": float(next_obs[2]), "energy": energy(action)}


FALLS = (("terminated", "at_most"), ("energy", "at_most"))

TASKS = {
    "HalfCheetah-v5": Task(
        "HalfCheetah-v5",
        "speed",
        True,
        (("energy", "at_most"), ("tilt", "at_most")),
        ((2.5, 0.3), (1.5, 0.3), (2.5, 0.2)),
        cheetah,
        2.0,
    ),
    "Hopper-v5": Task("Hopper-v5", "speed", True, FALLS, ((0.01, 0.8), (0.005, 0.8), (0.01, 0.4)), walking, 1.0),
    "Reacher-v5": Task(
        "Reacher-v5",
        "control",
        False,
        (("distance", "at_most"), ("swing", "at_most")),
        ((0.12, 2.0), (0.15, 2.0), (0.12, 1.0)),
        reacher,
        0.05,
    ),
    "LunarLander-v3": Task(
        "LunarLander-v3",
        "fuel",
        False,
        (("score", "at_least"), ("crash", "at_most")),
        ((0.1, 0.005), (-0.2, 0.008), (0.2, 0.003)),
        lander,
        0.1,
    ),
    # Held out: not looked at while the learner was changed.
    "Walker2d-v5": Task("Walker2d-v5", "speed", True, FALLS, ((0.01, 2.0), (0.005, 2.0), (0.01, 1.0)), walking, 1.0),
    "Pusher-v5": Task(
        "Pusher-v5",
        "control",
        False,
        (("away", "at_most"), ("reach", "at_most")),
        ((0.3, 0.25), (0.32, 0.25), (0.3, 0.2)),
        pusher,
        0.1,
    ),
    "Acrobot-v1": Task(
        "Acrobot-v1",
        "torque",
        False,
        (("terminated", "at_least"), ("spin", "at_most")),
        ((0.008, 2.5), (0.004, 2.5), (0.008, 2.2)),
        acrobot,
        0.5,
    ),
    "BipedalWalker-v3": Task(
        "BipedalWalker-v3", "speed", True, FALLS, ((0.005, 1.5), (0.0025, 1.5), (0.005, 0.75)), biped, 0.3
    ),
}
