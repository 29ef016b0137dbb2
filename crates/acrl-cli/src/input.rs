//! From the command line's words to a model, a specification and settings.

use std::path::Path;

use acrl::{DualDynamics, EpochLength, FiniteCmdp, Specification};
use acrl_envs::{Problem, RunSettings, TrainSettings, bundled};
use acrl_exact::{FiniteTask, drn};
use anyhow::{Context as _, bail};

use crate::args::{EpochArg, Execution, Global, Source};

/// A finite problem, ready to work on.
pub(crate) struct Loaded {
    pub(crate) model: FiniteCmdp,
    pub(crate) specification: Specification,
    pub(crate) run: RunSettings,
    pub(crate) train: TrainSettings,
}

impl Loaded {
    /// Reads what the command line names and applies its objective and requirements.
    pub(crate) fn new(source: &Source) -> anyhow::Result<Self> {
        let mut loaded = Self::read(&source.input)?;
        if let Some(objective) = source.objective() {
            loaded.specification = loaded.specification.with_objective(Some(objective));
        }
        for requirement in &source.require {
            loaded.specification = loaded.specification.require(requirement.clone())?;
        }
        if loaded.specification.objective().is_none() && loaded.specification.requirements().is_empty() {
            bail!(
                "{}: nothing to achieve: name an objective with --maximize or --minimize, or a requirement \
                 with --require; its rewards are {}",
                source.input,
                names(loaded.model.reward_names())
            );
        }
        Ok(loaded)
    }

    fn read(input: &str) -> anyhow::Result<Self> {
        let path = Path::new(input);
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        if let Some(problem) = bundled().iter().find(|b| b.name == input).filter(|_| !path.exists()) {
            return Self::from_problem(problem.text, path);
        }
        match extension {
            "toml" => Self::from_problem(&read_text(path)?, path),
            "drn" => Ok(Self {
                model: read_model(path)?,
                specification: Specification::default(),
                run: RunSettings::default(),
                train: TrainSettings::default(),
            }),
            _ if path.is_dir() => bail!("{input} is a folder, expected a problem (.toml) or a model (.drn)"),
            "" if path.exists() => {
                bail!("{input}: the file's name has no ending: expected a problem (.toml) or a model (.drn)")
            }
            _ if path.exists() => bail!(
                "{input}: unknown kind of file '.{extension}': expected a problem (.toml) or a model (.drn)"
            ),
            _ => bail!(
                "{input}: no such file, and no bundled problem of that name; the bundled problems are {}",
                names(&bundled().iter().map(|b| b.name.to_owned()).collect::<Vec<_>>())
            ),
        }
    }

    fn from_problem(text: &str, path: &Path) -> anyhow::Result<Self> {
        let problem = Problem::parse(text).with_context(|| path.display().to_string())?;
        let model = match problem.source {
            acrl_envs::Source::Model(model) => model,
            acrl_envs::Source::File(file) => read_model(&path.parent().unwrap_or(Path::new("")).join(file))
                .with_context(|| path.display().to_string())?,
        };
        Ok(Self { model, specification: problem.specification, run: problem.run, train: problem.train })
    }

    /// Lets the command line override the problem's settings.
    pub(crate) fn apply(&mut self, execution: &Execution, global: &Global) {
        let run = &mut self.run;
        run.steps = execution.steps.unwrap_or(run.steps);
        run.runs = execution.runs.map_or(run.runs, |runs| runs as usize);
        run.step_size = execution.step_size.unwrap_or(run.step_size);
        run.tolerance = execution.tolerance.unwrap_or(run.tolerance);
        run.seed = global.seed.unwrap_or(run.seed);
        match execution.epoch {
            Some(EpochArg::Fixed(steps)) => run.epoch = acrl_envs::EpochSetting::Fixed(steps),
            Some(EpochArg::Auto) => run.epoch = acrl_envs::EpochSetting::Auto,
            None => {}
        }
    }

    /// The model with what is required of it.
    pub(crate) fn task(&self) -> anyhow::Result<FiniteTask<'_>> {
        Ok(FiniteTask::new(&self.model, &self.specification)?)
    }

    /// Dual dynamics as the settings say, each reward in units of its range.
    pub(crate) fn dynamics(&self, task: &FiniteTask<'_>) -> anyhow::Result<DualDynamics> {
        self.dynamics_with(task, self.run.epoch_length())
    }

    /// The same with another epoch.
    pub(crate) fn dynamics_with(
        &self,
        task: &FiniteTask<'_>,
        epoch: EpochLength,
    ) -> anyhow::Result<DualDynamics> {
        let requirements = self.specification.requirements().to_vec();
        let dynamics = DualDynamics::new(requirements, self.run.step_size, epoch)?;
        Ok(dynamics.with_scales(task.objective_scale(), task.scales())?)
    }

    /// How large each requirement's certified shortfall may be, in the user's units.
    pub(crate) fn tolerances(&self, task: &FiniteTask<'_>) -> Vec<f64> {
        task.scales().iter().map(|range| self.run.tolerance * range).collect()
    }
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..at].iter().filter(|b| **b == b'\n').count();
        anyhow::anyhow!("{}: line {line}: the file is not text in UTF-8", path.display())
    })
}

fn read_model(path: &Path) -> anyhow::Result<FiniteCmdp> {
    if path.extension().is_none_or(|e| e != "drn") {
        bail!("{}: unknown kind of model file: expected Storm's explicit format (.drn)", path.display());
    }
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    drn::read(&bytes).with_context(|| path.display().to_string())
}

fn names(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
