//! Rules by which a baseline updates its multipliers, given the deficit g = c − r̄ of a rollout.
//!
//! **Primal-dual**: λ ← \[λ + η g\]₊. *Guaranteed*, by summing the update: over n rollouts the averages *of the training
//! itself* are short by at most (λ_n − λ_0)/(ηn). *Not guaranteed*: that λ stays bounded, which takes a policy that adapts
//! faster than λ moves; nor anything about the final policy, which is at most the best for the last λ.
//!
//! **Dual descent**: λ_{k+1} = \[λ_k + (η/√k) ḡ_k\]₊, with ḡ_k the mean deficit over the second half of round k, when the
//! policy has converged. A round continues from the policy of the one before, and its learning rate decreases to 0. *Guaranteed*,
//! if each round finds a maximiser: λ approaches the optimal prices, as in a subgradient method. *Not guaranteed*: that the
//! last policy meets the requirements. At the optimal prices the Lagrangian has several maximisers, and on Example 1
//! none of them is feasible.
//!
//! **PID-Lagrangian** (Stooke, Achiam & Abbeel 2020): the multiplier is a controller of the deficit,
//!
//! > I ← \[I + K_I g\]₊,  λ ← \[K_P ḡ + I + K_D \[ḡ − ḡ₋\]₊\]₊,
//!
//! where ḡ is a moving average of g and ḡ₋ the one before. The integral alone, with K_I = η, is primal-dual; the other two terms respond
//! at once, and damp its oscillations. *Guaranteed*: as for primal-dual, with I in place of λ. *Not guaranteed*: that I
//! stays bounded, and anything about the final policy.
//!
//! **Fixed weights**: λ is given. No bound enters the training, and where behaviour has to be switched no λ gives a policy
//! that meets the requirements.

use serde::{Deserialize, Serialize};

use super::BaselineConfig;
use crate::Method;
use crate::settings::{Range, settings};

/// Multipliers λ and their update rule.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DualRule {
    Fixed(Vec<f64>),
    Descent(DualDescent),
    Pid(PidLagrangian),
}

impl DualRule {
    /// The rule of a baseline with m requirements, for a training of `rollouts` rollouts.
    pub(super) fn new(config: &BaselineConfig, m: usize, rollouts: u64) -> Self {
        let eta = config.lambda_lr();
        match config.method {
            Method::ACrl | Method::FixedWeights => {
                Self::Fixed(config.multipliers.clone().unwrap_or_else(|| vec![1.0; m]))
            }
            Method::DualDescent => Self::Descent(DualDescent::new(eta, rollouts.div_ceil(config.rounds), m)),
            Method::PrimalDual | Method::PrimalAveraging => {
                Self::Pid(PidLagrangian::new(PidGains::integral(eta), m))
            }
            Method::PidLagrangian => Self::Pid(PidLagrangian::new(config.gains.times(eta), m)),
        }
    }

    pub(super) fn multipliers(&self) -> &[f64] {
        match self {
            Self::Fixed(multipliers) => multipliers,
            Self::Descent(rule) => &rule.multipliers,
            Self::Pid(rule) => &rule.multipliers,
        }
    }

    pub(super) fn update(&mut self, deficits: &[f64]) {
        match self {
            Self::Fixed(_) => {}
            Self::Descent(rule) => rule.update(deficits),
            Self::Pid(rule) => rule.update(deficits),
        }
    }
}

/// Dual descent: a step on the multipliers after every round of training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DualDescent {
    lambda_lr: f64,
    /// Rollouts of a round.
    round: u64,
    /// Rollouts of the current round that are done.
    done: u64,
    /// Number k of completed rounds.
    rounds: u64,
    /// Σ g over the second half of the round.
    sums: Vec<f64>,
    /// Number of rollouts in that sum.
    counted: u64,
    multipliers: Vec<f64>,
}

impl DualDescent {
    /// Dual descent that starts at λ = 0, with `round` rollouts per round.
    fn new(lambda_lr: f64, round: u64, m: usize) -> Self {
        let zeros = vec![0.0; m];
        Self {
            lambda_lr,
            round: round.max(1),
            done: 0,
            rounds: 0,
            sums: zeros.clone(),
            counted: 0,
            multipliers: zeros,
        }
    }

    /// Sums the second half of a round, and updates λ at its end.
    fn update(&mut self, deficits: &[f64]) {
        self.done += 1;
        if 2 * self.done > self.round {
            self.sums.iter_mut().zip(deficits).for_each(|(sum, g)| *sum += g);
            self.counted += 1;
        }
        if self.done < self.round {
            return;
        }
        self.rounds += 1;
        let step = self.lambda_lr / (self.rounds as f64).sqrt() / self.counted as f64;
        for (l, sum) in self.multipliers.iter_mut().zip(&mut self.sums) {
            *l = (*l + step * std::mem::take(sum)).max(0.0);
        }
        (self.done, self.counted) = (0, 0);
    }
}

