//! An exact answer as something that acts: the policies of its mixture, and what chooses between them.
//!
//! Memory is proportional to the model: one small number for each state and each policy of the mixture. Two things choose. Dual dynamics
//! do in [`SteeredPolicy`]: at λ it follows the policy with the largest V₀ + λ·V, which is π(λ) among those that are optimal at λ*.
//! And [`MixedPolicy`] switches by the clock, so that each policy gets its share of the time.
//!
//! In a model of several end components what can be had on almost every path is executed: a journey to a component that meets the
//! requirements, which is reached with probability 1, and there its own mixture.

use acrl::{FiniteCmdp, FinitePolicy, Multipliers, Rng};

use crate::lead::lead_home;
use crate::solve::{MixturePolicy, Optimum};
use crate::{AlmostSure, FiniteTask, Inside};

/// In a journey: here the agent settles.
pub const SETTLE: u32 = u32::MAX;

/// An answer that can be executed. [`check`](Self::check) says whether it fits a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Executable {
    /// The end components in which an agent may settle.
    pub parts: Vec<ExecutablePart>,
    /// The part that each state belongs to; empty if there is only one, to which all belong.
    pub part_of: Vec<u32>,
    /// The number of the action in each state on the way to where the agent settles, or [`SETTLE`]; empty if there is only one
    /// part.
    pub journey: Vec<u32>,
    /// The number of the action in each state. The n-th rule of each part is in the n-th of these, where the part's states are.
    pub rules: Vec<Vec<u32>>,
}

/// The answer in one end component.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutablePart {
    /// The probability with which the agent settles here.
    pub mass: f64,
    /// λ* here.
    pub multipliers: Vec<f64>,
    /// The share of time of each rule.
    pub weights: Vec<f64>,
    /// V₀ … V_m of each rule.
    pub values: Vec<Vec<f64>>,
}

impl ExecutablePart {
    fn new(mass: f64, multipliers: &Multipliers, mixture: &[MixturePolicy]) -> Self {
        Self {
            mass,
            multipliers: multipliers.as_slice().to_vec(),
            weights: mixture.iter().map(|c| c.weight).collect(),
            values: mixture.iter().map(|c| c.values.as_slice().to_vec()).collect(),
        }
    }
}

impl Executable {
    /// The answer to a task with one end component. Rules are changed where they would not get home soon
    /// ([`lead_home`]).
    pub fn new(task: &FiniteTask<'_>, optimum: &Optimum) -> Self {
        let rule = |component: &MixturePolicy| {
            let mut rule = component.rule.clone();
            lead_home(task.model(), &mut rule, |_| true);
            rule.into_iter().map(|action| action as u32).collect()
        };
        Self {
            parts: vec![ExecutablePart::new(1.0, &optimum.multipliers, &optimum.mixture)],
            part_of: Vec::new(),
            journey: Vec::new(),
            rules: optimum.mixture.iter().map(rule).collect(),
        }
    }

    /// What can be had on almost every path of a model of several end components; `None` if the requirements cannot be met so.
    pub fn almost_sure(task: &FiniteTask<'_>, sure: &AlmostSure) -> Option<Self> {
        let (model, journey) = (task.model(), sure.journey.as_ref()?);
        let mut answer = Self {
            parts: Vec::new(),
            part_of: vec![SETTLE; model.states()],
            journey: journey.steps.iter().map(|step| step.map_or(SETTLE, |a| a as u32)).collect(),
            rules: Vec::new(),
        };
        let components = task.structure().end_components.iter().zip(&sure.components);
        for ((states, offered), &mass) in components.zip(&journey.mass) {
            let Some(Inside { multipliers, mixture, .. }) = &offered.inside else { continue };
            states.iter().for_each(|&s| answer.part_of[s] = answer.parts.len() as u32);
            answer.parts.push(ExecutablePart::new(mass, multipliers, mixture));
            let stays = |c: usize| {
                let inside = |t: usize| states.binary_search(&t).is_ok();
                model.choice(c).targets.iter().all(|&t| inside(t as usize))
            };
            let mut allowed = vec![false; model.choice_count()];
            states.iter().flat_map(|&s| model.choices(s)).for_each(|c| allowed[c] = stays(c));
            for (j, component) in mixture.iter().enumerate() {
                let mut rule = vec![0; model.states()];
                states.iter().zip(&component.rule).for_each(|(&s, &action)| rule[s] = action);
                lead_home(model, &mut rule, |c| allowed[c]);
                if j == answer.rules.len() {
                    answer.rules.push(vec![0; model.states()]);
                }
                states.iter().for_each(|&s| answer.rules[j][s] = rule[s] as u32);
            }
        }
        Some(answer)
    }

