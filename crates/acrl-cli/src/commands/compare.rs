//! `acrl compare`: A-CRL beside the methods it improves on. Same problem, same steps, same seeds.

use std::ops::ControlFlow;

use acrl::{Agent, EachStep, FinitePolicy, Rng, Simulator, Step, Transient, Values, execute, execute_runs};
use acrl_exact::{FiniteTask, Solution, SolveOptions, solve};
use acrl_learn::baselines::finite::dual_descent::dual_descent;
use acrl_learn::baselines::finite::fixed_weights::{best, square_grid, sweep};
use acrl_learn::baselines::finite::primal_averaging::{Blocks, state_wise, trajectory_weighted, visits};
use acrl_learn::baselines::finite::primal_dual::{PrimalDualConfig, primal_dual};
use acrl_learn::{Method, Stationary, Tabular, TabularConfig};
use anyhow::{Context as _, bail, ensure};
use indicatif::ProgressBar;

use super::compare_continuous;
use super::run::{report, run_exact};
use super::solve::objective_sign;
use crate::Verdict;
use crate::args::{CompareArgs, Execution, Global};
use crate::comparison::{Comparison, Entry, Ran, print};
use crate::folder::{page_line, prepare};
use crate::input::{Input, Loaded};
use crate::output::Output;
use crate::watch::{Stop, Watch, listen};

/// Environment steps of a learner, unless they are given.
const TRAIN_STEPS: u64 = 1_000_000;
/// Short runs say little about methods that settle only on average.
pub(super) const STEPS: u64 = 200_000;
/// Runs, where neither the problem nor the command line asks for several.
pub(super) const RUNS: usize = 3;
/// About how many weightings a sweep tries.
const WEIGHTINGS: f64 = 4000.0;

/// Compares and prints.
pub(crate) fn verb(args: &CompareArgs, global: &Global, output: &mut Output) -> anyhow::Result<Verdict> {
    let (name, input) = (&args.source.input, Input::open(&args.source)?);
    let options = CompareOptions {
        execution: args.execution.clone(),
        seed: global.seed,
        budget: args.budget,
        methods: args.methods.clone(),
        trainings: args.trainings.map(|n| n as usize),
    };
    options.check(name, &input)?;
    args.folder.as_deref().map(prepare).transpose()?;
    let watch = match input {
        // Nothing is lost when Ctrl-C ends it at once.
        Input::Finite(_) => Watch { stop: Stop::default(), bar: output.bar(0, "comparing") },
        _ => Watch { stop: listen(), bar: output.bar(0, "training") },
    };
    let comparison = compare(name, input, &options, &watch)?;
    watch.bar.finish_and_clear();
    if comparison.stopped {
        output.warn("stopped by Ctrl-C: this is about the trainings that were done");
    }
    if let Some(folder) = &args.folder {
        comparison.page(name, output.command()).write(folder)?;
    }
    if output.is_json() {
        output.object(&comparison)?;
    } else {
        print(&comparison, output);
        if let Some(folder) = &args.folder {
            output.line(page_line(folder));
        }
        if comparison.parts > 1 {
            output.line(format!(
                "The model has {} separate end components, and a run ends in one of them.",
                comparison.parts
            ));
        }
    }
    // The exit status is A-CRL's alone: the others are there to be compared with.
    Ok(Verdict::of(comparison.good))
}

/// What to compare, and how. What is left out is as the problem says, but for at least 3 runs of 200,000 steps.
#[derive(Debug, Clone, Default)]
pub struct CompareOptions {
    /// Steps, runs, step size, epoch and tolerance.
    pub execution: Execution,
    /// The seed of all randomness.
    pub seed: Option<u64>,
    /// Environment steps on which each learning method may train.
    pub budget: Option<u64>,
    /// These methods only; none: all.
    pub methods: Vec<Method>,
    /// Trainings of each method, on continuous problems.
    pub trainings: Option<usize>,
}

