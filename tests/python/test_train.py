"""Training in Gymnasium environments: results, resume, errors."""

from __future__ import annotations

import functools
import itertools
import json
import os
import pickle
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import acrl
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces


class Fields(gymnasium.Env[Any, Any]):
    """A row of five fields. Field 0 is red, field 4 is blue; being there pays. It ends by chance, or after 50 steps."""

    def __init__(self, kind: str = "box") -> None:
        self.kind = kind
        self.observation_space = {
            "box": spaces.Box(-np.inf, np.inf, (1,), np.float32),
            "discrete": spaces.Discrete(5, start=1),
            "dict": spaces.Dict({"at": spaces.Discrete(5), "clock": spaces.Box(0.0, 50.0, (1,))}),
            "tuple": spaces.Tuple((spaces.MultiBinary(5), spaces.Box(0.0, 1.0, (2, 1)))),
        }[kind]
        self.action_space = {
            "box": spaces.Discrete(2),
            "discrete": spaces.Box(-1.0, 1.0, (1,)),
            "dict": spaces.MultiDiscrete([2, 3]),
            "tuple": spaces.Dict({"move": spaces.Discrete(2), "idle": spaces.Box(-2.0, 2.0, (2,))}),
        }[kind]
        self.at = self.clock = 0

    def seen(self) -> Any:
        return {
            "box": np.array([100.0 * self.at], dtype=np.float32),
            "discrete": self.at + 1,
            "dict": {"at": self.at, "clock": np.array([self.clock], dtype=np.float32)},
            "tuple": (np.eye(5, dtype=np.int8)[self.at], np.zeros((2, 1), dtype=np.float32)),
        }[self.kind]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.at, self.clock = int(self.np_random.integers(5)), 0
        return self.seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        move = {
            "box": lambda a: a == 1,
            "discrete": lambda a: a[0] > 0,
            "dict": lambda a: a[0] == 1,
            "tuple": lambda a: a["move"] == 1,
        }[self.kind](action)
        self.at = int(np.clip(self.at + (1 if move else -1), 0, 4))
        self.clock += 1
        info = {"red": float(self.at == 0), "blue": float(self.at == 4)}
        return self.seen(), 0.0, bool(self.np_random.random() < 0.01), self.clock >= 50, info


WANTED = [acrl.at_least("red", 0.3), acrl.at_least("blue", 0.3)]


def run(policy: acrl.Policy, kind: str, requirements: list[acrl.Requirement], steps: int) -> acrl.Agent:
    env, agent = Fields(kind), acrl.Agent(policy, requirements)
    obs, _ = env.reset(seed=77)
    for _ in range(steps):
        obs, _, terminated, truncated, info = env.step(agent.act(obs))
        agent.observe(info)
        if terminated or truncated:
            obs, _ = env.reset()
    return agent


@pytest.mark.parametrize("kind", ["box", "discrete", "dict", "tuple"])
def test_one_policy_meets_original_and_changed_bounds_in_all_spaces(kind: str, tmp_path: Path) -> None:
    policy = acrl.train(lambda: Fields(kind), requirements=WANTED, total_steps=60_000, seed=1)
    agent = run(policy, kind, WANTED, 20_000)
    assert all(found.met for found in agent.certificate.values()), agent.certificate
    policy.save(tmp_path / "policy.safetensors")
    for again in (acrl.Policy.load(tmp_path / "policy.safetensors"), pickle.loads(pickle.dumps(policy))):
        changed = [acrl.at_least("red", 0.1), acrl.at_least("blue", 0.6)]
        agent = run(again, kind, changed, 20_000)
        assert all(found.met for found in agent.certificate.values()), agent.certificate
    # A batch is what its members are.
    env = Fields(kind)
    first, second = env.reset(seed=1)[0], env.reset(seed=2)[0]
    empty: Any = gymnasium.vector.utils.create_empty_array(env.observation_space, 2)
    batch = gymnasium.vector.utils.concatenate(env.observation_space, [first, second], empty)
    together = policy.predict(batch, [1.0, 0.5], deterministic=True)
    space = gymnasium.vector.utils.batch_space(env.action_space, 2)
    _, each = gymnasium.vector.utils.iterate(space, together)
    alone = policy.predict(second, [1.0, 0.5], deterministic=True)
    assert _flat(each) == pytest.approx(_flat(alone), abs=1e-6)


