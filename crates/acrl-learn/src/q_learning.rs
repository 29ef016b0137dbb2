//! Algorithm 1 with a table: average-reward Q-learning for all weights at once.
//!
//! Π(λ) depends on λ only through the normalised weights w = (1, λ)/(1 + Σλ), so it is enough to learn
//! on a grid over the simplex of weights. Rewards are vectors and an exploring agent that takes every
//! action with the same probability does not look at w, so one transition (s, a, r, s′) serves every
//! point of the grid (differential Q-learning, Wan, Naik and Sutton 2021):
//!
//! > δ_w = w·r − R̄_w + max_{a′} Q_w(s′, a′) − Q_w(s, a),
//! > Q_w(s, a) ← Q_w(s, a) + α_n δ_w,  R̄_w ← R̄_w + α_n δ_w/|C|,  α_n = n^{−κ},
//!
//! where n counts the visits of the choice (s, a), and |C| is the number of choices. Bounds c_i do not
//! occur: the same table serves every bound, also one that changes tomorrow. Between grid points Q is
//! interpolated linearly over the cells of a triangulation, and the policy is greedy.
//!
//! Each reward is measured in units of its range R_i, so that the grid is fine where it matters: at λ
//! the table is evaluated at weights proportional to (R₀, λ₁R₁ … λ_mR_m).
//!
//! **Guaranteed**: at a grid point Q_w converges to the solution of the average-reward optimality
//! equation if the model is weakly communicating (Wan, Yu and Sutton 2024) and every choice is tried
//! for ever; whatever the table holds, the certificate of [`acrl::execute`] is true. **Not
//! guaranteed**: that π(s, λ) maximises the Lagrangian between grid points, or where one state can
//! have another optimal average than another (one R̄_w serves all); nor that uniform exploration gets
//! anywhere in a large model. [`QLearningPolicy::settled_from`] evaluates what was learnt.

use acrl::{Error, Event, FiniteCmdp, FinitePolicy, Multipliers, Named, Observer};
use acrl::{Rewards, Rng, Simulator, Specification};
use acrl_exact::FiniteTask;

use crate::LearnError;
use crate::baselines::finite::stationary::first_choices;
use crate::error::{length, setting};
use crate::settings::{Range, STEPS, Settings, settings};
use crate::weights::{Grid, normalize};

settings! {
    /// The settings of Q-learning for all weights. The grid of weights is the finest one with at most `weight_grid_size` points, but
    /// has the corners of the simplex at least: with 300 points the weights are multiples of 1/23 for m = 2 and an
    /// objective.
    #[derive(Copy)]
    pub struct QLearningConfig {
        /// Environment steps to learn from (1,000,000 in `acrl compare`).
        total_steps: u64 = 200_000; STEPS;
        /// Largest number of points of the grid of weights.
        weight_grid_size: usize = 300; Range::Whole(1, 1_000_000);
        /// Exponent κ of the learning rate n^{−κ} after n visits.
        learning_rate_decay: f64 = 0.7; Range::HalfOpen(0.5, 1.0);
        /// Environment steps between two resets.
        reset_interval: u64 = 1_000; STEPS;
    }
}

/// The learner, with checked settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QLearning {
    settings: QLearningConfig,
}

impl QLearning {
    /// Largest number of entries of a table. On a large model the grid is made coarser until it fits.
    pub const TABLE: usize = 1 << 25;
    /// Number of reports of a training.
    const REPORTS: u64 = 100;

    /// Checks the settings.
    pub fn new(settings: QLearningConfig) -> Result<Self, LearnError> {
        settings.check_ranges()?;
        Ok(Self { settings })
    }

    /// The settings.
    pub fn settings(&self) -> &QLearningConfig {
        &self.settings
    }

