"""Any environment of Gymnasium as lanes of a problem without end: where an episode ends the next one begins."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ._errors import InputError
from ._rewards import BoolArray, RewardReader, RewardSpec, all_finite, unpack
from ._spaces import Part, Space, describe, from_description
from ._vocabulary import FloatArray

__all__ = ["EnvLike", "Lanes", "Stepped", "is_vector", "make"]

# Vector environments have no parameters before Gymnasium 1.0.
EnvLike: TypeAlias = gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]] | str | gymnasium.vector.VectorEnv

#: How many lanes there are of an environment that is not a vector of them already.
LANES = 16


class Stepped(NamedTuple):
    """What L lanes saw in one step."""

    #: (L, d): what is seen next, after a reset where an episode has ended. Where the reset takes a step of its own
    #: (see ``valid``) it is what is in ``last`` until then.
    observations: FloatArray
    #: (L, n), in the order of the names, in the user's signs.
    rewards: FloatArray
    #: (L,)
    terminated: BoolArray
    #: (L,)
    truncated: BoolArray
    #: (L, d): the last observation of the episode where one ended, elsewhere the same as ``observations``.
    last: FloatArray
    #: (L,): False where the environment made no step but only reset: that step counts for nothing.
    valid: BoolArray


class _Backend(Protocol):
    """What steps the lanes."""

    count: int
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]

    def reset(self, seed: int | None) -> FloatArray: ...
    def restart(self, which: BoolArray) -> FloatArray: ...
    def step(self, actions: FloatArray) -> Stepped: ...
    def members(self) -> list[Any]: ...
    def state(self) -> Any: ...
    def restore(self, state: Any) -> None: ...
    def close(self) -> None: ...


class Lanes:
    """An environment, or several copies of it, as lanes that never end.

    >>> lanes = Lanes("CartPole-v1", ["reward", "terminated"], num_envs=3)
    >>> lanes.reset().shape, lanes.parts
    ((3, 4), [(2, 0.0, 1.0)])
    >>> lanes.step(np.array([[0.0], [1.0], [1.0]])).rewards
    array([[1., 0.], [1., 0.], [1., 0.]])

    Args:
        env: An environment; or a function that makes one; or its id; or a vector environment, whose lanes these are.
            Of an environment the lanes are deep copies. They step one after the other, and reset at once.
        names: The rewards to read, see `acrl._rewards.RewardReader`.
        num_envs: How many lanes; default 16, or those of the vector environment.
        rewards: How to find them.
        seed: Lane i is seeded with ``seed + i`` at the first reset.
    """

    def __init__(
        self,
        env: EnvLike,
        names: Sequence[str],
        *,
        num_envs: int | None = None,
        rewards: RewardSpec | None = None,
        seed: int = 0,
    ) -> None:
        reader = RewardReader(names, rewards)
        if num_envs is not None and num_envs < 1:
            raise InputError(f"num_envs is {num_envs}, expected a number above 0")
        self.names = list(names)
        self._seed: int | None = seed
        found, ours = open_env(env)
        self._backend: _Backend
        if is_vector(found):
            if num_envs not in (None, found.num_envs):
                raise InputError(f"num_envs is {num_envs}, but the vector environment has {found.num_envs}")
            self._backend = _Vector(found, reader, ours)
        else:
            self._backend = _Copies(env, found, ours, LANES if num_envs is None else num_envs, reader)
        self._space = supported("observation", self._backend.observation_space)
        self._actions = supported("action", self._backend.action_space)
        #: Single lanes can be reset at will.
        self.can_reset = isinstance(self._backend, _Copies)
        #: The least and the greatest of each number of an observation: (d, 2), infinite where there is no end.
        self.ranges: FloatArray = self._space.ranges
        #: Of an action: (number of choices, 0, n - 1) or (None, low, high).
        self.parts: list[Part] = self._actions.parts
        if not self.parts:
            raise InputError(f"the action space {self.action_space} has nothing to choose")

    def __len__(self) -> int:
        return self._backend.count

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """What one lane sees."""
        return self._backend.observation_space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """What one lane does."""
        return self._backend.action_space

    def reset(self) -> FloatArray:
        """Starts an episode in every lane; what is seen, (L, d)."""
        seed, self._seed = self._seed, None
        return self._backend.reset(seed)

    def restart(self, which: BoolArray) -> FloatArray:
        """Resets some lanes in the middle of their episodes; what all see, (L, d)."""
        if not self.can_reset:
            raise InputError("the lanes of a vector environment cannot be reset one by one")
        return self._backend.restart(np.asarray(which, dtype=np.bool_))

    def step(self, actions: FloatArray) -> Stepped:
        """One step of every lane.

        Args:
            actions: (L, k), in the units of `parts`. Numbers are clipped to the space, choices are rounded.
        """
        actions = np.asarray(actions, dtype=np.float64)
        if actions.shape != (self._backend.count, len(self.parts)):
            expected = (self._backend.count, len(self.parts))
            raise InputError(f"the actions have shape {actions.shape}, expected {expected}")
        if not all_finite(actions) and np.isnan(actions).any():
            raise InputError(f"the actions must be numbers, but they are {actions.tolist()}")
        return self._backend.step(actions)

    def encode(self, obs: Any) -> FloatArray:
        """One observation of the environment as numbers, (d,)."""
        return self._space.encode(obs)

    def encode_batch(self, obs: Any) -> FloatArray:
        """Observations as vector environments give them, as numbers, (L, d)."""
        return self._space.encode_batch(obs)

    def decode(self, action: FloatArray) -> Any:
        """Numbers (k,) as an action of the environment."""
        return self._actions.decode(action)

    @property
    def storable(self) -> bool:
        """Whether pickling keeps the states of the environments; Gymnasium's EzPickle makes new ones instead."""
        return not any(_makes_anew(env) for env in self._backend.members())

    def state(self) -> Any:
        """All that goes on, to be pickled."""
        return self._seed, self._backend.state()

    def restore(self, state: Any) -> None:
        """Goes on from there."""
        self._seed, backend = state
        self._backend.restore(backend)

    def reseed(self, seed: int) -> None:
        """Seeds the lanes at the next reset."""
        self._seed = seed

    def close(self) -> None:
        """Closes what was made here; an environment that was given stays open."""
        self._backend.close()


