"""The augmented environment: Algorithm 1 with any learner."""

import pickle
import subprocess
import sys
from itertools import pairwise
from typing import Any

import acrl
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env


class Line(gymnasium.Env[Any, Any]):
    """A walk on -2 … 2 whose step returns what it is told to."""

    def __init__(self, kind: str = "info", space: spaces.Space[Any] | None = None) -> None:
        self.kind = kind
        self.observation_space = space or spaces.Box(-2.0, 2.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.x = 0

    def _seen(self) -> Any:
        if isinstance(self.observation_space, spaces.Box):
            return np.full(self.observation_space.shape, self.x, self.observation_space.dtype)
        if isinstance(self.observation_space, spaces.Discrete):
            return np.int64(self.x + 2)
        return {"x": np.array([self.x], np.float32), "end": int(abs(self.x) == 2)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.x = int(self.np_random.integers(-2, 3))
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.x = int(np.clip(self.x + (1 if action else -1), -2, 2))
        left, right = float(self.x < 0), float(self.x > 0)
        if self.kind == "vector":
            return self._seen(), np.array([left, right]), False, False, {}
        if self.kind == "six":
            return self._seen(), left, right, False, False, {}
        cost = {"info": right, "costs": np.array([right, 2.0]), "bad": float("nan")}[self.kind]
        return self._seen(), left, False, False, {"cost": cost, "energy": 3.0}


TASK: dict[str, Any] = {"objective": "reward", "requirements": acrl.at_most("cost", 0.2)}


def step(env: acrl.AugmentedEnv, weights: list[float], start: int = 0) -> tuple[float, dict[str, Any]]:
    env.reset(seed=0, options={"weights": weights})
    unwrapped: Any = env.unwrapped
    unwrapped.x = start
    obs, reward, _, _, info = env.step(1)
    assert env.observation_space.contains(obs)
    assert obs[-len(weights) :] == pytest.approx(weights)
    return reward, info


@pytest.mark.parametrize("kind", ["info", "six"])
def test_reward_and_cost(kind: str) -> None:
    env = acrl.AugmentedEnv(Line(kind), **TASK)
    reward, info = step(env, [0.25, 0.75])
    assert reward == -0.75  # to the right: a cost of 1, which is to be low
    assert info["rewards"] == {"reward": 0.0, "cost": 1.0}
    assert info["weights"].tolist() == [0.25, 0.75]
    assert step(env, [0.25, 0.75], start=-2)[0] == 0.25


def test_vector_rewards_and_costs_and_infos() -> None:
    vector = acrl.AugmentedEnv(
        Line("vector"), requirements=[acrl.at_least("l", 0.3), acrl.at_least("r", 0.3)], rewards=["l", "r"]
    )
    assert step(vector, [0.25, 0.75])[0] == 0.75
    costs = acrl.AugmentedEnv(
        Line("costs"), objective="reward", requirements=[acrl.at_most("cost1", 1.0), acrl.at_most("energy", 1.0)]
    )
    assert step(costs, [0.5, 0.25, 0.25])[0] == -0.25 * 2 - 0.25 * 3


def test_a_function_of_the_users() -> None:
    def rewards(obs: Any, action: Any, reward: Any, info: dict[str, Any]) -> dict[str, float]:
        return {"x": float(obs[0]), "a": float(action), "r": reward, "e": info["energy"]}

    env = acrl.AugmentedEnv(Line(), objective=acrl.minimize("e"), requirements=acrl.at_least("x", 0.0), rewards=rewards)
    assert step(env, [0.5, 0.5])[0] == 0.5 * 1 - 0.5 * 3


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")  # which is what is to be checked
@pytest.mark.parametrize(
    ("space", "width"),
    [
        (None, 3),
        (spaces.Discrete(5), 7),
        (spaces.Box(-2, 2, (2, 2), np.int64), 6),
        (spaces.Dict({"x": spaces.Box(-2.0, 2.0, (1,), np.float32), "end": spaces.Discrete(2)}), 5),
    ],
)
def test_observations_are_flattened_and_the_environment_conforms(space: Any, width: int) -> None:
    env = acrl.AugmentedEnv(Line(space=space), **TASK)
    assert env.observation_space.shape == (width,)
    check_env(env, skip_render_check=True)
    unwrapped: Any = env.unwrapped
    seen = env.augment(unwrapped._seen(), {"cost": 3.0})
    assert env.observation_space.contains(seen)
    assert seen[-2:].tolist() == [0.25, 0.75]


def test_weights_are_drawn_by_seed_at_reset_and_on_the_way() -> None:
    env = acrl.AugmentedEnv(Line(), **TASK, every=3)
    first = [env.reset(seed=7)[0].tolist(), *(env.step(0)[0].tolist() for _ in range(10))]
    again = [env.reset(seed=7)[0].tolist(), *(env.step(0)[0].tolist() for _ in range(10))]
    assert first == again
    changes = [a[1:] != b[1:] for a, b in pairwise(first)]
    assert changes == [False, False, True] * 3 + [False]
    assert env.reset()[0].tolist() != env.reset()[0].tolist()


def test_samplers_cover_the_simplex_and_its_faces() -> None:
    for sampler, least, most in [("simplex", 0.0, 0.0), ("corners", 0.4, 0.6)]:
        env = acrl.AugmentedEnv(
            Line(),
            requirements=[acrl.at_least(n, 0) for n in "abc"],
            sampler=sampler,  # type: ignore[arg-type]
        )
        env.reset(seed=0)
        drawn = np.array([env.reset()[1]["weights"] for _ in range(2000)])
        assert drawn.sum(axis=1) == pytest.approx(1.0)
        assert drawn.mean(axis=0) == pytest.approx(1 / 3, abs=0.03)
        assert least <= (drawn.min(axis=1) == 0).mean() <= most


def test_bad_settings_are_refused() -> None:
    changes: list[tuple[dict[str, Any], str]] = [
        ({"sampler": "all"}, "the sampler is 'all'"),
        ({"every": 0}, "every is 0"),
        ({"rewards": "reward"}, "rewards is 'reward'"),
        ({"objective": None, "requirements": []}, "nothing to achieve"),
    ]
    for change, message in changes:
        with pytest.raises(acrl.InputError, match=message):
            acrl.AugmentedEnv(Line(), **{**TASK, **change})
    env = acrl.AugmentedEnv(Line(), **TASK)
    for weights, message in [([1.0], "expected"), ([-1.0, 2.0], "nonnegative"), ([0.0, 0.0], "not all 0")]:
        with pytest.raises(acrl.InputError, match=message):
            env.reset(options={"weights": weights})
    with pytest.raises(acrl.InputError, match="multipliers: expected 1 numbers, found 2"):
        env.augment(np.zeros(1), [1.0, 2.0])


def test_bad_rewards_are_refused() -> None:
    for kind, options, message in [
        ("bad", TASK, "the reward 'cost' must be a finite number, but it is nan"),
        ("vector", TASK, r"the reward has shape \(2,\): name its components"),
        ("vector", {**TASK, "rewards": ["a"]}, "expected one number for each of"),
        ("info", {"requirements": acrl.at_least("speed", 1)}, "gave no reward 'speed': it gave reward, cost"),
    ]:
        env = acrl.AugmentedEnv(Line(kind), **options)
        env.reset(seed=0)
        with pytest.raises(acrl.InputError, match=message):
            env.step(0)


def test_rewards_are_weighted_in_units_of_their_ranges() -> None:
    env = acrl.AugmentedEnv(Line(), **TASK, scales={"cost": 0.5, "reward": 2.0})
    assert step(env, [0.25, 0.75])[0] == -0.75 / 0.5
    assert step(env, [0.25, 0.75], start=-2)[0] == 0.25 / 2
    # (R0, λ R) = (2, 4·0.5)
    assert env.augment(np.zeros(1), [4.0])[1:].tolist() == [0.5, 0.5]
    alone = acrl.AugmentedEnv(
        Line(), requirements=[acrl.at_least("reward", 0), acrl.at_most("cost", 0)], scales={"cost": 3.0}
    )
    assert alone.augment(np.zeros(1), [1.0, 1.0])[1:].tolist() == [0.25, 0.75]
    with pytest.raises(acrl.UnknownNameError, match="unknown reward 'speed'"):
        acrl.AugmentedEnv(Line(), **TASK, scales={"speed": 1.0})
    with pytest.raises(acrl.InputError, match="the scale of 'cost' is 0"):
        acrl.AugmentedEnv(Line(), **TASK, scales={"cost": 0.0})


def test_a_good_environment_passes_the_check() -> None:
    report = acrl.check_env(Line(), **TASK, steps=200)
    assert report.ranges == {"reward": (0.0, 1.0), "cost": (0.0, 1.0)}
    assert report.scales == {"reward": 1.0, "cost": 1.0}
    assert 0 < report.averages["cost"] < 1
    assert (report.steps, report.episodes, report.remarks) == (200, 1, ())
    hard = acrl.check_env(Line(), requirements=acrl.at_least("e", 4, reward="energy"))
    assert hard.scales == {"energy": 1.0}
    assert hard.remarks == (
        "the reward 'energy' was 3.0 at every step",
        "acrl.at_least('e', 4.0, reward='energy') was out of reach: the best of any step was 3.0",
    )


class Moody(Line):
    """Does not repeat itself."""

    visits = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.visits += 1
        self.x = self.visits % 3
        return self._seen(), {}


class Wide(Line):
    """Leaves its observation space."""

    def _seen(self) -> Any:
        return np.array([3.0], np.float32)


def test_bad_environments_fail_the_check() -> None:
    for env, options, message in [
        (Moody(), TASK, "after the same seed and actions the observation of step 0 is another one"),
        (Wide(), TASK, "the observation of step 0, .* is outside the observation space"),
        (Line("bad"), TASK, "the reward 'cost' must be a finite number"),
        (Line(), {**TASK, "steps": 0}, "steps is 0"),
    ]:
        with pytest.raises(acrl.InputError, match=message):
            acrl.check_env(env, **options)


def test_it_can_be_pickled() -> None:
    env = acrl.AugmentedEnv(Line(), **TASK)
    env.reset(seed=3)
    other = pickle.loads(pickle.dumps(env))
    assert env.step(1)[:2][0].tolist() == other.step(1)[0].tolist()
    assert env.reset()[0].tolist() == other.reset()[0].tolist()


def test_the_package_works_without_gymnasium() -> None:
    program = """
import sys
sys.modules["gymnasium"] = None
import acrl
from acrl import *
assert acrl.solve("monitoring").feasible
try:
    acrl.AugmentedEnv
except ImportError as error:
    assert "pip install 'acrl[gymnasium]'" in str(error)
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
