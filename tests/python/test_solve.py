"""Exact solutions."""

import pickle
import signal
import threading
from pathlib import Path
from typing import Any, Literal

import acrl
import gymnasium
import numpy as np
import pytest
import scipy.sparse

PROBLEMS = Path(__file__).parents[2] / "crates" / "acrl-envs" / "problems"


def monitoring() -> tuple[Any, dict[str, list[int]]]:
    """Example 1: from R0 to R1 or R2, from there back or stay. Action a leads to state a."""
    allowed = np.array([[0, 1, 1], [1, 1, 0], [1, 0, 1]], dtype=float)
    transitions = np.einsum("sa,at->sat", allowed, np.eye(3))
    return transitions, {f"r{i}": np.eye(3, dtype=int)[i].tolist() for i in range(3)}


THIRD = [acrl.at_least("r1", 1 / 3), acrl.at_least("r2", 1 / 3)]


def test_a_bundled_problem_a_file_and_arrays_agree() -> None:
    transitions, rewards = monitoring()
    dense = acrl.FiniteModel(transitions, rewards)
    sparse = acrl.FiniteModel(scipy.sparse.csr_array(transitions.reshape(9, 3)), rewards)
    answers = [acrl.solve("monitoring"), acrl.solve(PROBLEMS / "monitoring.toml")]
    answers += [acrl.solve(model, objective="r0", requirements=THIRD) for model in [dense, sparse]]
    for answer in answers:
        assert answer.feasible
        assert answer.status == "optimal"
        assert answer.objective == pytest.approx(1 / 3)
        assert answer.almost_sure == pytest.approx(1 / 3)
        assert answer.bounds is not None
        assert answer.bounds[0] - 1e-9 <= 1 / 3 <= answer.bounds[1] + 1e-9
        assert answer.gap is not None
        assert answer.gap < 1e-6
        assert answer.multipliers == pytest.approx({"r1": 1.0, "r2": 1.0})
        assert answer.values == pytest.approx({"r0": 1 / 3, "r1": 1 / 3, "r2": 1 / 3})
        assert sum(component.weight for component in answer.mixture) == pytest.approx(1)
        assert answer.conflict == ()
        assert answer.states == 3


def test_policies_use_column_numbers_of_actions() -> None:
    transitions, rewards = monitoring()
    answer = acrl.solve(acrl.FiniteModel(transitions, rewards), objective="r2")
    (component,) = answer.mixture
    assert component.actions.tolist() == [2, 0, 2]


def test_minimising_and_at_most_keep_the_users_signs() -> None:
    transitions, rewards = monitoring()
    answer = acrl.solve(
        acrl.FiniteModel(transitions, rewards),
        objective=acrl.minimize("r1"),
        requirements=[acrl.at_most("r2", 0.25), acrl.at_most("zero", 0.25, reward="r0")],
    )
    assert answer.objective == pytest.approx(0.5)
    assert answer.bounds is not None
    assert answer.bounds[0] <= answer.bounds[1]
    assert answer.values == pytest.approx({"r1": 0.5, "r2": 0.25, "zero": 0.25})


def test_requirements_replace_those_of_the_file() -> None:
    answer = acrl.solve("monitoring", requirements=acrl.at_least("r1", 0.4))
    assert [r.bound for r in answer.requirements] == [0.4, pytest.approx(1 / 3)]


def test_a_conflict_is_named_and_relaxed() -> None:
    hard = [acrl.at_least("r1", 0.55), acrl.at_least("r2", 0.55)]
    answer = acrl.solve("monitoring", requirements=hard)
    assert not answer.feasible
    assert answer.objective is None
    assert answer.conflict == ("r1", "r2")
    assert answer.relax is not None
    assert answer.relax.uniform == pytest.approx(0.05, abs=1e-6)
    assert answer.relax.single == pytest.approx({"r1": 0.1, "r2": 0.1}, abs=1e-6)
    frame = answer.to_dataframe()
    assert frame.loc["r1", "conflict"]
    assert "in conflict" in answer._repr_html_()


def test_solution_is_a_table() -> None:
    answer = acrl.solve("monitoring")
    frame = answer.to_dataframe()
    assert list(frame.index) == ["r1", "r2"]
    assert frame["multiplier"].tolist() == pytest.approx([1.0, 1.0])
    assert ">≥ 0.333333</td>" in answer._repr_html_()
    empty = acrl.solve("monitoring", objective="r1")
    assert "<b>optimal" in empty._repr_html_()


