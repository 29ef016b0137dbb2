//! Problems, models and policies, read from files.

use std::path::Path;
use std::sync::Arc;

use acrl::{
    Agent, AgentBuilder, EpochLength, FiniteCmdp, History, Objective, Requirement, Specification, VecTask,
    tolerance,
};
use acrl_envs::{Continuous, Problem, RunSettings, bundled};
use acrl_exact::{Executable, FiniteTask, drn, maximise, npz};
use acrl_files::Container;
use acrl_learn::{PolicyFile, ReboundError, TrainSettings};

use crate::options::{EpochOption, ExecutionOptions};
use crate::solution_file::SolutionFile;
use crate::{Context as _, Error, bail};

/// A finite model with its specification and settings.
#[derive(Debug, Clone)]
pub struct FiniteProblem {
    pub(crate) model: Arc<FiniteCmdp>,
    pub(crate) specification: Specification,
    pub(crate) run: RunSettings,
    pub(crate) train: TrainSettings,
    /// The solution, if it was read from a policy file of `acrl solve`.
    pub(crate) solved: Option<SolvedPolicy>,
}

/// A solved policy, and the specification it was solved for.
#[derive(Debug, Clone)]
pub(crate) struct SolvedPolicy {
    pub(crate) specification: Specification,
    pub(crate) answer: Arc<Executable>,
}

/// A continuous problem.
#[derive(Debug, Clone)]
pub struct ContinuousProblem {
    /// The problem file.
    pub(crate) text: String,
    pub(crate) environment: Continuous,
    pub(crate) specification: Specification,
    pub(crate) run: RunSettings,
    pub(crate) train: TrainSettings,
}

/// A trained policy and the problem it was trained on.
#[derive(Debug, Clone)]
pub struct PolicyProblem {
    pub(crate) problem: ContinuousProblem,
    pub(crate) file: PolicyFile,
}

/// An input of the use cases.
#[derive(Debug)]
pub enum Input {
    /// A finite problem or model.
    Finite(Box<FiniteProblem>),
    /// A continuous problem.
    Continuous(Box<ContinuousProblem>),
    /// A trained policy.
    Policy(Box<PolicyProblem>),
}

impl Input {
    /// Reads an input and sets its objective and requirements, of which there must be some.
    pub fn open(
        name: &str,
        objective: Option<Objective>,
        requirements: &[Requirement],
    ) -> Result<Self, Error> {
        let mut input = Self::read(name)?;
        input.specify(name, objective, requirements)?;
        if let Some(rewards) = input.unspecified() {
            bail!(
                "{name}: nothing to achieve: name an objective with --maximize or --minimize, or a requirement \
                 with --require; its rewards are {}",
                names(rewards)
            );
        }
        Ok(input)
    }

    /// Sets the objective, if one is given, and requirements, which replace those on the same reward and side or are
    /// added. `name` is the input's name in messages.
    pub fn specify(
        &mut self,
        name: &str,
        objective: Option<Objective>,
        requirements: &[Requirement],
    ) -> Result<(), Error> {
        let specification = match self {
            Self::Finite(problem) => &mut problem.specification,
            Self::Continuous(problem) => &mut problem.specification,
            Self::Policy(policy) => {
                policy.problem.specification = rebound(policy, name, objective, requirements)?;
                return Ok(());
            }
        };
        if objective.is_some() {
            *specification = specification.with_objective(objective);
        }
        for requirement in requirements {
            *specification = specification.require(requirement.clone())?;
        }
        Ok(())
    }

    /// The names of the rewards, if there is neither an objective nor a requirement.
    pub fn unspecified(&self) -> Option<&[String]> {
        let (specification, rewards) = match self {
            Self::Finite(problem) => (&problem.specification, problem.model.reward_names()),
            Self::Continuous(problem) => (&problem.specification, problem.environment.batch().reward_names()),
            Self::Policy(_) => return None,
        };
        (specification.objective().is_none() && specification.requirements().is_empty()).then_some(rewards)
    }

    /// Reads a problem, a model or a policy by the path of its file, or a bundled problem by its name.
    pub fn read(input: &str) -> Result<Self, Error> {
        const EXPECTED: &str =
            "expected a problem (.toml), a model (.drn or .npz) or a trained policy (.safetensors)";
        let path = Path::new(input);
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if let Some(problem) = bundled().iter().find(|b| b.name == input).filter(|_| !path.exists()) {
            return Self::from_problem(problem.text.to_owned(), path, false);
        }
        match extension {
            "toml" => Self::from_problem(read_text(path)?, path, false),
            "drn" | "npz" => Ok(Arc::new(read_model(path)?).into()),
            "safetensors" => Self::from_policy(path),
            _ if path.is_dir() => bail!("{input} is a folder, {EXPECTED}"),
            "" if path.exists() => bail!("{input}: the file's name has no ending: {EXPECTED}"),
            _ if path.exists() => bail!("{input}: unknown kind of file '.{extension}': {EXPECTED}"),
            _ => bail!(
                "{input}: no such file, and no bundled problem of that name; the bundled problems are {}",
                names(&bundled().iter().map(|b| b.name.to_owned()).collect::<Vec<_>>())
            ),
        }
    }

