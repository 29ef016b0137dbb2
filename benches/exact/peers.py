"""One peer of `make bench-exact` on one model: the occupancy LP or its dual, or a multi-objective query.

    python peers.py highs-simplex model.npz --maximize r0 --require 'r1>=0.2'

The last line of output is a JSON object; its `cpu_seconds` are those of solving, `build_seconds` those of reading the
file and stating the problem.

    max r0.x  over x >= 0  with  sum_a x(s, a) = sum_(s', a) P(s | s', a) x(s', a),  sum x = 1,  r_i.x >= c_i
"""

from __future__ import annotations

import argparse
import json
import math
import re
import resource
import tempfile
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import models
import numpy as np
from numpy.typing import NDArray

Result = dict[str, Any]
Floats = NDArray[np.float64]


class Question(NamedTuple):
    """What is asked of a model: the objective, and (name, direction, bound) of each requirement."""

    objective: str
    maximize: bool
    requirements: list[tuple[str, str, float]]


class Program:
    """min cost.x over x >= 0 with low <= A x <= high; A by columns."""

    def __init__(self, model: models.Model, question: Question) -> None:
        import scipy.sparse as sparse

        moves = sparse.csr_array((model.data, model.indices, model.indptr), shape=(model.choices, model.states))
        leaves = sparse.csr_array((np.ones(model.choices), (np.arange(model.choices), model.owner)), shape=moves.shape)
        rows = [(leaves - moves).T, np.ones((1, model.choices))]
        low, high = [np.zeros(model.states), np.ones(1)], [np.zeros(model.states), np.ones(1)]
        for name, direction, bound in question.requirements:
            rows.append(model.rewards[model.names.index(name)][None])
            low.append(np.array([bound if direction == ">=" else -math.inf]))
            high.append(np.array([bound if direction == "<=" else math.inf]))
        self.a = sparse.vstack([sparse.csr_array(row) for row in rows]).tocsc()
        self.low, self.high = np.concatenate(low), np.concatenate(high)
        self.sign = -1.0 if question.maximize else 1.0
        self.cost: Floats = self.sign * model.rewards[model.names.index(question.objective)]
        self.equal = model.states + 1


def highs(solver: str, crossover: bool) -> Callable[[models.Model, Question], Callable[[], Result]]:
    """HiGHS in one of its modes."""

    def prepare(model: models.Model, question: Question) -> Callable[[], Result]:
        import highspy

        program, h = Program(model, question), highspy.Highs()
        options = {"output_flag": False, "threads": 1, "parallel": "off"}
        options |= {"solver": solver, "run_crossover": "on" if crossover else "off"}
        for name, value in options.items():
            if h.setOptionValue(name, value) != highspy.HighsStatus.kOk:
                raise SystemExit(f"HiGHS refuses {name} = {value}")
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = program.a.shape
        lp.col_cost_, lp.row_lower_, lp.row_upper_ = program.cost, program.low, program.high
        lp.col_lower_, lp.col_upper_ = np.zeros(lp.num_col_), np.full(lp.num_col_, highspy.kHighsInf)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_, lp.a_matrix_.index_ = program.a.indptr, program.a.indices
        lp.a_matrix_.value_ = program.a.data
        h.passModel(lp)

        def solve() -> Result:
            h.run()
            status = h.modelStatusToString(h.getModelStatus()).lower()
            found = h.getInfo().objective_function_value * program.sign if status == "optimal" else None
            return {"status": status, "objective": found, "version": f"HiGHS {h.version()}"}

        return solve

    return prepare


def clarabel(method: str, model: models.Model, question: Question) -> Callable[[], Result]:
    """Clarabel on the dual, which is the form it solves fastest: A y + s = b with s >= 0.

    min g - l.c  over g, h and l >= 0  with  g + h(s) >= r0(s, a) + l.r(s, a) + sum_s' P(s' | s, a) h(s')
    """
    import clarabel as peer
    import scipy.sparse as sparse

    program = Program(model, question)
    a, equal = program.a.tocsr(), program.equal
    # Requirements in the sense of at least.
    above = np.isfinite(program.low[equal:])
    sign = np.where(above, 1.0, -1.0)
    bounds = sign * np.where(above, program.low[equal:], program.high[equal:])
    left = sparse.vstack([-a[:equal], sparse.diags_array(sign) @ a[equal:]]).T
    prices = sparse.hstack([sparse.csr_array((len(sign), equal)), -sparse.eye_array(len(sign))])
    right = np.concatenate([program.cost, np.zeros(len(sign))])
    cost = np.concatenate([np.zeros(model.states), [1.0], -bounds])
    settings = peer.DefaultSettings()
    settings.verbose, settings.max_threads, settings.direct_solve_method = False, 1, method
    solver = peer.DefaultSolver(
        sparse.csc_matrix((len(cost), len(cost))),
        cost,
        sparse.csc_matrix(sparse.vstack([left, prices])),
        right,
        [peer.NonnegativeConeT(len(right))],
        settings,
    )

    def solve() -> Result:
        solution = solver.solve()
        status = str(solution.status).lower()
        status = {"solved": "optimal", "dualinfeasible": "infeasible"}.get(status, status)
        found = -solution.obj_val * program.sign if "solved" in status or status == "optimal" else None
        return {"status": status, "objective": found, "version": f"clarabel {version('clarabel')}"}

    return solve


def storm(model: models.Model, question: Question) -> Callable[[], Result]:
    """Storm: a multi-objective query of long-run averages; it gives a value only."""
    import stormpy

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.drn"
        model.save_drn(path)
        mdp = stormpy.build_model_from_drn(str(path))
    best = f'R{{"{question.objective}"}}{"max" if question.maximize else "min"}=? [ LRA ]'
    asked = [f'R{{"{name}"}}{direction}{bound!r} [ LRA ]' for name, direction, bound in question.requirements]
    (formula,) = stormpy.parse_properties(f"multi({', '.join([best, *asked])})")

    def solve() -> Result:
        found = stormpy.model_checking(mdp, formula, only_initial_states=True)
        known = hasattr(found, "get_value")  # else it is a plain "no"
        return {
            "status": "optimal" if known else "infeasible",
            "objective": float(found.get_value(model.initial)) if known else None,
            "version": f"Storm {version('stormpy')}",
        }

    return solve


#: By name: reads a model and gives what is to be timed.
PEERS: dict[str, Callable[[models.Model, Question], Callable[[], Result]]] = {
    "highs-simplex": highs("simplex", crossover=False),
    "highs-ipm": highs("ipx", crossover=False),
    "highs-ipm-crossover": highs("ipx", crossover=True),
    "highs-hipo": highs("hipo", crossover=False),
    "highs-hipo-crossover": highs("hipo", crossover=True),
    "highs-pdlp": highs("pdlp", crossover=False),
    "clarabel": partial(clarabel, "qdldl"),
    "clarabel-faer": partial(clarabel, "faer"),
    "storm": storm,
}


def seconds() -> float:
    """CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Solve, and tell what it cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("file", type=Path)
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--maximize")
    goal.add_argument("--minimize")
    parser.add_argument("--require", action="append", default=[])
    args = parser.parse_args()

    required = []
    for condition in args.require:
        name, direction, bound = re.split("(>=|<=)", condition)
        required.append((name, direction, float(bound)))
    question = Question(args.maximize or args.minimize, args.maximize is not None, required)
    before = seconds()
    solve = PEERS[args.peer](models.load(args.file), question)
    built = seconds()
    result = solve()
    print(json.dumps(result | {"cpu_seconds": seconds() - built, "build_seconds": built - before}))


if __name__ == "__main__":
    main()
