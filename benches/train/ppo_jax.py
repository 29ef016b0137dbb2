"""PPO in JAX: environment, rollout and update in one jitted program, `lax.scan` throughout; compilation is not timed.

Written for speed: the value network is evaluated once per rollout for the whole batch, random numbers are
drawn once per rollout, parameters live in one flat vector so that clipping and Adam are one fused kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

import problem
from problem import CONFIGS, EPISODE, GAMMA, Config

Array = jax.Array
Params = dict[str, Any]
Unravel = Callable[[Array], Params]

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class World(NamedTuple):
    """All environments; `clock` is common to them."""

    state: Array
    weights: Array
    clock: Array


class Learner(NamedTuple):
    """Flat parameters and Adam's moments."""

    params: Array
    first: Array
    second: Array
    updates: Array


def init_params(key: Array) -> Params:
    """Orthogonal weights, zero biases."""
    keys = iter(jax.random.split(key, 6))

    def mlp(outputs: int, gain: float) -> list[tuple[Array, Array]]:
        sizes = (problem.OBS_DIM, problem.HIDDEN, problem.HIDDEN, outputs)
        gains = (math.sqrt(2.0), math.sqrt(2.0), gain)
        return [
            (jax.nn.initializers.orthogonal(g)(next(keys), (n, m)), jnp.zeros(m))
            for n, m, g in zip(sizes, sizes[1:], gains, strict=False)
        ]

    return {
        "policy": mlp(problem.ACT_DIM, 0.01),
        "value": mlp(1, 1.0),
        "log_std": jnp.full(problem.ACT_DIM, problem.LOG_STD_INIT),
    }


def forward(layers: list[tuple[Array, Array]], x: Array) -> Array:
    """A tanh MLP."""
    for w, b in layers[:-1]:
        x = jnp.tanh(x @ w + b)
    w, b = layers[-1]
    return x @ w + b


