//! Power: a server that can sleep, where every change of mode takes time and energy.
//!
//! # Description
//!
//! Jobs arrive at a server with a buffer of finite capacity. The server works while it is active and
//! uses almost no power while it is asleep; falling asleep and waking take many steps, in which no job
//! is served. Power should be saved, but the mean queue and the rate of lost jobs are limited: the
//! dynamic power management of Benini, Bogliolo, Paleologo and De Micheli (1999).
//!
//! # States
//!
//! `mode,jobs`: one of the modes `asleep`, `waking`, `active` and `suspending`, and the number of jobs
//! in the buffer, 0 … N, where N is the capacity.
//!
//! # Actions
//!
//! `sleep` and `serve`, in every state.
//!
//! # Dynamics
//!
//! The mode: `serve` begins to wake a server that is asleep or suspending, and `sleep` begins to suspend
//! one that is active or waking; otherwise the mode goes on. Waking that goes on ends in a step with
//! probability `wake`, and suspending with probability `suspend`, so they take 1/`wake` and 1/`suspend`
//! steps in the mean.
//!
//! The queue: if the mode at the beginning of the step is active, the job in service, if there is one,
//! leaves with probability `service`; then a job arrives with probability `arrival`. It is lost if the
//! buffer is full at that moment.
//!
//! # Rewards
//!
//! `power`: the power of the mode. `queue`: the number of jobs at the beginning of the step divided by
//! N. `lost`: the probability that a job is lost in this step, 0 unless the buffer is full.
//!
//! # Requirements
//!
//! Minimise power; queue ≤ 0.3, lost ≤ 0.01.
//!
//! # Known optimum
//!
//! With the default parameters the least power is 0.543431833213 ([`Power::DEFAULT_OPTIMUM`]), and both
//! requirements bind at the prices λ* ≈ (0.3526, 2.740). Without the bound on lost jobs it would be
//! 0.5326, with 16 % of the jobs lost; without the bound on the queue 0.5059.
//!
//! It is a supremum: no stationary policy has these averages on its paths. The optimal mixture has two
//! recurrent classes:
//!
//! - for 0.1 of the time the server stays asleep with a full buffer, at the power of 0.05. It loses
//!   every job that arrives, which is where all losses are;
//! - for 0.9 of the time it cycles, at a mean power of 0.598 and a mean queue of 0.222: it wakes at 37
//!   or 38 jobs, serves until the buffer is empty, and goes to sleep.
//!
//! Both have the same Lagrangian at λ*, but actions that are optimal there do not lead from one to the
//! other and back. From the cycle to the full buffer it takes 600 steps (62 more jobs, 0.1 per step), and
//! back 1,050 (50 to wake, and 100 jobs at a net rate of 0.1 per step), which earn less than either. A
//! stationary policy that visits both changes at a fixed rate and loses that much each time. P* is
//! approached by changing more and more rarely: with a dual epoch T₀ that grows with the run. Epochs of
//! 10 or 160 steps use 0.60, 10 % more than needed, although both requirements are met.
//!
//! # Starting state
//!
//! Asleep with an empty buffer.
//!
//! # Parameters
//!
//! See [`PowerParameters`].
//!
//! # Problem file
//!
//! ```toml
//! [environment]
//! kind = "power"
//! capacity = 100
//! arrival = 0.1
//! wake = 0.02
//! ```

use acrl::{Error, FiniteCmdp, Objective, Requirement, Specification};

use crate::parameter::{Check, ParameterError, parameters};

parameters! {
    /// Parameters of a power-management problem.
    PowerParameters {
        /// Jobs the buffer holds, N.
        capacity: usize = 100, 1..=10_000;
        /// Probability that a job arrives in a step.
        arrival: f64 = 0.1, 0.0..=1.0;
        /// Probability that the job in service leaves in a step in which the server is active.
        service: f64 = 0.2, 0.0..=1.0;
        /// Probability that waking ends in a step.
        wake: f64 = 0.02, 0.0..=1.0;
        /// Probability that suspending ends in a step.
        suspend: f64 = 0.1, 0.0..=1.0;
        /// Power when asleep.
        asleep_power: f64 = 0.05, 0.0..=1e6;
        /// Power while waking.
        waking_power: f64 = 1.2, 0.0..=1e6;
        /// Power when active, with or without a job.
        active_power: f64 = 1.0, 0.0..=1e6;
        /// Power while suspending.
        suspending_power: f64 = 0.5, 0.0..=1e6;
    }
}

