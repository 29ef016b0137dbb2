//! One policy file, three ways to run it: `acrl run`, environments that the caller steps, and an agent.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use acrl::{BatchMatrix, EpochLength, Requirement, Rewards, Rng};
use acrl_app::{
    Control, EpochOption, ExecutionOptions, ExternalRun, Input, PolicyProblem, Run, RunOptions, Stop, run,
};
use acrl_learn::ppo::StepResult;

fn policy() -> PolicyProblem {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/data/wireless.safetensors");
    let Input::Policy(policy) = Input::read(path.to_str().unwrap()).unwrap() else { panic!("no policy") };
    *policy
}

/// Steps the environment that the policy embeds, with the random numbers of `acrl run`; also gives the rewards r₀ … r_m of
/// the first run.
fn run_externally(options: &RunOptions, requirements: &[Requirement], runs: usize) -> (Run, Vec<Rewards>) {
    let input = policy();
    assert!(!input.file().policy.is_sampling(), "the policy would draw random numbers of the environment");
    let mut external = ExternalRun::new("policy", input.clone(), requirements, options, runs).unwrap();
    let task = input.task(input.file().rebound(requirements).unwrap()).unwrap();
    let environment = task.environment();
    let seed = options.seed.unwrap_or(0);
    let mut rngs: Vec<Rng> = (0..runs as u64).map(|run| Rng::stream(seed, run)).collect();
    let zeros = |rows: usize| BatchMatrix::zeros(rows, runs);
    let mut states = zeros(environment.state_dimension());
    for (env, rng) in rngs.iter_mut().enumerate() {
        environment.reset(&mut states, env, rng).unwrap();
    }
    let mut observations = zeros(environment.observation_space().len());
    let mut named = zeros(environment.reward_names().len());
    let mut scored = zeros(task.scales().len());
    let position = |name: &String| environment.reward_names().iter().position(|n| n == name).unwrap();
    let order: Vec<usize> = external.reward_names().iter().map(position).collect();
    let (mut first, mut given) = (Vec::new(), zeros(order.len()));
    while !external.is_over() {
        environment.observe(&states, &mut observations);
        let actions = external.act(&observations).unwrap();
        environment.step(&mut states, actions, &mut named, &mut rngs).unwrap();
        for (row, reward) in order.iter().enumerate() {
            given.row_mut(row).copy_from_slice(named.row(*reward));
        }
        let (never, made) = (vec![false; runs], vec![true; runs]);
        let result = StepResult {
            rewards: &given,
            observation: &observations,
            final_observation: &observations,
            terminated: &never,
            truncated: &never,
            mask: &made,
        };
        external.observe(&result).unwrap();
        task.score(&named, &mut scored).unwrap();
        first.push(Rewards::new(scored.column(0).collect()).unwrap());
    }
    (external.finish().unwrap(), first)
}

#[test]
fn external_runs_equal_those_of_the_program() {
    let hard =
        [Requirement::at_least("rate_near", 1.5).unwrap(), Requirement::at_most("power", 0.5).unwrap()];
    let (auto, fixed) = (None, Some(EpochOption::Fixed(20)));
    for (requirements, epoch) in [(&[][..], auto), (&hard, fixed), (&hard, auto)] {
        let execution =
            ExecutionOptions { steps: Some(20_000), runs: Some(2), epoch, ..ExecutionOptions::default() };
        let options = RunOptions { execution, seed: Some(5), ..RunOptions::default() };
        let mut input = Input::Policy(Box::new(policy()));
        input.specify("policy", None, requirements).unwrap();
        let program = run("policy", input, &options, &Control::silent(Stop::default())).unwrap();
        let (external, _) = run_externally(&options, requirements, 2);
        assert_eq!(serde_json::to_value(&program).unwrap(), serde_json::to_value(&external).unwrap());
        assert_eq!(program.snapshots(), external.snapshots());
        assert_eq!(program.advice, external.advice);
        let page = |run: &Run| serde_json::to_value(run.page("policy", "command")).unwrap();
        assert_eq!(page(&program), page(&external));
    }
}

#[test]
fn agent_gives_the_verdict_of_a_run_on_the_same_rewards() {
    for bound in [0.1, 1.5, 9.0] {
        let requirements = [Requirement::at_least("rate_near", bound).unwrap()];
        // 2ⁿ steps have a middle that an agent without a planned end remembers.
        let execution = ExecutionOptions { steps: Some(16_384), ..ExecutionOptions::default() };
        let options = RunOptions { execution, ..RunOptions::default() };
        let (run, rewards) = run_externally(&options, &requirements, 1);
        let input = policy();
        let task = input.task(input.file().rebound(&requirements).unwrap()).unwrap();
        let defaults = input.file().execution_defaults;
        let executor = defaults.executor_for(None);
        let epoch = input.file().epoch(executor, Some(16_384), run.tolerance, &task);
        let builder = input.file().agent_builder(&task).unwrap().epoch(epoch);
        let mut agent = builder.executor(executor).build().unwrap();
        assert_eq!(defaults.epoch_for(None, 0.5, true), EpochLength::Auto(defaults.epoch));
        for rewards in &rewards {
            agent.observe(rewards).unwrap();
        }
        let evidence = input.file().evidence(&task, std::slice::from_ref(&agent));
        assert_eq!(agent.diagnosis(run.tolerance, evidence.input()), run.report.diagnosis, "{bound}");
        assert_eq!(agent.certificate(), run.certificate);
        let tolerances: Vec<f64> = run.report.requirements.iter().map(|(_, r)| r.tolerance).collect();
        assert_eq!(agent.tolerances(run.tolerance), tolerances);
        let last: Vec<f64> = run.report.multipliers.iter().map(|(_, statistics)| statistics.last).collect();
        assert_eq!(agent.multipliers().as_slice(), last);
    }
}

#[test]
fn unfit_requirements_are_refused_with_those_of_the_training() {
    let other = [Requirement::at_most("rate_near", 1.0).unwrap()];
    let error = ExternalRun::new("p.safetensors", policy(), &other, &RunOptions::default(), 1).unwrap_err();
    assert!(error.to_string().contains("p.safetensors was not trained for rate_near<=1"), "{error}");
}
