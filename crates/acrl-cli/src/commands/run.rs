//! `acrl run`: Algorithm 2 with the exact π(s, λ), many times, and a report on every requirement.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::ops::ControlFlow;

use acrl::{
    Diagnosis, Event, ExactEvidence, Execution, Observer, Rng, RunReport, Symptoms, Task, Verdict as Matter,
    execute, execute_runs,
};
use acrl_exact::{Answer, ExactPolicy, FiniteTask, SolveOptions, most_slack, solve};
use anyhow::Context as _;
use indicatif::ProgressBar;

use crate::Verdict;
use crate::args::{Global, RunArgs};
use crate::input::Loaded;
use crate::output::{BAD, GOOD, Output, STRONG, Table, figure, styled};

/// Runs and prints.
pub(crate) fn run(args: &RunArgs, global: &Global, output: &mut Output) -> anyhow::Result<Verdict> {
    let mut loaded = Loaded::new(&args.source)?;
    loaded.apply(&args.execution, global);
    let task = loaded.task()?;
    let mut log = args.log.as_deref().map(Log::create).transpose()?;
    let bar = output.bar(loaded.run.steps.saturating_mul(loaded.run.runs as u64), "running");
    let executions = run_exact(&loaded, &task, &bar)?;
    bar.finish_and_clear();
    if let Some(log) = &mut log {
        // The first run once more, now with every event written down: it is the same to the bit.
        execute_exact(&loaded, &task, 0, log)?;
        log.finish()?;
    }
    let report = report(&loaded, &task, &executions)?;
    if output.is_json() {
        output.object(&report)?;
    } else {
        print(&report, &task, output);
    }
    Ok(if report.met() { Verdict::Good } else { Verdict::Bad })
}

/// All runs of the exact policy, on all cores.
pub(crate) fn run_exact(
    loaded: &Loaded,
    task: &FiniteTask<'_>,
    bar: &ProgressBar,
) -> anyhow::Result<Vec<Execution<usize>>> {
    execute_runs(loaded.run.runs, |run| execute_exact(loaded, task, run as u64, &mut Progress::new(bar)))
}

fn execute_exact(
    loaded: &Loaded,
    task: &FiniteTask<'_>,
    run: u64,
    observer: &mut dyn Observer,
) -> anyhow::Result<Execution<usize>> {
    let mut environment = Task::new(&loaded.model, loaded.specification.clone())?;
    let mut dynamics = loaded.dynamics(task)?;
    let mut policy = ExactPolicy::new(task);
    let mut rng = Rng::stream(loaded.run.seed, run);
    let execution =
        execute(&mut environment, &mut policy, &mut dynamics, loaded.run.steps, &mut rng, observer)?;
    policy.failure().map_or(Ok(execution), |failure| Err(failure.into()))
}

/// Sums the runs up, with the exact model as a witness where a requirement is behind.
pub(crate) fn report(
    loaded: &Loaded,
    task: &FiniteTask<'_>,
    executions: &[Execution<usize>],
) -> anyhow::Result<RunReport> {
    let symptoms = |exact| Symptoms {
        scales: task.scales().to_vec(),
        tolerances: loaded.tolerances(task),
        exact,
        ..Symptoms::default()
    };
    let first = RunReport::new(&loaded.specification, executions, symptoms(None)).context("no run")?;
    if first.met() {
        return Ok(first);
    }
    let options = SolveOptions::default();
    let exact = match solve(task, &options, &mut |_| ControlFlow::Continue(()))? {
        Answer::Infeasible(conflict) => {
            Some(ExactEvidence { slack: conflict.slack.upper, conflict: conflict.names })
        }
        Answer::Optimal(_) => {
            most_slack(task, &options)?.map(|s| ExactEvidence { slack: s.lower.max(0.0), conflict: vec![] })
        }
    };
    RunReport::new(&loaded.specification, executions, symptoms(exact)).context("no run")
}

/// Moves a progress bar along, now and then.
pub(crate) struct Progress<'a> {
    bar: &'a ProgressBar,
    told: u64,
    begin: Option<u64>,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(bar: &'a ProgressBar) -> Self {
        Self { bar, told: 0, begin: None }
    }

    fn tell(&mut self, step: u64) {
        self.bar.inc(step - self.told);
        self.told = step;
    }
}

