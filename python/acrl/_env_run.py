"""Runs of a trained policy in a Gymnasium environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ._acrl import Requirement
from ._agent import Agent
from ._errors import InputError
from ._policy import Policy
from ._rewards import RewardSpec
from ._run import Run
from ._specification import FloatArray
from ._vector_env import EnvBatch, EnvLike

__all__ = ["run_in"]

#: Points of the history of a run.
_SNAPSHOTS = 400
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
    init_multipliers: Literal["library", "zero"] | Mapping[str, float] | None,
    executor: Literal["policy", "library"] | None,
) -> Run:
    """`acrl.run` with an environment: an agent for each copy of it."""
    steps, seed = 200_000 if steps is None else int(steps), 0 if seed is None else int(seed)
    tolerance = 0.005 if tolerance is None else float(tolerance)
    if steps < 1:
        raise InputError(f"steps is {steps}, expected a number above 0")
    given = init_multipliers
    if given == "zero":
        given = {requirement.name: 0.0 for requirement in policy.requirements}

    def agent(started: Mapping[str, float] | None) -> Agent:
        return Agent(
            policy,
            list(requirements) or None,
            step_size=step_size,
            epoch=epoch,
            tolerance=tolerance,
            executor=executor,
            init_multipliers=started,
        )

    first = agent(None if isinstance(given, str) else given)
    required, objective = list(first.requirements.values()), policy.objective
    names = list(
        dict.fromkeys([*([] if objective is None else [objective.reward]), *(each.reward for each in required)])
    )
    envs = EnvBatch(env, names, num_envs=runs if runs is not None else _num_envs(env), rewards=rewards, seed=seed)
    width = None if policy._observation_codec is None else policy._observation_codec.width
    if width is not None and len(envs.ranges) != width:
        raise InputError(
            f"an observation of the environment has {len(envs.ranges)} numbers, but the policy was trained on {width}"
        )
    if [n for n, _, _ in envs.parts] != [n for n, _, _ in policy._file.action_space]:
        raise InputError("the environment has other actions than the one that the policy was trained in")
    started = dict(first.multipliers)
    agents = [first, *(agent(started) for _ in range(1, len(envs)))]
    recorder = _Recorder(agents, steps)
    try:
        obs = envs.reset()
        taken = np.zeros(len(envs), dtype=np.int64)
        actions = np.empty((len(envs), len(envs.parts)))
        while (taken < steps).any():
            for i, each in enumerate(agents):
                actions[i] = each._native.act(obs[i])
            step = envs.step(actions)
            obs = step.observations
            named = step.rewards.tolist()
            for i in np.flatnonzero(step.mask & (taken < steps)).tolist():
                updated = agents[i].observe(dict(zip(names, named[i], strict=True)))
                taken[i] += 1
                recorder.step(i, int(taken[i]), updated)
            recorder.snapshot(int(taken.min()))
    finally:
        envs.close()
    return Run._from_json(
        {
            **_outcome(
                agents, policy, policy.execution_defaults.step_size if step_size is None else step_size, tolerance
            ),
            "multipliers": recorder.multipliers(),
            "steps": steps,
            "runs": len(agents),
            "epoch": first.epoch,
            "optimum": None,
            "seed": seed,
            "start": started,
        },
        recorder.snapshots,
        name=policy._path or (env if isinstance(env, str) else "a policy"),
    )


def _num_envs(env: Any) -> int | None:
    """One run, unless it is a vector environment."""
    return None if hasattr(env, "num_envs") else 1


class _Recorder:
    """The history of averages and multipliers."""

    def __init__(self, agents: list[Agent], steps: int) -> None:
        self._agents, self._total = agents, steps
        self._tenth = steps // 10
        self.snapshots: list[dict[str, Any]] = []
        self._lambda: list[FloatArray] = [agent._native.multipliers() for agent in agents]
        self._since = [0] * len(agents)
        n = len(agents[0].requirements)
        self._sums = np.zeros((len(agents), n))
        self._min = np.full(n, np.inf)
        self._max = np.full(n, -np.inf)

    def step(self, i: int, taken: int, updated: bool) -> None:
        """After a step of one run."""
        if updated or taken == self._total:
            held = taken - max(self._since[i], self._tenth)
            if held > 0:
                self._sums[i] += held * self._lambda[i]
                self._min = np.minimum(self._min, self._lambda[i])
                self._max = np.maximum(self._max, self._lambda[i])
            self._since[i], self._lambda[i] = taken, self._agents[i]._native.multipliers()

    def multipliers(self) -> dict[str, dict[str, float]]:
        """Statistics after the first tenth, over all runs."""
        mean = self._sums.mean(axis=0) / max(self._total - self._tenth, 1)
        last = np.mean(self._lambda, axis=0)
        return {
            name: {
                "last": float(last[i]),
                "mean": float(mean[i]),
                "min": float(self._min[i]),
                "max": float(self._max[i]),
            }
            for i, name in enumerate(self._agents[0].requirements)
        }

    def snapshot(self, taken: int) -> None:
        """After a step of all runs."""
        kept = len(self.snapshots) + 1
        if taken * _SNAPSHOTS < kept * self._total and taken < self._total:
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
                "total": self._total,
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
    """The keys of ``acrl run --json`` that concern the outcome."""
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
            "certified_shortfall": max(each.shortfall for each in of_runs),
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
        "executor": policy.execution_defaults.executor,
        "runs_on_library": sum(agent.executor == "library" for agent in agents),
    }
