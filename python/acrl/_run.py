"""Runs and their results."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _acrl
from ._acrl import Objective, Requirement
from ._diagnosis import Diagnosis, diagnosed
from ._errors import InputError
from ._former_names import reject_renamed_arguments
from ._model import FiniteModel
from ._policy import Policy
from ._result import (
    Result,
    Specification,
    dataframe,
    figure,
    html_table,
    relation,
    request,
    seeded,
    settings,
)
from ._specification import FloatArray, Named, Verdict, as_requirements

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ._rewards import RewardSpec
    from ._vector_env import EnvLike

__all__ = ["History", "MultiplierResult", "ObjectiveResult", "RequirementResult", "Run", "run"]


class RequirementResult(NamedTuple):
    """One requirement after some runs. See ``acrl run`` in docs/json.md."""

    bound: float
    direction: Literal["at_least", "at_most"]
    #: Average of its reward over all runs.
    average: float
    #: The average in the worst run.
    worst: float
    #: "satisfied" if the average is on the right side of the bound in every run, "within_tolerance" if the certified
    #: shortfall is at most the tolerance, else "violated".
    verdict: Verdict
    #: Violation of the bound by the average in the worst run; 0 if there is none.
    shortfall: float
    #: Certified shortfall: proven upper bound on the violation in any run.
    certified_shortfall: float
    #: The certified shortfall that is tolerated.
    tolerance: float

    @property
    def met(self) -> bool:
        """True unless violated."""
        return self.verdict != "violated"


class ObjectiveResult(NamedTuple):
    """The objective of some runs beside the optimum. See ``acrl run`` in docs/json.md."""

    reward: str
    #: Mean over runs.
    average: float
    #: The optimum of a finite model, where it is known.
    optimum: float | None
    #: The best mixture of the entries of a trained policy's library.
    estimate: float | None
    #: How far the average is behind the optimum, or else the estimate, as a share of it; negative if it is ahead.
    gap: float | None


class MultiplierResult(NamedTuple):
    """Statistics of a multiplier after the first tenth of the runs; its mean is the price."""

    last: float
    mean: float
    min: float
    max: float


@dataclass(frozen=True, eq=False, repr=False)
class History:
    """Time series of runs, at steps that are spread evenly.

    ``averages`` are running averages; with ``objective`` and ``multipliers`` they have the columns mean, minimum and
    maximum over runs.
    """

    steps: NDArray[np.int64]
    objective: FloatArray | None
    averages: dict[str, FloatArray]
    multipliers: dict[str, FloatArray]
    #: The certified shortfall of the worst run; negative values are guaranteed margin.
    certified_shortfalls: dict[str, FloatArray]

    @classmethod
    def _from_json(cls, snapshots: Sequence[Mapping[str, Any]], names: Sequence[str]) -> History:
        def spreads(key: str, i: int) -> FloatArray:
            return np.array([snapshot[key][i] for snapshot in snapshots], dtype=np.float64).reshape(-1, 3)

        objective = [snapshot["objective"] for snapshot in snapshots]
        return cls(
            steps=np.array([snapshot["steps"] for snapshot in snapshots], dtype=np.int64),
            objective=None if None in objective else np.array(objective, dtype=np.float64).reshape(-1, 3),
            averages={name: spreads("averages", i) for i, name in enumerate(names)},
            multipliers={name: spreads("multipliers", i) for i, name in enumerate(names)},
            certified_shortfalls={
                name: np.array([snapshot["certified_shortfalls"][i] for snapshot in snapshots], dtype=np.float64)
                for i, name in enumerate(names)
            },
        )

    def to_dataframe(self, library: Literal["pandas", "polars"] | None = None) -> Any:
        """A row for each point in time and requirement."""
        rows = [
            {
                "step": int(step),
                "requirement": name,
                "average": float(averages[k, 0]),
                "average_min": float(averages[k, 1]),
                "average_max": float(averages[k, 2]),
                "multiplier": float(self.multipliers[name][k, 0]),
                "certified_shortfall": float(self.certified_shortfalls[name][k]),
            }
            for name, averages in self.averages.items()
            for k, step in enumerate(self.steps)
        ]
        return dataframe("step", rows, library)

    def __repr__(self) -> str:
        last = int(self.steps[-1]) if len(self.steps) else 0
        return (
            f"<acrl.History of {', '.join(self.averages) or 'the objective'}: {len(self.steps)} points of {last} steps>"
        )


@dataclass(frozen=True, repr=False)
class Run(Result):
    """Result of some runs. Its fields are those of ``acrl run --json``; it is true if every requirement is met."""

    #: The verdict on all requirements in all runs.
    verdict: Verdict
    #: Mean over runs, and the worst run.
    averages: Named
    worst: Named
    requirements: dict[str, RequirementResult]
    multipliers: dict[str, MultiplierResult]
    steps: int
    runs: int
    #: Length of the dual epoch at the end.
    epoch: int
    diagnosis: Diagnosis
    specification: Specification
    step_size: float
    tolerance: float
    seed: int
    #: The objective beside the optimum.
    objective: ObjectiveResult | None = None
    #: Initial multipliers of a trained policy.
    start: Named | None = None
    #: The training of the policy.
    policy: dict[str, Any] | None = None
    #: The share of weights that were not covered by the training.
    coverage: dict[str, Any] | None = None
    #: Of a trained policy "policy" or "library"; of a finite problem "stationary", "time_sharing" or "policy".
    executor: Literal["policy", "library", "stationary", "time_sharing"] | None = None
    #: Why this executor was chosen for a finite problem.
    executor_reason: str | None = None
    #: Number of runs that ended with the executor "library".
    runs_on_library: int | None = None
    #: Averages and multipliers over time, if they are known.
    history: History | None = field(default=None, compare=False)
    _data: dict[str, Any] = field(default_factory=dict, compare=False)
    _page: _acrl.Report | None = field(default=None, compare=False)

    @classmethod
    def _from_json(
        cls, data: Mapping[str, Any], snapshots: Sequence[Mapping[str, Any]], page: _acrl.Report | None = None
    ) -> Run:
        """From the object of ``acrl run --json``, the ``data`` of its ``snapshot`` events, and the page."""
        specification = Specification._from_json(data["specification"])
        names = [r.name for r in specification.requirements]
        start = data.get("start")
        return cls(
            verdict=data["verdict"],
            averages=Named(data["averages"]),
            worst=Named(data["worst"]),
            requirements={n: RequirementResult(**entry) for n, entry in data["requirements"].items()},
            multipliers={n: MultiplierResult(**entry) for n, entry in data["multipliers"].items()},
            steps=data["steps"],
            runs=data["runs"],
            epoch=data["epoch"],
            diagnosis=diagnosed(data["diagnosis"], names, data["steps"], "library" if "policy" in data else "model"),
            specification=specification,
            step_size=data["step_size"],
            tolerance=data["tolerance"],
            seed=data["seed"],
            objective=None if data.get("objective") is None else ObjectiveResult(**data["objective"]),
            start=None if start is None else Named(start),
            policy=data.get("policy"),
            coverage=data.get("coverage"),
            executor=data.get("executor"),
            executor_reason=data.get("executor_reason"),
            runs_on_library=data.get("runs_on_library"),
            history=History._from_json(snapshots, names) if snapshots else None,
            _data=dict(data),
            _page=page,
        )

    @property
    def met(self) -> bool:
        """True if no requirement is violated in any run."""
        return self.verdict != "violated"

    def __bool__(self) -> bool:
        return self.met

    def _table(self) -> tuple[str, list[dict[str, Any]]]:
        rows = []
        for name, entry in self.requirements.items():
            price = self.multipliers[name]
            rows.append(
                {"requirement": name, **entry._asdict(), "multiplier": price.mean, "multiplier_last": price.last}
            )
        return "requirement", rows

    def plot(self) -> Figure:
        """Averages against bounds, and multipliers, over time; needs matplotlib. Opens no window."""
        drawn: Figure = _plots("Run").run(self)
        return drawn

    def _headline(self) -> str:
        if not self.requirements:
            return "no requirements"
        if self.verdict == "satisfied":
            return "all requirements satisfied"
        verdicts = [entry.verdict for entry in self.requirements.values()]
        if violated := verdicts.count("violated"):
            return f"{violated} of {len(verdicts)} requirements violated"
        satisfied, within = verdicts.count("satisfied"), verdicts.count("within_tolerance")
        return f"{satisfied} of {len(verdicts)} requirements satisfied, {within} within tolerance"

    def _repr_html_(self) -> str:
        rows: list[list[str | bool | float | None]] = []
        if (objective := self.specification.objective) is not None:
            goal = "max" if objective.sign > 0 else "min"
            name = objective.reward
            rows.append([name, goal, self.averages[name], self.worst[name], None, None, None, None])
        for name, entry in self.requirements.items():
            bound, price = relation(entry.direction, entry.bound), self.multipliers[name].mean
            rows.append([name, bound, entry.average, entry.worst, entry.certified_shortfall, entry.tolerance, price])
            rows[-1].append(entry.verdict.replace("_", " "))
        header = ["", "bound", "average", "worst run", "certified shortfall", "tolerance", "price", "verdict"]
        note = f"({self.runs} × {self.steps} steps, epoch {self.epoch})"
        return html_table(self._headline(), note, header, rows)

    def __repr__(self) -> str:
        averages = ", ".join(f"{name} {figure(value)}" for name, value in self.averages.items())
        verdict = "" if self.met else f" ({self.diagnosis.verdict})"
        return f"<acrl.Run {self._headline()}{verdict}: {averages}; {self.runs} × {self.steps} steps>"


def _plots(what: str) -> Any:
    try:
        from . import _plots
    except ImportError as error:
        raise ImportError(f"{what}.plot needs matplotlib: pip install matplotlib") from error
    return _plots


@reject_renamed_arguments
def run(
    what: Policy | FiniteModel | str | os.PathLike[str],
    *,
    env: EnvLike | None = None,
    rewards: RewardSpec | None = None,
    objective: Objective | str | None = None,
    requirements: Requirement | Iterable[Requirement] = (),
    steps: int | None = None,
    runs: int | None = None,
    seed: int | None = None,
    step_size: float | None = None,
    epoch: int | Literal["auto"] | None = None,
    tolerance: float | None = None,
    init_multipliers: Literal["optimum", "library", "zero"] | Mapping[str, float] | None = None,
    executor: Literal["stationary", "time_sharing", "policy", "library"] | None = None,
) -> Run:
    """Runs an agent that meets its requirements by dual updates while it runs: ``acrl run``.

    The same seed gives the same numbers as the program. Other threads run meanwhile, and Ctrl-C stops it.

    >>> import acrl
    >>> found = acrl.run("monitoring", requirements=acrl.at_least("r1", 0.4), steps=50_000)
    >>> found.met, found.requirements["r1"].bound, round(found.averages["r1"], 2)
    (True, 0.4, 0.4)
    >>> found
    <acrl.Run all requirements satisfied: r0 0.26..., r1 0.4..., r2 0.33...; 1 × 50000 steps>

    Args:
        what: A trained policy or its file (.safetensors), run on the problem that it embeds, and so is the file of a
            solved one; or a finite model, a problem file (.toml), a model file (.drn or .npz), or the name of a bundled
            problem, run with the exact policy.
        env: The environment of a policy of `acrl.train`, with the same types. Each run has a copy of its own.
        rewards: Where its rewards are found; see `acrl.train`.
        objective: The objective: a reward's name is maximised. Default that of the problem; a trained policy has its
            own.
        requirements: Replace those of the problem on the same reward and side, or are added to them. Of a trained
            policy the bounds may be changed, not which rewards are bounded.
        steps: Steps of each run; default the problem's, else 200,000.
        runs: The number of runs; default the problem's, else 1.
        seed: The seed of all randomness; default the problem's, else 0.
        step_size: η of the dual update, in units of the rewards' ranges; default the problem's, else that of a trained
            policy's `ExecutionDefaults`, else 0.5.
        epoch: Steps between two dual updates, or "auto"; default the problem's, else "auto".
        tolerance: The certified shortfall that is tolerated, as a share of what is asked; default the
            problem's, else 0.01.
        init_multipliers: Initial multipliers: those of the optimum of a finite problem, or by a trained policy's
            library (the defaults); zero; or by name.
        executor: What turns multipliers into actions. Of a finite problem "stationary" runs its optimal mixture as one
            randomised policy, "time_sharing" one policy of the mixture after the other, and "policy" acts by π(s, λ)
            as in the paper; default whichever of the first two attains the optimum. Of a trained policy see
            `ExecutionDefaults`; default whichever did better in calibration.
    """
    if isinstance(what, Policy) and what._observation_codec is not None and env is None:
        raise InputError("the policy was trained in a Gymnasium environment: give it by env=")
    if env is not None:
        if not isinstance(what, Policy) or objective is not None:
            raise InputError("with env= expected an acrl.Policy, which has an objective of its own")
        from ._env_run import run_in  # Gymnasium is slow to import

        return run_in(
            env,
            what,
            rewards=rewards,
            requirements=as_requirements(requirements),
            steps=steps,
            runs=runs,
            seed=seeded(seed),
            step_size=step_size,
            epoch=epoch,
            tolerance=tolerance,
            init_multipliers=init_multipliers,
            executor=executor,
        )
    given: dict[str, Any] = {"steps": steps, "runs": runs, "seed": seed, "step_size": step_size, "epoch": epoch}
    given |= {"tolerance": tolerance, "init_multipliers": init_multipliers, "executor": executor}
    asked = request("run", what, objective, requirements, given)
    data, snapshots, page = _acrl.run(
        asked,
        settings(steps, runs, step_size, epoch, tolerance),
        seeded(seed),
        _init_multipliers(init_multipliers),
        executor,
    )
    return Run._from_json(json.loads(data), json.loads(snapshots), page)


def _init_multipliers(given: str | Mapping[str, float] | None) -> tuple[str, list[tuple[str, float]]] | None:
    if given is None:
        return None
    if given == "zero":
        return "", []
    if given in ("optimum", "library"):
        return str(given), []
    if isinstance(given, str):
        raise InputError(f"init_multipliers is {given!r}, expected 'optimum', 'library', 'zero' or multipliers by name")
    return "", [(str(name), float(value)) for name, value in given.items()]
