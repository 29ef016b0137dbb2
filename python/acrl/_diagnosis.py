"""Diagnosis of a run: why a requirement is not met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Diagnosis"]


@dataclass(frozen=True)
class Diagnosis:
    """Verdict on a run, with its evidence; ``str`` gives a sentence.

    The verdict is "met"; "converging": more steps suffice; "epoch_too_short": a change of behaviour takes longer than
    an epoch; "policy_insufficient": no mixture of the policy's long-run averages meets the requirements; or
    "infeasible": no policy does. ``names`` are the requirements concerned, and ``evidence`` the numbers of
    ``acrl run --json`` on which the verdict rests.
    """

    verdict: Literal["met", "converging", "epoch_too_short", "infeasible", "policy_insufficient"]
    names: tuple[str, ...]
    evidence: dict[str, float | None]
    sentence: str
    #: Requirements whose reward was constant in training, so that nothing could be learnt about it.
    unobserved_rewards: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.sentence


def diagnosed(
    found: Mapping[str, Any], names: Sequence[str], steps: int, by: Literal["model", "library", "observation"]
) -> Diagnosis:
    """From the diagnosis of ``acrl run --json``.

    Args:
        found: The diagnosis.
        names: Those of all requirements.
        steps: The steps so far.
        by: The source of evidence: an exact model, the library of a trained policy, or the observed rewards.
    """
    verdict, about, evidence = found["verdict"], tuple(found["names"]), dict(found["evidence"])
    unobserved = tuple(found.get("unobserved_rewards", ()))
    if unobserved and steps > 0:
        sentence = _unobserved(unobserved)
    elif verdict in ("converging", "policy_insufficient") and steps > 0 and _undecided(evidence):
        sentence = _uncertain(verdict, ", ".join(about or names))
    else:
        sentence = _sentence(verdict, ", ".join(about or names), steps, by)
    return Diagnosis(verdict, about, evidence, sentence, unobserved)


def _undecided(evidence: Mapping[str, float | None]) -> bool:
    """True if the standard errors of the policy's long-run averages are too large for a verdict."""
    slack, error = evidence.get("library_slack"), evidence.get("library_error")
    return slack is not None and error is not None and abs(slack) < error


def _unobserved(names: Sequence[str]) -> str:
    rewards = "the reward of " + names[0] if len(names) == 1 else "the rewards of " + ", ".join(names)
    return (
        f"Policy insufficient: {rewards} never changed in training, so that nothing could be learnt about it; train "
        "longer, or start episodes where it can be obtained."
    )


def _uncertain(verdict: str, names: str) -> str:
    if verdict == "converging":
        return (
            f"Undecided: {names} may be met with more steps; the policy's long-run averages are too close to the "
            "bounds for a verdict."
        )
    return (
        f"Policy insufficient: the multipliers of {names} are so large that they outweigh everything else, and it is "
        "not met; train the policy longer, or lower a bound."
    )


def _sentence(verdict: str, names: str, steps: int, by: str) -> str:
    """The verdict in words, and the remedy."""
    if steps == 0:
        return "Nothing has been observed yet since the bounds were set."
    averages = "the observed rewards" if by == "observation" else "the policy's long-run averages"
    nothing = "no policy" if by == "model" else "among all rewards observed in training, no mixture"
    return {
        "met": f"Met: {names}.",
        "converging": f"Converging: the multipliers of {names} no longer grow; take more steps.",
        "epoch_too_short": f"The multipliers of {names} keep growing: a change of behaviour takes longer than an "
        'epoch, or the policy is insufficient. Use epoch="auto" and more steps, or a longer epoch.',
        "policy_insufficient": f"Policy insufficient: no mixture of {averages} meets {names}; train it "
        "longer, or lower a bound.",
        "infeasible": f"Infeasible: {nothing} meets {names} together; lower a bound.",
    }[verdict]
