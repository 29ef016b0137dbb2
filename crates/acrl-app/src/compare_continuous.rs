//! Comparison on a continuous problem: every method trains on the same steps with the same seeds, and runs the same runs.

use acrl::{PolicyLibrary, RunReport, Values, VecTask};
use acrl_envs::RunSettings;
use acrl_learn::{Method, PolicyFile, Training};
use rayon::prelude::*;

use crate::Error;
use crate::compare::{CompareOptions, ran, unwatched};
use crate::comparison::{Comparison, MethodEntry, MethodRun};
use crate::control::{Control, Progress as _, Stop};
use crate::input::{ContinuousProblem, apply};
use crate::occupancy::OccupancyGrid;
use crate::run_policy::{Plan, PolicyRuns, estimate};
use crate::train::{online, policy_file};

/// Trainings of each method, where the command line does not say.
const TRAININGS: usize = 3;

/// Compares.
pub(super) fn compare(
    mut problem: ContinuousProblem,
    options: &CompareOptions,
    control: &Control,
) -> Result<Comparison, Error> {
    problem.run.steps = problem.run.steps.max(crate::compare::STEPS);
    problem.run.runs = problem.run.runs.max(crate::compare::RUNS);
    apply(&mut problem.run, &options.execution, options.seed);
    let task = VecTask::new(problem.environment.batch(), problem.specification.clone())?;
    let methods = if options.methods.is_empty() { Method::ALL } else { &options.methods[..] };
    let first = options.seed.unwrap_or(problem.train.seed);
    let trainings = options.train_seeds.unwrap_or(TRAININGS);
    let contest = Contest {
        problem: &problem,
        task: &task,
        steps: options.train_steps,
        seeds: (0..trainings as u64).map(|k| first.wrapping_add(k)).collect(),
        stop: &control.stop,
    };
    let contestants = contest.hold(methods, None, control)?;
    if contestants.is_empty() {
        return Err(Error::Stopped(" before the first method was done"));
    }
    contest.sum_up(&contestants)
}

/// Methods that train and run under the same conditions.
pub(super) struct Contest<'a> {
    pub(super) problem: &'a ContinuousProblem,
    pub(super) task: &'a VecTask<'a>,
    /// Environment steps to train on; the learner's own number if absent.
    pub(super) steps: Option<u64>,
    pub(super) seeds: Vec<u64>,
    pub(super) stop: &'a Stop,
}

/// A method after its training and its runs.
pub(super) struct Contestant {
    pub(super) training: Training,
    pub(super) file: PolicyFile,
    pub(super) run: RunSettings,
    pub(super) executed: PolicyRuns,
    pub(super) report: RunReport,
}