    /// Reports about a hundred times the mean |δ_w| over the grid and the steps since the last report, in units of the
    /// rewards' ranges.
    pub fn train(
        &self,
        task: &Simulator<'_>,
        rng: &mut Rng,
        observer: &mut dyn Observer,
    ) -> Result<QLearningPolicy, Error> {
        let QLearningConfig { total_steps: steps, weight_grid_size, learning_rate_decay, reset_interval } =
            self.settings;
        let model = task.model();
        let choices = model.choice_count();
        let points = weight_grid_size.min(Self::TABLE / choices);
        let mut policy = QLearningPolicy::untrained(model, task.specification(), points)?;
        let points = policy.grid.len();
        let weights = policy.weights_by_reward();
        let mut gain = vec![0.0; points]; // R̄_w
        let mut visits = vec![0u64; choices];
        let (mut reward, mut best) = (vec![0.0; points], vec![0.0; points]);
        let mut rewards = Rewards::zeros(task.specification().requirements().len());
        let interval = steps.div_ceil(Self::REPORTS);
        let mut error = 0.0;
        let mut state = 0;
        for t in 0..steps {
            if t % reset_interval == 0 {
                state = task.reset(rng);
            }
            let action = rng.index(model.choices(state).len());
            let choice = model.choices(state).start + action;
            state = task.step(state, action, &mut rewards, rng)?;

            reward.fill(0.0); // w·r
            for (w, &r) in weights.iter().zip(rewards.as_slice()).filter(|(_, r)| **r != 0.0) {
                reward.iter_mut().zip(w).for_each(|(sum, w)| *sum += w * r);
            }
            best.fill(f64::NEG_INFINITY); // max_{a′} Q_w(s′, a′)
            for c in model.choices(state) {
                let q = &policy.table[c * points..(c + 1) * points];
                best.iter_mut().zip(q).for_each(|(best, q)| *best = best.max(*q));
            }
            visits[choice] += 1;
            let alpha = (visits[choice] as f64).powf(-learning_rate_decay);
            let q = &mut policy.table[choice * points..(choice + 1) * points];
            for w in 0..points {
                let delta = reward[w] - gain[w] + best[w] - q[w];
                q[w] += alpha * delta;
                gain[w] += alpha * delta / choices as f64;
                error += delta.abs();
            }

            if (t + 1) % interval == 0 || t + 1 == steps {
                let since = (t % interval + 1) * points as u64;
                let figures: Named<f64> =
                    [("train/td_error".to_owned(), error / since as f64)].into_iter().collect();
                let (iteration, total) = (t / interval + 1, steps.div_ceil(interval));
                if observer
                    .event(&Event::Iteration { iteration, total, steps: t + 1, metrics: &figures })
                    .is_break()
                {
                    break;
                }
                error = 0.0;
            }
        }
        Ok(policy)
    }
}

/// π(s, λ) from a table: greedy in Q, which is interpolated between the grid's points.
///
/// Ties go to the first action. The actions for the last λ are cached.
#[derive(Debug, Clone, PartialEq)]
pub struct QLearningPolicy {
    grid: Grid,
    has_objective: bool,
    /// R₀ … R_m.
    scales: Vec<f64>,
    first: Vec<usize>,
    /// Q_w(s, a), by choice and then by grid point.
    table: Vec<f64>,
    multipliers: Vec<f64>,
    cell: Vec<(usize, f64)>,
    rule: Vec<Option<usize>>,
}

/// Shift off a grid point that breaks ties, as a share of the way to the middle of the simplex.
const NUDGE: f64 = 1e-6;

impl QLearningPolicy {
    /// From a table that was learnt before: Q_w(s, a) by choice, then by point of the grid of the
    /// given resolution.
    pub fn new(
        model: &FiniteCmdp,
        specification: &Specification,
        resolution: usize,
        table: Vec<f64>,
    ) -> Result<Self, LearnError> {
        setting("resolution", resolution as f64, 1.0..=1e6, "1 to 1,000,000")?;
        let entries = Self::entries(specification);
        let expected = model.choice_count().saturating_mul(Grid::size(entries, resolution));
        length("the table of Q", expected, table.len())?;
        if let Some(&value) = table.iter().find(|q| !q.is_finite()) {
            return Err(Error::NotFinite { what: "an entry of the table of Q".into(), value }.into());
        }
        Ok(Self { table, ..Self::of_grid(model, specification, Grid::new(entries, resolution))? })
    }

