"""Results of verbs: numbers, tables, pictures, pages."""

import builtins
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import acrl
import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest

mpl.use("Agg")

SHORT: dict[str, Any] = {"steps": 20_000, "seed": 3}
RUN: Any = acrl.run  # to be asked what its types do not allow


def program(*words: str) -> Any:
    """The object that the program prints."""
    command = [sys.executable, "-m", "acrl", *words, "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=300).stdout)


@pytest.fixture(scope="module")
def monitoring() -> acrl.Run:
    """Runs of Example 1."""
    return acrl.run("monitoring", runs=3, **SHORT)


def toggle() -> acrl.FiniteModel:
    """Two places, to stay or to go."""
    stay_or_go = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], dtype=float)
    return acrl.FiniteModel(stay_or_go, {"a": [1, 0], "b": [0, 1], "<moves>": [[0, 1], [0, 1]]})


def test_run_matches_the_program(monitoring: acrl.Run) -> None:
    told = program("run", "monitoring", "--runs", "3", "--steps", "20000", "--seed", "3")
    assert json.loads(monitoring.to_json()) == told
    assert monitoring.averages == told["averages"]
    assert monitoring.requirements["r1"]._asdict() == told["requirements"]["r1"]
    assert monitoring.multipliers["r2"].mean == told["multipliers"]["r2"]["mean"]
    assert monitoring.diagnosis.verdict == told["diagnosis"]["verdict"]
    assert (monitoring.runs, monitoring.steps, monitoring.seed) == (3, 20_000, 3)
    assert monitoring.objective is not None
    assert monitoring.objective.optimum == pytest.approx(1 / 3, abs=1e-3)
    assert monitoring.specification.requirements[0] == acrl.at_least("r1", 1 / 3)


def test_run_of_a_policy_matches_the_program(data: Path) -> None:
    path = data / "wireless.safetensors"
    power = acrl.at_most("power", 0.9)
    told = program("run", str(path), "--require", "power<=0.9", "--steps", "3000", "--seed", "1")
    same: list[Any] = [path, str(path), acrl.Policy.load(path)]
    for what in same:
        found = acrl.run(what, requirements=power, steps=3000, seed=1)
        assert json.loads(found.to_json()) == told
    assert found.start == told["start"]
    assert found.policy is not None
    assert found.policy["method"] == "a_crl"
    assert found.requirements["power"].bound == 0.9
    zero = acrl.run(path, steps=500, init_multipliers="zero", executor="policy", epoch=20, step_size=0.1, tolerance=0.1)
    assert set((zero.start or {}).values()) == {0.0}
    assert (zero.epoch, zero.step_size, zero.tolerance, zero.executor) == (20, 0.1, 0.1, "policy")
    assert acrl.run(path, steps=500, init_multipliers={"power": 2.0}).start == {**(zero.start or {}), "power": 2.0}


def test_a_model_of_arrays_runs() -> None:
    found = acrl.run(toggle(), objective=acrl.minimize("<moves>"), requirements=acrl.at_least("a", 0.25), **SHORT)
    assert found
    assert found.met
    assert found.requirements["a"].verdict == "satisfied" or found.requirements["a"].shortfall < 0.005
    assert found.averages["<moves>"] < 0.1
    hard = acrl.run(toggle(), requirements=[acrl.at_least("a", 0.7), acrl.at_least("b", 0.7)], **SHORT)
    assert not hard
    assert hard.diagnosis.verdict == "infeasible"
    assert hard.diagnosis.names == ("a", "b")
    assert repr(hard).startswith("<acrl.Run 2 of 2 requirements violated (infeasible): a 0.5")


def test_history_ends_at_the_final_averages(monitoring: acrl.Run) -> None:
    history = monitoring.history
    assert history is not None
    assert history.steps[-1] == 20_000
    assert (np.diff(history.steps) > 0).all()
    assert history.objective is not None
    for name in ("r1", "r2"):
        mean, least, most = history.averages[name][-1]
        assert mean == pytest.approx(monitoring.averages[name])
        assert least <= mean <= most
        certified = monitoring.requirements[name].certified_shortfall
        assert max(history.certified_shortfalls[name][-1], 0.0) == pytest.approx(certified)
        assert (history.multipliers[name] >= 0).all()
    frame = history.to_dataframe("pandas")
    assert len(frame) == 2 * len(history.steps)
    assert "points of 20000 steps" in repr(history)


