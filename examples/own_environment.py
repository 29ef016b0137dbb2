"""An environment of one's own: a shop that orders goods. It is checked, trained on and run with two requirements.

Every day customers come, and the shop decides how much to order for the next day. Stock costs, so there should be as
little of it as possible; but customers should rarely go away with nothing, and a van should rarely come.

pip install '.[gymnasium]'
python examples/own_environment.py
"""

from __future__ import annotations

import argparse
from typing import Any

import acrl
import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

#: Capacity, mean number of customers a day, and sizes of orders.
ROOM, CUSTOMERS, ORDERS = 30, 6, (0, 6, 12)

OBJECTIVE = acrl.minimize("stock")
REQUIREMENTS = [
    acrl.at_most("turned away", 0.05),  # of the customers
    acrl.at_most("vans", 0.6),  # a day; 0.5 is the least that brings enough
]


class Shop(gymnasium.Env[NDArray[np.float32], np.int64]):
    """Observes its stock and the number of customers; chooses how much to order. Episodes do not end."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, np.array([ROOM, np.inf], dtype=np.float32))
        self.action_space = spaces.Discrete(len(ORDERS))
        self.stock = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Starts with any stock."""
        super().reset(seed=seed, options=options)
        self.stock = int(self.np_random.integers(ROOM + 1))
        return np.array([self.stock, 0.0], dtype=np.float32), {}

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """A day."""
        came = int(self.np_random.poisson(CUSTOMERS))
        sold = min(came, self.stock)
        self.stock = min(self.stock - sold + ORDERS[int(action)], ROOM)
        info = {"turned away": (came - sold) / CUSTOMERS}
        return np.array([self.stock, came], dtype=np.float32), 0.0, False, False, info


def rewards(obs: Any, action: Any, next_obs: Any, reward: float, info: dict[str, Any]) -> dict[str, float]:
    """Rewards that the environment does not return. "turned away" is in its info, where it is found by name."""
    del obs, reward, info
    return {"stock": float(next_obs[0]), "vans": float(action > 0)}


def main(arguments: list[str] | None = None) -> acrl.Agent:
    """Checks, trains, runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200_000, help="steps of training (default %(default)s)")
    parser.add_argument("--run", type=int, default=200_000, help="steps of execution (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)

    report = acrl.check_env(Shop, objective=OBJECTIVE, requirements=REQUIREMENTS, rewards=rewards)
    print("with random orders:", {name: round(value, 3) for name, value in report.averages.items()})
    for remark in report.remarks:
        print("remark:", remark)

    policy = acrl.train(
        Shop, objective=OBJECTIVE, requirements=REQUIREMENTS, rewards=rewards, total_steps=args.steps, seed=args.seed
    )

    # The agent runs in the user's loop and observes the rewards by the names above.
    env, agent = Shop(), acrl.Agent(policy)
    obs, _ = env.reset(seed=args.seed)
    for _ in range(args.run):
        action = agent.act(obs)
        next_obs, reward, _, _, info = env.step(action)
        agent.observe({**info, **rewards(obs, action, next_obs, reward, info)})
        obs = next_obs
    print(f"stock: average {agent.averages['stock']:.3f}")
    for name, entry in agent.certificate.items():
        verdict = "is met" if entry.met else "is NOT met"
        print(
            f"{name} {verdict}: average {entry.average:.4f} of {entry.bound}, "
            f"certified shortfall {entry.certified_shortfall:.4f}"
        )
    return agent


if __name__ == "__main__":
    agent = main()
    raise SystemExit(0 if all(entry.met for entry in agent.certificate.values()) else 1)
