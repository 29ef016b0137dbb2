"""Constrained reinforcement learning with requirements on long-run averages, met while the agent runs.

| task | API |
|---|---|
| requirements and objectives | `at_least`, `at_most`, `maximize`, `minimize` |
| an agent that meets its requirements while it runs | `Agent` |
| running a problem, a model or a policy | `run` |
| comparing methods, reproducing the paper | `compare`, `reproduce` |
| training π(s, λ) in a Gymnasium environment | `train`, `Training` (need Gymnasium), `Policy` |
| training π(s, λ) with another learner | `AugmentedEnv`, `AugmentedVectorEnv`, `check_env` (need Gymnasium) |
| the exact optimum of a finite problem | `solve`, `sweep`, `FiniteModel`, `SolvedPolicy` |
"""

from typing import TYPE_CHECKING

from ._acrl import Objective, Requirement, __version__
from ._agent import Agent, Predictor, RequirementCertificate, Requirements
from ._compare import Comparison, MethodResult, compare
from ._diagnosis import Diagnosis
from ._errors import DivergedError, Error, FileError, InputError, SolveError, UnknownNameError
from ._model import FiniteModel
from ._policy import ContinuousAction, DiscreteAction, ExecutionDefaults, Interval, Policy
from ._reproduce import Claim, Criterion, ReproducedFigure, Reproduction, reproduce
from ._result import Specification
from ._run import History, MultiplierResult, ObjectiveResult, RequirementResult, Run, run
from ._solve import EndComponent, MixturePolicy, PolicyRow, Relaxation, Round, Solution, Sweep, SweepPoint, solve, sweep
from ._solved_policy import SolvedPolicy
from ._specification import Named, at_least, at_most, maximize, minimize, weights
from ._tradeoff import LibraryEntry, Tradeoff

if TYPE_CHECKING:
    from ._augmented import AugmentedEnv as AugmentedEnv
    from ._augmented import AugmentedVectorEnv as AugmentedVectorEnv
    from ._check import EnvReport as EnvReport
    from ._check import check_env as check_env
    from ._train import Iteration as Iteration
    from ._train import Settings as Settings
    from ._train import Training as Training
    from ._train import train as train
else:
    # Gymnasium is optional and slow to import, so these are not in __all__ either.
    _WITH_GYMNASIUM = {
        "AugmentedEnv": "_augmented",
        "AugmentedVectorEnv": "_augmented",
        "EnvReport": "_check",
        "Iteration": "_train",
        "Settings": "_train",
        "Training": "_train",
        "check_env": "_check",
        "train": "_train",
    }

    def __getattr__(name: str) -> object:
        if name in _WITH_GYMNASIUM:
            import importlib

            try:
                module = importlib.import_module(f".{_WITH_GYMNASIUM[name]}", __name__)
            except ImportError as error:
                raise ImportError(f"acrl.{name} needs Gymnasium: pip install 'acrl[gymnasium]'") from error
            return getattr(module, name)
        from ._former_names import CLASSES

        hint = f": it is now 'acrl.{CLASSES[name]}'" if name in CLASSES else ""
        raise AttributeError(f"module 'acrl' has no attribute '{name}'{hint}")


__all__ = [
    "Agent",
    "Claim",
    "Comparison",
    "ContinuousAction",
    "Criterion",
    "Diagnosis",
    "DiscreteAction",
    "DivergedError",
    "EndComponent",
    "Error",
    "ExecutionDefaults",
    "FileError",
    "FiniteModel",
    "History",
    "InputError",
    "Interval",
    "LibraryEntry",
    "MethodResult",
    "MixturePolicy",
    "MultiplierResult",
    "Named",
    "Objective",
    "ObjectiveResult",
    "Policy",
    "PolicyRow",
    "Predictor",
    "Relaxation",
    "ReproducedFigure",
    "Reproduction",
    "Requirement",
    "RequirementCertificate",
    "RequirementResult",
    "Requirements",
    "Round",
    "Run",
    "Solution",
    "SolveError",
    "SolvedPolicy",
    "Specification",
    "Sweep",
    "SweepPoint",
    "Tradeoff",
    "UnknownNameError",
    "__version__",
    "at_least",
    "at_most",
    "compare",
    "maximize",
    "minimize",
    "reproduce",
    "run",
    "solve",
    "sweep",
    "weights",
]