/// A power-management problem with checked parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Power {
    parameters: PowerParameters,
}

/// What the server is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Asleep,
    Waking,
    Active,
    Suspending,
}

impl Mode {
    /// In the order of the states.
    const ALL: [Self; 4] = [Self::Asleep, Self::Waking, Self::Active, Self::Suspending];

    fn name(self) -> &'static str {
        match self {
            Self::Asleep => "asleep",
            Self::Waking => "waking",
            Self::Active => "active",
            Self::Suspending => "suspending",
        }
    }
}

impl Power {
    /// The value of `kind` in the problem file.
    pub const KIND: &'static str = "power";

    /// The least power with the default parameters and requirements (by linear programming).
    pub const DEFAULT_OPTIMUM: f64 = 0.543431833213;

    /// Checks the parameters.
    pub fn new(parameters: PowerParameters) -> Result<Self, ParameterError> {
        parameters.check(&Check(Self::KIND))?;
        Ok(Self { parameters })
    }

    /// The finite model.
    pub fn model(&self) -> Result<FiniteCmdp, Error> {
        let n = self.parameters.capacity;
        let mut builder = FiniteCmdp::builder(["power", "queue", "lost"]);
        for mode in Mode::ALL {
            for jobs in 0..=n {
                let state = builder.state(format!("{},{jobs}", mode.name()));
                for (action, next_modes) in self.next_modes(mode) {
                    let mut transitions = Vec::with_capacity(6);
                    let mut lost = 0.0;
                    for (next_mode, p) in next_modes {
                        for (next_jobs, q, loses) in self.queue(mode, jobs) {
                            let target = next_mode as usize * (n + 1) + next_jobs;
                            add(&mut transitions, target, p * q);
                            lost += if loses { p * q } else { 0.0 };
                        }
                    }
                    let rewards = [self.power(mode), jobs as f64 / n as f64, lost];
                    builder.choice(state, action, &transitions, &rewards);
                }
            }
        }
        Ok(builder.build()?)
    }

    /// Objective and requirements that come with it.
    pub fn specification(&self) -> Result<Specification, Error> {
        let requirements = vec![Requirement::at_most("queue", 0.3)?, Requirement::at_most("lost", 0.01)?];
        Specification::new(Some(Objective::minimize("power")), requirements)
    }

