"""Trains on a task of Safety-Gymnasium with a bound on the rate of cost, and runs the policy with it, others and none.

    python run.py --steps 200000 --run 15000 --seed 0

Needs an environment of its own: safety-gymnasium 1.0.0 wants gymnasium 0.28 and numpy below 1.24. See README.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import acrl
import numpy as np
import safety_gymnasium
import xmltodict

SUMMARY = Path(__file__).with_name("summary.json")
UNPARSE = xmltodict.unparse


def without_sky(tree: Any, *args: Any, **named: Any) -> Any:
    """A world without the pictures of its sky, which are read anew in every reset: 1.7 of its 1.74 seconds."""
    assets = tree["mujoco"]["asset"]
    assets["texture"] = [texture for texture in assets["texture"] if texture.get("@type") != "skybox"]
    return UNPARSE(tree, *args, **named)


def run(task: str, act: Any, steps: int, seed: int, observe: Any = None) -> dict[str, float]:
    """The averages per step of reward and cost, episode after episode."""
    env = safety_gymnasium.make(task)
    obs, _ = env.reset(seed=seed)
    total = np.zeros(2)
    for _ in range(steps):
        obs, reward, cost, terminated, truncated, _ = env.step(act(obs, env.action_space))
        total += [reward, cost]
        if observe is not None:
            observe({"reward": reward, "cost": cost})
        if terminated or truncated:
            obs, _ = env.reset()
    env.close()
    return {name: float(f"{x:.5g}") for name, x in zip(("reward", "cost"), total / steps, strict=True)}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="SafetyPointGoal1-v0")
    parser.add_argument("--cost", type=float, default=0.025, help="the most cost per step; .025 is 25 in 1,000 steps")
    parser.add_argument("--changed", type=float, nargs="+", default=[0.04, 0.01], help="other bounds, without training")
    parser.add_argument("--learner", default="ppo", choices=["auto", "ppo", "sac"])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--run", type=int, default=15_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scale", type=float, help="the range of the cost's averages; default: measured")
    parser.add_argument("--policy", help="keep the policy in this file")
    parser.add_argument("--load", help="run the policy of this file, and train none")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    xmltodict.unparse = without_sky
    begin, cpu = time.perf_counter(), time.process_time()
    scales = None if args.scale is None else {"cost": args.scale}
    found: dict[str, Any] = {"total_steps": args.steps, "run": args.run, "scale": args.scale}
    if args.load:
        policy = acrl.Policy.load(args.load)
    else:
        policy = acrl.train(
            args.task,
            objective="reward",
            requirements=acrl.at_most("cost", args.cost),
            learner=args.learner,
            total_steps=args.steps,
            seed=args.seed,
            scales=scales,
            progress=False,
            callback=lambda e: (
                e.iteration % 10 or print(e.iteration, e.total, f"{e.seconds:.0f} s", e.metrics["rollout/scalarized_reward"], flush=True)
            ),
        )
        found["seconds"] = round(time.perf_counter() - begin)
        found["cpu_seconds"] = round(time.process_time() - cpu)
    if args.policy:
        policy.save(args.policy)
    rng = np.random.default_rng(args.seed)
    at_random = lambda _, space: rng.uniform(space.low, space.high)  # noqa: E731
    found["random"] = run(args.task, at_random, args.run // 4, 10_000 + args.seed)
    changed = [(f"changed to {bound:g}", bound) for bound in args.changed]
    for which, bound in (("as_trained", args.cost), *changed, ("lifted", 1e3)):
        agent = acrl.Agent(policy, acrl.at_most("cost", bound), scales=scales)
        steps = args.run // 4 if which == "lifted" else args.run
        averages = run(args.task, lambda obs, _, agent=agent: agent.act(obs), steps, 20_000 + args.seed, agent.observe)
        certified = agent.certificate["cost"]
        found[which] = {
            **averages,
            "bound": bound,
            "shortfall": round(certified.certified_shortfall, 6),
            "met": certified.met,
            "scale": round((scales or policy.scales)["cost"], 5),
            "verdict": agent.diagnosis.verdict,
            "multiplier": round(agent.multipliers["cost"], 3),
            "epoch": agent.epoch,
        }
        print(which, json.dumps(found[which]), flush=True)
    summary = json.loads(SUMMARY.read_text()) if SUMMARY.exists() else {}
    summary.setdefault(args.task, []).append({"seed": args.seed, "trained": not args.load, **found})
    SUMMARY.write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
