"""`make bench-exact`: finite models with requirements, acrl beside LP solvers and a model checker; see README.md.

Standard library only; models are made and peers run in `.venv-bench` next to this file, made on first use.
Each contestant is a process of its own, pinned to one core, with a limit on its time and memory.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VENV = HERE / ".venv-bench"
PYTHON = VENV / "bin" / "python"

REGIONS = [
    "--maximize",
    "r0",
    "--require",
    "r1>=0.2",
    "--require",
    "r2>=0.15",
    "--require",
    "r3>=0.1",
    "--require",
    "r4>=0.05",
]
RANDOM = ["--maximize", "r0", *(word for i in range(1, 5) for word in ("--require", f"r{i}>=0.55"))]
QUEUES = ["--minimize", "jobs", "--require", "rejected<=0.05", "--require", "first>=0.5", "--require", "power<=0.6"]
ROUTING = ["--minimize", "jobs", "--require", "rejected<=0.05", "--require", "second>=0.4", "--require", "power<=0.6"]
QUESTIONS = {"plain": REGIONS, "terrain": REGIONS, "random": RANDOM, "queue": QUEUES, "routing": ROUTING}
SIZES = {
    "plain": [10, 30, 100, 300, 1000],
    "terrain": [30, 100, 300],
    "random": [300, 1000, 3000, 10_000, 30_000, 300_000],
    "queue": [10, 22, 46],
    "routing": [30, 100, 300, 1000],
}
QUICK = {"plain": [10, 30], "terrain": [30], "random": [300, 1000], "queue": [10], "routing": [30]}
PEERS = [
    *("highs-simplex", "highs-ipm", "highs-ipm-crossover", "highs-hipo", "highs-hipo-crossover", "highs-pdlp"),
    *("clarabel", "clarabel-faer", "storm"),
]
# From here on acrl is asked for a gap of 1e-3, and given ten minutes.
LARGE, LARGE_GAP, LARGE_SECONDS = 500_000, 1e-3, 600.0
# An answer further off than this is not counted when the fastest peer is sought.
USABLE = 1e-4
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

Result = dict[str, Any]


def make_venv() -> None:
    """Install the peers unless these requirements are already installed."""
    wanted = (HERE / "requirements.txt").read_text()
    stamp = VENV / "installed.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print("installing the peers into .venv-bench (a minute, 600 MB) ...", file=sys.stderr, flush=True)
    venv.create(VENV, with_pip=True)
    (VENV / ".gitignore").write_text("*\n")
    subprocess.run([PYTHON, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"], check=True)
    stamp.write_text(wanted)


def measure(command: Sequence[str], cores: Sequence[int], seconds: float, gigabytes: float) -> Result:
    """Run it; what it cost as a whole, and the JSON object in the last line of its output.

    It is stopped after so many CPU seconds on each core, or four times as long if it does not get them. `failure` says
    why there is no answer: "time", or the end of what it said.
    """
    most = math.ceil(seconds * len(cores))

    def prepare() -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, set(cores))
        limit = int(gigabytes * 2**30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))

    threads = ONE_THREAD if len(cores) == 1 else {}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.monotonic()
        child = subprocess.Popen(command, env=os.environ | threads, preexec_fn=prepare, stdout=out, stderr=err)
        late = threading.Event()

        def stop() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(4 * seconds, stop)
        timer.start()
        try:
            _, status, used = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            raise
        finally:
            timer.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        result: Result = {
            "wall_seconds": time.monotonic() - started,
            "process_seconds": used.ru_utime + used.ru_stime,
            "megabytes": used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
        }
        out.seek(0)
        err.seek(0)
        lines, said = out.read().decode(errors="replace").splitlines(), err.read().decode(errors="replace")
    killed = -child.returncode in (signal.SIGXCPU, signal.SIGKILL)
    if late.is_set() or (killed and result["process_seconds"] >= most - 1):
        return result | {"failure": "time"}
    # An answer may span lines, or be the last of several.
    for text in ("\n".join(lines), lines[-1] if lines else ""):
        try:
            return result | {"answer": json.loads(text)}
        except json.JSONDecodeError:
            continue
    return result | {"failure": (said.strip().splitlines() or [f"status {child.returncode}"])[-1]}


class Bench:
    """What is measured, how, and where it is kept."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args, self.folder = args, folder
        self.acrl = shlex.split(args.acrl) if args.acrl else None
        self.stops_in_time = (
            self.acrl is not None
            and "--time-limit"
            in subprocess.run([*self.acrl, "solve", "--help"], capture_output=True, text=True, check=True).stdout
        )

    def model(self, kind: str, size: int) -> Path:
        """The file, made unless it is there."""
        path = self.folder / f"{kind}-{size}.npz"
        if not path.exists():
            unfinished = path.with_name(f"unfinished-{path.name}")
            subprocess.run([PYTHON, HERE / "models.py", kind, str(size), unfinished], check=True)
            unfinished.replace(path)
        return path

    def states(self, kind: str, size: int) -> int:
        """How many states a model of this size has."""
        return size ** {"plain": 2, "terrain": 2, "random": 1, "queue": 3, "routing": 2}[kind]

    def ours(self, kind: str, size: int) -> Result:
        """One core, repeated, and two cores where that matters."""
        assert self.acrl is not None
        large = self.states(kind, size) >= LARGE
        limit = max(self.args.time_limit, LARGE_SECONDS) if large else self.args.time_limit
        command = [*self.acrl, "solve", str(self.model(kind, size)), *QUESTIONS[kind], "--json", "--quiet"]
        if large:
            command += ["--gap", str(LARGE_GAP)]
        if self.stops_in_time:
            command += ["--time-limit", str(limit)]
        runs: list[Result] = []
        while len(runs) < self.args.repeats and sum(run["process_seconds"] for run in runs) < 30.0:
            run = measure([*command, "--threads", "1"], self.args.cores[-1:], limit + 30.0, self.args.memory_limit)
            runs.append(run)
            if "failure" in run:
                break
        middle = sorted(runs, key=lambda run: float(run["process_seconds"]))[len(runs) // 2]
        answer = middle.get("answer", {})
        result: Result = {
            "status": "time limit" if middle.get("failure") == "time" else answer.get("status", "failed"),
            "failure": middle.get("failure"),
            "objective": answer.get("objective"),
            "bounds": answer.get("bounds"),
            "gap": answer.get("gap"),
            "rounds": answer.get("rounds"),
            "solve_seconds": answer.get("seconds"),
            "cpu_seconds": middle["process_seconds"],
            "wall_seconds": middle["wall_seconds"],
            "megabytes": middle["megabytes"],
            "runs": [run["process_seconds"] for run in runs],
        }
        if len(self.args.cores) > 1 and self.states(kind, size) >= 10_000 and "failure" not in middle:
            both = measure(command, self.args.cores[-2:], limit + 30.0, self.args.memory_limit)
            result["two_cores"] = {
                "wall_seconds": both["wall_seconds"],
                "cpu_seconds": both["process_seconds"],
                "megabytes": both["megabytes"],
                "gap": both.get("answer", {}).get("gap"),
                "failure": both.get("failure"),
            }
        return result

    def peer(self, name: str, kind: str, size: int) -> Result:
        """One core; from the folder if it is kept and was measured before."""
        key = f"{name} {kind} {size} {self.args.time_limit:g}"
        store = self.folder / "peers.json"
        kept: dict[str, Result] = json.loads(store.read_text()) if store.exists() else {}
        if key in kept:
            return kept[key] | {"kept": True}
        limit = self.args.time_limit
        command = [str(PYTHON), str(HERE / "peers.py"), name, str(self.model(kind, size)), *QUESTIONS[kind]]
        run = measure(command, self.args.cores[-1:], limit, self.args.memory_limit)
        answer = run.get("answer", {})
        failure = run.get("failure")
        result: Result = {
            "status": "time limit" if failure == "time" else answer.get("status", "failed"),
            "failure": failure,
            "objective": answer.get("objective"),
            "cpu_seconds": answer.get("cpu_seconds", run["process_seconds"]),
            "build_seconds": answer.get("build_seconds"),
            "wall_seconds": run["wall_seconds"],
            "megabytes": run["megabytes"],
            "version": answer.get("version"),
        }
        store.write_text(json.dumps(kept | {key: result}, indent=1))
        return result


def off(result: Result, ours: Result) -> float | None:
    """How far an objective is from acrl's certified interval, relative to it."""
    if result["objective"] is None or not ours.get("bounds"):
        return None
    low, high = ours["bounds"]
    outside = max(0.0, low - result["objective"], result["objective"] - high)
    return float(outside / max(abs(low), abs(high), 1e-12))


def usable(result: Result) -> bool:
    """Whether it is an answer."""
    return result["objective"] is not None and (result.get("off") is None or result["off"] <= USABLE)


def hopeless(earlier: Iterable[tuple[int, Result]], states: int, limit: float) -> bool:
    """Whether a peer needs more time than there is even if its cost only grows with the model, from the last one on.

    A peer that ran out of memory or time on a smaller model of the class is not asked again.
    """
    smaller = [(size, result) for size, result in earlier if size < states]
    if any(result["status"] in ("time limit", "failed") for _, result in smaller):
        return True
    size, last = max(smaller, key=lambda entry: entry[0], default=(states, {"cpu_seconds": 0.0}))
    return bool(last["cpu_seconds"] * states / size > limit)


COLUMNS = (
    *(("contestant", 22), ("status", 18), ("objective", 13), ("off by", 8), ("CPU s", 9), ("read s", 7)),
    *(("solve s", 8), ("2 cores s", 9), ("MB", 6), ("over acrl", 9)),
)


def line(cells: Sequence[str]) -> None:
    """One line of the table."""
    print(
        "  ".join(c.ljust(w) if k < 2 else c.rjust(w) for k, (c, (_, w)) in enumerate(zip(cells, COLUMNS, strict=True)))
    )
    sys.stdout.flush()


def number(value: float | None, form: str) -> str:
    """A cell."""
    return "" if value is None else format(value, form)


def show(name: str, result: Result, ours: Result) -> None:
    """A contestant's line."""
    ratio = result["cpu_seconds"] / ours["cpu_seconds"] if ours and name != "acrl" else None
    sign = "" if usable(result) else ">"
    line(
        [
            name + (" (kept)" if result.get("kept") else ""),
            result["status"],
            number(result["objective"], ".9g"),
            number(result.get("gap") if name == "acrl" else result.get("off"), ".1e"),
            number(result["cpu_seconds"], ".3f"),
            number(result.get("build_seconds"), ".2f"),
            number(result.get("solve_seconds"), ".3f"),
            number(result.get("two_cores", {}).get("wall_seconds"), ".2f"),
            number(result["megabytes"], ".0f"),
            "" if ratio is None or result["status"] == "failed" else f"{sign}{ratio:.1f}x",
        ]
    )
    if result.get("failure") not in (None, "time"):
        print(f"    {result['failure']}")


def growth(points: Sequence[tuple[int, float]]) -> float | None:
    """The slope of log cost over log size, by least squares; None with fewer than two points."""
    if len(points) < 2:
        return None
    x, y = [math.log(n) for n, _ in points], [math.log(t) for _, t in points]
    return statistics.linear_regression(x, y).slope


def checklist(table: dict[str, dict[int, Result]], states: Callable[[str, int], int]) -> list[Result]:
    """What is to be shown, whether it was, and the figures; what was not measured is left out."""
    items: list[Result] = []

    def add(what: str, met: bool, figures: str) -> None:
        items.append({"what": what, "met": met, "figures": figures})

    def at(kind: str, size: int) -> tuple[Result | None, dict[str, Result]]:
        entry = table.get(kind, {}).get(size, {})
        return entry.get("acrl"), {name: r for name, r in entry.items() if name not in ("acrl", "states")}

    def beside(kind: str, size: int, factor: float, of: str, chosen: Callable[[str], bool]) -> None:
        ours, peers = at(kind, size)
        rivals = {name: r for name, r in peers.items() if chosen(name) and r["status"] != "failed"}
        if ours is None or not rivals:
            return
        answers = {name: r for name, r in rivals.items() if usable(r)}
        # Where none has an answer the one that tried longest says how long the best takes at least.
        name = (
            min(answers, key=lambda n: float(answers[n]["cpu_seconds"]))
            if answers
            else max(rivals, key=lambda n: float(rivals[n]["cpu_seconds"]))
        )
        ratio = rivals[name]["cpu_seconds"] / ours["cpu_seconds"]
        solved = ours["gap"] is not None and ours["gap"] <= 1e-6
        word = f"{name} {rivals[name]['cpu_seconds']:.2f} s{'' if answers else ' without an answer'}"
        figures = f"{ours['cpu_seconds']:.2f} s, {word}: {ratio:.1f}x"
        add(f"{kind} {size}: at most 1/{factor:g} of {of}", solved and ratio >= factor, figures)

    everyone = lambda _name: True  # noqa: E731
    beside("plain", 100, 12, "HiGHS simplex", lambda name: name == "highs-simplex")
    beside("plain", 100, 7, "the best mode of HiGHS", lambda name: name.startswith("highs"))
    beside("terrain", 100, 1, "the fastest peer", everyone)
    beside("terrain", 300, 5, "the fastest peer", everyone)
    beside("random", 3000, 25, "the fastest peer", everyone)
    for kind, size, seconds, megabytes in (("plain", 300, 60.0, 400.0), ("random", 30_000, 3.0, math.inf)):
        ours, _ = at(kind, size)
        if ours:
            met = ours["gap"] is not None and ours["gap"] <= 1e-6
            met &= ours["cpu_seconds"] <= seconds and ours["megabytes"] <= megabytes
            memory = "" if math.isinf(megabytes) else f" and {megabytes:g} MB"
            figures = f"gap {number(ours['gap'], '.1e')}, {ours['cpu_seconds']:.2f} s, {ours['megabytes']:.0f} MB"
            add(f"{kind} {size}: gap 1e-6 in at most {seconds:g} CPU-seconds{memory}", met, figures)
    ours, _ = at("random", 300_000)
    if ours:
        solved = ours["gap"] is not None and ours["gap"] <= 1e-6
        add("random 300000: solved", solved, f"gap {number(ours['gap'], '.1e')}, {ours['cpu_seconds']:.1f} s")
    million: list[tuple[bool, str]] = []
    for kind, sizes in table.items():
        for size in sizes:
            ours, _ = at(kind, size)
            if ours and states(kind, size) >= 1_000_000:
                used = ours.get("two_cores") or {"wall_seconds": ours["wall_seconds"], **ours}
                good = used["gap"] is not None and used["gap"] <= 1e-3
                good &= used["wall_seconds"] <= 600.0 and used["megabytes"] <= 4096.0
                figures = f"gap {number(used['gap'], '.1e')}, {used['wall_seconds']:.0f} s, {used['megabytes']:.0f} MB"
                million.append((good, f"{kind} {size}: {figures}"))
    if million:
        words = "; ".join(figures for _, figures in million)
        add("a million states: gap 1e-3 within 10 minutes on two cores and 4 GB", any(m for m, _ in million), words)
    slower, compared = [], 0
    for kind, sizes in table.items():
        for size in sizes:
            ours, peers = at(kind, size)
            answers = [(r["cpu_seconds"], name) for name, r in peers.items() if usable(r)]
            if ours and answers and states(kind, size) >= 10_000:
                compared += 1
                best, name = min(answers)
                if ours["objective"] is None or best < ours["cpu_seconds"]:
                    slower.append(f"{kind} {size}: {name} {best:.2f} s, acrl {ours['cpu_seconds']:.2f} s")
    if compared:
        add(
            "nowhere slower than the fastest peer from 10,000 states on",
            not slower,
            "; ".join(slower) or f"{compared} models",
        )
    small = [
        (ours["wall_seconds"], f"{kind} {size}")
        for kind, sizes in table.items()
        for size in sizes
        if states(kind, size) < 1000 and (ours := at(kind, size)[0])
    ]
    if small:
        longest, name = max(small)
        add(
            "below 1,000 states: well under a second, start-up included (0.5 s)",
            longest <= 0.5,
            f"{name}: {longest:.3f} s",
        )
    return items


def main() -> None:
    """Measure, print, write."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--acrl", help="our program; without it the peers are compared with each other")
    parser.add_argument("--classes", nargs="+", choices=SIZES, default=list(SIZES), help="these models only")
    parser.add_argument("--sizes", nargs="+", type=int, help="these sizes, of every class")
    parser.add_argument(
        "--skip", nargs="+", default=[], metavar="CLASS-SIZE", help="leave these models out: plain-1000"
    )
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="these peers only; none: acrl alone")
    parser.add_argument("--quick", action="store_true", help="small models only")
    parser.add_argument(
        "--time-limit", type=float, default=300.0, metavar="S", help="CPU seconds for each answer (300)"
    )
    parser.add_argument(
        "--memory-limit", type=float, default=12.0, metavar="GB", help="address space of a process (12)"
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs of acrl, of which the middle one counts (3)")
    parser.add_argument("--cores", type=int, nargs="+", default=allowed, help="the last is used, or the last two")
    parser.add_argument(
        "--keep", type=Path, help="keep models and peers' results in this folder, and use what is there"
    )
    parser.add_argument("--out", type=Path, help="folder of results.json and scaling.png; default target/bench-exact")
    parser.add_argument("--publish", action="store_true", help="write into benches/exact and docs/images, too")
    args = parser.parse_args()
    if args.publish and args.keep:
        parser.error("--publish wants figures of one run: leave --keep out")
    out: Path = args.out or ROOT / "target" / "bench-exact"

    make_venv()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        record = compare(Bench(args, folder), args)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "results.json"
    path.write_text(json.dumps(record, indent=1))
    print(f"written: {path}")
    drawn = subprocess.run([PYTHON, HERE / "plot.py", path, out / "scaling.png"], check=False)
    if drawn.returncode == 0:
        print(f"plot: {out / 'scaling.png'}")
    if args.publish:
        shutil.copy(path, HERE / "results.json")
        shutil.copy(out / "scaling.png", ROOT / "docs" / "images" / "exact-scaling.png")
    sys.exit(0 if all(item["met"] for item in record["checklist"]) else 1)


def compare(bench: Bench, args: argparse.Namespace) -> Result:
    """Everything, printed as it comes."""
    table: dict[str, dict[int, Result]] = {}
    for kind in args.classes:
        table[kind] = {}
        for size in sorted(args.sizes or (QUICK if args.quick else SIZES)[kind]):
            if f"{kind}-{size}" in args.skip:
                continue
            states = bench.states(kind, size)
            print(f"\n{kind} {size}: {states:,} states")
            line([head for head, _ in COLUMNS])
            entry: Result = {}
            ours: Result = {}
            if bench.acrl is not None:
                ours = entry["acrl"] = bench.ours(kind, size)
                show("acrl", ours, ours)
            for name in args.peers:
                earlier = [(bench.states(kind, n), done[name]) for n, done in table[kind].items() if name in done]
                if hopeless(earlier, states, args.time_limit):
                    line([name, "no hope of it", *[""] * (len(COLUMNS) - 2)])
                    continue
                result = bench.peer(name, kind, size)
                result["off"] = off(result, ours)
                entry[name] = result
                show(name, result, ours)
            table[kind][size] = entry
    exponents: dict[str, float] = {}
    for kind, sizes in table.items():
        # Below that it is starting up that is measured; large models are asked for less.
        points = [
            (bench.states(kind, size), entry["acrl"]["cpu_seconds"])
            for size, entry in sizes.items()
            if entry.get("acrl", {}).get("objective") is not None
            and entry["acrl"]["cpu_seconds"] > 0.05
            and bench.states(kind, size) < LARGE
        ]
        exponent = growth(points)
        if exponent is not None:
            exponents[kind] = exponent
            print(
                f"\n{kind}: acrl's CPU time grows as states^{exponent:.2f} ({points[0][0]:,} to {points[-1][0]:,})",
                end="",
            )
    items = checklist(table, bench.states) if bench.acrl else []
    print("\n")
    for item in items:
        print(f"{'met' if item['met'] else 'MISSED':6}  {item['what']} ({item['figures']})")
    results = [
        {"class": kind, "size": size, "states": bench.states(kind, size), "contestant": name, **result}
        for kind, sizes in table.items()
        for size, entry in sizes.items()
        for name, result in entry.items()
    ]
    return {"time_limit": args.time_limit, "results": results, "growth": exponents, "checklist": items}


if __name__ == "__main__":
    main()
