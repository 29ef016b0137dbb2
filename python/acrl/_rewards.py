"""Rewards of an environment, found by name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._errors import InputError, UnknownNameError
from ._specification import FloatArray

__all__ = ["RewardFunction", "RewardReader", "RewardSpec", "all_finite", "unpack"]

BoolArray: TypeAlias = NDArray[np.bool_]
#: ``rewards(obs, action, next_obs, reward, info)`` gives the rewards of a step by name, or as a vector.
RewardFunction: TypeAlias = Callable[[Any, Any, Any, Any, Any], Any]
#: The names of a vector's components; or from names to components (numbers) and keys of ``info``; or a function.
RewardSpec: TypeAlias = Sequence[str] | Mapping[str, int | str] | RewardFunction


class _Source(NamedTuple):
    """The place of one reward: "function", "reward", "info", "terminated" or "truncated"."""

    place: str
    key: str = ""
    component: int | None = None


class RewardReader:
    """Reads rewards by name from the results of a step.

    "reward" is the reward, and "reward0", "reward1" … are the components of a vector of them. "terminated" and
    "truncated" are 1 in a step that ended the episode so, else 0. All else is a number of ``info``, and "key0", "key1"
    … are the components of a vector there; "cost" is the third of Safety-Gymnasium's six values, too.

    >>> reader = RewardReader(["gold", "cost"], {"gold": 1})
    >>> reader.read(None, None, None, [0.5, 2.0], False, False, {"cost": 3})
    [2.0, 3.0]
    """

    def __init__(self, names: Sequence[str], spec: RewardSpec | None = None) -> None:
        self.names = list(names)
        #: True if a function computes rewards from observations and actions.
        self.is_function = callable(spec)
        self._function: RewardFunction | None = None
        self._components: dict[str, int | str] = {}
        if callable(spec):
            self._function = spec
        elif isinstance(spec, Mapping):
            for name, place in spec.items():
                if isinstance(place, bool) or not isinstance(place, (int, str, np.integer)):
                    raise InputError(f"rewards: '{name}' is {place!r}, expected a component's number or a key of info")
                self._components[str(name)] = place if isinstance(place, str) else int(place)
        elif isinstance(spec, Sequence) and not isinstance(spec, (str, bytes)):
            for i, name in enumerate(spec):
                if not isinstance(name, str):
                    raise InputError(f"rewards: {name!r} is no name")
                self._components[name] = i
        elif spec is not None:
            raise InputError(f"rewards is {spec!r}, expected a list of names, a dict or a function")
        self._listed = isinstance(spec, Sequence)
        self._sources: list[_Source] | None = None
        # The components of a vector reward, if that is all there is to read.
        self._together: list[int] | slice | None = None

    def read(
        self, obs: Any, action: Any, next_obs: Any, reward: Any, terminated: bool, truncated: bool, info: Any
    ) -> list[float]:
        """The rewards of a step, in the order of the names. ``next_obs`` is the last of the episode where it ends."""
        returned = None if self._function is None else self._call(False, obs, action, next_obs, reward, info)
        if self._sources is None:
            self._sources = [self._find(name, returned, reward, info, False) for name in self.names]
        found = []
        for name, (place, key, index) in zip(self.names, self._sources, strict=True):
            try:
                if place == "reward":
                    value = reward
                elif place == "info":
                    value = info[key]
                elif place == "function":
                    value = returned[key]  # type: ignore[index]
                else:
                    value = terminated if place == "terminated" else truncated
                if index is not None:
                    value = value[index]
                value = float(np.asarray(value).item() if isinstance(value, (np.ndarray, list, tuple)) else value)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise self._missing(name, returned, reward, info, False) from error
            if not math.isfinite(value):
                raise InputError(f"the reward '{name}' must be a finite number, but it is {value}")
            found.append(value)
        return found

    def read_batch(
        self,
        obs: Any,
        actions: Any,
        next_obs: Any,
        reward: Any,
        terminated: BoolArray,
        truncated: BoolArray,
        infos: Any,
        valid: BoolArray | None = None,
    ) -> FloatArray:
        """The rewards of a step of a vector environment: (N, n), and 0 where a step is not valid."""
        returned = None if self._function is None else self._call(True, obs, actions, next_obs, reward, infos)
        if self._sources is None:
            self._sources = [self._find(name, returned, reward, infos, True) for name in self.names]
            components = [source.component for source in self._sources if source.place == "reward"]
            several = [component for component in components if component is not None]
            self._together = _columns(several) if len(several) == len(self.names) else None
        if self._together is not None and np.ndim(reward) == 2:
            # A copy: it may be the same array at every step.
            together = np.asarray(reward)[:, self._together]
            return self._finite(np.array(together, dtype=np.float64, order="C"), valid)
        num_envs = len(terminated)
        found = np.zeros((num_envs, len(self.names)))
        for i, (place, key, index) in enumerate(self._sources):
            try:
                if place == "reward":
                    value = reward
                elif place == "info":
                    self._given(self.names[i], key, infos, valid, num_envs)
                    value = infos[key]
                elif place == "function":
                    value = returned[key]  # type: ignore[index]
                else:
                    value = terminated if place == "terminated" else truncated
                if isinstance(value, np.ndarray) and value.dtype.kind == "O":
                    everywhere = np.ones(num_envs, dtype=np.bool_)
                    found[:, i] = self._one_by_one(value, index, everywhere if valid is None else valid)
                else:
                    found[:, i] = value if index is None else np.asarray(value)[:, index]
            except (KeyError, IndexError, TypeError, ValueError) as error:
                if valid is not None and not valid.any():
                    continue  # no environment made a step
                if isinstance(error, UnknownNameError):
                    raise
                raise self._missing(self.names[i], returned, reward, infos, True) from error
        return self._finite(found, valid)

    def _finite(self, found: FloatArray, valid: BoolArray | None) -> FloatArray:
        if valid is not None:
            found[~valid] = 0.0
        if not all_finite(found):
            env, i = map(int, np.argwhere(~np.isfinite(found))[0])
            value = found[env, i]
            raise InputError(
                f"the reward '{self.names[i]}' must be a finite number, but it is {value} in environment {env}"
            )
        return found

    def _one_by_one(self, column: Any, component: int | None, valid: BoolArray) -> FloatArray:
        """A column of objects, without values where an environment only reset."""
        found = np.zeros(len(valid))
        for env in np.flatnonzero(valid):
            value = column[env] if component is None else column[env][component]
            found[env] = np.asarray(value, dtype=np.float64).item()
        return found

    def _given(self, name: str, key: str, infos: Any, valid: BoolArray | None, num_envs: int) -> None:
        mask = infos.get(f"_{key}")
        if mask is None:
            return
        lacking = ~np.broadcast_to(np.asarray(mask, dtype=np.bool_), (num_envs,))
        if valid is not None:
            lacking = lacking & valid
        if lacking.any():
            env = int(np.flatnonzero(lacking)[0])
            raise UnknownNameError(f"environment {env} gave no reward '{name}', but others did")

    def _call(self, batch: bool, obs: Any, action: Any, next_obs: Any, reward: Any, info: Any) -> Mapping[str, Any]:
        assert self._function is not None
        returned = self._function(obs, action, next_obs, reward, info)
        if isinstance(returned, Mapping):
            return returned
        vector = np.asarray(returned)
        if vector.dtype.kind not in "fiub" or vector.ndim > (2 if batch else 1):
            raise InputError(f"the function rewards gave {returned!r}, expected a dict of numbers or a vector")
        if vector.ndim == (1 if batch else 0):
            return {"reward": vector}
        return {f"reward{i}": vector[..., i] for i in range(vector.shape[-1])}

    def _find(self, name: str, returned: Mapping[str, Any] | None, reward: Any, info: Any, batch: bool) -> _Source:
        """The source of a name; the user's specification takes precedence."""
        width = _width(reward, batch)
        if self._listed and width != len(self._components):
            shape = np.shape(reward)
            raise InputError(f"the reward has shape {shape}, expected one number for each of {list(self._components)}")
        if returned is not None and name in returned:
            return _Source("function", name)
        place = self._components.get(name, name)
        if isinstance(place, int):
            if not -(width or 1) <= place < (width or 1):
                raise InputError(f"rewards: '{name}' is component {place} of a reward that has {width or 1}")
            return _Source("reward", component=None if width is None else place)
        if place == "reward" and width in (None, 1):
            return _Source("reward", component=None if width is None else 0)
        if place in ("terminated", "truncated"):
            return _Source(place)
        if place in info:
            # A lone number in an array is that number.
            return _Source("info", place, 0 if batch and _width(info[place], True) == 1 else None)
        numbered = re.fullmatch(r"(.+?)(0|[1-9]\d*)", place)
        if numbered is not None:
            key, index = numbered[1], int(numbered[2])
            if key == "reward" and width is not None and index < width:
                return _Source("reward", component=index)
            if key in info and index < (_width(info[key], batch) or 0):
                return _Source("info", key, index)
        raise self._missing(name, returned, reward, info, batch)

    def _missing(
        self, name: str, returned: Mapping[str, Any] | None, reward: Any, info: Any, batch: bool
    ) -> UnknownNameError:
        known = [*(returned or {}), *self._components]
        width = _width(reward, batch)
        if not self._listed:
            known += ["reward"] if width is None else [f"reward{i}" for i in range(width)]
        for key in info:
            value = info[key]
            if (str(key).startswith("_") and str(key)[1:] in info) or isinstance(value, (str, Mapping)):
                continue
            try:
                several = _width(value, batch)
                kind = np.asarray(value).dtype.kind
            except (TypeError, ValueError):
                continue
            if kind in "fiub" or batch:
                known += [str(key)] if several in (None, 1) else [f"{key}{i}" for i in range(several)]
        known += ["terminated", "truncated"]
        return UnknownNameError(f"the environment gave no reward '{name}': it gave {', '.join(dict.fromkeys(known))}")