class _Copies:
    """Environments that step one after the other."""

    def __init__(self, env: EnvLike, first: Any, ours: bool, count: int, reader: RewardReader) -> None:
        self.envs = [first]
        self._kept = None if ours else first
        self.count = count
        self.observation_space = first.observation_space
        self.action_space = first.action_space
        self._space = supported("observation", first.observation_space)
        self._actions = supported("action", first.action_space)
        for i in range(1, count):
            made = open_env(env)[0] if ours else _copied(first)
            if any(made is other for other in self.envs):
                raise InputError("the function that makes environments returned the same one twice: make a new one")
            if made.observation_space != self.observation_space or made.action_space != self.action_space:
                raise InputError(f"environment {i} has other spaces than environment 0")
            self.envs.append(made)
        self._reader = reader
        self._observations: FloatArray = np.zeros((count, self._space.width))
        self._raw: list[Any] = [None] * count  # only for functions that ask
        self._steps = 0

    def reset(self, seed: int | None) -> FloatArray:
        seen = np.empty_like(self._observations)
        for i in range(self.count):
            self._reset(i, None if seed is None else seed + i, seen)
        _finite("observation", seen, self._steps)
        self._observations = seen
        return seen

    def restart(self, which: BoolArray) -> FloatArray:
        if which.shape != (self.count,):
            raise InputError(f"the lanes to restart have shape {which.shape}, expected ({self.count},)")
        seen = self._observations.copy()
        for i in np.flatnonzero(which):
            self._reset(int(i), None, seen)
        _finite("observation", seen, self._steps)
        self._observations = seen
        return seen

    def _reset(self, i: int, seed: int | None, seen: FloatArray) -> None:
        try:
            told = self.envs[i].reset(seed=seed)
        except Exception as error:
            _note(error, f"in the reset of lane {i} after {self._steps} steps")
            raise
        if not isinstance(told, tuple) or len(told) != 2:
            raise InputError("reset did not return two values, expected observation and info")
        seen[i] = self._space.encode(told[0])
        if self._reader.asks:
            self._raw[i] = snapshot(told[0])

    def step(self, actions: FloatArray) -> Stepped:
        self._steps += 1
        seen = np.empty_like(self._observations)
        rewards = np.empty((self.count, len(self._reader.names)))
        terminated = np.zeros(self.count, dtype=np.bool_)
        truncated = np.zeros(self.count, dtype=np.bool_)
        last = seen
        for i, (env, action) in enumerate(zip(self.envs, self._actions.decode_rows(actions), strict=True)):
            try:
                told = env.step(action)
            except Exception as error:
                _note(error, f"in step {self._steps} of lane {i}, with the action {action!r}")
                raise
            obs, reward, fallen, stopped, info = unpack(told)
            try:
                rewards[i] = self._reader.read(self._raw[i], action, obs, reward, fallen, stopped, info)
            except Exception as error:
                _note(error, f"in step {self._steps} of lane {i}")
                raise
            seen[i] = self._space.encode(obs)
            if fallen or stopped:
                terminated[i], truncated[i] = fallen, stopped
                if last is seen:
                    last = np.empty_like(seen)
                last[i] = seen[i]
                self._reset(i, None, seen)
            elif self._reader.asks:
                self._raw[i] = snapshot(obs)
        if last is not seen:
            going = ~(terminated | truncated)
            last[going] = seen[going]
            _finite("last observation", last, self._steps)
        _finite("observation", seen, self._steps)
        self._observations = seen
        return Stepped(seen, rewards, terminated, truncated, last, np.ones(self.count, dtype=np.bool_))

    def members(self) -> list[Any]:
        return self.envs

    def state(self) -> Any:
        return self.envs, self._observations, self._raw, self._steps

    def restore(self, state: Any) -> None:
        self.close()
        self.envs, self._observations, self._raw, self._steps = state
        self._kept = None

    def close(self) -> None:
        for env in self.envs:
            if env is not self._kept:
                env.close()


