//! `acrl solve`: the optimum, the price of each requirement, or what is in conflict.

mod json;
mod page;
mod rounds;
mod text;

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use acrl::{Event, FiniteCmdp, Named, Specification, Values};
use acrl_exact::{
    AlmostSure, Executable, FiniteTask, Optimum, Solution, SolveError, almost_sure_observed,
    solve as solve_task,
};
use anyhow::{anyhow, bail};

use self::text::{STOPPED, print_conflict, print_optimum};
use super::sweep::sweep_finite;
use crate::Verdict;
use crate::answer_file::AnswerFile;
use crate::args::SolveArgs;
use crate::comparison::named_values;
use crate::folder;
use crate::input::{Input, Loaded};
use crate::log::Log;
use crate::output::{Output, figure};
use crate::watch::{Watch, listen};

pub(super) use self::rounds::Rounds;
pub use self::rounds::SolveSettings;

/// Solves and prints.
pub(crate) fn verb(args: &SolveArgs, output: &mut Output) -> anyhow::Result<Verdict> {
    let loaded = Loaded::new(&args.source)?;
    let watch = Watch { stop: listen(), bar: output.spinner("solving") };
    let mut log = args.log.as_deref().map(|path| Log::create(path, watch.stop.clone())).transpose()?;
    if let Some(folder) = &args.folder {
        folder::prepare(folder)?;
    }
    let settings = SolveSettings { gap: args.gap, time_limit: args.time_limit };
    let mut note = |round: &Event<'_>| {
        if let Some(log) = &mut log {
            log.write(round);
        }
        ControlFlow::Continue(())
    };
    if let Some(asked) = &args.sweep {
        let swept = sweep_finite(loaded, asked, &settings, &watch, &mut note)?;
        watch.bar.finish_and_clear();
        log.map_or(Ok(()), |mut log| log.finish())?;
        return swept.tell(&args.source.input, args.folder.as_deref(), output);
    }
    let solved = solve_finite(loaded, &settings, &watch, &mut note)?;
    watch.bar.finish_and_clear();
    log.map_or(Ok(()), |mut log| log.finish())?;
    if let Solution::Optimal(optimum) = &solved.answer
        && !solved.complete
    {
        if !optimum.reached {
            let (gap, wanted) = (figure(optimum.gap, 3), figure(args.gap, 3));
            output.warn(&format!("stopped at a gap of {gap}, above the {wanted} asked for"));
        }
        if solved.parts > 1 && solved.sure.is_none() {
            output.warn("stopped before it was known what can be had on almost every path");
        }
    }
    if let Solution::Infeasible(conflict) = &solved.answer
        && !conflict.complete
    {
        output.warn(STOPPED);
    }
    if let Some(folder) = &args.folder {
        solved.page(&args.source.input, output.command()).write(folder)?;
    }
    match &args.policy {
        Some(path) if solved.feasible() => solved.save_policy(path)?,
        Some(path) => output.warn(&format!("there is no policy to write to {}", path.display())),
        None => {}
    }
    match &solved.answer {
        _ if output.is_json() => output.object(&solved)?,
        Solution::Optimal(optimum) => {
            print_optimum(&solved, optimum, output);
            if let Some(folder) = &args.folder {
                output.line(folder::page_line(folder));
            }
            output.hint(match &args.policy {
                Some(path) => format!("Try next: acrl run {0}, or acrl run {0} --mixture.", path.display()),
                None => format!(
                    "Try next: acrl run {0}, to meet the requirements while running; acrl check {0}, for the theory.",
                    args.source.input
                ),
            });
        }
        Solution::Infeasible(conflict) => print_conflict(&solved, conflict, output),
    }
    Ok(Verdict::of(solved.feasible()))
}

