"""Runs of a trained policy in an environment of Python."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ._acrl import Requirement
from ._agent import Agent
from ._errors import InputError
from ._lanes import EnvLike, Lanes
from ._policy import Policy
from ._rewards import RewardSpec
from ._run import Run
from ._vocabulary import FloatArray

__all__ = ["run_in"]

#: How many moments of a run are kept.
_MOMENTS = 400
#: The verdicts, the worst one first.
_VERDICTS = ("infeasible", "policy_insufficient", "epoch_too_short", "converging", "met")


def run_in(
    env: EnvLike,
    policy: Policy,
    *,
    rewards: RewardSpec | None,
    requirements: Sequence[Requirement],
    steps: int | None,
    runs: int | None,
    seed: int | None,
    step_size: float | None,
    epoch: int | Literal["auto"] | None,
    tolerance: float | None,
    start: Literal["library", "zero"] | Mapping[str, float] | None,
    steering: Literal["policy", "library"] | None,
) -> Run:
    """What `acrl.run` does with an environment: an agent for each lane."""
    steps, seed = 200_000 if steps is None else int(steps), 0 if seed is None else int(seed)
    tolerance = 0.005 if tolerance is None else float(tolerance)
    if steps < 1:
        raise InputError(f"steps is {steps}, expected a number above 0")
    multipliers = {requirement.name: 0.0 for requirement in policy.requirements} if start == "zero" else start

    def agent(started: Mapping[str, float] | None) -> Agent:
        return Agent(
            policy,
            list(requirements) or None,
            step_size=step_size,
            epoch=epoch,
            tolerance=tolerance,
            steering=steering,
            multipliers=started,
        )

    first = agent(None if isinstance(multipliers, str) else multipliers)
    required, objective = list(first.requirements.values()), policy.objective
    names = list(
        dict.fromkeys([*([] if objective is None else [objective.reward]), *(each.reward for each in required)])
    )
    lanes = Lanes(env, names, num_envs=runs if runs is not None else _lanes_of(env), rewards=rewards, seed=seed)
    if policy._seen is not None and len(lanes.ranges) != policy._seen.width:
        raise InputError(
            f"the environment shows {len(lanes.ranges)} numbers, but the policy was trained on {policy._seen.width}"
        )
    if [n for n, _, _ in lanes.parts] != [n for n, _, _ in policy._file.action_space]:
        raise InputError("the environment has other actions than the one that the policy was trained in")
    started = dict(first.multipliers)
    agents = [first, *(agent(started) for _ in range(1, len(lanes)))]
    watch = _Watch(agents, steps)
    try:
        seen = lanes.reset()
        taken = np.zeros(len(lanes), dtype=np.int64)
        actions = np.empty((len(lanes), len(lanes.parts)))
        while (taken < steps).any():
            for i, each in enumerate(agents):
                actions[i] = each._native.act(seen[i])
            stepped = lanes.step(actions)
            seen = stepped.observations
            named = stepped.rewards.tolist()
            for i in np.flatnonzero(stepped.valid & (taken < steps)).tolist():
                moved = agents[i].observe(dict(zip(names, named[i], strict=True)))
                taken[i] += 1
                watch.step(i, int(taken[i]), moved)
            watch.all(int(taken.min()))
    finally:
        lanes.close()
    return Run._from_json(
        {
            **_outcome(agents, policy, policy.advice.step_size if step_size is None else step_size, tolerance),
            "multipliers": watch.multipliers(),
            "steps": steps,
            "runs": len(agents),
            "epoch": first.epoch,
            "optimum": None,
            "seed": seed,
            "start": started,
        },
        watch.snapshots,
        name=policy._path or (env if isinstance(env, str) else "a policy"),
    )


def _lanes_of(env: Any) -> int | None:
    """One run, unless the environment is several already."""
    return None if hasattr(env, "num_envs") else 1


class _Watch:
    """How averages and multipliers move."""

    def __init__(self, agents: list[Agent], steps: int) -> None:
        self._agents, self._of = agents, steps
        self._tenth = steps // 10
        self.snapshots: list[dict[str, Any]] = []
        self._lambda: list[FloatArray] = [agent._native.multipliers() for agent in agents]
        self._since = [0] * len(agents)
        n = len(agents[0].requirements)
        self._sums = np.zeros((len(agents), n))
        self._least = np.full(n, np.inf)
        self._most = np.full(n, -np.inf)

    def step(self, i: int, taken: int, moved: bool) -> None:
        """After a step of one run."""
        if moved or taken == self._of:
            held = taken - max(self._since[i], self._tenth)
            if held > 0:
                self._sums[i] += held * self._lambda[i]
                self._least = np.minimum(self._least, self._lambda[i])
                self._most = np.maximum(self._most, self._lambda[i])
            self._since[i], self._lambda[i] = taken, self._agents[i]._native.multipliers()

    def multipliers(self) -> dict[str, dict[str, float]]:
        """After the first tenth, over all runs."""
        mean = self._sums.mean(axis=0) / max(self._of - self._tenth, 1)
        last = np.mean(self._lambda, axis=0)
        return {
            name: {
                "last": float(last[i]),
                "mean": float(mean[i]),
                "min": float(self._least[i]),
                "max": float(self._most[i]),
            }
            for i, name in enumerate(self._agents[0].requirements)
        }

    def all(self, taken: int) -> None:
        """After a step of all runs."""
        kept = len(self.snapshots) + 1
        if taken * _MOMENTS < kept * self._of and taken < self._of:
            return
        if self.snapshots and self.snapshots[-1]["steps"] == taken:
            return
        agents = self._agents
        averages = np.array([agent._native.averages() for agent in agents])
        prices = np.array([agent._native.multipliers() for agent in agents])
        shortfalls = np.array([agent._native.shortfalls() for agent in agents])
        objective = agents[0]._objective_name
        self.snapshots.append(
            {
                "steps": taken,
                "total": self._of,
                "runs": len(agents),
                "objective": None if objective is None else _spread(averages[:, 0]),
                "averages": [_spread(column) for column in averages[:, 1:].T],
                "multipliers": [_spread(column) for column in prices.T],
                "first": prices[0].tolist(),
                "shortfalls": shortfalls.max(axis=0).tolist(),
                "tolerances": agents[0]._native.tolerances(agents[0]._tolerance),
            }
        )


def _spread(values: FloatArray) -> list[float]:
    return [float(values.mean()), float(values.min()), float(values.max())]


def _outcome(agents: list[Agent], policy: Policy, step_size: float, tolerance: float) -> dict[str, Any]:
    """What ``acrl run --json`` says of the runs."""
    first, objective = agents[0], policy.objective
    certificates = [agent.certificate for agent in agents]
    tolerances = dict(zip(first.requirements, first._native.tolerances(tolerance), strict=True))
    averages: dict[str, float] = {}
    worst: dict[str, float] = {}
    if objective is not None:
        found = [agent._native.averages()[0] for agent in agents]
        averages[objective.reward] = float(np.mean(found))
        worst[objective.reward] = float(min(found) if objective.goal == "maximize" else max(found))
    requirements: dict[str, dict[str, Any]] = {}
    for name, requirement in first.requirements.items():
        of_runs = [each[name] for each in certificates]
        values = [each.average for each in of_runs]
        least = requirement.direction == "at_least"
        averages.setdefault(name, float(np.mean(values)))
        worst.setdefault(name, float(min(values) if least else max(values)))
        behind = requirement.bound - min(values) if least else max(values) - requirement.bound
        requirements[name] = {
            "bound": requirement.bound,
            "direction": requirement.direction,
            "average": float(np.mean(values)),
            "worst": float(min(values) if least else max(values)),
            "met": all(each.met for each in of_runs),
            "strict": behind <= 0,
            "shortfall": max(behind, 0.0),
            "certificate": max(each.shortfall for each in of_runs),
            "tolerance": tolerances[name],
        }
    diagnoses = [json.loads(agent._native.diagnosis(tolerance)) for agent in agents]
    learner, method, trained, seed = policy._file.training
    return {
        "averages": averages,
        "worst": worst,
        "requirements": requirements,
        "met": all(each["met"] for each in requirements.values()),
        "diagnosis": min(diagnoses, key=lambda each: _VERDICTS.index(each["verdict"])),
        "specification": {
            "objective": None if objective is None else {"reward": objective.reward, "goal": objective.goal},
            "requirements": [
                {"name": name, "reward": each.reward, "direction": each.direction, "bound": each.bound}
                for name, each in first.requirements.items()
            ],
        },
        "step_size": step_size,
        "tolerance": tolerance,
        "policy": {"learner": learner, "method": method, "steps": trained, "seed": seed},
        "steering": policy.advice.steering,
        "fallbacks": sum(agent.steering == "library" for agent in agents),
    }
