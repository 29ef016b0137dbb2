"""The code blocks of docs/python.md."""

import re
from pathlib import Path
from typing import Any

import acrl
import gymnasium
import numpy as np
import pytest
from numpy.typing import NDArray

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[2] / "docs" / "python.md").read_text("utf-8"), re.S)


def block(word: str) -> str:
    """The one that begins so."""
    found: list[str] = [text for text in BLOCKS if text.startswith(word)]
    assert len(found) == 1, word
    return found[0]


def test_the_quick_start(capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("import acrl"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "True"
    assert re.fullmatch(r"\{'r1': (1\.0|0\.99\d*), 'r2': (1\.0|0\.99\d*)\}", lines[2]), lines[2]


def test_a_policy_of_a_file(data: Path) -> None:
    text = block("policy = acrl.Policy").replace('"policy.safetensors"', "path")
    names: dict[str, object] = {"acrl": acrl, "path": data / "wireless.safetensors"}
    exec(text, names)
    agent = names["agent"]
    assert isinstance(agent, acrl.Agent)
    assert agent.requirements["power"].bound == 0.8


def test_a_policy_library(data: Path) -> None:
    names: dict[str, Any] = {"acrl": acrl, "policy": acrl.Policy.load(data / "wireless.safetensors")}
    exec(block("for entry in policy.library"), names)
    assert len(names["curve"]) == 3


def test_a_solved_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"acrl": acrl}
    exec(block('acrl.solve("monitoring", policy'), names)
    assert names["agent"].requirements["r1"].bound == 0.2
    assert names["agent"].steps == 20_000


def test_rewards_of_an_environment() -> None:
    names: dict[str, Any] = {"acrl": acrl}
    exec(block("def rewards"), names)
    assert set(names["report"].ranges) == {"reward", "away", "terminated"}
    assert names["report"].averages["away"] > 0


def test_a_learner() -> None:
    class Constant:
        """What came of a training that is left out here."""

        def predict(self, obs: NDArray[Any]) -> tuple[int, None]:
            assert obs.shape == (6,)
            return 0, None

    names: dict[str, Any] = {"acrl": acrl, "env": Costly(gymnasium.make("CartPole-v1")), "learn": lambda _: Constant()}
    exec(block("task ="), names)
    assert names["report"].scales["cost"] > 0
    assert names["agent"].act(np.zeros(4)) == 0


class Costly(gymnasium.Wrapper[Any, Any, Any, Any]):
    """With a cost."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, {**info, "cost": abs(obs[0])}


def test_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # MO-Gymnasium is not installed here: the same with an environment that has its three rewards.
    text = block("policy = acrl.train").replace('"resource-gathering-v0"', "Mine").replace("300_000", "50_000")
    names: dict[str, Any] = {"acrl": acrl, "Mine": Mine}
    exec(text, names)
    assert names["run"].met
    assert names["other"].met
    assert names["other"].requirements["gold"].bound == 0.05
    assert acrl.Policy.load("policy.safetensors").objective == acrl.maximize("death")
    names = {"acrl": acrl, "env": Costly(gymnasium.make("CartPole-v1"))}
    exec(block("training ="), names)
    assert isinstance(names["policy"], acrl.Policy)


class Mine(gymnasium.Env[Any, Any]):
    """A way of three fields with gold at one end and gems at the other; where the gold is, one dies at times."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)
    at = 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.at = 1
        return self.at, {}

    def step(self, action: Any) -> Any:
        self.at = int(np.clip(self.at + (1 if action else -1), 0, 2))
        died = self.at == 0 and self.np_random.random() < 0.1
        rewards = np.array([-float(died), 0.2 * float(self.at == 0 and not died), 0.2 * float(self.at == 2)])
        return self.at, rewards, died, False, {}


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


def test_a_finite_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    transitions = np.full((2, 2, 2), 0.5)
    rewards = {"r": np.array([[0.0, 2.0], [0.0, 2.0]]), "p": np.array([[1.0, 4.0], [1.0, 4.0]])}
    names: dict[str, object] = {"acrl": acrl, "np": np, "transitions": transitions, **rewards}
    exec(block("model ="), names)
    exec(block("curve ="), names)
    assert (tmp_path / "curve.png").exists()
    assert (tmp_path / "answer.safetensors").exists()
    answer = names["answer"]
    assert isinstance(answer, acrl.Solution)
    assert answer.objective == pytest.approx(2 / 3)