/// The exact answer to a finite problem. Serialises as the object of `acrl solve --json`.
#[derive(Debug)]
pub struct SolveResult {
    model: Arc<FiniteCmdp>,
    specification: Specification,
    answer: Solution,
    /// Where there are several end components.
    sure: Option<AlmostSure>,
    /// What each end component has of the expected optimum, where there are several.
    shares: Vec<Share>,
    /// Whether nothing stopped it, and the gap was reached.
    complete: bool,
    communicating: bool,
    /// The number of end components.
    parts: usize,
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
/// result too. `name` is what messages call it; `observer` sees [`Event::Round`] after every round.
pub fn solve(
    name: &str,
    input: Input,
    settings: &SolveSettings,
    watch: &Watch,
    observer: &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
) -> anyhow::Result<SolveResult> {
    solve_finite(Loaded::of(name, input)?, settings, watch, observer)
}

fn solve_finite(
    loaded: Loaded,
    settings: &SolveSettings,
    watch: &Watch,
    observer: &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
) -> anyhow::Result<SolveResult> {
    let task = loaded.task()?;
    let options = settings.options();
    let mut rounds = Rounds::new(settings, objective_sign(&task), watch, observer);
    let answer = solve_task(&task, &options, &mut |round| rounds.look("", round));
    let answer = answer.map_err(|error| rounds.error(error))?;
    let communicating = task.structure().is_communicating();
    let (mut sure, mut shares) = (None, Vec::new());
    if let (Solution::Optimal(optimum), false) = (&answer, communicating) {
        shares = shares_of(&task, optimum)?;
        if !watch.stop.requested() {
            let found = almost_sure_observed(&task, &options, &mut |round| rounds.look("parts, ", round));
            sure = match found {
                Err(SolveError::Stopped) => None,
                found => Some(found?),
            };
        }
    }
    let parts = task.structure().end_components.len();
    let ranges = task.in_model_units().scales().to_vec();
    let specification = task.specification().clone();
    let reached = match &answer {
        Solution::Optimal(optimum) => optimum.reached,
        Solution::Infeasible(_) => true,
    };
    let (complete, seconds) = (reached && !watch.stop.requested(), rounds.start.elapsed().as_secs_f64());
    let model = loaded.model;
    Ok(SolveResult {
        model,
        specification,
        answer,
        sure,
        shares,
        complete,
        communicating,
        parts,
        ranges,
        seconds,
    })
}

/// Where the policies of the mixture end.
fn shares_of(task: &FiniteTask<'_>, optimum: &Optimum) -> anyhow::Result<Vec<Share>> {
    let model = task.model();
    let mut occupancy = vec![0.0; model.choice_count()];
    for policy in &optimum.mixture {
        let own = task.occupancy(&policy.actions)?;
        occupancy.iter_mut().zip(own).for_each(|(all, own)| *all += policy.weight * own);
    }
    let share = |states: &Vec<usize>| -> anyhow::Result<Share> {
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
    /// Whether the requirements can be met.
    pub fn feasible(&self) -> bool {
        matches!(self.answer, Solution::Optimal(_))
    }

    /// The answer, in the signs of the paper.
    pub fn answer(&self) -> &Solution {
        &self.answer
    }

    /// What was asked.
    pub fn specification(&self) -> &Specification {
        &self.specification
    }

    /// The model.
    pub fn model(&self) -> &FiniteCmdp {
        &self.model
    }

    /// Writes the answer so that `acrl run` can execute it.
    pub fn save_policy(&self, path: &Path) -> anyhow::Result<()> {
        let Solution::Optimal(optimum) = &self.answer else {
            bail!("no policy is written to {}: the requirements cannot be met", path.display());
        };
        let task = FiniteTask::new(&self.model, &self.specification)?;
        let answer = match &self.sure {
            None if self.communicating => Executable::new(&task, optimum),
            Some(sure) => Executable::almost_sure(&task, sure).ok_or_else(|| {
                anyhow!(
                    "no policy is written to {}: on no policy's paths are the requirements met for sure, and a run is \
                     one path",
                    path.display()
                )
            })?,
            None => bail!(
                "no policy is written to {}: stopped before it was known what can be had on almost every path",
                path.display()
            ),
        };
        AnswerFile { model: self.model.clone(), specification: self.specification.clone(), answer }.save(path)
    }

    /// The sign that turns r₀ back into the user's objective.
    fn sign(&self) -> f64 {
        self.specification.objective().map_or(1.0, acrl::Objective::sign)
    }

    fn values(&self, values: &Values) -> Named<f64> {
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
