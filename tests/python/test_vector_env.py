"""Batches of environments: spaces, rewards by name, ends of episodes, vector environments, bad ones."""

import json
import sys
import threading
from pathlib import Path
from typing import Any

import acrl
import gymnasium
import numpy as np
import pytest
from acrl._rewards import RewardReader, all_finite
from acrl._spaces import describe, from_description
from acrl._vector_env import EnvBatch
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

AUTORESET: Any = getattr(gymnasium.vector, "AutoresetMode", None)  # from Gymnasium 1.1 on
MODES = ["NEXT_STEP", "SAME_STEP", "DISABLED"] if AUTORESET else [None]

SPACES: list[spaces.Space[Any]] = [
    spaces.Box(-1.0, 2.0, (3,), np.float32),
    spaces.Box(np.array([0.0, -np.inf]), np.array([np.inf, 5.0]), dtype=np.float64),
    spaces.Box(-1.0, 1.0, (), np.float32),
    spaces.Box(0, 255, (2, 3), np.uint8),
    spaces.Box(-3, 3, (2,), np.int32),
    spaces.Discrete(4),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([2, 3, 4]),
    spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
    spaces.MultiBinary(3),
    spaces.MultiBinary([2, 2]),
    spaces.Dict({"z": spaces.Discrete(2), "a": spaces.Box(-1.0, 1.0, (2,)), "m": spaces.MultiBinary(2)}),
    spaces.Tuple([spaces.Discrete(3), spaces.Dict({"b": spaces.Box(0.0, 1.0, (2, 2))})]),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_encoding_matches_gymnasium_flatten(space: spaces.Space[Any]) -> None:
    space.seed(0)
    # By way of a file, as a policy keeps it.
    codec = from_description(json.loads(json.dumps(describe(space), allow_nan=False)))
    flat: Any = spaces.flatten_space(space)
    assert codec.ranges[:, 0].tolist() == pytest.approx(flat.low.reshape(-1).tolist())
    assert codec.ranges[:, 1].tolist() == pytest.approx(flat.high.reshape(-1).tolist())
    values = [space.sample() for _ in range(5)]
    rows = [np.asarray(spaces.flatten(space, value), dtype=np.float64).reshape(-1) for value in values]
    for value, row in zip(values, rows, strict=True):
        found = codec.encode(value)
        assert found.dtype == np.float64
        assert found.tolist() == row.tolist()
        assert codec.num_envs(value) is None
    batch = _batch(space, values)
    assert codec.encode_batch(batch).tolist() == np.stack(rows).tolist()
    assert codec.num_envs(batch) == 5


def _batch(space: spaces.Space[Any], values: list[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _batch(part, [value[key] for value in values]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_batch(part, [value[i] for value in values]) for i, part in enumerate(space.spaces))
    return np.stack([np.asarray(value) for value in values])


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_decoded_actions_are_in_the_space(space: spaces.Space[Any]) -> None:
    codec = from_description(describe(space))
    generator = np.random.default_rng(0)
    k = len(codec.parts)
    numbers = np.concatenate([generator.normal(0, 3, (20, k)), np.full((1, k), 1e300), np.full((1, k), -1e300)])
    actions = [codec.decode(row) for row in numbers]
    for action in actions:
        assert space.contains(action), action
    batch = _batch(space, actions)
    _assert_same(codec.decode_batch(numbers), batch)
    for action, row in zip(actions, codec.decode_rows(numbers), strict=True):
        assert space.contains(row)
        _assert_same(row, action)
    # What is in range stays what it is.
    inside = np.array([_inside(part) for part in codec.parts])
    again = codec.decode(inside)
    assert space.contains(again)
    if isinstance(space, spaces.Box):
        assert np.asarray(again).reshape(-1).tolist() == inside.astype(space.dtype).tolist()
    if isinstance(space, spaces.Discrete):
        assert again == space.start + inside[0]


def _inside(part: tuple[int | None, float, float]) -> float:
    count, low, high = part
    return float(high) if count is not None else float(np.clip(1.0, low, high))


def _assert_same(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            _assert_same(a[key], b[key])
    elif isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            _assert_same(x, y)
    else:
        assert a.dtype == b.dtype
        assert a.tolist() == b.tolist()


def test_bad_observations_and_descriptions_are_refused() -> None:
    box = from_description(describe(SPACES[0]))
    for value, message in [
        (np.zeros(2), r"shape \(2,\), expected \(3,\)"),
        (["a", "b", "c"], "numbers of type <U1"),
        (np.zeros((3, 1)), r"shape \(3, 1\)"),
    ]:
        with pytest.raises(acrl.InputError, match=message):
            box.encode(value)
    with pytest.raises(acrl.InputError, match=r"expected \(L, 3,\)"):
        box.encode_batch(np.zeros(3))
    with pytest.raises(acrl.InputError, match="an observation is 5, expected a choice from 0 to 3"):
        from_description(describe(spaces.Discrete(4))).encode(5)
    several = from_description(describe(SPACES[-2]))
    with pytest.raises(acrl.InputError, match="expected a dict with the key 'a'"):
        several.encode({"z": 1})
    with pytest.raises(acrl.InputError, match="expected a tuple of 2"):
        from_description(describe(SPACES[-1])).encode((1,))
    with pytest.raises(acrl.InputError, match="is not supported: expected Box, Discrete"):
        describe(spaces.Text(3))
    with pytest.raises(acrl.InputError, match="the kind of a space is 'sphere'"):
        from_description({"kind": "sphere"})
    with pytest.raises(acrl.InputError, match="cannot be read"):
        from_description({"kind": "box"})
    with pytest.raises(acrl.InputError, match="has 1 ends"):
        from_description({"kind": "box", "shape": [2], "dtype": "float32", "low": [0.0], "high": 1.0})


class Counter(gymnasium.Env[Any, Any]):
    """Counts its steps; ends after some. Its observation is the count in the episode, and the number of the episode."""

    def __init__(self, length: int = 3, kind: str = "scalar", ends: str = "terminated", shared: bool = False) -> None:
        self.observation_space = spaces.Box(-1.0, 100.0, (2,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.length, self.kind, self.ends = length, kind, ends
        self.t, self.episode = 0, -1
        self.shared = np.zeros(2) if shared else None
        self.first_seed: int | None = None

    def _seen(self) -> Any:
        seen = np.array([self.t, self.episode], np.float64)
        if self.shared is None:
            return seen
        self.shared[:] = seen  # one array for ever, as some environments do
        return self.shared

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.first_seed = seed
        self.t, self.episode = 0, self.episode + 1
        return self._seen(), {"cost": -5.0}

    def step(self, action: Any) -> Any:
        self.t += 1
        over = self.t >= self.length
        terminated, truncated = over and self.ends == "terminated", over and self.ends == "truncated"
        info: dict[str, Any] = {"cost": 10.0 * self.t, "speed": np.array([self.t, -self.t]), "name": "x"}
        if self.kind == "six":
            return self._seen(), 1.0, 7.0, terminated, truncated, {}
        if self.kind == "vector":
            return self._seen(), np.array([self.t, 2.0 * int(action)], np.float32), terminated, truncated, info
        if self.kind == "raises" and self.t == 2:
            raise RuntimeError("the motor is off")
        if self.kind == "nan":
            info["cost"] = float("nan")
        if self.kind == "four":
            return self._seen(), 1.0, over, info
        return self._seen(), float(self.t), terminated, truncated, info


def one(envs: EnvBatch) -> Any:
    return envs.step(np.zeros((len(envs), len(envs.parts))))


@pytest.mark.parametrize("ends", ["terminated", "truncated"])
def test_episodes_are_concatenated(ends: str) -> None:
    envs = EnvBatch(
        lambda: Counter(3, ends=ends, shared=True), ["reward", "cost", "terminated", "truncated"], num_envs=2
    )
    assert envs.reset().tolist() == [[0, 0], [0, 0]]
    first, second, third, fourth = one(envs), one(envs), one(envs), one(envs)
    assert first.final_observations is first.observations
    assert first.observations.tolist() == [[1, 0], [1, 0]]  # not changed by later steps
    assert second.rewards.tolist() == [[2, 20, 0, 0]] * 2
    assert third.observations.tolist() == [[0, 1], [0, 1]]
    assert third.final_observations.tolist() == [[3, 0], [3, 0]]
    assert third.rewards.tolist() == [[3, 30, ends == "terminated", ends == "truncated"]] * 2
    assert third.terminated.tolist() == [ends == "terminated"] * 2
    assert third.truncated.tolist() == [ends == "truncated"] * 2
    assert third.mask.all()
    assert fourth.observations.tolist() == [[1, 1], [1, 1]]
    restarted = envs.restart(np.array([False, True]))
    assert restarted.tolist() == [[1, 1], [0, 2]]
    assert one(envs).observations.tolist() == [[2, 1], [1, 2]]


def test_environments_are_seeded_individually_and_once() -> None:
    made: list[Counter] = []

    def make() -> Counter:
        made.append(Counter())
        return made[-1]

    envs = EnvBatch(make, ["reward"], num_envs=3, seed=7)
    envs.reset()
    assert [env.first_seed for env in made] == [7, 8, 9]
    for env in made:
        env.first_seed = None
    envs.reset()
    assert [env.first_seed for env in made] == [None] * 3


@pytest.mark.parametrize(
    ("kind", "names", "spec", "values"),
    [
        ("vector", ["reward0", "reward1", "cost"], None, [1, 2, 10]),
        ("vector", ["gem", "gold", "truncated"], ["gold", "gem"], [2, 1, 0]),
        ("vector", ["last", "k", "c", "speed0"], {"last": -1, "k": 0, "c": "cost"}, [2, 1, 10, 1]),
        ("scalar", ["speed0", "speed1", "reward"], None, [1, -1, 1]),
        ("scalar", ["a"], {"a": 0}, [1]),
        ("six", ["reward", "cost"], None, [1, 7]),
    ],
)
def test_rewards_by_name(kind: str, names: list[str], spec: Any, values: list[float]) -> None:
    envs = EnvBatch(lambda: Counter(kind=kind), names, num_envs=2, rewards=spec)
    envs.reset()
    assert envs.step(np.ones((2, 1))).rewards.tolist() == [values] * 2


def test_reward_function_gets_the_transition() -> None:
    seen: list[tuple[Any, ...]] = []

    def rewards(obs: Any, action: Any, next_obs: Any, reward: Any, info: Any) -> Any:
        seen.append((obs.tolist(), int(action), next_obs.tolist(), reward, info["cost"]))
        return {"moved": next_obs[0] - obs[0], "twice": [2 * reward]}

    envs = EnvBatch(
        lambda: Counter(2, shared=True), ["moved", "twice", "cost", "terminated"], num_envs=1, rewards=rewards
    )
    envs.reset()
    found = [envs.step(np.array([[1.0]])).rewards[0].tolist() for _ in range(3)]
    assert found == [[1, 2, 10, 0], [1, 4, 20, 1], [1, 2, 10, 0]]
    assert seen[1] == ([1, 0], 1, [2, 0], 2.0, 20.0)  # the last observation and not that of the reset
    assert seen[2][0] == [0, 1]
    vector = EnvBatch(Counter, ["reward1", "reward0"], num_envs=1, rewards=lambda *_: (3.0, 4))
    vector.reset()
    assert one(vector).rewards.tolist() == [[4, 3]]
    scalar = EnvBatch(Counter, ["reward"], num_envs=1, rewards=lambda *_: -5)
    scalar.reset()
    assert one(scalar).rewards.tolist() == [[-5]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("function", [False, True])
def test_vector_environments_in_all_autoreset_modes(mode: Any, function: bool) -> None:
    options = {} if mode is None else {"autoreset_mode": AUTORESET[mode]}
    env = SyncVectorEnv([lambda: Counter(2, ends="truncated"), lambda: Counter(3)], **options)

    def moved(obs: Any, action: Any, next_obs: Any, reward: Any, info: Any) -> Any:
        assert action.shape == reward.shape == (2,)
        return {"moved": next_obs[:, 0] - obs[:, 0], "cost": info.get("cost", np.zeros(2))}

    names = ["reward", "cost", "truncated", "moved" if function else "speed1"]
    envs = EnvBatch(env, names, rewards=moved if function else None)
    assert (len(envs), envs.can_reset) == (2, False)
    assert envs.reset().tolist() == [[0, 0], [0, 0]]
    rows: list[list[Any]] = [[], []]
    for _ in range(12):
        step = one(envs)
        for i in range(2):
            if step.mask[i]:
                obs, reward, last = step.observations[i].tolist(), step.rewards[i].tolist(), step.final_observations[i]
                rows[i].append([obs, reward, last.tolist(), bool(step.terminated[i] or step.truncated[i])])
            else:
                assert step.rewards[i].tolist() == [0.0] * len(names)
                rows[i][-1][0] = step.observations[i].tolist()  # now it is seen
    more = [1.0, 1.0, 1.0] if function else [-1.0, -2.0, -3.0]
    assert rows[0][:3] == [
        [[1, 0], [1, 10, 0, more[0]], [1, 0], False],
        [[0, 1], [2, 20, 1, more[1]], [2, 0], True],
        [[1, 1], [1, 10, 0, more[0]], [1, 1], False],
    ]
    assert rows[1][2] == [[0, 1], [3, 30, 0, more[2]], [3, 0], True]
    assert len(rows[0]) == (8 if mode == "NEXT_STEP" else 12)
    env.close()


class Many(gymnasium.vector.VectorEnv):
    """Three environments in NumPy without a declared autoreset mode."""

    def __init__(self, finals: bool = True, vector: bool = False) -> None:
        self.num_envs = 3
        self.single_observation_space = spaces.Dict({"t": spaces.Box(0.0, 9.0, (1,)), "k": spaces.Discrete(3)})
        self.single_action_space = spaces.Tuple([spaces.Discrete(2), spaces.Box(-1.0, 1.0, (2,))])
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, 3)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, 3)
        self.finals, self.vector = finals, vector
        self.t = np.zeros(3, np.float32)
        self.closed = False

    def _seen(self) -> Any:
        return {"t": self.t[:, None].copy(), "k": np.arange(3)}

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.t[:] = 0
        return self._seen(), {"seed": seed, "options": options}

    def step(self, actions: Any) -> Any:
        choice, numbers = actions
        assert choice.shape == (3,)
        assert numbers.dtype == np.float32
        self.t += 1
        over = np.array([False, self.t[1] >= 2, False])
        final = self._seen()
        self.t[over] = 0
        infos: dict[str, Any] = {"energy": (numbers**2).sum(1), "choice": choice}
        if self.finals:
            infos["final_obs"] = np.array(
                [{"t": final["t"][i], "k": final["k"][i]} if over[i] else None for i in range(3)], dtype=object
            )
        reward = np.stack([np.ones(3), final["t"][:, 0]], axis=1) if self.vector else np.ones(3)
        return self._seen(), reward, over, np.zeros(3, np.bool_), infos

    def close(self, **_: Any) -> None:
        self.closed = True


def test_a_vector_environment_with_a_vector_of_rewards() -> None:
    envs = EnvBatch(Many(vector=True), ["reward1", "reward0"])
    envs.reset()
    one(envs)
    assert one(envs).rewards.tolist() == [[2, 1]] * 3
    named = EnvBatch(Many(vector=True), ["b", "a", "terminated"], rewards=["a", "b"])
    named.reset()
    one(named)
    assert one(named).rewards.tolist() == [[2, 1, 0], [2, 1, 1], [2, 1, 0]]


@pytest.mark.parametrize("columns", [[0, 1, 2, 3], [1, 2], [2, 1], [3], [-1], [-2, -1], [0, 2], [1, 1]])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.bool_])
def test_columns_of_a_vector_of_rewards_are_copied(columns: list[int], transposed: bool, dtype: Any) -> None:
    step = (np.arange(12.0).reshape(3, 4) % 5).astype(dtype)
    if transposed:
        step = np.asfortranarray(step)
    reader = RewardReader([f"r{i}" for i in range(len(columns))], {f"r{i}": c for i, c in enumerate(columns)})
    flags, valid = np.zeros(3, np.bool_), np.array([True, False, True])
    before = step.copy()
    for _ in range(2):
        found = reader.read_batch(None, None, None, step, flags, flags, {}, valid)
        assert found.dtype == np.float64
        assert found.flags.c_contiguous
        assert found.tolist() == [before[0, columns].tolist(), [0.0] * len(columns), before[2, columns].tolist()]
        # Steps that are not valid are zeroed, but not in what the environment holds.
        assert not np.shares_memory(found, step)
        assert step.tolist() == before.tolist()


def test_a_vector_environment_with_many_spaces_and_many_rewards() -> None:
    env = Many(vector=True)
    envs = EnvBatch(env, ["reward1", "energy", "choice", "left"], rewards=lambda *step: {"left": step[2]["t"][:, 0]})
    assert envs.reset().tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    assert envs.parts == [(2, 0, 1), (None, -1, 1), (None, -1, 1)]
    actions = np.array([[1.0, 0.5, 9.0]] * 3)
    first, second = envs.step(actions), envs.step(actions)
    assert first.rewards.tolist() == [[1, 1.25, 1, 1]] * 3
    assert second.rewards[1].tolist() == [2, 1.25, 1, 2]
    assert second.observations[:, 3].tolist() == [2, 0, 2]
    assert second.final_observations[:, 3].tolist() == [2, 2, 2]
    assert second.mask.all()
    envs.close()
    assert not env.closed  # it is the user's


@pytest.mark.skipif(AUTORESET is None, reason="before Gymnasium 1.0 environments reset at once")
def test_undeclared_autoreset_mode_is_next_step() -> None:
    envs = EnvBatch(Many(finals=False), ["reward"])
    envs.reset()
    one(envs)
    assert one(envs).terminated.tolist() == [False, True, False]
    assert one(envs).mask.tolist() == [True, False, True]


def test_same_step_autoreset_needs_final_obs() -> None:
    env = Many(finals=False)
    env.metadata = {"autoreset_mode": AUTORESET.SAME_STEP if AUTORESET else "SAME_STEP"}
    envs = EnvBatch(env, ["reward"])
    envs.reset()
    one(envs)
    with pytest.raises(acrl.InputError, match="lack 'final_obs'"):
        one(envs)


def test_accepted_kinds_of_environments() -> None:
    env = Counter()
    envs = EnvBatch(env, ["reward"])
    assert len(envs) == 16
    envs.reset()
    one(envs)
    assert env.t == 1  # the first environment is the one that was given
    assert len(EnvBatch("CartPole-v1", ["reward"], num_envs=2)) == 2
    assert len(EnvBatch(lambda: Many(), ["reward"])) == 3  # type: ignore[arg-type, return-value]
    for bad, message in [
        (3, "3 is no environment"),
        ([env], "is no environment"),
        (lambda: 5, "returned 5, expected a gymnasium.Env"),
        (lambda: env, "returned the same one twice"),
        ("Nowhere-v0", "there is no environment 'Nowhere-v0'"),
    ]:
        with pytest.raises(acrl.InputError, match=message):
            EnvBatch(bad, ["reward"])  # type: ignore[arg-type]
    with pytest.raises(acrl.InputError, match="num_envs is 0"):
        EnvBatch(env, ["reward"], num_envs=0)
    with pytest.raises(acrl.InputError, match="num_envs is 2, but the vector environment has 3"):
        EnvBatch(Many(), ["reward"], num_envs=2)
    env.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(acrl.InputError, match=r"cannot be copied .* give a function that makes one, or num_envs=1"):
        EnvBatch(env, ["reward"])
    assert len(EnvBatch(env, ["reward"], num_envs=1)) == 1
    env.observation_space = spaces.Text(4)
    with pytest.raises(acrl.InputError, match=r"the observation space cannot be used: .*Text.* is not supported"):
        EnvBatch(env, ["reward"], num_envs=1)


def test_ids_of_other_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mo_gymnasium.py").write_text(
        """
import gymnasium
from gymnasium.envs.toy_text import FrozenLakeEnv
class Gold(FrozenLakeEnv):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, [reward, -1.0], terminated, truncated, info
gymnasium.register("acrl-gold-v0", entry_point="mo_gymnasium:Gold")
def make(name):
    return Gold()
"""
    )
    (tmp_path / "safety_gymnasium.py").write_text("raise ValueError('it needs an older Python')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("mo_gymnasium", "safety_gymnasium"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    envs = EnvBatch("acrl-gold-v0", ["reward1"], num_envs=2)
    envs.reset()
    assert one(envs).rewards.tolist() == [[-1], [-1]]
    message = "no environment 'Nowhere-v0': .*safety_gymnasium cannot be imported: it needs an older Python"
    with pytest.raises(acrl.InputError, match=message):
        EnvBatch("Nowhere-v0", ["reward"])
    gymnasium.envs.registry.pop("acrl-gold-v0")
    sys.modules.pop("mo_gymnasium")


@pytest.mark.parametrize("vector", [False, True])
def test_bad_rewards_are_reported(vector: bool) -> None:
    def envs(kind: str, names: list[str], spec: Any = None) -> EnvBatch:
        options = {"autoreset_mode": AUTORESET.SAME_STEP} if AUTORESET else {}
        env: Any = SyncVectorEnv([lambda: Counter(kind=kind)] * 2, **options) if vector else lambda: Counter(kind=kind)
        made = EnvBatch(env, names, num_envs=2, rewards=spec)
        made.reset()
        return made

    with pytest.raises(acrl.UnknownNameError, match=r"no reward 'fuel': it gave reward, cost, speed0, speed1, .*trunc"):
        one(envs("scalar", ["reward", "fuel"]))
    with pytest.raises(acrl.InputError, match="the reward 'cost' must be a finite number, but it is nan"):
        one(envs("nan", ["reward", "cost"]))
    with pytest.raises(acrl.InputError, match=r"the reward has shape .*, expected one number for each of \['a', 'b'\]"):
        one(envs("scalar", ["a"], ["a", "b"]))
    with pytest.raises(acrl.InputError, match="'a' is component 4 of a reward that has 1"):
        one(envs("scalar", ["a"], {"a": 4}))
    with pytest.raises(acrl.InputError, match="the function rewards gave 'x', expected a dict"):
        one(envs("scalar", ["a"], lambda *_: "x"))
    with pytest.raises(acrl.UnknownNameError, match="gave no reward 'name'"):
        one(envs("scalar", ["name"]))
    if not vector:
        with pytest.raises(acrl.UnknownNameError, match="gave no reward 'reward': it gave reward0, reward1, cost"):
            one(envs("vector", ["reward"]))
        with pytest.raises(acrl.InputError, match="step returned 4 values, expected observation, reward"):
            one(envs("four", ["reward"]))
    broken = envs("raises", ["reward"])
    one(broken)
    with pytest.raises(RuntimeError, match="the motor is off") as caught:
        one(broken)
    if hasattr(caught.value, "__notes__"):
        assert any("in step 2" in note for note in caught.value.__notes__)
        assert vector or "of environment 0" in caught.value.__notes__[0]


def test_bad_settings_are_refused() -> None:
    for spec, message in [
        ("reward", "rewards is 'reward', expected a list of names"),
        (5, "rewards is 5"),
        ([1, 2], "rewards: 1 is no name"),
        ({"a": 1.5}, "rewards: 'a' is 1.5, expected a component's number"),
        ({"a": True}, "rewards: 'a' is True"),
    ]:
        with pytest.raises(acrl.InputError, match=message):
            RewardReader(["a"], spec)  # type: ignore[arg-type]
    envs = EnvBatch(Counter, ["reward"], num_envs=2)
    envs.reset()
    with pytest.raises(acrl.InputError, match=r"the actions have shape \(2,\), expected \(2, 1\)"):
        envs.step(np.zeros(2))
    with pytest.raises(acrl.InputError, match="the actions must be numbers"):
        envs.step(np.array([[0.0], [np.nan]]))
    with pytest.raises(acrl.InputError, match="cannot be reset one by one"):
        EnvBatch(Many(), ["reward"]).restart(np.ones(3, np.bool_))
    with pytest.raises(acrl.InputError, match=r"environments to restart have shape \(3,\)"):
        envs.restart(np.ones(3, np.bool_))


def test_all_finite() -> None:
    assert all_finite(np.array([[1e200, -1e200], [0.0, 1.0]]))  # although the sum of squares is not
    for bad in (np.nan, np.inf, -np.inf):
        assert not all_finite(np.array([[1.0, 2.0], [bad, 0.0]]))


class Blind(Counter):
    """Sees nothing after a while."""

    def _seen(self) -> Any:
        return np.array([np.nan if self.t else 0.0, 0.0])


def test_non_finite_observations_are_refused() -> None:
    for env in (Blind, SyncVectorEnv([Blind, Blind])):
        envs = EnvBatch(env, ["reward"], num_envs=2)
        envs.reset()
        with pytest.raises(
            acrl.InputError, match=r"the observation of environment 0 in step 1 is .*nan.*, expected finite"
        ):
            one(envs)


class Rare(Counter):
    """Gives its cost in some environments only."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        if self.first_seed == 1:
            del info["cost"]
        return obs, reward, terminated, truncated, info


def test_reward_missing_in_some_environments_is_refused() -> None:
    for env in (Rare, SyncVectorEnv([Rare, Rare])):
        envs = EnvBatch(env, ["cost"], num_envs=2)
        envs.reset()
        with pytest.raises(acrl.UnknownNameError, match="gave no reward 'cost'"):
            one(envs)
