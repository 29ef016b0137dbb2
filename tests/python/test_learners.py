"""`acrl.train` with each learner: the same driver, files, checkpoints and executions."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Literal

import acrl
import pytest
from test_train import WANTED, Fields, run

Learner = Literal["ppo", "sac", "tabular"]


@pytest.mark.parametrize(
    ("learner", "kind", "steps"),
    [("sac", "discrete", 6000), ("sac", "box", 6000), ("tabular", "box", 4096)],
)
def test_off_policy_and_tabular_learners_meet_original_and_changed_bounds(
    learner: Learner, kind: str, steps: int, tmp_path: Path
) -> None:
    trained = acrl.train(lambda: Fields(kind), requirements=WANTED, learner=learner, total_steps=steps, seed=1)
    trained.save(tmp_path / "policy.safetensors")
    policy = acrl.Policy.load(tmp_path / "policy.safetensors")
    assert policy._file.training[0] == learner
    for requirements in (WANTED, [acrl.at_least("red", 0.1), acrl.at_least("blue", 0.4)]):
        agent = run(policy, kind, requirements, 20_000)
        assert all(found.met for found in agent.certificate.values()), agent.certificate
    assert acrl.run(policy, env=Fields(kind), steps=20_000, seed=3)


@pytest.mark.parametrize(("learner", "total"), [("sac", 4000), ("tabular", 4096)])
def test_resumed_training_of_each_learner_is_bit_identical(learner: Learner, total: int, tmp_path: Path) -> None:
    def training(folder: Path, if_exists: Any = "error") -> acrl.Training:
        return acrl.Training(
            Fields,
            requirements=WANTED,
            learner=learner,
            total_steps=total,
            seed=3,
            out_dir=folder,
            if_exists=if_exists,
            checkpoint_every=0,
        )

    with training(tmp_path / "straight") as straight:
        metrics = [event.metrics for event in straight]
        whole = straight.policy()._file.to_bytes()
    with training(tmp_path / "parts") as first:
        for event in itertools.islice(first, 2):
            last = event.iteration
    with training(tmp_path / "parts", "resume") as second:
        assert second.iteration == last
        assert [event.metrics for event in second] == metrics[last:]
        assert second.policy()._file.to_bytes() == whole


def test_learner_that_does_not_fit_is_refused_with_the_reason() -> None:
    def wrong(text: str, kind: str = "box", **changed: Any) -> None:
        given: dict[str, Any] = {"requirements": WANTED, "total_steps": 2048, **changed}
        with pytest.raises((acrl.InputError, acrl.UnknownNameError), match=text):
            acrl.train(lambda: Fields(kind), **given)

    wrong('the learner is "dqn", expected one of ppo, sac, tabular', learner="dqn")
    wrong("ppo", kind="tuple", learner="sac")
    wrong("discrete actions", kind="discrete", learner="tabular")
    wrong("settings: unknown 'gae_lambda', expected .*tau", learner="sac", settings={"gae_lambda": 0.9})
    wrong("'tau' is 2.0", learner="sac", settings={"tau": 2.0})