    fn untrained(model: &FiniteCmdp, specification: &Specification, points: usize) -> Result<Self, Error> {
        Self::of_grid(model, specification, Grid::finest(Self::entries(specification), points))
    }

    fn of_grid(model: &FiniteCmdp, specification: &Specification, grid: Grid) -> Result<Self, Error> {
        let range = |term: Option<(usize, f64)>| {
            let (low, high) = term.map_or((0.0, 0.0), |(i, _)| model.reward_range(i));
            if high > low { high - low } else { 1.0 }
        };
        let scoring = specification.bind(model.reward_names())?;
        Ok(Self {
            has_objective: scoring.has_objective(),
            scales: scoring.terms().map(range).collect(),
            first: first_choices(model),
            table: vec![0.0; model.choice_count() * grid.len()],
            cell: Vec::new(),
            multipliers: Vec::new(),
            rule: vec![None; model.states()],
            grid,
        })
    }

    /// m + 1 weights with an objective, m without.
    fn entries(specification: &Specification) -> usize {
        specification.requirements().len() + usize::from(specification.objective().is_some())
    }

    /// n: the entries of the grid's weights are multiples of 1/n.
    pub fn resolution(&self) -> usize {
        self.grid.resolution()
    }

    /// Q_w(s, a), by choice and then by grid point.
    pub fn table(&self) -> &[f64] {
        &self.table
    }

    /// The rule for λ: the number of the action taken in each state.
    pub fn rule(&mut self, multipliers: &Multipliers) -> Vec<usize> {
        (0..self.rule.len()).map(|s| self.greedy(s, multipliers)).collect()
    }

    /// Value vectors V₁ … V_m of the recurrent classes that the policy can reach from `state` with the greedy policies of
    /// grid points. With too little training an agent may stay in one place for all weights, and values of other places
    /// are not attainable.
    pub fn settled_from(&self, task: &FiniteTask<'_>, state: usize) -> Result<Vec<Vec<f64>>, LearnError> {
        length("choices of the model", self.table.len() / self.grid.len(), task.model().choice_count())?;
        let mut rules: Vec<Vec<usize>> = Vec::new();
        for point in 0..self.grid.len() {
            let weights = self.grid.weights(point);
            // Beside a point, ties at the point are broken by its neighbours. The point itself counts only if some λ
            // leads there: the objective's weight is never 0.
            let even = NUDGE / weights.len() as f64;
            let beside: Vec<f64> = weights.iter().map(|w| (1.0 - NUDGE) * w + even).collect();
            let there = (!self.has_objective || weights[0] > 0.0).then(|| vec![(point, 1.0)]);
            for cell in there.into_iter().chain([self.grid.surrounding(&beside)]) {
                rules.push((0..self.rule.len()).map(|s| self.best_action(s, &cell)).collect());
            }
        }
        rules.sort();
        rules.dedup();
        let classes = rules.iter().map(|rule| task.classes(rule)).collect::<Result<Vec<_>, _>>()?;
        let model = task.model();
        let (mut been, mut open, mut settled) = (vec![false; model.states()], vec![state], Vec::new());
        been[state] = true;
        while let Some(s) = open.pop() {
            for (rule, classes) in rules.iter().zip(&classes) {
                let reached = reached(model, rule, s);
                for (states, values) in classes.iter().filter(|(states, _)| reached[states[0]]) {
                    settled.push(values.requirements().to_vec());
                    open.extend(states.iter().copied().filter(|&t| !std::mem::replace(&mut been[t], true)));
                }
            }
        }
        settled.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        settled.dedup();
        Ok(settled)
    }

