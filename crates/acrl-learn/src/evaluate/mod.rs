//! Long-run averages of a policy under fixed weights: the policy library.
//!
//! The library is used by generalised policy improvement over a policy set (Barreto et al. 2017): at multipliers λ the
//! entry with the best weighted averages is executed. [`evaluate_library`] is for environments whose state can be
//! set, [`LibraryEvaluator`] for external ones.

mod evaluator;
mod external;
mod front;

use acrl::{BatchMatrix, Error, LibraryEntry, PolicyLibrary, Rng, VecPolicy, VecTask};

use crate::tuning::library::{AGREEMENT, BURN_IN, DRAWN, FRESH, MEASURED, OBJECTIVE_SHARES};
use crate::weights::simplex;
pub use evaluator::LibraryEvaluator;
pub use external::{EvaluatedTraining, ExternalEvaluation};

/// Measures the long-run averages of a policy at the corners of the simplex of weights, at the middles of its edges and at
/// random points.
///
/// An execution switches between behaviours, so each weighting starts from the long-run states of every corner, and from
/// initial states. Weightings whose averages depend on the start are left out, except for corners. The places of the
/// library are the long-run states of the corners; the reward that is lost on the way from each of them is measured too.
///
/// Weights are in units of the rewards' ranges, so that a middle is between two behaviours.
pub fn evaluate_library(
    task: &VecTask<'_>,
    policy: &mut dyn VecPolicy,
    seed: u64,
) -> Result<PolicyLibrary, Error> {
    let mut rng = Rng::stream(seed, u64::MAX - 1);
    let first = usize::from(!task.has_objective());
    let n = task.scales().len() - first;
    let weightings = weightings(task.scales(), task.has_objective(), DRAWN, &mut rng);
    let corners = Envs::reset(task, &weightings[..n], 1, &mut rng)?.run(task, policy, BURN_IN)?;
    let starts = n + FRESH;
    let mut envs = Envs::reset(task, &weightings, starts, &mut rng)?;
    for env in 0..envs.state.num_envs() {
        if env % starts < n {
            let corner: Vec<f64> = corners.state.column(env % starts).collect();
            envs.state.set_column(env, &corner);
        }
    }
    let mut envs = envs.run(task, policy, BURN_IN)?;
    let burn_in = envs.sums.clone();
    envs.sums.as_mut_slice().fill(0.0);
    let envs = envs.run(task, policy, MEASURED)?;
    let average = |i: usize, env: usize| envs.sums.at(i, env) / MEASURED as f64;
    let mut library = PolicyLibrary::default();
    for (j, weights) in weightings.into_iter().enumerate() {
        let (mut values, mut apart) = (Vec::new(), false);
        for (i, scale) in task.scales().iter().enumerate() {
            let of_starts = || (j * starts..(j + 1) * starts).map(|env| average(i, env));
            let (low, high) =
                (of_starts().fold(f64::INFINITY, f64::min), of_starts().fold(f64::MIN, f64::max));
            apart |= high - low > AGREEMENT * scale;
            values.push(of_starts().sum::<f64>() / starts as f64);
        }
        if !apart || j < n {
            let lost = |env: usize, i: usize| BURN_IN as f64 * values[i] - burn_in.at(i, env);
            let from = |env: usize| (0..values.len()).map(|i| lost(env, i)).collect();
            let travel = (j * starts..j * starts + n).map(from).collect();
            // After the burn-in, and the same from all starts: without standard errors. An execution corrects them.
            let steps = (MEASURED * starts) as u64;
            library.entries.push(LibraryEntry { weights, values, steps, travel, ..LibraryEntry::default() });
        }
    }
    let corners: Vec<Vec<f64>> = library.entries[..n].iter().map(|entry| entry.values.clone()).collect();
    for entry in &mut library.entries {
        let distance = |corner: &Vec<f64>| -> f64 {
            let apart = entry.values.iter().zip(corner).zip(task.scales());
            apart.map(|((a, b), scale)| (a - b).abs() / scale).sum()
        };
        let nearest = corners.iter().map(distance).enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        entry.place = nearest.map_or(0, |(i, _)| i);
    }
    Ok(library)
}

