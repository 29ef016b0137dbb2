//! Executions of finite problems, as the experiments on them need them.

use std::ops::ControlFlow;

use acrl::guarantees::squared_bound;
use acrl::{
    Agent, EpochLength, Event, Execution, FiniteCmdp, FinitePolicy as _, Multipliers, Requirement, Rng,
    Simulator, Specification, execute,
};
use acrl_envs::{Monitoring, MonitoringParameters, Problem, Source, bundled};
use acrl_exact::{ExactPolicy, FiniteTask, Optimum, Solution, SolveOptions, solve};

use crate::RunConfig;
use acrl_app::{Context as _, Error, bail};

/// c of Example 1.
pub(crate) const THIRD: f64 = 1.0 / 3.0;
/// η_λ of Fig. 3.
pub(crate) const ETA: f64 = 0.5;
/// T₀ of Fig. 3.
pub(crate) const EPOCH: u64 = 10;

/// Example 1 with c₁ = c₂ = c.
pub(crate) fn monitoring(c: f64) -> Result<(FiniteCmdp, Specification), Error> {
    let example = Monitoring::new(MonitoringParameters::default())?;
    let mut specification = example.specification()?;
    for name in ["r1", "r2"] {
        specification = specification.require(Requirement::at_least(name, c)?)?;
    }
    Ok((example.model()?, specification))
}

/// A bundled problem that is finite.
pub(crate) fn bundled_problem(name: &str) -> Result<(FiniteCmdp, Specification), Error> {
    let found = bundled().iter().find(|b| b.name == name).with_context(|| format!("no problem {name}"))?;
    let problem = Problem::parse(found.text)?;
    match problem.source {
        Source::Model(model) => Ok((model, problem.specification)),
        _ => bail!("{name} is not finite"),
    }
}

/// The optimum of a problem that has one.
pub(crate) fn optimum(task: &FiniteTask<'_>) -> Result<Optimum, Error> {
    match solve(task, &SolveOptions::default(), &mut |_| ControlFlow::Continue(()))? {
        Solution::Optimal(optimum) => Ok(optimum),
        Solution::Infeasible(conflict) => bail!("infeasible: {}", conflict.names.join(", ")),
    }
}

/// B² = sup ‖(r − c)/R‖².
pub(crate) fn range_squared_bound(task: &FiniteTask<'_>) -> f64 {
    let scaled = |v: Vec<f64>| v.iter().zip(task.scales()).map(|(r, s)| r / s).collect::<Vec<_>>();
    let bounds: Vec<f64> = task.bounds().iter().zip(task.scales()).map(|(c, s)| c / s).collect();
    squared_bound(task.reward_vectors().into_iter().map(scaled), &bounds)
}

/// An execution with its multipliers and states.
pub(crate) struct Trajectory {
    pub(crate) execution: Execution<usize>,
    /// λ₀, λ₁ … : one more than there are epochs.
    pub(crate) multipliers: Vec<Multipliers>,
    /// s₀, s₁ …
    pub(crate) states: Vec<u32>,
}

impl Trajectory {
    /// The share of epoch k that was spent in a state, with `length` steps per epoch.
    pub(crate) fn share(&self, k: usize, length: u64, state: u32) -> f64 {
        let epoch = self.states.iter().skip(k * length as usize).take(length as usize);
        epoch.filter(|s| **s == state).count() as f64 / length as f64
    }

    /// The largest certified shortfall, in units of ranges.
    pub(crate) fn shortfall(&self, task: &FiniteTask<'_>) -> f64 {
        let entries = self.execution.certificate.requirements.iter().zip(task.scales());
        entries.map(|(entry, range)| entry.certified_shortfall / range).fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Algorithm 2 with the exact maximiser, rewards in units of their ranges.
pub(crate) fn run(
    task: &FiniteTask<'_>,
    eta: f64,
    epoch: EpochLength,
    steps: u64,
    config: &RunConfig<'_>,
) -> Result<Trajectory, Error> {
    let requirements = task.specification().requirements().to_vec();
    let agent = Agent::builder(requirements).step_size(eta).epoch(epoch);
    let mut agent = agent.scales(task.objective_scale(), task.scales()).build()?;
    let mut environment = Simulator::new(task.model(), task.specification().clone())?;
    let mut multipliers = vec![agent.multipliers().clone()];
    let mut observer = |event: &Event<'_>| {
        if let Event::Epoch(epoch) = event {
            multipliers.push(epoch.multipliers.clone());
        }
        config.progress.stop.flow()
    };
    let mut exact = ExactPolicy::new(task);
    let mut states = Vec::with_capacity(steps as usize);
    let mut policy = |state: usize, lambda: &Multipliers, rng: &mut Rng| {
        states.push(state as u32);
        exact.act(state, lambda, rng)
    };
    let mut rng = Rng::new(config.seed);
    let execution = execute(&mut environment, &mut policy, &mut agent, steps, &mut rng, &mut observer)?;
    if let Some(failure) = exact.failure() {
        return Err(failure.into());
    }
    Ok(Trajectory { execution, multipliers, states })
}

#[cfg(test)]
mod tests {
    use acrl::{DiagnosisInput, DiagnosisVerdict, ExactEvidence, RunReport, Silent};
    use acrl_exact::{dual_function, most_slack, optimal_actions};
    use acrl_learn::baselines::finite::fixed_weights::soft_policy;

