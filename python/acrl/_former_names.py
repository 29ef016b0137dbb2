"""Former names of the API, and errors that give the present ones. No former name keeps working."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ._errors import UnknownNameError

__all__ = [
    "ARGUMENTS",
    "ATTRIBUTES",
    "CLASSES",
    "SETTINGS",
    "VALUES",
    "reject_renamed_arguments",
    "reject_renamed_value",
]

#: Classes of the package.
CLASSES = {
    "Advice": "ExecutionDefaults",
    "Certified": "RequirementCertificate",
    "Choice": "DiscreteAction",
    "Component": "MixturePolicy",
    "Course": "History",
    "Number": "ContinuousAction",
}

#: Keyword arguments, by the function or class that has them.
ARGUMENTS = {
    "Agent": {"steering": "executor", "multipliers": "init_multipliers"},
    "AugmentedEnv": {"gain": "weight_scale", "every": "resample_every", "sampler": "weight_sampler"},
    "AugmentedVectorEnv": {"gain": "weight_scale", "every": "resample_every", "sampler": "weight_sampler"},
    "Training": {"existing": "if_exists", "folder": "out_dir"},
    "compare": {"budget": "train_steps", "trainings": "train_seeds"},
    "reproduce": {"folder": "out_dir"},
    "run": {"start": "init_multipliers", "steering": "executor", "mixture": "executor", "time_sharing": "executor"},
    "train": {"existing": "if_exists", "folder": "out_dir"},
}

#: Keys of ``settings`` of `acrl.train`.
SETTINGS = {
    "segment": "n_steps",
    "passes": "update_epochs",
    "minibatch": "minibatch_size",
    "step_size": "learning_rate",
    "targets": "criterion",
    "discount": "gamma",
    "trace": "gae_lambda",
    "clip": "clip_range",
    "deviation": "init_std",
    "last_deviation": "final_std",
    "entropy": "ent_coef",
    "advantage_floor": "min_advantage_std",
    "gradient_norm": "max_grad_norm",
    "hidden": "hidden_sizes",
    "sampler": "weight_sampler",
}

#: Values of arguments and settings, by their present names.
VALUES = {
    "criterion": {"average": "average_reward"},
    "if_exists": {"refuse": "error", "replace": "overwrite"},
    "weight_sampler": {"dual": "dual_trajectory", "corners": "faces"},
}

#: Attributes of results and policies, by class.
ATTRIBUTES = {
    "Agent": {"steering": "executor"},
    "Comparison": {"budget": "train_steps", "trainings": "train_seeds"},
    "Diagnosis": {"unseen": "unobserved_rewards"},
    "ExecutionDefaults": {"steering": "executor"},
    "History": {"shortfalls": "certified_shortfalls"},
    "Iteration": {"figures": "metrics", "of": "total"},
    "Policy": {"advice": "execution_defaults", "hold": "action_repeat", "start": "init_multipliers"},
    "Relaxation": {"alone": "single"},
    "RequirementCertificate": {"shortfall": "certified_shortfall"},
    "RequirementResult": {"certificate": "certified_shortfall"},
    "Solution": {"certificate": "farkas_certificate"},
    "Run": {"course": "history", "fallbacks": "runs_on_library", "steering": "executor"},
}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def reject_renamed_arguments(function: _Function) -> _Function:
    """Lets a function, or the constructor of a class, refuse a former keyword argument by its present name."""
    owner = function.__qualname__.removesuffix(".__init__")
    former = ARGUMENTS[owner]
    assert not former.keys() & inspect.signature(function).parameters.keys()

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name in former:
                raise TypeError(f"acrl.{owner} has no argument '{name}': '{name}' is now '{former[name]}'")
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


def reject_renamed_value(name: str, value: object) -> None:
    """Raises an error that gives the present value, if this is a former one."""
    new = VALUES[name].get(value) if isinstance(value, str) else None
    if new is not None:
        raise UnknownNameError(f"{name}: '{value}' is now '{new}'")
