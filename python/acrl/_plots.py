"""Pictures of results. Needs matplotlib, and is imported only when one is drawn."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ._result import figure as number
from ._result import relation

if TYPE_CHECKING:
    from ._acrl import Requirement
    from ._compare import Comparison
    from ._reproduce import Reproduction
    from ._run import Run
    from ._solve import Solution, Sweep
    from ._tradeoff import Tradeoff

__all__ = ["Drawing", "comparison", "reproduction", "run", "solution", "sweep", "tradeoff"]

#: Colours for the colour-blind (Okabe and Ito).
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#7F7F7F", "#B8A900"]
GOOD, BAD, GREY = "#009E73", "#D55E00", "#7F7F7F"
#: Bounds of at most this ratio share a pair of axes.
ONE_SCALE = 20.0


class Drawing(Figure):
    """A figure for notebooks. It is not registered with pyplot, so that no window opens."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=110)
        return content.getvalue()


def _drawing(width: float, height: float) -> Drawing:
    return Drawing(figsize=(width, height), layout="constrained", facecolor="white")


def _plain(axes: Axes, title: str = "") -> Axes:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="both", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    if title:
        axes.set_title(title, fontsize="medium", loc="left")
    return axes


def _groups(requirements: tuple[Requirement, ...]) -> list[list[int]]:
    """Requirements by axes: all share one pair if their bounds are of similar size, else each has its own."""
    sizes = [abs(r.bound) for r in requirements if r.bound != 0]
    if not sizes or max(sizes) <= ONE_SCALE * min(sizes):
        return [list(range(len(requirements)))] if requirements else []
    return [[i] for i in range(len(requirements))]


def _colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def run(found: Run) -> Drawing:
    """Averages against bounds, and multipliers, over time; without a history the averages alone."""
    if found.history is None:
        return _averages(found)
    objective, requirements = found.specification
    history, groups = found.history, _groups(requirements)
    rows = len(groups) + (objective is not None)
    drawing = _drawing(10, 0.4 + 2.9 * max(rows, 1))
    grid = drawing.add_gridspec(max(rows, 1), 2)
    settled = history.steps >= found.steps / 20
    for row, members in enumerate(groups):
        left = _plain(drawing.add_subplot(grid[row, 0]), "average so far, and what is required")
        right = _plain(drawing.add_subplot(grid[row, 1]), "multipliers (thin), and their average so far")
        shown = []
        for i in members:
            r, colour = requirements[i], _colour(i)
            averages, multipliers = history.averages[r.name], history.multipliers[r.name]
            left.axhline(r.bound, color=colour, linestyle=(0, (4, 3)), linewidth=1)
            _band(left, history.steps, averages, colour, f"{r.name} {relation(r.direction, r.bound)}", found.runs)
            right.plot(history.steps, multipliers[:, 0], color=colour, linewidth=0.8, alpha=0.35)
            so_far = np.cumsum(multipliers[:, 0]) / np.arange(1, len(multipliers) + 1)
            right.plot(history.steps, so_far, color=colour, linewidth=1.8, label=r.name)
            shown += [r.bound, float(averages[settled].min()), float(averages[settled].max())]
        _limits(left, shown)
        for axes in (left, right):
            axes.set_xlabel("step")
            axes.legend(frameon=False, fontsize="small")
    if objective is not None and history.objective is not None:
        goal = "as much as possible" if objective.sign > 0 else "as little as possible"
        axes = _plain(drawing.add_subplot(grid[len(groups), :]), f"{objective.reward}, average so far: {goal}")
        _band(axes, history.steps, history.objective, GREY, objective.reward, found.runs)
        beside = found.objective
        best = None if beside is None else beside.estimate if beside.optimum is None else beside.optimum
        if best is not None:
            axes.axhline(best, color=GREY, linestyle=(0, (4, 3)), linewidth=1, label=f"best: {number(best)}")
            axes.legend(frameon=False, fontsize="small")
        later = history.objective[settled]
        _limits(axes, [float(later.min()), float(later.max()), *([] if best is None else [best])])
        axes.set_xlabel("step")
    for axes in drawing.axes:
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    return drawing


def _limits(axes: Axes, shown: list[float]) -> None:
    """Limits of an axis for these; the transient at the start is ignored."""
    room = 0.15 * max(max(shown) - min(shown), 1e-6)
    axes.set_ylim(min(shown) - room, max(shown) + room)


def _band(axes: Axes, steps: Any, spread: Any, colour: str, label: str, runs: int) -> None:
    axes.plot(steps, spread[:, 0], color=colour, linewidth=1.5, label=label)
    if runs > 1:
        axes.fill_between(steps, spread[:, 1], spread[:, 2], color=colour, alpha=0.2, linewidth=0)


