//! How good an objective is: beside the optimum, where that is known.

use acrl::{RunReport, Specification};
use acrl_report::number;
use acrl_report::run_page::percent;
use serde::Serialize;

/// The objective of some runs, in the user's sign.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObjectiveResult {
    /// The name of its reward.
    pub reward: String,
    /// Mean over runs.
    pub average: f64,
    /// The optimum of the model; `null` if it is not known.
    pub optimum: Option<f64>,
    /// The best mixture of the entries of a trained policy's library; `null` without one.
    pub estimate: Option<f64>,
    /// How far the average is behind the optimum, or else the estimate, as a share of it; negative if it is ahead.
    pub gap: Option<f64>,
}

impl ObjectiveResult {
    /// The objective of runs of this specification; `None` if it has none.
    pub(crate) fn new(
        specification: &Specification,
        report: &RunReport,
        optimum: Option<f64>,
        estimate: Option<f64>,
    ) -> Option<Self> {
        let objective = specification.objective()?;
        let average = report.averages.get(&objective.reward).copied()?;
        let best = optimum.or(estimate).filter(|best| *best != 0.0);
        let gap = best.map(|best| objective.sign() * (best - average) / best.abs() + 0.0);
        Some(Self { reward: objective.reward.clone(), average, optimum, estimate, gap })
    }

    /// What the average is compared with.
    pub fn best(&self) -> Option<(f64, &'static str)> {
        let optimum = self.optimum.map(|value| (value, "the optimum"));
        optimum.or(self.estimate.map(|value| (value, "the best mixture of the policy's long-run averages")))
    }

    /// "the optimum is 0.3333, gap 0.1 %", with the reason if the average is beyond it.
    pub fn line(&self, report: &RunReport) -> Option<String> {
        let (best, what) = self.best()?;
        let gap = self.gap.map_or(String::new(), |gap| format!(", gap {}", percent(gap)));
        let short: Vec<String> = report
            .requirements
            .iter()
            .filter(|(_, entry)| entry.shortfall > 0.0)
            .map(|(name, entry)| format!("{name} is {} short", number(entry.shortfall, 2)))
            .collect();
        let reason = match self.gap {
            Some(gap) if gap < -NOTICEABLE && !short.is_empty() => {
                format!(": better because {}", short.join(" and "))
            }
            Some(gap) if gap < -NOTICEABLE => ": better by chance".to_owned(),
            _ => String::new(),
        };
        Some(format!("{what} is {}{gap}{reason}", number(best, 5)))
    }
}

/// A smaller share of the optimum by which the average is beyond it is not explained.
const NOTICEABLE: f64 = 1e-4;