def test_a_run_is_a_table(monitoring: acrl.Run) -> None:
    frame = monitoring.to_dataframe()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.index) == ["r1", "r2"]
    assert frame["average"].tolist() == [monitoring.averages["r1"], monitoring.averages["r2"]]
    other = monitoring.to_dataframe("polars")
    assert isinstance(other, pl.DataFrame)
    assert other["requirement"].to_list() == ["r1", "r2"]
    with pytest.raises(acrl.InputError, match="the library is 'excel', expected 'pandas' or 'polars'"):
        monitoring.to_dataframe("excel")  # type: ignore[call-overload]
    assert acrl.run("monitoring", objective="r0", steps=100).requirements  # those of the problem stay
    free = acrl.run(toggle(), objective="a", steps=100)
    assert free.requirements == {}
    assert free.met
    assert list(free.to_dataframe().index) == []


def test_dataframes_by_polars_and_error_without_either_library(
    monitoring: acrl.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, "pandas")
    assert isinstance(monitoring.to_dataframe(), pl.DataFrame)
    with pytest.raises(ImportError, match=r"to_dataframe\('pandas'\) needs pandas: pip install pandas"):
        monitoring.to_dataframe("pandas")
    hide(monkeypatch, "pandas", "polars", "matplotlib")
    with pytest.raises(ImportError, match="to_dataframe needs pandas or polars"):
        monitoring.to_dataframe()
    monkeypatch.delitem(sys.modules, "acrl._plots", raising=False)
    monkeypatch.delattr(acrl, "_plots", raising=False)
    with pytest.raises(ImportError, match=r"Run\.plot needs matplotlib: pip install matplotlib"):
        monitoring.plot()


def hide(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """As if these were not installed."""
    real, found = builtins.__import__, __import__("importlib").util.find_spec

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] in names:
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name in names else found(name))


def test_html_is_escaped_and_inherits_colours() -> None:
    found = acrl.run(toggle(), requirements=acrl.at_most("<moves>", 0.5), steps=1000)
    text = found._repr_html_()
    assert "&lt;moves&gt;" in text
    assert "<moves>" not in text
    assert "color:inherit" in text
    assert "background:transparent" in text
    solved = acrl.solve(toggle(), requirements=acrl.at_most("<moves>", 0.5))
    assert "&lt;moves&gt;" in solved._repr_html_()


def test_pictures(monitoring: acrl.Run) -> None:
    drawn = monitoring.plot()
    averages, multipliers, objective = drawn.axes
    assert averages.get_xlabel() == "step"
    lines = {str(line.get_label()): line for line in averages.get_lines()}
    assert np.asarray(lines["r1 ≥ 0.333333"].get_ydata())[-1] == pytest.approx(monitoring.averages["r1"])
    assert len(multipliers.get_lines()) == 4  # as they were, and their averages so far
    assert "r0" in objective.get_title(loc="left")
    png = drawn._repr_png_()  # type: ignore[attr-defined]
    assert png.startswith(b"\x89PNG")
    import matplotlib.pyplot as plt

    assert plt.get_fignums() == []  # no window, and nothing stays behind


def test_pictures_of_other_results(tmp_path: Path) -> None:
    easy, hard = acrl.solve("queue"), [acrl.at_least("r1", 0.55), acrl.at_least("r2", 0.55)]
    found = [easy, acrl.solve("monitoring", requirements=hard), acrl.solve("monitoring", objective="r0")]
    found += [acrl.solve(toggle(), objective="a")]
    for k, answer in enumerate(found):
        answer.plot().savefig(tmp_path / f"{k}.png")
    prices = easy.plot().axes[-1]
    bars: list[Any] = list(prices.patches)
    assert [bar.get_width() for bar in bars] == pytest.approx(list(easy.multipliers.values()))


