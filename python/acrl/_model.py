"""Finite models from arrays, tables and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _acrl
from ._errors import InputError
from ._specification import FloatArray

__all__ = ["FiniteModel"]


class FiniteModel:
    """A finite model: transition probabilities and rewards of each action.

    >>> stay_or_go = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], dtype=float)
    >>> FiniteModel(stay_or_go, {"a": [1, 0], "b": [0, 1]})
    <acrl.FiniteModel 2 states, 4 choices, rewards a, b>

    Args:
        transitions: Probabilities: an array [state, action, next state], or a SciPy sparse matrix whose row
            ``s * actions + a`` is that of action a in state s. A row of zeros is an action that the state
            does not have.
        rewards: By name, an array [state, action], or [state] if the action does not matter.
        initial: Where it starts: a state, or the probability of each. Default state 0.
    """

    def __init__(self, transitions: Any, rewards: Mapping[str, ArrayLike], initial: int | ArrayLike = 0) -> None:
        states, actions, indptr, indices, data = _rows(transitions)
        named = [_reward(name, values, states, actions) for name, values in rewards.items()]
        flat = np.concatenate(named) if named else np.zeros(0)
        self._model = _acrl.Model(actions, indptr, indices, data, list(rewards), flat, _start(initial, states))

    @classmethod
    def from_table(
        cls,
        table: Mapping[int, Mapping[int, Iterable[tuple[float, int, float, bool]]]],
        rewards: Mapping[str, ArrayLike] | None = None,
        initial: int | ArrayLike = 0,
        name: str = "reward",
    ) -> FiniteModel:
        """From Gymnasium's ``env.unwrapped.P[state][action] = [(probability, next state, reward, terminated), ...]``.

        Long-run averages have no end: where an episode ends the next one begins, so a transition that terminates leads
        to the ``initial`` states (``env.unwrapped.initial_state_distrib``).

        Args:
            table: P.
            rewards: More rewards by name, arrays [state, action] or [state].
            initial: Where episodes start: a state, or the probability of each.
            name: What the reward of the table is called.
        """
        states = len(table)
        start = _start(initial, states)
        actions = 1 + max((a for choices in table.values() for a in choices), default=0)
        rows: list[dict[int, float]] = [{} for _ in range(states * actions)]
        reward = np.zeros((states, actions))
        for s, choices in table.items():
            for a, outcomes in choices.items():
                if not (0 <= s < states and a >= 0):
                    raise InputError(f"state {s}, action {a}: expected numbers from 0 on, without gaps")
                row = rows[s * actions + a]
                for probability, target, value, terminated in outcomes:
                    reward[s, a] += probability * value
                    for t in np.flatnonzero(start) if terminated else [target]:
                        share = probability * (float(start[t]) if terminated else 1.0)
                        row[int(t)] = row.get(int(t), 0.0) + share
        if rewards is not None and name in rewards:
            raise InputError(f"two rewards are called '{name}'")
        ends = np.cumsum([0] + [len(row) for row in rows], dtype=np.int64)
        targets = np.array([t for row in rows for t in sorted(row)], dtype=np.int64)
        shares = np.array([row[t] for row in rows for t in sorted(row)], dtype=np.float64)
        model = cls.__new__(cls)
        named = {name: reward, **(rewards or {})}
        flat = np.concatenate([_reward(n, values, states, actions) for n, values in named.items()])
        model._model = _acrl.Model(actions, ends, targets, shares, list(named), flat, start)
        return model

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FiniteModel:
        """Reads a model: arrays of NumPy and SciPy (.npz, see `save`) or Storm's explicit format (.drn)."""
        model = cls.__new__(cls)
        model._model = _acrl.Model.load(os.fspath(path))
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model as an .npz file, for `load`, `acrl.solve` and the program.

        ``scipy.sparse.load_npz`` reads its transitions, ``numpy.load`` all of it. Such a file is also written by
        ``numpy.savez``: the arrays of a CSR matrix (``format=b"csr"``, ``shape``, ``indptr``, ``indices``, ``data``)
        whose row ``s * actions + a`` is that of action a in state s, and ``rewards`` [rewards, rows]; ``names`` of the
        rewards, ``initial`` (a state, or the probability of each) and names of ``actions`` if you like; and where
        states have different numbers of actions, ``first_choice``: the first row of each state, and the number of rows.
        """
        path = os.fspath(path)
        if not path.endswith(".npz"):
            raise InputError(f"the file's name is {path!r}, expected one that ends in .npz")
        self._model.save(path)

    @property
    def states(self) -> int:
        """The number of states."""
        return self._model.states

    @property
    def choices(self) -> int:
        """The number of pairs of a state and one of its actions."""
        return self._model.choices

    @property
    def rewards(self) -> list[str]:
        """The names of the rewards."""
        return self._model.reward_names

    def __repr__(self) -> str:
        names = ", ".join(self.rewards) or "none"
        return f"<acrl.FiniteModel {self.states} states, {self.choices} choices, rewards {names}>"


def _rows(transitions: Any) -> tuple[int, int, NDArray[np.int64], NDArray[np.int64], FloatArray]:
    """States, actions, and the rows of the matrix."""
    if hasattr(transitions, "tocsr"):
        matrix = transitions.tocsr(copy=True)
        matrix.sum_duplicates()
        rows, states = matrix.shape
        if states == 0 or rows == 0 or rows % states != 0:
            raise InputError(f"the transitions have shape {rows} × {states}, expected (states · actions) × states")
        indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
        return states, rows // states, _whole(indptr), _whole(indices), np.ascontiguousarray(data, np.float64)
    dense = np.asarray(transitions, dtype=np.float64)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or dense.size == 0:
        raise InputError(f"the transitions have shape {dense.shape}, expected [states, actions, states]")
    states, actions = dense.shape[:2]
    flat = dense.reshape(states * actions, states)
    # NaN is not 0, so that it is kept, and refused where its place is known.
    row, column = np.nonzero(flat)
    ends = np.concatenate([[0], np.cumsum(np.count_nonzero(flat, axis=1))])
    return states, actions, _whole(ends), _whole(column), flat[row, column]


def _whole(values: Any) -> NDArray[np.int64]:
    return np.ascontiguousarray(values, dtype=np.int64)


def _reward(name: str, values: ArrayLike, states: int, actions: int) -> FloatArray:
    found = np.asarray(values, dtype=np.float64)
    if found.shape == (states,):
        found = np.repeat(found, actions)
    elif found.shape != (states, actions):
        raise InputError(f"the reward '{name}' has shape {found.shape}, expected ({states},) or ({states}, {actions})")
    flat: FloatArray = found.reshape(-1)
    return flat


def _start(initial: int | ArrayLike, states: int) -> FloatArray:
    found = np.asarray(initial)
    if found.ndim == 0 and found.dtype.kind in "iu":
        state = int(found)
        if not 0 <= state < states:
            raise InputError(f"the initial state is {state}, expected 0 to {states - 1}")
        corner: FloatArray = np.eye(1, states, state, dtype=np.float64)[0]
        return corner
    if found.shape != (states,):
        raise InputError(f"the initial distribution has shape {found.shape}, expected ({states},)")
    return np.ascontiguousarray(found, dtype=np.float64)
