//! The certificate: a pathwise upper bound on the violation of each requirement, for any policy.

use serde::Serialize;

use crate::{Direction, Requirement, Verdict};

/// Proven bounds on the violation of each requirement since the ledger was opened.
///
/// The ledger L = λ_k + α Σ (c − r) over the unfinished epoch obeys L_{n+1} ≥ L_n + α (c − r_n),
/// because a projection only ever adds. Summing over n steps gives, for any policy, rewards and
/// epoch lengths,
///
/// > (1/n) Σ r_i ≥ c_i − (L_n − L_0)/(α_i n).
///
/// So a requirement whose multiplier stays bounded is met. Where the gain changes, ledgers add up: the sum over all
/// gains of (L − L₀)/α takes the place of (L_n − L_0)/α.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Certificate {
    /// n: the steps since the ledger was opened (at the start, or when a bound changed).
    pub steps: u64,
    /// One entry per requirement.
    pub requirements: Vec<RequirementCertificate>,
}

/// The certificate of one requirement, in the user's signs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequirementCertificate {
    /// The requirement's name.
    pub name: String,
    /// The bound.
    pub bound: f64,
    /// The side of the bound.
    pub direction: Direction,
    /// The measured average of its reward.
    pub average: f64,
    /// The certified shortfall \[(L_n − L_0)/(α n)\]₊: the average is behind the bound by at most
    /// this.
    pub certified_shortfall: f64,
}

impl Certificate {
    /// The verdict on requirement i. Before the first step, where a shortfall of 0 is no achievement, it is violated.
    pub fn verdict(&self, i: usize, tolerance: f64) -> Verdict {
        let of = &self.requirements[i];
        match self.steps {
            0 => Verdict::Violated,
            _ => Verdict::of(of.measured_shortfall() == 0.0, of.certified_shortfall, tolerance),
        }
    }
}

impl RequirementCertificate {
    pub(crate) fn new(requirement: &Requirement, average: f64, shortfall: f64) -> Self {
        Self {
            name: requirement.name().to_owned(),
            bound: requirement.bound(),
            direction: requirement.direction(),
            // Adding 0 turns −0 into 0.
            average: requirement.sign() * average + 0.0,
            // NaN proves nothing.
            certified_shortfall: if shortfall.is_nan() { f64::INFINITY } else { shortfall.max(0.0) },
        }
    }

    /// The violation of the bound by the measured average; 0 if there is none.
    pub fn measured_shortfall(&self) -> f64 {
        let behind = match self.direction {
            Direction::AtLeast => self.bound - self.average,
            Direction::AtMost => self.average - self.bound,
        };
        behind.max(0.0)
    }
}
