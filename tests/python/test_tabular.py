"""Policies of the tabular learner: files, agents and runs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import acrl
import numpy as np
import pytest

gym = pytest.importorskip("gymnasium")

#: Trained on FrozenLake 4x4 with 8,000 steps: the goal, with at most 30 % of the actions to the left.
FILE = Path(__file__).parent / "data" / "tabular.safetensors"


def make() -> Any:
    return gym.make("FrozenLake-v1", map_name="4x4")


def rewards(obs: Any, action: Any, next_obs: Any, reward: float, info: Any) -> dict[str, float]:  # noqa: ARG001
    return {"goal": reward, "left": float(action == 0)}


@pytest.fixture
def policy() -> acrl.Policy:
    return acrl.Policy.load(FILE)


def test_file_is_a_policy_with_a_library_of_exact_averages(policy: acrl.Policy, tmp_path: Path) -> None:
    assert type(policy) is acrl.Policy
    assert policy.execution_defaults.executor in ("stationary", "time_sharing")
    assert all(error == 0 for entry in policy.library for error in entry.standard_errors.values())
    curve = policy.tradeoff("left")
    feasible = curve.values[~np.isnan(curve.values)]
    assert len(feasible) > 10
    assert (np.diff(feasible) >= -1e-9).all(), "more is attainable with a looser bound"
    policy.save(tmp_path / "copy.safetensors")
    assert (tmp_path / "copy.safetensors").read_bytes() == FILE.read_bytes()


def test_predict_follows_the_multipliers(policy: acrl.Policy) -> None:
    free = [policy.predict(state, [0.0]) for state in range(16)]
    dear = [policy.predict(state, [100.0]) for state in range(16)]
    assert free.count(0) > dear.count(0)
    assert policy.predict(np.arange(4), [0.0]).tolist() == free[:4]
    copy = pickle.loads(pickle.dumps(policy))
    assert [copy.predict(state, [0.0]) for state in range(16)] == free


def loop(agent: acrl.Agent, env: Any, obs: Any, steps: int) -> tuple[Any, list[int]]:
    actions = []
    for _ in range(steps):
        action = agent.act(obs)
        actions.append(int(action))
        obs, reward, terminated, truncated, _ = env.step(action)
        agent.observe({"goal": reward, "left": float(action == 0)}, terminated=terminated, truncated=truncated)
        if terminated or truncated:
            obs, _ = env.reset()
    return obs, actions


def test_agent_meets_requirements_and_continues_bit_identically(policy: acrl.Policy, tmp_path: Path) -> None:
    agent = acrl.Agent(policy)
    env = make()
    obs, _ = env.reset(seed=3)
    obs, _ = loop(agent, env, obs, 8_000)
    assert agent.certificate["left"].met
    agent.save(tmp_path / "agent.json")
    again = acrl.Agent.load(tmp_path / "agent.json", policy)
    # The same world twice.
    results = []
    for one in (agent, again):
        world = make()
        start, _ = world.reset(seed=5)
        results.append(loop(one, world, start, 3_000)[1])
    assert results[0] == results[1]
    assert agent.multipliers == again.multipliers
    agent.requirements["left"] = 0.1
    assert agent.requirements["left"].bound == 0.1
    obs, _ = env.reset(seed=4)
    loop(agent, env, obs, 20_000)
    assert agent.averages["left"] < 0.11


def test_run_in_an_environment_has_the_verdicts_of_other_runs(policy: acrl.Policy) -> None:
    run = acrl.run(policy, env=make(), rewards=rewards, requirements=acrl.at_most("left", 0.2), steps=20_000, seed=1)
    assert run.met
    assert run.executor in ("stationary", "time_sharing")
    assert run.executor_reason is not None
    assert run.averages["left"] <= 0.2 * 1.01


def test_scales_are_those_of_the_model(policy: acrl.Policy) -> None:
    with pytest.raises(acrl.InputError, match="ranges of its model"):
        acrl.Agent(policy, scales=[2.0])