    use super::*;
    use crate::ProgressShare;

    fn simulate(task: &FiniteTask<'_>, eta: f64, epoch: EpochLength, steps: u64) -> Trajectory {
        let stop = acrl_app::Stop::default();
        run(
            task,
            eta,
            epoch,
            steps,
            &RunConfig { quick: true, seed: 1, progress: ProgressShare::hidden(&stop) },
        )
        .unwrap()
    }

    fn slack(task: &FiniteTask<'_>) -> acrl_exact::Slack {
        most_slack(task, &SolveOptions::default()).unwrap().unwrap()
    }

    /// A report of one run; `exact` is what is known of the model, `rewards` the vectors that can occur.
    fn report(
        trajectory: &Trajectory,
        task: &FiniteTask<'_>,
        exact: Option<ExactEvidence>,
        rewards: &[Vec<f64>],
    ) -> RunReport {
        let (scales, tolerances) =
            (task.scales().to_vec(), task.scales().iter().map(|r| 0.005 * r).collect());
        let input =
            DiagnosisInput { scales, tolerances, exact, observed: rewards, ..DiagnosisInput::default() };
        RunReport::new(task.specification(), std::slice::from_ref(&trajectory.execution), input).unwrap()
    }

    #[test]
    fn example_1_has_multipliers_one_one_and_slack_one_sixth() {
        let (model, specification) = monitoring(THIRD).unwrap();
        let task = FiniteTask::new(&model, &specification).unwrap();
        let optimum = optimum(&task).unwrap();
        assert!(optimum.multipliers.as_slice().iter().all(|l| (l - 1.0).abs() < 1e-9));
        assert!(optimum.multipliers_are_unique());
        assert!((range_squared_bound(&task) - 5.0 / 9.0).abs() < 1e-12);
        let slack = slack(&task);
        assert!((slack.lower - 1.0 / 6.0).abs() < 1e-9);
        assert!(slack.mixture.len() > 1, "no deterministic policy attains it");
        // With entropy regularisation the policy at (1, 1) is the uniform one, which is optimal here.
        let soft = soft_policy(&task, &optimum.multipliers, 0.1).unwrap().values(&task).unwrap();
        assert!(soft.as_slice().iter().all(|v| (v - THIRD).abs() < 1e-3), "{soft:?}");
        let actions = optimal_actions(&task, &[1.0, 1.0, 1.0]).unwrap();
        assert!(actions.iter().enumerate().all(|(s, actions)| actions.len() == model.choices(s).len()));
        // As in Fig. 3, multipliers stay close to 1.
        let late = &simulate(&task, ETA, EpochLength::Fixed(EPOCH), 10_000).multipliers[101..];
        assert!(late.iter().all(|l| l.as_slice().iter().all(|l| (0.7..=1.15).contains(l))));
    }

    #[test]
    fn dual_function_is_convex_and_bounds_the_optimum() {
        for name in ["monitoring", "queue", "maintenance", "inline", "patrol"] {
            let (model, specification) = bundled_problem(name).unwrap();
            let task = FiniteTask::new(&model, &specification).unwrap();
            let best = optimum(&task).unwrap();
            let d =
                |lambda: &[f64]| dual_function(&task, &Multipliers::new(lambda.to_vec()).unwrap()).unwrap();
            let mut rng = Rng::new(3);
            for _ in 0..50 {
                let mut draw = || -> Vec<f64> {
                    best.multipliers.as_slice().iter().map(|l| 3.0 * (l + 0.1) * rng.uniform()).collect()
                };
                let (a, b) = (draw(), draw());
                let middle: Vec<f64> = a.iter().zip(&b).map(|(a, b)| (a + b) / 2.0).collect();
                assert!(d(&a) >= best.lower - 1e-9, "{name}");
                assert!(d(&middle) <= (d(&a) + d(&b)) / 2.0 + 1e-9, "{name}");
            }
        }
    }