class _Vector:
    """A vector environment, in whatever way its lanes are reset."""

    def __init__(self, env: Any, reader: RewardReader, ours: bool) -> None:
        self.env = env
        self.count = int(env.num_envs)
        self._ours = ours
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self._space = supported("observation", self.observation_space)
        self._actions = supported("action", self.action_space)
        self._reader = reader
        self._mode = reset_mode(env)
        self._all = np.ones(self.count, dtype=np.bool_)
        self._all.flags.writeable = False
        # The lanes whose next step is only a reset.
        self._waiting: BoolArray | None = None
        self._raw: Any = None
        self._steps = 0

    def reset(self, seed: int | None) -> FloatArray:
        try:
            told = self.env.reset(seed=seed)
        except Exception as error:
            _note(error, f"in a reset after {self._steps} steps")
            raise
        self._waiting = None
        self._keep(told[0])
        return self._see(told[0])

    def restart(self, which: BoolArray) -> FloatArray:
        raise NotImplementedError  # Lanes does not ask

    def _keep(self, obs: Any) -> None:
        if self._reader.asks:
            self._raw = snapshot(obs)  # it may be the same array at every step

    def _see(self, obs: Any) -> FloatArray:
        seen = np.array(self._space.encode_batch(obs))  # a copy, for the same reason
        if seen.shape[0] != self.count:
            raise InputError(f"the environment gave {seen.shape[0]} observations, expected {self.count}")
        _finite("observation", seen, self._steps)
        return seen

    def step(self, actions: FloatArray) -> Stepped:
        self._steps += 1
        made = self._actions.decode_batch(actions)
        try:
            told = self.env.step(made)
        except Exception as error:
            _note(error, f"in step {self._steps}")
            raise
        raw, reward, terminated, truncated, infos = unpack(told)
        terminated = np.array(terminated, dtype=np.bool_)
        truncated = np.array(truncated, dtype=np.bool_)
        seen = self._see(raw)
        valid, last, final = self._all, seen, raw
        if self._waiting is not None:
            valid = ~self._waiting
            terminated &= valid
            truncated &= valid
            self._waiting = None
        over = terminated | truncated
        ended = np.count_nonzero(over) > 0  # an any() that costs little
        if ended and self._resets_at_once(infos):
            finals = last_seen(infos)
            if self._reader.asks:
                final = replaced(self.observation_space, raw, finals, over)
            infos = merged(infos, over)
            last = seen.copy()
            for i in np.flatnonzero(over):
                last[i] = self._space.encode(pick(finals, int(i)))
            _finite("last observation", last, self._steps)
        try:
            rewards = self._reader.read_batch(
                self._raw, made, final, reward, terminated, truncated, infos, None if valid is self._all else valid
            )
        except Exception as error:
            _note(error, f"in step {self._steps}")
            raise
        if ended and self._mode == "disabled":
            last = seen
            raw = self.env.reset(options={"reset_mask": over.copy()})[0]
            seen = self._see(raw)
        elif ended and last is seen:
            self._waiting = over
        self._keep(raw)
        return Stepped(seen, rewards, terminated, truncated, last, valid)

    def _resets_at_once(self, infos: Any) -> bool:
        if self._mode is None:
            # It does not say. What it gives for the end of an episode tells.
            told = "final_obs" in infos or "final_observation" in infos
            self._mode = "same_step" if told or before_1() else "next_step"
        if self._mode == "same_step" and last_seen(infos) is None:
            raise InputError(
                "the vector environment resets in the step in which an episode ends, but its infos lack 'final_obs', "
                "the last observation of the episode"
            )
        return self._mode == "same_step"

    def members(self) -> list[Any]:
        return [self.env, *getattr(self.env, "envs", [])]

    def state(self) -> Any:
        return self.env, self._waiting, self._raw, self._steps, self._mode

    def restore(self, state: Any) -> None:
        self.close()
        self.env, self._waiting, self._raw, self._steps, self._mode = state
        self._ours = True

    def close(self) -> None:
        if self._ours:
            self.env.close()


