"""Exact solutions compared with an LP solver, on random models of every kind.

HiGHS solves Kallenberg's LP, which is right for every finite model: x is where time is spent in the long run, y how one
gets there. With d the initial distribution, x ≥ 0 and y ≥ 0:

    Σ_a x(s, a) = Σ P(s | s', a) x(s', a)      Σ_a x(s, a) + Σ_a y(s, a) = d(s) + Σ P(s | s', a) y(s', a)

Rewards are divided by their ranges there, so that the tolerances of HiGHS (1e-10) mean the same for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import acrl
import highspy
import numpy as np
import pytest
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Models of each kind that can be solved, and as many that cannot; `make check-slow` takes more.
SEEDS = range(int(os.environ.get("HIGHS_SEEDS", "48")))
# Those that the solver once got wrong.
FOUND = [
    *(("deterministic", 210), ("degenerate", 147), ("degenerate", 171)),
    *(("nearly decomposable", seed) for seed in (53, 97, 130, 176, 247)),
]
LARGE = 310
# By how much bounds that are not met exactly are missed or met, in units of ranges: nothing is too close to call.
MARGIN = 1e-3


def linear_program(reward: Array, rows: Array, low: Array, high: Array, free: int = 0) -> float | None:
    """The largest reward·x with x ≥ 0 (the last `free` of any sign) and low ≤ rows x ≤ high; None if there is no x."""
    column, row = np.nonzero(rows.T)
    lp: Any = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = rows.shape
    lp.col_cost_, lp.row_lower_, lp.row_upper_ = -reward, low, high
    lp.col_lower_, lp.col_upper_ = np.zeros(len(reward)), np.full(len(reward), np.inf)
    if free:
        lp.col_lower_ = np.concatenate([np.zeros(len(reward) - free), np.full(free, -np.inf)])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.searchsorted(column, np.arange(len(reward) + 1))
    lp.a_matrix_.index_, lp.a_matrix_.value_ = row, rows[row, column]
    options: dict[str, Any] = {"output_flag": False, "small_matrix_value": 1e-12}
    options |= {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    # Once in some thousand times the first does not know, with tolerances like these.
    for more in ({"presolve": "off"}, {"presolve": "on"}, {"presolve": "off", "simplex_strategy": 4}):
        h: Any = highspy.Highs()  # type: ignore[no-untyped-call, unused-ignore]
        for name, value in (options | more).items():
            assert h.setOptionValue(name, value) == highspy.HighsStatus.kOk
        h.passModel(lp)
        h.run()
        status = h.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status == highspy.HighsModelStatus.kUnbounded:
            return np.inf
        if status == highspy.HighsModelStatus.kOptimal:
            return -float(h.getInfo().objective_function_value)
    raise AssertionError(h.modelStatusToString(status))


@dataclass(frozen=True)
class Model:
    """Probabilities [state, action, next state], where a row of zeros is no action; rewards [reward, state, action]."""

    moves: Array
    rewards: Array
    start: Array
    #: The block of each state, if blocks are left with tiny probabilities only; then every state can be reached.
    block: NDArray[np.int64] | None = None

    @property
    def has(self) -> NDArray[np.bool_]:
        """Which state has which action."""
        found: NDArray[np.bool_] = self.moves.sum(axis=2) > 0.5
        return found

    def reached(self, start: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """What can be reached from there."""
        edges = self.moves.max(axis=1) > 0
        for _ in range(len(start)):
            start = start | (start @ edges)
        return start

    def ranges(self, choices: NDArray[np.bool_]) -> Array:
        """How far each reward ranges over these choices; a constant one is measured by its size."""
        found = self.rewards[:, choices]
        spread: Array = found.max(axis=1) - found.min(axis=1)
        size = np.abs(found[:, 0])
        return np.where(spread > 0, spread, np.where(size > 0, size, 1.0))

    def end_components(self) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
        """States, and their actions that stay among them, of each maximal end component."""
        kept, states = self.has.copy(), len(self.start)
        while True:
            reach = np.eye(states, dtype=bool) | (np.where(kept[:, :, None], self.moves, 0.0).max(axis=1) > 0)
            for _ in range(states.bit_length()):
                reach = reach @ reach
            same = reach & reach.T
            stays = kept & ~((self.moves > 0) & ~same[:, None, :]).any(axis=2)
            if (stays == kept).all():
                first = same.argmax(axis=1)
                return [
                    (same[s], kept & same[s][:, None]) for s in range(states) if first[s] == s and kept[same[s]].any()
                ]
            kept = stays


class Occupancies:
    """What x can be. Conditions are pairs: of values of reward·x only those at least the bound will do."""

    def __init__(self, model: Model, choices: NDArray[np.bool_] | None = None) -> None:
        self.choices = model.has if choices is None else choices
        owner = np.nonzero(self.choices)[0]
        states, count = len(model.start), len(owner)
        moves = model.moves[self.choices].T
        flow = np.zeros((states, count))
        flow[owner, np.arange(count)] = 1.0
        owners = flow.copy()
        flow -= moves
        if choices is not None or model.block is not None:
            # One end component: where it starts does not matter.
            if model.block is not None:
                balance_blocks(flow, owner, moves, model.block)
            self.rows = np.vstack([flow, np.ones(count)])
            self.right = np.append(np.zeros(states), 1.0)
        else:
            self.rows = np.block([[flow, np.zeros_like(flow)], [owners, flow]])
            self.right = np.concatenate([np.zeros(states), model.start])
        self.count = count

    def best(self, reward: Array, conditions: Sequence[tuple[Array, float]] = ()) -> float | None:
        """The largest reward·x; None if the conditions cannot be met."""
        return self._solve(reward, conditions, np.zeros(0))

    def slack(self, conditions: Sequence[tuple[Array, float]]) -> float:
        """The largest t such that every condition can be met by t more."""
        if not conditions:
            return np.inf
        found = self._solve(np.zeros(self.choices.shape), conditions, np.array([1.0]))
        assert found is not None
        return found

    def _solve(self, reward: Array, conditions: Sequence[tuple[Array, float]], extra: Array) -> float | None:
        width = self.rows.shape[1]
        rows = np.zeros((len(self.rows) + len(conditions), width + len(extra)))
        rows[: len(self.rows), :width] = self.rows
        for i, (values, _) in enumerate(conditions):
            rows[len(self.rows) + i, : self.count] = values[self.choices]
            rows[len(self.rows) + i, width:] = -extra
        low = np.concatenate([self.right, [bound for _, bound in conditions]])
        high = np.concatenate([self.right, np.full(len(conditions), np.inf)])
        costs = np.concatenate([reward[self.choices], np.zeros(width - self.count), extra])
        return linear_program(costs, rows, low, high, len(extra))


def balance_blocks(flow: Array, owner: NDArray[np.int64], moves: Array, block: NDArray[np.int64]) -> None:
    """Replace the balance of each block's first state by that of the block as a whole, divided by its largest entry.

    The sum of a block's rows is what leaves it less what enters it: entries of 1e-9 and less, of which no solver
    would see anything beside probabilities of ordinary size.
    """
    for b in range(block.max() + 1):
        inside = block[owner] == b
        crossing = np.where(inside, moves[block != b].sum(axis=0), -moves[block == b].sum(axis=0))
        flow[np.argmax(block == b)] = crossing / np.abs(crossing).max()


# Models -----------------------------------------------------------------------------------------------------------


def row(rng: np.random.Generator, states: int, among: NDArray[np.int64], must: int | None = None) -> Array:
    """Probabilities of one to three successors among these, one of which must be there."""
    found = np.zeros(states)
    chosen = rng.choice(among, size=min(len(among), int(rng.integers(1, 4))), replace=False)
    if must is not None:
        chosen = np.append(chosen, must)
    np.add.at(found, chosen, rng.dirichlet(np.ones(len(chosen))) + 0.05)
    found /= found.sum()
    return found


def room(rng: np.random.Generator, moves: Array, states: NDArray[np.int64]) -> None:
    """Let these states be one end component: in each an action can lead to the next one."""
    for i, s in enumerate(states):
        count = int(rng.integers(1, moves.shape[1] + 1))
        for a in range(count):
            moves[s, a] = row(rng, len(moves), states, states[(i + 1) % len(states)] if a == 0 else None)


def uniform_rewards(rng: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Four rewards; the second pays for what the first does, or everything would be a matter of luck."""
    rewards = rng.random((4, *shape))
    rewards[1] = 0.7 * (1 - rewards[0]) + 0.3 * rewards[1]
    return rewards