def test_gymnasium_tables_restart_at_episode_ends() -> None:
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    unwrapped: Any = env.unwrapped
    stuck = np.zeros((16, 4))
    stuck[:, 0] = 1.0  # how often "left" is taken
    model = acrl.FiniteModel.from_table(unwrapped.P, {"left": stuck}, initial=unwrapped.initial_state_distrib)
    assert model.rewards == ["reward", "left"]
    # The goal is six steps away, and the seventh state is the start again: a reward every six steps.
    assert acrl.solve(model, objective="reward").objective == pytest.approx(1 / 6)
    half = acrl.solve(model, objective="reward", requirements=acrl.at_least("left", 0.5))
    assert half.objective == pytest.approx(1 / 12)
    assert half.multipliers["left"] == pytest.approx(1 / 6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"transitions": np.zeros((2, 2))}, r"shape \(2, 2\), expected \[states, actions, states\]"),
        ({"transitions": np.full((1, 1, 1), 0.5)}, "state '0', action '0'"),
        ({"transitions": np.full((1, 1, 1), np.nan)}, "state '0', action '0'"),
        ({"transitions": scipy.sparse.csr_array(np.ones((3, 2)))}, "shape 3 × 2"),
        ({"transitions": np.zeros((1, 1, 1))}, "state '0'"),
        ({"rewards": {"x": [1, 2]}}, r"the reward 'x' has shape \(2,\), expected \(1,\) or \(1, 1\)"),
        ({"rewards": {"x": [np.inf]}}, "'x'"),
        ({"initial": 3}, "the initial state is 3, expected 0 to 0"),
        ({"initial": [0.5]}, "0.5"),
        ({"initial": [0.5, 0.5]}, r"shape \(2,\), expected \(1,\)"),
    ],
)
def test_bad_models_are_refused(change: dict[str, Any], message: str) -> None:
    good = {"transitions": np.ones((1, 1, 1)), "rewards": {"x": [1.0]}, "initial": 0}
    acrl.FiniteModel(**good)  # type: ignore[arg-type]
    with pytest.raises(acrl.InputError, match=message):
        acrl.FiniteModel(**{**good, **change})


def test_bad_arguments_are_refused(tmp_path: Path) -> None:
    transitions, rewards = monitoring()
    model = acrl.FiniteModel(transitions, rewards)
    with pytest.raises(
        acrl.InputError, match="nothing to achieve: give an objective or requirements; the rewards are r0"
    ):
        acrl.solve(model)
    with pytest.raises(acrl.InputError, match="unknown reward 'r9': the rewards of this problem are r0, r1, r2"):
        acrl.solve(model, objective="r9")
    with pytest.raises(acrl.InputError, match="the gap is 0"):
        acrl.solve(model, objective="r0", gap=0.0)
    with pytest.raises(acrl.InputError, match="the model is 3"):
        acrl.solve(3)  # type: ignore[arg-type]
    with pytest.raises(acrl.InputError, match="planar is continuous"):
        acrl.solve("planar")
    with pytest.raises(
        acrl.FileError, match="no such file, and no bundled problem of that name; the bundled problems are mon"
    ):
        acrl.solve(tmp_path / "none")
    with pytest.raises(acrl.FileError, match=r"cannot read .*none\.toml"):
        acrl.solve(tmp_path / "none.toml")
    for name, text in [("a.toml", "version = 9"), ("a.drn", "nonsense"), ("a.npz", "nonsense"), ("a.txt", "")]:
        (tmp_path / name).write_text(text)
        with pytest.raises(acrl.FileError, match=name):
            acrl.solve(tmp_path / name, objective="x")


def arrays(transitions: Any, rewards: dict[str, list[int]]) -> dict[str, Any]:
    """What an .npz file holds."""
    matrix = scipy.sparse.csr_array(transitions.reshape(-1, transitions.shape[2]))
    parts = {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data, "shape": matrix.shape}
    named = np.array([np.repeat(values, transitions.shape[1]) for values in rewards.values()])
    return {"format": b"csr", **parts, "rewards": named, "names": list(rewards)}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_file_of_arrays_is_a_model(save: Any, tmp_path: Path) -> None:
    transitions, rewards = monitoring()
    save(tmp_path / "model.npz", **arrays(transitions, rewards))
    path = tmp_path / "model.npz"
    answers = [acrl.solve(path, objective="r0", requirements=THIRD)]
    answers.append(acrl.solve(acrl.FiniteModel.load(path), objective="r0", requirements=THIRD))
    for answer in answers:
        assert answer.objective == pytest.approx(1 / 3)
        assert (answer.states, answer.choices) == (3, 6)
    (component,) = acrl.solve(path, objective="r2").mixture
    assert component.actions.tolist() == [2, 0, 2]  # columns, although each state lacks one


