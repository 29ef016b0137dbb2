"""Is acrl's PPO the one the README describes? `.venv-bench/bin/python check.py PROGRAM`; status 1 if not.

PROGRAM --check prints a rollout and the parameters before and after some full-batch updates. Here the rollout is replayed
with the formulas of the README in double precision, and the updates are done again by `ppo_jax.update`.
"""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.flatten_util import ravel_pytree

import ppo_jax
import problem

F64 = npt.NDArray[np.float64]
Layers = list[tuple[F64, F64]]

TOLERANCE = {"next observation": 2e-6, "reward": 1e-6, "value": 1e-5, "advantage": 2e-5, "return": 2e-5}
UPDATE_TOLERANCE = 1e-6


def layers(flat: list[float], outputs: int) -> Layers:
    """Weights (inputs x outputs) and biases, from one vector with W row by row and then c."""
    widths = (problem.OBS_DIM, problem.HIDDEN, problem.HIDDEN, outputs)
    values, at, result = np.asarray(flat, np.float64), 0, []
    for n, m in itertools.pairwise(widths):
        weights, bias = values[at : at + n * m].reshape(m, n).T, values[at + n * m : at + (n + 1) * m]
        result.append((weights, bias))
        at += (n + 1) * m
    return result


def forward(net: Layers, x: F64) -> F64:
    """A tanh MLP."""
    for w, b in net[:-1]:
        x = np.tanh(x @ w + b)
    return x @ net[-1][0] + net[-1][1]


def replay(told: dict[str, Any], speed_limit: float) -> dict[str, float]:
    """The largest difference between what is told and what follows from the formulas, by quantity."""
    n, steps = told["num_envs"], told["n_steps"]

    def rows(name: str, blocks: int) -> F64:
        return np.asarray(told[name], np.float64).reshape(-1, blocks, n)

    obs = np.moveaxis(rows("inputs", steps + 1), 0, -1)
    u = np.moveaxis(rows("actions", steps), 0, -1)
    alive, rewards = rows("continues", steps)[0], rows("rewards", steps)[0]
    state, weights = 5.0 * (obs[..., :2] + 1.0), obs[..., 2:]
    norm = np.sqrt((u * u).sum(axis=-1, keepdims=True))
    moved = np.clip(state[:-1] + problem.SAMPLING_TIME * speed_limit * u / np.maximum(norm, 1.0), 0.0, problem.BOX)
    last = np.concatenate((moved / 5.0 - 1.0, weights[:-1]), axis=-1)
    goes_on = alive[..., None] == 1.0

    critic = layers(told["parameters"][1], 1)
    values, last_values = forward(critic, obs)[..., 0], forward(critic, last)[..., 0]
    inside = np.abs(state[:-1, :, None] - np.asarray(problem.CENTRES)).max(axis=-1) <= problem.HALF_SIDE
    expected = (weights[:-1] * inside).sum(axis=-1) + (1.0 - alive) * problem.GAMMA * last_values
    deltas = expected + problem.GAMMA * alive * values[1:] - values[:-1]
    advantages, gae = np.zeros_like(deltas), np.zeros(n)
    for t in reversed(range(steps)):
        gae = deltas[t] + problem.GAMMA * problem.GAE_LAMBDA * alive[t] * gae
        advantages[t] = gae

    ends = np.flatnonzero(alive.min(axis=1) == 0.0)
    if list(ends) != list(range(problem.EPISODE - 1, steps, problem.EPISODE)):
        sys.exit(f"episodes end after the steps {ends}")
    return {
        "next observation": float(np.abs((obs[1:] - last) * goes_on).max()),
        "reward": float(np.abs(expected - rewards).max()),
        "value": float(np.abs(values - rows("values", steps + 1)[0]).max()),
        "advantage": float(np.abs(advantages - rows("advantages", steps)[0]).max()),
        "return": float(np.abs(advantages + values[:-1] - rows("returns", steps)[0]).max()),
    }


def flat(parameters: list[list[float]]) -> tuple[jax.Array, ppo_jax.Unravel]:
    """As `ppo_jax` has them."""
    actor, critic, log_std = parameters
    as_jax = [
        [(jnp.asarray(w, jnp.float32), jnp.asarray(b, jnp.float32)) for w, b in net]
        for net in (layers(actor, problem.ACT_DIM), layers(critic, 1))
    ]
    return ravel_pytree({"policy": as_jax[0], "value": as_jax[1], "log_std": jnp.asarray(log_std, jnp.float32)})


def updates(told: dict[str, Any]) -> tuple[float, float]:
    """How far the parameters moved, and how far from those of `ppo_jax` they ended."""
    total = told["lanes"] * told["decisions"]
    columns = [np.asarray(told["inputs"], np.float32).reshape(problem.OBS_DIM, -1)[:, :total]]
    columns += [np.asarray(told["actions"], np.float32).reshape(problem.ACT_DIM, -1)]
    # Ours leaves the constant out, before and after.
    logs = np.asarray(told["log_probabilities"], np.float32) - problem.ACT_DIM * ppo_jax.HALF_LOG_TWO_PI
    columns += [logs[None], *(np.asarray(told[name], np.float32)[None] for name in ("advantages", "returns"))]
    batch = jnp.asarray(np.concatenate(columns).T.astype(np.float32))
    before, unravel = flat(told["parameters"])
    learner = ppo_jax.Learner(before, jnp.zeros_like(before), jnp.zeros_like(before), jnp.float32(0.0))
    for _ in range(told["updates"]):
        learner, _ = ppo_jax.update(learner, batch, unravel)
    after = flat(told["parameters_after"])[0]
    return float(jnp.abs(after - before).max()), float(jnp.abs(after - learner.params).max())


def main() -> None:
    good = True
    for config in sorted(problem.CONFIGS):
        command = [*sys.argv[1:], "--check", "--config", config, "--speed-limit", "20"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        told = json.loads(done.stdout)
        for name, error in replay(told, 20.0).items():
            good &= error <= TOLERANCE[name]
            print(f"{config}  {name:<17} differs by {error:.1e} (at most {TOLERANCE[name]:.0e} is right)")
        moved, apart = updates(told)
        good &= apart <= UPDATE_TOLERANCE and math.isfinite(moved)
        print(f"{config}  {told['updates']} updates moved parameters by {moved:.1e}, {apart:.1e} from those of jax")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