    /// The distribution of the next mode after `sleep` and after `serve`.
    fn next_modes(&self, mode: Mode) -> [(&'static str, Vec<(Mode, f64)>); 2] {
        let at_once = |to: Mode| vec![(to, 1.0)];
        let going_on = |to: Mode, p: f64| vec![(to, p), (mode, 1.0 - p)];
        let (sleep, serve) = match mode {
            Mode::Asleep => (at_once(Mode::Asleep), at_once(Mode::Waking)),
            Mode::Waking => (at_once(Mode::Suspending), going_on(Mode::Active, self.parameters.wake)),
            Mode::Active => (at_once(Mode::Suspending), at_once(Mode::Active)),
            Mode::Suspending => (going_on(Mode::Asleep, self.parameters.suspend), at_once(Mode::Waking)),
        };
        [("sleep", sleep), ("serve", serve)]
    }

    /// The distribution of the next number of jobs, and whether a job is lost on the way.
    fn queue(&self, mode: Mode, jobs: usize) -> [(usize, f64, bool); 4] {
        let PowerParameters { capacity, arrival, service, .. } = self.parameters;
        let leaves = if mode == Mode::Active && jobs > 0 { service } else { 0.0 };
        let left = jobs.saturating_sub(1);
        [
            (jobs, (1.0 - leaves) * (1.0 - arrival), false),
            ((jobs + 1).min(capacity), (1.0 - leaves) * arrival, jobs == capacity),
            (left, leaves * (1.0 - arrival), false),
            ((left + 1).min(capacity), leaves * arrival, false),
        ]
    }

    fn power(&self, mode: Mode) -> f64 {
        match mode {
            Mode::Asleep => self.parameters.asleep_power,
            Mode::Waking => self.parameters.waking_power,
            Mode::Active => self.parameters.active_power,
            Mode::Suspending => self.parameters.suspending_power,
        }
    }
}

/// Adds a probability to a target's; leaves out what cannot happen.
fn add(transitions: &mut Vec<(usize, f64)>, target: usize, p: f64) {
    match transitions.iter_mut().find(|(t, _)| *t == target) {
        Some((_, sum)) => *sum += p,
        None if p > 0.0 => transitions.push((target, p)),
        None => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Targets by name, probabilities and rewards of the action in that state.
    fn choice(model: &FiniteCmdp, state: &str, action: &str) -> (Vec<(String, f64)>, Vec<f64>) {
        let s = (0..model.states()).find(|s| model.state_name(*s) == state).unwrap();
        let c = model.choices(s).find(|c| model.action_name(*c) == action).unwrap();
        let choice = model.choice(c);
        let targets = choice.targets.iter().map(|t| model.state_name(*t as usize).into_owned());
        (targets.zip(choice.probabilities.iter().copied()).collect(), choice.rewards.to_vec())
    }

    fn assert_leads(found: &[(String, f64)], expected: &[(&str, f64)]) {
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (target, p) in expected {
            let found = found.iter().find(|(name, _)| name == target).unwrap_or_else(|| panic!("{target}"));
            assert!((found.1 - p).abs() < 1e-12, "{target}: {}", found.1);
        }
    }

    #[test]
    fn modes_change_as_commanded_and_jobs_leave_an_active_server_only() {
        let model = Power::new(PowerParameters::default()).unwrap().model().unwrap();
        assert_eq!((model.states(), model.choice_count()), (404, 808));
        let (targets, rewards) = choice(&model, "asleep,100", "sleep");
        assert_leads(&targets, &[("asleep,100", 1.0)]);
        assert_eq!(rewards, [0.05, 1.0, 0.1]);
        let (targets, _) = choice(&model, "asleep,3", "serve");
        assert_leads(&targets, &[("waking,3", 0.9), ("waking,4", 0.1)]);
        let (targets, rewards) = choice(&model, "waking,0", "serve");
        let expected = [("waking,0", 0.882), ("waking,1", 0.098), ("active,0", 0.018), ("active,1", 0.002)];
        assert_leads(&targets, &expected);
        assert_eq!(rewards, [1.2, 0.0, 0.0]);
        let (targets, rewards) = choice(&model, "active,50", "serve");
        assert_leads(&targets, &[("active,49", 0.18), ("active,50", 0.74), ("active,51", 0.08)]);
        assert_eq!(rewards, [1.0, 0.5, 0.0]);
        let (targets, _) = choice(&model, "active,1", "sleep");
        let expected = [("suspending,0", 0.18), ("suspending,1", 0.74), ("suspending,2", 0.08)];
        assert_leads(&targets, &expected);
        let (targets, rewards) = choice(&model, "active,100", "serve");
        assert_leads(&targets, &[("active,99", 0.18), ("active,100", 0.82)]);
        assert!((rewards[2] - 0.08).abs() < 1e-12);
        let (targets, _) = choice(&model, "suspending,0", "sleep");
        assert_eq!(targets.len(), 4);
        let (targets, _) = choice(&model, "suspending,100", "serve");
        assert_leads(&targets, &[("waking,100", 1.0)]);
        let (targets, _) = choice(&model, "waking,100", "sleep");
        assert_leads(&targets, &[("suspending,100", 1.0)]);
        assert_eq!(model.initial(), [(0, 1.0)]);
    }

    #[test]
    fn probabilities_sum_to_one() {
        let model = Power::new(PowerParameters::default()).unwrap().model().unwrap();
        for c in 0..model.choice_count() {
            let sum: f64 = model.choice(c).probabilities.iter().sum();
            assert!((sum - 1.0).abs() < 1e-12, "choice {c}: {sum}");
        }
    }
}