    #[test]
    fn short_epochs_are_diagnosed_and_auto_finds_long_ones() {
        let (model, specification) = monitoring(0.46).unwrap();
        let task = FiniteTask::new(&model, &specification).unwrap();
        let slack = slack(&task).lower;
        assert!((slack - 0.04).abs() < 1e-9, "strictly feasible");
        let diagnose = |epoch| {
            let trajectory = simulate(&task, ETA, epoch, 200_000);
            let exact = ExactEvidence { feasible: true, slack, conflict: vec![] };
            (report(&trajectory, &task, Some(exact), &[]).diagnosis, trajectory.execution.epoch)
        };
        let (short, _) = diagnose(EpochLength::Fixed(10));
        assert_eq!((short.verdict, short.names.len()), (DiagnosisVerdict::EpochTooShort, 2));
        let (auto, epoch) = diagnose(EpochLength::Auto(10));
        assert_eq!((auto.verdict, epoch), (DiagnosisVerdict::Met, 20));
        // From T₀ = 1 too, and closer to the edge.
        for (c, longest) in [(0.40, 8), (0.46, 32), (0.48, 64), (0.49, 128)] {
            let (model, specification) = monitoring(c).unwrap();
            let task = FiniteTask::new(&model, &specification).unwrap();
            let trajectory = simulate(&task, 0.05, EpochLength::Auto(1), 200_000);
            assert!(trajectory.execution.epoch <= longest, "c {c}: epoch {}", trajectory.execution.epoch);
            assert!(trajectory.shortfall(&task) <= 0.005, "c {c}: {}", trajectory.shortfall(&task));
        }
    }

    /// With the exact model, and with nothing but the reward vectors that can occur.
    #[test]
    fn infeasible_requirements_are_diagnosed_and_named() {
        let (model, specification) = monitoring(0.55).unwrap();
        let task = FiniteTask::new(&model, &specification).unwrap();
        let options = SolveOptions::default();
        let Solution::Infeasible(conflict) =
            solve(&task, &options, &mut |_| ControlFlow::Continue(())).unwrap()
        else {
            panic!("feasible")
        };
        let trajectory = simulate(&task, ETA, EpochLength::Auto(10), 200_000);
        let (slack, conflict) = (conflict.slack.upper, conflict.names);
        let exact = Some(ExactEvidence { feasible: false, slack, conflict });
        let diagnosis = report(&trajectory, &task, exact, &[]).diagnosis;
        assert_eq!(
            (diagnosis.verdict, diagnosis.names),
            (DiagnosisVerdict::Infeasible, vec!["r1".into(), "r2".into()])
        );
        let diagnosis = report(&trajectory, &task, None, &task.reward_vectors()).diagnosis;
        assert_eq!(diagnosis.verdict, DiagnosisVerdict::Infeasible);
        assert!((diagnosis.evidence.observed_slack.unwrap() + 0.05).abs() < 1e-9);
    }

    /// argmax r_λ does not depend on c, so bounds may change during a run.
    #[test]
    fn bounds_changed_during_a_run_are_met_without_retraining() {
        let (model, specification) = monitoring(THIRD).unwrap();
        let task = FiniteTask::new(&model, &specification).unwrap();
        let mut environment = Simulator::new(&model, specification.clone()).unwrap();
        let (mut policy, mut rng) = (ExactPolicy::new(&task), Rng::new(5));
        let agent = Agent::builder(specification.requirements().to_vec()).step_size(ETA);
        let mut agent = agent.epoch(EpochLength::Fixed(20)).build().unwrap();
        for bounds in [[0.2, 0.5], [0.4, 0.1], [0.1, 0.6]] {
            agent.set_bound("r1", bounds[0]).unwrap();
            agent.set_bound("r2", bounds[1]).unwrap();
            let run =
                execute(&mut environment, &mut policy, &mut agent, 100_000, &mut rng, &mut Silent).unwrap();
            assert!(run.averages.meets(&bounds, 0.005), "{bounds:?}: {:?}", run.averages);
            assert!(run.certificate.requirements.iter().all(|r| r.certified_shortfall <= 0.005));
            let best = (1.0 - bounds[0] - bounds[1]).min(0.5);
            assert!(run.averages.objective() >= best - 0.05, "{bounds:?}: {:?}", run.averages);
        }
    }
}
