"""Toy-text environments of Gymnasium as black boxes, beside their exact optimum.

python experiments/black-box/toy_text.py --train-steps 100000 --seed 0
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

import acrl

Rewards = Callable[[Any, Any, Any, float, dict[str, Any]], dict[str, float]]


def table_model(env: gym.Env[Any, Any], rewards: Callable[[int, int, int, float, bool], dict[str, float]]) -> Any:
    """The continuing model of an environment with a table P: where an episode ends the next one begins.

    With a time limit T state s after t steps is number s T + t.
    """
    inner: Any = env.unwrapped
    table, start = inner.P, np.asarray(inner.initial_state_distrib, dtype=float)
    limit = env.spec.max_episode_steps if env.spec is not None and env.spec.max_episode_steps else 1
    timed = limit > 1
    named: dict[str, np.ndarray] = {}
    unrolled: dict[int, dict[int, list[tuple[float, int, float, bool]]]] = {}
    for s, choices in table.items():
        for a, outcomes in choices.items():
            for p, t, r, terminated in outcomes:
                for name, value in rewards(s, a, t, r, terminated).items():
                    array = named.setdefault(name, np.zeros((len(table) * limit, len(table[0]))))
                    array[s * limit : (s + 1) * limit, a] += p * value
        for step in range(limit):
            last, later = timed and step + 1 == limit, step + 1 if timed else 0
            unrolled[s * limit + step] = {
                a: [(p, t * limit + (0 if last else later), 0.0, terminated or last) for p, t, _, terminated in outcomes]
                for a, outcomes in choices.items()
            }
    initial = np.zeros(len(table) * limit)
    initial[::limit] = start
    return acrl.FiniteModel.from_table(unrolled, named, initial, name="none")


def blackjack_model() -> Any:
    """Blackjack-v1 (natural=False, sab=False): states are (player's sum, dealer's card, usable ace)."""
    cards = [(value, 4 / 13 if value == 10 else 1 / 13) for value in range(1, 11)]

    def add(total: int, ace: bool, card: int) -> tuple[int, bool]:
        """Sum of a hand that counts an ace as 11 where it is usable."""
        hard = total - (10 if ace else 0) + card
        ace = ace or card == 1
        return (hard + 10, True) if ace and hard + 10 <= 21 else (hard, False)

    def dealer(total: int, ace: bool) -> dict[int, float]:
        if total >= 17:
            return {total if total <= 21 else 0: 1.0}
        ends: dict[int, float] = {}
        for card, p in cards:
            for end, q in dealer(*add(total, ace, card)).items():
                ends[end] = ends.get(end, 0.0) + p * q
        return ends

    index: dict[tuple[int, int, bool], int] = {}
    keys = [(total, card, ace) for total in range(4, 22) for card in range(1, 11) for ace in (False, True)]
    for key in keys:
        index[key] = len(index)
    start = np.zeros(len(index))
    for a, p in cards:
        for b, q in cards:
            total, ace = add(*add(0, False, a), b)
            for shown, r in cards:
                start[index[total, shown, ace]] += p * q * r
    transitions, reward = np.zeros((len(index), 2, len(index))), np.zeros((len(index), 2))
    for (total, shown, ace), s in index.items():
        for end, p in dealer(*add(0, False, shown)).items():
            reward[s, 0] += p * (float(total > end) - float(end > total))
        transitions[s, 0] = start
        for card, p in cards:
            after, usable = add(total, ace, card)
            if after > 21:
                reward[s, 1] -= p
                transitions[s, 1] += p * start
            else:
                transitions[s, 1, index[after, shown, usable]] += p
    hits = np.zeros((len(index), 2))
    hits[:, 1] = 1
    return acrl.FiniteModel(transitions, {"reward": reward, "hits": hits}, initial=start)


def cases() -> dict[str, tuple[Callable[[], Any], Rewards, Any, str, str]]:
    """Environment, rewards, model, objective and bounded reward of each case."""
    lake = gym.make("FrozenLake-v1", map_name="8x8")
    cliff = gym.make("CliffWalking-v1", is_slippery=True)
    taxi = gym.make("Taxi-v4")

    def holes(table: Any) -> Callable[[int, int, int, float, bool], dict[str, float]]:
        return lambda s, a, t, r, end: {"goal": r, "holes": float(end and r == 0)}

    return {
        "FrozenLake 8x8": (
            lambda: gym.make("FrozenLake-v1", map_name="8x8"),
            lambda obs, action, next_obs, reward, info: {
                "goal": reward,
                "holes": float(lake.unwrapped.desc.ravel()[int(next_obs)] == b"H"),  # type: ignore[attr-defined]
            },
            table_model(lake, holes(lake)),
            "goal",
            "holes",
        ),
        "CliffWalking slippery": (
            lambda: gym.make("CliffWalking-v1", is_slippery=True),
            lambda obs, action, next_obs, reward, info: {
                "goal": float(next_obs == 47),
                "ups": float(action == 0),
            },
            table_model(cliff, lambda s, a, t, r, end: {"goal": float(t == 47), "ups": float(a == 0)}),
            "goal",
            "ups",
        ),
        "Taxi": (
            lambda: gym.make("Taxi-v4"),
            lambda obs, action, next_obs, reward, info: {
                "delivered": float(reward == 20),
                "moves": float(action < 4),
            },
            table_model(taxi, lambda s, a, t, r, end: {"delivered": float(r == 20), "moves": float(a < 4)}),
            "delivered",
            "moves",
        ),
        "Blackjack": (
            lambda: gym.make("Blackjack-v1"),
            lambda obs, action, next_obs, reward, info: {"reward": reward, "hits": float(action)},
            blackjack_model(),
            "reward",
            "hits",
        ),
    }


def train(env: Any, rewards: Rewards, requirement: Any, objective: str, steps: int, seed: int) -> Any:
    """Trains with the default settings, which choose the tabular learner."""
    return acrl.train(
        env, rewards=rewards, requirements=requirement, objective=objective, total_steps=steps, seed=seed
    )


def main() -> None:
    """Trains on each environment and runs with three bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train-steps", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="one environment, by the beginning of its name")
    args = parser.parse_args()
    print("| environment | optimum | trained | changed 1 | changed 2 | seconds: train, run |")
    print("|---|---|---|---|---|---|")
    for name, (env, rewards, model, objective, bounded) in cases().items():
        if args.only and not name.startswith(args.only):
            continue
        # From what the best policy for the objective alone has of the bounded reward, to its least average.
        alone = acrl.solve(model, objective=objective, progress=False)
        most = acrl.solve(
            model, objective=acrl.minimize(bounded), requirements=acrl.at_least(objective, alone.objective * (1 - 1e-6)), progress=False
        ).objective if alone.objective > 0 else acrl.solve(
            model, objective=acrl.minimize(bounded), requirements=acrl.at_least(objective, alone.objective * (1 + 1e-6)), progress=False
        ).objective
        least = acrl.solve(model, objective=acrl.minimize(bounded), progress=False).objective
        worst = acrl.solve(model, objective=acrl.minimize(objective), progress=False).objective
        requirements = [acrl.at_most(bounded, least + share * (most - least)) for share in (0.6, 0.8, 0.4)]
        begin = time.perf_counter()
        policy = train(env(), rewards, requirements[0], objective, args.train_steps, args.seed)
        trained, running = time.perf_counter() - begin, 0.0
        cells, optimum = [], float("nan")
        for requirement in requirements:
            optimum = acrl.solve(model, objective=objective, requirements=requirement, progress=False).objective
            begin = time.perf_counter()
            run = acrl.run(
                policy, env=env(), rewards=rewards, requirements=requirement, steps=args.steps, seed=args.seed
            )
            running += time.perf_counter() - begin
            (found,) = run.requirements.values()
            assert run.objective is not None
            unit = min(abs(optimum), optimum - worst)
            cells.append(f"{found.verdict} {(optimum - run.objective.average) / unit:.4f}")
        print(
            f"| {name} | {optimum:.5f} | {' | '.join(cells)} | {trained:.1f}, {running:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