def test_reports_match_those_of_the_program(monitoring: acrl.Run, tmp_path: Path) -> None:
    words = ["run", "monitoring", "--runs", "3", "--steps", "20000", "--seed", "3", "--out-dir", str(tmp_path / "a")]
    program(*words)
    assert monitoring.save_report(tmp_path / "b") == tmp_path / "b" / "report.html"
    theirs, ours = (json.loads((tmp_path / name / "report.json").read_text("utf-8")) for name in "ab")
    assert ours.pop("command") == "acrl.run('monitoring', steps=20000, runs=3, seed=3)"
    theirs.pop("command")
    assert ours == theirs
    for part in ["figures/averages.svg", "figures/averages.png", "data/multipliers.csv"]:
        assert (tmp_path / "b" / part).read_bytes() == (tmp_path / "a" / part).read_bytes()
    alone = monitoring.save_report(tmp_path / "one.html")
    assert alone.read_bytes() == (tmp_path / "b" / "report.html").read_bytes()
    (tmp_path / "file").write_text("")
    with pytest.raises(acrl.FileError, match="file"):
        monitoring.save_report(tmp_path / "file")


def test_run_without_history_has_no_curves(monitoring: acrl.Run) -> None:
    bare = acrl.Run._from_json({**json.loads(monitoring.to_json()), "more": 1}, [])
    assert bare.history is None
    assert json.loads(bare.to_json())["more"] == 1
    assert len(bare.plot().axes) == 2


def test_comparisons(tmp_path: Path) -> None:
    found = acrl.compare("monitoring", methods=["fixed_weights", "dual_descent"], steps=20_000, seed=1)
    words = ["compare", "monitoring", "--methods", "fixed_weights,dual_descent", "--steps", "20000", "--seed", "1"]
    assert json.loads(found.to_json()) == program(*words)
    assert found["A-CRL (exact)"].met
    assert not found["fixed weights"].met
    with pytest.raises(KeyError, match="A-CRL"):
        found["luck"]
    frame = found.to_dataframe()
    assert frame.loc["fixed weights", "r1"] == found["fixed weights"].averages["r1"]
    assert found.to_dataframe("polars")["method"][0] == "A-CRL (exact)"
    assert len(found.plot().axes) == 3
    assert "fixed weights" in found._repr_html_()
    assert repr(found).startswith("<acrl.Comparison of 4 methods; all requirements met by: A-CRL (exact)")
    assert found.save_report(tmp_path / "c").exists()
    assert acrl.compare(toggle(), requirements=acrl.at_least("a", 0.4), methods=["fixed_weights"], steps=1000).methods


def test_solution_matches_the_program(tmp_path: Path) -> None:
    found, told = acrl.solve("queue"), program("solve", "queue")
    ours = json.loads(found.to_json())
    assert {**ours, "seconds": 0} == {**told, "seconds": 0}
    assert (found.choices, found.rounds, found.communicating) == (told["choices"], told["rounds"], True)
    assert found
    assert repr(found).startswith("<acrl.Solution optimal: power 1.44")
    page = found.save_report(tmp_path / "s")
    assert "What each requirement costs" in page.read_text("utf-8")
    hard = acrl.solve("monitoring", requirements=[acrl.at_least("r1", 0.55), acrl.at_least("r2", 0.55)])
    assert not hard
    assert repr(hard) == "<acrl.Solution infeasible: r1, r2 are in conflict>"
    assert hard.farkas_certificate
    assert "in conflict" in hard.save_report(tmp_path / "h.html").read_text("utf-8")


def test_the_paper(tmp_path: Path) -> None:
    found = acrl.reproduce(tmp_path / "paper", quick=True, only=["fig1", "o1"])
    assert found
    assert (found.passed, found.errata, found.deviates, found.failed) == (2, 0, 0, 0)
    assert found.headline.startswith("2 reproduced, 0 errata of the paper, 0 deviate, 0 fail")
    assert found.claims[1].criteria[0].holds
    assert [figure.name for figure in found.figures] == ["fig1"]
    assert (tmp_path / "paper" / "report.html").exists()
    for file in found.figures[0].files:
        assert (tmp_path / "paper" / file).exists()
    told = program("reproduce", "--quick", "--only", "fig1,o1", "--out-dir", str(tmp_path / "again"))
    assert json.loads(found.to_json())["claims"] == told["claims"]
    assert found.claims[0].place == told["claims"][0]["where"]
    assert found.to_dataframe().loc["o1", "verdict"] == "pass"
    assert len(found.plot().axes) == 1
    assert "o1" in found._repr_html_()
    assert found.save_report(tmp_path / "elsewhere").exists()
    with pytest.raises(acrl.InputError, match="unknown figure or claim 'fig99'"):
        acrl.reproduce(tmp_path / "none", only="fig99")


