//! The report on several runs of one agent.

use serde::{Deserialize, Serialize};

use crate::{
    Diagnosis, DiagnosisInput, Direction, Execution, MultiplierStatistics, Named, Specification, Verdict,
};

/// The report on a set of runs: the object that `acrl run --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// The verdict on all requirements in all runs.
    pub verdict: Verdict,
    /// The mean over runs of each average, in the user's signs.
    pub averages: Named<f64>,
    /// The average in the worst run.
    pub worst: Named<f64>,
    /// The report on each requirement.
    pub requirements: Named<RequirementReport>,
    /// Each multiplier after the first tenth: last and mean over runs, min and max of all.
    pub multipliers: Named<MultiplierStatistics>,
    /// The steps of each run.
    pub steps: u64,
    /// The number of runs.
    pub runs: usize,
    /// T₀ at the end (of the run in which it is longest).
    pub epoch: u64,
    /// The diagnosis.
    pub diagnosis: Diagnosis,
}

/// The report on one requirement, in the user's signs.
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
    /// The verdict on it in all runs.
    pub verdict: Verdict,
    /// The violation of the bound in the worst run; 0 if there is none.
    pub shortfall: f64,
    /// The certified shortfall in the worst run: a proven upper bound on the violation.
    pub certified_shortfall: f64,
    /// The tolerance of the certified shortfall.
    pub tolerance: f64,
}

impl RunReport {
    /// The report on runs of one specification. `input` has what is known beside the runs (scales,
    /// tolerances, the exact model, observed reward vectors, the library's averages); the
    /// statistics of the runs are filled in here. `None` without a run.
    pub fn new<S>(
        specification: &Specification,
        runs: &[Execution<S>],
        mut input: DiagnosisInput<'_>,
    ) -> Option<Self> {
        let first = runs.first()?;
        let m = specification.requirements().len();
        let mean = |f: &dyn Fn(&Execution<S>) -> f64| runs.iter().map(f).sum::<f64>() / runs.len() as f64;
        let max = |f: &dyn Fn(&Execution<S>) -> f64| runs.iter().map(f).fold(f64::NEG_INFINITY, f64::max);
        let min = |f: &dyn Fn(&Execution<S>) -> f64| runs.iter().map(f).fold(f64::INFINITY, f64::min);
        input.names = specification.names();
        input.bounds = specification.bounds();
        input.shortfalls =
            (0..m).map(|i| max(&|run| run.certificate.requirements[i].certified_shortfall)).collect();
        input.multiplier_size = max(&|run| input.size(&run.last.multipliers, &input.scales));
        input.updates = runs.iter().map(|run| run.epochs).min().unwrap_or(0);
        let verdict = |i: usize| {
            Verdict::of_all(runs.iter().map(|run| run.certificate.verdict(i, input.tolerances[i])))
        };
        input.verdicts = (0..m).map(verdict).collect();
        input.deficit_rates = (0..m).map(|i| max(&|run| run.deficit_rates[i])).collect();

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
            let tolerance = input.tolerances[i];
            let report = RequirementReport {
                bound: r.bound(),
                direction: r.direction(),
                average: r.sign() * mean(&|run| run.averages.requirements()[i]) + 0.0,
                worst: r.sign() * min(&|run| run.averages.requirements()[i]) + 0.0,
                verdict: input.verdicts[i],
                shortfall: max(&|run| run.certificate.requirements[i].measured_shortfall()),
                certified_shortfall: input.shortfalls[i],
                tolerance,
            };
            (r.name().to_owned(), report)
        });
        let multipliers = specification.requirements().iter().enumerate().map(|(i, r)| {
            let statistics = MultiplierStatistics {
                last: mean(&|run| run.multipliers[i].last),
                mean: mean(&|run| run.multipliers[i].mean),
                min: min(&|run| run.multipliers[i].min),
                max: max(&|run| run.multipliers[i].max),
            };
            (r.name().to_owned(), statistics)
        });
        Some(Self {
            verdict: Verdict::of_all(input.verdicts.iter().copied()),
            averages: named(&|i| mean(&|run| run.averages.as_slice()[i])),
            worst: named(&|i| min(&|run| run.averages.as_slice()[i])),
            requirements: requirements.collect(),
            multipliers: multipliers.collect(),
            steps: first.steps,
            runs: runs.len(),
            epoch: runs.iter().map(|run| run.epoch).max().unwrap_or(first.epoch),
            diagnosis: Diagnosis::judge(&input),
        })
    }

    /// True if no requirement is violated in any run.
    pub fn met(&self) -> bool {
        self.verdict.is_met()
    }
}
