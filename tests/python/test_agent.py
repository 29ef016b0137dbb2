"""The agent: dual dynamics around any policy."""

import copy
import itertools
import json
import pickle
import threading
from pathlib import Path
from types import MappingProxyType
from typing import Any

import acrl
import numpy as np
import pytest
from numpy.typing import NDArray

THIRD = [acrl.at_least("r1", 1 / 3), acrl.at_least("r2", 1 / 3)]


def monitoring(state: int, multipliers: NDArray[np.float64]) -> int:
    """The best behaviour of Example 1: R0 and the dearer of R1 and R2 in turns, or to stay where a price is above 1."""
    dear = 1 + int(np.argmax(multipliers))
    if state == 0:
        return dear
    return state if state == dear and multipliers[dear - 1] > 1 else 0


def run(agent: acrl.Agent, steps: int, state: int = 0) -> int:
    for _ in range(steps):
        rewards = {f"r{i}": float(state == i) for i in range(3)}
        state = agent.act(state)
        agent.observe(rewards)
    return state


def agent(**options: Any) -> acrl.Agent:
    return acrl.Agent(monitoring, THIRD, **{"step_size": 0.5, "epoch": 10, "objective": "r0", **options})


def first_action(_obs: Any, multipliers: NDArray[np.float64]) -> int:
    return int(multipliers[0] > 0)


def test_example_1_is_met_and_certified() -> None:
    a = agent()
    run(a, 100_000)
    averages = a.averages
    assert list(averages) == ["r0", "r1", "r2"]
    assert np.allclose(np.asarray(averages), 1 / 3, atol=2e-3)
    for name, entry in a.certificate.items():
        assert entry.met
        assert entry.steps == a.steps == 100_000
        assert entry.bound - entry.average <= entry.certified_shortfall + 1e-12, name
    lam = a.multipliers
    assert a.weights.tolist() == [1 / (1 + sum(lam.values())), *(x / (1 + sum(lam.values())) for x in lam.values())]


def test_dual_update_matches_the_paper() -> None:
    a = acrl.Agent(first_action, acrl.at_least("x", 0.5), step_size=1.0, epoch=4)
    assert [a.observe([r]) for r in [0, 1, 0, 0]] == [False, False, False, True]
    assert a.multipliers == {"x": 0.25}
    assert not a.certificate["x"].met


def test_at_most_keeps_the_users_signs() -> None:
    a = acrl.Agent(first_action, acrl.at_most("power", 1.0), step_size=1.0, epoch=1)
    a.observe({"power": 3.0, "other": 7.0})
    assert a.averages == {"power": 3.0}
    assert a.multipliers == {"power": 2.0}
    assert a.certificate["power"].certified_shortfall == 2.0


def test_two_requirements_on_one_reward_get_distinct_names() -> None:
    a = acrl.Agent(first_action, [acrl.at_least("x", 0.1), acrl.at_most("x", 0.4)], epoch=1)
    a.observe({"x": 0.2})
    assert list(a.multipliers) == list(a.requirements) == ["x.min", "x.max"]


def test_rewards_are_accepted_by_name_or_in_order() -> None:
    one, two, three = agent(), agent(), agent(objective=True)
    one.observe({"r0": 1.0, "r1": 0.5, "r2": 0.0})
    two.observe([1.0, 0.5, 0.0])
    three.observe(np.array([0.5, 0.0]))
    assert one.averages == two.averages == {"r0": 1.0, **three.averages}
    for rewards in [
        (1.0, 0.5, 0.0),
        np.array([1.0, 0.5, 0.0], dtype=np.float32),
        np.array([[1.0, 9.0, 0.5, 9.0, 0.0]])[0, ::2],
        np.array([2, 1, 0], dtype=">i2") / np.array(2.0, dtype=">f8"),
        iter([1, 0.5, False]),
        MappingProxyType({"r2": 0.0, "r1": np.float32(0.5), "r0": np.array(1.0)}),
        {"r0": True, "r1": Half(), "r2": 0, "unknown": "anything"},
        acrl.Named(r0=1.0, r1=0.5, r2=0.0),
    ]:
        other = agent()
        other.observe(rewards)
        assert other.averages == one.averages, rewards


class Half:
    """A number to Python."""

    def __float__(self) -> float:
        return 0.5


