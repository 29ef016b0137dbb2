//! Wireless: one channel, several users that fade, and a budget of power.
//!
//! # Description
//!
//! A base station serves one of K users in each slot and chooses the power it sends with. Channels fade: a good
//! moment of one user is a bad one of another. The sum of the rates should be large, but every user needs
//! a rate of its own, far ones too, and the average power is limited.
//!
//! # States
//!
//! The channels' complex amplitudes z_k = (re, im), two numbers per user. The power gain is h_k = μ_k min(|z_k|², cap),
//! where μ_k is the user's mean gain: exponential (Rayleigh fading) up to the cap, at which the receiver
//! saturates. The agent sees for each user log₂(1 + P h_k/N), the rate it would have at full power, from 0 to
//! log₂(1 + P μ_k cap/N).
//!
//! # Actions
//!
//! Mixed: the user that is served, a choice of K; and the power p, a number from 0 to P.
//!
//! # Dynamics
//!
//! z_k' = ρ z_k + √(1 − ρ²) w_k with w_k complex normal, E|w_k|² = 1: a first-order Gauss–Markov process,
//! independent of what is done. With ρ = 0 each slot is drawn anew.
//!
//! # Rewards
//!
//! `sum_rate`: the rate of the user that is served. `rate_NAME`, one per user: log₂(1 + p h_k/N) if it is
//! served, else 0. `power`: p.
//!
//! # Requirements
//!
//! Maximise sum_rate; power ≤ P/4; and each user's rate at least what equal turns at that power would give it
//! whatever its channel is, E\[log₂(1 + (P/4) h_k/N)\]/K, rounded down to three digits: 0.443, 0.286 and 0.173 with the default
//! parameters. Waiting for good moments gives each of them more, so there is slack.
//!
//! # Known optimum
//!
//! What is best for weights w of the rewards is known in closed form, [`Wireless::optimal_action`]: for each user
//! p from water-filling, then the user for whom that is worth most. Minimising the dual function over samples gives the largest sum rate with the
//! default parameters, 1.632 ± 0.002 ([`Wireless::DEFAULT_OPTIMUM`]), at the prices
//! λ* ≈ (0, 0, 0.303) of the rates and 0.895 of the power (a million samples, measured): the near users have more than
//! they need, and what the far one must have costs sum rate.
//!
//! # Starting state
//!
//! The stationary distribution: z_k complex normal.
//!
//! # Parameters
//!
//! See [`WirelessParameters`].
//!
//! # Problem file
//!
//! ```toml
//! [environment]
//! kind = "wireless"
//! correlation = 0.9
//! users = [{ name = "near", gain = 2.0 }, { name = "far", gain = 0.5 }]
//! ```

use std::f64::consts::{FRAC_1_SQRT_2, LN_2};
use std::iter;

use acrl::{
    ActionPart, BatchMatrix, Error, Interval, Objective, Requirement, Rng, Spaces, Specification, VecEnv,
};
use serde::Deserialize;

use crate::batch::{arity, check_numbers, check_reset, check_step, normal_pair};
use crate::parameter::{Check, ParameterError, Positive, Range as _, is_name, parameters};

parameters! {
    /// Parameters of a wireless problem.
    WirelessParameters {
        /// Who is served: 1 to 100 users.
        users: Vec<User> = User::defaults();
        /// N, the noise power.
        noise: f64 = 1.0, Positive;
        /// P, the greatest power.
        max_power: f64 = 4.0, Positive;
        /// ρ, the correlation of the amplitude from slot to slot.
        correlation: f64 = 0.9, 0.0..=0.9999;
        /// The greatest gain, in units of its mean; 0.25 % are above 6.
        gain_cap: f64 = 6.0, Positive;
    }
}

/// A user of the channel.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table: name, gain")]
pub struct User {
    /// Its rate is called `rate_NAME`.
    pub name: String,
    /// μ, the mean of its power gain before the cap.
    pub gain: f64,
}

impl User {
    /// Near 2, middle 1, far 0.5.
    fn defaults() -> Vec<Self> {
        let users = [("near", 2.0), ("middle", 1.0), ("far", 0.5)];
        users.map(|(name, gain)| Self { name: name.to_owned(), gain }).to_vec()
    }
}

/// A wireless problem with checked parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Wireless {
    parameters: WirelessParameters,
    spaces: Spaces,
}

