"""`make bench-train`: PPO on the four-region problem, acrl beside its peers; see README.md.

Standard library only; the peers run in `.venv-bench` next to this file, made on first use.
Speed (default): pinned, interleaved, repeated. `--curves`: do the contestants learn alike?
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

HERE = Path(__file__).resolve().parent
VENV = HERE / ".venv-bench"
PYTHON = VENV / "bin" / "python"
ROLLOUT = {"A": 16 * 128, "B": 64 * 128}
PASSES = {"A": 10, "B": 4}
FRACTIONS = (0.25, 0.5, 1.0)
CURVE_STEPS = {"A": 200_000, "B": 800_000}
CALIBRATION = {"A": 20_480, "B": 81_920}
# What acrl is to reach: times as fast as a peer, and the share of the core's peak.
AT_LEAST = {"A": {"sb3": 20.0, "cleanrl": 20.0, "jax": 2.0}, "B": {"sb3": 9.0, "cleanrl": 9.0, "jax": 2.3}}
SHARE_OF_PEAK = {"A": 0.65, "B": 0.75}
# The same for acrl.train on an environment of Python.
PYTHON_AT_LEAST = {"A": {"sb3": 8.0}, "B": {}}

# Multiply-adds of the matrix products: 6-64-64-2 and 6-64-64-1 forward; backward is the same again for the weights and,
# except in the first layer, for the inputs. One rollout forward per step.
FORWARD = (6 * 64 + 64 * 64 + 64 * 2) + (6 * 64 + 64 * 64 + 64 * 1)
TRAIN = 3 * FORWARD - 2 * 6 * 64
FLOP_PER_STEP = {name: 2 * (FORWARD + passes * TRAIN) for name, passes in PASSES.items()}

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
}

# Two-sided 95 % quantiles of Student's t for 1, 2, ... degrees of freedom.
STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)

Result = dict[str, Any]
Table = list[list[str]]


def contestants(acrl: str | None, package: bool, only: Sequence[str]) -> dict[str, list[str]]:
    """Name and command of each; ours first."""
    peers = {
        "sb3": [str(PYTHON), str(HERE / "ppo_sb3.py")],
        "cleanrl": [str(PYTHON), str(HERE / "ppo_cleanrl.py")],
        "torch-lean": [str(PYTHON), str(HERE / "ppo_cleanrl.py"), "--lean"],
        "jax": [str(PYTHON), str(HERE / "ppo_jax.py")],
    }
    ours = {"acrl": shlex.split(acrl)} if acrl else {}
    if package:
        ours["acrl-python"] = [str(PYTHON), str(HERE / "acrl_python.py")]
    everyone = ours | peers
    unknown = set(only) - set(everyone)
    if unknown:
        sys.exit(f"unknown contestant: {', '.join(sorted(unknown))}; there are {', '.join(everyone)}")
    return {name: command for name, command in everyone.items() if not only or name in only}


def make_venv() -> None:
    """Install the peers unless these requirements are already installed."""
    wanted = (HERE / "requirements.txt").read_text()
    stamp = VENV / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("installing the peers into .venv-bench (a few minutes, several GB) ...", file=sys.stderr, flush=True)
    venv.create(VENV, with_pip=True)
    (VENV / ".gitignore").write_text("*\n")
    subprocess.run([PYTHON, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True)
    stamp.write_text(wanted)


def install_package() -> None:
    """Build our Python package, optimised, and install it beside the peers."""
    print("building the Python package (a few minutes the first time) ...", file=sys.stderr, flush=True)
    # What it needs came with the peers.
    flags = ["-q", "--disable-pip-version-check", "--no-deps", "--force-reinstall"]
    subprocess.run([PYTHON, "-m", "pip", "install", *flags, HERE.parents[1]], check=True)


def has_package() -> bool:
    """Whether our Python package is installed beside the peers."""
    return subprocess.run([PYTHON, "-c", "import acrl"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def pin_to(core: int) -> Callable[[], None] | None:
    """What a child does before it starts, where the system can pin."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return lambda: os.sched_setaffinity(0, {core})


def call(command: Sequence[str], core: int) -> Result:
    """Run on one core and one thread; the last line of output is the JSON object."""
    done = subprocess.run(
        command, env=os.environ | ONE_THREAD, preexec_fn=pin_to(core), stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)} ended with status {done.returncode}")
    result: Result = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def train(command: Sequence[str], config: str, steps: int, seed: int, speed_limit: float | None, core: int) -> Result:
    """One training run."""
    flags = ["--config", config, "--steps", str(steps), "--seed", str(seed), "--json"]
    if speed_limit is not None:
        flags += ["--speed-limit", str(speed_limit)]
    return call([*command, *flags], core)


