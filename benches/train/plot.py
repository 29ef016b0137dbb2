"""Draw `curves.json` of the runner: mean over seeds and the range, one panel per configuration."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np


def main() -> None:
    try:
        import matplotlib
    except ImportError:
        sys.exit("no matplotlib: no plot")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    runs = json.loads(Path(sys.argv[1]).read_text())["runs"]
    configs = sorted({run["config"] for run in runs})
    figure, axes = pyplot.subplots(1, len(configs), figsize=(6 * len(configs), 4), squeeze=False)
    for axis, config in zip(axes[0], configs, strict=True):
        for name in dict.fromkeys(run["contestant"] for run in runs):
            mine = [np.asarray(r["curve"]) for r in runs if r["config"] == config and r["contestant"] == name]
            steps, values = mine[0][:, 0], np.stack([c[:, 1] for c in mine])
            (line,) = axis.plot(steps, values.mean(axis=0), label=name)
            axis.fill_between(steps, values.min(axis=0), values.max(axis=0), color=line.get_color(), alpha=0.12)
        axis.set(title=f"config {config}", xlabel="environment steps", ylabel="mean reward per step")
        axis.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(sys.argv[2])


if __name__ == "__main__":
    main()