def test_scipy_npz_files_are_part_of_a_model(tmp_path: Path) -> None:
    transitions, rewards = monitoring()
    scipy.sparse.save_npz(tmp_path / "matrix.npz", scipy.sparse.csr_array(transitions.reshape(9, 3)))
    with pytest.raises(acrl.FileError, match="array 'rewards': the array is missing, expected one of shape"):
        acrl.solve(tmp_path / "matrix.npz", objective="r0")
    matrix = dict(np.load(tmp_path / "matrix.npz"))
    named = np.asfortranarray(arrays(transitions, rewards)["rewards"], dtype=np.float32)
    np.savez(tmp_path / "model.npz", **matrix, rewards=named, initial=[0, 0.5, 0.5])
    assert acrl.solve(tmp_path / "model.npz", objective="r0", requirements=THIRD).objective == pytest.approx(1 / 3)


def test_states_in_a_file_may_have_different_numbers_of_actions(tmp_path: Path) -> None:
    transitions, rewards = monitoring()
    kept = transitions.reshape(9, 3).any(axis=1)
    found = arrays(transitions, rewards)
    found |= {"indptr": np.arange(7), "shape": (6, 3), "rewards": found["rewards"][:, kept]}
    np.savez(tmp_path / "model.npz", **found, first_choice=[0, 2, 4, 6], initial=np.int64(1), actions=["a", "b"])
    assert acrl.solve(tmp_path / "model.npz", objective="r0", requirements=THIRD).objective == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": np.full(6, 0.5)}, "array 'data': state '0', action '1': the probabilities add up to 0.5, expected 1"),
        ({"indices": np.full(6, 3)}, "array 'indices': state '0', action '1': the target 3 does not exist"),
        ({"names": np.array(["r0", "r1", None])}, r"array 'names': the array holds Python objects \(pickled\)"),
        ({"rewards": np.zeros((9, 3))}, r"array 'rewards': the shape is \(9, 3\), expected \(rewards, 9\)"),
        ({"intial": 1}, "array 'intial': no such array is known, expected format, shape"),
        ({"format": "csc"}, "array 'format': the format is 'csc', expected 'csr'"),
    ],
)
def test_bad_files_of_arrays_are_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "model.npz", **{**arrays(*monitoring()), **change})
    with pytest.raises(acrl.FileError, match=message):
        acrl.solve(tmp_path / "model.npz", objective="r0")
    (tmp_path / "model.npz").write_bytes((tmp_path / "model.npz").read_bytes()[:-30])
    with pytest.raises(acrl.FileError, match=r"model\.npz: this is not a whole zip file"):
        acrl.FiniteModel.load(tmp_path / "model.npz")


def test_models_survive_save_and_pickle(tmp_path: Path) -> None:
    transitions, rewards = monitoring()
    model = acrl.FiniteModel(transitions, rewards, initial=[0.25, 0.75, 0])
    model.save(tmp_path / "model.npz")
    matrix = scipy.sparse.load_npz(tmp_path / "model.npz")
    assert (matrix.toarray() == transitions.reshape(9, 3)).all()
    with np.load(tmp_path / "model.npz") as found:
        assert found["names"].tolist() == ["r0", "r1", "r2"]
        assert found["initial"].tolist() == [0.25, 0.75, 0]
        assert found["rewards"].shape == (3, 9)
    for other in [acrl.FiniteModel.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))]:
        assert repr(other) == repr(model)
        (component,) = acrl.solve(other, objective="r2").mixture
        assert component.actions.tolist() == [2, 0, 2]
        other.save(tmp_path / "again.npz")
        assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()
    with pytest.raises(acrl.InputError, match=r"expected one that ends in \.npz"):
        model.save(tmp_path / "model.drn")
    with pytest.raises(acrl.FileError, match="none"):
        model.save(tmp_path / "none" / "model.npz")