impl CompareOptions {
    fn check(&self, name: &str, input: &Input) -> anyhow::Result<()> {
        if matches!(input, Input::Policy(_)) {
            bail!(
                "{name} is a trained policy, expected a problem or model: compare trains the policies itself"
            );
        }
        if matches!(input, Input::Finite(_)) && self.methods.contains(&Method::PidLagrangian) {
            bail!("there is no pid_lagrangian for finite problems");
        }
        if matches!(input, Input::Finite(_)) && self.trainings.is_some() {
            bail!(
                "--trainings is for continuous problems: on finite ones each of the --runs trains by itself"
            );
        }
        Ok(())
    }
}

/// Compares A-CRL with the methods it improves on. `name` is what messages call the problem.
///
/// When it is stopped, a continuous problem is compared by what was done until then; a finite one is not.
pub fn compare(
    name: &str,
    input: Input,
    options: &CompareOptions,
    watch: &Watch,
) -> anyhow::Result<Comparison> {
    options.check(name, &input)?;
    let mut loaded = match input {
        Input::Continuous(problem) => return compare_continuous::compare(*problem, options, watch),
        finite => Loaded::of(name, finite)?,
    };
    loaded.run.steps = loaded.run.steps.max(STEPS);
    loaded.run.runs = loaded.run.runs.max(RUNS);
    loaded.apply(&options.execution, options.seed);
    let task = loaded.task()?;
    let budget = options.budget.or(loaded.train.total_steps()).unwrap_or(TRAIN_STEPS);
    let contest =
        Contest { loaded: &loaded, task: &task, budget, methods: &options.methods, stop: &watch.stop };
    watch.bar.set_length(8);
    contest.hold(&watch.bar)
}

struct Contest<'a> {
    loaded: &'a Loaded,
    task: &'a FiniteTask<'a>,
    budget: u64,
    /// Those that are asked for; none: all.
    methods: &'a [Method],
    stop: &'a Stop,
}