    /// `Ok` if it can act in the model with so many requirements; else what is wrong.
    pub fn check(&self, model: &FiniteCmdp, requirements: usize) -> Result<(), String> {
        let (n, parts) = (model.states(), self.parts.len());
        let lengths = if parts == 1 && self.journey.is_empty() { 0 } else { n };
        if parts == 0 || self.part_of.len() != lengths || self.journey.len() != lengths {
            return Err(format!(
                "it has {parts} parts for {} states, expected {n} states",
                self.part_of.len()
            ));
        }
        for part in &self.parts {
            let fits = |v: &Vec<f64>| v.len() == requirements + 1;
            let rules = part.weights.len();
            let shares = part.weights.iter().all(|w| *w > 0.0 && *w <= 1.0)
                && (part.weights.iter().sum::<f64>() - 1.0).abs() < 1e-6;
            if !shares
                || part.values.len() != rules
                || rules > self.rules.len()
                || !part.values.iter().all(fits)
            {
                return Err(format!("the shares of its {rules} policies or their values cannot be used"));
            }
            if part.multipliers.len() != requirements || part.multipliers.iter().any(|l| *l < 0.0) {
                return Err(format!("its multipliers are {:?}, expected {requirements}", part.multipliers));
            }
        }
        for s in 0..n {
            let actions = model.choices(s).len();
            let known = |action: u32| (action as usize) < actions;
            let settles = self.journey.get(s).is_some_and(|&step| step == SETTLE);
            let part = self.part_of.get(s).copied().unwrap_or(0);
            if self.rules.iter().any(|rule| rule.len() != n || !known(rule[s]))
                || settles && part as usize >= parts
                || self.journey.get(s).is_some_and(|&step| step != SETTLE && !known(step))
            {
                return Err(format!("it takes an action in state {s} that the state does not have"));
            }
        }
        Ok(())
    }

    /// λ to begin with: λ*, on average over where the agent may settle.
    pub fn multipliers(&self) -> Vec<f64> {
        let total: f64 = self.parts.iter().map(|part| part.mass).sum();
        let m = self.parts.first().map_or(0, |part| part.multipliers.len());
        let mean =
            |i: usize| self.parts.iter().map(|part| part.mass * part.multipliers[i]).sum::<f64>() / total;
        (0..m).map(mean).collect()
    }

    /// V₀ … V_m of the mixture, on average over where the agent settles.
    pub fn values(&self) -> Vec<f64> {
        let width = self.parts.first().and_then(|part| part.values.first()).map_or(0, Vec::len);
        let mut total = vec![0.0; width];
        for part in &self.parts {
            for (weight, values) in part.weights.iter().zip(&part.values) {
                total.iter_mut().zip(values).for_each(|(t, v)| *t += part.mass * weight * v);
            }
        }
        total
    }

    /// The part in which the agent is, if it has settled by now.
    #[inline]
    fn settle(&self, state: usize) -> Option<usize> {
        match self.journey.get(state) {
            None => Some(0),
            Some(&SETTLE) => Some(self.part_of[state] as usize),
            Some(_) => None,
        }
    }

    #[inline]
    fn step(&self, state: usize) -> usize {
        self.journey.get(state).map_or(0, |&step| step as usize)
    }
}

/// Follows, of the policies of the mixture, the one with the largest V₀ + λ·V.
#[derive(Debug, Clone)]
pub struct SteeredPolicy<'a> {
    answer: &'a Executable,
    objective: f64,
    part: Option<usize>,
    rule: usize,
    multipliers: Vec<f64>,
}

impl<'a> SteeredPolicy<'a> {
    /// Without an objective V₀ does not count.
    pub fn new(answer: &'a Executable, has_objective: bool) -> Self {
        let objective = if has_objective { 1.0 } else { 0.0 };
        Self { answer, objective, part: None, rule: 0, multipliers: vec![f64::NAN] }
    }

    fn select(&mut self, part: usize, multipliers: &Multipliers) {
        self.multipliers.clear();
        self.multipliers.extend_from_slice(multipliers.as_slice());
        let lagrangian = |values: &Vec<f64>| -> f64 {
            let priced = values[1..].iter().zip(&self.multipliers).map(|(v, l)| v * l).sum::<f64>();
            self.objective * values[0] + priced
        };
        let mut best = f64::NEG_INFINITY;
        for (j, values) in self.answer.parts[part].values.iter().enumerate() {
            let value = lagrangian(values);
            if value > best {
                (best, self.rule) = (value, j);
            }
        }
    }
}