    #[inline]
    fn greedy(&mut self, state: usize, multipliers: &Multipliers) -> usize {
        if multipliers.as_slice() != self.multipliers || self.cell.is_empty() {
            let weights = multipliers.weights(self.has_objective);
            let mut scaled: Vec<f64> = weights.iter().zip(&self.scales).map(|(w, r)| w * r).collect();
            normalize(&mut scaled);
            self.cell = self.grid.surrounding(&scaled[usize::from(!self.has_objective)..]);
            self.multipliers.clear();
            self.multipliers.extend_from_slice(multipliers.as_slice());
            self.rule.fill(None);
        }
        let action = self.rule[state].unwrap_or_else(|| self.best_action(state, &self.cell));
        self.rule[state] = Some(action);
        action
    }

    /// argmax_a Σ share · Q_w(s, a) over the vertices of a cell; the first of ties.
    fn best_action(&self, state: usize, cell: &[(usize, f64)]) -> usize {
        let (start, end) = (self.first[state], self.first[state + 1]);
        let value =
            |c: usize| cell.iter().map(|(w, share)| share * self.table[c * self.grid.len() + w]).sum();
        let mut best = (0, f64::NEG_INFINITY);
        for c in start..end {
            let q: f64 = value(c);
            if q > best.1 {
                best = (c - start, q);
            }
        }
        best.0
    }

    /// w₀ … w_m of a grid point's weights, which lack w₀ without an objective.
    fn pad(&self, mut weights: Vec<f64>) -> Vec<f64> {
        if !self.has_objective {
            weights.insert(0, 0.0);
        }
        weights
    }

    /// w_i/R_i at every grid point, by reward.
    fn weights_by_reward(&self) -> Vec<Vec<f64>> {
        let weights: Vec<Vec<f64>> =
            (0..self.grid.len()).map(|point| self.pad(self.grid.weights(point))).collect();
        (0..self.scales.len()).map(|i| weights.iter().map(|w| w[i] / self.scales[i]).collect()).collect()
    }
}

impl FinitePolicy for QLearningPolicy {
    #[inline]
    fn act(&mut self, state: usize, multipliers: &Multipliers, _: &mut Rng) -> usize {
        self.greedy(state, multipliers)
    }
}