impl Contest<'_> {
    /// All methods.
    fn hold(&self, bar: &ProgressBar) -> anyhow::Result<Comparison> {
        let (loaded, task) = (self.loaded, self.task);
        let mut methods = Vec::new();
        let (exact, course) = run_exact(loaded, task, None, &Watch::silent(self.stop.clone()))?;
        let good = report(loaded, task, &exact)?.met();
        let averages = ran(exact.iter().map(|run| &run.averages), course.transients());
        let epoch = exact.iter().map(|run| run.epoch).max().unwrap_or(1);
        methods.push(self.entry(
            "a-crl (exact)",
            averages,
            format!("the exact pi(lambda), epoch {epoch}"),
        )?);
        self.done(bar)?;
        let wanted = |method| self.methods.is_empty() || self.methods.contains(&method);
        if wanted(Method::ACrl) {
            methods.push(self.learned()?);
        }
        self.done(bar)?;
        if wanted(Method::FixedWeights) {
            methods.push(self.fixed_weights()?);
        }
        self.done(bar)?;
        if wanted(Method::DualDescent) {
            methods.push(self.dual_descent(epoch)?);
        }
        self.done(bar)?;
        if wanted(Method::PrimalDual) {
            methods.extend(self.primal_dual()?);
        }
        self.done(bar)?;
        if wanted(Method::PrimalAveraging) {
            methods.extend(self.primal_averaging(epoch)?);
        }
        self.done(bar)?;
        let (entry, optimum) = self.optimum()?.unzip();
        methods.extend(entry);
        self.done(bar)?;
        Ok(Comparison {
            steps: loaded.run.steps,
            runs: loaded.run.runs,
            trainings: 1,
            optimum: optimum.filter(|_| task.has_objective()),
            best: "the best possible",
            budget: self.budget,
            tolerance: loaded.run.tolerance,
            step_size: loaded.run.step_size(),
            seed: loaded.run.seed,
            learner: None,
            specification: task.specification().clone(),
            methods,
            good,
            stopped: false,
            parts: task.structure().end_components.len(),
        })
    }

    /// One more is done.
    fn done(&self, bar: &ProgressBar) -> anyhow::Result<()> {
        ensure!(!self.stop.requested(), "stopped by Ctrl-C");
        bar.inc(1);
        Ok(())
    }

    fn learned(&self) -> anyhow::Result<Entry> {
        let settings = TabularConfig { total_steps: self.budget, ..self.loaded.train.tabular()? };
        let learner = Tabular::new(settings)?;
        let values = execute_runs(self.loaded.run.runs, |run| {
            let mut rng = Rng::stream(self.loaded.run.seed, run as u64);
            let task = self.environment()?;
            let mut policy = learner.train(&task, &mut rng, &mut self.stop.clone())?;
            self.execute(&mut policy, self.loaded.agent(self.task)?, &mut rng)
        })?;
        self.entry("a-crl (learned)", values, "a table of Q for all weights, learnt from samples".to_owned())
    }

    fn fixed_weights(&self) -> anyhow::Result<Entry> {
        let task = self.task;
        let points = WEIGHTINGS.powf(1.0 / task.len().max(1) as f64).floor().max(2.0) as usize;
        let scaled = square_grid(task.len(), 3.0, points)?;
        let in_users_units = |lambda: acrl::Multipliers| {
            let units = lambda.as_slice().iter().zip(task.scales());
            acrl::Multipliers::new(units.map(|(l, r)| l * task.objective_scale() / r).collect())
        };
        let grid = scaled.into_iter().map(in_users_units).collect::<Result<Vec<_>, _>>()?;
        let tried = grid.len();
        let weightings = sweep(task, grid, self.loaded.run.tolerance)?;
        let feasible = weightings.iter().filter(|w| w.feasible).count();
        let chosen = best(task, &weightings).context("no weighting was tried")?;
        let weights = chosen.multipliers.weights(task.has_objective());
        let policy = Stationary::of_rule(task.model(), &acrl_exact::maximise(task, &weights)?.actions)?;
        let values = self.frozen(&policy)?;
        self.entry(
            "fixed weights",
            values,
            format!(
                "the best of {tried} weightings; {feasible} are feasible, on average over where they end up"
            ),
        )
    }

    fn dual_descent(&self, epoch: u64) -> anyhow::Result<Entry> {
        let iterates = (self.loaded.run.steps / epoch).clamp(1, 2000) as usize;
        let descent = dual_descent(self.task, self.loaded.run.step_size(), iterates)?;
        let values = self.frozen(&descent.stopped(self.task, iterates - 1)?)?;
        self.entry("dual descent, stopped", values, format!("the policy after {iterates} updates, kept"))
    }

    fn primal_dual(&self) -> anyhow::Result<[Entry; 2]> {
        let length = PrimalDualConfig::default().length;
        let settings =
            PrimalDualConfig { rollouts: (self.budget / length).max(1), ..PrimalDualConfig::default() };
        let both = execute_runs(self.loaded.run.runs, |run| -> anyhow::Result<(Ran, Ran)> {
            let mut rng = Rng::stream(self.loaded.run.seed, run as u64);
            let mut trained = primal_dual(self.task, &settings, &mut rng, &mut self.stop.clone())?;
            let kept = self.execute(&mut trained.last, self.loaded.agent(self.task)?, &mut rng)?;
            Ok((unwatched(trained.online), kept))
        })?;
        let (online, stopped) = both.into_iter().unzip();
        let note = |what| format!("{what} {} rollouts of {length} steps", settings.rollouts);
        Ok([
            self.entry("primal-dual, online", online, note("averages over its"))?,
            self.entry("primal-dual, stopped", stopped, note("its last policy, kept after"))?,
        ])
    }

    fn primal_averaging(&self, epoch: u64) -> anyhow::Result<[Entry; 3]> {
        let (task, run) = (self.task, &self.loaded.run);
        let epochs = (run.steps / epoch).max(1);
        let visits = visits(task, run.step_size(), epoch, epochs, &mut Rng::stream(run.seed, 0))?;
        let printed = self.frozen(&state_wise(task.model(), &visits.rules)?)?;
        let weighted = self.frozen(&trajectory_weighted(task.model(), &visits.choices)?)?;
        let blocks = self.frozen(&Blocks::new(task.model(), &visits.rules, Blocks::LENGTH)?)?;
        let note = |what| format!("{what} of {epochs} epochs");
        Ok([
            self.entry(
                "primal averaging (by state)",
                printed,
                note("as the paper prints it: the mean of pi(a|s)"),
            )?,
            self.entry("primal averaging (by occupancy)", weighted, note("actions as often as in the run"))?,
            self.entry(
                "primal averaging (long blocks)",
                blocks,
                format!("a drawn pi(lambda_k) for {} steps", Blocks::LENGTH),
            )?,
        ])
    }

    /// The optimum, and its objective in the user's sign.
    fn optimum(&self) -> anyhow::Result<Option<(Entry, f64)>> {
        let answer = solve(self.task, &SolveOptions::default(), &mut |_| self.stop.flow())?;
        let Solution::Optimal(optimum) = answer else { return Ok(None) };
        let objective = objective_sign(self.task) * optimum.objective + 0.0;
        let note = "by acrl solve".to_owned();
        Ok(Some((self.entry("exact optimum", vec![unwatched(optimum.values)], note)?, objective)))
    }

    /// The averages of a policy that takes no notice of λ, run by run.
    fn frozen<P: FinitePolicy + Clone + Sync>(&self, policy: &P) -> anyhow::Result<Vec<Ran>> {
        execute_runs(self.loaded.run.runs, |run| {
            let mut rng = Rng::stream(self.loaded.run.seed, run as u64);
            self.execute(&mut policy.clone(), self.loaded.agent(self.task)?, &mut rng)
        })
    }

    fn execute<P: FinitePolicy>(
        &self,
        policy: &mut P,
        mut agent: Agent,
        rng: &mut Rng,
    ) -> anyhow::Result<Ran> {
        let (steps, mut course) = (self.loaded.run.steps, self.loaded.course(self.task));
        let look = |step: &Step<'_>| {
            if course.is_due(step.steps) {
                course.observe(step.steps, [step.agents[0].dynamics()]);
            }
            ControlFlow::Continue(())
        };
        let mut environment = self.environment()?;
        let mut observer = (self.stop.clone(), EachStep(look));
        let run = execute(&mut environment, policy, &mut agent, steps, rng, &mut observer)?;
        Ok(Ran { values: run.averages.as_slice().to_vec(), arrival: course.transients().first().copied() })
    }

    fn environment(&self) -> anyhow::Result<Simulator<'_>> {
        Ok(Simulator::new(&*self.loaded.model, self.loaded.specification.clone())?)
    }

    fn entry(&self, method: &'static str, runs: Vec<Ran>, note: String) -> anyhow::Result<Entry> {
        let task = self.task;
        Entry::new(method, task.specification(), task.scales(), self.loaded.run.tolerance, &runs, note)
    }
}

/// Runs that were watched.
pub(super) fn ran<'a>(values: impl Iterator<Item = &'a Values>, arrivals: &[Transient]) -> Vec<Ran> {
    let arrivals = arrivals.iter().copied().map(Some).chain(std::iter::repeat(None));
    values.zip(arrivals).map(|(v, arrival)| Ran { values: v.as_slice().to_vec(), arrival }).collect()
}

/// A run of which only the averages are known.
pub(super) fn unwatched(values: Values) -> Ran {
    Ran { values: values.as_slice().to_vec(), arrival: None }
}
