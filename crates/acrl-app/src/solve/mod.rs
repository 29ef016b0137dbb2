//! Exact solving: the optimum, the price of each requirement, or a conflict.

mod json;
mod page;
mod rounds;
mod table;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use acrl::{Event, FiniteCmdp, Named, Specification, Values};
use acrl_exact::{
    AlmostSure, Executable, FiniteTask, Optimum, Solution, SolveError, almost_sure_observed,
    solve as solve_task,
};

use crate::comparison::named_values;
use crate::control::Control;
use crate::input::{FiniteProblem, Input};
use crate::solution_file::SolutionFile;
use crate::{Context as _, Error, bail};

pub use self::page::ANALYSIS_STOPPED;
pub(crate) use self::page::solver_facts;
pub(crate) use self::rounds::Rounds;
pub use self::rounds::SolveSettings;
pub use self::table::{PolicyRow, PolicyTable};

/// The exact solution of a finite problem. Serialises as the object of `acrl solve --json`.
#[derive(Debug)]
pub struct SolveResult {
    /// The model.
    pub model: Arc<FiniteCmdp>,
    /// The objective and the requirements.
    pub specification: Specification,
    /// The solution, in the signs of the paper.
    pub answer: Solution,
    /// The optimum with probability 1, where there are several end components.
    pub almost_sure: Option<AlmostSure>,
    /// What each end component has of the expected optimum, where there are several.
    shares: Vec<Share>,
    /// True if nothing stopped it, and the gap was reached.
    pub complete: bool,
    communicating: bool,
    /// The number of end components.
    pub end_components: usize,
    /// The range of each requirement's reward over the whole model.
    ranges: Vec<f64>,
    seconds: f64,
}

/// What one end component has of the expected optimum.
#[derive(Debug)]
struct Share {
    states: usize,
    /// Its first state.
    first: String,
    /// The probability to end there.
    mass: f64,
    /// V₀ … V_m there; none where nothing ends.
    values: Option<Values>,
}

/// Solves a finite problem until the certified bounds are close enough, or until it is stopped: what is proved by then is a
/// result too. `name` is the input's name in messages; `observer` receives [`Event::Round`] after every round.
pub fn solve(
    name: &str,
    input: Input,
    settings: &SolveSettings,
    control: &Control,
    observer: &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
) -> Result<SolveResult, Error> {
    let problem = FiniteProblem::of(name, input)?;
    let task = problem.task()?;
    let options = settings.options();
    let mut rounds = Rounds::new(settings, objective_sign(&task), control, observer);
    let answer = solve_task(&task, &options, &mut |round| rounds.look("", round));
    let answer = answer.map_err(|error| rounds.error(error))?;
    let communicating = task.structure().is_communicating();
    let (mut almost_sure, mut shares) = (None, Vec::new());
    if let (Solution::Optimal(optimum), false) = (&answer, communicating) {
        shares = shares_of(&task, optimum)?;
        if !control.stop.requested() {
            let found = almost_sure_observed(&task, &options, &mut |round| rounds.look("parts, ", round));
            almost_sure = match found {
                Err(SolveError::Stopped) => None,
                found => Some(found?),
            };
        }
    }
    let end_components = task.structure().end_components.len();
    let ranges = task.in_model_units().scales().to_vec();
    let specification = task.specification().clone();
    let reached = match &answer {
        Solution::Optimal(optimum) => optimum.reached,
        Solution::Infeasible(_) => true,
    };
    let (complete, seconds) = (reached && !control.stop.requested(), rounds.start.elapsed().as_secs_f64());
    let model = problem.model;
    Ok(SolveResult {
        model,
        specification,
        answer,
        almost_sure,
        shares,
        complete,
        communicating,
        end_components,
        ranges,
        seconds,
    })
}

/// Where the policies of the mixture end.
fn shares_of(task: &FiniteTask<'_>, optimum: &Optimum) -> Result<Vec<Share>, Error> {
    let model = task.model();
    let mut occupancy = vec![0.0; model.choice_count()];
    for policy in &optimum.mixture {
        let own = task.occupancy(&policy.actions)?;
        occupancy.iter_mut().zip(own).for_each(|(all, own)| *all += policy.weight * own);
    }
    let share = |states: &Vec<usize>| -> Result<Share, Error> {
        let choices = || states.iter().flat_map(|&s| model.choices(s));
        let mass: f64 = choices().map(|c| occupancy[c]).sum();
        let value = |i: usize| choices().map(|c| occupancy[c] * task.rewards(c)[i]).sum::<f64>() / mass;
        let values = (mass > 1e-9).then(|| Values::new((0..=task.len()).map(value).collect())).transpose()?;
        let mass = if values.is_some() { mass } else { 0.0 };
        Ok(Share { states: states.len(), first: model.state_name(states[0]).into_owned(), mass, values })
    };
    task.structure().end_components.iter().map(share).collect()
}

impl SolveResult {
    /// True if the requirements can be met.
    pub fn feasible(&self) -> bool {
        matches!(self.answer, Solution::Optimal(_))
    }

    /// Writes the solution so that `acrl run` can execute it.
    pub fn save_policy(&self, path: &Path) -> Result<(), Error> {
        let none = || format!("no policy is written to {}", path.display());
        self.solution_file().with_context(none)?.save(path)
    }

    /// The solution in the form that is executed, with its model.
    pub fn solution_file(&self) -> Result<SolutionFile, Error> {
        let Solution::Optimal(optimum) = &self.answer else {
            bail!("the requirements cannot be met");
        };
        let task = FiniteTask::new(&self.model, &self.specification)?;
        let answer = match &self.almost_sure {
            None if self.communicating => Executable::new(&task, optimum),
            Some(sure) => Executable::almost_sure(&task, sure)
                .context("on no policy's paths are the requirements met for sure, and a run is one path")?,
            None => bail!("stopped before the optimum with probability 1 was known"),
        };
        let (model, specification) = (self.model.clone(), self.specification.clone());
        Ok(SolutionFile { model, specification, answer })
    }

    /// The sign that turns r₀ back into the user's objective.
    pub fn sign(&self) -> f64 {
        self.specification.objective().map_or(1.0, acrl::Objective::sign)
    }

    /// Values by name, in the user's signs.
    pub(crate) fn values(&self, values: &Values) -> Named<f64> {
        named_values(&self.specification, values)
    }

    fn named<T: Copy>(&self, values: &[T]) -> Named<T> {
        self.specification.names().into_iter().zip(values.iter().copied()).collect()
    }
}

/// The sign that turns r₀ back into the user's objective.
pub(crate) fn objective_sign(task: &FiniteTask<'_>) -> f64 {
    task.specification().objective().map_or(1.0, acrl::Objective::sign)
}
