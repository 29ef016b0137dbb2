//! Executions of the continuous problem, watched as Fig. 6 shows them.

use std::ops::ControlFlow;

use acrl::{
    Agent, BatchMatrix, EachStep, EpochLength, Execution, History, MeanMinMax, Rng, Step, VecExecution,
    VecPolicy, VecTask,
};
use rayon::prelude::*;

use crate::ProgressShare;
use acrl_app::{Context as _, Error, ensure};

/// Cells of the occupation measure along a side.
pub(crate) const CELLS: usize = 50;
/// The steps of which every multiplier is shown.
pub(crate) const LAST: u64 = 10_000;
/// Of the last steps every so manieth is kept.
const EVERY: u64 = 10;

/// Some runs of the continuous problem.
pub(crate) struct Watched {
    executions: Vec<Execution<Vec<f64>>>,
    /// Averages over time.
    pub(crate) history: History,
    /// Visits of each cell.
    pub(crate) counts: Vec<u64>,
    /// The multipliers of the first run.
    pub(crate) first: First,
}

/// The multipliers of one run.
#[derive(Default, Clone)]
pub(crate) struct First {
    sums: Vec<f64>,
    /// By moment the averages over time so far.
    pub(crate) means: Vec<Vec<f64>>,
    /// Step and multipliers, at the end.
    pub(crate) late: Vec<(f64, Vec<f64>)>,
    largest: Option<usize>,
    /// How often another multiplier becomes the largest in the last steps.
    pub(crate) changes: usize,
}

impl First {
    fn see(&mut self, step: u64, steps: u64, moment: bool, lambda: &[f64]) {
        self.sums.resize(lambda.len(), 0.0);
        self.sums.iter_mut().zip(lambda).for_each(|(sum, l)| *sum += l);
        if moment {
            self.means.push(self.sums.iter().map(|sum| sum / step as f64).collect());
        }
        if step + LAST > steps {
            let order = |a: &usize, b: &usize| lambda[*a].total_cmp(&lambda[*b]);
            let largest = (0..lambda.len()).max_by(order);
            self.changes += usize::from(self.largest.is_some() && self.largest != largest);
            self.largest = largest;
            if step.is_multiple_of(EVERY) {
                self.late.push((step as f64, lambda.to_vec()));
            }
        }
    }
}

impl Watched {
    /// A statistic over the runs of the average of r_i at each moment.
    pub(crate) fn over_runs(&self, i: usize, statistic: fn(&MeanMinMax) -> f64) -> Vec<f64> {
        self.history.snapshots().iter().map(|snapshot| statistic(&snapshot.averages[i])).collect()
    }

    /// Adds runs that come after these.
    fn merge(&mut self, other: Self) {
        self.executions.extend(other.executions);
        self.history.merge(&other.history);
        self.counts.iter_mut().zip(other.counts).for_each(|(a, b)| *a += b);
    }

    /// r₁ … r_m at the end, run by run.
    fn ends(&self) -> impl Iterator<Item = &[f64]> {
        self.executions.iter().map(|run| run.averages.requirements())
    }

    /// The means over runs at the end.
    pub(crate) fn mean(&self) -> Vec<f64> {
        let n = self.executions.len().max(1) as f64;
        let m = self.ends().next().map_or(0, <[f64]>::len);
        (0..m).map(|i| self.ends().map(|run| run[i]).sum::<f64>() / n).collect()
    }

    /// The least over runs at the end.
    pub(crate) fn worst(&self) -> Vec<f64> {
        let m = self.ends().next().map_or(0, <[f64]>::len);
        (0..m).map(|i| self.ends().map(|run| run[i]).fold(f64::INFINITY, f64::min)).collect()
    }

    /// The runs whose averages are all at least what is required.
    pub(crate) fn meeting(&self, bounds: &[f64]) -> usize {
        self.ends().filter(|run| run.iter().zip(bounds).all(|(v, c)| v >= c)).count()
    }
}

/// Runs with dual dynamics as in the paper: λ₀ = 0, T₀ = 1, η_λ = .01. A run comes out the same whichever others are
/// beside it. It is what the share has left from `from` on.
pub(crate) fn watch<P: VecPolicy + Clone + Sync>(
    task: &VecTask<'_>,
    policy: &P,
    runs: usize,
    steps: u64,
    seed: u64,
    progress: &ProgressShare<'_>,
    from: f64,
) -> Result<Watched, Error> {
    let specification = task.specification();
    let agent =
        Agent::builder(specification.requirements().to_vec()).step_size(0.01).epoch(EpochLength::Fixed(1));
    let agent = agent.objective(task.has_objective()).build()?;
    // Small parts, so that two cores end together.
    let size = runs.div_ceil(4 * rayon::current_num_threads()).max(1);
    let begins: Vec<usize> = (0..runs).step_by(size).collect();
    let parts = begins.len();
    let done = std::sync::atomic::AtomicUsize::new(0);
    let chunks: Vec<Watched> = begins
        .into_par_iter()
        .map(|begin| {
            let num_envs = size.min(runs - begin);
            let rngs = (begin..begin + num_envs).map(|run| Rng::stream(seed, run as u64)).collect();
            let mut policy = policy.clone();
            let (mut counts, mut first) = (vec![0; CELLS * CELLS], First::default());
            let mut history =
                History::new(specification, &task.scales()[1..], vec![0.0; task.scales().len() - 1], steps);
            let each = |&Step { steps: step, agents, states }: &Step<'_>| {
                if let Some(states) = states {
                    count(&mut counts, states);
                }
                let moment = history.is_due(step)
                    && history.observe(step, agents.iter().map(Agent::dynamics)).is_some();
                if begin == 0 {
                    let lambda = agents[0].multipliers().as_slice();
                    first.see(step, steps, moment, lambda);
                }
                let stop = step.is_multiple_of(1_000) && progress.stop.requested();
                if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let execution = VecExecution::new(task, &mut policy, vec![agent.clone(); num_envs], rngs, steps)?;
            let executions = execution.run(&mut EachStep(each))?;
            ensure!(!progress.stop.requested(), "stopped by Ctrl-C");
            let finished = 1 + done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            progress.set(from + (1.0 - from) * finished as f64 / parts as f64);
            Ok(Watched { executions, history, counts, first })
        })
        .collect::<Result<_, Error>>()?;
    let mut chunks = chunks.into_iter();
    let mut all = chunks.next().context("no run")?;
    chunks.for_each(|chunk| all.merge(chunk));
    Ok(all)
}

/// Counts the states of all environments; the box is [0, 10]².
fn count(counts: &mut [u64], state: &BatchMatrix) {
    let cell = |value: f64| ((value / 10.0 * CELLS as f64) as usize).min(CELLS - 1);
    for (x, y) in state.row(0).iter().zip(state.row(1)) {
        counts[cell(*y) * CELLS + cell(*x)] += 1;
    }
}
