//! Models with several end components: requirements that hold on almost every path.
//!
//! A run ends in one of the components and cannot leave it. So a mixture over components has the right
//! *expected* values, but on no single path. On almost every path the optimum of a component by itself
//! is attained, if the component is reached with probability 1.

use std::ops::ControlFlow;

use acrl::{FiniteCmdp, Multipliers, Objective, Specification, Values};

use crate::graph::almost_surely_reaching;
use crate::solve::{most_slack_observed, optimum, silent};
use crate::{FiniteTask, MixturePolicy, SolveError, SolveOptions, SolveRound, maximise};

/// Optimum among policies that meet the requirements on almost every path.
#[derive(Debug, Clone, PartialEq)]
pub struct AlmostSure {
    /// Best expected V₀ among policies that meet every requirement on almost every path, in the sign of
    /// the paper; `None` if there is none.
    pub objective: Option<f64>,
    /// Each end component by itself, in the order of [`Structure`](crate::Structure).
    pub components: Vec<ComponentSolution>,
    /// Policy that reaches the components; `None` if there is no objective value.
    pub journey: Option<Journey>,
}

/// Solution for an agent that stays in one end component.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentSolution {
    /// Optimal V₀; `None` if the requirements cannot be met there.
    pub objective: Option<f64>,
    /// max_π min_i (V_i − c_i)/R_i there; infinite without requirements.
    pub slack: f64,
    /// Mixture that attains the optimum.
    pub optimum: Option<ComponentOptimum>,
}

/// Optimum of one end component.
#[derive(Debug, Clone, PartialEq)]
pub struct ComponentOptimum {
    /// λ* of the component.
    pub multipliers: Multipliers,
    /// Deterministic policies with their weights. The actions are given for each state of the component, in
    /// their order, as numbers of the whole model.
    pub mixture: Vec<MixturePolicy>,
    /// V₀ … V_m of the mixture.
    pub values: Values,
}

/// Policy that reaches the components in which an agent stays.
#[derive(Debug, Clone, PartialEq)]
pub struct Journey {
    /// Number of the action in each state; `None` where the agent stays in the component of the state.
    pub steps: Vec<Option<usize>>,
    /// Probability of ending in each component.
    pub mass: Vec<f64>,
}

/// Solves every end component, and finds the best policy that almost surely reaches those that meet the
/// requirements.
pub fn almost_sure(task: &FiniteTask<'_>, options: &SolveOptions) -> Result<AlmostSure, SolveError> {
    almost_sure_observed(task, options, &mut silent)
}

/// [`almost_sure`] with an observer, which sees the rounds of every component and may stop it; that is an
/// error if no result is known by then.
pub fn almost_sure_observed(
    task: &FiniteTask<'_>,
    options: &SolveOptions,
    observer: &mut dyn FnMut(&SolveRound) -> ControlFlow<()>,
) -> Result<AlmostSure, SolveError> {
    let model = task.model();
    let mut components = Vec::new();
    for states in &task.structure().end_components {
        let (restricted, kept) = restrict(model, states)?;
        let restricted = FiniteTask::new(&restricted, task.specification())?;
        let slack = most_slack_observed(&restricted, options, observer)?.map_or(f64::INFINITY, |s| s.lower);
        let best = optimum(&restricted, options, observer)?;
        let objective = best.as_ref().map(|best| best.objective);
        let optimum = best.map(|mut best| {
            for actions in best.mixture.iter_mut().map(|policy| &mut policy.actions) {
                actions.iter_mut().zip(&kept).for_each(|(action, kept)| *action = kept[*action] as usize);
            }
            ComponentOptimum { multipliers: best.multipliers, mixture: best.mixture, values: best.values }
        });
        components.push(ComponentSolution { objective, slack, optimum });
    }
    let (objective, journey) = best_reached_for_sure(task, &components)?.unzip();
    Ok(AlmostSure { objective, components, journey })
}

/// Model restricted to a component, and the actions of each state that remain.
pub(crate) fn restrict(
    model: &FiniteCmdp,
    states: &[usize],
) -> Result<(FiniteCmdp, Vec<Vec<u32>>), SolveError> {
    let position = |t: u32| states.binary_search(&(t as usize)).ok();
    let mut inside = FiniteCmdp::builder(model.reward_names().to_vec());
    for &s in states {
        inside.state(model.state_name(s));
    }
    let mut kept = vec![Vec::new(); states.len()];
    for (i, &s) in states.iter().enumerate() {
        for (a, c) in model.choices(s).enumerate() {
            let choice = model.choice(c);
            let targets = choice.targets.iter().zip(choice.probabilities);
            let to: Option<Vec<_>> = targets.map(|(t, p)| Some((position(*t)?, *p))).collect();
            if let Some(to) = to {
                kept[i].push(a as u32);
                inside.choice(i, model.action_name(c), &to, choice.rewards);
            }
        }
    }
    Ok((inside.build().map_err(acrl::Error::from)?, kept))
}

