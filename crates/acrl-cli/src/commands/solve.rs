//! `acrl solve`: the optimum, the price of each requirement, or what is in conflict.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use acrl::{Event, FiniteCmdp, Named, Specification, Values};
use acrl_exact::{
    AlmostSure, Answer, Conflict, Executable, FiniteTask, Optimum, SolveError, SolveOptions, SolveRound,
    almost_sure_watched, solve as solve_task,
};
use acrl_report::{Axis, Bar, Bars, Block, Cell, Colour, Figure, Panel, Plot, Report, Table as Grid, Tone};
use anyhow::{anyhow, bail};
use serde::{Serialize, Serializer};

use super::sweep::sweep_finite;
use crate::answer_file::AnswerFile;
use crate::args::SolveArgs;
use crate::comparison::named_values;
use crate::figures::{self, colours};
use crate::folder;
use crate::input::{Input, Loaded};
use crate::log::Log;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, Table, count, figure, relation, styled};
use crate::watch::{Watch, listen};
use crate::{Verdict, page};

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
    if let Answer::Optimal(optimum) = &solved.answer
        && (optimum.gap > args.gap || !solved.complete)
    {
        let (gap, wanted) = (figure(optimum.gap, 3), figure(args.gap, 3));
        if optimum.gap > args.gap {
            output.warn(&format!("stopped at a gap of {gap}, above the {wanted} asked for"));
        }
        if solved.parts > 1 && solved.sure.is_none() {
            output.warn("stopped before it was known what can be had on almost every path");
        }
    }
    if let Answer::Infeasible(conflict) = &solved.answer
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
        Answer::Optimal(optimum) => {
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
        Answer::Infeasible(conflict) => print_conflict(&solved, conflict, output),
    }
    Ok(Verdict::of(solved.feasible()))
}

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub struct SolveSettings {
    /// At this relative gap between the certified bounds; default 1e-6.
    pub gap: f64,
    /// After so long, whatever the gap.
    pub time_limit: Option<Duration>,
}

impl Default for SolveSettings {
    fn default() -> Self {
        Self { gap: SolveOptions::default().gap, time_limit: None }
    }
}

impl SolveSettings {
    pub(super) fn options(&self) -> SolveOptions {
        SolveOptions { gap: self.gap, ..SolveOptions::default() }
    }
}

/// Looks at the rounds of a solve: shows them, passes them on, and stops it when it is time.
pub(super) struct Rounds<'a> {
    pub(super) start: Instant,
    limit: Option<Duration>,
    sign: f64,
    watch: &'a Watch,
    observer: &'a mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
}

impl<'a> Rounds<'a> {
    pub(super) fn new(
        settings: &SolveSettings,
        sign: f64,
        watch: &'a Watch,
        observer: &'a mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
    ) -> Self {
        Self { start: Instant::now(), limit: settings.time_limit, sign, watch, observer }
    }

    /// `what` is said before the round.
    pub(super) fn look(&mut self, what: &str, round: &SolveRound) -> ControlFlow<()> {
        let told = |bound: Option<f64>| bound.map(|x| self.sign * x + 0.0);
        let (lower, upper) = if self.sign > 0.0 {
            (told(round.lower), told(round.upper))
        } else {
            (told(round.upper), told(round.lower))
        };
        let seconds = self.start.elapsed().as_secs_f64();
        let message = match (lower, upper, round.gap) {
            (Some(lower), Some(upper), Some(gap)) => {
                format!("between {} and {}, gap {},", figure(lower, 6), figure(upper, 6), figure(gap, 2))
            }
            _ => "looking for a policy that meets the requirements,".to_owned(),
        };
        self.watch.bar.set_message(format!("{what}round {}, {message}", round.round));
        let event = Event::Round { round: round.round, lower, upper, gap: round.gap, seconds };
        if (self.observer)(&event).is_break() || self.over() {
            // Whatever else looks at it stops too.
            self.watch.stop.request();
        }
        self.watch.stop.flow()
    }

    fn over(&self) -> bool {
        self.limit.is_some_and(|limit| self.start.elapsed() >= limit)
    }

    /// What went wrong, with the time that it was given.
    pub(super) fn error(&self, error: SolveError) -> anyhow::Error {
        match (&error, self.limit) {
            (SolveError::Stopped, Some(limit)) if self.over() => anyhow!(
                "no policy that meets the requirements was found in {} s, nor that there is none: give it a longer \
                 --time-limit",
                figure(limit.as_secs_f64(), 3)
            ),
            _ => error.into(),
        }
    }
}

