"""The scripts of examples/ that need nothing but Gymnasium, and the common parts of the others."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import acrl
import numpy as np
import pytest

pytest.importorskip("gymnasium", minversion="1.1")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A script as a module, which finds its neighbours as it does when it is run."""
    monkeypatch.syspath_prepend(EXAMPLES)

    def found(name: str) -> ModuleType:
        return importlib.import_module(name)

    return found


def test_the_list_of_examples_is_complete() -> None:
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    missing = [path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb") and path.name not in listed]
    assert missing == []


def test_own_environment_example(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    agent = load("own_environment").main(["--run", "100000"])
    said = capsys.readouterr().out
    assert all(entry.met for entry in agent.certificate.values()), said
    # Less than with random orders, and at least the vans do not come for nothing.
    assert agent.averages["stock"] < 14, said
    assert said.count(" is met: ") == 2


def test_requirements_change_while_it_runs(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert load("change_requirements").main(["--run", "30000"]), capsys.readouterr().out
    said = capsys.readouterr().out
    assert said.count("(met)") == 8
    assert "after 60000 steps, the last 30000 of them with other bounds" in said


def test_both_forms_of_the_environment_are_sound(load: Any) -> None:
    example = load("four_regions")
    for env in (example.FourRegions, lambda: example.ManyFourRegions(8, 20)):
        report = acrl.check_env(env, requirements=example.REQUIREMENTS, steps=4000)
        assert all(report.ranges[name] == (0.0, 1.0) for name in example.REGIONS)


def test_both_forms_of_the_environment_do_the_same(load: Any) -> None:
    example = load("four_regions")
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


def test_a_policy_by_hand_meets_all_four(load: Any, capsys: pytest.CaptureFixture[str]) -> None:
    example = load("four_regions")
    centres = np.array(list(example.REGIONS.values()))

    def go_to_the_dearest(obs: Any, multipliers: Any) -> Any:
        return np.clip((centres[np.argmax(multipliers)] - obs) / example.REACH, -1, 1)

    agent = example.run(go_to_the_dearest, 20_000, 0)
    assert all(entry.met for entry in agent.certificate.values())
    assert capsys.readouterr().out.count("is met: average 0.") == 4