    /// A problem file, or the one that a policy embeds, whose `[train]` is of no use any more.
    pub(crate) fn from_problem(text: String, path: &Path, embedded: bool) -> Result<Self, Error> {
        let problem = Problem::parse(&text).with_context(|| path.display().to_string())?;
        let Problem { source, specification, run, train, .. } = problem;
        let continuous = matches!(source, acrl_envs::Source::Continuous(_));
        let train = match embedded {
            true => TrainSettings::of(continuous),
            false => TrainSettings::read(&train, continuous).with_context(|| path.display().to_string())?,
        };
        let model = match source {
            acrl_envs::Source::Model(model) => Arc::new(model),
            acrl_envs::Source::File(file) => read_model(&path.parent().unwrap_or(Path::new("")).join(file))
                .map(Arc::new)
                .with_context(|| path.display().to_string())?,
            acrl_envs::Source::Continuous(environment) => {
                let problem = ContinuousProblem { text, environment, specification, run, train };
                return Ok(Self::Continuous(Box::new(problem)));
            }
        };
        Ok(Self::Finite(Box::new(FiniteProblem { model, specification, run, train, solved: None })))
    }

    fn from_policy(path: &Path) -> Result<Self, Error> {
        let container = Container::load(path)?;
        if SolutionFile::is_in(&container) {
            let file = SolutionFile::from_container(container).with_context(|| path.display().to_string())?;
            let mut problem = match Self::from(file.model) {
                Self::Finite(problem) => problem,
                _ => bail!("{}: its model is not finite", path.display()),
            };
            problem.specification = file.specification.clone();
            let answer = Arc::new(file.answer);
            problem.solved = Some(SolvedPolicy { specification: file.specification, answer });
            return Ok(Self::Finite(problem));
        }
        Ok(Self::Policy(Box::new(PolicyProblem::from_container(container, path)?)))
    }
}

impl PolicyProblem {
    /// Reads the container of a trained policy, and checks that it fits the problem that it embeds. `path` names it in
    /// messages.
    pub fn from_container(container: Container, path: &Path) -> Result<Self, Error> {
        let file = PolicyFile::from_container(container).with_context(|| path.display().to_string())?;
        let embedded = || format!("{}: the problem that it embeds", path.display());
        let mut problem =
            match Input::from_problem(file.problem.clone(), path, true).with_context(embedded)? {
                Input::Continuous(problem) => *problem,
                _ => bail!("{}: its problem is finite, expected a continuous one", path.display()),
            };
        problem.specification = file.specification.clone();
        let policy = Self { problem, file };
        let task = policy.task(policy.file.specification.clone());
        let task = task.with_context(|| path.display().to_string())?;
        policy.file.check(&task).with_context(|| path.display().to_string())?;
        Ok(policy)
    }

    /// The content of the policy file.
    pub fn file(&self) -> &PolicyFile {
        &self.file
    }

    /// The environment of the training.
    pub fn environment(&self) -> &Continuous {
        &self.problem.environment
    }

    /// Its task with a specification.
    pub fn task(&self, specification: Specification) -> Result<VecTask<'_>, acrl::Error> {
        VecTask::new(self.problem.environment.batch(), specification)
    }
}

impl From<Arc<FiniteCmdp>> for Input {
    /// A model without a specification.
    fn from(model: Arc<FiniteCmdp>) -> Self {
        Self::Finite(Box::new(FiniteProblem {
            model,
            specification: Specification::default(),
            run: RunSettings::default(),
            train: TrainSettings::of(false),
            solved: None,
        }))
    }
}

/// The specification of a policy with other bounds; other changes need training.
pub(crate) fn rebound(
    policy: &PolicyProblem,
    name: &str,
    objective: Option<Objective>,
    requirements: &[Requirement],
) -> Result<Specification, Error> {
    let trained = &policy.problem.specification;
    if let Some(objective) = objective.filter(|o| trained.objective() != Some(o)) {
        bail!(
            "{name} was trained {}, not with '{}' as objective: train it again for that",
            trained.objective().map_or("without an objective".to_owned(), |o| format!("for '{}'", o.reward)),
            objective.reward
        );
    }
    policy.file.rebound(requirements).map_err(|error| match error {
        ReboundError::Invalid(error) => error.into(),
        untrained @ ReboundError::Untrained { .. } => Error::Input(format!("{name} {untrained}")),
    })
}