def test_changed_bound_applies_from_the_next_step_and_opens_a_ledger() -> None:
    a = agent()
    run(a, 1000)
    before = a.multipliers
    a.requirements["r1"] = 0.4
    assert a.requirements["r1"] == acrl.at_least("r1", 0.4)
    assert a.multipliers == before
    assert a.certificate["r1"].steps == 0
    assert not a.certificate["r1"].met
    run(a, 200_000)
    assert a.averages["r1"] > 0.395
    with pytest.raises(acrl.UnknownNameError, match="unknown requirement 'r9': the agent has r1, r2"):
        a.requirements["r9"] = 1.0
    with pytest.raises(acrl.InputError, match="finite"):
        a.requirements["r1"] = float("nan")
    assert "r9" not in a.requirements
    assert a.requirements.get("r9") is None


def test_auto_lengthens_the_epoch() -> None:
    # 0.46 each needs long stays: with epochs of 10 steps the agent turns round for ever.
    hard = [acrl.at_least("r1", 0.46), acrl.at_least("r2", 0.46)]
    fixed = acrl.Agent(monitoring, hard, step_size=0.5, epoch=10)
    auto = acrl.Agent(monitoring, hard, step_size=0.5, epoch="auto")
    run(fixed, 100_000)
    run(auto, 100_000)
    assert fixed.epoch == 10
    assert auto.epoch > 10
    assert max(auto.multipliers.values()) < max(fixed.multipliers.values()) / 5


def test_without_an_objective_weights_are_those_of_the_requirements() -> None:
    a = agent(objective=False, init_multipliers={"r1": 1.0, "r2": 3.0})
    assert a.weights.tolist() == [0.25, 0.75]


def test_scales_and_init_multipliers_by_name_or_in_order() -> None:
    a = agent(scales={"r2": 2.0, "r1": 1.0}, init_multipliers=[1.0, 2.0])
    assert a.multipliers == {"r1": 1.0, "r2": 2.0}
    b = agent(scales=[1.0, 2.0], init_multipliers=np.array([1.0, 2.0]))
    run(a, 500)
    run(b, 500)
    assert a.multipliers == b.multipliers


class Thinker:
    """A policy with predict."""

    def predict(self, obs: int, multipliers: NDArray[np.float64], *, deterministic: bool) -> tuple[int, bool]:
        return monitoring(obs, multipliers), deterministic


class Learner:
    """A learner that knows nothing of multipliers."""

    def predict(self, obs: int, state: object = None, deterministic: bool = False) -> tuple[int, object]:
        return obs, (state, deterministic)


def test_predict_is_called_if_it_takes_multipliers() -> None:
    assert acrl.Agent(Thinker(), THIRD, deterministic=False).act(0) == (1, False)
    with pytest.raises(acrl.InputError, match=r"expected a callable policy\(obs, multipliers\)"):
        acrl.Agent(Learner(), THIRD)
    with pytest.raises(acrl.InputError, match="the policy is 7"):
        acrl.Agent(7, THIRD)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step_size": 0.0}, "the step size must be greater than 0, but it is 0"),
        ({"step_size": float("nan")}, "the step size must be a finite number"),
        ({"epoch": 0}, 'the epoch is 0, expected a number of steps above 0 or "auto"'),
        ({"epoch": "long"}, "the epoch is 'long'"),
        ({"epoch": 2.5}, "the epoch is 2.5"),
        ({"epoch": True}, "the epoch is True"),
        ({"epoch": "auto", "epoch_start": -1}, "the epoch's start is -1"),
        ({"scales": [1.0]}, "scales: expected 2 numbers, found 1"),
        ({"scales": {"r1": 1.0}}, "scales: 'r2' is missing"),
        ({"scales": [1.0, 0.0]}, "the scale of 'r2' must be greater than 0"),
        ({"init_multipliers": {"r1": 1.0, "r2": 0.0, "r3": 0.0}}, "unknown name 'r3'"),
        ({"init_multipliers": [-1.0, 0.0]}, "multipliers are nonnegative"),
        ({"tolerance": float("nan")}, "the tolerance is nan"),
        ({"objective": 3}, "the objective is 3"),
        ({"executor": "library"}, r"only a trained acrl\.Policy"),
    ],
)
def test_bad_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(acrl.InputError, match=message):
        agent(**options)


def test_bad_requirements_are_refused() -> None:
    with pytest.raises(acrl.InputError, match="two requirements are called 'a'"):
        acrl.Agent(monitoring, [acrl.at_least("a", 1), acrl.at_least("a", 2, reward="b")])
    with pytest.raises(acrl.InputError, match="'a>=1' is no requirement"):
        acrl.Agent(monitoring, ["a>=1"])  # type: ignore[list-item]
    with pytest.raises(acrl.InputError, match="an agent needs requirements"):
        acrl.Agent(monitoring)


