"""What the examples share."""

import importlib.util
from pathlib import Path
from typing import Any

import acrl
import numpy as np
import pytest

pytest.importorskip("gymnasium", minversion="1.1")


def four_regions() -> Any:
    path = Path(__file__).parents[2] / "examples" / "four_regions.py"
    spec = importlib.util.spec_from_file_location("four_regions", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_both_forms_of_the_environment_are_sound() -> None:
    example = four_regions()
    for env in (example.FourRegions, lambda: example.ManyFourRegions(8, 20)):
        report = acrl.check_env(env, requirements=example.REQUIREMENTS, steps=4000)
        assert all(report.ranges[name] == (0.0, 1.0) for name in example.REGIONS)


def test_both_forms_of_the_environment_do_the_same() -> None:
    example = four_regions()
    many = example.ManyFourRegions(5, 30)
    many.reset(seed=1)
    ones = [example.FourRegions() for _ in range(5)]
    for one, place in zip(ones, many.place, strict=True):
        one.reset(seed=0)
        one.place = place.copy()
    actions = np.random.default_rng(0)
    for t in range(30):
        chosen = actions.uniform(-1, 1, (5, 2)).astype(np.float32)
        seen, _, _, truncated, infos = many.step(chosen)
        for i, one in enumerate(ones):
            place, _, _, _, inside = one.step(chosen[i])
            assert place.tolist() == (infos["final_obs"][i] if truncated[i] else seen[i]).tolist()
            assert inside == {name: infos[name][i] for name in example.REGIONS}
        assert truncated.all() == (t == 29)


def test_a_policy_by_hand_meets_all_four(capsys: pytest.CaptureFixture[str]) -> None:
    example = four_regions()
    centres = np.array(list(example.REGIONS.values()))

    def go_to_the_dearest(obs: Any, multipliers: Any) -> Any:
        return np.clip((centres[np.argmax(multipliers)] - obs) / example.REACH, -1, 1)

    agent = example.run(go_to_the_dearest, 20_000, 0)
    assert all(entry.met for entry in agent.certificate.values())
    assert capsys.readouterr().out.count("is met: average 0.") == 4