impl FiniteProblem {
    /// The finite problem that an input is.
    pub(crate) fn of(name: &str, input: Input) -> Result<Self, Error> {
        match input {
            Input::Finite(problem) => Ok(*problem),
            Input::Continuous(_) => bail!(
                "{name} is continuous, expected a finite problem or model; train a policy for it with: acrl train {name} \
                 -o policy.safetensors"
            ),
            Input::Policy(_) => bail!(
                "{name} is a trained policy, expected a finite problem or model; run it with: acrl run {name}"
            ),
        }
    }

    /// The model with what is required of it.
    pub(crate) fn task(&self) -> Result<FiniteTask<'_>, Error> {
        Ok(FiniteTask::new(&self.model, &self.specification)?)
    }

    /// An agent with these settings, each reward in units of its range.
    pub(crate) fn agent(&self, task: &FiniteTask<'_>) -> Result<Agent, Error> {
        Ok(self.agent_builder(task).build()?)
    }

    /// Its configuration.
    pub(crate) fn agent_builder(&self, task: &FiniteTask<'_>) -> AgentBuilder {
        Agent::builder(self.specification.requirements().to_vec())
            .step_size(self.run.step_size())
            .epoch(self.run.epoch_length())
            .scales(task.objective_scale(), task.scales())
            .objective(task.has_objective())
    }

    /// The history of runs that has yet to be filled.
    pub(crate) fn history(&self, task: &FiniteTask<'_>) -> History {
        History::new(&self.specification, task.scales(), self.tolerances(task), self.run.steps)
    }

    /// How large each requirement's certified shortfall may be, in the user's units. In a model that is not too large
    /// the worst average that a policy can have is computed.
    pub(crate) fn tolerances(&self, task: &FiniteTask<'_>) -> Vec<f64> {
        let computes = task.model().choice_count() <= MOST_CHOICES_FOR_WORST;
        let worst = |i: usize| {
            let mut weights = vec![0.0; task.len() + 1];
            weights[i + 1] = -1.0;
            let worst = maximise(task, &weights).ok().filter(|_| computes)?;
            Some(worst.values(task).ok()?.requirements()[i])
        };
        let bounds = task.bounds().iter().zip(task.scales()).enumerate();
        bounds.map(|(i, (bound, range))| tolerance(self.run.tolerance, *bound, *range, worst(i))).collect()
    }
}

/// Largest model, in choices, in which the worst average of each requirement is computed.
const MOST_CHOICES_FOR_WORST: usize = 20_000;

/// Lets the command line override the settings of a problem.
pub(crate) fn apply(run: &mut RunSettings, execution: &ExecutionOptions, seed: Option<u64>) {
    run.steps = execution.steps.unwrap_or(run.steps);
    run.runs = execution.runs.map_or(run.runs, |runs| runs as usize);
    run.step_size = execution.step_size.or(run.step_size);
    run.tolerance = execution.tolerance.unwrap_or(run.tolerance);
    run.seed = seed.unwrap_or(run.seed);
    run.epoch = match (execution.epoch, run.epoch) {
        (Some(EpochOption::Fixed(steps)), _) => Some(EpochLength::Fixed(steps)),
        (Some(EpochOption::Auto), Some(EpochLength::Fixed(steps))) => Some(EpochLength::Auto(steps)),
        (_, given) => given,
    };
}

fn read_text(path: &Path) -> Result<String, Error> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..at].iter().filter(|b| **b == b'\n').count();
        Error::Input(format!("{}: line {line}: the file is not text in UTF-8", path.display()))
    })
}

/// Reads a finite model in Storm's explicit format (.drn) or as arrays of NumPy and SciPy (.npz).
pub fn read_model(path: &Path) -> Result<FiniteCmdp, Error> {
    let cannot = || format!("cannot read {}", path.display());
    let place = || path.display().to_string();
    match path.extension().and_then(|e| e.to_str()) {
        Some("drn") => drn::read(&std::fs::read(path).with_context(cannot)?).with_context(place),
        Some("npz") => npz::read(std::fs::File::open(path).with_context(cannot)?).with_context(place),
        _ => bail!(
            "{}: unknown kind of model file: expected Storm's explicit format (.drn) or arrays of NumPy (.npz)",
            path.display()
        ),
    }
}

fn names(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