impl Contest<'_> {
    /// Every method with every seed, on all cores; those that were done when Ctrl-C came.
    pub(super) fn hold(
        &self,
        methods: &[Method],
        occupancy: Option<&OccupancyGrid>,
        control: &Control,
    ) -> Result<Vec<Contestant>, Error> {
        let jobs: Vec<(Method, u64)> =
            methods.iter().flat_map(|method| self.seeds.iter().map(|seed| (*method, *seed))).collect();
        let begun = jobs.iter().map(|&(method, seed)| {
            let train = &self.problem.train;
            Ok((Training::new(self.task, train, (method, train.learner), self.steps, seed)?, seed))
        });
        let begun = begun.collect::<Result<Vec<_>, Error>>()?;
        control.begin(begun.iter().map(|(training, _)| training.iterations()).sum());
        let done: Vec<Option<Contestant>> = begun
            .into_par_iter()
            .map(|(training, seed)| self.train(training, seed, occupancy, control))
            .collect::<Result<_, Error>>()?;
        Ok(done.into_iter().flatten().collect())
    }

    /// Trains one to the end and runs it; `None` if Ctrl-C came before.
    fn train(
        &self,
        mut training: Training,
        seed: u64,
        occupancy: Option<&OccupancyGrid>,
        control: &Control,
    ) -> Result<Option<Contestant>, Error> {
        while training.iteration() < training.iterations() && !self.stop.requested() {
            training.iterate(self.task)?;
            control.advance(1);
        }
        if self.stop.requested() {
            return Ok(None);
        }
        let file = policy_file(&training, self.problem, self.task, seed, true)?;
        let mut run = self.problem.run.clone();
        let executor = file.execution_defaults.executor_for(run.epoch);
        file.complete(&mut run, executor, self.task);
        let start = file.multipliers(self.task)?;
        let plan = Plan { task: self.task, file: &file, run: &run, start, executor };
        let executed = plan.execute(occupancy.cloned(), None, None, &Control::silent(self.stop.clone()))?;
        if self.stop.requested() {
            return Ok(None);
        }
        let report = plan.report(&executed.runs, &[])?;
        Ok(Some(Contestant { training, file, run, executed, report }))
    }

    /// The table of those that were done.
    pub(super) fn sum_up(&self, contestants: &[Contestant]) -> Result<Comparison, Error> {
        let run = &self.problem.run;
        let mut methods: Vec<MethodEntry> = Vec::new();
        // Those of A-CRL, whose library knows the worst averages.
        let tolerances = match contestants.iter().find(|c| c.training.method() == Training::A_CRL) {
            Some(ours) => ours.report.requirements.iter().map(|(_, entry)| entry.tolerance).collect(),
            None => {
                let (bounds, scales) = (self.task.specification().bounds(), self.task.scales());
                PolicyLibrary::default().tolerances(run.tolerance, &bounds, &scales[1..])
            }
        };
        let mut rest = contestants;
        while let Some(first) = rest.first() {
            let method = first.training.method();
            let (same, others) =
                rest.split_at(rest.iter().take_while(|c| c.training.method() == method).count());
            methods.extend(lines(same, self.task, &tolerances)?);
            rest = others;
        }
        let mut all_ours = contestants.iter().filter(|c| c.training.method() == Training::A_CRL);
        let ours = all_ours.clone().next();
        Ok(Comparison {
            steps: run.steps,
            runs: run.runs,
            train_seeds: self.seeds.len(),
            train_steps: contestants.iter().map(|c| c.training.steps()).max().unwrap_or(0),
            tolerance: run.tolerance,
            step_size: ours.map_or(run.step_size(), |c| c.run.step_size()),
            seed: self.seeds.first().copied().unwrap_or(0),
            learner: contestants.first().map(|c| c.training.learner()),
            specification: self.task.specification().clone(),
            optimum: ours.and_then(|c| estimate(self.task, &c.file)),
            best: "the best mixture of the long-run averages of A-CRL's policy",
            methods,
            good: !self.stop.requested() && all_ours.all(|c| c.report.met()),
            stopped: self.stop.requested(),
            end_components: 1,
        })
    }
}

/// The lines of one method, over its trainings: what is left of it, and what it had while it trained if that is what it
/// guarantees.
fn lines(same: &[Contestant], task: &VecTask<'_>, tolerances: &[f64]) -> Result<Vec<MethodEntry>, Error> {
    let Some(first) = same.first() else { return Ok(Vec::new()) };
    let entry = |method, runs: &[MethodRun], note: String| {
        MethodEntry::new(method, task.specification(), &task.scales()[1..], tolerances, runs, note)
    };
    let numbers = first.file.policy.numbers();
    let stopped = |method, note: String| {
        let runs: Vec<MethodRun> = same
            .iter()
            .flat_map(|c| {
                ran(c.executed.runs.iter().map(|run| &run.averages), c.executed.history.transients())
            })
            .collect();
        entry(method, &runs, note).map(|entry| entry.made_of(numbers))
    };
    let while_training = |method| -> Result<MethodEntry, Error> {
        let averages = same.iter().map(|c| {
            let averages = online(&c.training, task).unwrap_or_default();
            Ok(unwatched(Values::new(averages)?))
        });
        let averages = averages.collect::<Result<Vec<MethodRun>, Error>>()?;
        entry(method, &averages, "averages during training, from its first step on".to_owned())
    };
    let last = "its last policy, kept".to_owned();
    Ok(match first.training.method() {
        "fixed_weights" => vec![stopped("fixed weights", "all rewards count the same".to_owned())?],
        "dual_descent" => vec![stopped("dual descent, stopped", last)?],
        "primal_dual" => vec![while_training("primal-dual, online")?, stopped("primal-dual, stopped", last)?],
        "pid_lagrangian" => {
            vec![while_training("pid-lagrangian, online")?, stopped("pid-lagrangian, stopped", last)?]
        }
        "primal_averaging" => {
            let note = format!("policies of the training that take turns: {numbers} parameters");
            vec![stopped("primal averaging", note)?]
        }
        _ => vec![stopped("A-CRL", format!("one policy for all multipliers, {}", first.training.learner()))?],
    })
}