impl FinitePolicy for SteeredPolicy<'_> {
    #[inline]
    fn act(&mut self, state: usize, multipliers: &Multipliers, _: &mut Rng) -> usize {
        let settled = self.part.is_some();
        if !settled {
            self.part = self.answer.settle(state);
        }
        let Some(part) = self.part else { return self.answer.step(state) };
        if !settled || self.multipliers != multipliers.as_slice() {
            self.select(part, multipliers);
        }
        self.answer.rules[self.rule][state] as usize
    }
}

/// Gives each policy of the mixture its share of the time, in blocks. Multipliers do not matter.
///
/// Time is cut into rounds, and each round is divided among the policies in proportion to their shares; what is too short to be
/// worth a switch is saved up. Rounds grow like their number to the power of 2/3, so that the share of time lost in switching goes
/// to 0 and so does the share by which a running average is off.
#[derive(Debug, Clone)]
pub struct MixedPolicy<'a> {
    answer: &'a Executable,
    /// The length of every round, if they do not grow.
    fixed: Option<u64>,
    part: Option<usize>,
    rule: usize,
    /// Steps left of the present block.
    left: u64,
    round: u64,
    /// Time that each policy is owed.
    owed: Vec<f64>,
}

impl<'a> MixedPolicy<'a> {
    /// With rounds of this length, or growing ones.
    pub fn new(answer: &'a Executable, fixed: Option<u64>) -> Self {
        Self { answer, fixed, part: None, rule: 0, left: 0, round: 0, owed: Vec::new() }
    }

    /// The next block.
    fn next(&mut self, part: usize) {
        let weights = &self.answer.parts[part].weights;
        let states = self.answer.rules.first().map_or(0, Vec::len) as f64;
        // As long as the ways are, roughly: switching takes time.
        let first = 50.0 + 40.0 * states.sqrt();
        let least = self.fixed.map_or(first / 4.0, |length| (length as f64 / 4.0).max(1.0));
        if self.owed.len() != weights.len() {
            self.owed = vec![0.0; weights.len()];
            self.rule = weights.len() - 1;
        }
        loop {
            self.rule += 1;
            if self.rule == weights.len() {
                let length = self
                    .fixed
                    .map_or(first * ((self.round + 1) as f64).powf(2.0 / 3.0), |length| length as f64);
                self.owed.iter_mut().zip(weights).for_each(|(owed, w)| *owed += w * length);
                (self.round, self.rule) = (self.round + 1, 0);
            }
            if self.owed[self.rule] >= least {
                self.left = self.owed[self.rule] as u64;
                self.owed[self.rule] -= self.left as f64;
                return;
            }
        }
    }
}

