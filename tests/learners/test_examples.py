"""The examples with other learners meet their requirements. Skipped where the learners are not installed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, bounds: dict[str, float], *options: str) -> None:
    """What it says of each requirement has to be true, and the exit code has to say the same."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *options], capture_output=True, text=True, check=False, cwd=EXAMPLES
    )
    said = re.findall(r"^(\w+) is met: average (\S+), certified within (\S+) of (\S+)$", done.stdout, re.M)
    assert {name: float(bound) for name, _, _, bound in said} == bounds, done.stdout + done.stderr
    for _, average, shortfall, bound in said:
        assert float(shortfall) <= 0.005
        # Both are printed with four digits.
        assert float(average) >= float(bound) - float(shortfall) - 1e-4
    assert done.returncode == 0


FOUR = {"red": 0.2, "blue": 0.15, "green": 0.1, "orange": 0.05}


def test_stable_baselines3_meets_all_four() -> None:
    pytest.importorskip("stable_baselines3")
    run("sb3_ppo.py", FOUR)


def test_cleanrl_loop_meets_all_four() -> None:
    pytest.importorskip("torch")
    run("cleanrl_loop.py", FOUR)


def test_rllib_meets_both_on_the_line() -> None:
    pytest.importorskip("ray.rllib")
    pytest.importorskip("torch")
    run("rllib_ppo.py", {"left": 0.4, "right": 0.3})


@pytest.mark.parametrize("name", ["sb3_ppo.py", "cleanrl_loop.py"])
def test_exit_code_is_1_without_training(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), "--steps", "1", "--run", "2000"],
        capture_output=True,
        text=True,
        check=False,
        cwd=EXAMPLES,
    )
    assert "is NOT met" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1