def print_table(rows: Table) -> None:
    """First row is the head; first column left, the others right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [cell.rjust(w) for cell, w in zip(row, widths, strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells[1:]]))
        if number == 0:
            print("  ".join("-" * w for w in widths))
    print(flush=True)


def targets(config: str, median: dict[str, float], peak: float) -> bool:
    """Print what was to be reached and whether it was."""
    reached = [
        (f"{ours} {goal:g}x {name}", median[ours] / median[name], goal)
        for ours, goals in (("acrl", AT_LEAST[config]), ("acrl-python", PYTHON_AT_LEAST[config]))
        for name, goal in goals.items()
        if ours in median and name in median
    ]
    words = [f"{what} {'met' if value >= goal else 'MISSED'} ({value:.1f}x)" for what, value, goal in reached]
    met = all(value >= goal for _, value, goal in reached)
    if "acrl" in median:
        share, goal = median["acrl"] * FLOP_PER_STEP[config] / 1e9 / peak, SHARE_OF_PEAK[config]
        words.append(f"acrl {goal:.0%} of peak {'met' if share >= goal else 'MISSED'} ({share:.0%})")
        met &= share >= goal
    if words:
        print(f"targets of config {config}: {', '.join(words)}\n", flush=True)
    return met


def speed(field: dict[str, list[str]], args: argparse.Namespace) -> Result:
    """Environment steps per second: medians over interleaved repetitions."""
    core = args.cores[-1]
    peak = args.peak_gflops or call([str(PYTHON), str(HERE / "peak.py")], core)["peak_gflops"]
    record: Result = {"mode": "speed", "peak_gflops": peak, "met": True, "runs": [], "summary": {}}
    for config in args.config:
        steps: dict[str, int] = {}
        for name, command in field.items():  # also warms the disk cache; not counted
            rate = train(command, config, CALIBRATION[config], 0, args.speed_limit, core)["steps_per_second"]
            rollouts = max(CALIBRATION[config] // ROLLOUT[config], math.ceil(rate * args.seconds / ROLLOUT[config]))
            steps[name] = args.steps or rollouts * ROLLOUT[config]
        rates: dict[str, list[float]] = {name: [] for name in field}
        cpu_rates: dict[str, list[float]] = {name: [] for name in field}
        versions: dict[str, str] = {}
        for repeat in range(args.repeats):
            order = list(field)
            order = order[repeat % len(order) :] + order[: repeat % len(order)]
            for name in order:
                result = train(field[name], config, steps[name], repeat, args.speed_limit, core)
                rates[name].append(result["steps_per_second"])
                cpu_rates[name].append(result["steps"] / result["cpu_seconds"])
                versions[name] = result["version"]
                if "peak_gflops" in result:
                    peak = max(peak, result["peak_gflops"])
                record["runs"].append({k: v for k, v in result.items() if k != "curve"} | {"repeat": repeat})
                print(f"  {config} {repeat} {name}: {result['steps_per_second']:,.0f}/s", file=sys.stderr, flush=True)
        median = {name: statistics.median(values) for name, values in rates.items()}
        print(f"config {config}, {args.repeats} repetitions, one core, measured peak {peak:.0f} GFLOP/s")
        per_cpu = {name: statistics.median(values) for name, values in cpu_rates.items()}
        ours = [name for name in ("acrl", "acrl-python") if name in median]
        heads = [f"{name} is{what}" for name in ours for what in ("", ", per CPU s")]
        rows = [["", "steps/s", "min..max", "per CPU s", *heads, "GFLOP/s", "of peak", "version"]]
        for name, values in rates.items():
            gflops = median[name] * FLOP_PER_STEP[config] / 1e9
            ratios = [f"{rate[us] / rate[name]:.1f}x" for us in ours for rate in (median, per_cpu)]
            spread = f"{min(values):,.0f}..{max(values):,.0f}"
            achieved = [f"{gflops:.1f}", f"{gflops / peak:.0%}"]
            rows.append(
                [name, f"{median[name]:,.0f}", spread, f"{per_cpu[name]:,.0f}", *ratios, *achieved, versions[name]]
            )
        print_table(rows)
        record["met"] &= targets(config, median, peak)
        record["summary"][config] = {
            name: {
                "median": median[name],
                "min": min(values),
                "max": max(values),
                **{f"{us}_over_this": median[us] / median[name] for us in ours},
                "per_cpu_second": per_cpu[name],
                "gflops": median[name] * FLOP_PER_STEP[config] / 1e9,
                "version": versions[name],
            }
            for name, values in rates.items()
        }
    record["peak_gflops"] = peak
    return record


def at_fraction(result: Result, fraction: float) -> float:
    """The last point of the curve not after this fraction of the run."""
    points = [value for env_steps, value in result["curve"] if env_steps <= fraction * result["steps"]]
    if not points:
        sys.exit(f"{result['name']}: no point of the curve before {fraction:.0%} of {result['steps']} steps")
    return float(points[-1])


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of the 95 % interval of Student's t."""
    freedom = len(values) - 1
    quantile = STUDENT[freedom - 1] if freedom <= len(STUDENT) else 1.96 + 2.5 / freedom
    return statistics.fmean(values), quantile * statistics.stdev(values) / math.sqrt(len(values))


