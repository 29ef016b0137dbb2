"""Train once, change the requirements while the agent runs: the policy π(s, λ) does not depend on the bounds.

The problem is the paper's continuous one (`four_regions.py`). The agent keeps to 20/15/10/5 % of the time in the four
regions. Then it is saved and loaded, its bounds are changed to 5/10/15/20 %, and it continues where it was.

pip install '.[gymnasium]'
python examples/change_requirements.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import acrl
from four_regions import GAMMA, REGIONS, REQUIREMENTS, FourRegions, ManyFourRegions, arguments

CHANGED = {"red": 0.05, "blue": 0.10, "green": 0.15, "orange": 0.20}


def run(agent: acrl.Agent, env: FourRegions, obs: Any, steps: int) -> Any:
    """Runs the agent for some steps; the last observation."""
    for _ in range(steps):
        obs, _, _, _, info = env.step(agent.act(obs))
        agent.observe(info)
    return obs


def report(agent: acrl.Agent) -> bool:
    """Prints the certificate; averages count from the last change of a bound. True if all requirements are met."""
    for name, entry in agent.certificate.items():
        print(f"  {name}: at least {entry.bound}, average {entry.average:.4f} {'(met)' if entry.met else '(NOT met)'}")
    return all(entry.met for entry in agent.certificate.values())


def main(given: list[str] | None = None) -> bool:
    """True if all requirements are met, before the change and after it."""
    args = arguments(__doc__ or "", steps=1_000_000, given=given)
    policy = acrl.train(
        ManyFourRegions(64, 100),
        requirements=REQUIREMENTS,
        total_steps=args.steps,
        seed=args.seed,
        learner="ppo",
        settings={"gamma": GAMMA},
    )
    env, agent = FourRegions(), acrl.Agent(policy)
    obs = run(agent, env, env.reset(seed=args.seed)[0], args.run)
    print(f"after {agent.steps} steps:")
    before = report(agent)

    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder, "policy.safetensors"))
        agent.save(Path(folder, "agent.json"))
        again = acrl.Policy.load(Path(folder, "policy.safetensors"))
        agent = acrl.Agent.load(Path(folder, "agent.json"), again)

    for name in REGIONS:
        agent.requirements[name] = CHANGED[name]  # from the next step on; nothing is trained
    run(agent, env, obs, args.run)
    print(f"after {agent.steps} steps, the last {args.run} of them with other bounds:")
    return report(agent) and before


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