def is_vector(env: Any) -> bool:
    """Whether this is a vector environment, of whatever version of Gymnasium."""
    return hasattr(env, "num_envs") and hasattr(env, "single_observation_space") and hasattr(env, "step")


def make(name: str) -> Any:
    """The environment of an id, also one of MO-Gymnasium or Safety-Gymnasium if these are installed."""
    registry = gymnasium.envs.registry
    known, broken = name.rsplit(":", 1)[-1], ""
    if ":" not in name and known not in registry:
        for package in ("mo_gymnasium", "safety_gymnasium"):
            try:
                importlib.import_module(package)
            except ModuleNotFoundError as error:
                if error.name != package:
                    broken += f"; {package} cannot be imported: {error}"
            except Exception as error:  # whatever is wrong with it, the environment may be another's
                broken += f"; {package} cannot be imported: {error}"
            if known in registry:
                break
    entry = str(getattr(registry.get(known), "entry_point", ""))
    try:
        # These know which of Gymnasium's wrappers do not go with several rewards.
        if entry.startswith("mo_gymnasium"):
            return importlib.import_module("mo_gymnasium").make(name)
        if entry.startswith("safety_gymnasium") and not entry.startswith("safety_gymnasium.wrappers"):
            return importlib.import_module("safety_gymnasium").make(name)
        return gymnasium.make(name)
    except gymnasium.error.UnregisteredEnv as error:
        raise InputError(f"there is no environment '{name}': {error}{broken}") from error


def open_env(env: Any) -> tuple[Any, bool]:
    """The environment, and whether it was made here."""
    if isinstance(env, str):
        return make(env), True
    if isinstance(env, gymnasium.Env) or (is_vector(env) and not isinstance(env, type)):
        return env, False
    if callable(env):
        made = env()
        if isinstance(made, gymnasium.Env) or is_vector(made):
            return made, True
        raise InputError(f"the function that makes environments returned {made!r}, expected a gymnasium.Env")
    raise InputError(f"{env!r} is no environment: expected a gymnasium.Env, a function that makes one, or its id")


def _copied(env: Any) -> Any:
    try:
        return copy.deepcopy(env)
    except Exception as error:
        raise InputError(
            f"{env!r} cannot be copied ({type(error).__name__}: {error}): give a function that makes one, or num_envs=1"
        ) from error


def _makes_anew(env: Any) -> bool:
    while env is not None:
        if isinstance(env, gymnasium.utils.EzPickle):
            return True
        env = getattr(env, "env", None)
    return False