/// The exact answer to a finite problem. Serialises as the object of `acrl solve --json`.
#[derive(Debug)]
pub struct Solved {
    model: Arc<FiniteCmdp>,
    specification: Specification,
    answer: Answer,
    /// Where there are several end components.
    sure: Option<AlmostSure>,
    /// What each end component has of the expected optimum, where there are several.
    shares: Vec<Share>,
    /// Whether it ended by itself.
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
) -> anyhow::Result<Solved> {
    solve_finite(Loaded::of(name, input)?, settings, watch, observer)
}

fn solve_finite(
    loaded: Loaded,
    settings: &SolveSettings,
    watch: &Watch,
    observer: &mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
) -> anyhow::Result<Solved> {
    let task = loaded.task()?;
    let options = settings.options();
    let mut rounds = Rounds::new(settings, objective_sign(&task), watch, observer);
    let answer = solve_task(&task, &options, &mut |round| rounds.look("", round));
    let answer = answer.map_err(|error| rounds.error(error))?;
    let communicating = task.structure().is_communicating();
    let (mut sure, mut shares) = (None, Vec::new());
    if let (Answer::Optimal(optimum), false) = (&answer, communicating) {
        shares = shares_of(&task, optimum)?;
        if !watch.stop.requested() {
            let found = almost_sure_watched(&task, &options, &mut |round| rounds.look("parts, ", round));
            sure = match found {
                Err(SolveError::Stopped) => None,
                found => Some(found?),
            };
        }
    }
    let parts = task.structure().end_components.len();
    let ranges = task.in_model_units().scales().to_vec();
    let specification = task.specification().clone();
    let (complete, seconds) = (!watch.stop.requested(), rounds.start.elapsed().as_secs_f64());
    let model = loaded.model;
    Ok(Solved { model, specification, answer, sure, shares, complete, communicating, parts, ranges, seconds })
}

