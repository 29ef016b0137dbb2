"""The finite models of `make bench-exact`: seeded, made by NumPy alone, a million states in seconds.

    python models.py plain 100 plain-100.npz

With `.drn` it is Storm's explicit format. An `.npz` file holds what `scipy.sparse.save_npz` writes for the transition
matrix [choices x states] in CSR form, and `rewards` [rewards x choices], `names`, `initial`; and `first_choice`
[states + 1] where not all states have the same number of actions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[Any]


@dataclass(frozen=True)
class Model:
    """Row j of the CSR matrix is where choice j leads; `rewards[k, j]` is what it brings."""

    indptr: Integers
    indices: Integers
    data: Floats
    rewards: Floats
    names: tuple[str, ...]
    #: The choices of state s are `first_choice[s]` to `first_choice[s + 1]`.
    first_choice: Integers
    initial: int = 0

    @property
    def states(self) -> int:
        """Number of states."""
        return len(self.first_choice) - 1

    @property
    def choices(self) -> int:
        """Number of pairs of a state and one of its actions."""
        return len(self.indptr) - 1

    @property
    def owner(self) -> Integers:
        """The state of each choice."""
        return np.repeat(np.arange(self.states, dtype=np.int32), np.diff(self.first_choice))

    def save(self, path: Path) -> None:
        """Write it; uncompressed."""
        arrays: dict[str, Any] = {
            "format": np.array(b"csr"),
            "shape": np.array([self.choices, self.states], dtype=np.int64),
            "data": self.data,
            "indices": self.indices,
            "indptr": self.indptr,
            "rewards": self.rewards,
            "names": np.array(self.names),
            "initial": np.array(self.initial),
        }
        if len(set(np.diff(self.first_choice).tolist())) > 1:
            arrays["first_choice"] = self.first_choice
        np.savez(path, **arrays)

    def save_drn(self, path: Path) -> None:
        """Write it in Storm's explicit format."""
        indptr, first = self.indptr.tolist(), self.first_choice.tolist()
        indices, data, rewards = self.indices.tolist(), self.data.tolist(), self.rewards.T.tolist()
        with path.open("w") as file:
            file.write("@type: MDP\n@parameters\n\n@reward_models\n" + " ".join(self.names))
            file.write(f"\n@nr_states\n{self.states}\n@nr_choices\n{self.choices}\n@model\n")
            for s in range(self.states):
                file.write(f"state {s}{' init' if s == self.initial else ''}\n")
                for a, j in enumerate(range(first[s], first[s + 1])):
                    file.write(f"\taction {a} [{', '.join(map(repr, rewards[j]))}]\n")
                    file.writelines(f"\t\t{indices[k]} : {data[k]!r}\n" for k in range(indptr[j], indptr[j + 1]))


