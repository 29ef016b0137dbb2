"""What a step of an agent costs in Python, and how much of the speed of Rust a batch keeps.

Prints microseconds per `Agent.act` + `Agent.observe` (batch of one, an action at every step) and the time of
`Policy.predict` on a batch beside that of the same policy called in Rust, for a network of two layers of 64. Needs the
package in its release profile: `make bench-python`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import acrl
import numpy as np

DATA = Path(__file__).parents[2] / "tests" / "python" / "data" / "wireless.safetensors"
MOST_PER_STEP = 15.0  # microseconds
LEAST_SHARE = 0.80  # of the speed of Rust


def policy_of(hidden: list[int]) -> acrl.Policy:
    """The policy of the wireless problem with another network: how fast it is does not depend on what it learnt."""
    trained = acrl.Policy.load(DATA)
    trained._file = acrl._acrl.untrained(trained._file, hidden, 0)
    return trained


def seconds(work: Callable[[], Any], calls: int, repeats: int) -> list[float]:
    """Of one call, by turns of so many: few enough that most turns are not interrupted by other processes."""
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        found.append((time.perf_counter() - start) / calls)
    return found


def step(agent: acrl.Agent, obs: Any, rewards: Any) -> Callable[[], Any]:
    """One step of a loop."""

    def work() -> None:
        agent.act(obs)
        agent.observe(rewards)

    return work


def main() -> int:
    """Measures and prints; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--core", type=int, default=None, help="the core to stay on; default the first that is allowed")
    parser.add_argument("--repeats", type=int, default=2000, help="how often each is measured; medians are printed")
    parser.add_argument("--num-envs", type=int, nargs="+", default=[32, 1024, 8192], help="observations in a batch")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 64], help="widths of the hidden layers")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        core = min(os.sched_getaffinity(0)) if args.core is None else args.core
        os.sched_setaffinity(0, {core})
        print(f"on core {core}, medians")
    policy = policy_of(args.hidden)
    rng = np.random.default_rng(0)
    low, high = np.array(policy.observation_space).T
    names = [requirement.reward for requirement in policy.requirements]
    values = [0.4, 0.3, 0.2, 1.0]
    good = True

    print(f"\n{'act + observe':28} {'µs per step':>12} {'target':>8}")
    obs = rng.uniform(low, high)
    for kind, seen, rewards in [
        ("rewards as a dict", obs, dict(zip(names, values, strict=True))),
        ("rewards as a list", obs, values),
        ("rewards as an array", obs, np.array(values)),
        ("observation of float32", obs.astype(np.float32), np.array(values)),
    ]:
        work = step(acrl.Agent(policy, epoch=100), seen, rewards)
        took = 1e6 * statistics.median(seconds(work, 20, args.repeats))
        good &= took <= MOST_PER_STEP
        print(f"{kind:28} {took:12.2f} {MOST_PER_STEP:8.0f}")
    prices = np.ones(len(names))
    one = 1e6 * statistics.median(seconds(lambda: policy.predict(obs, prices), 20, args.repeats))
    print(f"{'Policy.predict of one':28} {one:12.2f}")

    print(f"\n{'Policy.predict of a batch':28} {'Python, µs':>12} {'Rust, µs':>12} {'share':>8} {'target':>8}")
    for num_envs in args.num_envs:
        batch = rng.uniform(low, high, size=(num_envs, len(low)))
        prices = rng.uniform(0, 2, size=(num_envs, len(names)))
        python: list[float] = []
        rust: list[float] = []
        for _ in range(max(10, args.repeats // 10)):  # in turns, so that what the machine does meanwhile hits both
            python += seconds(lambda b=batch, p=prices: policy.predict(b, p), 1, 10)  # type: ignore[misc]
            rust += acrl._acrl.seconds_to_act(policy._file, batch, prices, 10)
        slow, fast = 1e6 * statistics.median(python), 1e6 * statistics.median(rust)
        share = fast / slow
        good &= share >= LEAST_SHARE or num_envs != 1024
        target = f"{LEAST_SHARE:8.0%}" if num_envs == 1024 else ""
        print(f"{f'{num_envs} observations':28} {slow:12.1f} {fast:12.1f} {share:8.0%} {target}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