def test_bad_rewards_are_refused_without_side_effects() -> None:
    a = agent()
    for rewards, message in [
        ({"r1": 1.0}, "the reward 'r2' is missing: found r1"),
        ([1.0], "rewards: expected 2 numbers, or 3 with the objective, found 1"),
        ([1.0, float("nan")], "the reward 'r2' must be a finite number, but it is NaN"),
        ({"r0": float("inf"), "r1": 1, "r2": 0}, "the reward 'r0' must be a finite number, but it is inf"),
        (np.array([0.0, np.nan]), "the reward 'r2' must be a finite number"),
        (np.array([0.0, -np.inf], dtype=np.float32), "the reward 'r2' must be a finite number"),
        (np.zeros(7), "expected 2 numbers, or 3 with the objective, found 7"),
        (np.zeros((1, 3)), "expected 2 numbers, or 3 with the objective, found 1|is array"),
        (np.zeros((2, 2)), r"number 0 of the rewards is array\(\[0\., 0\.\]\), expected a number"),
        (np.array([None, 1.0]), "number 0 of the rewards is None, expected a number"),
        (["a", 1.0], "number 0 of the rewards is 'a', expected a number"),
        ({"r1": "a", "r2": 1.0}, "the reward 'r1' is 'a', expected a number"),
        ({"r1": 1j, "r2": 1.0}, "the reward 'r1' is 1j, expected a number"),
        ("ab", "the rewards are 'ab', expected numbers by name or in order"),
        (None, "the rewards are None"),
        (1.0, r"the rewards are 1\.0"),
        (itertools.repeat(1.0), "expected 2 numbers"),
        (MappingProxyType({"r1": 1.0}), "the reward 'r2' is missing: found r1"),
        ({}, "the reward 'r1' is missing: found none"),
    ]:
        with pytest.raises(acrl.InputError, match=message):
            a.observe(rewards)  # type: ignore[arg-type]
    assert a.steps == 0
    assert a.averages == {"r0": 0.0, "r1": 0.0, "r2": 0.0}


def same(a: acrl.Agent, b: acrl.Agent) -> bool:
    return (a.multipliers, a.averages, a.certificate, a.steps, a.epoch) == (
        b.multipliers,
        b.averages,
        b.certificate,
        b.steps,
        b.epoch,
    )


@pytest.mark.parametrize("epoch", [10, "auto"])
def test_saved_and_pickled_agents_continue_bit_identically(tmp_path: Path, epoch: Any) -> None:
    a = agent(epoch=epoch, scales=[1.0, 3.0])
    state = run(a, 1237)  # in mid-epoch
    a.save(tmp_path / "agent.json")
    loaded = acrl.Agent.load(tmp_path / "agent.json", monitoring)
    pickled = pickle.loads(pickle.dumps(a))
    for other in [loaded, pickled]:
        assert same(a, other)
    for each in [a, loaded, pickled]:
        run(each, 5000, state)
    assert same(a, loaded)
    assert same(a, pickled)
    assert [path.name for path in tmp_path.iterdir()] == ["agent.json"]


def test_files_that_are_no_agents_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    with pytest.raises(acrl.FileError, match=r"cannot read .*agent\.json: No such file"):
        acrl.Agent.load(path, monitoring)
    agent().save(path)
    good = path.read_text()
    for text, message in [
        ("{", "expected JSON"),
        ("[]", r"expected what acrl\.Agent\.save wrote"),
        (good.replace('"version": 2', '"version": 1'), "its version is 1, this package reads version 2"),
        (good.replace("deficits", "deficit"), "the state of the agent cannot be read"),
        (good.replace("tolerance", "tol"), "cannot be restored"),
    ]:
        path.write_text(text)
        with pytest.raises(acrl.FileError, match=message):
            acrl.Agent.load(path, monitoring)
    with pytest.raises(acrl.FileError, match="cannot write"):
        agent().save(tmp_path / "missing" / "agent.json")


def test_threads_may_share_an_agent() -> None:
    a = acrl.Agent(first_action, acrl.at_least("x", 0.5), step_size=0.1, epoch=3)

    def work() -> None:
        for i in range(2000):
            a.act(None)
            a.observe({"x": i % 2})
            a.requirements["x"] = 0.5
            assert a.certificate["x"].certified_shortfall >= 0

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert a.steps == 8000


