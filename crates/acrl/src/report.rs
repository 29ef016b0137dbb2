//! What several runs of one agent amount to.

use serde::{Deserialize, Serialize};

use crate::{Diagnosis, DiagnosisInput, Direction, Execution, MultiplierStatistics, Named, Specification};

/// The report on a set of runs: the object that `acrl run --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// The mean over runs of each average, in the user's signs.
    pub averages: Named<f64>,
    /// The average in the worst run, on the side that hurts.
    pub worst: Named<f64>,
    /// Each requirement's standing.
    pub requirements: Named<RequirementReport>,
    /// Each multiplier after the first tenth: last and mean over runs, min and max of all.
    pub multipliers: Named<MultiplierStatistics>,
    /// The steps of each run.
    pub steps: u64,
    /// The number of runs.
    pub runs: usize,
    /// T₀ at the end (of the run in which it is longest).
    pub epoch: u64,
    /// What is the matter, if anything.
    pub diagnosis: Diagnosis,
}

/// How one requirement stands, in the user's signs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequirementReport {
    /// The bound.
    pub bound: f64,
    /// The side.
    pub direction: Direction,
    /// The average of its reward, over all runs.
    pub average: f64,
    /// The average in the worst run.
    pub worst: f64,
    /// In every run the certified shortfall is within the tolerance.
    pub met: bool,
    /// In every run the plain average satisfies the bound.
    pub strict: bool,
    /// How far the average is behind in the worst run; 0 if it is not.
    pub shortfall: f64,
    /// The certified shortfall in the worst run.
    pub certificate: f64,
    /// How large the certified shortfall may be.
    pub tolerance: f64,
}

impl RunReport {
    /// Sums up runs of one specification. `symptoms` brings what is known beside the runs (bounds,
    /// scales, tolerances, the exact model, reward vectors seen, settled averages); what the runs
    /// themselves show is filled in here. `None` without a run.
    pub fn new<S>(
        specification: &Specification,
        runs: &[Execution<S>],
        mut symptoms: DiagnosisInput<'_>,
    ) -> Option<Self> {
        let first = runs.first()?;
        let m = specification.requirements().len();
        let mean = |f: &dyn Fn(&Execution<S>) -> f64| runs.iter().map(f).sum::<f64>() / runs.len() as f64;
        let most = |f: &dyn Fn(&Execution<S>) -> f64| runs.iter().map(f).fold(f64::NEG_INFINITY, f64::max);
        let least = |f: &dyn Fn(&Execution<S>) -> f64| runs.iter().map(f).fold(f64::INFINITY, f64::min);
        symptoms.names = specification.names();
        symptoms.bounds = specification.bounds();
        symptoms.shortfalls =
            (0..m).map(|i| most(&|run| run.certificate.requirements[i].shortfall)).collect();
        let size = |run: &Execution<S>| {
            let multipliers = run.last.multipliers.as_slice().iter().zip(&symptoms.scales);
            multipliers.map(|(l, r)| l * r).sum::<f64>()
        };
        symptoms.size = most(&size);
        symptoms.updates = runs.iter().map(|run| run.epochs).min().unwrap_or(0);
        symptoms.growth = (0..m).map(|i| most(&|run| run.growth[i])).collect();

        let objective = specification.objective();
        let named = |f: &dyn Fn(usize) -> f64| -> Named<f64> {
            let first = objective.map(|o| (o.reward.clone(), o.sign() * f(0) + 0.0));
            let rest = specification.requirements().iter().enumerate();
            // One reward may serve as objective and in requirements of other names: the name decides.
            let rest = rest.map(|(i, r)| (r.name().to_owned(), r.sign() * f(i + 1) + 0.0));
            let mut entries: Vec<(String, f64)> = first.into_iter().collect();
            entries.extend(rest.filter(|(name, _)| objective.is_none_or(|o| o.reward != *name)));
            entries.into_iter().collect()
        };
        let requirements = specification.requirements().iter().enumerate().map(|(i, r)| {
            let certified = |run: &Execution<S>| run.certificate.requirements[i].clone();
            let shortfall = most(&|run| certified(run).measured_shortfall());
            let report = RequirementReport {
                bound: r.bound(),
                direction: r.direction(),
                average: r.sign() * mean(&|run| run.averages.requirements()[i]) + 0.0,
                worst: r.sign() * least(&|run| run.averages.requirements()[i]) + 0.0,
                met: symptoms.shortfalls[i] <= symptoms.tolerances[i],
                strict: shortfall == 0.0,
                shortfall,
                certificate: symptoms.shortfalls[i],
                tolerance: symptoms.tolerances[i],
            };
            (r.name().to_owned(), report)
        });
        let multipliers = specification.requirements().iter().enumerate().map(|(i, r)| {
            let statistics = MultiplierStatistics {
                last: mean(&|run| run.multipliers[i].last),
                mean: mean(&|run| run.multipliers[i].mean),
                min: least(&|run| run.multipliers[i].min),
                max: most(&|run| run.multipliers[i].max),
            };
            (r.name().to_owned(), statistics)
        });
        Some(Self {
            averages: named(&|i| mean(&|run| run.averages.as_slice()[i])),
            worst: named(&|i| least(&|run| run.averages.as_slice()[i])),
            requirements: requirements.collect(),
            multipliers: multipliers.collect(),
            steps: first.steps,
            runs: runs.len(),
            epoch: runs.iter().map(|run| run.epoch).max().unwrap_or(first.epoch),
            diagnosis: Diagnosis::judge(&symptoms),
        })
    }

    /// Whether every requirement is met in every run.
    pub fn met(&self) -> bool {
        self.requirements.iter().all(|(_, r)| r.met)
    }
}
