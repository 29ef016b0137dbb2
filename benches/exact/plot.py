"""Draw `results.json` of the runner: CPU seconds against states, one panel per class of models."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """Read a file, write a picture."""
    try:
        import matplotlib
    except ImportError:
        sys.exit("no matplotlib: no plot")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    record = json.loads(Path(sys.argv[1]).read_text())
    results = record["results"]
    kinds = list(dict.fromkeys(r["class"] for r in results))
    names = list(dict.fromkeys(r["contestant"] for r in results))
    figure, axes = pyplot.subplots(1, len(kinds), figsize=(4 * len(kinds), 4), squeeze=False, sharey=True)
    for axis, kind in zip(axes[0], kinds, strict=True):
        for color, name in enumerate(names):
            mine = [r for r in results if r["class"] == kind and r["contestant"] == name and r["cpu_seconds"]]
            answers = [r for r in mine if r["objective"] is not None]
            style = {"color": "black", "linewidth": 2.5} if name == "acrl" else {"color": f"C{color}"}
            x, y = [r["states"] for r in answers], [r["cpu_seconds"] for r in answers]
            axis.loglog(x, y, marker="o", markersize=4, label=name, **style)
            late = [r for r in mine if r["status"] == "time limit"]
            x, y = [r["states"] for r in late], [r["cpu_seconds"] for r in late]
            axis.loglog(x, y, linestyle="", marker="x", color=style["color"])
        exponent = record["growth"].get(kind)
        grows = "" if exponent is None else f", acrl grows as states^{exponent:.2f}"
        axis.set(title=f"{kind}{grows}", xlabel="states")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("CPU seconds (x: stopped without an answer)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, loc="lower center", ncols=len(names))
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(sys.argv[2], dpi=110)


if __name__ == "__main__":
    main()
