//! CPU time of a step and of a gradient step of the learner `sac`, and operations per second: `cargo bench -p acrl-learn
//! --bench sac`.
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used)]

use acrl::{BatchMatrix, Interval, Objective, Requirement, Rng, Specification, VecTask};
use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward};
use acrl_learn::ppo::StepResult;
use acrl_learn::{Criterion, Sac, SacConfig};
use cpu_time::ProcessTime;

const OBSERVATIONS: usize = 17;

/// A training that has made its random steps in an environment of noise.
struct Noise {
    sac: Sac,
    rng: Rng,
    observation: BatchMatrix,
    actions: BatchMatrix,
}

impl Noise {
    fn new(action: Vec<ExternalAction>, settings: SacConfig) -> Self {
        let reward = |name: &str| ExternalReward { name: name.to_owned(), low: 0.0, high: 1.0 };
        let external = External::new(ExternalParameters {
            observation: vec![[-1.0, 1.0]; OBSERVATIONS],
            action,
            reward: vec![reward("speed"), reward("energy")],
            spaces: None,
        })
        .unwrap();
        let energy = Requirement::at_most("energy", 0.5).unwrap();
        let specification = Specification::new(Some(Objective::maximize("speed")), vec![energy]).unwrap();
        let task = VecTask::new(&external, specification).unwrap();
        let ranges = [Interval::UNBOUNDED; OBSERVATIONS];
        let sac = Sac::new(&task, &ranges, &[false; 2], settings, 1).unwrap();
        let actions = BatchMatrix::zeros(task.environment().action_space().len(), 1);
        let mut noise =
            Self { sac, rng: Rng::new(1), observation: BatchMatrix::zeros(OBSERVATIONS, 1), actions };
        (0..noise.sac.settings().learning_starts + 100).for_each(|_| noise.step());
        noise
    }

    fn step(&mut self) {
        let Self { sac, rng, observation, actions } = self;
        sac.act(observation, actions);
        observation.as_mut_slice().iter_mut().for_each(|x| *x = rng.normal());
        let mut rewards = BatchMatrix::zeros(2, 1);
        rewards.set_column(0, &[rng.uniform(), rng.uniform()]);
        sac.observe(&StepResult {
            rewards: &rewards,
            observation,
            final_observation: observation,
            terminated: &[rng.uniform() < 0.003],
            truncated: &[false],
            mask: &[true],
        });
        sac.update().unwrap();
    }
}

/// CPU seconds of a step with this number of gradient steps.
fn seconds(action: &[ExternalAction], settings: &SacConfig, gradient_steps: usize) -> f64 {
    let settings = SacConfig { gradient_steps: Some(gradient_steps), ..settings.clone() };
    let mut noise = Noise::new(action.to_vec(), settings);
    let rounds = (0..5).map(|_| {
        let (start, steps) = (ProcessTime::now(), 4_000 / gradient_steps);
        (0..steps).for_each(|_| noise.step());
        start.elapsed().as_secs_f64() / steps as f64
    });
    rounds.fold(f64::INFINITY, f64::min)
}

/// Multiplications and additions of a gradient step, of networks alone.
fn operations(settings: &SacConfig, actions: usize, choices: Option<usize>) -> f64 {
    let inputs = OBSERVATIONS + 4;
    let forward = |first: usize, last: usize| {
        let mut widths = vec![first];
        widths.extend(&settings.hidden_sizes);
        widths.push(last);
        2.0 * widths.windows(2).map(|n| (n[0] * n[1]) as f64).sum::<f64>()
    };
    let per_sample = if let Some(n) = choices {
        // Both twins on s′, both targets, forward and backward.
        forward(inputs, 2 * n) * 2.0 * 5.0
    } else {
        let (actor, critic) = (forward(inputs, 2 * actions), forward(inputs + actions, 3));
        actor + 2.0 * critic * 4.0 + (3.0 * actor + 2.0 * critic * 2.0) / settings.policy_delay as f64
    };
    per_sample * settings.batch_size as f64
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let number = ExternalAction { choices: None, low: Some(-1.0), high: Some(1.0) };
    let choice = ExternalAction { choices: Some(4), low: None, high: None };
    let plain = SacConfig::default();
    let average = SacConfig { criterion: Criterion::AverageReward, ..plain.clone() };
    let wide = SacConfig { hidden_sizes: vec![256, 256], batch_size: 256, ..plain.clone() };
    println!("{:<44} {:>9} {:>14} {:>9}", "", "step, µs", "gradient, µs", "GFLOP/s");
    for (name, action, settings, choices) in [
        ("6 numbers, 128-128, batch 128", vec![number; 6], &plain, None),
        ("6 numbers, 128-128, batch 128, average reward", vec![number; 6], &average, None),
        ("6 numbers, 256-256, batch 256", vec![number; 6], &wide, None),
        ("4 choices, 128-128, batch 128", vec![choice], &plain, Some(4)),
    ] {
        let (one, nine) = (seconds(&action, settings, 1), seconds(&action, settings, 9));
        let gradient = (nine - one) / 8.0;
        let rate = operations(settings, action.len(), choices) / gradient / 1e9;
        println!("{name:<44} {:>9.1} {:>14.1} {rate:>9.1}", 1e6 * (one - gradient), 1e6 * gradient);
    }
}