def _averages(found: Run) -> Drawing:
    requirements = found.specification.requirements
    entries = [found.requirements[r.name] for r in requirements]
    points = [(r, e.average, e.worst, e.met) for r, e in zip(requirements, entries, strict=True)]
    drawing = _drawing(6, 0.8 + 0.8 * max(len(points), 1))
    for row, (r, average, worst, met) in enumerate(points):
        axes = _against(drawing.add_subplot(len(points), 1, row + 1), r, average, GOOD if met else BAD)
        axes.plot([average, worst], [0, 0], color=GOOD if met else BAD, linewidth=2)
    return drawing


def _against(axes: Axes, r: Requirement, value: float, colour: str) -> Axes:
    """One value beside its bound."""
    _plain(axes)
    axes.axvline(r.bound, color="black", linestyle=(0, (4, 3)), linewidth=1)
    axes.plot([value], [0], "o", color=colour, markersize=8)
    room = max(2.5 * abs(value - r.bound), 0.1 * abs(r.bound), 1e-6)
    axes.set_xlim(r.bound - room, r.bound + room)
    axes.set_yticks([0], [f"{r.name} {relation(r.direction, r.bound)}"])
    axes.xaxis.set_major_locator(MaxNLocator(5))
    return axes


def comparison(found: Comparison) -> Drawing:
    """A panel for each reward with its average under each method, over runs and in the worst run."""
    objective, requirements = found.specification
    panels: list[tuple[str, Requirement | None]] = [(r.name, r) for r in requirements]
    if objective is not None:
        panels.insert(0, (objective.reward, None))
    methods = found.methods
    drawing = _drawing(2.6 + 2.4 * len(panels), 1.0 + 0.34 * len(methods))
    places = list(range(len(methods)))[::-1]
    for column, (name, r) in enumerate(panels):
        axes = _plain(drawing.add_subplot(1, len(panels), column + 1))
        if r is None and objective is not None:
            axes.set_title(f"{name} ({'max' if objective.sign > 0 else 'min'})", fontsize="medium")
            if found.optimum is not None:
                axes.axvline(found.optimum, color=GREY, linestyle=(0, (1, 2)), linewidth=1.2)
        elif r is not None:
            axes.set_title(f"{name} {relation(r.direction, r.bound)}", fontsize="medium")
            axes.axvline(r.bound, color="black", linestyle=(0, (4, 3)), linewidth=1)
        for place, entry in zip(places, methods, strict=True):
            average, worst = entry.averages[name], entry.worst[name]
            colour = GOOD if entry.met else BAD
            axes.plot([average, worst], [place, place], color=colour, linewidth=2, alpha=0.5)
            axes.plot([average], [place], "o", color=colour, markersize=6)
        axes.set_yticks(places, [entry.method for entry in methods] if column == 0 else [""] * len(methods))
        axes.set_ylim(-0.6, len(methods) - 0.4)
        axes.margins(x=0.1)
        axes.xaxis.set_major_locator(MaxNLocator(4))
    drawing.supxlabel("dots: average over runs, lines to the worst run; green: every requirement met", fontsize="small")
    return drawing


def solution(found: Solution) -> Drawing:
    """Values against bounds, and prices; or the relaxation."""
    requirements = found.requirements
    if not requirements:
        drawing = _drawing(6, 1.2)
        drawing.text(0.02, 0.5, repr(found).strip("<>"))
        return drawing
    names = [r.name for r in requirements]
    drawing = _drawing(10, 0.9 + 0.75 * len(names))
    places = list(range(len(names)))[::-1]
    if not found.feasible:
        axes = _plain(
            drawing.add_subplot(1, 1, 1), "infeasible: by how much a bound would have to give, in units of its range"
        )
        single = found.relax.single if found.relax is not None else {}
        colours = [BAD if name in found.conflict else GREY for name in names]
        axes.barh(places, [single.get(name) or 0.0 for name in names], color=colours, height=0.5, label="single")
        if found.relax is not None and found.relax.uniform is not None:
            axes.axvline(found.relax.uniform, color="black", linestyle=(0, (4, 3)), linewidth=1)
            axes.set_xlabel(f"bars: single; dashed: all of them, by {number(found.relax.uniform)}")
        axes.set_yticks(places, [name if single.get(name) is not None else f"{name}: does not help" for name in names])
        return drawing
    halves: Any = drawing.subfigures(1, 2, width_ratios=[3, 2])
    left, right = halves
    for row, r in enumerate(requirements):
        _against(left.add_subplot(len(names), 1, row + 1), r, found.values[r.name], _colour(row))
    left.suptitle("value (dot) and bound (dashed)", fontsize="medium")
    axes = _plain(right.add_subplot(1, 1, 1))
    prices = [found.multipliers[name] for name in names]
    axes.barh(places, prices, color=[_colour(i) for i in range(len(names))], height=0.5)
    for place, price in zip(places, prices, strict=True):
        axes.annotate(f" {number(price)}", (price, place), va="center", fontsize="small")
    axes.set_yticks(places, names)
    axes.margins(x=0.2)
    right.suptitle("price: objective lost per unit of bound", fontsize="medium")
    return drawing