def supported(what: str, space: Any) -> Space:
    try:
        return from_description(describe(space))
    except InputError as error:
        raise InputError(f"the {what} space cannot be used: {error}") from error


def before_1() -> bool:
    return int(gymnasium.__version__.split(".")[0]) < 1


def reset_mode(env: Any) -> str | None:
    """How lanes are reset: "next_step", "same_step", "disabled", or None if the environment does not say."""
    told = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    name = str(getattr(told, "name", told)).lower()
    return name if name in ("next_step", "same_step", "disabled") else None


def last_seen(infos: Any) -> Any:
    """The last observations of episodes that ended, under either name."""
    return infos.get("final_obs", infos.get("final_observation"))


def pick(batch: Any, i: int) -> Any:
    """Lane i of an array, or of a dict or tuple of them."""
    if isinstance(batch, dict):
        return {key: pick(value, i) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(pick(value, i) for value in batch)
    return batch[i]


def replaced(space: Any, batch: Any, finals: Any, over: BoolArray) -> Any:
    """A batch of observations with the last ones of episodes where these have ended."""
    if isinstance(space, spaces.Dict):
        return {key: replaced(part, batch[key], _column(finals, key, over), over) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(replaced(part, batch[i], _column(finals, i, over), over) for i, part in enumerate(space.spaces))
    found = np.array(batch)
    for i in np.flatnonzero(over):
        found[i] = finals[i]
    return found


def _column(finals: Any, key: Any, over: BoolArray) -> Any:
    if isinstance(finals, (dict, tuple)):
        return finals[key]
    return [finals[i][key] if over[i] else None for i in range(len(over))]


def merged(infos: Any, over: BoolArray) -> dict[str, Any]:
    """The infos of the step: those of the reset are replaced by ``final_info`` where an episode ended."""
    told = infos.get("final_info")
    found = {key: value for key, value in infos.items() if not str(key).startswith(("final_", "_final_"))}
    if told is None:
        return found
    ended = np.flatnonzero(over)
    if not isinstance(told, dict):  # before Gymnasium 1.0: an array of dicts
        rows = {int(i): told[i] or {} for i in ended}
    else:
        rows = {int(i): {} for i in ended}
        for key, values in told.items():
            if isinstance(values, dict) or (str(key).startswith("_") and str(key)[1:] in told):
                continue
            mask = np.broadcast_to(told.get(f"_{key}", True), over.shape)
            for i in ended:
                if mask[i]:
                    rows[int(i)][key] = values[i]
    for key in {key for row in rows.values() for key in row}:
        given = found.get(key)
        values, mask = _room(given, over.shape[0], next(row[key] for row in rows.values() if key in row))
        if given is not None:
            mask = np.array(np.broadcast_to(found.get(f"_{key}", True), over.shape))
        for lane, row in rows.items():
            mask[lane] = key in row
            if key in row:
                values[lane] = row[key]
        found[key], found[f"_{key}"] = values, mask
    return found


def _room(given: Any, lanes: int, sample: Any) -> tuple[NDArray[Any], BoolArray]:
    """An array for one value of each lane, with what is there already."""
    mask = np.zeros(lanes, dtype=np.bool_)
    if given is not None:
        return np.array(np.broadcast_to(given, (lanes, *np.shape(given)[1:]))), mask
    try:
        like = np.asarray(sample)
    except ValueError:
        like = np.empty((), dtype=object)
    if like.dtype.kind not in "fiub":
        return np.full(lanes, None, dtype=object), mask
    return np.zeros((lanes, *like.shape), dtype=like.dtype), mask


def _finite(what: str, rows: FloatArray, step: int) -> None:
    if not all_finite(rows):
        lane = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise InputError(f"the {what} of lane {lane} in step {step} is {rows[lane].tolist()}, expected finite numbers")


def snapshot(obs: Any) -> Any:
    """A copy that stays as it is."""
    return obs.copy() if type(obs) is np.ndarray else copy.deepcopy(obs)


def _note(error: BaseException, note: str) -> None:
    if hasattr(error, "add_note"):  # from Python 3.11 on
        error.add_note(note)
