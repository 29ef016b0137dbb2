"""The examples with other learners, with small budgets. Skipped where the learners are not installed."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *options: str) -> tuple[int, list[str]]:
    """The exit code and what it said of each requirement."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *options], capture_output=True, text=True, check=False, cwd=EXAMPLES
    )
    lines = [line for line in done.stdout.splitlines() if ": average " in line]
    assert [line.split()[0] for line in lines] == ["red", "blue", "green", "orange"], done.stdout + done.stderr
    return done.returncode, lines


def test_stable_baselines3_meets_all_four() -> None:
    pytest.importorskip("stable_baselines3")
    code, lines = run("sb3_ppo.py")
    assert code == 0, lines


def test_a_loop_of_ones_own_meets_all_four() -> None:
    pytest.importorskip("torch")
    code, lines = run("cleanrl_loop.py")
    assert code == 0, lines


def test_rllib_from_end_to_end() -> None:
    pytest.importorskip("ray.rllib")
    pytest.importorskip("torch")
    code, lines = run("rllib_ppo.py", "--steps", "8192", "--run", "2000")
    # Too few steps to learn much: the verdict and the exit code have to agree.
    assert code == (0 if all("is met" in line for line in lines) else 1)