impl Wireless {
    /// The value of `kind` in the problem file.
    pub const KIND: &'static str = "wireless";

    /// The largest sum rate with the default parameters and requirements (by dual descent over samples).
    pub const DEFAULT_OPTIMUM: f64 = 1.632;

    /// Checks the parameters.
    pub fn new(parameters: WirelessParameters) -> Result<Self, ParameterError> {
        let check = Check(Self::KIND);
        let WirelessParameters { users, noise, max_power, gain_cap, .. } = &parameters;
        check.items("users", users.len(), "users")?;
        for (i, user) in users.iter().enumerate() {
            let own = is_name(&user.name) && !users[..i].iter().any(|other| other.name == user.name);
            let expected = || "a name that no other user has, without <, > or =".to_owned();
            check.within(&format!("users[{i}].name"), format!("'{}'", user.name), own, expected)?;
            Positive.check(&check, &format!("users[{i}].gain"), &user.gain)?;
        }
        parameters.check(&check)?;

        let highest = |user: &User| (max_power * user.gain * gain_cap / noise).ln_1p() / LN_2;
        let rates: Vec<Interval> = users.iter().map(|user| Interval::new(0.0, highest(user))).collect();
        let best = rates.iter().map(|rate| rate.high).fold(0.0, f64::max);
        let power = Interval::new(0.0, *max_power);
        let named = users.iter().map(|user| format!("rate_{}", user.name));
        let spaces = Spaces {
            state_dimension: 2 * users.len(),
            action: vec![ActionPart::Discrete(users.len()), ActionPart::Continuous(power)],
            reward_names: iter::once("sum_rate".to_owned())
                .chain(named)
                .chain(["power".to_owned()])
                .collect(),
            reward_ranges: [&[Interval::new(0.0, best)], &rates[..], &[power]].concat(),
            observation: rates,
        };
        Ok(Self { spaces, parameters })
    }

    /// The parameters.
    pub fn parameters(&self) -> &WirelessParameters {
        &self.parameters
    }

    /// Objective and requirements that come with it.
    pub fn specification(&self) -> Result<Specification, Error> {
        let p = &self.parameters;
        let power = p.max_power / 4.0;
        let turns = 1.0 / p.users.len() as f64;
        let mut requirements = Vec::with_capacity(p.users.len() + 1);
        for user in &p.users {
            let share = turns * mean_rate(power * user.gain / p.noise, p.gain_cap);
            let rounded = (share * 1000.0).floor() / 1000.0;
            requirements.push(Requirement::at_least(format!("rate_{}", user.name), rounded)?);
        }
        requirements.push(Requirement::at_most("power", power)?);
        Specification::new(Some(Objective::maximize("sum_rate")), requirements)
    }

    /// The power gains h₁ … h_K in an environment.
    pub fn gains(&self, state: &BatchMatrix, env: usize) -> Vec<f64> {
        let users = self.parameters.users.iter().enumerate();
        users.map(|(k, user)| self.gain(user, state.at(2 * k, env), state.at(2 * k + 1, env))).collect()
    }

    #[inline]
    fn gain(&self, user: &User, re: f64, im: f64) -> f64 {
        user.gain * (re * re + im * im).min(self.parameters.gain_cap)
    }

    /// The user k and the power p that maximise Σ w_i r_i for weights w of the rewards, in the order of their names:
    ///
    /// max over k and p of (w₀ + w_k) log₂(1 + p h_k/N) + w_p p,
    ///
    /// where w_p is the weight of `power`, negative if power costs. For each user p is
    /// (w₀ + w_k)/(−w_p ln 2) − N/h_k, within 0 and P (water-filling). Channels do not depend on what is done, so this
    /// is the best policy for these weights.
    ///
    /// Fails unless there is one weight per reward and one gain per user.
    pub fn optimal_action(&self, weights: &[f64], gains: &[f64]) -> Result<(usize, f64), Error> {
        let p = &self.parameters;
        arity("weights of the rewards", self.reward_names().len(), weights.len())?;
        arity("gains of the users", p.users.len(), gains.len())?;
        let cost = -weights[weights.len() - 1];
        let (mut best, mut most) = ((0, 0.0), f64::NEG_INFINITY);
        for (k, &h) in gains.iter().enumerate() {
            let weight = weights[0] + weights[k + 1];
            let worth = |power: f64| weight * (power * h / p.noise).ln_1p() / LN_2 - cost * power;
            // Inside the worth is concave if the weight is positive, else it is convex and an end is best.
            let inner = (weight / (cost * LN_2) - p.noise / h).clamp(0.0, p.max_power);
            for power in [0.0, inner, p.max_power].into_iter().filter(|power| !power.is_nan()) {
                if worth(power) > most {
                    (best, most) = ((k, power), worth(power));
                }
            }
        }
        Ok(best)
    }
}

