"""acrl.train(learner="sac") with its defaults on Gymnasium tasks, beside Stable-Baselines3 with fixed penalties.

    python run.py                                      # all tasks, seeds 0 and 1, 200,000 steps, with the peers
    python run.py --tasks Hopper-v5 --seeds 5 --no-peers

Each task has an objective and two requirements (tasks.py). acrl trains one policy and runs it with the bounds of the
training and with two changed sets. A peer trains a policy for each of four penalties; for each set of bounds the best
one that satisfies it counts. Results are added to summary.json; what is there with the same settings is not done again.
Needs acrl, gymnasium[mujoco,box2d] and numpy; the peers get an environment of their own on first use.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

import acrl
from tasks import TASKS, Task

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv-peers"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = HERE / "requirements-peers.txt"
#: Penalties of the peers, in units of the objective for a cost as large as its bound.
PENALTIES = (0.1, 0.3, 1.0, 3.0)
#: Steps of each run of a trained policy.
RUN = 50_000


def requirements(task: Task, bounds: tuple[float, ...]) -> list[acrl.Requirement]:
    sides = {"at_most": acrl.at_most, "at_least": acrl.at_least}
    return [sides[side](name, bound) for (name, side), bound in zip(task.required, bounds, strict=True)]


def train_acrl(task: Task, seed: int, steps: int) -> dict[str, Any]:
    """One policy, and its runs with all sets of bounds."""
    began = time.process_time()
    training = acrl.Training(
        task.env,
        objective=task.objective if task.maximize else acrl.minimize(task.objective),
        requirements=requirements(task, task.bounds[0]),
        rewards=task.rewards,
        learner="sac",
        total_steps=steps,
        seed=seed,
        progress=False,
    )
    policy = training.run()
    seconds, evaluation, sets = time.process_time() - began, training.steps - steps, []
    for k, bounds in enumerate(task.bounds):
        asked = requirements(task, bounds)
        run = acrl.run(
            policy, env=task.env, rewards=task.rewards, requirements=asked, steps=RUN, runs=1, seed=1000 * k + seed
        )
        averages = {name: float(value) for name, value in run.averages.items()}
        satisfied = task.satisfied(averages, bounds)
        sets.append({"averages": averages, "verdict": run.verdict, "satisfied": satisfied})
    return {"sets": sets, "cpu_seconds": seconds, "evaluation_steps": evaluation}


def install_peers() -> None:
    """Installs the peers unless these requirements are already installed."""
    wanted, stamp = REQUIREMENTS.read_text(), VENV / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("installing the peers (a few minutes, several GB) ...", file=sys.stderr, flush=True)
    venv.create(VENV, with_pip=True)
    (VENV / ".gitignore").write_text("*\n")
    subprocess.run([PYTHON, "-m", "pip", "install", "-q", "-r", REQUIREMENTS], check=True)
    stamp.write_text(wanted)


def train_peer(learner: str, name: str, seed: int, steps: int) -> dict[str, Any]:
    """A policy for each penalty, and the best of them for each set of bounds."""
    task, policies = TASKS[name], []
    for penalty in PENALTIES:
        command = [PYTHON, HERE / "peer.py", learner, name, penalty, "--steps", steps, "--run", RUN, "--seed", seed]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            policies.append({"penalty": penalty, "error": done.stderr.strip().splitlines()[-1:]})
            continue
        policies.append({"penalty": penalty, **json.loads(done.stdout.splitlines()[-1])})
    sets = []
    for bounds in task.bounds:
        good = [p for p in policies if "averages" in p and task.satisfied(p["averages"], bounds)]
        best = max(good, key=lambda p: task.signed(p["averages"]), default=None)
        sets.append(
            {"averages": best["averages"] if best else None, "penalty": best["penalty"] if best else None}
            | {"satisfied": best is not None}
        )
    seconds = sum(policy.get("cpu_seconds", 0.0) for policy in policies)
    return {"sets": sets, "policies": policies, "cpu_seconds": seconds}


def table(results: list[dict[str, Any]]) -> str:
    """A row for each training: objectives of the sets, in brackets where a bound is violated."""
    lines = [
        "| task | learner | seed | steps | objective of three sets | sets satisfied | CPU s |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in sorted(results, key=lambda r: (list(TASKS).index(r["task"]), r["learner"], r["seed"], r["steps"])):
        shown, task = [], TASKS[result["task"]]
        for outcome in result["sets"]:
            value = outcome["averages"][task.objective] if outcome["averages"] else math.nan
            text = "none" if math.isnan(value) else f"{value:.3g}"
            shown.append(text if outcome["satisfied"] or text == "none" else f"({text})")
        met = sum(outcome["satisfied"] for outcome in result["sets"])
        lines.append(
            f"| {result['task']} | {result['learner']} | {result['seed']} | {result['steps']:,} | "
            f"{'; '.join(shown)} | {met} | {result['cpu_seconds']:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--steps", type=int, default=200_000)
    parser.add_argument("--peers", nargs="*", choices=("ppo", "sac"), default=["ppo", "sac"])
    parser.add_argument("--no-peers", dest="peers", action="store_const", const=[])
    parser.add_argument("--out", type=Path, default=HERE / "summary.json")
    arguments = parser.parse_args()
    results = json.loads(arguments.out.read_text()) if arguments.out.exists() else []
    done = {(r["task"], r["learner"], r["seed"], r["steps"]) for r in results}
    if arguments.peers:
        install_peers()
    for name in arguments.tasks:
        discrete = TASKS[name].env in ("LunarLander-v3", "Acrobot-v1")
        peers = ["dqn" if peer == "sac" and discrete else peer for peer in arguments.peers]
        for seed in arguments.seeds:
            for learner in ["acrl", *peers]:
                key = (name, learner, seed, arguments.steps)
                if key in done:
                    continue
                if learner == "acrl":
                    result = train_acrl(TASKS[name], seed, arguments.steps)
                else:
                    result = train_peer(learner, name, seed, arguments.steps)
                results.append({"task": name, "learner": learner, "seed": seed, "steps": arguments.steps, **result})
                arguments.out.write_text(json.dumps(results, indent=1) + "\n")
                print(table(results[-1:]).splitlines()[-1], flush=True)
    print(table(results))


if __name__ == "__main__":
    main()
