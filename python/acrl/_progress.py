"""A bar that says how far a training or a solver is."""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any

__all__ = ["Progress"]


class Progress:
    """A bar on standard error: tqdm's where that is installed, else a line of its own; also without a known end."""

    def __init__(self, shown: bool, total: int | None) -> None:
        self._total = total or 1
        self._shown = shown
        self._bar: Any = None
        self._begin = time.monotonic()
        self._last = float("-inf")
        if shown and total is not None:
            try:
                tqdm: Any = importlib.import_module("tqdm.auto").tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, desc="training", unit="it", file=sys.stderr)

    def iteration(self, iteration: int, steps: int, reward: float) -> None:
        """After an iteration."""
        if self._bar is not None:
            self._bar.update(iteration - self._bar.n)
            self._bar.set_postfix(steps=steps, reward=f"{reward:.3f}", refresh=False)
            return
        elapsed = time.monotonic() - self._begin
        left = elapsed / iteration * (self._total - iteration)
        self._line(
            f"training {iteration / self._total:4.0%}  {steps:,} steps  reward {reward:.3f}  {left:.0f} s left",
            iteration == self._total,
        )

    def measuring(self, share: float) -> None:
        """While it is measured what the policy settles at."""
        if self._bar is not None:
            self._bar.set_description("measuring")
            return
        self._line(f"measuring {share:4.0%}", False)

    def round(self, text: str) -> None:
        """After a round of a solver."""
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
