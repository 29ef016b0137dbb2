"""Solved policies: files of `acrl solve --policy`, executed by `acrl.Agent`."""

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import acrl
import numpy as np
import pytest
import scipy.sparse


def solved(problem: Any, path: Path, **settings: Any) -> acrl.SolvedPolicy:
    acrl.solve(problem, policy=path, **settings)
    policy = acrl.Policy.load(path)
    assert isinstance(policy, acrl.SolvedPolicy)
    return policy


@pytest.fixture
def policy(tmp_path: Path) -> acrl.SolvedPolicy:
    return solved("monitoring", tmp_path / "monitoring.safetensors")


def walk(agent: acrl.Agent, policy: acrl.SolvedPolicy, state: str, steps: int) -> list[int]:
    """Steps in the monitoring problem, whose actions are named after the state that they lead to."""
    actions = []
    for _ in range(steps):
        actions.append(agent.act(state))
        rewards = {f"r{i}": float(state == f"R{i}") for i in range(3)}
        state = policy.action_names[actions[-1]]
        agent.observe(rewards)
    return actions


def test_policy_metadata(policy: acrl.SolvedPolicy) -> None:
    assert policy.state_names == ["R0", "R1", "R2"]
    assert policy.objective == acrl.maximize("r0")
    assert [r.name for r in policy.requirements] == ["r1", "r2"]
    assert sorted(policy.actions("R1").values()) == ["R0", "R1"]
    assert policy.actions(1) == policy.actions("R1")
    assert all(policy.action_names[index] == name for index, name in policy.actions("R2").items())
    assert policy.init_multipliers() == pytest.approx({"r1": 1, "r2": 1})
    assert list(policy.scales.values()) == [1, 1]
    assert policy.objective_scale == 1
    assert policy.execution_defaults.executor in ("stationary", "time_sharing")
    assert policy.action_space == [acrl.DiscreteAction(3)]
    assert policy.observation_space == [acrl.Interval(0, 2)]
    assert "monitoring.safetensors" in repr(policy)
    assert "3 states" in repr(policy)


def test_predict_maximises_the_lagrangian(policy: acrl.SolvedPolicy) -> None:
    names = policy.action_names
    assert names[policy.predict("R0", {"r1": 2, "r2": 0.1})] == "R1"
    assert names[policy.predict("R0", [0.1, 2])] == "R2"
    assert policy.predict(np.int64(0), [2, 0.1]) == policy.predict("R0", [2, 0.1])
    assert policy.predict(["R0", "R1"], [2, 0.1]).tolist() == [policy.predict(s, [2, 0.1]) for s in (0, 1)]
    assert policy.predict(np.array([0, 1, 2]), [2, 0.1]).shape == (3,)


def test_agent_meets_the_requirements_near_the_optimum(policy: acrl.SolvedPolicy) -> None:
    agent = acrl.Agent(policy)
    assert agent.multipliers == pytest.approx({"r1": 1, "r2": 1})
    walk(agent, policy, "R0", 50_000)
    assert all(entry.met for entry in agent.certificate.values())
    assert agent.averages["r0"] > 1 / 3 - 0.01
    assert agent.executor == policy.execution_defaults.executor
    assert agent.diagnosis.verdict == "met"


def test_changed_bounds_are_solved_for(policy: acrl.SolvedPolicy) -> None:
    agent = acrl.Agent(policy)
    walk(agent, policy, "R0", 5_000)
    agent.requirements["r1"] = 0.6
    assert agent.steps == 5_000
    assert agent.requirements["r1"].bound == 0.6
    before = agent.multipliers
    with pytest.raises(acrl.InputError, match=r"no policy meets the requirements: .*conflict"):
        agent.requirements["r1"] = 0.7
    with pytest.raises(acrl.InputError, match="finite"):
        agent.requirements["r1"] = float("nan")
    assert agent.requirements["r1"].bound == 0.6, "nothing changes"
    assert agent.multipliers == before
    walk(agent, policy, "R0", 50_000)
    assert agent.averages["r1"] > 0.6 - 0.01
    assert agent.averages["r2"] > 1 / 3 - 0.01
    assert all(entry.met for entry in agent.certificate.values())


def test_other_requirements_need_no_file_of_their_own(policy: acrl.SolvedPolicy) -> None:
    agent = acrl.Agent(policy, acrl.at_least("r1", 0.5))
    assert [r.bound for r in agent.requirements.values()] == pytest.approx([0.5, 1 / 3])
    walk(agent, policy, "R0", 50_000)
    assert agent.averages["r1"] > 0.49
    assert policy.init_multipliers([acrl.at_least("r1", 0.1)])["r1"] <= 1
    with pytest.raises(acrl.InputError, match="conflict"):
        acrl.Agent(policy, acrl.at_least("r1", 0.9))
    with pytest.raises(acrl.Error, match="nothing"):
        acrl.Agent(policy, acrl.at_least("nothing", 0.9))


@pytest.mark.parametrize("changed", [False, True])
def test_saved_agent_continues_bit_identically(policy: acrl.SolvedPolicy, tmp_path: Path, changed: bool) -> None:
    agent = acrl.Agent(policy, executor="time_sharing", tolerance=0.01)
    assert agent.executor == "time_sharing"
    walk(agent, policy, "R0", 777)
    if changed:
        agent.requirements["r2"] = 0.2
        walk(agent, policy, "R0", 777)
    agent.save(tmp_path / "agent.json")
    restored = acrl.Agent.load(tmp_path / "agent.json", acrl.Policy.load(tmp_path / "monitoring.safetensors"))
    copied = copy.deepcopy(agent)
    expected = walk(agent, policy, "R0", 3_000)
    assert walk(restored, policy, "R0", 3_000) == expected
    assert walk(copied, policy, "R0", 3_000) == expected
    assert restored.multipliers == copied.multipliers == agent.multipliers


