"""What is the matter with a run, if anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Diagnosis"]


@dataclass(frozen=True)
class Diagnosis:
    """Why a requirement is behind, if one is; as a text, the sentence.

    The verdict is "met"; "converging": more steps will do; "epoch_too_short": a change of behaviour takes longer than
    an epoch; "policy_insufficient": no mixture of what the policy does meets the requirements; or "infeasible": no
    policy does. ``names`` are the requirements that it is about, and ``evidence`` the figures on which it rests, those
    of ``acrl run --json``.
    """

    verdict: Literal["met", "converging", "epoch_too_short", "infeasible", "policy_insufficient"]
    names: tuple[str, ...]
    evidence: dict[str, float | None]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def diagnosed(
    found: Mapping[str, Any], names: Sequence[str], steps: int, by: Literal["model", "library", "sight"]
) -> Diagnosis:
    """From the diagnosis of ``acrl run --json``.

    Args:
        found: The diagnosis.
        names: Those of all requirements.
        steps: The steps so far.
        by: What it rests on: an exact model, the library of a trained policy, or what the policy was seen to do.
    """
    verdict, about = found["verdict"], tuple(found["names"])
    told = _sentence(verdict, ", ".join(about or names), steps, by)
    return Diagnosis(verdict, about, dict(found["evidence"]), told)


def _sentence(verdict: str, names: str, steps: int, by: str) -> str:
    """What is the matter, and what to do about it."""
    if steps == 0:
        return "Nothing has been observed yet since the bounds were set."
    does = "was seen to do" if by == "sight" else "settles at"
    nothing = "no policy" if by == "model" else "among all rewards seen in training, no mixture"
    return {
        "met": f"Met: {names}.",
        "converging": f"Converging: {names} will be met; more steps will do.",
        "epoch_too_short": f"The multipliers of {names} keep growing: a change of behaviour takes longer than an "
        'epoch, or the policy does not do. Use epoch="auto" and more steps, or a longer epoch.',
        "policy_insufficient": f"Policy insufficient: no mixture of what the policy {does} meets {names}; train it "
        "longer, or lower a bound.",
        "infeasible": f"Infeasible: {nothing} meets {names} together; lower a bound.",
    }[verdict]
