"""Training of one policy π(s, λ) for all multipliers, in any Gymnasium environment."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypedDict, TypeVar

import numpy as np

from . import _acrl, _former_names
from ._acrl import Objective, Requirement
from ._errors import DivergedError, InputError, UnknownNameError
from ._former_names import reject_renamed_arguments, reject_renamed_value
from ._policy import Policy, from_training
from ._progress import Progress, should_show
from ._rewards import RewardSpec
from ._spaces import describe
from ._specification import FloatArray, Named, as_objective, as_requirements
from ._vector_env import EnvBatch, EnvLike

__all__ = ["Iteration", "Settings", "Training", "train"]

#: Distance between the seeds of environments that are reset in consecutive iterations.
_RESEED_STRIDE = 7919


class Settings(TypedDict, total=False):
    """Hyperparameters of PPO. The defaults fit most problems.

    | setting | default | meaning |
    |---|---|---|
    | n_steps | 2048 / num_envs, from 16 to 512 | steps of each environment between two updates (rollout length) |
    | update_epochs | 10 | passes over a rollout |
    | minibatch_size | 256 | samples of a gradient step |
    | learning_rate | 0.001 | learning rate of Adam, annealed to 0 |
    | criterion | "average_reward" | differential values (Zhang & Ross 2021); or "discounted" sums |
    | gamma | 0.99 | discount factor per step; with "average_reward" only the unit of values |
    | gae_lambda | 0.95 | bias-variance trade-off of the generalised advantage estimate |
    | clip_range | 0.2 | clipping of the probability ratio |
    | init_std | 0.6 | initial standard deviation of continuous actions, in half-widths of their interval |
    | final_std | 0.05 | upper bound on it at the end |
    | ent_coef | 0.02 | coefficient of the entropy bonus of discrete actions |
    | min_advantage_std | 0.01 | lower bound on the standard deviation that normalises advantages |
    | max_grad_norm | 0.5 | maximum norm of a gradient |
    | hidden_sizes | [128, 128] | widths of the hidden layers |
    | weight_sampler | "dual_trajectory" | weights of dual dynamics in training; or "simplex", "faces" |
    """

    n_steps: int
    update_epochs: int
    minibatch_size: int
    learning_rate: float
    criterion: Literal["discounted", "average_reward"]
    gamma: float
    gae_lambda: float
    clip_range: float
    init_std: float
    final_std: float
    ent_coef: float
    min_advantage_std: float
    max_grad_norm: float
    hidden_sizes: list[int]
    weight_sampler: Literal["dual_trajectory", "simplex", "faces"]


@dataclass(frozen=True)
class Iteration:
    """One iteration of a training: a rollout and the update with it.

    ``metrics`` have the tags of Stable-Baselines3 ("train/approx_kl", "train/clip_fraction" …), and
    "rollout/scalarized_reward", the mean of w·r in units of the rewards' ranges, and "rollout/min_objective_progress",
    from 0 to 1, the minimum over rewards of the share of its range that the policy attains. "rollout/reward/NAME"
    is the mean of a reward of the problem per environment step, in your units and signs.
    """

    iteration: int
    #: Iterations planned.
    total: int
    #: Environment steps so far.
    steps: int
    seconds: float
    metrics: Named


class Training:
    """A training, iteration by iteration; `acrl.train` runs one to its end.

    >>> import acrl
    >>> training = acrl.Training("CartPole-v1", objective=acrl.minimize("terminated"), total_steps=4096,
    ...                          learner="ppo", requirements=acrl.at_most("right", 0.4),
    ...                          rewards=lambda obs, action, next_obs, reward, info: {"right": action})
    >>> for event in training:
    ...     if event.iteration == 1:
    ...         print(event.steps, "steps,", event.total, "iterations in all")
    4096 steps, 2 iterations in all
    >>> policy = training.policy()

    Args: those of `acrl.train`.
    """

    @reject_renamed_arguments
    def __init__(
        self,
        env: EnvLike,
        *,
        requirements: Requirement | Iterable[Requirement],
        objective: Objective | str | None = None,
        rewards: RewardSpec | None = None,
        learner: Literal["auto", "ppo", "sac", "tabular"] = "auto",
        total_steps: int | None = None,
        seed: int = 0,
        num_envs: int | None = None,
        scales: Mapping[str, float] | None = None,
        out_dir: str | os.PathLike[str] | None = None,
        if_exists: Literal["error", "overwrite", "resume"] = "error",
        checkpoint_every: float = 60.0,
        callback: Callable[[Iteration], object] | None = None,
        progress: bool | None = None,
        settings: Settings | Mapping[str, Any] | None = None,
    ) -> None:
        self._objective = as_objective(objective)
        self._required = as_requirements(requirements)
        if not self._required and self._objective is None:
            raise InputError("nothing to achieve: give an objective or requirements")
        if total_steps is None:
            total_steps = _acrl.default_total_steps(learner)
        if not total_steps >= 1:
            raise InputError(f"total_steps is {total_steps}, expected a number above 0")
        if not checkpoint_every >= 0:
            raise InputError(f"checkpoint_every is {checkpoint_every}, expected a number of seconds")
        reject_renamed_value("if_exists", if_exists)
        if if_exists not in ("error", "overwrite", "resume"):
            raise InputError(f"if_exists is {if_exists!r}, expected 'error', 'overwrite' or 'resume'")
        if if_exists == "resume" and out_dir is None:
            raise InputError("there is nothing to resume without out_dir")
        names = [] if self._objective is None else [self._objective.reward]
        names += [requirement.reward for requirement in self._required]
        self._reward_names = list(dict.fromkeys(names))
        for name, scale in (scales or {}).items():
            if name not in self._reward_names:
                raise UnknownNameError(f"scales: unknown reward '{name}', expected {', '.join(self._reward_names)}")
            # Written so that a NaN is refused too.
            if not 0 < scale < np.inf:
                raise InputError(f"the scale of '{name}' is {scale}, expected a number above 0")
        self._seed = _seed(seed)
        self._checkpoint_every = float(checkpoint_every)
        self._callback, self._show_progress = callback, should_show(progress)
        self._envs = EnvBatch(
            env,
            self._reward_names,
            num_envs=num_envs,
            copies=_acrl.default_num_envs(learner, int(total_steps)),
            rewards=rewards,
            seed=self._seed % 2**31,
        )
        self._evaluation_steps = 0
        self._complete = False
        self._policy: Policy | None = None
        self._observations: FloatArray | None = None
        spaces = {"observation": describe(self._envs.observation_space), "action": describe(self._envs.action_space)}
        given = {name: float(scale) for name, scale in (scales or {}).items()}
        self._trainer = _acrl.Trainer(
            objective=self._objective,
            requirements=self._required,
            names=self._reward_names,
            ranges=[(float(low), float(high)) for low, high in self._envs.ranges],
            parts=self._envs.parts,
            scales=[given.get(name) for name in self._reward_names],
            spaces=json.dumps(spaces),
            size=(len(self._envs), int(total_steps)),
            learner=learner,
            settings=json.dumps(_validated_settings(settings or {})),
            seed=self._seed,
        )
        self._writes = out_dir is not None
        if out_dir is not None:
            stored = self._trainer.open_folder(out_dir, if_exists)
            if if_exists == "resume":
                self._restore(stored)
        self._spent = {"simulator": 0.0, "updates": 0.0}
        self._begun = time.perf_counter()
        self._start = self._begun - self._trainer.seconds
        self._saved = time.perf_counter()

    @property
    def iteration(self) -> int:
        """Iterations done."""
        return self._trainer.iteration

    @property
    def iterations(self) -> int:
        """Iterations planned."""
        return self._trainer.iterations

    @property
    def steps(self) -> int:
        """Environment steps so far, in all environments; those of evaluations included."""
        return self._trainer.steps + self._evaluation_steps

    @property
    def learner(self) -> str:
        """The learner that acts now: with "auto" the tabular one as long as it is on trial."""
        return self._trainer.learner

    @property
    def learner_reason(self) -> str | None:
        """Why "auto" chose this learner; None during the trial, or if you named it."""
        return self._trainer.learner_reason

    @property
    def time_shares(self) -> Named:
        """What limits the training: shares of the time so far of the "simulator", of "updates" and of "acting".

        Updates of "sac" run while the environment is stepped: theirs is the time that the simulator waits for them.
        """
        total = max(time.perf_counter() - self._begun, 1e-9)
        shares = {name: min(seconds / total, 1.0) for name, seconds in self._spent.items()}
        return Named({**shares, "acting": max(1.0 - sum(shares.values()), 0.0)})

    @property
    def scales(self) -> Named:
        """Ranges of the rewards by name, as measured so far; see ``scales`` of `acrl.train`."""
        return Named(self._trainer.scales)

    def __iter__(self) -> Iterator[Iteration]:
        while self.iteration < self.iterations:
            event = self._iterate()
            if event is not None:
                yield event
        self._complete = True

    def _iterate(self) -> Iteration | None:
        """A rollout, and the update with it."""
        envs, trainer = self._envs, self._trainer
        obs = envs.reset() if self._observations is None else self._observations
        while not trainer.update_is_due:
            actions = trainer.act(obs)
            begin = time.perf_counter()
            step = envs.step(actions)
            self._spent["simulator"] += time.perf_counter() - begin
            obs = step.observations
            trainer.observe(step.rewards, obs, step.final_observations, step.terminated, step.truncated, step.mask)
        begin = time.perf_counter()
        try:
            metrics = trainer.update(obs)
        except DivergedError as error:
            checkpoint_hint = "; the last checkpoint is as good as before" if self._writes else ""
            raise DivergedError(f"{error}{checkpoint_hint}") from None
        self._spent["updates"] += time.perf_counter() - begin
        if envs.can_reset and trainer.envs_to_reset.any():
            obs = envs.restart(trainer.envs_to_reset)
        self._observations = obs
        if metrics is None:  # warm-up: no update yet
            return None
        seconds = time.perf_counter() - self._start
        trainer.log(seconds)
        now = time.perf_counter()
        due = trainer.iteration in (1, trainer.iterations) or now - self._saved >= self._checkpoint_every
        if self._writes and due:
            self.save_checkpoint()
            self._saved = now
        return Iteration(trainer.iteration, trainer.iterations, trainer.steps, seconds, Named(metrics))

    def save_checkpoint(self) -> None:
        """Writes a checkpoint to ``out_dir``. The training also calls this every ``checkpoint_every`` seconds."""
        self._trainer.save_checkpoint(self._pickled_envs())

    def _pickled_envs(self) -> bytes:
        """The environments with their states; empty if they cannot be stored."""
        if not self._envs.storable:
            return b""
        try:
            return pickle.dumps((self._envs.state(), self._observations))
        except Exception:
            return b""

    def _restore(self, stored: bytes) -> None:
        if stored:
            state, self._observations = pickle.loads(stored)
            self._envs.restore(state)
        else:
            # The environments could not be pickled: reseed them, with a seed that differs per iteration.
            self._envs.reseed((self._seed + _RESEED_STRIDE * (1 + self._trainer.iteration)) % 2**31)

    def run(self) -> Policy:
        """Trains to the end, unless the callback stops it, and returns the policy."""
        with Progress(self._show_progress, self.iterations) as bar:
            with _Interrupt() as interrupt:
                for event in self:
                    bar.learner(self.learner, self.learner_reason)
                    bar.iteration(event.iteration, event.steps, event.metrics["rollout/scalarized_reward"])
                    if interrupt.requested:
                        if self._writes:
                            self.save_checkpoint()
                        raise KeyboardInterrupt
                    if self._callback is not None and self._callback(event) is False:
                        break
                bar.time_shares(self.time_shares)
            return self._evaluate(bar)

    def policy(self) -> Policy:
        """The policy as it is now. It is evaluated first, which steps the environment."""
        if self._policy is None or not self._complete:
            self._policy = self._evaluate(None)
        return self._policy

    def _evaluate(self, bar: Progress | None) -> Policy:
        """The policy with the library of its long-run averages under fixed weights."""
        evaluation = self._trainer.evaluation()
        obs, steps = self._envs.reset() if self._observations is None else self._observations, 0
        while evaluation is not None and not evaluation.done:
            step = self._envs.step(evaluation.act(obs))
            obs, steps = step.observations, steps + 1
            evaluation.observe(step.rewards, step.mask, step.terminated | step.truncated)
            if bar is not None and steps % 64 == 0:
                bar.evaluation(evaluation.progress)
        self._observations = obs
        self._evaluation_steps += 0 if evaluation is None else evaluation.steps
        return from_training(self._trainer.finish(evaluation, self.steps, self._complete), self._seed)

    def close(self) -> None:
        """Closes ``out_dir``, and the environments that were made here."""
        self._trainer.close_folder()
        self._envs.close()

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_P = ParamSpec("_P")
_R = TypeVar("_R")


def _arguments_of(other: Callable[_P, object]) -> Callable[[Callable[..., _R]], Callable[_P, _R]]:
    """Gives a function the signature of another callable, to which it passes its arguments on."""

    def signed(function: Callable[..., _R]) -> Callable[_P, _R]:
        signature = inspect.signature(other)
        returned = inspect.signature(function).return_annotation
        function.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
        return function

    return signed


@reject_renamed_arguments
@_arguments_of(Training)
def train(*args: Any, **kwargs: Any) -> Policy:  # noqa: D417 (those of Training)
    """Trains one policy π(s, λ) for all multipliers λ, in any Gymnasium environment.

    Run it with `acrl.Agent`, also with other bounds than those of the training.

    >>> import acrl
    >>> policy = acrl.train("CartPole-v1", objective=acrl.minimize("terminated"), total_steps=4096,
    ...                     requirements=acrl.at_most("right", 0.4),
    ...                     rewards=lambda obs, action, next_obs, reward, info: {"right": action})
    >>> int(policy.predict([0.0, 0.0, 0.0, 0.0], [0.5])) in (0, 1)
    True

    Episodes are concatenated to a continuing task: where one ends the next one begins, and averages are over all steps.
    See docs/python.md.

    Args:
        env: An environment, a function that makes one, its id, or a vector environment.
        requirements: Requirements on the long-run averages per step.
        objective: The reward to optimise under the requirements; a reward's name is maximised.
        rewards: Where the rewards are found: the names of the components of a vector reward; or a dict from names to
            components and keys of ``info``; or a function ``rewards(obs, action, next_obs, reward, info)`` that returns
            a dict or a vector. Default: "reward", "reward0" …, "cost", "terminated", "truncated" and the numbers of
            ``info``.
        learner: The algorithm. "ppo": proximal policy optimisation. "sac": off-policy, soft actor-critic or, with
            discrete actions, double Q-learning; needs fewer steps, and more time for each. "tabular": a model learnt by
            counting and solved exactly, for discrete actions and at most some thousand distinct observations. "auto":
            "tabular" where observations recur, as a tenth of the training shows; "ppo" with 16 and more environments or
            5,000,000 and more steps; else "sac". `Training.learner_reason` and the progress bar say why.
        total_steps: Environment steps, in all environments; default 1,000,000 with "ppo", 100,000 with "tabular", else
            200,000. The evaluation of the policy comes on top of it: with "sac" a tenth, with "ppo" up to a quarter of
            that, and several thousand steps at least, because it measures whole episodes; with "tabular" nothing.
        seed: Seed of all randomness. The result is reproducible if the environment is.
        num_envs: Copies of the environment; default 1 with "auto" and "sac", else 16.
        scales: Ranges of the rewards' averages by name, the units in which rewards are weighed against each other;
            default: measured.
        out_dir: Folder for events, metrics (also for TensorBoard) and checkpoints.
        if_exists: What to do with a training in ``out_dir``: "error", "overwrite" it or "resume" it. A resumed training
            is bit-identical if the environment can be pickled with its state; else episodes begin anew.
            Such a checkpoint holds a pickle, which can run any code: resume only from folders that you trust.
        checkpoint_every: Seconds between two checkpoints.
        callback: Called with every `Iteration`; the training stops if it returns False.
        progress: Show a progress bar on standard error, that of tqdm if it is installed; default: in a terminal or a
            notebook.
        settings: Hyperparameters of the ``learner``, which has to be named: `Settings` of "ppo"; those of the others
            are listed in docs/training-settings.md.
    """
    with Training(*args, **kwargs) as training:
        return training.run()


class _Interrupt:
    """Delays Ctrl-C to the end of an iteration, so that a checkpoint can be written; a second one acts at once."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: Any = None

    def _request(self, *_: object) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def __enter__(self) -> _Interrupt:
        # Only the main thread can set handlers, and a user's handler stays.
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._previous = signal.signal(signal.SIGINT, self._request)
        return self

    def __exit__(self, *error: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)


def _seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise InputError(f"the seed is {seed!r}, expected a whole number from 0 to 2**64 - 1")
    return int(seed)


def _validated_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without former names; names and values are checked by the learner."""
    for name, value in settings.items():
        if name in _former_names.SETTINGS:
            raise UnknownNameError(f"settings: '{name}' is now '{_former_names.SETTINGS[name]}'")
        if name in _former_names.VALUES:
            reject_renamed_value(name, value)
    return dict(settings)