def trained(data: Path, bounds: dict[str, float] | None = None, **options: Any) -> tuple[acrl.Agent, acrl.Policy]:
    """An agent and its policy."""
    policy = acrl.Policy.load(data / "wireless.safetensors")
    sides = {r.name: acrl.at_least if r.direction == "at_least" else acrl.at_most for r in policy.requirements}
    edited = [sides[name](name, bound) for name, bound in (bounds or {}).items()]
    return acrl.Agent(policy, edited or None, **options), policy


def random_rewards(agent: acrl.Agent, steps: int, factor: float) -> NDArray[np.float64]:
    """Rewards around ``factor`` times the bounds."""
    bounds = [requirement.bound for requirement in agent.requirements.values()]
    noise = np.random.default_rng(0).uniform(0.5, 1.5, (steps, len(bounds)))
    return np.asarray(factor * np.array(bounds) * noise)


HARD = {"rate_near": 1.5, "rate_middle": 1.0, "rate_far": 0.8, "power": 0.5}


@pytest.mark.parametrize(
    ("factor", "options", "executor"),
    [
        (1.0, {"executor": "policy"}, "policy"),
        (1.0, {"executor": "library", "epoch": 20}, "library"),
        (0.3, {"executor": "policy", "epoch_start": 50}, "library"),  # changes to the library on the way
        (0.3, {"executor": "policy", "epoch": 10}, "policy"),  # a fixed epoch is never lengthened
        (0.3, {"epoch": 10}, "policy"),
    ],
)
def test_restored_agents_of_a_trained_policy_continue_bit_identically(
    data: Path, tmp_path: Path, factor: float, options: dict[str, Any], executor: str
) -> None:
    agent, policy = trained(data, HARD, **options)
    steps = 30_000
    others: list[acrl.Agent] = []
    for t, rewards in enumerate(random_rewards(agent, steps, factor)):
        if t in (steps // 3, 2 * steps // 3):
            agent.save(tmp_path / "agent.json")
            others = [
                pickle.loads(pickle.dumps(agent)),
                copy.deepcopy(agent),
                acrl.Agent.load(tmp_path / "agent.json", policy),
            ]
        moved = agent.observe(rewards)
        for other in others:
            assert other.observe(rewards) == moved
            if moved:
                assert np.array_equal(other._native.acting_weights(), agent._native.acting_weights())
    assert all(same(agent, other) for other in others)
    assert agent.executor == executor
    if executor == "policy":
        last = np.asarray(agent.multipliers)
        assert agent._native.acting_weights().tolist() == [1.0, *last.tolist()]


def test_actions_are_those_of_the_policy(data: Path) -> None:
    agent, policy = trained(data, HARD, executor="policy", epoch_start=50)
    low, high = np.array(policy.observation_space).T
    seen = np.random.default_rng(1).uniform(low, high, (20_000, len(low)))
    changed = 0
    for t, rewards in enumerate(random_rewards(agent, 20_000, 0.3)):
        action = agent.act(seen[t])
        if t % 100 == 0:
            w = agent._native.acting_weights()
            # The weights of an entry are multipliers too, as only their proportions count; with w0 = 0 they grow large.
            prices = w[1:] / max(w[0], 1e-12)
            expected = policy.predict(seen[t], prices)
            np.testing.assert_allclose(action, expected, rtol=1e-3, atol=1e-3)
            assert agent.act(seen[t].astype(np.float32)).shape == action.shape
            assert agent.act(seen[t].tolist()).tolist() == action.tolist()
            changed += agent.executor == "library"
        agent.observe(rewards)
    assert changed > 0


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        (np.zeros(2), "the observations have 2 numbers each, expected 3"),
        (np.zeros((1, 3)), r"the observation has shape \(1, 3\), expected 3 numbers"),
        (np.array(1.0), r"the observation has shape \(\), expected 3 numbers"),
        ([0.0, np.nan, 0.0], "number 1 of row 0 is NaN"),
        (np.array([0.0, 0.0, np.inf], dtype=np.float32), "number 2 of row 0 is inf"),
        (np.array([None, 1, 2]), "type object, expected floats or integers"),
        (None, "type object, expected floats or integers"),
        ({"a": 1}, "type object, expected floats or integers"),
        ("abc", "type <U3"),
        ([[1.0], [1.0, 2.0]], "no array of numbers"),
    ],
)
def test_bad_observations_are_refused(data: Path, obs: Any, message: str) -> None:
    agent, _ = trained(data)
    with pytest.raises(acrl.InputError, match=message):
        agent.act(obs)
    assert agent.act(np.zeros(3)).shape == (2,)