def test_discounted_criterion_meets_requirements() -> None:
    discounted = acrl.train(
        Fields,
        requirements=WANTED,
        learner="ppo",
        total_steps=60_000,
        seed=1,
        settings={"criterion": "discounted"},
    )
    agent = run(discounted, "box", WANTED, 20_000)
    assert all(found.met for found in agent.certificate.values()), agent.certificate
    wrong: Any = {"criterion": "median"}
    with pytest.raises(acrl.InputError, match="the setting 'criterion' is \"median\", expected one of"):
        acrl.train(Fields, requirements=WANTED, learner="ppo", total_steps=2048, settings=wrong)


def test_settings_and_their_defaults_match_the_learner() -> None:
    table = dict(re.findall(r"^ *\| (\w+) \| ([^|]+) \|", acrl.Settings.__doc__ or "", re.MULTILINE))
    defaults = json.loads(acrl._acrl.default_settings("ppo", 16, 2048))
    # Arguments of acrl.train, and one that environments of Python do not have.
    arguments = {"num_envs": 16, "total_steps": 2048, "action_repeat": 1}
    assert {name: defaults.pop(name) for name in arguments} == arguments
    assert set(defaults) == set(acrl.Settings.__annotations__)
    assert defaults.pop("n_steps") == 2048 // 16
    for name, value in defaults.items():
        assert json.loads(table[name]) == value, name


def _flat(action: Any) -> list[float]:
    parts = list(action.values()) if isinstance(action, dict) else [action]
    return [float(x) for part in parts for x in np.asarray(part).reshape(-1)]


def test_same_seed_gives_same_policy_and_events() -> None:
    def trained(seed: int) -> tuple[acrl.Policy, list[acrl.Iteration]]:
        events: list[acrl.Iteration] = []
        policy = acrl.train(
            Fields(), requirements=WANTED, learner="ppo", total_steps=8192, seed=seed, callback=events.append
        )
        return policy, events

    (one, told), (same, again), (other, _) = trained(5), trained(5), trained(6)
    assert one._file.to_bytes() == same._file.to_bytes() != other._file.to_bytes()
    assert [event.metrics for event in told] == [event.metrics for event in again]
    assert [event.iteration for event in told] == [1, 2, 3, 4]
    assert told[-1].total == 4
    assert told[-1].steps == 5 * 2048, "the first rollout is only measured"
    assert {"rollout/scalarized_reward", "rollout/min_objective_progress"} <= set(told[0].metrics)


def test_callback_stops_the_training() -> None:
    seen: list[int] = []

    def stop(event: acrl.Iteration) -> bool:
        seen.append(event.iteration)
        return event.iteration < 2

    policy = acrl.train(Fields(), requirements=WANTED, total_steps=50_000, callback=stop)
    assert seen == [1, 2]
    assert policy.predict([0.0], [1.0, 1.0]) in (0, 1)


def test_resumed_training_is_bit_identical(tmp_path: Path) -> None:
    def training(folder: Path, if_exists: Any = "error") -> acrl.Training:
        return acrl.Training(
            Fields,
            requirements=WANTED,
            learner="ppo",
            total_steps=5 * 2048,
            seed=3,
            out_dir=folder,
            if_exists=if_exists,
        )

    straight = training(tmp_path / "straight")
    metrics = [event.metrics for event in straight]
    whole = straight.policy()._file.to_bytes()
    straight.close()
    with training(tmp_path / "parts") as first:
        for event in first:
            if event.iteration == 2:
                first.save_checkpoint()
                break
    with training(tmp_path / "parts", "resume") as second:
        assert second.iteration == 2
        assert [event.metrics for event in second] == metrics[2:]
        assert second.policy()._file.to_bytes() == whole
    lines = (tmp_path / "parts" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["data"]["iteration"] for line in lines] == [1, 2, 3, 4, 5]
    assert len((tmp_path / "parts" / "progress.csv").read_text().splitlines()) == 6
    assert list((tmp_path / "parts").glob("events.out.tfevents.*"))
    # A folder in use and another problem are refused.
    with pytest.raises(acrl.FileError, match="parts"):
        training(tmp_path / "parts")
    with pytest.raises(acrl.InputError, match="other requirements"):
        acrl.Training(
            Fields,
            requirements=[acrl.at_least("red", 0.5), acrl.at_least("blue", 0.3)],
            learner="ppo",
            total_steps=5 * 2048,
            seed=3,
            out_dir=tmp_path / "parts",
            if_exists="resume",
        )
    with pytest.raises(acrl.FileError, match="nothing"):
        training(tmp_path / "nothing", "resume")


