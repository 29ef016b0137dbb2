"""The policy library of a trained policy, and what its mixtures attain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ._acrl import Objective, Requirement
from ._specification import FloatArray, Named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["LibraryEntry", "Tradeoff"]


class LibraryEntry(NamedTuple):
    """The long-run averages of π(s, w) under fixed weights w, as measured at the end of the training.

    Names are those of the objective's reward and of the requirements. Everything has the user's signs.
    """

    #: w, by name; the weights need not add up to 1.
    weights: Named
    #: The long-run average of each reward.
    averages: Named
    #: The standard error of each average.
    standard_errors: Named
    #: The steps of the measurement.
    steps: int


@dataclass(frozen=True, repr=False)
class Tradeoff:
    """The objective attainable by mixtures of library entries, as a function of the bound of one requirement.

    A mixture spends a share of time on each entry. It is an estimate: the averages are measured, and the best of many
    noisy values is biased towards better ones (`LibraryEntry.standard_errors`). True if some bound can be met.
    """

    #: The requirement whose bound varies; its own bound is that of the policy.
    requirement: Requirement
    objective: Objective
    #: The bounds of all other requirements.
    requirements: tuple[Requirement, ...]
    bounds: FloatArray
    #: The best objective for each bound; NaN where no mixture meets the requirements.
    values: FloatArray
    #: The price of each bound: the objective lost per unit by which it is tightened. NaN where it cannot be met.
    prices: FloatArray
    #: The share of time of each entry, a row for each bound; NaN where it cannot be met.
    shares: FloatArray = field(compare=False)
    #: The entries of the library.
    entries: tuple[LibraryEntry, ...] = field(compare=False)

    def __bool__(self) -> bool:
        return bool((self.values == self.values).any())

    def __len__(self) -> int:
        return len(self.bounds)

    def to_dataframe(self, library: Any = None) -> Any:
        """Bound, objective and price as a data frame of "pandas" or "polars"."""
        from ._result import dataframe  # which imports policies

        rows = [
            {"bound": bound, "objective": value, "price": price}
            for bound, value, price in zip(
                self.bounds.tolist(), self.values.tolist(), self.prices.tolist(), strict=True
            )
        ]
        return dataframe("bound", rows, library)

    def plot(self) -> Figure:
        """The objective, with the entries of the library, and the price over the bound. Needs matplotlib."""
        from ._run import _plots

        drawn: Figure = _plots("Tradeoff").tradeoff(self)
        return drawn

    def __repr__(self) -> str:
        met = int((self.values == self.values).sum())
        over = f"{self.objective.reward} over {self.requirement.name}"
        return f"<acrl.Tradeoff of {over}: {met} of {len(self)} bounds can be met>"