def test_results_can_be_pickled(monitoring: acrl.Run, tmp_path: Path) -> None:
    other: list[Any] = [acrl.solve("monitoring"), acrl.compare("monitoring", methods=["fixed_weights"], steps=1000)]
    for found in [monitoring, *other]:
        copy = pickle.loads(pickle.dumps(found))
        assert copy == found
        assert copy.to_json() == found.to_json()
        pages = [found.save_report(tmp_path / name).read_bytes() for name in ("a.html",)]
        assert copy.save_report(tmp_path / "b.html").read_bytes() == pages[0]


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda: acrl.run("monitoring", steps=0), acrl.InputError, "steps is 0, expected a whole number from 1"),
        (lambda: RUN("monitoring", steps=1.5), acrl.InputError, "steps is 1.5"),
        (lambda: acrl.run("monitoring", runs=True), acrl.InputError, "runs is True"),
        (lambda: acrl.run("monitoring", seed=-1), acrl.InputError, "seed is -1"),
        (lambda: RUN("monitoring", epoch="long"), acrl.InputError, "the epoch is 'long'"),
        (lambda: acrl.run("monitoring", step_size=float("nan")), acrl.InputError, "step_size is nan"),
        (lambda: acrl.run("monitoring", tolerance=0), acrl.InputError, "tolerance is 0, expected a number greater"),
        (lambda: acrl.run("monitoring", init_multipliers="library"), acrl.InputError, "is for trained policies"),
        (lambda: RUN("monitoring", init_multipliers="x"), acrl.InputError, "init_multipliers is 'x'"),
        (lambda: RUN("monitoring", executor="x"), acrl.InputError, "the executor is 'x'"),
        (lambda: acrl.run("monitoring", objective="r9"), acrl.InputError, "unknown reward 'r9'"),
        (lambda: RUN(3), acrl.InputError, "3 is no problem, model or policy, expected an acrl.FiniteModel"),
        (lambda: acrl.run("planar"), acrl.InputError, "planar is continuous: a policy is needed"),
        (lambda: acrl.run("nowhere"), acrl.FileError, "nowhere: no such file, and no bundled problem of that name"),
        (lambda: acrl.run("no.safetensors"), acrl.FileError, "no.safetensors"),
        (lambda: acrl.run("no\0thing"), acrl.Error, "no"),
        (lambda: acrl.run(toggle()), acrl.InputError, "nothing to achieve: give an objective or requirements"),
        (lambda: acrl.compare("monitoring", methods=["luck"]), acrl.InputError, "luck"),
        (
            lambda: acrl.compare("monitoring", methods=["pid_lagrangian"]),
            acrl.InputError,
            "no pid_lagrangian for finite",
        ),
        (lambda: acrl.compare("monitoring", train_seeds=2), acrl.InputError, "for continuous problems"),
    ],
)
def test_bad_arguments_are_refused(ask: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask()


def test_requirements_outside_the_training_are_refused(data: Path) -> None:
    path = data / "wireless.safetensors"
    with pytest.raises(acrl.InputError, match="was not trained for"):
        acrl.run(path, requirements=acrl.at_least("power", 0.1))
    with pytest.raises(acrl.InputError, match="is a trained policy, expected a problem or model"):
        acrl.compare(path)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers")
@pytest.mark.parametrize(
    "work",
    [
        lambda _: acrl.run("monitoring", steps=10**12),
        lambda _: acrl.compare("monitoring", steps=10**12),
        lambda path: acrl.reproduce(path),
    ],
)
def test_long_work_can_be_interrupted(work: Callable[[Path], object], tmp_path: Path) -> None:
    def ring(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            work(tmp_path)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_other_threads_run_during_long_calls() -> None:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(acrl.run("monitoring", **SHORT))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [run.averages for run in found] == [found[0].averages] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_runs_too(monitoring: acrl.Run) -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        averages = pool.apply_async(forked).get(timeout=120)
    assert averages == monitoring.averages


def forked() -> Any:
    """The same runs."""
    return acrl.run("monitoring", runs=3, **SHORT).averages
