"""Threads, forks, pickles, reentrant calls."""

import copy
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import acrl
import numpy as np
import pytest

# A fork of a process with threads is what is tried here; Python 3.12 and later warn of it.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

MODEL = acrl.FiniteModel(
    np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], dtype=float), {"a": [1, 0], "b": [0, 1]}, initial=[0.25, 0.75]
)


@pytest.fixture
def policy(data: Path) -> acrl.Policy:
    return acrl.Policy.load(data / "wireless.safetensors")


def use(policy: acrl.Policy, agent: acrl.Agent) -> tuple[list[Any], list[Any], float | None]:
    """A few calls of each kind."""
    batch = policy.predict(np.ones((100, 3)), np.ones(4))
    single = agent.act(np.ones(3))
    agent.observe(np.zeros(5))
    answer = acrl.solve(MODEL, objective="a", requirements=[acrl.at_least("b", 0.4)])
    return batch.tolist(), single.tolist(), answer.objective


def in_fork(work: Callable[[], object], seconds: float = 60.0) -> None:
    """Runs in a forked child, which must come to an end."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    pytest.fail("the child hangs")


def run_threads(*work: Callable[[], object]) -> None:
    failed: list[BaseException] = []

    def guarded(one: Callable[[], object]) -> None:
        try:
            one()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    assert not failed, failed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_agent_continues_in_a_forked_child(policy: acrl.Policy) -> None:
    agent = acrl.Agent(policy)
    expected = use(policy, agent)

    def child() -> None:
        assert use(policy, agent)[0] == expected[0]
        assert use(policy, agent)[2] == expected[2]
        in_fork(lambda: use(policy, agent))

    in_fork(child)
    use(policy, agent)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_fork_amid_calls_of_other_threads(policy: acrl.Policy) -> None:
    """Locks that other threads hold stay held in the child for ever: there must be none."""
    agent = acrl.Agent(policy)
    seen, prices = np.ones((20_000, 3)), np.ones(4)
    over = threading.Event()

    def busy() -> None:
        while not over.is_set():
            policy.predict(seen, prices)
            agent.act(seen[0])
            agent.observe(np.zeros(4))

    def forks() -> None:
        try:
            for _ in range(20):
                in_fork(lambda: use(policy, agent))
        finally:
            over.set()

    run_threads(busy, busy, forks)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_of_a_pool(policy: acrl.Policy, method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    agent = acrl.Agent(policy)
    use(policy, agent)
    expected = use(copy.deepcopy(policy), copy.deepcopy(agent))
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        results = list(pool.map(use, [policy] * 3, [agent] * 3, timeout=120))
    assert results == [expected] * 3


def test_threads_share_an_agent_of_a_trained_policy(policy: acrl.Policy) -> None:
    agent = acrl.Agent(policy, epoch=3)
    seen = np.random.default_rng(0).uniform(0, 2, size=(500, 3))

    def act() -> None:
        for obs in seen:
            assert agent.act(obs).shape == (2,)
            agent.observe({r.reward: 0.5 for r in policy.requirements})
            policy.predict(seen, np.ones(4), deterministic=False)

    def watch() -> None:
        for i in range(500):
            agent.requirements["power"] = 1.0 + i / 1000
            assert len(agent.certificate) == len(agent.multipliers) == 4
            assert agent.diagnosis.verdict
            pickle.loads(pickle.dumps(agent))

    run_threads(act, act, watch)
    assert agent.steps == 1000


class Curious:
    """A number that uses the agent while the agent reads it."""

    def __init__(self, agent: acrl.Agent) -> None:
        self.agent = agent

    def __float__(self) -> float:
        self.agent.observe([0.25])
        self.agent.act(None)
        gc.collect()
        return float(len(self.agent.certificate))


def test_calls_from_within_calls() -> None:
    agent: acrl.Agent

    def policy(_obs: Any, multipliers: Any) -> int:
        # A policy may look at its own agent, and change what is required.
        agent.requirements["x"] = 0.75
        return len(agent.multipliers) + len(multipliers)

    agent = acrl.Agent(policy, acrl.at_least("x", 0.5), epoch=2)
    assert agent.act(None) == 2
    agent.observe([Curious(agent)])  # type: ignore[list-item]
    agent.observe({"x": Curious(agent)})  # type: ignore[arg-type]
    assert agent.steps == 4
    assert agent.requirements["x"].bound == 0.75


class Broken:
    """A number that fails, and not with a TypeError."""

    def __float__(self) -> float:
        raise RuntimeError("broken")


def test_exceptions_of_user_code_propagate() -> None:
    def policy(_obs: Any, _multipliers: Any) -> int:
        raise RuntimeError("no idea")

    agent = acrl.Agent(policy, acrl.at_least("x", 0.5))
    with pytest.raises(RuntimeError, match="no idea"):
        agent.act(None)
    with pytest.raises(RuntimeError, match="broken"):
        agent.observe([Broken()])  # type: ignore[list-item]
    agent.observe([1.0])
    assert agent.steps == 1


class Learner:
    """Has a predict without multipliers."""

    def predict(self, obs: Any) -> Any:
        return obs


@pytest.mark.parametrize("thing", [None, 3, "policy.safetensors", Learner(), [1, 2], np.zeros(3), object()])
def test_objects_without_act_or_predict_are_refused(thing: Any) -> None:
    with pytest.raises(acrl.InputError, match=r"the policy is .*, expected a callable policy\(obs, multipliers\)"):
        acrl.Agent(thing, acrl.at_least("x", 0.5))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_policy_is_independent_of_its_file(data: Path, tmp_path: Path, again: Callable[[Any], Any]) -> None:
    path = tmp_path / "policy.safetensors"
    path.write_bytes((data / "wireless.safetensors").read_bytes())
    policy = acrl.Policy.load(path, seed=3)
    seen = np.random.default_rng(0).uniform(0, 2, size=(50, 3))
    drawn = policy.predict(seen, np.ones(4), deterministic=False)
    path.write_bytes(b"something else")
    other = again(policy)
    path.unlink()
    second = again(other)
    for each in [other, second]:
        assert each.requirements == policy.requirements
        assert each.init_multipliers() == policy.init_multipliers()
        assert each.execution_defaults == policy.execution_defaults
        assert repr(each) == repr(policy)
        assert each.predict(seen, np.ones(4)).tolist() == policy.predict(seen, np.ones(4)).tolist()
    # Drawn actions go on where they were.
    expected = policy.predict(seen, np.ones(4), deterministic=False).tolist()
    assert expected != drawn.tolist()
    assert other.predict(seen, np.ones(4), deterministic=False).tolist() == expected
    assert second.predict(seen, np.ones(4), deterministic=False).tolist() == expected


def test_a_damaged_pickle_is_refused(policy: acrl.Policy) -> None:
    content = policy._file.to_bytes()
    for damaged, rng, message in [
        (content[:-1], policy._file.rng, "cut short"),
        (content[:-1] + bytes([content[-1] ^ 1]), policy._file.rng, "damaged"),
        (content, "{}", "the generator's state cannot be read"),
    ]:
        with pytest.raises(acrl.Error, match=message):
            acrl._acrl.PolicyFile.from_bytes(damaged, "policy.safetensors", rng)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_model_is_pickled(again: Callable[[Any], Any]) -> None:
    # Not every state has every action, and the columns of those that it has count.
    transitions = np.array([[[0, 0], [0.5, 0.5], [0, 1]], [[0, 1], [0, 0], [1, 0]]], dtype=float)
    rewards: dict[str, Any] = {"a": np.array([[9, 1, 2], [3, 9, 4]]), "b": [0.5, 1.5]}
    for model in [MODEL, acrl.FiniteModel(transitions, rewards, initial=1)]:
        other = again(model)
        assert repr(other) == repr(model)
        for objective, bound in [("a", 0.4), ("b", 0.1)]:
            required = acrl.at_least("b" if objective == "a" else "a", bound)
            expected, found = (acrl.solve(m, objective=objective, requirements=[required]) for m in (model, other))
            assert found.objective == pytest.approx(expected.objective, abs=1e-12)
            assert [c.actions.tolist() for c in found.mixture] == [c.actions.tolist() for c in expected.mixture]


def test_an_interpreter_that_ends_amid_calls(data: Path) -> None:
    """Threads that are still computing when the interpreter goes away do not bring it down."""
    text = f"""
import threading, acrl, numpy as np
policy = acrl.Policy.load({str(data / "wireless.safetensors")!r})
agent = acrl.Agent(policy)
def busy():
    while True:
        policy.predict(np.ones((5000, 3)), np.ones(4))
        agent.act(np.ones(3)); agent.observe(np.zeros(4))
for _ in range(3):
    threading.Thread(target=busy, daemon=True).start()
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
