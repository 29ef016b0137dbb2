"""Any Gymnasium environment as a batch of environments that reset themselves: a continuing task."""

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
from ._specification import FloatArray

__all__ = ["EnvBatch", "EnvLike", "StepResult", "is_vector", "make"]

# Vector environments have no parameters before Gymnasium 1.0.
EnvLike: TypeAlias = gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]] | str | gymnasium.vector.VectorEnv

#: Copies of an environment that is not a vector environment.
NUM_ENVS = 16


class StepResult(NamedTuple):
    """The outcome of one step of N environments."""

    #: (N, d): the next observations, after a reset where an episode has ended. Where the reset takes a step of its own
    #: (see ``mask``) it is that of ``final_observations`` until then.
    observations: FloatArray
    #: (N, n), in the order of the names, in the user's signs.
    rewards: FloatArray
    #: (N,)
    terminated: BoolArray
    #: (N,)
    truncated: BoolArray
    #: (N, d): the final observation of the episode where one ended, elsewhere the same as ``observations``.
    final_observations: FloatArray
    #: (N,): False where the environment made no step but only reset: that step does not count.
    mask: BoolArray


class _Backend(Protocol):
    """An implementation of the steps."""

    count: int
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]

    def reset(self, seed: int | None) -> FloatArray: ...
    def restart(self, which: BoolArray) -> FloatArray: ...
    def step(self, actions: FloatArray) -> StepResult: ...
    def members(self) -> list[Any]: ...
    def state(self) -> Any: ...
    def restore(self, state: Any) -> None: ...
    def close(self) -> None: ...