class Unpickled(Fields):
    """One that cannot be stored."""

    def __reduce__(self) -> Any:
        raise TypeError("no")


def test_unpicklable_environments_restart_their_episodes_on_resume(tmp_path: Path) -> None:
    def training(if_exists: Any) -> acrl.Training:
        return acrl.Training(
            Unpickled,
            requirements=WANTED,
            learner="ppo",
            total_steps=3 * 2048,
            out_dir=tmp_path / "run",
            if_exists=if_exists,
        )

    with training("error") as first:
        next(iter(first))
    with training("resume") as second:
        assert [event.iteration for event in second] == [2, 3]


@pytest.fixture
def listening() -> Iterator[None]:
    """Ctrl-C as Python has it by default; who is started in the background may be told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_ctrl_c_leaves_a_checkpoint(tmp_path: Path) -> None:
    def interrupt(event: acrl.Iteration) -> None:
        if event.iteration == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        acrl.train(
            Fields,
            requirements=WANTED,
            total_steps=50 * 2048,
            out_dir=tmp_path,
            callback=interrupt,
            checkpoint_every=1e9,
        )
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with acrl.Training(
        Fields, requirements=WANTED, total_steps=50 * 2048, out_dir=tmp_path, if_exists="resume"
    ) as resumed:
        assert resumed.iteration == 4, "the iteration that was under way is finished first"


def test_a_forked_process_trains_too() -> None:
    acrl.train(Fields, requirements=WANTED, total_steps=2048)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            acrl.train(Fields, requirements=WANTED, total_steps=2048)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


class Broken(Fields):
    """Goes wrong in the 40th step."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.steps = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        self.steps += 1
        if self.steps == 40:
            if self.how == "raises":
                raise RuntimeError("the motor is on fire")
            if self.how == "reward":
                info["red"] = float("nan")
            if self.how == "observation":
                obs = np.array([np.inf], dtype=np.float32)
        return obs, reward, terminated, truncated, info


def test_failing_environment_is_reported_with_its_step() -> None:
    for how, error, text in [
        ("raises", RuntimeError, "the motor is on fire"),
        ("reward", acrl.InputError, "'red'.*nan"),
        ("observation", acrl.InputError, "inf"),
    ]:
        with pytest.raises(error, match=text):
            acrl.train(lambda how=how: Broken(how), requirements=WANTED, total_steps=4096)  # type: ignore[misc]


def test_bad_training_arguments_are_refused() -> None:
    def wrong(error: type[Exception], text: str, env: Any = Fields, **changed: Any) -> None:
        given: dict[str, Any] = {"requirements": WANTED, "total_steps": 2048, **changed}
        with pytest.raises(error, match=text):
            acrl.train(env, **given)

    wrong(acrl.InputError, "no environment", env=3)
    wrong(acrl.InputError, "there is no environment", env="NoSuchThing-v0")
    wrong(acrl.UnknownNameError, "'green'", requirements=acrl.at_least("green", 0.1))
    wrong(acrl.InputError, "nothing to achieve", requirements=[])
    wrong(acrl.InputError, "total_steps is 0", total_steps=0)
    wrong(acrl.InputError, "seed is -1", seed=-1)
    wrong(acrl.InputError, "num_envs is 0", num_envs=0)
    wrong(acrl.UnknownNameError, "scales: unknown reward 'green'", scales={"green": 1.0})
    wrong(acrl.InputError, "scale of 'red' is nan", scales={"red": float("nan")})
    wrong(acrl.InputError, "expected the name of the learner whose setting 'gamma' is", settings={"gamma": 0.9})
    wrong(acrl.UnknownNameError, "settings: unknown 'lr'", learner="ppo", settings={"lr": 0.1})
    wrong(acrl.InputError, "'gamma' is 1.5", learner="ppo", settings={"gamma": 1.5})
    wrong(acrl.InputError, "'hidden_sizes' is \"64\", expected a list", learner="ppo", settings={"hidden_sizes": "64"})
    wrong(acrl.InputError, "'resume'", if_exists="append")
    wrong(acrl.InputError, "without out_dir", if_exists="resume")


