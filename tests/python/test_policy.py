"""Trained policies and their files."""

import pickle
import threading
from pathlib import Path
from typing import Any

import acrl
import numpy as np
import pytest


@pytest.fixture
def policy(data: Path) -> acrl.Policy:
    return acrl.Policy.load(data / "wireless.safetensors")


def observations(policy: acrl.Policy, n: int) -> Any:
    low, high = np.array(policy.observation_space).T
    return np.random.default_rng(0).uniform(low, high, size=(n, len(low)))


def test_policy_metadata(policy: acrl.Policy) -> None:
    assert policy.objective == acrl.maximize("sum_rate")
    assert policy.requirements[3] == acrl.at_most("power", 1.0)
    assert len(policy.observation_space) == 3
    assert policy.action_space == [acrl.DiscreteAction(3), acrl.ContinuousAction(0.0, 4.0)]
    assert policy.execution_defaults.step_size > 0
    assert list(policy.scales) == list(policy.init_multipliers()) == [r.name for r in policy.requirements]
    assert "wireless.safetensors" in repr(policy)


def test_a_batch_and_single_observations_agree(policy: acrl.Policy) -> None:
    seen = observations(policy, 100)
    prices = np.random.default_rng(1).uniform(0, 3, size=(100, 4))
    actions = policy.predict(seen, prices)
    assert actions.shape == (100, 2)
    assert set(actions[:, 0]) <= {0.0, 1.0, 2.0}
    assert len(set(actions[:, 0])) > 1
    for i in range(100):
        assert policy.predict(seen[i], prices[i]).tolist() == actions[i].tolist()
    named = dict(zip(policy.scales, prices[0].tolist(), strict=True))
    assert policy.predict(seen[0], named).tolist() == actions[0].tolist()
    same_prices = policy.predict(seen, prices[0])
    assert same_prices[0].tolist() == actions[0].tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_predict_accepts_any_dtype_and_memory_layout(policy: acrl.Policy, dtype: Any) -> None:
    seen = np.asfortranarray(np.ones((6, 3), dtype=dtype))[::2]
    assert policy.predict(seen, [0, 1, 0, 1]).tolist() == policy.predict(np.ones((3, 3)), [0.0, 1.0, 0.0, 1.0]).tolist()
    assert policy.predict(np.ones((0, 3)), [0, 1, 0, 1]).shape == (0, 2)


def test_sampled_actions_depend_on_the_seed(data: Path, policy: acrl.Policy) -> None:
    seen = observations(policy, 50)
    path = data / "wireless.safetensors"
    drawn = [acrl.Policy.load(path, seed=seed).predict(seen, np.ones(4), deterministic=False) for seed in [1, 1, 2]]
    assert drawn[0].tolist() == drawn[1].tolist() != drawn[2].tolist()
    assert drawn[0].tolist() != policy.predict(seen, np.ones(4)).tolist()


@pytest.mark.parametrize(
    ("obs", "multipliers", "message"),
    [
        ([0.0, 0.0], [0, 0, 0, 0], "the observations have 2 numbers each, expected 3"),
        ([0.0, 0.0, np.nan], [0, 0, 0, 0], "number 2 of row 0 is NaN"),
        ([0.0, 0.0, 0.0], [0, 0, 0], r"the multipliers have shape \(3,\), expected 4 numbers"),
        ([0.0, 0.0, 0.0], [0, 0, 0, -1.0], "multipliers are nonnegative, but one is -1"),
        ([0.0, 0.0, 0.0], [0, 0, 0, np.inf], "the multipliers must be finite numbers, but number 3 of row 0 is inf"),
        ([0.0, 0.0, 0.0], [[0, 0, 0, 0]], "1 rows of multipliers for one observation"),
        ([[0.0, 0.0, 0.0]], np.zeros((2, 4)), "1 observations, but multipliers for 2"),
        (np.zeros((1, 1, 3)), [0, 0, 0, 0], r"shape \(1, 1, 3\)"),
        (["a", "b", "c"], [0, 0, 0, 0], "type <U1, expected floats or integers"),
        ([1j, 0, 0], [0, 0, 0, 0], "complex128"),
        ([0.0, 0.0, 0.0], {"power": 1.0}, "'rate_near' is missing"),
    ],
)
def test_bad_input_is_refused(policy: acrl.Policy, obs: Any, multipliers: Any, message: str) -> None:
    with pytest.raises(acrl.InputError, match=message):
        policy.predict(obs, multipliers)


def test_damaged_and_other_files_are_refused(tmp_path: Path, data: Path) -> None:
    good = (data / "wireless.safetensors").read_bytes()
    path = tmp_path / "p.safetensors"
    for content, message in [
        (b"", "safetensors"),
        (b"not a policy at all", "safetensors"),
        (good[:-1], "cut short"),
        (good[:-1] + bytes([good[-1] ^ 1]), "damaged"),
        (good.replace(b'"version":"1"', b'"version":"9"'), "newer"),
    ]:
        path.write_bytes(content)
        with pytest.raises(acrl.FileError, match=rf"cannot use .*p\.safetensors as a policy file: .*{message}"):
            acrl.Policy.load(path)
    with pytest.raises(acrl.FileError, match=r"cannot open .*none\.safetensors: No such file"):
        acrl.Policy.load(tmp_path / "none.safetensors")


def test_agent_defaults_come_from_its_policy(policy: acrl.Policy) -> None:
    agent = acrl.Agent(policy)
    assert list(agent.requirements.values()) == policy.requirements
    assert agent.multipliers == policy.init_multipliers()
    assert agent.epoch == policy.execution_defaults.epoch
    assert len(agent.weights) == 5
    edited = acrl.Agent(policy, acrl.at_most("power", 0.5))
    assert edited.requirements["power"].bound == 0.5
    with pytest.raises(acrl.InputError, match="the policy was not trained for"):
        acrl.Agent(policy, acrl.at_least("power", 0.5))


@pytest.mark.parametrize("executor", ["policy", "library"])
def test_saved_agent_of_a_policy_continues_bit_identically(policy: acrl.Policy, tmp_path: Path, executor: Any) -> None:
    def run(agent: acrl.Agent, first: int, count: int) -> list[list[float]]:
        actions = []
        for t in range(first, first + count):
            seen = np.random.default_rng(t).uniform(0, 2, size=3)
            action = agent.act(seen)
            rates = [np.log2(1 + action[1] * seen[i]) * (i == action[0]) for i in range(3)]
            agent.observe([sum(rates), *rates, action[1]])
            actions.append(action.tolist())
        return actions

    agent = acrl.Agent(policy, executor=executor, epoch=7)
    run(agent, 0, 100)
    agent.save(tmp_path / "agent.json")
    loaded = acrl.Agent.load(tmp_path / "agent.json", policy)
    pickled = pickle.loads(pickle.dumps(agent))
    expected = run(agent, 100, 200)
    assert run(loaded, 100, 200) == expected
    assert run(pickled, 100, 200) == expected
    assert loaded.averages == agent.averages


def test_action_repeat_follows_the_policy(policy: acrl.Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acrl.Policy, "action_repeat", 3)
    agent = acrl.Agent(policy, executor="policy")
    seen = observations(policy, 6)
    held = []
    for obs in seen:
        held.append(agent.act(obs).tolist())
        agent.observe([0.0] * 4)
    assert held[0] == held[1] == held[2] != held[3] == held[4] == held[5]


def test_threads_may_share_a_policy(policy: acrl.Policy) -> None:
    seen = observations(policy, 1000)
    expected = policy.predict(seen, np.ones(4)).tolist()
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            if policy.predict(seen, np.ones(4)).tolist() != expected:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
