//! Comparison of A-CRL with other methods: same problem, same steps, same seeds.

use std::ops::ControlFlow;

use acrl::{Agent, EachStep, FinitePolicy, Rng, Simulator, Step, Transient, Values, execute, execute_runs};
use acrl_envs::RunSettings;
use acrl_exact::{FiniteTask, Solution, SolveOptions, solve};
use acrl_learn::baselines::finite::dual_descent::dual_descent;
use acrl_learn::baselines::finite::fixed_weights::{best, square_grid, sweep};
use acrl_learn::baselines::finite::primal_averaging::{Blocks, state_wise, trajectory_weighted, visits};
use acrl_learn::baselines::finite::primal_dual::{PrimalDualConfig, primal_dual};
use acrl_learn::{Method, QLearning, QLearningConfig, Stationary};

use crate::compare_continuous;
use crate::comparison::{Comparison, MethodEntry, MethodRun};
use crate::control::{Control, Progress as _, Stop};
use crate::finite_execution::FiniteExecution;
use crate::input::{FiniteProblem, Input, apply};
use crate::options::ExecutionOptions;
use crate::run::{report, run_exact};
use crate::solve::objective_sign;
use crate::{Context as _, Error, bail};

/// Environment steps of a learner, unless they are given.
const TRAIN_STEPS: u64 = 1_000_000;
/// Short runs say little about methods that satisfy requirements only on average.
pub(super) const STEPS: u64 = RunSettings::STEPS;
/// Runs, where neither the problem nor the command line asks for several.
pub(super) const RUNS: usize = 3;
/// About how many weightings a sweep tries.
const WEIGHTINGS: f64 = 4000.0;

/// Options of [`compare`]. What is absent is as in the problem file, but for at least 3 runs of 200,000 steps.
#[derive(Debug, Clone, Default)]
pub struct CompareOptions {
    /// Steps, runs, step size, epoch and tolerance.
    pub execution: ExecutionOptions,
    /// The seed of all randomness.
    pub seed: Option<u64>,
    /// Environment steps on which each learning method trains.
    pub train_steps: Option<u64>,
    /// These methods only; none: all.
    pub methods: Vec<Method>,
    /// Training runs per method, with consecutive seeds, on continuous problems.
    pub train_seeds: Option<usize>,
}

impl CompareOptions {
    /// Rejects options that do not fit the input.
    pub fn check(&self, name: &str, input: &Input) -> Result<(), Error> {
        if matches!(input, Input::Policy(_)) {
            bail!(
                "{name} is a trained policy, expected a problem or model: compare trains the policies itself"
            );
        }
        if matches!(input, Input::Finite(_)) && self.methods.contains(&Method::PidLagrangian) {
            bail!("there is no pid_lagrangian for finite problems");
        }
        if matches!(input, Input::Finite(_)) && self.train_seeds.is_some() {
            bail!(
                "--train-seeds is for continuous problems: on finite ones each of the --runs trains by itself"
            );
        }
        Ok(())
    }
}

/// Compares A-CRL with other methods. `name` is the problem's name in messages.
///
/// When it is stopped, a continuous problem is compared by what was done until then; a finite one is not.
pub fn compare(
    name: &str,
    input: Input,
    options: &CompareOptions,
    control: &Control,
) -> Result<Comparison, Error> {
    options.check(name, &input)?;
    let mut problem = match input {
        Input::Continuous(problem) => return compare_continuous::compare(*problem, options, control),
        finite => FiniteProblem::of(name, finite)?,
    };
    problem.run.steps = problem.run.steps.max(STEPS);
    problem.run.runs = problem.run.runs.max(RUNS);
    apply(&mut problem.run, &options.execution, options.seed);
    let task = problem.task()?;
    let train_steps = options.train_steps.or(problem.train.total_steps()).unwrap_or(TRAIN_STEPS);
    let contest = Contest {
        problem: &problem,
        task: &task,
        train_steps,
        methods: &options.methods,
        stop: &control.stop,
        tolerances: problem.tolerances(&task),
    };
    control.begin(8);
    contest.hold(control)
}

struct Contest<'a> {
    problem: &'a FiniteProblem,
    task: &'a FiniteTask<'a>,
    train_steps: u64,
    /// Those that are asked for; none: all.
    methods: &'a [Method],
    stop: &'a Stop,
    /// Tolerance of each requirement.
    tolerances: Vec<f64>,
}

/// The training and the runs of a method.
type Run<'a> = &'a dyn Fn() -> Result<Vec<MethodEntry>, Error>;