def test_threads_may_share_a_model() -> None:
    transitions, rewards = monitoring()
    model = acrl.FiniteModel(transitions, rewards)
    found: list[float | None] = []

    def work() -> None:
        found.extend(acrl.solve(model, objective="r0", requirements=THIRD).objective for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 80


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
def test_a_long_solve_can_be_interrupted() -> None:
    random, states = np.random.default_rng(0), 400
    transitions = random.dirichlet(np.full(states, 0.05), size=(states, 4))
    model = acrl.FiniteModel(transitions, {f"r{i}": random.uniform(size=(states, 4)) for i in range(7)})

    def ring(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(TimeoutError):
            acrl.solve(model, objective="r0", requirements=[acrl.at_least(f"r{i}", 0.55) for i in range(1, 7)])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def corridor(length: int) -> acrl.FiniteModel:
    """A corridor with pay at random and service at its end, too long to be solved at once."""
    rng = np.random.default_rng(0)
    at = np.arange(length)
    ahead, back = np.minimum(at + 1, length - 1), np.maximum(at - 1, 0)
    rows = np.repeat(np.arange(2 * length), 2)
    columns = np.stack([np.stack([ahead, back], 1), np.stack([back, ahead], 1)], 1).reshape(-1)
    data = np.tile([0.9, 0.1], 2 * length)
    transitions = scipy.sparse.csr_array((data, (rows, columns)), shape=(2 * length, length))
    return acrl.FiniteModel(transitions, {"pay": rng.random(length) ** 4, "service": (at > length - 5).astype(float)})


def test_time_limit_and_callback_stop_with_proven_bounds() -> None:
    model, required = corridor(3000), acrl.at_least("service", 0.0)
    limited = acrl.solve(model, objective="pay", requirements=required, time_limit=1e-3, gap=1e-9)
    assert limited
    assert not limited.complete
    assert limited.gap is not None
    assert limited.gap > 1e-9
    rounds: list[acrl.Round] = []

    def stop(found: acrl.Round) -> bool:
        rounds.append(found)
        return found.gap is None

    stopped = acrl.solve(model, objective="pay", requirements=required, callback=stop, gap=1e-9)
    assert not stopped.complete
    assert stopped.gap == rounds[-1].gap
    assert stopped.bounds == (rounds[-1].lower, rounds[-1].upper)
    with pytest.raises(acrl.InputError, match="time limit"):
        acrl.solve(model, objective="pay", time_limit=-1)


def test_callback_exceptions_propagate() -> None:
    def fail(_: acrl.Round) -> None:
        raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError, match="on purpose"):
        acrl.solve("queue", callback=fail)


def test_a_sweep_is_a_table_a_picture_and_a_page(tmp_path: Path) -> None:
    curve = acrl.sweep("monitoring", acrl.at_least("r1", 0), np.linspace(0.1, 0.7, 7), progress=False)
    assert curve
    assert curve.requirement == "r1"
    assert [point.status for point in curve.points] == ["optimal"] * 6 + ["infeasible"]
    values = np.array([point.objective for point in curve.points[:6]], dtype=float)
    slopes = -np.diff(values) / 0.1
    assert (slopes >= curve.prices[:5] - 1e-6).all()
    assert (slopes <= curve.prices[1:6] + 1e-6).all()
    assert np.isnan(curve.prices[6:]).all()
    frame = curve.to_dataframe("pandas")
    assert list(frame["status"]) == [point.status for point in curve.points]
    assert pickle.loads(pickle.dumps(curve)) == curve
    curve.plot().savefig(tmp_path / "sweep.png")
    assert curve.save_report(tmp_path / "report").exists()
    assert "infeasible" in curve._repr_html_()
    with pytest.raises(acrl.InputError, match="no bounds"):
        acrl.sweep("monitoring", acrl.at_least("r1", 0), [])


def test_solution_is_saved_and_executed(tmp_path: Path) -> None:
    path = tmp_path / "queue.safetensors"
    answer = acrl.solve("queue", policy=path)
    executors: list[Literal["stationary", "time_sharing"]] = ["stationary", "time_sharing"]
    for executor in executors:
        run = acrl.run(path, steps=300_000, executor=executor)
        assert run.met
        for name, value in answer.values.items():
            assert run.averages[name] == pytest.approx(value, abs=0.015 * max(abs(value), 0.3))
    with pytest.raises(acrl.InputError, match="safetensors"):
        acrl.solve("queue", policy=tmp_path / "queue.bin")


def test_policy_table_has_the_actions_of_each_policy() -> None:
    answer = acrl.solve("monitoring")
    assert [row.state for row in answer.policy_table] == ["R0", "R1", "R2"]
    assert answer.differing_states == sum(row.differs for row in answer.policy_table) > 0
    for row in answer.policy_table:
        assert len(row.actions) == len(answer.mixture)
        assert row.differs == (len(set(row.actions)) > 1)
    infeasible = acrl.solve("monitoring", requirements=acrl.at_least("r1", 0.9))
    assert infeasible.policy_table == ()