def load(path: Path) -> Model:
    """Read what `save` wrote."""
    with np.load(path) as file:
        choices, states = (int(n) for n in file["shape"])
        # Without `first_choice` all states have the same number of actions.
        first = file["first_choice"] if "first_choice" in file else np.arange(states + 1) * (choices // states)
        return Model(
            file["indptr"],
            file["indices"],
            file["data"],
            file["rewards"],
            tuple(str(name) for name in file["names"]),
            first,
            int(file["initial"]),
        )


def from_slots(targets: Integers, shares: Floats, **rest: Any) -> Model:
    """From arrays [choices, slots] of targets and probabilities; slots with probability 0 are left out.

    The targets of a row with a probability above 0 must be different, and ascend.
    """
    used = shares > 0.0
    indptr = np.zeros(len(shares) + 1, dtype=np.int64)
    np.cumsum(used.sum(axis=1), out=indptr[1:])
    small = np.int32 if indptr[-1] < 2**31 else np.int64
    return Model(indptr.astype(small), targets[used].astype(small), shares[used], **rest)


def grid(side: int, terrain: bool, seed: int = 0) -> Model:
    """A patrol: side x side cells, stay or a step; moving costs, and so does the terrain; four corners to be watched.

    With probability .1 the step goes in a direction drawn at random instead; walls block.
    """
    states, slip = side * side, 0.1
    row, column = np.divmod(np.arange(states), side)
    # Slots in the order of their targets: north, west, here, east, south.
    open_ = np.stack([row > 0, column > 0, np.ones(states, bool), column < side - 1, row < side - 1], axis=1)
    targets = np.arange(states)[:, None] + np.array([-side, -1, 0, 1, side])
    wanted = np.array([2, 0, 3, 4, 1])  # stay, N, E, S, W
    step = np.full((5, 5), slip / 4)
    step[:, 2] = 0.0
    step[np.arange(5), wanted] += 1.0 - slip
    shares = np.where(open_[:, None, :], step[None], 0.0)
    shares[:, :, 2] += np.where(open_[:, None, :], 0.0, step[None]).sum(axis=2)
    moves = np.broadcast_to(np.arange(5) > 0, (states, 5)).astype(np.float64)
    cost = 0.5 * np.random.default_rng(seed).random(states) if terrain else np.zeros(states)
    width = max(1, side // 5)
    top, left, bottom, right = row < width, column < width, row >= side - width, column >= side - width
    corners = [top & left, top & right, bottom & left, bottom & right]
    rewards = np.stack(
        [-moves - cost[:, None], *(np.repeat(c[:, None], 5, axis=1).astype(np.float64) for c in corners)]
    )
    return from_slots(
        np.broadcast_to(targets[:, None], (states, 5, 5)).reshape(-1, 5),
        shares.reshape(-1, 5),
        rewards=rewards.reshape(5, -1),
        names=("r0", "r1", "r2", "r3", "r4"),
        first_choice=np.arange(states + 1) * 5,
    )


def random(states: int, seed: int = 0) -> Model:
    """Four actions, five successors drawn at random with probabilities drawn at random, five rewards in [0, 1)."""
    rng, shape = np.random.default_rng(seed), (states * 4, min(5, states))
    targets = np.sort(rng.integers(states, size=shape, dtype=np.int32), axis=1)
    while (twice := np.flatnonzero((np.diff(targets, axis=1) == 0).any(axis=1))).size:
        targets[twice] = np.sort(rng.integers(states, size=(twice.size, shape[1]), dtype=np.int32), axis=1)
    shares = rng.random(shape) + 1e-9
    shares /= shares.sum(axis=1, keepdims=True)
    return from_slots(
        targets,
        shares,
        rewards=rng.random((5, states * 4)),
        names=("r0", "r1", "r2", "r3", "r4"),
        first_choice=np.arange(states + 1) * 4,
    )


def queues(side: int) -> Model:
    """Three queues, each shorter than `side`: jobs go to the first, the second, or away, and then all pass the third.

    Jobs come at rate 1; servers 1 and 2 work at .6 and .5 unless the third queue is full; the third, when it has work,
    at .7 or, for power, at 1.3. Uniformised: a step is a tick of a clock that is as fast as all of these together.
    """
    states, last = side**3, side - 1
    q1, rest = np.divmod(np.arange(states), side * side)
    q2, q3 = np.divmod(rest, side)
    come, first, second, slow, fast = 1.0, 0.6, 0.5, 0.7, 1.3
    clock = come + first + second + fast
    # Actions: where a job goes (away, 1, 2), with the third server slow and then fast.
    away, to1, to2 = np.ones(states, bool), q1 < last, q2 < last
    busy = q3 > 0
    possible = np.stack([away, to1, to2, away & busy, to1 & busy, to2 & busy], axis=1)
    state, action = np.nonzero(possible)
    goes, quick = action % 3, action >= 3
    here = np.arange(states)[state]
    served1, served2 = (q1 > 0) & (q3 < last), (q2 > 0) & (q3 < last)
    # Slots in the order of their targets; a job that leaves 1 or 2 enters 3.
    moves = np.array([1 - side * side, 1 - side, -1, 0, side, side * side])
    shares = np.zeros((len(state), 6))
    shares[:, 0] = np.where(served1[state], first, 0.0) / clock
    shares[:, 1] = np.where(served2[state], second, 0.0) / clock
    shares[:, 2] = np.where(busy[state], np.where(quick, fast, slow), 0.0) / clock
    shares[:, 4] = np.where(goes == 2, come, 0.0) / clock
    shares[:, 5] = np.where(goes == 1, come, 0.0) / clock
    shares[:, 3] = 1.0 - shares.sum(axis=1)
    shares[shares < 1e-12] = 0.0
    rewards = np.stack(
        [
            (q1 + q2 + q3)[state].astype(np.float64),
            np.where(goes == 0, come, 0.0),
            np.where(served1[state], first, 0.0),
            quick.astype(np.float64),
        ]
    )
    counts = np.concatenate([[0], np.cumsum(possible.sum(axis=1))])
    return from_slots(
        here[:, None] + moves,
        shares,
        rewards=rewards,
        names=("jobs", "rejected", "first", "power"),
        first_choice=counts.astype(np.int64),
    )


def routing(side: int) -> Model:
    """Two queues, each shorter than `side`: jobs go to the first, the second, or away.

    Jobs come at rate 1; the second server works at .5; the first, when it has work, at .45 or, for power, at .75.
    Uniformised like the three queues.
    """
    states, last = side**2, side - 1
    q1, q2 = np.divmod(np.arange(states), side)
    come, slow, fast, second = 1.0, 0.45, 0.75, 0.5
    clock = come + fast + second
    away, to1, to2, busy = np.ones(states, bool), q1 < last, q2 < last, q1 > 0
    possible = np.stack([away, to1, to2, away & busy, to1 & busy, to2 & busy], axis=1)
    state, action = np.nonzero(possible)
    goes, quick = action % 3, action >= 3
    shares = np.zeros((len(state), 5))
    shares[:, 0] = np.where(busy[state], np.where(quick, fast, slow), 0.0) / clock
    shares[:, 1] = np.where(q2[state] > 0, second, 0.0) / clock
    shares[:, 3] = np.where(goes == 2, come, 0.0) / clock
    shares[:, 4] = np.where(goes == 1, come, 0.0) / clock
    shares[:, 2] = 1.0 - shares.sum(axis=1)
    shares[shares < 1e-12] = 0.0
    rewards = np.stack(
        [
            (q1 + q2)[state].astype(np.float64),
            np.where(goes == 0, come, 0.0),
            np.where(q2[state] > 0, second, 0.0),
            quick.astype(np.float64),
        ]
    )
    return from_slots(
        np.arange(states)[state][:, None] + np.array([-side, -1, 0, 1, side]),
        shares,
        rewards=rewards,
        names=("jobs", "rejected", "second", "power"),
        first_choice=np.concatenate([[0], np.cumsum(possible.sum(axis=1))]).astype(np.int64),
    )


#: By name, a model of a size: cells along a side, states, or places of each queue with the empty one.
CLASSES: dict[str, Callable[[int], Model]] = {
    "plain": lambda side: grid(side, terrain=False),
    "terrain": lambda side: grid(side, terrain=True),
    "random": random,
    "queue": queues,
    "routing": routing,
}


def main() -> None:
    """Write a model to a file."""
    if len(sys.argv) != 4 or sys.argv[1] not in CLASSES:
        sys.exit(f"usage: models.py {'|'.join(CLASSES)} SIZE FILE.npz|FILE.drn")
    model, path = CLASSES[sys.argv[1]](int(sys.argv[2])), Path(sys.argv[3])
    if path.suffix == ".drn":
        model.save_drn(path)
    else:
        model.save(path)


if __name__ == "__main__":
    main()
