"""Spaces of Gymnasium as plain descriptions, and what they hold as plain numbers. Needs no Gymnasium.

| kind | description | observation | action |
|---|---|---|---|
| box | shape, dtype, low, high (null: without end) | its numbers | its numbers, clipped, rounded if they are integers |
| discrete | n, start | one-hot | discrete |
| multi_discrete | nvec, start, shape, dtype | one-hot each | discrete each |
| multi_binary | shape | its numbers | binary each |
| dict, tuple | spaces | one after the other | one after the other |

The order is that of ``gymnasium.spaces.flatten``. A description can be written as JSON.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._errors import InputError
from ._specification import FloatArray

__all__ = ["Description", "Part", "Space", "describe", "from_description"]

Description: TypeAlias = dict[str, Any]
#: A part of an action: (n, 0, n - 1) if it is discrete, or (None, low, high).
Part: TypeAlias = tuple[int | None, float, float]

# Integers beyond this are not exact in float64.
_EXACT = 2.0**53


def describe(space: Any) -> Description:
    """A space of Gymnasium as plain data.

    >>> from gymnasium import spaces
    >>> describe(spaces.Discrete(3))
    {'kind': 'discrete', 'n': 3, 'start': 0}
    >>> describe(spaces.Box(0.0, float("inf"), (2,)))
    {'kind': 'box', 'shape': [2], 'dtype': 'float32', 'low': 0.0, 'high': None}
    """
    from gymnasium import spaces  # which is there if there is a space of it

    if isinstance(space, spaces.Box):
        shape, dtype = list(map(int, space.shape)), str(space.dtype)
        return {"kind": "box", "shape": shape, "dtype": dtype, "low": _ends(space.low), "high": _ends(space.high)}
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        start = getattr(space, "start", np.zeros_like(space.nvec))  # Gymnasium 0.28 has none
        return {
            "kind": "multi_discrete",
            "nvec": space.nvec.reshape(-1).tolist(),
            "start": start.reshape(-1).tolist(),
            "shape": list(map(int, space.nvec.shape)),
            "dtype": str(space.dtype),
        }
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "multi_binary", "shape": list(map(int, space.shape or ()))}
    if isinstance(space, spaces.Dict):
        for key in space.spaces:
            if not isinstance(key, str):
                raise InputError(f"the key {key!r} of a Dict space is no text")
        # Pairs, because not everyone who reads JSON keeps the order of an object.
        return {"kind": "dict", "spaces": [[key, describe(part)] for key, part in space.spaces.items()]}
    if isinstance(space, spaces.Tuple):
        return {"kind": "tuple", "spaces": [describe(part) for part in space.spaces]}
    raise InputError(
        f"the space {space!r} is not supported: expected Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or Tuple "
        "of these"
    )


def from_description(description: Mapping[str, Any]) -> Space:
    """The space of a description.

    >>> space = from_description({"kind": "discrete", "n": 3, "start": 1})
    >>> space.encode(2), int(space.decode([1.0]))
    (array([0., 1., 0.]), 2)
    """
    try:
        kind = description["kind"]
        if kind == "box":
            return _Box(description)
        if kind == "discrete":
            return _Choices([description["n"]], [description["start"]], (), "int64")
        if kind == "multi_discrete":
            shape = tuple(description["shape"])
            return _Choices(description["nvec"], description["start"], shape, description["dtype"])
        if kind == "multi_binary":
            return _Binary(tuple(description["shape"]))
        if kind == "dict":
            return _Several([(str(key), from_description(part)) for key, part in description["spaces"]], True)
        if kind == "tuple":
            return _Several([(i, from_description(part)) for i, part in enumerate(description["spaces"])], False)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the description of a space cannot be read: {description!r}") from error
    raise InputError(
        f"the kind of a space is {kind!r}, expected box, discrete, multi_discrete, multi_binary, dict, tuple"
    )


class Space(ABC):
    """Encoding of observations as numbers, and decoding of actions."""

    #: Length of an encoded observation.
    width: int
    #: The least and the greatest of each of them; (d, 2).
    ranges: FloatArray
    #: The parts of an action.
    parts: list[Part]
    #: True if an observation is a vector of numbers already.
    plain = False

    @abstractmethod
    def encode(self, value: Any) -> FloatArray:
        """One observation as numbers, (d,). Its array may be shared."""

    @abstractmethod
    def encode_batch(self, values: Any) -> FloatArray:
        """Observations as ``gymnasium.vector`` holds them, as numbers, (N, d). Their array may be shared."""

    @abstractmethod
    def decode(self, numbers: FloatArray) -> Any:
        """The action of numbers in the units of `parts`, (k,): clipped, and rounded if discrete."""

    @abstractmethod
    def decode_batch(self, numbers: FloatArray) -> Any:
        """Actions as ``gymnasium.vector`` takes them; (N, k)."""

    def decode_rows(self, numbers: FloatArray) -> list[Any]:
        """Actions one by one; (N, k)."""
        return [self.decode(row) for row in numbers]

    @abstractmethod
    def num_envs(self, values: Any) -> int | None:
        """Number of observations in a batch; None for a single one."""


class _Plain(Space):
    """One array."""

    shape: tuple[int, ...]

    def _array(self, value: Any, batch: bool) -> NDArray[Any]:
        found = np.asarray(value)
        if found.dtype.kind not in "fiub":
            raise InputError(f"an observation has numbers of type {found.dtype}, expected floats or integers")
        if (found.shape[1:] if batch and found.ndim else found.shape) != self.shape or (batch and not found.ndim):
            expected = str(self.shape) if not batch else f"(L, {str(self.shape)[1:]}"
            raise InputError(f"an observation has shape {found.shape}, expected {expected}")
        return found

    def num_envs(self, values: Any) -> int | None:
        found = np.shape(values)
        return int(found[0]) if len(found) == len(self.shape) + 1 else None


class _Box(_Plain):
    def __init__(self, description: Mapping[str, Any]) -> None:
        self.shape = tuple(map(int, description["shape"]))
        self.dtype = np.dtype(description["dtype"])
        self.width = int(np.prod(self.shape, dtype=np.int64))
        low = _numbers(description["low"], -np.inf, self.width)
        high = _numbers(description["high"], np.inf, self.width)
        self.integers = self.dtype.kind in "iub"
        self.plain = len(self.shape) == 1
        if self.integers:
            low, high = (np.where(np.abs(ends) >= _EXACT, np.copysign(np.inf, ends), ends) for ends in (low, high))
        self.ranges = np.stack([low, high], axis=1)
        self.parts = [(None, float(a), float(b)) for a, b in self.ranges]
        # What float64 holds and the type of the numbers does not is clipped too.
        limit = _EXACT if self.integers else float(np.finfo(self.dtype).max)
        self.low, self.high = _alike(np.maximum(low, -limit)), _alike(np.minimum(high, limit))

    def encode(self, value: Any) -> FloatArray:
        if type(value) is not np.ndarray or value.shape != self.shape or value.dtype.kind not in "fiub":
            value = self._array(value, False)
        return value.astype(np.float64, copy=False).reshape(-1)  # type: ignore[no-any-return]

    def encode_batch(self, values: Any) -> FloatArray:
        found = self._array(values, True)
        return found.astype(np.float64, copy=False).reshape(len(found), -1)

    def decode(self, numbers: FloatArray) -> NDArray[Any]:
        return self._clipped(numbers).reshape(self.shape)

    def decode_batch(self, numbers: FloatArray) -> NDArray[Any]:
        return self._clipped(numbers).reshape(len(numbers), *self.shape)

    def decode_rows(self, numbers: FloatArray) -> list[Any]:
        # Rows of one array, unless they would be scalars, which a Box does not hold.
        return list(self.decode_batch(numbers)) if self.shape else super().decode_rows(numbers)

    def _clipped(self, numbers: FloatArray) -> NDArray[Any]:
        # Not np.clip, which takes several times as long.
        found = np.minimum(np.maximum(numbers, self.low), self.high)
        return (np.rint(found) if self.integers else found).astype(self.dtype)


class _Choices(_Plain):
    """One discrete value, or an array of them."""

    def __init__(self, nvec: Sequence[int], start: Sequence[int], shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype = tuple(map(int, shape)), np.dtype(dtype)
        self.nvec = np.array(nvec, dtype=np.int64)
        self.start = np.array(start, dtype=np.int64)
        self.last = (self.nvec - 1).astype(np.float64)
        self.offsets = np.concatenate([[0], np.cumsum(self.nvec)[:-1]]).astype(np.int64)
        self.width = int(self.nvec.sum())
        self.ranges = np.stack([np.zeros(self.width), np.ones(self.width)], axis=1)
        self.parts = [(int(n), 0.0, float(n - 1)) for n in self.nvec]

    def _chosen(self, value: Any, batch: bool) -> NDArray[np.int64]:
        found = self._array(value, batch).reshape(-1, len(self.nvec)) - self.start
        if not ((found >= 0) & (found < self.nvec)).all():
            raise InputError(f"an observation is {value}, expected {self._wanted()}")
        return found.astype(np.int64)

    def _wanted(self) -> str:
        first, last = self.start.tolist(), (self.start + self.nvec - 1).tolist()
        return f"choices from {first} to {last}" if self.shape else f"a choice from {first[0]} to {last[0]}"

    def encode(self, value: Any) -> FloatArray:
        found = np.zeros(self.width)
        found[(self._chosen(value, False) + self.offsets).reshape(-1)] = 1.0
        return found

    def encode_batch(self, values: Any) -> FloatArray:
        chosen = self._chosen(values, True) + self.offsets
        found = np.zeros((len(chosen), self.width))
        np.put_along_axis(found, chosen, 1.0, axis=1)
        return found

    def _clipped(self, numbers: FloatArray) -> NDArray[Any]:
        found = np.minimum(np.maximum(np.rint(numbers), 0.0), self.last)
        return (found.astype(np.int64) + self.start).astype(self.dtype, copy=False)

    def decode(self, numbers: FloatArray) -> Any:
        found = self._clipped(numbers)
        return found.reshape(self.shape) if self.shape else found[0]

    def decode_rows(self, numbers: FloatArray) -> list[Any]:
        return list(self.decode_batch(numbers))

    def decode_batch(self, numbers: FloatArray) -> NDArray[Any]:
        return self._clipped(numbers).reshape(len(numbers), *self.shape)


class _Binary(_Plain):
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = tuple(map(int, shape))
        self.width = int(np.prod(self.shape, dtype=np.int64))
        self.ranges = np.stack([np.zeros(self.width), np.ones(self.width)], axis=1)
        self.parts = [(2, 0.0, 1.0)] * self.width

    def encode(self, value: Any) -> FloatArray:
        return self._array(value, False).astype(np.float64).reshape(-1)

    def encode_batch(self, values: Any) -> FloatArray:
        found = self._array(values, True)
        return found.astype(np.float64).reshape(len(found), -1)

    def decode(self, numbers: FloatArray) -> NDArray[np.int8]:
        return (np.asarray(numbers) >= 0.5).astype(np.int8).reshape(self.shape)

    def decode_batch(self, numbers: FloatArray) -> NDArray[np.int8]:
        return (np.asarray(numbers) >= 0.5).astype(np.int8).reshape(len(numbers), *self.shape)


class _Several(Space):
    """Spaces by key, or one after the other."""

    def __init__(self, named: Sequence[tuple[str | int, Space]], mapping: bool) -> None:
        self.named, self.mapping = list(named), mapping
        self.width = sum(part.width for _, part in named)
        self.ranges = np.concatenate([np.zeros((0, 2)), *(part.ranges for _, part in named)])
        self.parts = [each for _, part in named for each in part.parts]

    def _get(self, value: Any, key: str | int) -> Any:
        if self.mapping:
            if not isinstance(value, Mapping) or key not in value:
                raise InputError(f"an observation is {value!r}, expected a dict with the key {key!r}")
            return value[key]
        if not isinstance(value, (tuple, list)) or len(value) != len(self.named):
            raise InputError(f"an observation is {value!r}, expected a tuple of {len(self.named)}")
        return value[int(key)]

    def encode(self, value: Any) -> FloatArray:
        parts = [space.encode(self._get(value, key)) for key, space in self.named]
        return np.concatenate(parts) if parts else np.zeros(0)

    def encode_batch(self, values: Any) -> FloatArray:
        parts = [space.encode_batch(self._get(values, key)) for key, space in self.named]
        return np.concatenate(parts, axis=1) if parts else np.zeros((0, 0))

    def decode(self, numbers: FloatArray) -> Any:
        found, at = [], 0
        for _, space in self.named:
            found.append(space.decode(numbers[at : at + len(space.parts)]))
            at += len(space.parts)
        return self._together(found)

    def decode_batch(self, numbers: FloatArray) -> Any:
        found, at = [], 0
        for _, space in self.named:
            found.append(space.decode_batch(numbers[:, at : at + len(space.parts)]))
            at += len(space.parts)
        return self._together(found)

    def _together(self, found: list[Any]) -> Any:
        if not self.mapping:
            return tuple(found)
        return {key: value for (key, _), value in zip(self.named, found, strict=True)}

    def num_envs(self, values: Any) -> int | None:
        if not self.named:
            return None
        key, space = self.named[0]
        return space.num_envs(self._get(values, key))


def _ends(values: NDArray[Any]) -> Any:
    """One number if all are equal, else a list; None where there is no bound."""
    flat = [None if np.isinf(value) else value for value in values.reshape(-1).tolist()]
    return flat[0] if flat and all(value == flat[0] for value in flat) else flat


def _alike(ends: FloatArray) -> FloatArray | float:
    """One number if all are equal: NumPy compares with it in less than half of the time."""
    return float(ends[0]) if len(ends) and (ends == ends[0]).all() else ends


def _numbers(ends: Any, endless: float, width: int) -> FloatArray:
    found = ends if isinstance(ends, (list, tuple)) else [ends] * width
    if len(found) != width:
        raise InputError(f"a Box of {width} numbers has {len(found)} ends")
    return np.array([endless if value is None else value for value in found], dtype=np.float64)