/// Where the policies of the mixture end.
fn shares_of(task: &FiniteTask<'_>, optimum: &Optimum) -> anyhow::Result<Vec<Share>> {
    let model = task.model();
    let mut occupancy = vec![0.0; model.choice_count()];
    for policy in &optimum.mixture {
        let own = task.occupancy(&policy.rule)?;
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

impl Solved {
    /// Whether the requirements can be met.
    pub fn feasible(&self) -> bool {
        matches!(self.answer, Answer::Optimal(_))
    }

    /// The answer, in the signs of the paper.
    pub fn answer(&self) -> &Answer {
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
        let Answer::Optimal(optimum) = &self.answer else {
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

    fn components(&self) -> Vec<ShareJson> {
        let demands = self.specification.objective().is_some();
        let alone = |i: usize| {
            let sure = self.sure.as_ref()?;
            let inside = sure.components[i].inside.as_ref()?;
            Some(AloneJson {
                mass: sure.journey.as_ref().map(|journey| journey.mass[i]),
                objective: demands.then_some(self.sign() * inside.values.objective() + 0.0),
                values: self.values(&inside.values),
            })
        };
        let shares = self.shares.iter().enumerate().map(|(i, share)| ShareJson {
            states: share.states,
            first: share.first.clone(),
            mass: share.mass,
            values: share.values.as_ref().map(|values| self.values(values)),
            almost_sure: alone(i),
        });
        shares.collect()
    }

    /// The table of end components: header and rows.
    fn component_table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        const MOST: usize = 20;
        let Answer::Optimal(optimum) = &self.answer else { return Default::default() };
        let mut header: Vec<String> =
            ["end component of", "states", "share of runs"].map(str::to_owned).into();
        let names = self.values(&optimum.values);
        header.extend(names.iter().map(|(name, _)| name.to_owned()));
        header.push("for one who stays".to_owned());
        let mut components = self.components();
        // Those in which most ends come first; of many that are empty there is no end.
        components.sort_by(|a, b| b.mass.total_cmp(&a.mass));
        let row = |c: &ShareJson| {
            let mut row = vec![c.first.clone(), c.states.to_string(), figure(c.mass, 5)];
            match &c.values {
                Some(values) => row.extend(values.iter().map(|(_, v)| figure(*v, 5))),
                None => row.extend(names.iter().map(|_| "-".to_owned())),
            }
            row.push(match (&c.almost_sure, &self.sure) {
                (Some(alone), _) => alone.objective.map_or("can be met".to_owned(), |v| figure(v, 5)),
                (None, Some(_)) => "cannot be met".to_owned(),
                (None, None) => "not known".to_owned(),
            });
            row
        };
        (header, components.iter().take(MOST).map(row).collect())
    }

    /// The certificate as a sentence: "no policy has 0.6 r1 + 0.4 r2 above 0.93, and the bounds ask for 1".
    fn certificate(&self, conflict: &Conflict) -> String {
        let requirements = self.specification.requirements();
        let priced: Vec<(f64, &acrl::Requirement)> =
            conflict.certificate.iter().copied().zip(requirements).filter(|(y, _)| *y > 0.0).collect();
        let total: f64 = priced.iter().map(|(y, _)| y).sum();
        // All on one side: in the sign in which they were asked for.
        let sign = if priced.iter().all(|(_, r)| r.sign() < 0.0) { -1.0 } else { 1.0 };
        let mut sum = String::new();
        for (y, r) in &priced {
            let factor = sign * r.sign() * y / total;
            let joint = match (sum.is_empty(), factor < 0.0) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            let size = figure(factor.abs(), 4);
            let size = if size == "1" { String::new() } else { format!("{size} ") };
            sum += &format!("{joint}{size}{}", r.reward());
        }
        let asked: f64 = priced.iter().map(|(y, r)| y * r.c()).sum();
        // Enough digits to tell the two apart.
        let digits =
            (6.0 - ((asked - conflict.most) / asked.abs().max(conflict.most.abs())).log10()).clamp(5.0, 15.0);
        let shown = |x: f64| figure(sign * x / total, digits as usize);
        let side = if sign > 0.0 { "above" } else { "below" };
        let all = if priced.len() == 1 { "the bound asks" } else { "the bounds together ask" };
        format!("No policy has {sum} {side} {}, and {all} for {}.", shown(conflict.most), shown(asked))
    }

    /// The ranges of the multipliers; an end at infinity has no number.
    fn multiplier_ranges(&self, optimum: &Optimum) -> Named<[Option<f64>; 2]> {
        let end = |x: f64| Some(x).filter(|x| x.is_finite());
        let ranges = optimum.multiplier_ranges.iter().map(|&(low, high)| [end(low), end(high)]);
        self.specification.names().into_iter().zip(ranges).collect()
    }
}

impl Serialize for Solved {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.answer {
            Answer::Optimal(optimum) => OptimalJson::new(self, optimum).serialize(serializer),
            Answer::Infeasible(conflict) => InfeasibleJson::new(self, conflict).serialize(serializer),
        }
    }
}

/// The object printed when the requirements can be met. Everything in the user's signs.
#[derive(Serialize)]
struct OptimalJson<'a> {
    status: &'static str,
    specification: &'a Specification,
    objective: Option<f64>,
    /// The best that can be had on almost every path; differs where there are several end components.
    almost_sure: Option<f64>,
    bounds: [f64; 2],
    gap: f64,
    values: Named<f64>,
    multipliers: Named<f64>,
    /// The least and the largest optimal multipliers, where they are not unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    multiplier_ranges: Option<Named<[Option<f64>; 2]>>,
    mixture: Vec<ComponentJson>,
    communicating: bool,
    /// What each end component has of the expected optimum, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    components: Vec<ShareJson>,
    /// Whether it ended by itself.
    complete: bool,
    states: usize,
    choices: usize,
    rounds: usize,
    seconds: f64,
}

#[derive(Serialize)]
struct ShareJson {
    states: usize,
    first: String,
    mass: f64,
    /// There, in the long run; none where nothing ends.
    values: Option<Named<f64>>,
    /// For one who stays there; none if the requirements cannot be met so.
    almost_sure: Option<AloneJson>,
}

#[derive(Serialize)]
struct AloneJson {
    /// The probability to settle there when the requirements are to be met on almost every path.
    mass: Option<f64>,
    objective: Option<f64>,
    values: Named<f64>,
}

#[derive(Serialize)]
struct ComponentJson {
    weight: f64,
    values: Named<f64>,
}

impl<'a> OptimalJson<'a> {
    fn new(solved: &'a Solved, optimum: &Optimum) -> Self {
        let (sign, demands) = (solved.sign(), solved.specification.objective().is_some());
        let bounds = [sign * optimum.lower + 0.0, sign * optimum.upper + 0.0];
        Self {
            status: "optimal",
            specification: &solved.specification,
            almost_sure: match &solved.sure {
                Some(sure) => sure.objective.map(|v| sign * v + 0.0),
                None => Some(sign * optimum.objective + 0.0),
            }
            .filter(|_| demands),
            objective: demands.then_some(sign * optimum.objective + 0.0),
            bounds: if sign > 0.0 { bounds } else { [bounds[1], bounds[0]] },
            gap: optimum.gap,
            values: solved.values(&optimum.values),
            multipliers: solved.named(optimum.multipliers.as_slice()),
            multiplier_ranges: (!optimum.multipliers_are_unique()).then(|| solved.multiplier_ranges(optimum)),
            mixture: optimum
                .mixture
                .iter()
                .map(|c| ComponentJson { weight: c.weight, values: solved.values(&c.values) })
                .collect(),
            communicating: solved.communicating,
            components: solved.components(),
            complete: solved.complete,
            states: solved.model.states(),
            choices: solved.model.choice_count(),
            rounds: optimum.rounds,
            seconds: solved.seconds,
        }
    }
}

/// The object printed when they cannot.
#[derive(Serialize)]
struct InfeasibleJson<'a> {
    status: &'static str,
    specification: &'a Specification,
    conflict: Vec<String>,
    certificate: Named<f64>,
    relax: RelaxJson,
    complete: bool,
    states: usize,
    choices: usize,
    seconds: f64,
}

