//! From the command line's words to a model, a specification and settings.

use std::path::Path;
use std::sync::Arc;

use acrl::{
    Agent, AgentBuilder, EpochLength, FiniteCmdp, History, Objective, Requirement, Specification, VecTask,
};
use acrl_envs::{Continuous, Problem, RunSettings, bundled};
use acrl_exact::{Executable, FiniteTask, drn, npz};
use acrl_files::Container;
use acrl_learn::{PolicyFile, TrainSettings};
use anyhow::{Context as _, bail};
use serde::Serialize;

use crate::answer_file::{AnswerFile, is_answer};
use crate::args::{EpochArg, Execution, Source};

/// A finite problem, ready to work on.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub(crate) model: Arc<FiniteCmdp>,
    pub(crate) specification: Specification,
    pub(crate) run: RunSettings,
    pub(crate) train: TrainSettings,
    /// The answer that came with it, if it was solved before.
    pub(crate) answered: Option<Answered>,
}

/// What a solved policy was solved for, and how it acts.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) specification: Specification,
    pub(crate) answer: Arc<Executable>,
    /// Set when it runs.
    pub(crate) acting: Acting,
}

/// What turns multipliers into behaviour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Acting {
    /// π(λ) by the model.
    Exact,
    /// Of the policies of the mixture the best at λ.
    Policies,
    /// The mixture, by the clock.
    Mixture,
}

/// A continuous problem.
#[derive(Debug)]
pub struct ContinuousProblem {
    /// The problem file.
    pub(crate) text: String,
    pub(crate) environment: Continuous,
    pub(crate) specification: Specification,
    pub(crate) run: RunSettings,
    pub(crate) train: TrainSettings,
}

/// A trained policy and the problem it was trained on.
#[derive(Debug)]
pub struct PolicyProblem {
    pub(crate) problem: ContinuousProblem,
    pub(crate) file: PolicyFile,
}

/// What there is to work on.
#[derive(Debug)]
pub enum Input {
    /// A finite problem or model.
    Finite(Box<Loaded>),
    /// A continuous problem.
    Continuous(Box<ContinuousProblem>),
    /// A trained policy.
    Policy(Box<PolicyProblem>),
}

impl Input {
    /// Reads what the command line names and applies its objective and requirements.
    pub(crate) fn open(source: &Source) -> anyhow::Result<Self> {
        let mut input = Self::read(&source.input)?;
        input.ask(&source.input, source.objective(), &source.require)?;
        if let Some(rewards) = input.asks_nothing() {
            bail!(
                "{}: nothing to achieve: name an objective with --maximize or --minimize, or a requirement \
                 with --require; its rewards are {}",
                source.input,
                names(rewards)
            );
        }
        Ok(input)
    }