/// E\[log₂(1 + a min(x, cap))\] for x exponential with mean 1, which is ∫₀^cap e^{−x} a/(1 + a x) dx/ln 2.
fn mean_rate(a: f64, cap: f64) -> f64 {
    // With u = ln(1 + a x) the integrand is e^{−x}, smooth however large a is; by Simpson's rule. What is
    // above x = 40 is less than 10⁻¹⁷.
    const PANELS: usize = 2_000;
    let end = (a * cap.min(40.0)).ln_1p();
    let at = |i: usize| (-(end * i as f64 / PANELS as f64).exp_m1() / a).exp();
    let weight = |i: usize| if i == 0 || i == PANELS { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
    (0..=PANELS).map(|i| weight(i) * at(i)).sum::<f64>() * end / (3 * PANELS) as f64 / LN_2
}

impl VecEnv for Wireless {
    fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    fn reset(&self, state: &mut BatchMatrix, env: usize, rng: &mut Rng) -> Result<(), Error> {
        check_reset(&self.spaces, state, env)?;
        for k in 0..self.parameters.users.len() {
            let (re, im) = complex_normal(rng);
            state.set(2 * k, env, re);
            state.set(2 * k + 1, env, im);
        }
        Ok(())
    }

    fn observe(&self, state: &BatchMatrix, observation: &mut BatchMatrix) {
        let p = &self.parameters;
        for (k, user) in p.users.iter().enumerate() {
            let amplitudes = state.row(2 * k).iter().zip(state.row(2 * k + 1));
            for (seen, (&re, &im)) in observation.row_mut(k).iter_mut().zip(amplitudes) {
                *seen = (p.max_power * self.gain(user, re, im) / p.noise).ln_1p() / LN_2;
            }
        }
    }

    fn step(
        &self,
        state: &mut BatchMatrix,
        actions: &BatchMatrix,
        rewards: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        let p = &self.parameters;
        check_step(&self.spaces, state, actions, rewards, rngs)?;
        if state.num_envs() == 0 {
            return Ok(());
        }
        let (served, powers) = (actions.row(0), actions.row(1));
        let exists = |user: f64| user >= 0.0 && user < p.users.len() as f64 && user.fract() == 0.0;
        if let Some(env) = served.iter().position(|&user| !exists(user)) {
            return Err(Error::Environment(format!(
                "the action 'user' in env {env} is {}, expected a whole number from 0 to {}",
                served[env],
                p.users.len() - 1
            )));
        }
        check_numbers("power", powers, false)?;

        rewards.row_mut(0).fill(0.0);
        let last = self.reward_names().len() - 1;
        for (spent, &power) in rewards.row_mut(last).iter_mut().zip(powers) {
            *spent = power.clamp(0.0, p.max_power);
        }
        let (keep, fresh) = (p.correlation, (1.0 - p.correlation * p.correlation).sqrt());
        for (k, user) in p.users.iter().enumerate() {
            let [re, im] = state.rows_mut(2 * k);
            for (env, rng) in rngs.iter_mut().enumerate() {
                let mut rate = 0.0;
                if served[env] == k as f64 {
                    let power = powers[env].clamp(0.0, p.max_power);
                    rate = (power * self.gain(user, re[env], im[env]) / p.noise).ln_1p() / LN_2;
                    rewards.set(0, env, rate);
                }
                rewards.set(k + 1, env, rate);
                let (w_re, w_im) = complex_normal(rng);
                re[env] = keep * re[env] + fresh * w_re;
                im[env] = keep * im[env] + fresh * w_im;
            }
        }
        Ok(())
    }
}

/// A complex number with independent normal parts of variance ½.
#[inline]
fn complex_normal(rng: &mut Rng) -> (f64, f64) {
    let (re, im) = normal_pair(rng);
    (re * FRAC_1_SQRT_2, im * FRAC_1_SQRT_2)
}
