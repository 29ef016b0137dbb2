"""Keys of the native half's JSON that are renamed there as well: goes when that is done, with its four uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RUN = {"acting": "executor", "steering": "executor", "fallbacks": "runs_on_library"}
_EXECUTORS = {"policies": "policy_set", "mixture": "time_sharing", "policy_library": "library"}
_REQUIREMENT = {"certificate": "certified_shortfall"}
_DIAGNOSIS = {"unseen": "unobserved_rewards"}
_EVIDENCE = {"growth": "deficit_rate", "reach": "multiplier_ratio"}
_SNAPSHOT = {"of": "total"}


def _renamed(data: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in data.items()}


def _back(names: Mapping[str, str]) -> dict[str, str]:
    return {new: old for old, new in names.items()}


def diagnosis(data: Mapping[str, Any]) -> dict[str, Any]:
    """Renames the keys of a diagnosis."""
    found = _renamed(data, _DIAGNOSIS)
    return {**found, "evidence": _renamed(found["evidence"], _EVIDENCE)}


def run(data: Mapping[str, Any]) -> dict[str, Any]:
    """Renames the keys of ``acrl run --json``."""
    found = _renamed(data, _RUN)
    if found.get("executor") in _EXECUTORS:
        found["executor"] = _EXECUTORS[found["executor"]]
    found["requirements"] = {name: _renamed(entry, _REQUIREMENT) for name, entry in found["requirements"].items()}
    found["diagnosis"] = diagnosis(found["diagnosis"])
    return found


def snapshot(data: Mapping[str, Any]) -> dict[str, Any]:
    """Renames the keys of a snapshot."""
    return _renamed(data, _SNAPSHOT)


def native_run(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that the native half reads."""
    names = _back({"steering": "executor", "fallbacks": "runs_on_library"})
    found = _renamed(data, names)
    back = _back(_REQUIREMENT)
    found["requirements"] = {name: _renamed(entry, back) for name, entry in found["requirements"].items()}
    judged = _renamed(found["diagnosis"], _back(_DIAGNOSIS))
    found["diagnosis"] = {**judged, "evidence": _renamed(judged["evidence"], _back(_EVIDENCE))}
    return found


def native_snapshot(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that the native half reads."""
    return _renamed(data, _back(_SNAPSHOT))


def comparison(data: Mapping[str, Any]) -> dict[str, Any]:
    """Renames the keys of ``acrl compare --json``."""
    return _renamed(data, {"budget": "train_steps", "trainings": "train_seeds"})


def solution(data: Mapping[str, Any]) -> dict[str, Any]:
    """Renames the keys of ``acrl solve --json``."""
    relax = data.get("relax")
    return dict(data) if relax is None else {**data, "relax": _renamed(relax, {"alone": "single"})}
