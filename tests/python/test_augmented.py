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
from gymnasium.vector import SyncVectorEnv

AUTORESET: Any = getattr(gymnasium.vector, "AutoresetMode", None)  # from Gymnasium 1.1 on
MODES = ["NEXT_STEP", "SAME_STEP", "DISABLED"] if AUTORESET else [None]


class Line(gymnasium.Env[Any, Any]):
    """A walk on -2 … 2 whose step has a configurable form."""

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


def test_rewards_from_a_user_function() -> None:
    seen = []

    def rewards(obs: Any, action: Any, next_obs: Any, reward: Any, info: dict[str, Any]) -> dict[str, float]:
        seen.append((float(obs[0]), float(next_obs[0]), reward))
        return {"x": float(next_obs[0]), "a": float(action), "e": info["energy"]}

    env = acrl.AugmentedEnv(
        Line(),
        objective=acrl.minimize("e"),
        requirements=[acrl.at_least("x", 0.0), acrl.at_most("cost", 1)],
        rewards=rewards,
    )
    assert step(env, [0.5, 0.25, 0.25])[0] == 0.25 * 1 - 0.5 * 3 - 0.25
    env.step(0)
    assert seen[1] == (1.0, 0.0, 0.0)
    vector = acrl.AugmentedEnv(Line(), requirements=acrl.at_least("reward1", 0), rewards=lambda *_: [1.0, 5.0])
    assert step(vector, [1.0])[0] == 5.0


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


def test_weights_are_sampled_by_seed_at_reset_and_every_n_steps() -> None:
    env = acrl.AugmentedEnv(Line(), **TASK, resample_every=3)
    first = [env.reset(seed=7)[0].tolist(), *(env.step(0)[0].tolist() for _ in range(10))]
    again = [env.reset(seed=7)[0].tolist(), *(env.step(0)[0].tolist() for _ in range(10))]
    assert first == again
    changes = [a[1:] != b[1:] for a, b in pairwise(first)]
    assert changes == [False, False, True] * 3 + [False]
    assert env.reset()[0].tolist() != env.reset()[0].tolist()


def test_weight_scale_multiplies_observed_weights() -> None:
    env = acrl.AugmentedEnv(Line(), **TASK, weight_scale=4.0)
    env.reset(seed=0, options={"weights": [0.25, 0.75]})
    seen, reward, _, _, info = env.step(1)
    assert env.observation_space.contains(seen)
    assert seen[1:].tolist() == [1.0, 3.0]
    assert info["weights"].tolist() == [0.25, 0.75]
    assert reward == 0.25 * info["rewards"]["reward"] - 0.75 * info["rewards"]["cost"]
    assert env.augment(np.zeros(1), [1.0])[1:].tolist() == [2.0, 2.0]
    envs = acrl.AugmentedVectorEnv(SyncVectorEnv([Line]), **TASK, weight_scale=4.0)
    assert envs.reset(options={"weights": [0.25, 0.75]})[0][0, 1:].tolist() == [1.0, 3.0]
    assert envs.augment(np.zeros((1, 1)), [1.0])[0, 1:].tolist() == [2.0, 2.0]


def test_samplers_cover_the_simplex_and_its_faces() -> None:
    for sampler, least, most in [("simplex", 0.0, 0.0), ("faces", 0.4, 0.6)]:
        env = acrl.AugmentedEnv(
            Line(),
            requirements=[acrl.at_least(n, 0) for n in "abc"],
            weight_sampler=sampler,  # type: ignore[arg-type]
        )
        env.reset(seed=0)
        drawn = np.array([env.reset()[1]["weights"] for _ in range(2000)])
        assert drawn.sum(axis=1) == pytest.approx(1.0)
        assert drawn.mean(axis=0) == pytest.approx(1 / 3, abs=0.03)
        assert least <= (drawn.min(axis=1) == 0).mean() <= most