def curves(field: dict[str, list[str]], args: argparse.Namespace) -> Result:
    """Whether the 95 % intervals of the learning curves overlap. Seeds run side by side, one per core."""
    record: Result = {"mode": "curves", "runs": [], "summary": {}, "overlap": True}
    free: Queue[int] = Queue()
    for core in args.cores:
        free.put(core)

    def job(name: str, config: str, seed: int) -> Result:
        core = free.get()
        try:
            steps = args.steps or CURVE_STEPS[config]
            result = train(field[name], config, steps, seed, args.speed_limit, core)
        finally:
            free.put(core)
        print(f"  {config} seed {seed} {name}: {at_fraction(result, 1.0):.4f}", file=sys.stderr, flush=True)
        return result | {"contestant": name, "seed": seed}

    for config in args.config:
        jobs = [(name, config, args.first_seed + k) for k in range(args.seeds) for name in field]
        with ThreadPoolExecutor(len(args.cores)) as pool:
            results = list(pool.map(lambda j: job(*j), jobs))
        record["runs"] += results
        print(f"config {config}, {results[0]['steps']:,} steps, {args.seeds} seeds: mean reward per step")
        rows = [["", *(f"at {fraction:.0%}" for fraction in FRACTIONS)]]
        bands: dict[str, list[tuple[float, float]]] = {}
        for name in field:
            mine = [r for r in results if r["contestant"] == name]
            bands[name] = [interval([at_fraction(r, fraction) for r in mine]) for fraction in FRACTIONS]
            rows.append([name, *(f"{mean:.4f} ± {half:.4f}" for mean, half in bands[name])])
        verdicts = []
        for k, fraction in enumerate(FRACTIONS):
            apart = [
                f"{a} and {b}"
                for a, b in itertools.combinations(field, 2)
                if abs(bands[a][k][0] - bands[b][k][0]) > bands[a][k][1] + bands[b][k][1]
            ]
            verdicts.append("apart" if apart else "overlap")
            for pair in apart:
                print(f"at {fraction:.0%} the intervals of {pair} do not overlap")
        rows.append(["all pairs", *verdicts])
        print_table(rows)
        record["overlap"] &= "apart" not in verdicts
        record["summary"][config] = bands
    return record


def plot(path: Path) -> None:
    """Draw the curves, if the venv has matplotlib."""
    done = subprocess.run([PYTHON, HERE / "plot.py", path, path.with_suffix(".svg")], check=False)
    if done.returncode == 0:
        print(f"plot: {path.with_suffix('.svg')}")


def main() -> None:
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acrl", help="our program, called as ACRL --config A --steps N --seed S --json")
    parser.add_argument("--acrl-python", action="store_true", help="install our Python package beside the peers first")
    parser.add_argument("--config", nargs="+", choices=("A", "B"), default=["A", "B"])
    parser.add_argument("--only", nargs="+", default=[], help="these contestants only")
    parser.add_argument("--curves", action="store_true", help="compare learning curves instead of speed")
    parser.add_argument("--repeats", type=int, default=5, help="speed: repetitions")
    parser.add_argument("--seconds", type=float, default=10.0, help="speed: length of one training, about")
    parser.add_argument("--seeds", type=int, default=5, help="curves: seeds")
    parser.add_argument("--first-seed", type=int, default=0, help="curves: the first of them")
    parser.add_argument("--steps", type=int, help="environment steps of every run, instead of the default")
    parser.add_argument("--speed-limit", type=float, help="passed on to every contestant (20 if absent)")
    parser.add_argument("--cores", type=int, nargs="+", default=allowed, help="speed uses the last of them")
    parser.add_argument("--peak-gflops", type=float, help="the core's f32 peak, if measured elsewhere")
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "target" / "bench-train")
    args = parser.parse_args()
    if args.seeds < 2:
        parser.error("--seeds must be at least 2: an interval needs a spread")

    make_venv()
    if args.acrl_python:
        install_package()
    # It does not learn the same thing, so its curve is not compared.
    field = contestants(args.acrl, has_package() and not args.curves, args.only)
    record = curves(field, args) if args.curves else speed(field, args)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{record['mode']}.json"
    path.write_text(json.dumps(record, indent=1))
    print(f"written: {path}")
    if args.curves:
        plot(path)
        sys.exit(0 if record["overlap"] else 1)


if __name__ == "__main__":
    main()
