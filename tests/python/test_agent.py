"""The agent: dual dynamics around any policy."""

import pickle
import threading
from pathlib import Path
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
        assert entry.bound - entry.average <= entry.shortfall + 1e-12, name
    lam = a.multipliers
    assert a.weights.tolist() == [1 / (1 + sum(lam.values())), *(x / (1 + sum(lam.values())) for x in lam.values())]


def test_the_update_is_the_papers() -> None:
    a = acrl.Agent(first_action, acrl.at_least("x", 0.5), step_size=1.0, epoch=4)
    assert [a.observe([r]) for r in [0, 1, 0, 0]] == [False, False, False, True]
    assert a.multipliers == {"x": 0.25}
    assert not a.certificate["x"].met


def test_at_most_is_in_the_users_signs() -> None:
    a = acrl.Agent(first_action, acrl.at_most("power", 1.0), step_size=1.0, epoch=1)
    a.observe({"power": 3.0, "other": 7.0})
    assert a.averages == {"power": 3.0}
    assert a.multipliers == {"power": 2.0}
    assert a.certificate["power"].shortfall == 2.0


def test_both_sides_of_a_reward_have_names() -> None:
    a = acrl.Agent(first_action, [acrl.at_least("x", 0.1), acrl.at_most("x", 0.4)], epoch=1)
    a.observe({"x": 0.2})
    assert list(a.multipliers) == list(a.requirements) == ["x.min", "x.max"]


def test_rewards_come_by_name_or_in_order() -> None:
    one, two, three = agent(), agent(), agent(objective=True)
    one.observe({"r0": 1.0, "r1": 0.5, "r2": 0.0})
    two.observe([1.0, 0.5, 0.0])
    three.observe(np.array([0.5, 0.0]))
    assert one.averages == two.averages == {"r0": 1.0, **three.averages}


def test_an_edited_bound_acts_from_the_next_step_and_opens_a_ledger() -> None:
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
    a = agent(objective=False, multipliers={"r1": 1.0, "r2": 3.0})
    assert a.weights.tolist() == [0.25, 0.75]


def test_scales_and_start_are_by_name_or_in_order() -> None:
    a = agent(scales={"r2": 2.0, "r1": 1.0}, multipliers=[1.0, 2.0])
    assert a.multipliers == {"r1": 1.0, "r2": 2.0}
    b = agent(scales=[1.0, 2.0], multipliers=np.array([1.0, 2.0]))
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


def test_predict_is_used_where_it_takes_multipliers() -> None:
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
        ({"multipliers": {"r1": 1.0, "r2": 0.0, "r3": 0.0}}, "unknown name 'r3'"),
        ({"multipliers": [-1.0, 0.0]}, "multipliers are nonnegative"),
        ({"tolerance": float("nan")}, "the tolerance is nan"),
        ({"objective": 3}, "the objective is 3"),
        ({"steering": "library"}, r"only an acrl\.Policy"),
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


def test_bad_rewards_are_refused_and_leave_no_trace() -> None:
    a = agent()
    for rewards, message in [
        ({"r1": 1.0}, "the reward 'r2' is missing: found r1"),
        ([1.0], "rewards: expected 2 numbers, or 3 with the objective, found 1"),
        ([1.0, float("nan")], "reward r2 must be a finite number"),
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
def test_saved_and_pickled_agents_go_on_to_the_bit(tmp_path: Path, epoch: Any) -> None:
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
        (good.replace('"version": 1', '"version": 2'), "its version is 2, this package reads version 1"),
        (good.replace("deficits", "deficit"), "the state of the dynamics cannot be read"),
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
            assert a.certificate["x"].shortfall >= 0

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert a.steps == 8000
