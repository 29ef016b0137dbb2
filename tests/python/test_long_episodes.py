"""Training and execution with rare rewards, long episodes, and rewards that never occur."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import acrl
import gymnasium
import numpy as np
import pytest

#: Steps of an episode, and of a burst of cost for who stays.
EPISODE, BURST = 1000, 50


class Bursts(gymnasium.Env[Any, Any]):
    """Now and then there is a hazard, a cost of 1 a step: 0.08 on average with the rewarded action, else 0.006.

    A goal is never reached.
    """

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.steps, self.left = 0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self.steps, self.left = 0, 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        chance, cost = self.np_random.random(), float(self.left > 0)
        if cost:
            self.left = self.left - 1 if action == 1 or chance > 0.3 else 0
        elif chance < 0.002:
            self.left = BURST
        obs = np.full(1, float(self.left > 0), np.float32)
        reward = 0.2 * cost * float(action)
        return obs, reward, False, self.steps >= EPISODE, {"cost": cost, "goal": 0.0}


@pytest.fixture(scope="module")
def policy() -> acrl.Policy:
    requirements = [acrl.at_most("cost", 0.03)]
    return acrl.train(
        Bursts, objective="reward", requirements=requirements, learner="ppo", total_steps=131_072, num_envs=8
    )


def run(agent: acrl.Agent, steps: int, seed: int = 7) -> None:
    env = Bursts()
    obs, _ = env.reset(seed=seed)
    for _ in range(steps):
        obs, reward, _, truncated, info = env.step(agent.act(obs))
        agent.observe({"reward": reward, **info})
        if truncated:
            obs, _ = env.reset()


def library(policy: acrl.Policy, folder: Path) -> list[dict[str, Any]]:
    path = folder / "policy.safetensors"
    policy.save(path)
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    entries: list[dict[str, Any]] = json.loads(header["__metadata__"]["meta"])["library"]["entries"]
    return entries


def held(policy: acrl.Policy, multiplier: float, episodes: int) -> float:
    """The average cost with a multiplier that is held."""
    env, total = Bursts(), 0.0
    for episode in range(episodes):
        obs, _ = env.reset(seed=episode)
        for _ in range(EPISODE):
            action = policy.predict(obs, [multiplier], deterministic=not policy.draws)
            obs, _, _, _, info = env.step(int(action))
            total += info["cost"]
    return total / (episodes * EPISODE)


def test_library_standard_errors_cover_long_run_averages(policy: acrl.Policy, tmp_path: Path) -> None:
    entries = library(policy, tmp_path)
    assert len(entries) >= 6
    for entry in entries:
        assert entry["steps"] >= 3 * EPISODE, "three whole episodes at least"
        objective, requirement = entry["weights"]
        expected = held(policy, min(requirement / max(objective, 1e-6), 1e6), 20)
        cost, error = -entry["values"][1], entry["errors"][1]
        assert abs(cost - expected) < 4 * error, (entry, expected)
        # Who stays has about 1.8 bursts of 50 steps in an episode: three deviate by .05 * sqrt(1.8 / 3) = .039.
        assert 0.0005 < error < 0.05, entry


def test_ranges_come_from_long_run_averages_and_tolerances_are_small(policy: acrl.Policy) -> None:
    # In a step it is 0 or 1, and averages over an epoch of 400 steps deviate by .1 or so.
    assert 0.04 < policy.scales["cost"] < 0.4
    agent = acrl.Agent(policy, acrl.at_most("cost", 0.03))
    run(agent, 1000)
    (tolerance,) = agent._native.tolerances(0.005)
    assert tolerance < 0.1 * 0.03


def test_rare_costs_stay_within_bounds_and_the_multiplier_converges(policy: acrl.Policy) -> None:
    costs = []
    for bound in (0.03, 0.05):
        agent = acrl.Agent(policy, acrl.at_most("cost", bound))
        run(agent, 60_000)
        before = 60_000 * agent.averages["cost"]
        run(agent, 60_000, seed=8)
        costs.append((120_000 * agent.averages["cost"] - before) / 60_000)
        assert costs[-1] < 1.1 * bound, (bound, agent.averages, agent.multipliers)
        assert agent.diagnosis.verdict in ("met", "converging"), agent.diagnosis
    assert costs[1] > costs[0], "what is allowed is used"


def test_insufficient_policy_is_not_diagnosed_as_short_epoch(policy: acrl.Policy) -> None:
    agent = acrl.Agent(policy, acrl.at_most("cost", 0.001))
    for k in range(4):
        run(agent, 20_000, seed=k)
        found = agent.diagnosis
        assert not agent.certificate["cost"].met
        # Who leaves every hazard has .006, which is too close to .001 to be told apart by a few episodes.
        assert found.verdict == "policy_insufficient" or str(found).startswith("Undecided"), found


def test_constant_reward_is_violated_and_named_as_unobserved() -> None:
    requirements = [acrl.at_least("goal", 0.0035), acrl.at_most("cost", 0.05)]
    policy = acrl.train(Bursts, requirements=requirements, learner="ppo", total_steps=16_384, num_envs=8)
    agent = acrl.Agent(policy)
    run(agent, 20_000)
    assert agent.averages["goal"] == 0.0
    assert not agent.certificate["goal"].met
    found = agent.diagnosis
    assert (found.verdict, found.unobserved_rewards) == ("policy_insufficient", ("goal",)), found
    assert "the reward of goal never changed in training" in str(found)