#[derive(Serialize)]
struct RelaxJson {
    uniform: Option<f64>,
    alone: Named<Option<f64>>,
}

impl<'a> InfeasibleJson<'a> {
    fn new(solved: &'a Solved, conflict: &Conflict) -> Self {
        Self {
            status: "infeasible",
            specification: &solved.specification,
            conflict: conflict.names.clone(),
            certificate: solved.named(&conflict.certificate),
            relax: RelaxJson {
                uniform: Some(conflict.relaxation.uniform).filter(|u| u.is_finite()),
                alone: solved.named(&conflict.relaxation.alone),
            },
            complete: conflict.complete,
            states: solved.model.states(),
            choices: solved.model.choice_count(),
            seconds: solved.seconds,
        }
    }
}

/// The sign that turns r₀ back into the user's objective.
pub(crate) fn objective_sign(task: &FiniteTask<'_>) -> f64 {
    task.specification().objective().map_or(1.0, acrl::Objective::sign)
}

fn print_optimum(solved: &Solved, optimum: &Optimum, output: &mut Output) {
    let specification = &solved.specification;
    let sign = solved.sign();
    match specification.objective() {
        Some(objective) => output.line(format!(
            "{} {} = {}  ({}, proved to within {}, {})",
            styled(GOOD, "optimal"),
            styled(STRONG, &objective.reward),
            styled(STRONG, figure(sign * optimum.objective, 7)),
            if sign > 0.0 { "largest" } else { "least" },
            if optimum.gap < 1e-12 {
                "rounding".to_owned()
            } else {
                format!("a share of {}", figure(optimum.gap, 2))
            },
            count(solved.model.states() as u64, "state"),
        )),
        None => output.line(format!(
            "{}  (no objective, {})",
            styled(GOOD, "feasible"),
            count(solved.model.states() as u64, "state")
        )),
    }
    if !specification.requirements().is_empty() {
        output.line("");
        let mut table = Table::new(&["requirement", "bound", "value", "price"]);
        for (i, r) in specification.requirements().iter().enumerate() {
            table.plain(vec![
                r.name().to_owned(),
                relation(r, 6),
                figure(r.sign() * optimum.values.requirements()[i], 6),
                figure(optimum.multipliers.as_slice()[i], 5),
            ]);
        }
        output.raw(&table.to_string());
        if specification.objective().is_some() {
            output.line(styled(
                FAINT,
                "price: what the objective loses per unit by which the bound is tightened",
            ));
        }
        if !optimum.multipliers_are_unique() {
            for (name, (low, high)) in specification.names().iter().zip(&optimum.multiplier_ranges) {
                let text =
                    format!("{name}: any price from {} to {} is right", figure(*low, 4), figure(*high, 4));
                output.line(styled(FAINT, text));
            }
        }
    }
    if optimum.mixture.len() > 1 {
        output.line("");
        output.line("attained by switching between these policies:");
        let names: Vec<String> =
            solved.values(&optimum.mixture[0].values).iter().map(|(n, _)| n.to_owned()).collect();
        let mut header = vec!["share of time"];
        header.extend(names.iter().map(String::as_str));
        let mut table = Table::new(&header);
        for component in &optimum.mixture {
            let mut row = vec![figure(component.weight, 5)];
            row.extend(solved.values(&component.values).iter().map(|(_, v)| figure(*v, 5)));
            table.plain(row);
        }
        output.raw(&table.to_string());
    }
    if solved.parts > 1 {
        output.line("");
        output.line(format!(
            "The model has {} separate end components, and a run ends in one of them: the above are expected values.",
            solved.parts
        ));
        let (header, rows) = solved.component_table();
        let mut table = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
        rows.into_iter().for_each(|row| table.plain(row));
        output.raw(&table.to_string());
    }
    if let Some(sure) = &solved.sure {
        output.line(match (sure.objective, specification.objective()) {
            (Some(v), Some(o)) => {
                format!("On almost every path the best is {} = {}.", o.reward, figure(sign * v, 7))
            }
            (Some(_), None) => "The requirements can be met on almost every path.".to_owned(),
            (None, _) => "No policy meets the requirements on almost every path.".to_owned(),
        });
    }
}