def draw(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Starting states, uniform in the box, and weights, uniform on the simplex."""
    k1, k2 = jax.random.split(key)
    state = problem.BOX * jax.random.uniform(k1, (*shape, 2))
    draws = jax.random.exponential(k2, (*shape, 4))
    return state, draws / draws.sum(axis=-1, keepdims=True)


def observe(state: Array, weights: Array) -> Array:
    """(s/5 - 1, lambda)."""
    return jnp.concatenate((state / 5.0 - 1.0, weights), axis=-1)


def rollout(params: Params, world: World, key: Array, config: Config, speed_limit: float) -> tuple[World, Array, Array]:
    """Steps all environments through the horizon; returns the batch, one row per step, and the mean rewards."""
    horizon, envs = config.horizon, config.envs
    stride = problem.SAMPLING_TIME * speed_limit
    centres = jnp.asarray(problem.CENTRES, jnp.float32)
    events = horizon // EPISODE + 1  # at most this many truncations in a rollout
    k_noise, k_reset = jax.random.split(key)
    noise = jax.random.normal(k_noise, (horizon, envs, problem.ACT_DIM))
    fresh_state, fresh_weights = draw(k_reset, (events, envs))
    std = jnp.exp(params["log_std"])

    def step(world: World, noise: Array) -> tuple[World, tuple[Array, Array, Array, Array]]:
        obs = observe(world.state, world.weights)
        u = forward(params["policy"], obs) + std * noise
        inside = jnp.abs(world.state[:, None, :] - centres).max(axis=-1) <= problem.HALF_SIDE
        reward = (world.weights * inside).sum(axis=-1)
        norm = jnp.sqrt((u * u).sum(axis=-1, keepdims=True))
        state = jnp.clip(world.state + stride * u / jnp.maximum(norm, 1.0), 0.0, problem.BOX)
        clock = world.clock + 1
        ended = clock % EPISODE == 0
        event = clock // EPISODE - 1
        moved = World(
            jnp.where(ended, fresh_state[event], state),
            jnp.where(ended, fresh_weights[event], world.weights),
            clock,
        )
        return moved, (obs, u, reward, state)

    first_clock = world.clock
    world, (obs, u, rewards, moved) = lax.scan(step, world, noise)
    world = world._replace(clock=world.clock % EPISODE)

    # Values of all observations and of the one after the rollout, and of the last ones of ended episodes.
    after = observe(world.state, world.weights)[None]
    values = forward(params["value"], jnp.concatenate((obs, after)))[..., 0]
    when = EPISODE * (jnp.arange(events) + 1) - 1 - first_clock
    inside_rollout = when < horizon
    when = jnp.minimum(when, horizon - 1)
    last_values = forward(params["value"], observe(moved[when], obs[when, :, 2:]))[..., 0]
    ended = jnp.zeros(horizon).at[when].max(inside_rollout.astype(jnp.float32))
    bootstrapped = rewards.at[when].add(jnp.where(inside_rollout[:, None], GAMMA * last_values, 0.0))
    alive = (1.0 - ended)[:, None]
    deltas = bootstrapped + GAMMA * alive * values[1:] - values[:-1]

    def discount(gae: Array, x: tuple[Array, Array]) -> tuple[Array, Array]:
        delta, alive = x
        gae = delta + GAMMA * problem.GAE_LAMBDA * alive * gae
        return gae, gae

    _, advantages = lax.scan(discount, jnp.zeros(envs), (deltas, alive), reverse=True, unroll=8)
    logprobs = -(0.5 * noise**2 + params["log_std"] + HALF_LOG_TWO_PI).sum(axis=-1)
    # One row per step (obs, u, logprob, advantage, return), so that shuffling is one gather.
    columns = (obs, u, logprobs[..., None], advantages[..., None], (advantages + values[:-1])[..., None])
    batch = jnp.concatenate(columns, axis=-1).reshape(config.rollout, -1)
    return world, batch, rewards.mean(axis=1)


def loss(flat: Array, rows: Array, unravel: Unravel) -> Array:
    """PPO's loss on a minibatch of rows (obs, u, logprob, advantage, return)."""
    params = unravel(flat)
    obs, u, old, adv, returns = rows[:, :6], rows[:, 6:8], rows[:, 8], rows[:, 9], rows[:, 10]
    log_std = params["log_std"]
    z = (u - forward(params["policy"], obs)) * jnp.exp(-log_std)
    ratio = jnp.exp(-(0.5 * z**2 + log_std + HALF_LOG_TWO_PI).sum(axis=-1) - old)
    adv = (adv - adv.mean()) / (adv.std(ddof=1) + 1e-8)
    clipped = jnp.clip(ratio, 1.0 - problem.CLIP, 1.0 + problem.CLIP)
    policy_loss = -jnp.minimum(adv * ratio, adv * clipped).mean()
    value_loss = ((forward(params["value"], obs)[:, 0] - returns) ** 2).mean()
    return policy_loss + problem.VALUE_COEF * value_loss


def update(learner: Learner, rows: Array, unravel: Unravel) -> tuple[Learner, None]:
    """One clipped gradient step of Adam."""
    grad = jax.grad(loss)(learner.params, rows, unravel)
    grad = grad * jnp.minimum(1.0, problem.MAX_GRAD_NORM / (jnp.sqrt((grad * grad).sum()) + 1e-6))
    updates = learner.updates + 1.0
    first = 0.9 * learner.first + 0.1 * grad
    second = 0.999 * learner.second + 0.001 * grad * grad
    scale = jnp.sqrt(second / (1.0 - 0.999**updates)) + problem.ADAM_EPS
    params = learner.params - problem.LEARNING_RATE / (1.0 - 0.9**updates) * first / scale
    return Learner(params, first, second, updates), None


def train(key: Array, config: Config, iterations: int, speed_limit: float) -> Array:
    """Returns the mean reward of each vector step."""
    k_params, k_world, k_loop = jax.random.split(key, 3)
    flat, unravel = ravel_pytree(init_params(k_params))

    def iteration(carry: tuple[Learner, World], key: Array) -> tuple[tuple[Learner, World], Array]:
        learner, world = carry
        k_rollout, k_shuffle = jax.random.split(key)
        world, batch, rewards = rollout(unravel(learner.params), world, k_rollout, config, speed_limit)

        def one_pass(learner: Learner, key: Array) -> tuple[Learner, None]:
            rows = batch[jax.random.permutation(key, config.rollout)]
            return lax.scan(
                partial(update, unravel=unravel), learner, rows.reshape(-1, config.minibatch, rows.shape[-1])
            )

        learner, _ = lax.scan(one_pass, learner, jax.random.split(k_shuffle, config.passes))
        return (learner, world), rewards

    world = World(*draw(k_world, (config.envs,)), jnp.int32(0))
    learner = Learner(flat, jnp.zeros_like(flat), jnp.zeros_like(flat), jnp.float32(0.0))
    _, rewards = lax.scan(iteration, (learner, world), jax.random.split(k_loop, iterations))
    return rewards.reshape(-1)


def main() -> None:
    args = problem.command_line(__doc__ or "").parse_args()
    config = CONFIGS[args.config]
    iterations = problem.iterations(args.steps, config)
    key = jax.random.key(args.seed)
    run = partial(train, config=config, iterations=iterations, speed_limit=args.speed_limit)
    compiled = jax.jit(run).lower(key).compile()
    watch = problem.Stopwatch()
    rewards = compiled(key).block_until_ready()
    elapsed = watch.read()
    problem.report(args, "jax", jax.__version__, elapsed, [float(r) for r in rewards])


if __name__ == "__main__":
    main()
