//! What a policy settles at when its weights are held: the library that goes with it.

use acrl::{BatchMatrix, Error, LibraryEntry, PolicyLibrary, Rng, VecPolicy, VecTask};

use crate::weight_sampler::simplex;

/// Steps before anything is measured, and steps that are.
const SETTLING: usize = 2_000;
const MEASURED: usize = 2_000;
/// Weightings drawn from the simplex, beside its corners and the middles of its edges.
const DRAWN: usize = 40;
/// The objective's share in weightings of one requirement and the objective, beside the middle.
const BESIDE: [f64; 3] = [0.05, 0.15, 0.3];
/// Starts drawn by the environment, beside those where another behaviour has settled.
const FRESH: usize = 2;
/// How far the averages from different starts may be apart, as a share of a reward's range.
const AGREEMENT: f64 = 0.1;

/// Holds the policy at the corners of the simplex of weights, at the middles of its edges and at points drawn from
/// it, and measures what it settles at.
///
/// An execution changes from one behaviour to another, so each weighting starts where every corner's behaviour has
/// settled, and from fresh states. Weightings at which the policy stays where it was, so that the starts
/// disagree, are left out: what they settle at is no property of the weights. Corners are kept in any case.
/// The places of the library are where the corners settle, and what is lost on the way from there is measured too.
///
/// Weights are in units of the rewards' ranges, so that a middle is between two behaviours.
pub fn settle(task: &VecTask<'_>, policy: &mut dyn VecPolicy, seed: u64) -> Result<PolicyLibrary, Error> {
    let mut rng = Rng::stream(seed, u64::MAX - 1);
    let first = usize::from(!task.has_objective());
    let n = task.scales().len() - first;
    let weightings = weightings(task.scales(), task.has_objective(), DRAWN, &mut rng);
    let corners = Held::fresh(task, &weightings[..n], 1, &mut rng)?.run(task, policy, SETTLING)?;
    let starts = n + FRESH;
    let mut held = Held::fresh(task, &weightings, starts, &mut rng)?;
    for env in 0..held.state.num_envs() {
        if env % starts < n {
            let settled: Vec<f64> = corners.state.column(env % starts).collect();
            held.state.set_column(env, &settled);
        }
    }
    let mut held = held.run(task, policy, SETTLING)?;
    let on_the_way = held.sums.clone();
    held.sums.as_mut_slice().fill(0.0);
    let held = held.run(task, policy, MEASURED)?;
    let average = |i: usize, env: usize| held.sums.at(i, env) / MEASURED as f64;
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
            let lost = |env: usize, i: usize| SETTLING as f64 * values[i] - on_the_way.at(i, env);
            let from = |env: usize| (0..values.len()).map(|i| lost(env, i)).collect();
            let travel = (j * starts..j * starts + n).map(from).collect();
            // Long settled, and from starts that agree: taken as exact.
            library.entries.push(LibraryEntry { weights, values, travel, ..LibraryEntry::default() });
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

/// w₀ … w_m at the corners of the simplex of weights, which come first, at the middles of its edges, beside them, and
/// `drawn` from it.
pub(crate) fn weightings(scales: &[f64], objective: bool, drawn: usize, rng: &mut Rng) -> Vec<Vec<f64>> {
    let first = usize::from(!objective);
    let n = scales.len() - first;
    let mut points: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|k| f64::from(k == i)).collect()).collect();
    for i in 0..n {
        let middle = |j: usize| (0..n).map(|k| if k == i || k == j { 0.5 } else { 0.0 }).collect();
        points.extend((0..i).map(middle));
    }
    if objective {
        // Each requirement nearly alone, and with more and more regard for the objective.
        for i in 1..n {
            let weight = |k: usize, share: f64| match k {
                0 => share,
                k => f64::from(k == i) * (1.0 - share),
            };
            let beside = |share: f64| (0..n).map(|k| weight(k, share)).collect::<Vec<_>>();
            points.extend(BESIDE.map(beside));
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

/// Lanes whose weights are held.
struct Held {
    state: BatchMatrix,
    weights: BatchMatrix,
    /// Σ r₀ … Σ r_m.
    sums: BatchMatrix,
    rngs: Vec<Rng>,
}

impl Held {
    /// So many environments for each weighting, in states drawn by the environment.
    fn fresh(
        task: &VecTask<'_>,
        weightings: &[Vec<f64>],
        starts: usize,
        rng: &mut Rng,
    ) -> Result<Self, Error> {
        let num_envs = weightings.len() * starts;
        let mut held = Self {
            state: BatchMatrix::zeros(task.environment().state_dimension(), num_envs),
            weights: BatchMatrix::zeros(task.scales().len(), num_envs),
            sums: BatchMatrix::zeros(task.scales().len(), num_envs),
            rngs: (0..num_envs).map(|_| Rng::new(rng.bits())).collect(),
        };
        for (env, rng) in held.rngs.iter_mut().enumerate() {
            task.environment().reset(&mut held.state, env, rng)?;
            held.weights.set_column(env, &weightings[env / starts]);
        }
        Ok(held)
    }

    /// So many steps more.
    fn run(mut self, task: &VecTask<'_>, policy: &mut dyn VecPolicy, steps: usize) -> Result<Self, Error> {
        let (environment, num_envs) = (task.environment(), self.state.num_envs());
        let rows = |n: usize| BatchMatrix::zeros(n, num_envs);
        let mut observation = rows(environment.observation_space().len());
        let mut actions = rows(environment.action_space().len());
        let (mut named, mut rewards) = (rows(environment.reward_names().len()), rows(task.scales().len()));
        let hold = policy.action_repeat().max(1);
        for step in 0..steps {
            if step % hold == 0 {
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