fn print_conflict(solved: &Solved, conflict: &Conflict, output: &mut Output) {
    let together = if conflict.names.len() == 1 { "" } else { " together" };
    output.line(format!(
        "{}: no policy meets {}{together}",
        styled(BAD, "infeasible"),
        styled(STRONG, conflict.names.join(", "))
    ));
    output.line(solved.certificate(conflict));
    output.line("");
    output.line(format!(
        "They could be met if every bound gave way by {} of its reward's range, or if one gave way alone:",
        figure(conflict.relaxation.uniform, 4)
    ));
    let mut table = Table::new(&["requirement", "bound", "all give way", "this one alone"]);
    let requirements = solved.specification.requirements().iter();
    for ((r, alone), range) in requirements.zip(&conflict.relaxation.alone).zip(&solved.ranges) {
        let sign = if r.sign() > 0.0 { ">=" } else { "<=" };
        let relaxed = |amount: f64| format!("{sign} {}", figure(r.bound() - r.sign() * amount * range, 5));
        table.plain(vec![
            r.name().to_owned(),
            relation(r, 6),
            relaxed(conflict.relaxation.uniform),
            alone.map_or_else(|| no_amount(conflict), relaxed),
        ]);
    }
    output.raw(&table.to_string());
}

/// What is said of a conflict whose analysis was stopped.
const STOPPED: &str = "stopped before all was known about the conflict: the set may not be a smallest one";

/// Why a bound has no amount by which it could give way alone.
fn no_amount(conflict: &Conflict) -> String {
    if conflict.complete { "does not help" } else { "not known" }.to_owned()
}

impl Solved {
    /// The page on it. `input` is what was solved, `command` what makes it again.
    pub fn page(&self, input: &str, command: &str) -> Report {
        let (lead, blocks) = match &self.answer {
            Answer::Optimal(optimum) => (self.optimum_lead(optimum), self.optimum_blocks(optimum)),
            Answer::Infeasible(conflict) => (
                format!("Infeasible: no policy meets {} together.", conflict.names.join(", ")),
                self.conflict_blocks(conflict),
            ),
        };
        let mut facts = vec![
            ("input".to_owned(), input.to_owned()),
            ("states".to_owned(), self.model.states().to_string()),
            ("choices".to_owned(), self.model.choice_count().to_string()),
            ("took".to_owned(), format!("{} s", figure(self.seconds, 2))),
        ];
        // There is no randomness in it.
        facts.extend(page::machine(0).into_iter().filter(|(name, _)| name != "seed"));
        let (title, good) = (format!("{input}: the exact answer"), Some(self.feasible()));
        Report { title, lead, good, blocks, facts, command: command.to_owned() }
    }

    fn optimum_lead(&self, optimum: &Optimum) -> String {
        match self.specification.objective() {
            Some(objective) => format!(
                "The {} {} is {}, proved to within a share of {}.",
                if self.sign() > 0.0 { "largest" } else { "least" },
                objective.reward,
                figure(self.sign() * optimum.objective, 6),
                figure(optimum.gap.max(1e-12), 2)
            ),
            None => "The requirements can be met.".to_owned(),
        }
    }

