//! Summary of many executions.

use std::fmt;

use crate::trial::Outcome;

/// Outcomes so far.
#[derive(Debug, Default)]
pub(crate) struct Table {
    regrets: Vec<f64>,
    verdicts: Vec<&'static str>,
}

impl Table {
    /// Adds an outcome, and gives its cell.
    pub(crate) fn add(&mut self, outcome: Outcome) -> String {
        self.regrets.push(outcome.regret);
        self.verdicts.push(outcome.verdict);
        format!("{} {:.4}", outcome.verdict, outcome.regret)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut regrets = self.regrets.clone();
        regrets.sort_by(f64::total_cmp);
        let count = |verdict: &str| self.verdicts.iter().filter(|v| **v == verdict).count();
        let at = |place: usize| regrets.get(place).copied().unwrap_or(f64::NAN);
        write!(
            f,
            "{} sets, {} satisfied, {} within tolerance, {} violated; regret median {:.4}, worst {:.4}",
            self.verdicts.len(),
            count("satisfied"),
            count("within"),
            count("violated"),
            at(regrets.len() / 2),
            at(regrets.len().saturating_sub(1))
        )
    }
}
