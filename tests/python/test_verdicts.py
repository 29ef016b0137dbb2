"""Verdicts in Python, by the table that the program's tests use."""

import json
from pathlib import Path
from typing import Any

import acrl
import numpy as np
import pytest

TABLE = json.loads((Path(__file__).parent.parent / "verdicts.json").read_text())


@pytest.mark.parametrize("case", TABLE, ids=[entry["case"] for entry in TABLE])
def test_run_agrees_with_the_table(case: dict[str, Any]) -> None:
    model = acrl.FiniteModel(np.ones((1, 2, 1)), {"x": [[case["good"], case["bad"]]]})
    requirements = [getattr(acrl, side)(f"r{i}", bound, "x") for i, (side, bound) in enumerate(case["bounds"])]
    run = acrl.run(model, requirements=requirements, steps=case["steps"])
    found = [run.requirements[r.name].verdict for r in requirements]
    assert found == case["verdicts"]
    worst = next(v for v in ("violated", "within_tolerance", "satisfied") if v in found)
    assert run.verdict == worst
    assert run.met == bool(run) == (worst != "violated")
    assert ("all requirements satisfied" in repr(run)) == (worst == "satisfied")


@pytest.mark.parametrize("case", TABLE, ids=[entry["case"] for entry in TABLE])
def test_agent_without_knowledge_of_worse_averages_agrees(case: dict[str, Any]) -> None:
    requirements = [getattr(acrl, side)(f"r{i}", bound) for i, (side, bound) in enumerate(case["bounds"])]
    scale = abs(case["good"] - case["bad"])
    agent = acrl.Agent(lambda *_: 0, requirements, scales=[scale] * len(requirements), epoch=1)
    assert all(entry.verdict == "violated" for entry in agent.certificate.values()), "before the first step"
    for _ in range(case["steps"]):
        agent.observe([case["good"]] * len(requirements))
    found = [agent.certificate[r.name].verdict for r in requirements]
    assert found == case["verdicts"]