    fn optimum_blocks(&self, optimum: &Optimum) -> Vec<Block> {
        let requirements = self.specification.requirements();
        let row =
            |cells: Vec<String>| cells.into_iter().map(|text| Cell { text, tone: Tone::Plain }).collect();
        let prices = optimum.multipliers.as_slice();
        let rows = requirements.iter().enumerate().map(|(i, r)| {
            let value = figure(r.sign() * optimum.values.requirements()[i], 6);
            row(vec![r.name().to_owned(), bound(r), value, figure(prices[i], 5)])
        });
        let mut blocks = Vec::new();
        if !requirements.is_empty() {
            blocks.push(Block::Table(Grid {
                header: ["requirement", "bound", "value", "price"].map(str::to_owned).to_vec(),
                rows: rows.collect(),
                note: "price: what the objective loses per unit by which the bound is tightened".to_owned(),
            }));
            blocks.push(Block::Figure(self.prices(prices)));
        }
        if optimum.mixture.len() > 1 {
            let names = self.values(&optimum.values);
            let header = std::iter::once("share of time").chain(names.iter().map(|(name, _)| name));
            let rows = optimum.mixture.iter().map(|c| {
                let values = self.values(&c.values);
                let cells = values.iter().map(|(_, v)| figure(*v, 5));
                row(std::iter::once(figure(c.weight, 5)).chain(cells).collect())
            });
            blocks.push(Block::Heading("Attained by switching between these policies".to_owned()));
            blocks.push(Block::Table(Grid {
                header: header.map(str::to_owned).collect(),
                rows: rows.collect(),
                note: String::new(),
            }));
        }
        if self.parts > 1 {
            blocks.push(Block::Text(format!(
                "The model has {} separate end components, and a run ends in one of them: the above are expected values.",
                self.parts
            )));
            let (header, rows) = self.component_table();
            let rows = rows.into_iter().map(row).collect();
            blocks.push(Block::Table(Grid { header, rows, note: String::new() }));
        }
        blocks
    }

    fn prices(&self, prices: &[f64]) -> Figure {
        let (requirements, colours) = (self.specification.requirements(), colours(&self.specification));
        let bar = |(i, r): (usize, &acrl::Requirement)| Bar {
            name: r.name().to_owned(),
            colour: colours.get(i).copied().unwrap_or(Colour::Grey),
            values: vec![prices[i] * self.ranges[i]],
            ranges: Vec::new(),
        };
        let label = match self.specification.objective() {
            Some(objective) => format!("price in {}, by the reward's range", objective.reward),
            None => "price, by the reward's range".to_owned(),
        };
        let plot = Plot::Bars(Bars {
            categories: vec!["price".to_owned()],
            y: Axis { label, ..Axis::default() },
            bars: requirements.iter().enumerate().map(bar).collect(),
            bounds: Vec::new(),
        });
        Figure {
            name: "prices".to_owned(),
            title: "What each requirement costs".to_owned(),
            caption: "The multiplier times the range of its reward, so that they can be compared.".to_owned(),
            columns: 1,
            panels: vec![Panel { title: String::new(), plot }],
        }
    }

    fn conflict_blocks(&self, conflict: &Conflict) -> Vec<Block> {
        let mut blocks = vec![Block::Text(self.certificate(conflict))];
        if !conflict.complete {
            blocks.push(Block::Text(format!("The analysis was {STOPPED}.")));
        }
        blocks.push(Block::Table(self.conflict_table(conflict)));
        blocks
    }

    fn conflict_table(&self, conflict: &Conflict) -> Grid {
        let requirements = self.specification.requirements().iter().zip(&self.ranges);
        let rows = requirements.zip(&conflict.relaxation.alone).map(|((r, range), alone)| {
            let relaxed = |amount: f64| figure(r.bound() - r.sign() * amount * range, 5);
            let cells = [
                r.name().to_owned(),
                bound(r),
                relaxed(conflict.relaxation.uniform),
                alone.map_or_else(|| no_amount(conflict), relaxed),
            ];
            let mut row: Vec<Cell> = cells.map(|text| Cell { text, tone: Tone::Plain }).into();
            let involved = conflict.names.iter().any(|name| name == r.name());
            row.push(if involved {
                Cell { text: "yes".to_owned(), tone: Tone::Bad }
            } else {
                Cell { text: "no".to_owned(), tone: Tone::Plain }
            });
            row
        });
        let header = ["requirement", "bound", "all give way", "this one alone", "in conflict"];
        Grid {
            header: header.map(str::to_owned).to_vec(),
            rows: rows.collect(),
            note: "What the bounds would have to be for the requirements to be met.".to_owned(),
        }
    }
}

/// "≥ 0.3".
fn bound(requirement: &acrl::Requirement) -> String {
    figures::relation(requirement).trim_start_matches(requirement.name()).trim().to_owned()
}
