//! `learner = "auto"`: which learner a training ends with, what is kept of the trial, and resumes.
#![allow(missing_docs, clippy::unwrap_used)]

use acrl::{BatchMatrix, Interval, Objective, Requirement, Specification, VecTask};
use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward};
use acrl_learn::ExternalTraining;
use acrl_learn::ppo::StepResult;
use acrl_learn::settings::ExternalLearner;
use serde_json::Map;

const CHOICE: ExternalAction = ExternalAction { choices: Some(2), low: None, high: None };
const NUMBER: ExternalAction = ExternalAction { choices: None, low: Some(-1.0), high: Some(1.0) };

fn external(action: Vec<ExternalAction>) -> External {
    let reward = |name: &str| ExternalReward { name: name.to_owned(), low: 0.0, high: 1.0 };
    External::new(ExternalParameters {
        observation: vec![[-1.0, 1.0]],
        action,
        reward: vec![reward("left"), reward("right")],
        spaces: None,
    })
    .unwrap()
}

fn training(action: Vec<ExternalAction>, total_steps: u64) -> ExternalTraining {
    let external = external(action);
    let right = Requirement::at_least("right", 0.2).unwrap();
    let specification = Specification::new(Some(Objective::maximize("left")), vec![right]).unwrap();
    let task = VecTask::new(&external, specification).unwrap();
    let of = (&[Interval::new(-1.0, 1.0)][..], &[false; 2][..]);
    ExternalTraining::new(ExternalLearner::Auto, &task, of, (1, total_steps), &Map::new(), 3).unwrap()
}

/// A point that moves left and right between −1 and 1, by steps of a tenth; `drift` makes every position a new one.
struct Point {
    tenths: i32,
    drift: f64,
    steps: u64,
}

impl Point {
    fn observation(&self) -> BatchMatrix {
        let mut observation = BatchMatrix::zeros(1, 1);
        observation.set(0, 0, 0.1 * f64::from(self.tenths) + self.drift * self.steps as f64);
        observation
    }

    fn step(&mut self, training: &mut ExternalTraining) {
        let mut actions = BatchMatrix::zeros(1, 1);
        training.act(&self.observation(), &mut actions);
        self.tenths = (self.tenths + if actions.at(0, 0) > 0.5 { 1 } else { -1 }).clamp(-10, 10);
        self.steps += 1;
        let mut rewards = BatchMatrix::zeros(2, 1);
        rewards.set(usize::from(self.tenths > 0), 0, 1.0);
        training.observe(&StepResult {
            rewards: &rewards,
            observation: &self.observation(),
            final_observation: &self.observation(),
            terminated: &[false],
            truncated: &[false],
            mask: &[true],
        });
        if training.update_is_due() {
            let before = training.iteration();
            training.update(&self.observation()).unwrap();
            assert!(training.iteration() >= before && training.iteration() <= before + 1);
        }
    }
}

#[test]
fn recurring_observations_are_for_the_table() {
    let (mut training, mut point) =
        (training(vec![CHOICE], 6_000), Point { tenths: 0, drift: 0.0, steps: 0 });
    (0..400).for_each(|_| point.step(&mut training));
    assert_eq!((training.learner(), training.reason()), (ExternalLearner::Tabular, None));
    (0..400).for_each(|_| point.step(&mut training));
    assert_eq!(training.learner(), ExternalLearner::Tabular);
    let reason = training.reason().unwrap();
    assert!(reason.starts_with("observations recur: 21 distinct ones"), "{reason}");
}

#[test]
fn other_observations_are_handed_over_with_all_transitions() {
    let (mut training, mut point) =
        (training(vec![CHOICE], 3_000), Point { tenths: 0, drift: 1e-7, steps: 0 });
    (0..700).for_each(|_| point.step(&mut training));
    assert_eq!((training.learner(), training.steps()), (ExternalLearner::Sac, 700));
    assert!(training.reason().unwrap().contains("hardly recur"), "{:?}", training.reason());
    while training.iteration() < training.iterations() {
        point.step(&mut training);
    }
    assert_eq!(training.steps(), 3_000);
    let stored = serde_json::to_value(&training).unwrap();
    assert_eq!(stored["active"]["sac"]["rollout"]["steps"], 3_000, "those of the trial are among them");
}

#[test]
fn actions_and_length_may_decide_at_once() {
    for (action, steps, learner) in [
        (vec![NUMBER], 1_000, ExternalLearner::Sac),
        (vec![NUMBER, CHOICE], 1_000, ExternalLearner::Ppo),
        (vec![CHOICE; 9], 1_000, ExternalLearner::Ppo),
        (vec![CHOICE], 5_000_000, ExternalLearner::Ppo),
    ] {
        let training = training(action, steps);
        assert_eq!(training.learner(), learner, "{:?}", training.reason());
        assert!(training.reason().is_some());
    }
}

#[test]
fn training_resumed_in_the_trial_is_bit_identical() {
    for drift in [0.0, 1e-7] {
        let (mut whole, mut point) = (training(vec![CHOICE], 3_000), Point { tenths: 0, drift, steps: 0 });
        (0..420).for_each(|_| point.step(&mut whole));
        let mut resumed: ExternalTraining =
            serde_json::from_value(serde_json::to_value(&whole).unwrap()).unwrap();
        assert!(resumed.same_settings(&training(vec![CHOICE], 3_000)));
        assert!(!resumed.same_settings(&training(vec![CHOICE], 4_000)));
        let mut other = Point { ..point };
        (0..600).for_each(|_| (point.step(&mut whole), other.step(&mut resumed)).0);
        assert_eq!(serde_json::to_value(&whole).unwrap(), serde_json::to_value(&resumed).unwrap());
    }
}

#[test]
fn settings_need_a_learner() {
    let external = external(vec![CHOICE]);
    let right = Requirement::at_least("right", 0.2).unwrap();
    let task = VecTask::new(&external, Specification::new(None, vec![right]).unwrap()).unwrap();
    let of = (&[Interval::new(-1.0, 1.0)][..], &[false; 2][..]);
    let settings: Map<_, _> = [("gamma".to_owned(), 0.9.into())].into_iter().collect();
    let error = ExternalTraining::new(ExternalLearner::Auto, &task, of, (1, 100), &settings, 0).unwrap_err();
    assert!(error.to_string().contains("whose setting 'gamma' is"), "{error}");
}