impl FinitePolicy for MixedPolicy<'_> {
    #[inline]
    fn act(&mut self, state: usize, _: &Multipliers, _: &mut Rng) -> usize {
        if self.part.is_none() {
            self.part = self.answer.settle(state);
        }
        let Some(part) = self.part else { return self.answer.step(state) };
        if self.left == 0 {
            self.next(part);
        }
        self.left -= 1;
        self.answer.rules[self.rule][state] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::almost_sure;
    use crate::solve::{Solution, SolveOptions, solve};
    use acrl::{
        Agent, EpochLength, FiniteCmdp, Objective, Requirement, Silent, Simulator, Specification, execute,
    };
    use std::ops::ControlFlow;

    fn specification(c: f64) -> Specification {
        let requirement = Requirement::at_least("r1", c).unwrap();
        Specification::new(Some(Objective::maximize("r0")), vec![requirement]).unwrap()
    }

    /// What one long run comes to, steered by dual dynamics and by the clock.
    fn averages(task: &FiniteTask<'_>, answer: &Executable, seed: u64) -> [Vec<f64>; 2] {
        answer.check(task.model(), task.len()).unwrap();
        let specification = task.specification();
        let run = |policy: &mut dyn FinitePolicy| {
            let start = Multipliers::new(answer.multipliers()).unwrap();
            let agent = Agent::builder(specification.requirements().to_vec()).step_size(0.1);
            let mut agent = agent.epoch(EpochLength::Fixed(50)).multipliers(start).build().unwrap();
            let mut environment = Simulator::new(task.model(), specification.clone()).unwrap();
            let mut rng = Rng::stream(seed, 0);
            execute(&mut environment, policy, &mut agent, 400_000, &mut rng, &mut Silent)
                .unwrap()
                .averages
                .as_slice()
                .to_vec()
        };
        [run(&mut SteeredPolicy::new(answer, true)), run(&mut MixedPolicy::new(answer, None))]
    }

    /// A ring with random moves, rewards by state, and an entrance that is left for good.
    fn ring(entrance: bool) -> FiniteCmdp {
        let mut b = FiniteCmdp::builder(["r0", "r1"]);
        let n = 8;
        (0..n + usize::from(entrance)).for_each(|s| _ = b.state(s.to_string()));
        for s in 0..n {
            let rewards = [(s % 3) as f64 / 2.0, if s >= 6 { 1.0 } else { 0.0 }];
            for (a, step) in [1, n - 1].into_iter().enumerate() {
                b.choice(s, a.to_string(), &[((s + step) % n, 0.8), (s, 0.2)], &rewards);
            }
        }
        if entrance {
            b.choice(n, "wait", &[(n, 0.9), (0, 0.1)], &[0.0, 0.0]);
            b.choice(n, "enter", &[(4, 1.0)], &[0.0, 0.0]);
            b.initial(n, 1.0);
        }
        b.build().unwrap()
    }

    #[test]
    fn simulated_answers_have_the_certified_values() {
        for entrance in [false, true] {
            let model = ring(entrance);
            let specification = specification(0.4);
            let task = FiniteTask::new(&model, &specification).unwrap();
            assert!(task.structure().is_communicating());
            let solved = solve(&task, &SolveOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
            let Solution::Optimal(optimum) = solved else { panic!("feasible") };
            assert!(optimum.mixture.len() == 2, "it has to switch");
            let answer = Executable::new(&task, &optimum);
            for averages in averages(&task, &answer, 3) {
                for (measured, certified) in averages.iter().zip(optimum.values.as_slice()) {
                    assert!((measured - certified).abs() < 0.01, "{averages:?} {:?}", optimum.values);
                }
            }
        }
    }

    /// A hub leads to a trap that pays most and serves nobody, or at random to one of two rings.
    #[test]
    fn on_almost_every_path_the_certified_values_of_the_part_are_had() {
        let mut b = FiniteCmdp::builder(["r0", "r1"]);
        (0..6).for_each(|s| _ = b.state(s.to_string()));
        b.choice(0, "trap", &[(1, 1.0)], &[0.0, 0.0]);
        b.choice(0, "rings", &[(2, 0.3), (4, 0.3), (0, 0.4)], &[0.0, 0.0]);
        b.choice(1, "stay", &[(1, 1.0)], &[5.0, 0.0]);
        for (first, pay) in [(2, 1.0), (4, 0.5)] {
            b.choice(first, "earn", &[(first, 1.0)], &[pay, 0.0]);
            b.choice(first, "over", &[(first + 1, 1.0)], &[0.0, 0.0]);
            b.choice(first + 1, "serve", &[(first + 1, 0.9), (first, 0.1)], &[0.0, 1.0]);
        }
        let model = b.build().unwrap();
        let specification = specification(0.25);
        let task = FiniteTask::new(&model, &specification).unwrap();
        let sure = almost_sure(&task, &SolveOptions::default()).unwrap();
        let journey = sure.journey.as_ref().unwrap();
        assert_eq!(journey.steps[0], Some(1), "not into the trap");
        assert!(journey.mass[0] == 0.0 && (journey.mass[1] - 0.5).abs() < 1e-9, "{:?}", journey.mass);
        let answer = Executable::almost_sure(&task, &sure).unwrap();
        assert!((answer.values()[0] - sure.objective.unwrap()).abs() < 1e-6);
        let mut ended = [0, 0];
        for seed in 0..6 {
            for averages in averages(&task, &answer, seed) {
                let near = |objective: f64| (averages[0] - objective).abs() < 0.01;
                let which = sure.components[1..].iter().position(|c| near(c.objective.unwrap()));
                ended[which.unwrap_or_else(|| panic!("{averages:?} {sure:?}"))] += 1;
                assert!((averages[1] - 0.25).abs() < 0.01, "{averages:?}");
            }
        }
        assert!(ended[0] > 0 && ended[1] > 0, "{ended:?}");
    }

    #[test]
    fn an_answer_that_does_not_fit_is_refused() {
        let model = ring(false);
        let specification = specification(0.4);
        let task = FiniteTask::new(&model, &specification).unwrap();
        let solved = solve(&task, &SolveOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap();
        let Solution::Optimal(optimum) = solved else { panic!("feasible") };
        let good = Executable::new(&task, &optimum);
        assert!(good.check(&model, 1).is_ok());
        assert!(good.check(&model, 2).is_err());
        assert!(good.check(&ring(true), 1).is_err());
        let mut bad = good.clone();
        bad.rules[0][3] = 2;
        assert!(bad.check(&model, 1).is_err());
        let mut bad = good;
        bad.parts[0].weights[0] += 0.1;
        assert!(bad.check(&model, 1).is_err());
    }
}
