"""The program that the package installs."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import acrl
import pytest

SCRIPT = Path(sys.executable).parent / "acrl"


def program(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """The same as the script, without looking for it."""
    command = [sys.executable, "-W", "error", "-m", "acrl", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload, no-any-return]


def test_the_script_is_installed() -> None:
    done = subprocess.run([SCRIPT, "--version"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"acrl {acrl.__version__}\n", "")


def test_help_names_the_program_as_it_is_called() -> None:
    done = program("run", "--help")
    assert done.returncode == 0
    assert "Usage: acrl run" in done.stdout
    assert program().stdout.startswith("Constrained reinforcement learning")


def test_results_on_stdout_and_verdict_in_exit_code() -> None:
    done = program("solve", "monitoring", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["status"] == "optimal"
    hard = program("solve", "monitoring", "--require", "r1>=0.55", "--require", "r2>=0.55")
    assert (hard.returncode, hard.stderr) == (1, "")
    assert "infeasible" in hard.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["solve", "nowhere"], "error: nowhere: no such file"),
        (["solve"], "required arguments were not provided"),
        (["fly"], "unrecognized subcommand 'fly'"),
        (["run", "monitoring", "--steps", "-1"], "expected a whole number from 1 to 1e15"),
    ],
)
def test_user_errors_have_no_traceback(words: list[str], message: str) -> None:
    done = program(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_report_contains_the_command(tmp_path: Path) -> None:
    done = program("run", "monitoring", "--steps", "2000", "--out-dir", "out", cwd=tmp_path)
    assert done.returncode in (0, 1), done.stderr
    page = json.loads((tmp_path / "out" / "report.json").read_text("utf-8"))
    assert page["command"] == "acrl run monitoring --steps 2000 --out-dir out"


@pytest.mark.skipif(os.name != "posix", reason="there are no pipes of this kind")
def test_closed_pipe_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "acrl", "problems"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.name != "posix", reason="there are no signals")
def test_ctrl_c_stops_and_reports_partial_results(tmp_path: Path) -> None:
    events = tmp_path / "run" / "events.jsonl"
    words = ["run", "monitoring", "--steps", "1e12", "--runs", "1", "--out-dir", str(tmp_path / "run"), "--json"]
    running = subprocess.Popen(
        [sys.executable, "-m", "acrl", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        for _ in range(600):
            if events.exists():
                break
            time.sleep(0.1)
        time.sleep(1.0)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode in (0, 1), err
    assert 0 < json.loads(out)["steps"] < 10**12
    assert "stopped by Ctrl-C" in err
    assert "Traceback" not in err