def all_finite(numbers: FloatArray) -> bool:
    """True if no number is infinite or NaN."""
    # The sum of squares takes a fifth of the time, but may overflow.
    return math.isfinite(np.vdot(numbers, numbers)) or bool(np.isfinite(numbers).all())


def _columns(numbers: list[int]) -> list[int] | slice:
    """Columns of an array, as a slice if they are contiguous: it takes a third of the time."""
    first = numbers[0] if numbers else 0
    end = first + len(numbers)
    return slice(first, end) if first >= 0 and numbers == list(range(first, end)) else numbers


def _width(value: Any, batch: bool) -> int | None:
    """Length of a vector; None for a number."""
    if batch and isinstance(value, np.ndarray) and value.dtype.kind == "O" and value.ndim == 1:
        # As vector environments before Gymnasium 1.0 hold vectors, with None where there is none.
        shape = next((np.shape(each) for each in value if each is not None), ())
    else:
        shape = np.shape(value)[1:] if batch else np.shape(value)
    return None if not shape else int(np.prod(shape))


def unpack(returned: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Observation, reward, terminated, truncated, info of a step; a separate cost goes to the info."""
    count = len(returned) if isinstance(returned, (tuple, list)) else None
    if count == 5:
        return returned  # type: ignore[no-any-return]
    if count == 6:  # Safety-Gymnasium has the cost in the middle
        obs, reward, cost, terminated, truncated, info = returned
        return obs, reward, terminated, truncated, {**info, "cost": cost}
    found = f"{count} values" if count is not None else repr(returned)
    raise InputError(f"step returned {found}, expected observation, reward, terminated, truncated and info")