/// Weights w₀ … w_m at the corners of the simplex, which come first, at the middles of its edges, beside them, and `drawn`
/// random ones.
pub(crate) fn weightings(scales: &[f64], objective: bool, drawn: usize, rng: &mut Rng) -> Vec<Vec<f64>> {
    let first = usize::from(!objective);
    let n = scales.len() - first;
    let mut points: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|k| f64::from(k == i)).collect()).collect();
    for i in 0..n {
        let middle = |j: usize| (0..n).map(|k| if k == i || k == j { 0.5 } else { 0.0 }).collect();
        points.extend((0..i).map(middle));
    }
    if objective {
        // Each requirement with an increasing share of the objective.
        for i in 1..n {
            let weight = |k: usize, share: f64| match k {
                0 => share,
                k => f64::from(k == i) * (1.0 - share),
            };
            let beside = |share: f64| (0..n).map(|k| weight(k, share)).collect::<Vec<_>>();
            points.extend(OBJECTIVE_SHARES.map(beside));
        }
    }
    for _ in 0..drawn {
        let mut drawn = vec![0.0; n];
        simplex(&mut drawn, rng);
        points.push(drawn);
    }
    let unscaled = |w: &Vec<f64>| {
        let scaled = w.iter().zip(&scales[first..]).map(|(w, scale)| w / scale);
        std::iter::repeat_n(0.0, first).chain(scaled).collect()
    };
    points.iter().map(unscaled).collect()
}

/// Environments with fixed weights.
struct Envs {
    state: BatchMatrix,
    weights: BatchMatrix,
    /// Σ r₀ … Σ r_m.
    sums: BatchMatrix,
    rngs: Vec<Rng>,
}

impl Envs {
    /// So many environments for each weighting, in initial states.
    fn reset(
        task: &VecTask<'_>,
        weightings: &[Vec<f64>],
        starts: usize,
        rng: &mut Rng,
    ) -> Result<Self, Error> {
        let num_envs = weightings.len() * starts;
        let mut envs = Self {
            state: BatchMatrix::zeros(task.environment().state_dimension(), num_envs),
            weights: BatchMatrix::zeros(task.scales().len(), num_envs),
            sums: BatchMatrix::zeros(task.scales().len(), num_envs),
            rngs: (0..num_envs).map(|_| Rng::new(rng.bits())).collect(),
        };
        for (env, rng) in envs.rngs.iter_mut().enumerate() {
            task.environment().reset(&mut envs.state, env, rng)?;
            envs.weights.set_column(env, &weightings[env / starts]);
        }
        Ok(envs)
    }

    /// Takes so many steps.
    fn run(mut self, task: &VecTask<'_>, policy: &mut dyn VecPolicy, steps: usize) -> Result<Self, Error> {
        let (environment, num_envs) = (task.environment(), self.state.num_envs());
        let rows = |n: usize| BatchMatrix::zeros(n, num_envs);
        let mut observation = rows(environment.observation_space().len());
        let mut actions = rows(environment.action_space().len());
        let (mut named, mut rewards) = (rows(environment.reward_names().len()), rows(task.scales().len()));
        let action_repeat = policy.action_repeat().max(1);
        for step in 0..steps {
            if step % action_repeat == 0 {
                environment.observe(&self.state, &mut observation);
                policy.act(&observation, &self.weights, &mut actions, &mut self.rngs)?;
            }
            environment.step(&mut self.state, &actions, &mut named, &mut self.rngs)?;
            task.score(&named, &mut rewards)?;
            for (sum, r) in self.sums.as_mut_slice().iter_mut().zip(rewards.as_slice()) {
                *sum += r;
            }
        }
        Ok(self)
    }
}
