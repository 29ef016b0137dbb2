"""Progress bars of trainings and solvers."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Mapping
from typing import Any

__all__ = ["Progress", "should_show"]


def should_show(progress: bool | None) -> bool:
    """The choice of the user; by default a bar is shown in a terminal or a notebook."""
    if progress is not None:
        return bool(progress)
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class Progress:
    """A bar on standard error: that of tqdm if it is installed, else a line of text; also without a known total."""

    def __init__(self, shown: bool, total: int | None) -> None:
        self._total = total or 1
        self._shown = shown
        self._bar: Any = None
        self._start = time.monotonic()
        self._last = float("-inf")
        self._learner = ""
        if shown and total is not None:
            try:
                tqdm: Any = importlib.import_module("tqdm.auto").tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, desc="training", unit="it", file=sys.stderr)

    def iteration(self, iteration: int, steps: int, reward: float) -> None:
        """Shows an iteration of a training."""
        if self._bar is not None:
            self._bar.update(iteration - self._bar.n)
            self._bar.set_postfix(steps=steps, reward=f"{reward:.3f}", refresh=False)
            return
        elapsed = time.monotonic() - self._start
        left = elapsed / iteration * (self._total - iteration)
        self._line(
            f"training {iteration / self._total:4.0%}  {steps:,} steps  reward {reward:.3f}  {left:.0f} s left",
            iteration == self._total,
        )

    def learner(self, name: str, reason: str | None) -> None:
        """Shows which learner was chosen, and why, once."""
        text = "" if reason is None else f"learner: {name} ({reason})"
        if not self._shown or text == self._learner:
            return
        self._learner = text
        self._text(text)

    def time_shares(self, shares: Mapping[str, float]) -> None:
        """Shows what limited a training."""
        self._text("time: " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items()))

    def _text(self, text: str) -> None:
        """Shows a line that stays."""
        if self._bar is not None:
            self._bar.write(text, file=sys.stderr)
        elif self._shown:
            sys.stderr.write(f"\r{text:<78}\n")

    def evaluation(self, share: float) -> None:
        """Shows how much of the evaluation of a policy is done."""
        if self._bar is not None:
            self._bar.set_description("evaluating")
            return
        self._line(f"evaluating {share:4.0%}", False)

    def round(self, text: str) -> None:
        """Shows a round of a solver."""
        self._line(text, False)

    def _line(self, text: str, at_once: bool) -> None:
        now = time.monotonic()
        if self._shown and (at_once or now - self._last >= 0.1):
            self._last = now
            sys.stderr.write(f"\r{text:<78}")
            sys.stderr.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()
        elif self._shown and self._last > float("-inf"):
            sys.stderr.write(f"\r{'':<78}\r")
            sys.stderr.flush()