impl Contest<'_> {
    /// All methods.
    fn hold(&self, control: &Control) -> Result<Comparison, Error> {
        let (problem, task) = (self.problem, self.task);
        let mut methods = Vec::new();
        let silent = Control::silent(self.stop.clone());
        let execution = FiniteExecution::new("the problem", problem, task, None, None, self.stop)?;
        let (exact, history) = run_exact(problem, task, &execution, None, None, &silent)?;
        let good = report(problem, task, &execution, &exact)?.met();
        let averages = ran(exact.iter().map(|run| &run.averages), history.transients());
        let note = execution.reason.clone().unwrap_or_else(|| "the exact pi(lambda)".to_owned());
        methods.push(self.entry("A-CRL (exact)", averages, note)?);
        // The other methods take the epoch that suffices for π(λ) itself.
        let (literal, _) = run_exact(problem, task, &FiniteExecution::policy(), None, None, &silent)?;
        let epoch = literal.iter().map(|run| run.epoch).max().unwrap_or(1);
        self.done(control)?;
        let learners: [(Method, Run<'_>); 5] = [
            (Method::ACrl, &|| Ok(vec![self.learned()?])),
            (Method::FixedWeights, &|| Ok(vec![self.fixed_weights()?])),
            (Method::DualDescent, &|| Ok(vec![self.dual_descent(epoch)?])),
            (Method::PrimalDual, &|| self.primal_dual()),
            (Method::PrimalAveraging, &|| self.primal_averaging(epoch)),
        ];
        for (method, run) in learners {
            if self.methods.is_empty() || self.methods.contains(&method) {
                methods.extend(run()?);
            }
            self.done(control)?;
        }
        let (entry, optimum) = self.optimum()?.unzip();
        methods.extend(entry);
        self.done(control)?;
        Ok(Comparison {
            steps: problem.run.steps,
            runs: problem.run.runs,
            train_seeds: 1,
            optimum: optimum.filter(|_| task.has_objective()),
            best: "the optimum",
            train_steps: self.train_steps,
            tolerance: problem.run.tolerance,
            step_size: problem.run.step_size(),
            seed: problem.run.seed,
            learner: None,
            specification: task.specification().clone(),
            methods,
            good,
            stopped: false,
            end_components: task.structure().end_components.len(),
        })
    }

    /// One more is done.
    fn done(&self, control: &Control) -> Result<(), Error> {
        if self.stop.requested() {
            return Err(Error::Stopped(""));
        }
        control.advance(1);
        Ok(())
    }

    fn learned(&self) -> Result<MethodEntry, Error> {
        let settings = QLearningConfig { total_steps: self.train_steps, ..self.problem.train.q_learning()? };
        let learner = QLearning::new(settings)?;
        let values = execute_runs(self.problem.run.runs, |run| {
            let mut rng = Rng::stream(self.problem.run.seed, run as u64);
            let task = self.environment()?;
            let mut policy = learner.train(&task, &mut rng, &mut self.stop.clone())?;
            self.execute(&mut policy, self.problem.agent(self.task)?, &mut rng)
        })?;
        self.entry("A-CRL (learned)", values, "Q-learning for all weights, learned from samples".to_owned())
    }

    fn fixed_weights(&self) -> Result<MethodEntry, Error> {
        let task = self.task;
        let points = WEIGHTINGS.powf(1.0 / task.len().max(1) as f64).floor().max(2.0) as usize;
        let scaled = square_grid(task.len(), 3.0, points)?;
        let in_users_units = |lambda: acrl::Multipliers| {
            let units = lambda.as_slice().iter().zip(task.scales());
            acrl::Multipliers::new(units.map(|(l, r)| l * task.objective_scale() / r).collect())
        };
        let grid = scaled.into_iter().map(in_users_units).collect::<Result<Vec<_>, _>>()?;
        let tried = grid.len();
        let shares = self.tolerances.iter().zip(task.scales()).map(|(tolerance, scale)| tolerance / scale);
        let weightings = sweep(task, grid, shares.fold(f64::INFINITY, f64::min))?;
        let feasible = weightings.iter().filter(|w| w.feasible).count();
        let chosen = best(task, &weightings).context("no weighting was tried")?;
        let weights = chosen.multipliers.weights(task.has_objective());
        let policy = Stationary::of_rule(task.model(), &acrl_exact::maximise(task, &weights)?.actions)?;
        let values = self.frozen(&policy)?;
        self.entry(
            "fixed weights",
            values,
            format!("the best of {tried} weightings; {feasible} feasible in expectation over end components"),
        )
    }

    fn dual_descent(&self, epoch: u64) -> Result<MethodEntry, Error> {
        let iterates = (self.problem.run.steps / epoch).clamp(1, 2000) as usize;
        let descent = dual_descent(self.task, self.problem.run.step_size(), iterates)?;
        let values = self.frozen(&descent.stopped(self.task, iterates - 1)?)?;
        self.entry("dual descent, stopped", values, format!("the policy after {iterates} updates, kept"))
    }

    fn primal_dual(&self) -> Result<Vec<MethodEntry>, Error> {
        let length = PrimalDualConfig::default().length;
        let settings =
            PrimalDualConfig { rollouts: (self.train_steps / length).max(1), ..PrimalDualConfig::default() };
        let both = execute_runs(self.problem.run.runs, |run| -> Result<(MethodRun, MethodRun), Error> {
            let mut rng = Rng::stream(self.problem.run.seed, run as u64);
            let mut trained = primal_dual(self.task, &settings, &mut rng, &mut self.stop.clone())?;
            let kept = self.execute(&mut trained.last, self.problem.agent(self.task)?, &mut rng)?;
            Ok((unwatched(trained.online), kept))
        })?;
        let (online, stopped) = both.into_iter().unzip();
        let note = |what| format!("{what} {} rollouts of {length} steps", settings.rollouts);
        Ok(vec![
            self.entry("primal-dual, online", online, note("averages over its"))?,
            self.entry("primal-dual, stopped", stopped, note("its last policy, kept after"))?,
        ])
    }

    fn primal_averaging(&self, epoch: u64) -> Result<Vec<MethodEntry>, Error> {
        let (task, run) = (self.task, &self.problem.run);
        let epochs = (run.steps / epoch).max(1);
        let visits = visits(task, run.step_size(), epoch, epochs, &mut Rng::stream(run.seed, 0))?;
        let printed = self.frozen(&state_wise(task.model(), &visits.rules)?)?;
        let weighted = self.frozen(&trajectory_weighted(task.model(), &visits.choices)?)?;
        let blocks = self.frozen(&Blocks::new(task.model(), &visits.rules, Blocks::LENGTH)?)?;
        let note = |what| format!("{what} of {epochs} epochs");
        Ok(vec![
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
    fn optimum(&self) -> Result<Option<(MethodEntry, f64)>, Error> {
        let answer = solve(self.task, &SolveOptions::default(), &mut |_| self.stop.flow())?;
        let Solution::Optimal(optimum) = answer else { return Ok(None) };
        let objective = objective_sign(self.task) * optimum.objective + 0.0;
        let note = "by acrl solve".to_owned();
        Ok(Some((self.entry("exact optimum", vec![unwatched(optimum.values)], note)?, objective)))
    }

    /// The averages of a policy that takes no notice of λ, run by run.
    fn frozen<P: FinitePolicy + Clone + Sync>(&self, policy: &P) -> Result<Vec<MethodRun>, Error> {
        execute_runs(self.problem.run.runs, |run| {
            let mut rng = Rng::stream(self.problem.run.seed, run as u64);
            self.execute(&mut policy.clone(), self.problem.agent(self.task)?, &mut rng)
        })
    }

    fn execute<P: FinitePolicy>(
        &self,
        policy: &mut P,
        mut agent: Agent,
        rng: &mut Rng,
    ) -> Result<MethodRun, Error> {
        let (steps, mut history) = (self.problem.run.steps, self.problem.history(self.task));
        let look = |step: &Step<'_>| {
            if history.is_due(step.steps) {
                history.observe(step.steps, [step.agents[0].dynamics()]);
            }
            ControlFlow::Continue(())
        };
        let mut environment = self.environment()?;
        let mut observer = (self.stop.clone(), EachStep(look));
        let run = execute(&mut environment, policy, &mut agent, steps, rng, &mut observer)?;
        Ok(MethodRun {
            values: run.averages.as_slice().to_vec(),
            transient: history.transients().first().copied(),
        })
    }

    fn environment(&self) -> Result<Simulator<'_>, Error> {
        Ok(Simulator::new(&self.problem.model, self.problem.specification.clone())?)
    }

    fn entry(&self, method: &'static str, runs: Vec<MethodRun>, note: String) -> Result<MethodEntry, Error> {
        let task = self.task;
        MethodEntry::new(method, task.specification(), task.scales(), &self.tolerances, &runs, note)
    }
}

/// Runs that were watched.
pub(super) fn ran<'a>(values: impl Iterator<Item = &'a Values>, transients: &[Transient]) -> Vec<MethodRun> {
    let transients = transients.iter().copied().map(Some).chain(std::iter::repeat(None));
    values
        .zip(transients)
        .map(|(v, transient)| MethodRun { values: v.as_slice().to_vec(), transient })
        .collect()
}

/// A run of which only the averages are known.
pub(super) fn unwatched(values: Values) -> MethodRun {
    MethodRun { values: values.as_slice().to_vec(), transient: None }
}