def test_saved_agent_with_drawn_actions_continues_bit_identically(tmp_path: Path) -> None:
    policy = solved("queue", tmp_path / "queue.safetensors")
    agent, states = acrl.Agent(policy), np.random.default_rng(0).integers(len(policy.state_names), size=4_000)

    def act(agent: acrl.Agent, states: Any) -> list[int]:
        actions = []
        for state in states:
            actions.append(agent.act(state))
            agent.observe({r.reward: 0.01 * state for r in policy.requirements})
        return actions

    assert agent.executor == "stationary"
    act(agent, states[:2_000])
    agent.save(tmp_path / "agent.json")
    restored = acrl.Agent.load(tmp_path / "agent.json", policy)
    assert act(restored, states[2_000:]) == act(agent, states[2_000:])


def test_saved_agent_needs_its_policy(policy: acrl.SolvedPolicy, tmp_path: Path) -> None:
    agent = acrl.Agent(policy)
    walk(agent, policy, "R0", 100)
    agent.save(tmp_path / "agent.json")
    other = solved("queue", tmp_path / "queue.safetensors")
    wrong: Any
    for wrong in (other, lambda _obs, _multipliers: 0):
        with pytest.raises(acrl.Error):
            acrl.Agent.load(tmp_path / "agent.json", wrong)
    saved = json.loads((tmp_path / "agent.json").read_text())
    state = json.loads(saved["state"])
    state["solved"]["mixture"]["acting"] = [7]
    (tmp_path / "agent.json").write_text(json.dumps({**saved, "state": json.dumps(state)}))
    with pytest.raises(acrl.FileError, match="does not fit the plan"):
        acrl.Agent.load(tmp_path / "agent.json", policy)


def test_pickled_and_saved_policies_are_equal(policy: acrl.SolvedPolicy, tmp_path: Path) -> None:
    policy.save(tmp_path / "copy.safetensors")
    for other in [pickle.loads(pickle.dumps(policy)), acrl.SolvedPolicy.load(tmp_path / "copy.safetensors")]:
        assert other.state_names == policy.state_names
        assert walk(acrl.Agent(other), policy, "R0", 500) == walk(acrl.Agent(copy.copy(policy)), policy, "R0", 500)
    assert acrl.run(policy, steps=20_000).met


def test_actions_of_arrays_are_columns(tmp_path: Path) -> None:
    # Two states; each lacks one of three actions. Column 2 goes to the other state, the others stay.
    rows = np.array([[1, 0], [0, 0], [0, 1], [0, 0], [0, 1], [1, 0]], dtype=float)
    stay = np.array([1, 0, 0, 0, 0, 0], dtype=float)
    wait = np.array([0, 0, 0, 0, 1, 0], dtype=float)
    model = acrl.FiniteModel(
        scipy.sparse.csr_array(rows), {"stay": stay.reshape(2, 3), "wait": wait.reshape(2, 3)}, initial=[1, 0]
    )
    policy = solved(model, tmp_path / "model.safetensors", objective="stay", requirements=acrl.at_least("wait", 0.5))
    assert policy.actions(0) == {0: "0", 2: "2"}
    assert policy.actions(1) == {1: "1", 2: "2"}
    agent, state, seen = acrl.Agent(policy), 0, set()
    for _ in range(5_000):
        action = agent.act(state)
        assert action in policy.actions(state)
        seen.add((state, action))
        row = 3 * state + action
        agent.observe({"stay": stay[row], "wait": wait[row]})
        state = int(rows[row].argmax())
    assert seen == {(0, 0), (0, 2), (1, 1), (1, 2)}
    assert agent.averages["wait"] > 0.48


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        (3, "the state is 3, expected an index from 0 to 2"),
        (-1, "the state is -1"),
        (0.5, "the state is 0.5, expected its index or its name"),
        ("R3", "unknown state 'R3'"),
        (None, "the state is None"),
    ],
)
def test_bad_states_are_refused(policy: acrl.SolvedPolicy, obs: Any, message: str) -> None:
    with pytest.raises(acrl.Error, match=message):
        policy.predict(obs, [1, 1])
    with pytest.raises(acrl.Error, match=message):
        acrl.Agent(policy).act(obs)


def test_bad_settings_are_refused(policy: acrl.SolvedPolicy, data: Path, tmp_path: Path) -> None:
    with pytest.raises(acrl.InputError, match="2"):
        policy.predict(0, [1])
    with pytest.raises(acrl.InputError, match="nonnegative"):
        policy.predict(0, [1, -1])
    with pytest.raises(acrl.InputError, match="library"):
        acrl.Agent(policy, executor="library")
    with pytest.raises(acrl.InputError, match="'stationary' or 'time_sharing'"):
        acrl.Agent(policy, executor="policy")
    with pytest.raises(acrl.InputError, match="'stationary' is for mixtures that one stationary policy attains"):
        acrl.Agent(policy, executor="stationary")
    with pytest.raises(acrl.InputError, match="objective"):
        acrl.Agent(policy, objective="r1")
    with pytest.raises(acrl.InputError, match="scales"):
        acrl.Agent(policy, objective_scale=2)
    with pytest.raises(acrl.FileError, match="a trained policy, expected a solved one"):
        acrl.SolvedPolicy.load(data / "wireless.safetensors")
    with pytest.raises(acrl.FileError, match="a solved policy, expected a trained one"):
        acrl.Policy(tmp_path / "monitoring.safetensors")
    (tmp_path / "other.safetensors").write_bytes(b"no policy")
    with pytest.raises(acrl.FileError, match=r"other\.safetensors"):
        acrl.Policy.load(tmp_path / "other.safetensors")