def sweep(found: Sweep) -> Drawing:
    """The objective and the price over the bound; where the requirements cannot be met it is shaded."""
    points = sorted(found.points, key=lambda point: point.bound)
    at = np.array([point.bound for point in points])
    objective = found.specification.objective
    drawing = _drawing(10 if objective is not None else 5.5, 3.4)
    r = next(r for r in found.specification.requirements if r.name == found.requirement)
    sign = "≥" if r.direction == "at_least" else "≤"
    prices = np.array([point.multipliers.get(r.name, np.nan) for point in points], dtype=float)
    curves: list[tuple[Any, str, str, Any]] = [(prices, "price of the bound: the slope of the curve", _colour(1), None)]
    if objective is not None:
        values = np.array([np.nan if p.objective is None else p.objective for p in points])
        proved = np.array([(np.nan, np.nan) if p.bounds is None else p.bounds for p in points])
        curves.insert(0, (values, f"the best {objective.reward}", _colour(0), proved))
    for place, (y, title, colour, proved_to) in enumerate(curves):
        axes = _plain(drawing.add_subplot(1, len(curves), place + 1), title)
        axes.plot(at, y, color=colour, marker=".", linewidth=1.5)
        if proved_to is not None:
            axes.fill_between(at, proved_to[:, 0], proved_to[:, 1], color=colour, alpha=0.2, linewidth=0)
        beyond = at[[point.status == "infeasible" for point in points]]
        if len(beyond):
            axes.axvspan(beyond[0], beyond[-1], color=BAD, alpha=0.1, linewidth=0)
            axes.axvline(
                beyond[0] if r.direction == "at_least" else beyond[-1],
                color=BAD,
                linestyle=(0, (4, 3)),
                linewidth=1,
                label="cannot be met",
            )
            axes.legend(frameon=False, fontsize="small")
        axes.set_xlabel(f"bound: {r.name} {sign}")
    return drawing


def tradeoff(found: Tradeoff) -> Drawing:
    """The objective with the entries of the library, and the price over the bound; unmet bounds are left out."""
    drawing = _drawing(10, 3.4)
    r, reward = found.requirement, found.objective.reward
    sign = "≥" if r.direction == "at_least" else "≤"
    order = np.argsort(found.bounds)
    curves = [
        (found.values, f"{reward} of the best mixture of library entries", _colour(0)),
        (found.prices, "price of the bound: the slope of the curve", _colour(1)),
    ]
    for place, (y, title, colour) in enumerate(curves):
        axes = _plain(drawing.add_subplot(1, 2, place + 1), title)
        axes.plot(found.bounds[order], y[order], color=colour, linewidth=1.5)
        if place == 0 and found.entries:
            averages = np.array([[e.averages[r.name], e.averages[reward]] for e in found.entries])
            errors = np.array([[e.standard_errors[r.name], e.standard_errors[reward]] for e in found.entries])
            axes.errorbar(
                averages[:, 0],
                averages[:, 1],
                xerr=errors[:, 0],
                yerr=errors[:, 1],
                fmt="o",
                markersize=3,
                linewidth=0.8,
                color=GREY,
                label="library entries, ± 1 standard error",
            )
            axes.legend(frameon=False, fontsize="small")
        axes.axvline(r.bound, color=GREY, linestyle=(0, (4, 3)), linewidth=1)
        axes.set_xlabel(f"bound: {r.name} {sign}")
    return drawing


def reproduction(found: Reproduction) -> Drawing:
    """Numbers of claims by verdict, for each figure and for the text."""
    names = [*(f.name for f in found.figures), "text"]
    known = {f.name for f in found.figures}
    drawing = _drawing(7, 0.9 + 0.35 * len(names))
    axes = _plain(drawing.add_subplot(1, 1, 1), "claims by figure of the paper")
    places = list(range(len(names)))[::-1]
    begin = [0] * len(names)
    for verdict, colour in [("pass", GOOD), ("erratum", "#56B4E9"), ("deviates", "#E69F00"), ("fail", BAD)]:
        counts = [0] * len(names)
        for claim in found.claims:
            if claim.verdict == verdict:
                counts[names.index(claim.figure if claim.figure in known else "text")] += 1
        axes.barh(places, counts, left=begin, color=colour, height=0.6, label=verdict)
        begin = [b + c for b, c in zip(begin, counts, strict=True)]
    axes.set_yticks(places, names)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False, fontsize="small", ncols=4, loc="lower right")
    return drawing