def test_observations_of_another_shape_are_refused() -> None:
    policy = acrl.train(Fields, requirements=WANTED, total_steps=2048)
    for obs in ([1.0, 2.0], [[[1.0]]], ["a"], None):
        with pytest.raises(acrl.InputError):
            policy.predict(obs, [1.0, 1.0])
        with pytest.raises(acrl.InputError):
            acrl.Agent(policy).act(obs)


def test_training_with_next_step_autoreset() -> None:
    envs = gymnasium.vector.SyncVectorEnv([Fields for _ in range(8)])
    policy = acrl.train(envs, requirements=WANTED, total_steps=60_000, seed=2)
    agent = run(policy, "box", WANTED, 20_000)
    assert all(found.met for found in agent.certificate.values()), agent.certificate


def test_run_in_an_environment_has_the_fields_of_the_program(tmp_path: Path) -> None:
    policy = short_policy()
    found = acrl.run(policy, env=Fields, steps=5_000, runs=3, seed=4)
    assert (found.steps, found.runs, found.seed) == (5_000, 3, 4)
    assert found.met == all(each.met for each in found.requirements.values())
    assert found.history is not None
    assert found.history.steps[-1] == 5_000
    for name, each in found.requirements.items():
        least, most = found.history.averages[name][-1, 1:]
        assert least == pytest.approx(each.worst)
        assert least <= each.average <= most
        assert found.multipliers[name].min <= found.multipliers[name].mean <= found.multipliers[name].max
    assert found.averages["truncated"] == pytest.approx(found.history.objective[-1, 0])  # type: ignore[index]
    assert found == acrl.run(policy, env=Fields, steps=5_000, runs=3, seed=4)
    assert found.objective is not None
    assert found.objective.estimate is not None
    assert found.objective.gap is not None
    assert found.coverage is not None
    assert found.policy is not None
    assert found.policy["complete"]
    changed = acrl.run(policy, env=Fields(), requirements=acrl.at_least("red", 0.9), steps=2_000)
    assert not changed
    assert changed.requirements["red"].bound == 0.9
    assert changed.diagnosis.verdict != "met"
    assert "red" in changed.diagnosis.sentence
    page = found.save_report(tmp_path / "run.html")
    assert "blue" in page.read_text()
    done = json.loads((found.save_report(tmp_path / "run").parent / "report.json").read_text("utf-8"))
    assert done["command"] == "acrl.run('a policy', steps=5000, runs=3, seed=4)"
    with pytest.raises(acrl.InputError, match="env="):
        acrl.run(policy)
    with pytest.raises(acrl.InputError, match="has 4 numbers"):
        acrl.run(policy, env="CartPole-v1", rewards=lambda *_: {"red": 0, "blue": 0}, steps=10)
    policy.save(tmp_path / "policy.safetensors")
    with pytest.raises(acrl.Error, match="outside of this program"):
        acrl.run(tmp_path / "policy.safetensors", steps=10)


@pytest.mark.parametrize("epoch", [20, "auto"])
@pytest.mark.parametrize("bound", [0.3, 0.9])
def test_agent_gives_the_results_of_a_run_in_the_same_environment(epoch: Any, bound: float) -> None:
    policy = short_policy()
    asked, steps = acrl.at_least("red", bound), 16_384
    found = acrl.run(policy, env=Fields, requirements=asked, steps=steps, seed=4, epoch=epoch)
    # With an objective, the initial epoch is proportional to the steps.
    start = max(1, int(policy.execution_defaults.epoch * steps / 200_000))
    agent = acrl.Agent(policy, asked, epoch=epoch, epoch_start=None if epoch == 20 else start)
    env = Fields()
    obs, _ = env.reset(seed=4)
    for _ in range(steps):
        obs, _, terminated, truncated, info = env.step(agent.act(obs))
        agent.observe({**info, "truncated": float(truncated)})
        if terminated or truncated:
            obs, _ = env.reset()
    assert found.averages == agent.averages
    assert {name: each.last for name, each in found.multipliers.items()} == agent.multipliers
    assert found.epoch == agent.epoch
    assert (found.runs_on_library == 1) == (agent.executor == "library")
    assert (found.diagnosis.verdict, found.diagnosis.names) == (agent.diagnosis.verdict, agent.diagnosis.names)
    for name, each in found.requirements.items():
        certificate = agent.certificate[name]
        assert (each.average, each.certified_shortfall, each.met) == (
            certificate.average,
            certificate.certified_shortfall,
            certificate.met,
        )