def test_sampled_actions_continue_bit_identically(data: Path, tmp_path: Path) -> None:
    agent, policy = trained(data, deterministic=False)
    first = [agent.act(np.ones(3)).tolist() for _ in range(20)]
    agent.save(tmp_path / "agent.json")
    others = [pickle.loads(pickle.dumps(agent)), acrl.Agent.load(tmp_path / "agent.json", policy)]
    expected = [agent.act(np.ones(3)).tolist() for _ in range(20)]
    assert first != expected
    for other in others:
        assert [other.act(np.ones(3)).tolist() for _ in range(20)] == expected


def test_repeated_action_is_saved(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acrl.Policy, "action_repeat", 3)
    agent, policy = trained(data)
    held = agent.act(np.zeros(3)).tolist()
    agent.observe(np.zeros(4))
    agent.save(tmp_path / "agent.json")
    for each in [agent, pickle.loads(pickle.dumps(agent)), acrl.Agent.load(tmp_path / "agent.json", policy)]:
        assert each.act(np.ones(3)).tolist() == held
        each.observe(np.zeros(4))
        assert each.act(np.ones(3)).tolist() == held
        each.observe(np.zeros(4))
        assert each.act(np.ones(3)).tolist() != held


def test_a_policy_of_another_problem_is_refused(data: Path, tmp_path: Path) -> None:
    a = agent()
    a.save(tmp_path / "agent.json")
    with pytest.raises(acrl.FileError, match="the policy was trained for 4 requirements, but the agent has 2"):
        acrl.Agent.load(tmp_path / "agent.json", acrl.Policy.load(data / "wireless.safetensors"))


def test_the_diagnosis_of_a_trained_policy(data: Path) -> None:
    def after(bounds: dict[str, float], steps: int, factor: float, **options: Any) -> acrl.Diagnosis:
        agent, _ = trained(data, bounds, **options)
        assert agent.diagnosis.verdict == "converging"
        assert agent.diagnosis.sentence == "Nothing has been observed yet since the bounds were set."
        for rewards in random_rewards(agent, steps, factor):
            agent.observe(rewards)
        return agent.diagnosis

    easy = {"rate_near": 0.1, "rate_middle": 0.1, "rate_far": 0.05, "power": 0.0}
    met = after(easy, 65_536, 2.0)
    assert (met.verdict, met.names) == ("met", tuple(easy))
    assert str(met) == "Met: rate_near, rate_middle, rate_far, power."
    # No policy transmits 9 bits in a slot.
    impossible = after({"rate_near": 9.0}, 4_096, 0.1)
    assert impossible.verdict == "infeasible"
    assert "rate_near" in impossible.names
    assert str(impossible).startswith("Infeasible: among all rewards observed in training, no mixture meets rate_near")
    # The requirements of the training are feasible, but the training was short.
    assert after({}, 16_384, 0.5, epoch_start=20).verdict == "policy_insufficient"


def test_the_diagnosis_of_a_foreign_policy() -> None:
    a = agent()
    run(a, 100_000)
    assert a.diagnosis.verdict == "met"
    assert json.loads(json.dumps(a.diagnosis.evidence))["certified_shortfall_ratio"] <= 1
    # With epochs of 10 steps the agent turns round for ever, and both would be possible.
    hard = [acrl.at_least("r1", 0.46), acrl.at_least("r2", 0.46)]
    short = acrl.Agent(monitoring, hard, step_size=0.5, epoch=10)
    run(short, 50_000)
    assert short.diagnosis.verdict == "epoch_too_short"
    assert "keep growing" in str(short.diagnosis)
    # Both at once are not among what was seen.
    greedy = acrl.Agent(monitoring, [acrl.at_least("r1", 0.6), acrl.at_least("r2", 0.6)], step_size=0.5, epoch=10)
    verdicts = []
    for steps in [50, 50_000]:
        run(greedy, steps)
        verdicts.append(greedy.diagnosis.verdict)
    assert verdicts == ["converging", "policy_insufficient"]  # at first it is too early to say
    assert greedy.diagnosis.names == ("r1", "r2")
    greedy.requirements["r1"] = greedy.requirements["r2"] = 0.2
    for steps in [0, 50_000]:
        run(greedy, steps)
        verdicts.append(greedy.diagnosis.verdict)
    assert verdicts[2:] == ["converging", "met"]