    /// Takes another objective, if one is given; requirements replace those on the same reward and side, or are added. `name`
    /// is what messages call it.
    pub fn ask(
        &mut self,
        name: &str,
        objective: Option<Objective>,
        requirements: &[Requirement],
    ) -> anyhow::Result<()> {
        let specification = match self {
            Self::Finite(loaded) => &mut loaded.specification,
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

    /// The rewards there are, if nothing is asked of them.
    pub fn asks_nothing(&self) -> Option<&[String]> {
        let (specification, rewards) = match self {
            Self::Finite(loaded) => (&loaded.specification, loaded.model.reward_names()),
            Self::Continuous(problem) => (&problem.specification, problem.environment.batch().reward_names()),
            Self::Policy(_) => return None,
        };
        (specification.objective().is_none() && specification.requirements().is_empty()).then_some(rewards)
    }

    /// Reads a problem, a model or a policy by the path of its file, or a bundled problem by its name.
    pub fn read(input: &str) -> anyhow::Result<Self> {
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
    fn from_problem(text: String, path: &Path, embedded: bool) -> anyhow::Result<Self> {
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
        Ok(Self::Finite(Box::new(Loaded { model, specification, run, train, answered: None })))
    }

    fn from_policy(path: &Path) -> anyhow::Result<Self> {
        let container = Container::load(path)?;
        if is_answer(&container) {
            let file = AnswerFile::from_container(container).with_context(|| path.display().to_string())?;
            let mut loaded = match Self::from(file.model) {
                Self::Finite(loaded) => loaded,
                _ => bail!("{}: its model is not finite", path.display()),
            };
            loaded.specification = file.specification.clone();
            let answer = Arc::new(file.answer);
            loaded.answered =
                Some(Answered { specification: file.specification, answer, acting: Acting::Policies });
            return Ok(Self::Finite(loaded));
        }
        let file = PolicyFile::from_container(container).with_context(|| path.display().to_string())?;
        let embedded = || format!("{}: the problem that it embeds", path.display());
        let mut problem = match Self::from_problem(file.problem.clone(), path, true).with_context(embedded)? {
            Self::Continuous(problem) => *problem,
            _ => bail!("{}: its problem is finite, expected a continuous one", path.display()),
        };
        problem.specification = file.specification.clone();
        let task = VecTask::new(problem.environment.batch(), problem.specification.clone())
            .with_context(|| path.display().to_string())?;
        file.check(&task).with_context(|| path.display().to_string())?;
        Ok(Self::Policy(Box::new(PolicyProblem { problem, file })))
    }
}

impl From<Arc<FiniteCmdp>> for Input {
    /// A model of which nothing is asked yet. It may be shared with others.
    fn from(model: Arc<FiniteCmdp>) -> Self {
        Self::Finite(Box::new(Loaded {
            model,
            specification: Specification::default(),
            run: RunSettings::default(),
            train: TrainSettings::of(false),
            answered: None,
        }))
    }
}

/// The specification of a policy with other bounds: other things cannot be had without training.
fn rebound(
    policy: &PolicyProblem,
    name: &str,
    objective: Option<Objective>,
    requirements: &[Requirement],
) -> anyhow::Result<Specification> {
    let trained = &policy.problem.specification;
    if let Some(objective) = objective.filter(|o| trained.objective() != Some(o)) {
        bail!(
            "{name} was trained {}, not with '{}' as objective: train it again for that",
            trained.objective().map_or("without an objective".to_owned(), |o| format!("for '{}'", o.reward)),
            objective.reward
        );
    }
    let mut specification = trained.clone();
    for requirement in requirements {
        let next = specification.require(requirement.clone())?;
        if next.requirements().len() != specification.requirements().len() {
            let known: Vec<String> =
                trained.requirements().iter().map(std::string::ToString::to_string).collect();
            bail!(
                "{name} was not trained for {requirement}: bounds can be changed without training, but not which \
                 rewards are bounded, and on which side; it was trained for {}",
                known.join(", ")
            );
        }
        specification = next;
    }
    Ok(specification)
}

impl Loaded {
    /// Opens a finite problem.
    pub(crate) fn new(source: &Source) -> anyhow::Result<Self> {
        Self::of(&source.input, Input::open(source)?)
    }

    /// The finite problem that an input is.
    pub(crate) fn of(name: &str, input: Input) -> anyhow::Result<Self> {
        match input {
            Input::Finite(loaded) => Ok(*loaded),
            Input::Continuous(_) => bail!(
                "{name} is continuous, expected a finite problem or model; train a policy for it with: acrl train {name} \
                 -o policy.safetensors"
            ),
            Input::Policy(_) => bail!(
                "{name} is a trained policy, expected a finite problem or model; run it with: acrl run {name}"
            ),
        }
    }

    /// Lets the command line override the problem's settings.
    pub(crate) fn apply(&mut self, execution: &Execution, seed: Option<u64>) {
        apply(&mut self.run, execution, seed);
    }

    /// The model with what is required of it.
    pub(crate) fn task(&self) -> anyhow::Result<FiniteTask<'_>> {
        Ok(FiniteTask::new(&self.model, &self.specification)?)
    }

    /// An agent with these settings, each reward in units of its range.
    pub(crate) fn agent(&self, task: &FiniteTask<'_>) -> anyhow::Result<Agent> {
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

    /// The course of runs that has yet to be filled.
    pub(crate) fn course(&self, task: &FiniteTask<'_>) -> History {
        History::new(&self.specification, task.scales(), self.run.tolerance, self.run.steps)
    }

    /// How large each requirement's certified shortfall may be, in the user's units.
    pub(crate) fn tolerances(&self, task: &FiniteTask<'_>) -> Vec<f64> {
        task.scales().iter().map(|range| self.run.tolerance * range).collect()
    }
}

/// Lets the command line override the settings of a problem.
pub(crate) fn apply(run: &mut RunSettings, execution: &Execution, seed: Option<u64>) {
    run.steps = execution.steps.unwrap_or(run.steps);
    run.runs = execution.runs.map_or(run.runs, |runs| runs as usize);
    run.step_size = execution.step_size.or(run.step_size);
    run.tolerance = execution.tolerance.unwrap_or(run.tolerance);
    run.seed = seed.unwrap_or(run.seed);
    run.epoch = match (execution.epoch, run.epoch) {
        (Some(EpochArg::Fixed(steps)), _) => Some(EpochLength::Fixed(steps)),
        (Some(EpochArg::Auto), Some(EpochLength::Fixed(steps))) => Some(EpochLength::Auto(steps)),
        (_, given) => given,
    };
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..at].iter().filter(|b| **b == b'\n').count();
        anyhow::anyhow!("{}: line {line}: the file is not text in UTF-8", path.display())
    })
}

/// Reads a finite model in Storm's explicit format (.drn) or as arrays of NumPy and SciPy (.npz).
pub fn read_model(path: &Path) -> anyhow::Result<FiniteCmdp> {
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