class EnvBatch:
    """An environment, or several copies of it, in which the next episode begins where one ends.

    >>> envs = EnvBatch("CartPole-v1", ["reward", "terminated"], num_envs=3)
    >>> envs.reset().shape, envs.parts
    ((3, 4), [(2, 0.0, 1.0)])
    >>> envs.step(np.array([[0.0], [1.0], [1.0]])).rewards
    array([[1., 0.], [1., 0.], [1., 0.]])

    Args:
        env: An environment; or a function that makes one; or its id; or a vector environment. Of a single environment
            deep copies are made, which step one after the other and reset in the step in which an episode ends.
        names: The rewards to read, see `acrl._rewards.RewardReader`.
        num_envs: The number of environments; default ``copies``, or that of the vector environment.
        copies: The default number of copies of a single environment.
        rewards: Where the rewards are found.
        seed: Environment i is seeded with ``seed + i`` at the first reset.
    """

    def __init__(
        self,
        env: EnvLike,
        names: Sequence[str],
        *,
        num_envs: int | None = None,
        copies: int = NUM_ENVS,
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
            self._backend = _Copies(env, found, ours, copies if num_envs is None else num_envs, reader)
        self._space = supported("observation", self._backend.observation_space)
        self._actions = supported("action", self._backend.action_space)
        #: True if single environments can be reset in the middle of an episode.
        self.can_reset = isinstance(self._backend, _Copies)
        #: Lower and upper bound of each number of an observation, (d, 2); infinite where there is none.
        self.ranges: FloatArray = self._space.ranges
        #: The parts of an action: (n, 0, n - 1) if it is discrete, or (None, low, high).
        self.parts: list[Part] = self._actions.parts
        if not self.parts:
            raise InputError(f"the action space {self.action_space} has nothing to choose")

    def __len__(self) -> int:
        return self._backend.count

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """Observation space of a single environment."""
        return self._backend.observation_space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """Action space of a single environment."""
        return self._backend.action_space

    def reset(self) -> FloatArray:
        """Starts an episode in every environment; the observations, (N, d)."""
        seed, self._seed = self._seed, None
        return self._backend.reset(seed)

    def restart(self, which: BoolArray) -> FloatArray:
        """Resets some environments in the middle of their episodes; the observations of all, (N, d)."""
        if not self.can_reset:
            raise InputError("the environments of a vector environment cannot be reset one by one")
        return self._backend.restart(np.asarray(which, dtype=np.bool_))

    def step(self, actions: FloatArray) -> StepResult:
        """One step of every environment.

        Args:
            actions: (N, k), in the units of `parts`. Continuous ones are clipped to the space, discrete ones rounded.
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
        """Observations of a vector environment as numbers, (N, d)."""
        return self._space.encode_batch(obs)

    def decode(self, action: FloatArray) -> Any:
        """An action of the environment from numbers, (k,)."""
        return self._actions.decode(action)

    @property
    def storable(self) -> bool:
        """True if a pickle holds the states of the environments; that of Gymnasium's EzPickle does not."""
        return not any(_is_ez_pickle(env) for env in self._backend.members())

    def state(self) -> Any:
        """The complete state, to be pickled."""
        return self._seed, self._backend.state()

    def restore(self, state: Any) -> None:
        """Continues from a state."""
        self._seed, backend = state
        self._backend.restore(backend)

    def reseed(self, seed: int) -> None:
        """Seeds the environments at the next reset."""
        self._seed = seed

    def close(self) -> None:
        """Closes environments that were made here; one that was given stays open."""
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
        self._raw: list[Any] = [None] * count  # only for reward functions
        self._steps = 0

    def reset(self, seed: int | None) -> FloatArray:
        encoded = np.empty_like(self._observations)
        for i in range(self.count):
            self._reset(i, None if seed is None else seed + i, encoded)
        _finite("observation", encoded, self._steps)
        self._observations = encoded
        return encoded

    def restart(self, which: BoolArray) -> FloatArray:
        if which.shape != (self.count,):
            raise InputError(f"the environments to restart have shape {which.shape}, expected ({self.count},)")
        encoded = self._observations.copy()
        for i in np.flatnonzero(which):
            self._reset(int(i), None, encoded)
        _finite("observation", encoded, self._steps)
        self._observations = encoded
        return encoded

    def _reset(self, i: int, seed: int | None, encoded: FloatArray) -> None:
        try:
            returned = self.envs[i].reset(seed=seed)
        except Exception as error:
            _note(error, f"in the reset of environment {i} after {self._steps} steps")
            raise
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise InputError("reset did not return two values, expected observation and info")
        encoded[i] = self._space.encode(returned[0])
        if self._reader.is_function:
            self._raw[i] = snapshot(returned[0])

    def step(self, actions: FloatArray) -> StepResult:
        self._steps += 1
        encoded = np.empty_like(self._observations)
        rewards = np.empty((self.count, len(self._reader.names)))
        terminated = np.zeros(self.count, dtype=np.bool_)
        truncated = np.zeros(self.count, dtype=np.bool_)
        last = encoded
        for i, (env, action) in enumerate(zip(self.envs, self._actions.decode_rows(actions), strict=True)):
            try:
                returned = env.step(action)
            except Exception as error:
                _note(error, f"in step {self._steps} of environment {i}, with the action {action!r}")
                raise
            obs, reward, term, trunc, info = unpack(returned)
            try:
                rewards[i] = self._reader.read(self._raw[i], action, obs, reward, term, trunc, info)
            except Exception as error:
                _note(error, f"in step {self._steps} of environment {i}")
                raise
            encoded[i] = self._space.encode(obs)
            if term or trunc:
                terminated[i], truncated[i] = term, trunc
                if last is encoded:
                    last = np.empty_like(encoded)
                last[i] = encoded[i]
                self._reset(i, None, encoded)
            elif self._reader.is_function:
                self._raw[i] = snapshot(obs)
        if last is not encoded:
            going = ~(terminated | truncated)
            last[going] = encoded[going]
            _finite("last observation", last, self._steps)
        _finite("observation", encoded, self._steps)
        self._observations = encoded
        return StepResult(encoded, rewards, terminated, truncated, last, np.ones(self.count, dtype=np.bool_))

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
    """A vector environment, with any autoreset mode."""

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
        # The environments whose next step is only a reset.
        self._waiting: BoolArray | None = None
        self._raw: Any = None
        self._steps = 0

    def reset(self, seed: int | None) -> FloatArray:
        try:
            returned = self.env.reset(seed=seed)
        except Exception as error:
            _note(error, f"in a reset after {self._steps} steps")
            raise
        self._waiting = None
        self._store(returned[0])
        return self._encode(returned[0])

    def restart(self, which: BoolArray) -> FloatArray:
        raise NotImplementedError  # EnvBatch refuses it first

    def _store(self, obs: Any) -> None:
        if self._reader.is_function:
            self._raw = snapshot(obs)  # it may be the same array at every step

    def _encode(self, obs: Any) -> FloatArray:
        encoded = np.array(self._space.encode_batch(obs))  # a copy, for the same reason
        if encoded.shape[0] != self.count:
            raise InputError(f"the environment gave {encoded.shape[0]} observations, expected {self.count}")
        _finite("observation", encoded, self._steps)
        return encoded

    def step(self, actions: FloatArray) -> StepResult:
        self._steps += 1
        made = self._actions.decode_batch(actions)
        try:
            returned = self.env.step(made)
        except Exception as error:
            _note(error, f"in step {self._steps}")
            raise
        raw, reward, terminated, truncated, infos = unpack(returned)
        terminated = np.array(terminated, dtype=np.bool_)
        truncated = np.array(truncated, dtype=np.bool_)
        encoded = self._encode(raw)
        valid, last, final = self._all, encoded, raw
        if self._waiting is not None:
            valid = ~self._waiting
            terminated &= valid
            truncated &= valid
            self._waiting = None
        over = terminated | truncated
        ended = np.count_nonzero(over) > 0  # an any() that costs little
        if ended and self._resets_at_once(infos):
            finals = final_obs_of(infos)
            if self._reader.is_function:
                final = replaced(self.observation_space, raw, finals, over)
            infos = merged(infos, over)
            last = encoded.copy()
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
            last = encoded
            raw = self.env.reset(options={"reset_mask": over.copy()})[0]
            encoded = self._encode(raw)
        elif ended and last is encoded:
            self._waiting = over
        self._store(raw)
        return StepResult(encoded, rewards, terminated, truncated, last, valid)

    def _resets_at_once(self, infos: Any) -> bool:
        if self._mode is None:
            # It declares none: the infos of the first end of an episode decide.
            returned = "final_obs" in infos or "final_observation" in infos
            self._mode = "same_step" if returned or before_1() else "next_step"
        if self._mode == "same_step" and final_obs_of(infos) is None:
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
    """True for a vector environment, of any version of Gymnasium."""
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
            except Exception as error:  # the environment may belong to another package
                broken += f"; {package} cannot be imported: {error}"
            if known in registry:
                break
    entry = str(getattr(registry.get(known), "entry_point", ""))
    try:
        # Their own make leaves out wrappers of Gymnasium that do not support several rewards.
        if entry.startswith("mo_gymnasium"):
            return importlib.import_module("mo_gymnasium").make(name)
        if entry.startswith("safety_gymnasium") and not entry.startswith("safety_gymnasium.wrappers"):
            return importlib.import_module("safety_gymnasium").make(name)
        return gymnasium.make(name)
    except gymnasium.error.UnregisteredEnv as error:
        raise InputError(f"there is no environment '{name}': {error}{broken}") from error


def open_env(env: Any) -> tuple[Any, bool]:
    """The environment, and True if it was made here."""
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


def _is_ez_pickle(env: Any) -> bool:
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
    """The autoreset mode: "next_step", "same_step", "disabled", or None if the environment does not declare it."""
    returned = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    name = str(getattr(returned, "name", returned)).lower()
    return name if name in ("next_step", "same_step", "disabled") else None


def final_obs_of(infos: Any) -> Any:
    """The final observations of episodes that ended, under either name."""
    return infos.get("final_obs", infos.get("final_observation"))


def pick(batch: Any, i: int) -> Any:
    """Row i of an array, or of a dict or tuple of arrays."""
    if isinstance(batch, dict):
        return {key: pick(value, i) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(pick(value, i) for value in batch)
    return batch[i]


def replaced(space: Any, batch: Any, finals: Any, over: BoolArray) -> Any:
    """A batch of observations with the final ones of episodes that have ended."""
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
    returned = infos.get("final_info")
    found = {key: value for key, value in infos.items() if not str(key).startswith(("final_", "_final_"))}
    if returned is None:
        return found
    ended = np.flatnonzero(over)
    if not isinstance(returned, dict):  # before Gymnasium 1.0: an array of dicts
        rows = {int(i): returned[i] or {} for i in ended}
    else:
        rows = {int(i): {} for i in ended}
        for key, values in returned.items():
            if isinstance(values, dict) or (str(key).startswith("_") and str(key)[1:] in returned):
                continue
            mask = np.broadcast_to(returned.get(f"_{key}", True), over.shape)
            for i in ended:
                if mask[i]:
                    rows[int(i)][key] = values[i]
    for key in {key for row in rows.values() for key in row}:
        given = found.get(key)
        values, mask = _column_like(given, over.shape[0], next(row[key] for row in rows.values() if key in row))
        if given is not None:
            mask = np.array(np.broadcast_to(found.get(f"_{key}", True), over.shape))
        for env, row in rows.items():
            mask[env] = key in row
            if key in row:
                values[env] = row[key]
        found[key], found[f"_{key}"] = values, mask
    return found


def _column_like(given: Any, num_envs: int, sample: Any) -> tuple[NDArray[Any], BoolArray]:
    """An array with one value for each environment, with the values that are given already."""
    mask = np.zeros(num_envs, dtype=np.bool_)
    if given is not None:
        return np.array(np.broadcast_to(given, (num_envs, *np.shape(given)[1:]))), mask
    try:
        like = np.asarray(sample)
    except ValueError:
        like = np.empty((), dtype=object)
    if like.dtype.kind not in "fiub":
        return np.full(num_envs, None, dtype=object), mask
    return np.zeros((num_envs, *like.shape), dtype=like.dtype), mask


def _finite(what: str, rows: FloatArray, step: int) -> None:
    if not all_finite(rows):
        i = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise InputError(f"the {what} of environment {i} in step {step} is {rows[i].tolist()}, expected finite numbers")


def snapshot(obs: Any) -> Any:
    """A copy that later steps do not change."""
    return obs.copy() if type(obs) is np.ndarray else copy.deepcopy(obs)


def _note(error: BaseException, note: str) -> None:
    if hasattr(error, "add_note"):  # from Python 3.11 on
        error.add_note(note)