def test_bad_settings_are_refused() -> None:
    changes: list[tuple[dict[str, Any], str]] = [
        ({"weight_sampler": "all"}, "weight_sampler is 'all'"),
        ({"resample_every": 0}, "resample_every is 0"),
        ({"weight_scale": 0.0}, "weight_scale is 0"),
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
        ("vector", TASK, "gave no reward 'reward': it gave reward0, reward1, term"),
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
    endless = "no episode ended in 200 steps: where there is no end, none is needed"
    assert (report.steps, report.episodes, report.remarks) == (200, 1, (endless,))
    hard = acrl.check_env(Line, requirements=acrl.at_least("e", 4, reward="energy"))
    assert hard.scales == {"energy": 1.0}
    assert hard.remarks[:2] == (
        "the reward 'energy' was 3.0 at every step",
        "acrl.at_least('e', 4.0, reward='energy') was out of reach: the best of any step was 3.0",
    )


class Moody(Line):
    """Is not reproducible."""

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
        (Wide(), TASK, "the observation of step 0 is outside the observation space: number 0 of it is 3.0"),
        (Line("bad"), TASK, "the reward 'cost' must be a finite number"),
        (Line(), {**TASK, "steps": 0}, "steps is 0"),
        (Line(), {"requirements": []}, "nothing to achieve"),
        (
            Line(),
            {"requirements": acrl.at_least("gold", 1)},
            "gave no reward 'gold': it gave reward, cost, energy, term",
        ),
        (Line("vector"), {**TASK, "rewards": ["a"]}, "expected one number for each of"),
        (Line(space=spaces.Text(3)), TASK, "the observation space cannot be used: .* is not supported"),
        (Line, {**TASK, "rewards": "all"}, "rewards is 'all'"),
        ("Nowhere-v0", TASK, "there is no environment 'Nowhere-v0'"),
        (7, TASK, "7 is no environment"),
    ]:
        with pytest.raises(acrl.InputError, match=message):
            acrl.check_env(env, **options)  # type: ignore[arg-type]


class Brief(Line):
    """Ends at once."""

    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        return obs, reward, True, False, info


def test_check_env_accepts_the_environments_of_training() -> None:
    brief = acrl.check_env(Brief, **TASK, steps=50)
    assert brief.episodes == 51
    assert brief.remarks == ("every episode ended in its first step: no action has an effect on later observations",)
    envs = SyncVectorEnv([Line, Line])
    report = acrl.check_env(envs, **TASK, steps=99)
    assert (report.steps, report.episodes) == (100, 2)
    assert report.ranges == {"reward": (0.0, 1.0), "cost": (0.0, 1.0)}
    assert acrl.check_env(lambda: envs, **TASK, steps=10).steps == 10  # type: ignore[arg-type, return-value]
    named = acrl.check_env("CartPole-v1", requirements=acrl.at_most("falls", 0.1, reward="terminated"))
    assert named.ranges == {"terminated": (0.0, 1.0)}
    assert named.remarks == ()


