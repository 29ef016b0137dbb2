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
    #: Requirements whose reward never changed in training, so that nothing could be learnt about it.
    unseen: tuple[str, ...] = ()

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
    verdict, about, unseen = found["verdict"], tuple(found["names"]), tuple(found.get("unobserved_rewards", ()))
    evidence = dict(found["evidence"])
    if unseen and steps > 0:
        told = _never_seen(unseen)
    elif verdict in ("converging", "policy_insufficient") and steps > 0 and _undecided(evidence):
        told = _unsure(verdict, ", ".join(about or names))
    else:
        told = _sentence(verdict, ", ".join(about or names), steps, by)
    return Diagnosis(verdict, about, evidence, told, unseen)


def _undecided(evidence: Mapping[str, float | None]) -> bool:
    """Whether what the policy settles at is not known well enough to say that it can, or cannot, meet the bounds."""
    slack, error = evidence.get("settled_slack"), evidence.get("settled_error")
    return slack is not None and error is not None and abs(slack) < error


def _never_seen(names: Sequence[str]) -> str:
    rewards = "the reward of " + names[0] if len(names) == 1 else "the rewards of " + ", ".join(names)
    return (
        f"Policy insufficient: training never saw {rewards} change, so that nothing could be learnt about it; train "
        "longer, or begin where it can be had."
    )


def _unsure(verdict: str, names: str) -> str:
    if verdict == "converging":
        return (
            f"Not decided yet: {names} may be met with more steps; what the policy settles at is too close to the "
            "bounds to tell."
        )
    return (
        f"Policy insufficient: the multipliers of {names} are where nothing else matters, and it is not met; train the "
        "policy longer, or lower a bound."
    )


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