def somewhere(rng: np.random.Generator, states: int) -> Array:
    """One state, or a distribution over a few."""
    start = np.zeros(states)
    chosen = rng.choice(states, size=min(states, int(rng.integers(1, 4))), replace=False)
    start[chosen] = rng.dirichlet(np.ones(len(chosen)))
    start /= start.sum()
    return start


def size(rng: np.random.Generator) -> int:
    """Small mostly."""
    return int(rng.integers(30, 61)) if rng.random() < 0.08 else int(rng.integers(2, 13))


def communicating(rng: np.random.Generator) -> Model:
    states, actions = size(rng), int(rng.integers(2, 5))
    moves = np.zeros((states, actions, states))
    room(rng, moves, np.arange(states))
    return Model(moves, uniform_rewards(rng, (states, actions)), somewhere(rng, states))


def multichain(rng: np.random.Generator) -> Model:
    """Rooms that cannot be left, or only by a choice that gives them up, and states from which one gets there."""
    rooms, outside, actions = int(rng.integers(2, 5)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    sizes = rng.integers(1, 5, size=rooms)
    ends = np.cumsum(sizes)
    states = int(ends[-1]) + outside
    moves = np.zeros((states, actions, states))
    everywhere = np.arange(states)
    for first, end in zip(ends - sizes, ends, strict=True):
        room(rng, moves, np.arange(first, end))
        if rng.random() < 0.4:  # a way out, to later rooms only: what is left stays left
            later = np.arange(end, states - outside)
            if len(later):
                moves[int(rng.integers(first, end)), actions - 1] = row(rng, states, later)
    for s in everywhere[-outside:]:
        for a in range(int(rng.integers(1, actions + 1))):
            moves[s, a] = row(rng, states, everywhere)
    start = np.zeros(states)
    start[-outside:] = rng.dirichlet(np.ones(outside))
    if rng.random() < 0.3:
        start = somewhere(rng, states)
    return Model(moves, uniform_rewards(rng, (states, actions)), start / start.sum())


def transient(rng: np.random.Generator) -> Model:
    """A way that is gone once leads into the room; some states cannot be reached, and have the largest rewards."""
    inside, way, lost, actions = size(rng), int(rng.integers(1, 6)), int(rng.integers(0, 3)), int(rng.integers(2, 4))
    states = inside + way + lost
    moves = np.zeros((states, actions, states))
    room(rng, moves, np.arange(inside))
    for s in range(inside, states):
        for a in range(actions):
            moves[s, a] = row(rng, states, np.arange(s + 1 if s < inside + way else states), must=int(rng.integers(s)))
            if s < inside + way:
                moves[s, a, s + 1 :] = 0.0
                moves[s, a] /= moves[s, a].sum()
    start = np.zeros(states)
    start[inside + way - 1] = 1.0
    rewards = uniform_rewards(rng, (states, actions))
    rewards[:, inside + way :] *= 2.0
    return Model(moves, rewards, start)


def deterministic(rng: np.random.Generator) -> Model:
    """Every action leads to one state; there may be several end components."""
    states, actions = size(rng), int(rng.integers(2, 5))
    moves = np.eye(states)[rng.integers(states, size=(states, actions))]
    if rng.random() < 0.5:
        moves[np.arange(states), 0] = np.roll(np.eye(states), 1, axis=1)
    rewards = rng.integers(0, 4, size=(4, states, actions)).astype(np.float64)
    return Model(moves, rewards, somewhere(rng, states))


def degenerate(rng: np.random.Generator) -> Model:
    """Ties everywhere: halves and ones, rewards of 0 and 1, one reward twice, one action twice."""
    states, actions = int(rng.integers(2, 9)), int(rng.integers(2, 5))
    first, second = rng.integers(states, size=(2, states, actions))
    first[:, 0] = (np.arange(states) + 1) % states
    moves = (np.eye(states)[first] + np.eye(states)[second]) / 2
    rewards = rng.integers(0, 2, size=(4, states, actions)).astype(np.float64)
    rewards[:, 0, 1] = 1.0 - rewards[:, 0, 0]  # none is constant
    if actions > 2:
        moves[:, 2], rewards[:, :, 2] = moves[:, 1], rewards[:, :, 1]
    rewards[3] = rewards[int(rng.integers(1, 3))]
    return Model(moves, rewards, np.eye(states)[0])


def nearly_decomposable(rng: np.random.Generator) -> Model:
    """Rooms in a ring, left with probabilities of 1e-6 to 1e-9."""
    rooms, actions = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    sizes = rng.integers(1, 5, size=rooms)
    ends = np.cumsum(sizes)
    states, tiny = int(ends[-1]), 10.0 ** -rng.uniform(6, 9)
    moves = np.zeros((states, actions, states))
    block = np.repeat(np.arange(rooms), sizes)
    for b, (first, end) in enumerate(zip(ends - sizes, ends, strict=True)):
        room(rng, moves, np.arange(first, end))
        following = np.flatnonzero(block == (b + 1) % rooms)
        for s in range(first, end):
            for a in range(actions):
                # Where it must be possible, and here and there besides.
                if moves[s, a].any() and ((s == first and a == 0) or rng.random() < 0.5):
                    leak = tiny * rng.uniform(0.3, 3)
                    moves[s, a] *= 1 - leak
                    moves[s, a, rng.choice(following)] += leak
    return Model(moves, uniform_rewards(rng, (states, actions)), somewhere(rng, states), block)


def copied(rng: np.random.Generator, model: Model, copies: int) -> Model:
    """Every state several times over: a move leads to the copy of the same number or to the next one, as it happens.

    Copies differ in nothing that matters, so all answers are those of the model, and what holds together still does.
    """
    states, actions, _ = model.moves.shape
    share = rng.uniform(0.2, 0.8, size=(copies, states, actions, states))
    moves = np.zeros((copies, states, actions, copies, states))
    here = np.arange(copies)
    moves[here, :, :, here] = model.moves * share
    moves[here, :, :, (here + 1) % copies] += model.moves * (1.0 - share)
    start = rng.dirichlet(np.ones(copies))[:, None] * model.start
    return Model(
        moves.reshape(copies * states, actions, copies * states),
        np.tile(model.rewards, (1, copies, 1)),
        (start / start.sum()).reshape(-1),
    )


KINDS: dict[str, Callable[[np.random.Generator], Model]] = {
    "communicating": communicating,
    "multichain": multichain,
    "transient": transient,
    "deterministic": deterministic,
    "degenerate": degenerate,
    "nearly decomposable": nearly_decomposable,
}
# Kind, seed, and how many states at least: large models are solved in another way.
CASES = [(kind, seed, 0) for kind in KINDS for seed in SEEDS]
CASES += [(kind, seed, LARGE) for kind in KINDS for seed in SEEDS[::8]]
CASES += [(kind, seed, 0) for kind, seed in FOUND if seed not in SEEDS]


# Questions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """Reward 0 is the objective; `signs` are those in which rewards are good, and requirement i is on reward i + 1."""

    model: Model
    signs: Array
    #: What rewards are multiplied by for acrl.
    scales: Array
    bounds: Array
    #: Whether the bounds are just what can be had, with nothing to spare.
    exact: bool
    #: What acrl is asked about: the model, or a larger one that is the same.
    posed: Model

    @property
    def units(self) -> Array:
        """The range of each reward over the whole model: the unit of relaxations."""
        return self.model.ranges(self.model.has)

    def good(self, i: int) -> Array:
        """Reward i in units of its range, the more the better."""
        found: Array = self.signs[i] / self.units[i] * self.model.rewards[i]
        return found

    def conditions(self) -> list[tuple[Array, float]]:
        """Requirements as conditions on occupancies, in units of ranges."""
        return [
            (self.good(i + 1), float(self.signs[i + 1] * self.bounds[i] / self.units[i + 1]))
            for i in range(len(self.bounds))
        ]

    def ask(self, gap: float = 1e-6) -> acrl.Solution:
        """The solution of acrl."""
        rewards = {f"r{i}": scale * r for i, (scale, r) in enumerate(zip(self.scales, self.posed.rewards, strict=True))}
        requirements = [
            (acrl.at_least if self.signs[i + 1] > 0 else acrl.at_most)(
                f"q{i}", self.scales[i + 1] * c, reward=f"r{i + 1}"
            )
            for i, c in enumerate(self.bounds)
        ]
        objective = acrl.maximize("r0") if self.signs[0] > 0 else acrl.minimize("r0")
        model = acrl.FiniteModel(self.posed.moves, rewards, self.posed.start)
        return acrl.solve(model, objective=objective, requirements=requirements, gap=gap)


def question(kind: str, seed: int, possible: bool, states: int = 0) -> Question:
    """A model, and requirements that can or cannot be met, by a margin; posed with at least so many states."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind), possible])
    model = KINDS[kind](rng)
    requirements = 3 if kind == "degenerate" else int(rng.integers(1, 4))
    model = Model(model.moves, model.rewards[: requirements + 1], model.start, model.block)
    signs = rng.choice([-1.0, 1.0], size=requirements + 1)
    if kind == "degenerate":
        signs[1:] = signs[1]  # so that the reward that is there twice is required twice
    scales = rng.choice([1e-3, 1.0, 1e3], size=requirements + 1)
    exact = possible and kind in ("degenerate", "deterministic") and seed % 3 == 0
    draft = Question(model, signs, scales, np.zeros(requirements), exact, model)
    occupancies, units = Occupancies(model), draft.units
    # A point that can be had: between some that are best for something. Only values can be asked for, one by one.
    shares = rng.dirichlet(np.ones(3))
    point = np.zeros(requirements)
    conditions: list[tuple[Array, float]] = []
    for i in range(requirements):
        most = occupancies.best(draft.good(i + 1), conditions)
        least = occupancies.best(-draft.good(i + 1), conditions)
        assert most is not None
        assert least is not None
        share = 1.0 if exact else 1.0 - 0.6 * shares[i] * rng.random()
        point[i] = -least + share * (most + least)
        # What is exactly the most leaves no room for the rounding of the next one.
        conditions.append((draft.good(i + 1), point[i] - (1e-12 if exact else 0.0)))
    room_left = occupancies.slack([(draft.good(i + 1), point[i]) for i in range(requirements)])
    if possible and not exact:
        point += room_left - rng.uniform(MARGIN, 0.1)
    elif not possible:
        point += room_left + rng.uniform(10 * MARGIN, 0.4)
        loose = point.copy()  # one that has nothing to do with it, unless it was what made it impossible
        loose[int(rng.integers(requirements))] -= rng.uniform(0.2, 2.0)
        if occupancies.slack([(draft.good(i + 1), loose[i]) for i in range(requirements)]) < -MARGIN:
            point = loose
    posed = copied(rng, model, -(-states // len(model.start))) if states > len(model.start) else model
    return Question(model, signs, scales, signs[1:] * point * units[1:], exact, posed)


# Checks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "seed", "states"), CASES)
def test_optimum_and_prices_are_those_of_the_linear_program(kind: str, seed: int, states: int) -> None:
    asked = question(kind, seed, True, states)
    occupancies, conditions = Occupancies(asked.model), asked.conditions()
    assert occupancies.slack(conditions) > (-1e-11 if asked.exact else MARGIN / 2)
    answer = asked.ask()
    assert answer.status == "optimal"
    assert answer.objective is not None
    assert answer.bounds is not None
    best = occupancies.best(asked.good(0), conditions)
    assert best is not None

    # All in the units of the LP, the more the better.
    unit = asked.signs[0] * asked.scales[0] * asked.units[0]
    reachable = asked.model.has & asked.model.reached(asked.model.start > 0)[:, None]
    found, bounds = answer.objective / unit, sorted(bound / unit for bound in answer.bounds)
    scale = max(abs(bounds[0]), abs(bounds[1]), 1e-3 * asked.model.ranges(reachable)[0] / asked.units[0])
    prices = np.array([answer.multipliers[f"q{i}"] for i in range(len(asked.bounds))])
    prices *= asked.scales[1:] * asked.units[1:] / abs(unit)
    given = 1e-7 * prices.sum() + 1e-9 * scale  # HiGHS's own tolerance
    assert (prices >= 0).all()
    assert abs(found - best) <= 1e-6 * scale + given
    assert bounds[0] - given <= best <= bounds[1] + given
    # Where it takes 10⁹ steps to change sides, biases are as large, and doubles leave their bounds seven digits.
    gap = 2e-5 if kind == "nearly decomposable" else 1.000001e-6
    assert bounds[1] - bounds[0] <= gap * scale
    assert bounds[0] - 1e-9 * scale <= found <= bounds[1] + 1e-9 * scale

    # The dual function at these prices is the optimum.
    priced = asked.good(0) + sum(p * values for p, (values, _) in zip(prices, conditions, strict=True))
    dual = occupancies.best(priced)
    assert dual is not None
    dual -= sum(p * bound for p, (_, bound) in zip(prices, conditions, strict=True))
    assert abs(dual - best) <= 1e-6 * scale + given

    check_mixture(asked, answer)
    check_almost_sure(asked, answer)


def check_mixture(asked: Question, answer: acrl.Solution) -> None:
    """The policies of the mixture have the reported values, and the mixture meets the requirements."""
    names = ["r0", *(f"q{i}" for i in range(len(asked.bounds)))]
    units = asked.scales * asked.units
    states = np.arange(len(asked.posed.start))
    total = np.zeros(len(names))
    for part in answer.mixture:
        chain = (asked.posed.moves[states, part.actions] + np.eye(len(states))) / 2
        for _ in range(45):  # the chain, run for 2^45 steps, or until nothing changes
            before, chain = chain, chain @ chain
            chain /= chain.sum(axis=1, keepdims=True)
            if np.abs(chain - before).max() < 1e-14:
                break
        values = asked.scales * (asked.posed.rewards[:, states, part.actions] @ (asked.posed.start @ chain))
        assert np.abs((values - [part.values[name] for name in names]) / units).max() <= 1e-6
        total += part.weight * np.array([part.values[name] for name in names])
    assert sum(part.weight for part in answer.mixture) == pytest.approx(1.0, abs=1e-9)
    assert np.abs((total - [answer.values[name] for name in names]) / units).max() <= 1e-9
    assert (asked.signs[1:] * (total[1:] - asked.scales[1:] * asked.bounds) / units[1:]).min() >= -5e-9


def check_almost_sure(asked: Question, answer: acrl.Solution) -> None:
    """On almost every path: what end components offer that meet the requirements alone, if they are surely reached."""
    model, conditions = asked.model, asked.conditions()
    reached = model.reached(model.start > 0)
    components = [part for part in model.end_components() if (part[0] & reached).any()]
    assert answer.communicating == (len(components) == 1)
    offers: list[tuple[NDArray[np.bool_], float]] = []
    for states, choices in components:
        inside = Occupancies(model, choices) if model.block is None else Occupancies(model)
        if abs(inside.slack(conditions)) < 1e-7 and not (asked.exact and len(components) == 1):
            return  # too close to call
        offer = inside.best(asked.good(0), conditions)
        if offer is not None:
            offers.append((states, offer))
    surely = reach_for_sure(model, offers) if len(components) > 1 else offers[0][1]
    if surely is None:
        assert answer.almost_sure is None
    else:
        assert answer.almost_sure is not None
        unit = asked.signs[0] * asked.scales[0] * asked.units[0]
        assert answer.almost_sure / unit == pytest.approx(surely, rel=2e-6, abs=2e-6)


def reach_for_sure(model: Model, offers: Sequence[tuple[NDArray[np.bool_], float]]) -> float | None:
    """The best expected offer if one goes about until one settles where there is one; None if one cannot for sure."""
    owner = np.nonzero(model.has)[0]
    flow = -model.moves[model.has].T
    flow[owner, np.arange(len(owner))] += 1.0
    most = np.full(len(model.start), -np.inf)
    for states, offer in offers:
        most[states] = offer
    places = np.flatnonzero(np.isfinite(most))
    rows = np.hstack([flow, np.eye(len(most))[:, places]])
    rows = np.vstack([rows, np.concatenate([np.zeros(len(owner)), np.ones(len(places))])])
    right = np.append(model.start, 1.0)
    return linear_program(np.concatenate([np.zeros(len(owner)), most[places]]), rows, right, right)


@pytest.mark.parametrize("seed", SEEDS[::2])
@pytest.mark.parametrize("kind", ["communicating", "multichain", "deterministic", "degenerate"])
def test_price_ranges_are_those_of_the_dual(kind: str, seed: int) -> None:
    """All λ with d(λ) = P*: with g and h that prove it, g ≥ P g and g + h ≥ r₀ + λ·r + P h, d·g - λ·c = P*."""
    asked = question(kind, seed, possible=True)
    model, conditions = asked.model, asked.conditions()
    best = Occupancies(model).best(asked.good(0), conditions)
    assert best is not None
    states, (owner, _) = len(model.start), np.nonzero(model.has)
    flow = np.eye(states)[owner] - model.moves[model.has]
    required = np.array([values[model.has] for values, _ in conditions]).T
    rows = np.block(
        [
            [np.zeros_like(required), flow, np.zeros_like(flow)],
            [-required, np.eye(states)[owner], flow],
            [-np.array([bound for _, bound in conditions]), model.start, np.zeros(states)],
        ]
    )
    low = np.concatenate([np.zeros(len(owner)), asked.good(0)[model.has], [-np.inf]])
    high = np.append(np.full(2 * len(owner), np.inf), best + 1e-11)
    answer = asked.ask()
    for i in range(len(conditions)):
        unit = abs(asked.scales[0] * asked.units[0]) / (asked.scales[i + 1] * asked.units[i + 1])
        for sign, said in zip([-1.0, 1.0], answer.multiplier_ranges[f"q{i}"], strict=True):
            end = linear_program(sign * np.eye(rows.shape[1])[i], rows, low, high, free=2 * states)
            assert end is not None
            assert said / unit == pytest.approx(sign * end, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("kind", "seed", "states"), CASES)
def test_conflicts_and_relaxations_are_those_of_the_linear_program(kind: str, seed: int, states: int) -> None:
    asked = question(kind, seed, False, states)
    occupancies, conditions = Occupancies(asked.model), asked.conditions()
    slack = occupancies.slack(conditions)
    assert slack < -MARGIN / 2
    answer = asked.ask()
    assert answer.status == "infeasible"
    assert answer.objective is None
    everyone = range(len(conditions))

    conflict = [i for i in everyone if f"q{i}" in answer.conflict]
    assert len(conflict) == len(answer.conflict) > 0
    assert occupancies.slack([conditions[i] for i in conflict]) < -1e-9
    for i in conflict:
        assert occupancies.slack([conditions[j] for j in conflict if j != i]) > -1e-7

    # For every policy y·(V - c) < 0.
    units = asked.scales[1:] * asked.units[1:]
    y = np.array([answer.farkas_certificate[f"q{i}"] for i in everyone]) * units
    assert (y >= 0).all()
    assert y.sum() == pytest.approx(1.0)
    most = occupancies.best(np.tensordot(y, np.array([values for values, _ in conditions]), axes=1))
    assert most is not None
    assert slack - 1e-6 <= most - float(y @ [bound for _, bound in conditions]) < 0

    assert answer.relax is not None
    assert answer.relax.uniform == pytest.approx(-slack, abs=3e-6)
    for i in everyone:
        others = [conditions[j] for j in everyone if j != i]
        said, possible = answer.relax.single[f"q{i}"], occupancies.slack(others)
        if abs(possible) < 1e-6:
            continue  # too close to call
        if possible < 0:
            assert said is None
            continue
        most = occupancies.best(conditions[i][0], others)
        assert most is not None
        assert said == pytest.approx(max(0.0, conditions[i][1] - most), rel=3e-6, abs=3e-6)


def test_the_linear_programs_agree_with_each_other() -> None:
    """Where all is one end component the second flow is not needed, and the balance of blocks says nothing new."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        model = communicating(rng)
        reward = model.rewards[0]
        assert Occupancies(model).best(reward) == pytest.approx(Occupancies(model, model.has).best(reward), abs=1e-8)
        block = np.arange(len(model.start)) % 2
        blocks = Model(model.moves, model.rewards, model.start, block)
        assert Occupancies(model).best(reward) == pytest.approx(Occupancies(blocks).best(reward), abs=1e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["communicating", "multichain", "transient", "deterministic"])
def test_storm_agrees(kind: str, seed: int, tmp_path: Path) -> None:
    """Storm approximates the set of values that can be had. Installed by `make check-slow` alone: it is large."""
    stormpy: Any = pytest.importorskip("stormpy")
    for possible in (True, False):
        asked = question(kind, 100 + seed, possible)
        # More than two requirements take it long.
        model = replace(asked.model, rewards=asked.model.rewards[:3])
        scales = np.ones(len(model.rewards))
        asked = replace(asked, model=model, posed=model, signs=asked.signs[:3], scales=scales, bounds=asked.bounds[:2])
        lines = [
            "@type: MDP",
            "@parameters",
            "",
            "@reward_models",
            " ".join(f"r{i}" for i in range(len(model.rewards))),
        ]
        lines += ["@nr_states", str(len(model.start) + 1), "@nr_choices", str(model.has.sum() + 1), "@model"]
        # It takes one initial state, from which the others are drawn.
        for s, moves in enumerate([model.start[None], *model.moves]):
            lines.append(f"state {s}{' init' if s == 0 else ''}")
            for a, outcome in enumerate(moves):
                if outcome.any():
                    earned = model.rewards[:, s - 1, a] if s else np.zeros(len(model.rewards))
                    lines.append(f"\taction {a} [{', '.join(repr(float(r)) for r in earned)}]")
                    lines += [f"\t\t{t + 1} : {float(outcome[t])!r}" for t in np.flatnonzero(outcome)]
        path = tmp_path / "model.drn"
        path.write_text("\n".join(lines) + "\n")
        mdp = stormpy.build_model_from_drn(str(path))
        wanted = [f'R{{"r0"}}{"max" if asked.signs[0] > 0 else "min"}=? [ LRA ]'] if possible else []
        wanted += [
            f'R{{"r{i + 1}"}}{">=" if asked.signs[i + 1] > 0 else "<="}{float(c)!r} [ LRA ]'
            for i, c in enumerate(asked.bounds)
        ]
        if not possible and len(wanted) == 1:
            continue  # Storm wants two
        (formula,) = stormpy.parse_properties(f"multi({', '.join(wanted)})")
        found = stormpy.model_checking(mdp, formula, only_initial_states=True)
        answer = asked.ask()
        if possible:
            assert answer.objective == pytest.approx(float(found.get_value(0)), abs=2e-4 * asked.units[0])
        else:
            assert found.forall_true() == answer.feasible
