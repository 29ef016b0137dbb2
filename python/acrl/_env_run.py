"""Runs of a trained policy in a Gymnasium environment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from . import _acrl
from ._acrl import Requirement
from ._errors import InputError
from ._policy import Policy
from ._result import call, seeded, settings
from ._rewards import RewardSpec
from ._run import Run, _init_multipliers
from ._solved_policy import SolvedPolicy
from ._vector_env import EnvBatch, EnvLike

__all__ = ["run_in"]


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
    init_multipliers: Literal["optimum", "library", "zero"] | Mapping[str, float] | None,
    executor: Literal["stationary", "time_sharing", "policy", "library"] | None,
) -> Run:
    """`acrl.run` with an environment: steps a copy of it for each run, and leaves the rest to the native half."""
    if isinstance(policy, SolvedPolicy):
        raise InputError(
            "a solved policy runs in its own model: leave out env=, or use acrl.Agent in a loop of your own"
        )
    names = [] if policy.objective is None else [policy.objective.reward]
    names = list(dict.fromkeys([*names, *(requirement.reward for requirement in policy.requirements)]))
    given: dict[str, Any] = {"steps": steps, "runs": runs, "seed": seed, "step_size": step_size, "epoch": epoch}
    given |= {"tolerance": tolerance, "init_multipliers": init_multipliers, "executor": executor}
    options = settings(steps, runs, step_size, epoch, tolerance)
    num_envs = runs if runs is not None or hasattr(env, "num_envs") else 1
    envs = EnvBatch(env, names, num_envs=num_envs, rewards=rewards, seed=seeded(seed) or 0)
    try:
        width = len(policy._file.observation_space)
        if len(envs.ranges) != width:
            raise InputError(
                f"an observation of the environment has {len(envs.ranges)} numbers, but the policy was trained on "
                f"{width}"
            )
        if [n for n, _, _ in envs.parts] != [n for n, _, _ in policy._file.action_space]:
            raise InputError("the environment has other actions than the one that the policy was trained in")
        name = policy._path or "a policy"
        run = _acrl.ExternalRun(
            name,
            policy._file,
            requirements,
            options,
            seeded(seed),
            _init_multipliers(init_multipliers),
            executor,
            len(envs),
        )
        obs, over = envs.reset(), False
        while not over:
            step = envs.step(run.act(obs))
            obs = step.observations
            over = run.observe(step.rewards, obs, step.final_observations, step.terminated, step.truncated, step.mask)
    finally:
        envs.close()
    shown = {"env": env if isinstance(env, str) else None, "requirements": requirements or None, **given}
    data, snapshots, page = run.finish(call("run", policy, shown))
    return Run._from_json(json.loads(data), json.loads(snapshots), page)