class Ends(Line):
    """Ends in the second step, at the right."""

    t = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.t = self.x = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        obs, reward, _, _, info = super().step(action)
        self.t += 1
        return obs, reward, self.t == 2, False, info


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", [False, True])
def test_vector_environments(mode: Any, function: bool) -> None:
    options = {} if mode is None else {"autoreset_mode": AUTORESET[mode]}

    def rewards(obs: Any, action: Any, next_obs: Any, reward: Any, info: Any) -> Any:
        assert action.shape == reward.shape == (2,)
        assert isinstance(info, dict)
        return {"cost": np.where(next_obs[:, 0] > 0, 1.0, 0.0) + 0 * obs[:, 0]}

    envs = acrl.AugmentedVectorEnv(
        SyncVectorEnv([Ends, Ends], **options),
        **TASK,
        scales={"cost": 0.5},
        rewards=rewards if function else None,
    )
    assert envs.single_observation_space.shape == (3,)
    assert envs.observation_space.shape == (2, 3)
    obs, infos = envs.reset(seed=3)
    assert envs.observation_space.contains(obs)
    first = infos["weights"]
    assert obs[:, 1:] == pytest.approx(first)
    assert (envs.reset(seed=3)[0] == obs).all()
    assert (envs.reset(seed=4)[0] != obs).any()
    assert envs.reset(options={"weights": [3.0, 1.0]})[0][:, 1:].tolist() == [[0.75, 0.25]] * 2
    envs.reset(options={"weights": first})
    obs, reward, terminated, _, infos = envs.step(np.array([1, 0]))
    assert obs[:, 0].tolist() == [1, -1]
    assert reward == pytest.approx([-first[0, 1] / 0.5, first[1, 0]])
    assert infos["rewards"]["cost"].tolist() == [1, 0]
    assert infos["weights"] == pytest.approx(first)
    assert obs[:, 1:] == pytest.approx(first)
    obs, reward, terminated, _, infos = envs.step(np.array([1, 0]))
    assert terminated.tolist() == [True, True]
    assert reward == pytest.approx([-first[0, 1] / 0.5, first[1, 0]])
    if mode in (None, "SAME_STEP"):
        assert obs[:, 0].tolist() == [0, 0]
        assert (obs[:, 1:] != first.astype(np.float32)).all()
        final = infos["final_obs" if mode else "final_observation"]
        assert final[0].tolist() == pytest.approx([2.0, *first[0]])
        second = envs.weights
    elif mode == "NEXT_STEP":
        assert obs[:, 0].tolist() == [2, -2]
        assert obs[:, 1:] == pytest.approx(first)
        obs, reward, terminated, _, infos = envs.step(np.array([1, 0]))
        assert (reward.tolist(), terminated.tolist()) == ([0, 0], [False, False])
        assert infos["rewards"]["cost"].tolist() == [0, 0]
        assert obs[:, 0].tolist() == [0, 0]
        second = envs.weights
        assert (second != first).all()
    else:
        assert obs[:, 0].tolist() == [2, -2]
        obs, _ = envs.reset(options={"reset_mask": np.array([True, True])})
        second = envs.weights
    assert obs[:, 1:] == pytest.approx(second)
    obs, reward, terminated, _, infos = envs.step(np.array([1, 1]))
    assert reward == pytest.approx(-second[:, 1] / 0.5)
    # (R0, λ R) = (1, 4·0.5)
    assert envs.augment(np.zeros(1), [4.0]).tolist() == pytest.approx([0, 1 / 3, 2 / 3])
    assert envs.augment(np.zeros((2, 1)), {"cost": 4.0})[1].tolist() == pytest.approx([0, 1 / 3, 2 / 3])
    assert [requirement.name for requirement in envs.requirements] == ["cost"]
    envs.close()
    assert envs.closed


def test_vector_env_resamples_weights_every_n_steps() -> None:
    envs = acrl.AugmentedVectorEnv(SyncVectorEnv([Line, Line]), **TASK, resample_every=3)
    seen = [envs.reset(seed=7)[0], *(envs.step(np.array([0, 1]))[0] for _ in range(9))]
    changes = [(a[:, 1:] != b[:, 1:]).any(axis=1).tolist() for a, b in pairwise(seen)]
    assert changes == [[False] * 2, [False] * 2, [True] * 2] * 3
    again = [envs.reset(seed=7)[0], *(envs.step(np.array([0, 1]))[0] for _ in range(9))]
    assert all((a == b).all() for a, b in zip(seen, again, strict=True))
    assert (seen[-1][0, 1:] != seen[-1][1, 1:]).any()
    with pytest.raises(acrl.InputError, match="is no vector environment"):
        acrl.AugmentedVectorEnv(Line(), **TASK)  # type: ignore[arg-type]
    with pytest.raises(acrl.InputError, match=r"the weights have shape \(3,\), expected \(2,\) or \(2, 2\)"):
        envs.reset(options={"weights": [1, 1, 1]})


def test_augmented_env_can_be_pickled() -> None:
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
