"""Progress bars: where they are should_show, and by which library."""

import io
import sys
from types import ModuleType
from typing import Any

import pytest
from acrl._progress import Progress, should_show


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_default_is_a_terminal_or_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not should_show(None)
    assert should_show(True)
    notebook: Any = ModuleType("IPython")
    notebook.get_ipython = type("ZMQInteractiveShell", (), {})
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert should_show(None)
    assert not should_show(False)
    monkeypatch.delitem(sys.modules, "IPython")
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert should_show(None)


def test_plain_line_without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)  # cannot be imported
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    for show in (False, True):
        with Progress(show, 4) as bar:
            bar.iteration(4, 100, 0.5)
            assert ("training 100%  100 steps  reward 0.500" in stream.getvalue()) == show


def test_tqdm_is_used_if_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    class Bar:
        n = 0

        def __init__(self, **options: Any) -> None:
            calls.append(options["total"])

        def update(self, steps: int) -> None:
            calls.append(steps)

        def set_postfix(self, **options: Any) -> None:
            calls.append(options["steps"])

        def set_description(self, text: str) -> None:
            calls.append(text)

        def close(self) -> None:
            calls.append("closed")

    tqdm: Any = ModuleType("tqdm.auto")
    tqdm.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", tqdm)
    with Progress(True, 4) as bar:
        bar.iteration(1, 100, 0.5)
        bar.evaluation(0.5)
    assert calls == [4, 1, 100, "evaluating", "closed"]
