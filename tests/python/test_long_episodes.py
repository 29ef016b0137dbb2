"""What `acrl.train` and `acrl.Agent` know of rewards that are rare, in long episodes, or never come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import acrl
import gymnasium
import numpy as np
import pytest

#: Steps of an episode, and of a burst of cost.
EPISODE, BURST = 1000, 30
#: The probability of a burst in a step, by choice, and what the cost comes to on average.
RATES = (0.0002, 0.003)
COSTS = tuple(BURST * rate / (1 + BURST * rate) for rate in RATES)


class Bursts(gymnasium.Env[Any, Any]):
    """Haste is rewarded with .02 and has bursts of cost, .083 on average; care has .006. A goal is never reached."""

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
        if self.left > 0:
            self.left -= 1
        elif self.np_random.random() < RATES[int(action)]:
            self.left = BURST
        info = {"cost": float(self.left > 0), "goal": 0.0}
        return np.zeros(1, np.float32), 0.02 * float(action), False, self.steps >= EPISODE, info


@pytest.fixture(scope="module")
def policy() -> acrl.Policy:
    requirements = [acrl.at_most("cost", 0.03)]
    return acrl.train(Bursts, objective="reward", requirements=requirements, total_steps=131_072, num_envs=8)


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


def test_what_a_policy_settles_at_is_known_as_well_as_it_says(policy: acrl.Policy, tmp_path: Path) -> None:
    entries = library(policy, tmp_path)
    assert len(entries) >= 6
    for entry in entries:
        assert entry["steps"] >= 3 * EPISODE, "three whole episodes at least"
        # How often it is hasty is what its objective says.
        haste = entry["values"][0] / 0.02
        expected = haste * COSTS[1] + (1 - haste) * COSTS[0]
        cost, error = -entry["values"][1], entry["errors"][1]
        assert abs(cost - expected) < 4 * error, entry
        assert 0.001 < error < 0.03, entry


def test_ranges_are_those_of_averages_and_tolerances_are_small(policy: acrl.Policy) -> None:
    # In a step it is 0 or 1, and within an epoch of 400 steps it may differ by twice .1.
    assert COSTS[1] - COSTS[0] < policy.scales["cost"] < 0.4
    agent = acrl.Agent(policy, acrl.at_most("cost", 0.03))
    run(agent, 1000)
    (tolerance,) = agent._native.tolerances(0.005)
    assert tolerance < 0.1 * 0.03


def test_bounds_of_rare_costs_are_kept_and_the_multiplier_arrives(policy: acrl.Policy) -> None:
    costs = []
    for bound in (0.03, 0.05):
        agent = acrl.Agent(policy, acrl.at_most("cost", bound))
        run(agent, 100_000)
        costs.append(agent.averages["cost"])
        assert costs[-1] < 1.15 * bound, (bound, agent.averages, agent.multipliers)
        assert agent.diagnosis.verdict in ("met", "converging"), agent.diagnosis
    assert costs[1] > 1.2 * costs[0], "what is allowed is used"


def test_what_the_policy_cannot_do_is_not_called_a_short_epoch(policy: acrl.Policy) -> None:
    agent = acrl.Agent(policy, acrl.at_most("cost", 0.001))
    run(agent, 100_000)
    assert not agent.certificate["cost"].met
    assert agent.diagnosis.verdict == "policy_insufficient", agent.diagnosis


def test_a_reward_that_never_changed_is_not_met_and_is_named() -> None:
    requirements = [acrl.at_least("goal", 0.0035), acrl.at_most("cost", 0.05)]
    policy = acrl.train(Bursts, requirements=requirements, total_steps=16_384, num_envs=8)
    agent = acrl.Agent(policy)
    run(agent, 20_000)
    assert agent.averages["goal"] == 0.0
    assert not agent.certificate["goal"].met
    found = agent.diagnosis
    assert (found.verdict, found.unseen) == ("policy_insufficient", ("goal",)), found
    assert "never saw the reward of goal change" in str(found)
