"""Training of one policy π(s, λ) for all multipliers, in any environment of Gymnasium."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np

from . import _acrl
from ._acrl import Objective, Requirement
from ._errors import DivergedError, InputError, UnknownNameError
from ._lanes import EnvLike, Lanes
from ._policy import Policy, from_training
from ._progress import Progress
from ._rewards import RewardSpec
from ._spaces import describe
from ._vocabulary import FloatArray, Named, as_objective, as_requirements

__all__ = ["Iteration", "Settings", "Training", "train"]


class Settings(TypedDict, total=False):
    """What else can be set about training. Default values fit most problems.

    | setting | default | is |
    |---|---|---|
    | segment | 2048 / lanes, from 16 to 512 | decisions in each lane between two updates |
    | passes | 10 | passes over these |
    | minibatch | 256 | decisions of one gradient step |
    | step_size | 0.001 | of Adam, going down to 0 |
    | targets | "average" | what the critic learns: what is above the long-run averages, or "discounted" sums |
    | discount | 0.99 | γ per step; with average targets of no account |
    | trace | 0.95 | κ of the generalised advantages |
    | clip | 0.2 | how far π(a) may move in one update |
    | deviation, last_deviation | 0.6, 0.05 | σ of numbers at first and at most in the end, in half ranges |
    | entropy | 0.02 | bonus on the entropy of choices |
    | advantage_floor | 0.01 | advantages of a reward are divided by their deviation, or by this if that is less |
    | gradient_norm | 0.5 | the longest gradient |
    | hidden | [128, 128] | widths of the hidden layers |
    | sampler | "dual" | the weights to train on |
    """

    segment: int
    passes: int
    minibatch: int
    step_size: float
    targets: Literal["discounted", "average"]
    discount: float
    trace: float
    clip: float
    deviation: float
    last_deviation: float
    entropy: float
    advantage_floor: float
    gradient_norm: float
    hidden: list[int]
    sampler: Literal["dual", "simplex", "corners"]


@dataclass(frozen=True)
class Iteration:
    """What one iteration of a training tells.

    ``figures`` are "reward", the mean of w·r in units of the rewards' ranges; "mastered", from 0 to 1, how much of its
    range the policy has of the reward it is worst at; and the learner's own.
    """

    iteration: int
    of: int
    steps: int
    seconds: float
    figures: Named


#: Decisions between two updates, in all lanes.
_BATCH = 2048
#: Steps for which a behaviour is held until it counts, steps of which it counts, and weights drawn beside the regular.
_SETTLING, _MEASURED, _DRAWN = 250, 500, 12
#: The share of the steps of a training that goes into measuring what the policy settles at, and the most of it, where
#: values are not known well enough then or episodes are long.
_SHARE, _MOST = 0.15, 0.25


class Training:
    """A training, iteration by iteration; `acrl.train` runs one to its end.

    >>> import acrl
    >>> training = acrl.Training("CartPole-v1", objective=acrl.minimize("terminated"), total_steps=4096,
    ...                          requirements=acrl.at_most("right", 0.4),
    ...                          rewards=lambda obs, action, next_obs, reward, info: {"right": action})
    >>> for event in training:
    ...     if event.iteration == 1:
    ...         print(event.steps, "steps,", event.of, "iterations in all")
    4096 steps, 2 iterations in all
    >>> policy = training.policy()

    Args: those of `acrl.train`.
    """

    def __init__(
        self,
        env: EnvLike,
        *,
        requirements: Requirement | Iterable[Requirement],
        objective: Objective | str | None = None,
        rewards: RewardSpec | None = None,
        total_steps: int = 1_000_000,
        seed: int = 0,
        num_envs: int | None = None,
        scales: Mapping[str, float] | None = None,
        folder: str | os.PathLike[str] | None = None,
        existing: Literal["refuse", "replace", "resume"] = "refuse",
        checkpoint_every: float = 60.0,
        settings: Settings | None = None,
    ) -> None:
        self._objective = as_objective(objective)
        self._required = as_requirements(requirements)
        if not self._required and self._objective is None:
            raise InputError("nothing to achieve: give an objective or requirements")
        if not total_steps >= 1:
            raise InputError(f"total_steps is {total_steps}, expected a number above 0")
        if not checkpoint_every >= 0:
            raise InputError(f"checkpoint_every is {checkpoint_every}, expected a number of seconds")
        if existing not in ("refuse", "replace", "resume"):
            raise InputError(f"existing is {existing!r}, expected 'refuse', 'replace' or 'resume'")
        if existing == "resume" and folder is None:
            raise InputError("there is nothing to resume without a folder")
        names = [] if self._objective is None else [self._objective.reward]
        names += [requirement.reward for requirement in self._required]
        self._names = list(dict.fromkeys(names))
        for name, scale in (scales or {}).items():
            if name not in self._names:
                raise UnknownNameError(f"scales: unknown reward '{name}', expected {', '.join(self._names)}")
            # Written so that a NaN is refused too.
            if not 0 < scale < np.inf:
                raise InputError(f"the scale of '{name}' is {scale}, expected a number above 0")
        self._seed = _seed(seed)
        self._total = int(total_steps)
        self._every = float(checkpoint_every)
        self._lanes = Lanes(env, self._names, num_envs=num_envs, rewards=rewards, seed=self._seed % 2**31)
        self._made_steps = 0
        self._complete = False
        self._policy: Policy | None = None
        self._observations: FloatArray | None = None
        spaces = {"observation": describe(self._lanes.observation_space), "action": describe(self._lanes.action_space)}
        self._trainer = _acrl.Trainer(
            self._objective,
            self._required,
            self._names,
            [(float(low), float(high)) for low, high in self._lanes.ranges],
            self._lanes.parts,
            [None if scales is None or name not in scales else float(scales[name]) for name in self._names],
            json.dumps(spaces),
            json.dumps(_settings(len(self._lanes), self._total, settings or {})),
            self._seed,
        )
        self._folder = folder is not None
        if folder is not None:
            kept = self._trainer.open_folder(folder, "create" if existing == "refuse" else existing)
            if existing == "resume":
                self._restore(kept)
        self._begin = time.perf_counter() - self._trainer.seconds
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
        """Steps of the environment so far, in all lanes."""
        return self._trainer.steps + self._made_steps

    @property
    def scales(self) -> Named:
        """The range of each reward, by its name, as measured so far; see ``scales`` of `acrl.train`."""
        return Named(self._trainer.units)

    def __iter__(self) -> Iterator[Iteration]:
        while self.iteration < self.iterations:
            event = self._iterate()
            if event is not None:
                yield event
        self._complete = True

    def _iterate(self) -> Iteration | None:
        """One segment, and the improvement by it."""
        lanes, trainer = self._lanes, self._trainer
        seen = lanes.reset() if self._observations is None else self._observations
        while not trainer.full:
            stepped = lanes.step(trainer.decide(seen))
            seen = stepped.observations
            trainer.observe(stepped.rewards, seen, stepped.last, stepped.terminated, stepped.truncated, stepped.valid)
        try:
            figures = trainer.improve(seen)
        except DivergedError as error:
            kept = "; the last checkpoint is as good as before" if self._folder else ""
            raise DivergedError(f"{error}{kept}") from None
        if lanes.can_reset and trainer.restarts.any():
            seen = lanes.restart(trainer.restarts)
        self._observations = seen
        if figures is None:
            return None
        seconds = time.perf_counter() - self._begin
        trainer.note(seconds)
        now = time.perf_counter()
        if self._folder and (trainer.iteration in (1, trainer.iterations) or now - self._saved >= self._every):
            self.save_checkpoint()
            self._saved = now
        return Iteration(trainer.iteration, trainer.iterations, trainer.steps, seconds, Named(figures))

    def save_checkpoint(self) -> None:
        """Writes a checkpoint to the folder, between two iterations; the training does so by itself every minute."""
        self._trainer.save_checkpoint(self._kept())

    def _kept(self) -> bytes:
        """The environments, if they can be stored with their states."""
        if not self._lanes.storable:
            return b""
        try:
            return pickle.dumps((self._lanes.state(), self._observations))
        except Exception:
            return b""

    def _restore(self, kept: bytes) -> None:
        if kept:
            state, self._observations = pickle.loads(kept)
            self._lanes.restore(state)
        else:
            # Episodes begin anew, with other seeds than at first.
            self._lanes.reseed((self._seed + 7919 * (1 + self._trainer.iteration)) % 2**31)

    def policy(self) -> Policy:
        """The policy as it is now. Measures first what it settles at, for which the environment is stepped."""
        if self._policy is None or not self._complete:
            content = self._finish(None)
            self._policy = from_training(content, self._seed)
        return self._policy

    def _finish(self, progress: Progress | None) -> bytes:
        trainer = self._trainer
        budget = int(_MOST * self._total / len(self._lanes))
        whole = trainer.settler(_DRAWN, _SETTLING, _MEASURED, 0, False).steps * len(self._lanes)
        factor = float(np.clip(_SHARE * self._total / whole, 0.1, 2.0))
        settling, measured = max(int(factor * _SETTLING), 1), max(int(factor * _MEASURED), 1)
        drawing = False
        if any(choices is not None for choices, _, _ in self._lanes.parts):
            # The likeliest choice may run in circles where drawn ones do not.
            tried = [trainer.settler(None, settling, measured, 0, drawing) for drawing in (False, True)]
            best = [self._settle(settler, progress).corners for settler in tried]
            drawing = float(np.sum(best[1]) - np.sum(best[0])) > 0.02 * len(best[0])
            budget = max(budget - sum(settler.steps for settler in tried), 0)
        drawn, measured = self._whole_episodes(settling, measured, budget)
        settler = self._settle(trainer.settler(drawn, settling, measured, budget, drawing), progress)
        return trainer.finish(settler, self.steps, self._complete)

    def _whole_episodes(self, settling: int, measured: int, budget: int) -> tuple[int, int]:
        """The weights drawn beside the regular, and the steps to measure at each: whole episodes, as far as possible.

        A part of an episode says little about the rest. Where episodes are long fewer weights are drawn.
        """

        def steps(drawn: int, measured: int) -> int:
            return self._trainer.settler(drawn, settling, measured, 0, False).steps

        episode = max(round(self._trainer.episode or 1.0), 1)
        whole, most = episode * -(-measured // episode), max(budget, steps(_DRAWN, measured))
        for drawn in range(_DRAWN, -1, -1):
            if steps(drawn, whole) <= most:
                return drawn, whole
        rounds = steps(0, measured) // (settling + measured)
        return 0, max(most // rounds - settling, measured)

    def _settle(self, settler: _acrl.Settler, progress: Progress | None) -> _acrl.Settler:
        seen = self._lanes.reset() if self._observations is None else self._observations
        step = 0
        while not settler.over:
            stepped = self._lanes.step(settler.decide(seen))
            seen = stepped.observations
            settler.observe(stepped.rewards, stepped.valid, stepped.terminated | stepped.truncated)
            step += 1
            if progress is not None and step % 64 == 0:
                progress.measuring(step / settler.steps)
        self._observations = seen
        self._made_steps += step * len(self._lanes)
        return settler

    def close(self) -> None:
        """Closes the folder, and the environments that were made here."""
        self._trainer.close_folder()
        self._lanes.close()

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def train(
    env: EnvLike,
    *,
    requirements: Requirement | Iterable[Requirement],
    objective: Objective | str | None = None,
    rewards: RewardSpec | None = None,
    total_steps: int = 1_000_000,
    seed: int = 0,
    num_envs: int | None = None,
    scales: Mapping[str, float] | None = None,
    folder: str | os.PathLike[str] | None = None,
    existing: Literal["refuse", "replace", "resume"] = "refuse",
    checkpoint_every: float = 60.0,
    callback: Callable[[Iteration], object] | None = None,
    progress: bool | None = None,
    settings: Settings | None = None,
) -> Policy:
    """Trains one policy π(s, λ) that is good for all multipliers λ, in any environment of Gymnasium.

    Run it with `acrl.Agent`, also with other bounds than those it was trained with.

    >>> import acrl
    >>> policy = acrl.train("CartPole-v1", objective=acrl.minimize("terminated"), total_steps=4096,
    ...                     requirements=acrl.at_most("right", 0.4),
    ...                     rewards=lambda obs, action, next_obs, reward, info: {"right": action})
    >>> int(policy.predict([0.0, 0.0, 0.0, 0.0], [0.5])) in (0, 1)
    True

    An episodic environment is taken as one that goes on for ever: where an episode ends the next one begins, and
    averages are over all steps. See docs/python.md.

    Args:
        env: An environment, a function that makes one, its id, or a vector environment.
        requirements: What is required of the long-run averages per step.
        objective: What to improve beside that; a reward's name is maximised.
        rewards: How to find rewards: the names of the components of a vector reward; or a dict from names to components
            and keys of ``info``; or a function ``rewards(obs, action, next_obs, reward, info)`` that returns a dict or
            a vector. Without it "reward", "reward0" …, "cost", "terminated", "truncated" and the numbers of ``info``
            are known.
        total_steps: Steps of the environment, in all lanes; measuring what the policy settles at takes up to a
            quarter of that on top of it, and several thousand steps at least. It is measured over whole episodes, and
            over more of them until the averages are known to a hundredth of what they differ by.
        seed: Same seed, same result, if the environment keeps to its seed.
        num_envs: Copies of the environment; default 16.
        scales: The ranges of rewards' averages, by name, in units of which they are weighed against each other;
            default: measured.
        folder: Keeps events, figures (also for TensorBoard) and checkpoints there.
        existing: What to do with a training that is there already: "refuse", "replace" it or "resume" it. A resumed
            training continues to the bit if the environment can be pickled with its state; else episodes begin anew.
            Such a checkpoint holds a pickle, which can run any code: resume only from folders that you trust.
        checkpoint_every: Seconds between two checkpoints.
        callback: Is told of every iteration; what it returns stops the training if it is False.
        progress: Whether to show a bar on standard error; default if that is a terminal.
        settings: See `Settings`.
    """
    training = Training(
        env,
        requirements=requirements,
        objective=objective,
        rewards=rewards,
        total_steps=total_steps,
        seed=seed,
        num_envs=num_envs,
        scales=scales,
        folder=folder,
        existing=existing,
        checkpoint_every=checkpoint_every,
        settings=settings,
    )
    with training, Progress(sys.stderr.isatty() if progress is None else progress, training.iterations) as bar:
        with _Interrupt() as interrupt:
            for event in training:
                bar.iteration(event.iteration, event.steps, event.figures["reward"])
                if interrupt.asked:
                    if folder is not None:
                        training.save_checkpoint()
                    raise KeyboardInterrupt
                if callback is not None and callback(event) is False:
                    break
        return from_training(training._finish(bar), training._seed)


class _Interrupt:
    """Lets an iteration end before Ctrl-C acts, so that a checkpoint can be written; the second one acts at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def _ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __enter__(self) -> _Interrupt:
        # Other threads cannot, and others' handlers stay.
        ours = threading.current_thread() is threading.main_thread()
        if ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


def _seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise InputError(f"the seed is {seed!r}, expected a whole number from 0 to 2**64 - 1")
    return int(seed)


def _settings(lanes: int, total: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the learner: what is given, and defaults for environments of Python."""
    unknown = [name for name in given if name not in Settings.__annotations__]
    if unknown:
        raise UnknownNameError(f"settings: unknown '{unknown[0]}', expected {', '.join(Settings.__annotations__)}")
    settings = {
        "segment": int(np.clip(_BATCH // lanes, 16, 512)),
        "minibatch": 256,
        "passes": 10,
        "targets": "average",
        "hidden": [128, 128],
        "discount": 0.99,
        "entropy": 0.02,
        "advantage_floor": 0.01,
        **given,
    }
    return {**settings, "lanes": lanes, "decisions": total, "hold": 1}