@functools.cache
def short_policy() -> acrl.Policy:
    objective = acrl.minimize("truncated")
    return acrl.train(Fields, requirements=WANTED, objective=objective, learner="ppo", total_steps=30_000, seed=1)


Learner = Literal["auto", "ppo", "sac", "tabular"]


@pytest.mark.parametrize(
    ("learner", "chosen", "kind", "steps"),
    [
        ("sac", "sac", "discrete", 6000),
        ("sac", "sac", "box", 6000),
        ("tabular", "tabular", "box", 4096),
        ("auto", "tabular", "box", 4096),
        ("auto", "ppo", "tuple", 60_000),
    ],
)
def test_off_policy_and_tabular_learners_meet_original_and_changed_bounds(
    learner: Learner, chosen: str, kind: str, steps: int, tmp_path: Path
) -> None:
    trained = acrl.train(lambda: Fields(kind), requirements=WANTED, learner=learner, total_steps=steps, seed=1)
    trained.save(tmp_path / "policy.safetensors")
    policy = acrl.Policy.load(tmp_path / "policy.safetensors")
    assert policy._file.training[0] == chosen
    for requirements in (WANTED, [acrl.at_least("red", 0.1), acrl.at_least("blue", 0.4)]):
        agent = run(policy, kind, requirements, 20_000)
        assert all(found.met for found in agent.certificate.values()), agent.certificate
    assert acrl.run(policy, env=Fields(kind), steps=20_000, seed=3)


@pytest.mark.parametrize(("learner", "total"), [("sac", 4000), ("tabular", 4096), ("auto", 4096)])
def test_resumed_training_of_each_learner_is_bit_identical(learner: Learner, total: int, tmp_path: Path) -> None:
    def training(folder: Path, if_exists: Any = "error") -> acrl.Training:
        return acrl.Training(
            Fields,
            requirements=WANTED,
            learner=learner,
            total_steps=total,
            seed=3,
            out_dir=folder,
            if_exists=if_exists,
            checkpoint_every=0,
        )

    with training(tmp_path / "straight") as straight:
        metrics = [event.metrics for event in straight]
        whole = straight.policy()._file.to_bytes()
    with training(tmp_path / "parts") as first:
        for event in itertools.islice(first, 2):
            last = event.iteration
    with training(tmp_path / "parts", "resume") as second:
        assert second.iteration == last
        assert [event.metrics for event in second] == metrics[last:]
        assert second.policy()._file.to_bytes() == whole


def test_learner_that_does_not_fit_is_refused_with_the_reason() -> None:
    def wrong(text: str, kind: str = "box", **changed: Any) -> None:
        given: dict[str, Any] = {"requirements": WANTED, "total_steps": 2048, **changed}
        with pytest.raises((acrl.InputError, acrl.UnknownNameError), match=text):
            acrl.train(lambda: Fields(kind), **given)

    wrong('the learner is "dqn", expected one of auto, ppo, sac, tabular', learner="dqn")
    wrong("ppo", kind="tuple", learner="sac")
    wrong("discrete actions", kind="discrete", learner="tabular")
    wrong("settings: unknown 'gae_lambda', expected .*tau", learner="sac", settings={"gae_lambda": 0.9})
    wrong("'tau' is 2.0", learner="sac", settings={"tau": 2.0})


def test_auto_says_which_learner_it_chose_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    training = acrl.Training(Fields, requirements=WANTED, total_steps=4096, progress=True)
    assert (training.learner, training.learner_reason) == ("tabular", None), "on trial"
    training.run()
    assert training.learner == "tabular"
    assert training.learner_reason == "observations recur: 5 distinct ones in 533 steps"
    told = capsys.readouterr().err
    assert "learner: tabular (observations recur" in told
    assert re.search(r"time: simulator \d+%, updates \d+%, acting \d+%", told), told
    shares = training.time_shares
    assert set(shares) == {"simulator", "updates", "acting"}
    assert sum(shares.values()) == pytest.approx(1.0)
    assert shares["simulator"] > 0.0
    named = acrl.Training(Fields, requirements=WANTED, total_steps=4096, learner="sac")
    assert (named.learner, named.learner_reason) == ("sac", None)
    assert acrl.Training(Fields, requirements=WANTED, num_envs=16).learner == "ppo"
