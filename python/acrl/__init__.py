"""Constrained reinforcement learning that keeps its promises.

Say what the agent must achieve, and let it meet its requirements while it runs.

| you want | you use |
|---|---|
| to say what is required | `at_least`, `at_most`, `maximize`, `minimize` |
| an agent that meets its requirements while it runs | `Agent` |
| a policy that ``acrl train`` wrote | `Policy` |
| to run a problem, a model or a policy | `run` |
| to compare methods, to reproduce the paper | `compare`, `reproduce` |
| to train π(s, λ) with a learner of yours | `AugmentedEnv`, `check_env` (need Gymnasium) |
| the exact optimum of a finite problem | `solve`, `FiniteModel` |
"""

from typing import TYPE_CHECKING

from ._acrl import Objective, Requirement, __version__
from ._agent import Agent, Certified, Predictor, Requirements
from ._compare import Comparison, MethodResult, compare
from ._errors import Error, FileError, InputError, SolveError, UnknownNameError
from ._model import FiniteModel
from ._policy import Advice, Choice, Number, Policy
from ._reproduce import Claim, ReproducedFigure, Reproduction, reproduce
from ._result import Specification
from ._run import Course, Diagnosis, MultiplierResult, RequirementResult, Run, run
from ._solve import Component, Relaxation, Solution, solve
from ._vocabulary import Named, at_least, at_most, maximize, minimize, weights

if TYPE_CHECKING:
    from ._augmented import AugmentedEnv as AugmentedEnv
    from ._check import EnvReport as EnvReport
    from ._check import check_env as check_env
else:

    def __getattr__(name: str) -> object:
        # Gymnasium is optional, and slow to import. So these are not in __all__ either.
        if name in ("AugmentedEnv", "EnvReport", "check_env"):
            try:
                from . import _augmented, _check
            except ImportError as error:
                raise ImportError(f"acrl.{name} needs Gymnasium: pip install 'acrl[gymnasium]'") from error
            return getattr(_augmented if name == "AugmentedEnv" else _check, name)
        raise AttributeError(f"module 'acrl' has no attribute '{name}'")


__all__ = [
    "Advice",
    "Agent",
    "Certified",
    "Choice",
    "Claim",
    "Comparison",
    "Component",
    "Course",
    "Diagnosis",
    "Error",
    "FileError",
    "FiniteModel",
    "InputError",
    "MethodResult",
    "MultiplierResult",
    "Named",
    "Number",
    "Objective",
    "Policy",
    "Predictor",
    "Relaxation",
    "ReproducedFigure",
    "Reproduction",
    "Requirement",
    "RequirementResult",
    "Requirements",
    "Run",
    "Solution",
    "SolveError",
    "Specification",
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
    "weights",
]