impl Observer for Progress<'_> {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        match event {
            Event::Epoch(epoch) => {
                let begin = *self.begin.get_or_insert(epoch.step - epoch.steps);
                if epoch.step - begin >= self.told + (1 << 18) {
                    self.tell(epoch.step - begin);
                }
            }
            Event::Finished { steps, .. } => self.tell(*steps),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Events as JSON Lines.
struct Log {
    file: BufWriter<File>,
    path: std::path::PathBuf,
    failed: Option<std::io::Error>,
}

impl Log {
    fn create(path: &std::path::Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { file: BufWriter::new(file), path: path.to_owned(), failed: None })
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let result = self.failed.take().map_or(Ok(()), Err).and_then(|()| self.file.flush());
        result.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

impl Observer for Log {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        let written = serde_json::to_writer(&mut self.file, event)
            .map_err(Into::into)
            .and_then(|()| self.file.write_all(b"\n"));
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

fn print(report: &RunReport, task: &FiniteTask<'_>, output: &mut Output) {
    let runs = if report.runs == 1 { "1 run".to_owned() } else { format!("{} runs", report.runs) };
    output.line(format!("{runs} of {} steps, epoch {}", report.steps, report.epoch));
    output.line("");
    let mut table = Table::new(&["", "bound", "average", "worst run", "certified within", "price", "met"]);
    if let Some(objective) = task.specification().objective() {
        let at = |named: &acrl::Named<f64>| figure(named.get(&objective.reward).copied().unwrap_or(0.0), 5);
        table.plain(vec![
            objective.reward.clone(),
            if objective.sign() > 0.0 { "max" } else { "min" }.to_owned(),
            at(&report.averages),
            at(&report.worst),
        ]);
    }
    for (r, (name, entry)) in task.specification().requirements().iter().zip(report.requirements.iter()) {
        let worst = r.bound() - r.sign() * entry.shortfall;
        let worst = report.worst.get(name).copied().unwrap_or(worst);
        let price = report.multipliers.get(name).map_or(0.0, |m| m.mean);
        let plain = anstyle::Style::new();
        table.row(vec![
            (name.to_owned(), plain),
            (format!("{} {}", if r.sign() > 0.0 { ">=" } else { "<=" }, figure(entry.bound, 5)), plain),
            (figure(entry.average, 5), plain),
            (figure(worst, 5), plain),
            (figure(entry.certificate, 3), plain),
            (figure(price, 4), plain),
            if entry.met { ("yes".to_owned(), GOOD) } else { ("NO".to_owned(), BAD) },
        ]);
    }
    output.raw(&table.to_string());
    output.line("");
    for (name, entry) in report.requirements.iter() {
        let price = report.multipliers.get(name).map_or(0.0, |m| m.mean);
        let verdict = if entry.met { styled(GOOD, "is met") } else { styled(BAD, "is not met") };
        output.line(format!(
            "{} {verdict}: average {}, certified within {} of {}, price {}",
            styled(STRONG, name),
            figure(entry.average, 4),
            figure(entry.certificate, 2),
            figure(entry.bound, 4),
            figure(price, 3),
        ));
    }
    if let Some(advice) = advice(&report.diagnosis) {
        output.line("");
        output.line(advice);
    }
}

/// What to do about it, in a sentence.
fn advice(diagnosis: &Diagnosis) -> Option<String> {
    let names = diagnosis.names.join(", ");
    Some(match diagnosis.verdict {
        Matter::Met => return None,
        Matter::Converging => {
            format!("Converging: the multipliers of {names} no longer grow; more --steps will do.")
        }
        Matter::EpochTooShort => format!(
            "Epoch too short: the requirements are feasible, but the multipliers of {names} keep growing; \
             use --epoch auto or a longer --epoch."
        ),
        Matter::Infeasible => {
            format!("Infeasible: no policy meets {names} together; acrl solve says what would have to give.")
        }
        Matter::PolicyInsufficient => {
            format!(
                "Policy insufficient: no mixture of what this policy does meets {names}; train it longer."
            )
        }
    })
}