settings! {
    /// Gains of the PID controller, in units of the rewards' ranges.
    #[derive(Copy)]
    pub struct PidGains {
        /// Proportional gain K_P.
        proportional: f64 = 1.0; Range::Closed(0.0, f64::INFINITY);
        /// Integral gain K_I.
        integral: f64 = 0.3; Range::Closed(0.0, f64::INFINITY);
        /// Derivative gain K_D.
        derivative: f64 = 1.0; Range::Closed(0.0, f64::INFINITY);
        /// Weight of a new deficit in the moving average ḡ.
        smoothing: f64 = 0.3; Range::HalfOpen(0.0, 1.0);
    }
}

impl PidGains {
    /// Primal-dual: λ ← \[λ + η g\]₊, the integral alone.
    fn integral(eta: f64) -> Self {
        Self { proportional: 0.0, integral: eta, derivative: 0.0, smoothing: 1.0 }
    }

    /// All three gains multiplied by a factor.
    pub fn times(self, factor: f64) -> Self {
        let Self { proportional, integral, derivative, smoothing } = self;
        Self {
            proportional: factor * proportional,
            integral: factor * integral,
            derivative: factor * derivative,
            smoothing,
        }
    }
}

/// PID-Lagrangian: a controller per requirement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PidLagrangian {
    gains: PidGains,
    /// Moving average ḡ; `None` before the first rollout.
    smooth: Option<Vec<f64>>,
    integral: Vec<f64>,
    multipliers: Vec<f64>,
}

impl PidLagrangian {
    /// A controller that starts at λ = 0.
    fn new(gains: PidGains, m: usize) -> Self {
        Self { gains, smooth: None, integral: vec![0.0; m], multipliers: vec![0.0; m] }
    }

    fn update(&mut self, deficits: &[f64]) {
        let PidGains { proportional, integral, derivative, smoothing } = self.gains;
        let smooth = self.smooth.get_or_insert_with(|| deficits.to_vec());
        for (i, g) in deficits.iter().enumerate() {
            let before = smooth[i];
            smooth[i] += smoothing * (g - before);
            self.integral[i] = (self.integral[i] + integral * g).max(0.0);
            let rise = (smooth[i] - before).max(0.0);
            self.multipliers[i] = (proportional * smooth[i] + self.integral[i] + derivative * rise).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn primal_dual_multipliers_bound_the_shortfall_of_the_training() {
        let mut rule = PidLagrangian::new(PidGains::integral(0.3), 2);
        let (mut sum, mut expected) = ([0.0; 2], [0.0f64; 2]);
        for n in 1..=1000 {
            let g = [0.4 - f64::from(n % 3 == 0), f64::from(n).sin()];
            rule.update(&g);
            for i in 0..2 {
                sum[i] += g[i];
                expected[i] = (expected[i] + 0.3 * g[i]).max(0.0);
                let bound = rule.multipliers[i] / (0.3 * f64::from(n));
                assert!(sum[i] / f64::from(n) <= bound + 1e-12);
            }
            assert_eq!(rule.multipliers, expected);
        }
        rule.update(&[-1e9, -1e9]);
        assert_eq!(rule.multipliers, [0.0, 0.0]);
    }

    #[test]
    fn dual_descent_averages_half_a_round_with_decreasing_steps() {
        let mut rule = DualDescent::new(2.0, 4, 1);
        for g in [9.0, 9.0, 0.1, 0.3] {
            assert_eq!(rule.multipliers, [0.0]);
            rule.update(&[g]);
        }
        assert!((rule.multipliers[0] - 0.4).abs() < 1e-12);
        [9.0, 9.0, -0.1, -0.1].iter().for_each(|g| rule.update(&[*g]));
        assert!((rule.multipliers[0] - (0.4 - 0.2 / 2.0f64.sqrt())).abs() < 1e-12);
        let mut short = DualDescent::new(1.0, 0, 1);
        short.update(&[0.5]);
        assert_eq!(short.multipliers, [0.5]);
    }

    #[test]
    fn pid_terms_add_up() {
        let gains = PidGains { proportional: 2.0, integral: 0.5, derivative: 10.0, smoothing: 0.5 };
        let mut rule = PidLagrangian::new(gains, 1);
        rule.update(&[0.1]);
        // No rise before the second rollout: 2·.1 + .5·.1.
        assert!((rule.multipliers[0] - 0.25).abs() < 1e-12);
        rule.update(&[0.3]);
        // ḡ = .2, a rise of .1, I = .05 + .15: 2·.2 + .2 + 10·.1.
        assert!((rule.multipliers[0] - 1.6).abs() < 1e-12);
        rule.update(&[-0.2]);
        // ḡ = 0, no rise counts when it falls, I = .1.
        assert!((rule.multipliers[0] - 0.1).abs() < 1e-12);
        rule.update(&[-9.0]);
        assert_eq!(rule.multipliers, [0.0]);
        // The integral did not go below 0, so it responds to the next deficit at once.
        rule.update(&[9.0]);
        assert!(rule.integral[0] == 4.5);
        assert!(PidGains { smoothing: 0.0, ..gains }.check_ranges().is_err());
        assert!(gains.times(f64::NAN).check_ranges().is_err());
    }
}