/// Best expected optimum among policies that almost surely reach components with an optimum: the
/// solution of a model in which the agent may stay in such a component for its optimum, and earns less
/// on the way.
fn best_reached_for_sure(
    whole: &FiniteTask<'_>,
    components: &[ComponentSolution],
) -> Result<Option<(f64, Journey)>, SolveError> {
    let model = whole.model();
    let mut settle: Vec<Option<f64>> = vec![None; model.states()];
    for (states, answer) in whole.structure().end_components.iter().zip(components) {
        states.iter().for_each(|&s| settle[s] = answer.objective);
    }
    let goal: Vec<bool> = settle.iter().map(Option::is_some).collect();
    let reaching = almost_surely_reaching(model, &goal);
    if !model.initial().iter().all(|(s, _)| reaching[*s]) {
        return Ok(None);
    }
    let least = settle.iter().flatten().copied().fold(f64::INFINITY, f64::min);
    let under_way = least - whole.objective_scale();
    let stays = |c: usize| model.choice(c).targets.iter().all(|&t| reaching[t as usize]);
    let mut journey = FiniteCmdp::builder(["answer"]);
    (0..model.states()).for_each(|s| _ = journey.state(model.state_name(s)));
    // Action of the model by choice of the journey; `None` to stay.
    let mut meaning = Vec::new();
    for s in 0..model.states() {
        if let Some(answer) = settle[s] {
            journey.choice(s, "settle", &[(s, 1.0)], &[answer]);
            meaning.push(None);
        }
        for (a, c) in model.choices(s).enumerate() {
            let choice = model.choice(c);
            if reaching[s] && stays(c) {
                let targets = choice.targets.iter().map(|&t| t as usize);
                let to: Vec<(usize, f64)> = targets.zip(choice.probabilities.iter().copied()).collect();
                journey.choice(s, format!("go {a}"), &to, &[under_way]);
                meaning.push(Some(a));
            }
        }
        if !reaching[s] {
            journey.choice(s, "lost", &[(s, 1.0)], &[under_way]);
            meaning.push(Some(0));
        }
    }
    for &(s, p) in model.initial() {
        journey.initial(s, p);
    }
    let journey = journey.build().map_err(acrl::Error::from)?;
    let specification = Specification::new(Some(Objective::maximize("answer")), vec![])?;
    let task = FiniteTask::new(&journey, &specification)?;
    let best = maximise(&task, &[1.0])?;
    let occupancy = task.occupancy(&best.actions)?;
    let chosen = |s: usize| journey.choices(s).start + best.actions[s];
    let steps: Vec<Option<usize>> = (0..model.states()).map(|s| meaning[chosen(s)]).collect();
    let settled = |&s: &usize| if steps[s].is_none() { occupancy[chosen(s)] } else { 0.0 };
    let mass = whole.structure().end_components.iter().map(|states| states.iter().map(settled).sum());
    let mass = mass.collect();
    Ok(Some((best.value(&task), Journey { steps, mass })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::{maximise_r0, of_choices};

    /// A hub leads to the absorbing states A (r0 = 1, r1 = 0) and B (r0 = 0, r1 = 1), or to a state with the
    /// choice to serve (r1 = 1) or to earn (r0 = 0.6). Returns the optimum in expectation, too.
    fn solved(c: f64) -> (f64, AlmostSure) {
        let model = of_choices(&[
            (0, "to A", &[(1, 1.0)], [0.0, 0.0]),
            (0, "to B", &[(2, 1.0)], [0.0, 0.0]),
            (0, "to both", &[(3, 1.0)], [0.0, 0.0]),
            (1, "stay", &[(1, 1.0)], [1.0, 0.0]),
            (2, "stay", &[(2, 1.0)], [0.0, 1.0]),
            (3, "serve", &[(3, 1.0)], [0.0, 1.0]),
            (3, "earn", &[(3, 1.0)], [0.6, 0.0]),
        ]);
        let task = FiniteTask::new(&model, &maximise_r0(&[("r1", c)])).unwrap();
        assert!(!task.structure().is_communicating());
        let options = SolveOptions::default();
        let expected = optimum(&task, &options, &mut silent).unwrap().unwrap().objective;
        (expected, almost_sure(&task, &options).unwrap())
    }

    #[test]
    fn expected_values_mix_components_and_paths_do_not() {
        let (expected, sure) = solved(0.5);
        assert!((expected - 0.5).abs() < 1e-9, "half the paths to A, half to B");
        assert!((sure.objective.unwrap() - 0.3).abs() < 1e-9, "serve and earn on every path");
        let objectives: Vec<Option<f64>> = sure.components.iter().map(|c| c.objective).collect();
        assert!(objectives[0].is_none() && objectives[1].is_some() && objectives[2].is_some());
        let (expected, sure) = solved(0.0);
        assert!((expected - 1.0).abs() < 1e-9);
        assert!((sure.objective.unwrap() - 1.0).abs() < 1e-9, "the best component");
    }
}