/// The states to which a rule leads from a state, that one included.
fn reached(model: &FiniteCmdp, rule: &[usize], state: usize) -> Vec<bool> {
    let (mut reached, mut open) = (vec![false; model.states()], vec![state]);
    while let Some(s) = open.pop() {
        if !std::mem::replace(&mut reached[s], true) {
            let choice = model.choice(model.choices(s).start + rule[s]);
            open.extend(choice.targets.iter().map(|&t| t as usize));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::{at_least, machine, monitoring, running, third};
    use acrl::{Agent, EpochLength, Execution, Requirement, Silent, execute};
    use acrl_exact::{Solution, SolveOptions, solve};
    use std::ops::ControlFlow;

    fn learn(model: &FiniteCmdp, specification: &Specification, seed: u64) -> QLearningPolicy {
        let task = Simulator::new(model, specification.clone()).unwrap();
        let learner = QLearning::new(QLearningConfig::default()).unwrap();
        learner.train(&task, &mut Rng::new(seed), &mut Silent).unwrap()
    }

    /// Algorithm 2, with scaled dual dynamics.
    fn run(
        model: &FiniteCmdp,
        specification: &Specification,
        policy: &mut QLearningPolicy,
        (step_size, epoch): (f64, u64),
        steps: u64,
    ) -> Execution<usize> {
        let finite = FiniteTask::new(model, specification).unwrap();
        let mut task = Simulator::new(model, specification.clone()).unwrap();
        let requirements = specification.requirements().to_vec();
        let agent = Agent::builder(requirements).step_size(step_size).epoch(EpochLength::Fixed(epoch));
        let mut agent = agent.scales(finite.objective_scale(), finite.scales()).build().unwrap();
        execute(&mut task, policy, &mut agent, steps, &mut Rng::new(99), &mut Silent).unwrap()
    }

    #[test]
    fn example_1_is_learnt_and_bounds_may_change_afterwards() {
        let model = monitoring();
        for seed in 0..4 {
            let mut policy = learn(&model, &third(), seed);
            for (c, epoch, optimum) in
                [([1.0 / 3.0; 2], 10, 1.0 / 3.0), ([0.2, 0.5], 10, 0.3), ([0.46; 2], 20, 0.08)]
            {
                let run = run(&model, &at_least(c), &mut policy, (0.5, epoch), 100_000);
                for entry in &run.certificate.requirements {
                    assert!(entry.certified_shortfall < 0.005, "seed {seed} c {c:?}: {entry:?}");
                }
                assert!((run.averages.objective() - optimum).abs() < 0.03, "{:?}", run.averages);
            }
        }
    }

    #[test]
    fn a_random_model_in_other_units_is_learnt_to_near_its_optimum() {
        let model = machine();
        for seed in 0..4 {
            let mut policy = learn(&model, &running(0.9, 0.3), seed);
            for (up, cost) in [(0.9, 0.3), (0.85, 0.2), (0.8, 0.1)] {
                let specification = running(up, cost);
                let task = FiniteTask::new(&model, &specification).unwrap();
                let silent = &mut |_: &_| ControlFlow::Continue(());
                let answer = solve(&task, &SolveOptions::default(), silent).unwrap();
                let Solution::Optimal(optimum) = answer else { panic!("feasible") };
                let run = run(&model, &specification, &mut policy, (0.1, 20), 200_000);
                for (entry, range) in run.certificate.requirements.iter().zip(task.scales()) {
                    assert!(entry.certified_shortfall < 0.005 * range, "seed {seed} {up} {cost}: {entry:?}");
                }
                assert!(run.averages.objective() > optimum.objective - 0.02 * 10.0, "{:?}", run.averages);
            }
        }
    }

    #[test]
    fn learnt_policies_are_the_exact_maximisers_away_from_ties() {
        let model = monitoring();
        let mut policy = learn(&model, &third(), 5);
        let task = FiniteTask::new(&model, &third()).unwrap();
        for lambda in [[1.5, 2.0], [2.0, 1.5], [0.4, 0.7], [0.7, 0.4], [1.4, 0.3], [0.0, 9.0]] {
            let weights = [1.0, lambda[0], lambda[1]];
            let exact = acrl_exact::maximise(&task, &weights).unwrap().actions;
            assert_eq!(policy.rule(&Multipliers::new(lambda.to_vec()).unwrap()), exact, "{lambda:?}");
        }
    }

    #[test]
    fn reachable_values_depend_on_the_state_for_a_policy_that_stays() {
        let mut model = FiniteCmdp::builder(["a", "b"]);
        for (name, rewards) in [("A", [1.0, 0.0]), ("B", [0.0, 1.0])] {
            let s = model.state(name);
            model.choice(s, "stay", &[(s, 1.0)], &rewards).choice(s, "go", &[(1 - s, 1.0)], &rewards);
        }
        let model = model.build().unwrap();
        let requirements = ["a", "b"].map(|name| Requirement::at_least(name, 0.4).unwrap());
        let specification = Specification::new(None, requirements.to_vec()).unwrap();
        let task = FiniteTask::new(&model, &specification).unwrap();
        // For each choice: at the weights of one reward alone, and of the other.
        let stay = QLearningPolicy::new(&model, &specification, 1, vec![0.0; 8]).unwrap();
        assert_eq!(stay.settled_from(&task, 0).unwrap(), [[1.0, 0.0]]);
        assert_eq!(stay.settled_from(&task, 1).unwrap(), [[0.0, 1.0]]);
        let grid = stay.grid.weights(0)[0];
        let q = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0].map(|q: f64| if grid > 0.5 { q } else { 1.0 - q });
        let change = QLearningPolicy::new(&model, &specification, 1, q.to_vec()).unwrap();
        assert_eq!(change.settled_from(&task, 0).unwrap(), [[0.0, 1.0], [1.0, 0.0]]);
    }

    #[test]
    fn value_vectors_of_the_grid_span_the_attainable_set() {
        let model = monitoring();
        let policy = learn(&model, &third(), 1);
        let task = FiniteTask::new(&model, &third()).unwrap();
        // The best for both requirements at once is half of the time each, a sixth more than a third.
        let settled = policy.settled_from(&task, 0).unwrap();
        let game = acrl::mixture::game_value(&settled, task.bounds(), task.scales()).unwrap();
        assert!((game.value - 1.0 / 6.0).abs() < 1e-9, "{game:?}");
        let other = machine();
        let other = FiniteTask::new(&other, &running(0.9, 0.3)).unwrap();
        assert!(policy.settled_from(&other, 0).is_err(), "another model");
    }

    #[test]
    fn without_an_objective_the_weights_are_those_of_the_requirements() {
        let model = monitoring();
        let requirements =
            ["r0", "r1", "r2"].iter().map(|r| Requirement::at_least(*r, 0.3).unwrap()).collect();
        let specification = Specification::new(None, requirements).unwrap();
        let mut policy = learn(&model, &specification, 2);
        assert_eq!(policy.resolution(), 23);
        let run = run(&model, &specification, &mut policy, (0.5, 10), 100_000);
        assert!(
            run.certificate.requirements.iter().all(|c| c.certified_shortfall < 0.005),
            "{:?}",
            run.certificate
        );
    }

    #[test]
    fn training_is_reproducible_reports_and_stops_when_asked() {
        let model = monitoring();
        assert_eq!(learn(&model, &third(), 7), learn(&model, &third(), 7));
        let task = Simulator::new(&model, third()).unwrap();
        let learner = QLearning::new(QLearningConfig { total_steps: 1_050, ..Default::default() }).unwrap();
        let (mut events, mut stop_at) = (Vec::new(), u64::MAX);
        for _ in 0..2 {
            let mut observer = |event: &Event<'_>| {
                let Event::Iteration { iteration, total, metrics, .. } = event else { panic!("{event:?}") };
                assert!(metrics.get("train/td_error").unwrap().is_finite());
                events.push((*iteration, *total));
                if *iteration == stop_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            learner.train(&task, &mut Rng::new(0), &mut observer).unwrap();
            stop_at = 3;
        }
        assert_eq!((events.len(), events[95], events[98]), (96 + 3, (96, 96), (3, 96)));
    }

    #[test]
    fn a_table_can_be_restored() {
        let model = monitoring();
        let policy = learn(&model, &third(), 3);
        let again = QLearningPolicy::new(&model, &third(), policy.resolution(), policy.table().to_vec());
        assert_eq!(again.unwrap(), policy);
        assert!(QLearningPolicy::new(&model, &third(), 22, policy.table().to_vec()).is_err());
        assert!(QLearningPolicy::new(&model, &third(), 0, vec![]).is_err());
        assert!(QLearningPolicy::new(&model, &third(), 1, vec![f64::NAN; 18]).is_err());
    }

    #[test]
    fn bad_settings_are_errors_with_the_value_and_the_range() {
        let default = QLearningConfig::default();
        for bad in [
            QLearningConfig { total_steps: 0, ..default },
            QLearningConfig { weight_grid_size: 0, ..default },
            QLearningConfig { learning_rate_decay: 0.5, ..default },
            QLearningConfig { learning_rate_decay: f64::NAN, ..default },
            QLearningConfig { reset_interval: 0, ..default },
        ] {
            assert!(QLearning::new(bad).is_err(), "{bad:?}");
        }
        let error =
            QLearning::new(QLearningConfig { learning_rate_decay: 2.0, ..default }).unwrap_err().to_string();
        assert_eq!(
            error,
            "the setting 'learning_rate_decay' is 2.0, expected a number above 0.5 and at most 1"
        );
    }
}
