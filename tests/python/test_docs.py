"""What docs/python.md shows is true."""

import re
from pathlib import Path
from typing import Any

import acrl
import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[2] / "docs" / "python.md").read_text("utf-8"), re.S)


def test_the_quick_start(capsys: pytest.CaptureFixture[str]) -> None:
    exec(BLOCKS[0], {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "True"
    assert re.fullmatch(r"\{'r1': (1\.0|0\.99\d*), 'r2': (1\.0|0\.99\d*)\}", lines[2]), lines[2]


def test_a_policy_of_a_file(data: Path) -> None:
    text = BLOCKS[1].replace('"policy.safetensors"', "path")
    names: dict[str, object] = {"acrl": acrl, "path": data / "wireless.safetensors"}
    exec(text, names)
    agent = names["agent"]
    assert isinstance(agent, acrl.Agent)
    assert agent.requirements["power"].bound == 0.8


def test_rewards_of_an_environment() -> None:
    names: dict[str, Any] = {"acrl": acrl}
    exec(BLOCKS[2], names)
    assert set(names["report"].ranges) == {"reward", "away", "terminated"}
    assert names["report"].averages["away"] > 0


def test_a_learner() -> None:
    class Constant:
        """What came of a training that is left out here."""

        def predict(self, obs: NDArray[Any]) -> tuple[int, None]:
            assert obs.shape == (6,)
            return 0, None

    names: dict[str, Any] = {"acrl": acrl, "env": Costly(gymnasium.make("CartPole-v1")), "learn": lambda _: Constant()}
    exec(BLOCKS[3], names)
    assert names["report"].scales["cost"] > 0
    assert names["agent"].act(np.zeros(4)) == 0


class Costly(gymnasium.Wrapper[Any, Any, Any, Any]):
    """With a cost."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, {**info, "cost": abs(obs[0])}


def test_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"acrl": acrl}
    first, second = (block for block in BLOCKS if block.startswith("run"))
    exec(first, names)
    assert names["run"].met
    assert not names["comparison"]["fixed weights"].met
    exec(second, names)
    assert (tmp_path / "run.png").exists()
    assert (tmp_path / "runs" / "mine" / "report.html").exists()


def test_a_finite_model() -> None:
    transitions = np.full((2, 2, 2), 0.5)
    rewards = {"r": np.array([[0.0, 2.0], [0.0, 2.0]]), "p": np.array([[1.0, 4.0], [1.0, 4.0]])}
    names: dict[str, object] = {"acrl": acrl, "transitions": transitions, **rewards}
    exec(BLOCKS[4], names)
    answer = names["answer"]
    assert isinstance(answer, acrl.Solution)
    assert answer.objective == pytest.approx(2 / 3)
