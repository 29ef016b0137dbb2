//! `acrl check`: what the theorems need and promise for a finite problem.

use std::ops::ControlFlow;

use acrl::guarantees::step_size_for;
use acrl::{Event, Multipliers, Named, Rng, Simulator, execute};
use acrl_exact::assumptions::{Assumptions, EpochBias};
use acrl_exact::{Conflict, ExactPolicy, FiniteTask, Optimum, Slack, Solution, SolveOptions, solve};
use anyhow::bail;
use serde::Serialize;

use super::solve::objective_sign;
use crate::Verdict;
use crate::args::{CheckArgs, Global};
use crate::comparison::named_values;
use crate::input::Loaded;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, Table, figure, styled};

/// Epochs shown in the table and in JSON.
const EPOCHS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
/// At most so many of the last multipliers are examined.
const VISITED: usize = 2000;

/// Checks and prints.
pub(crate) fn check(args: &CheckArgs, global: &Global, output: &mut Output) -> anyhow::Result<Verdict> {
    let mut loaded = Loaded::new(&args.source)?;
    loaded.apply(&args.execution, global.seed);
    if loaded.specification.requirements().is_empty() {
        bail!("{}: there is no requirement to check: add one with --require", args.source.input);
    }
    let task = loaded.task()?;
    let spinner = output.spinner("checking");
    let options = SolveOptions::default();
    let result = match solve(&task, &options, &mut |_| ControlFlow::Continue(()))? {
        Solution::Infeasible(conflict) => Err(conflict),
        Solution::Optimal(optimum) => {
            let (visited, epoch) = visit(&loaded, &task)?;
            let assumptions =
                Assumptions::examine(&task, &optimum, &visited, loaded.run.step_size(), &options)?;
            Ok((optimum, assumptions, epoch))
        }
    };
    spinner.finish_and_clear();
    let report = match &result {
        Ok((optimum, assumptions, epoch)) => Report::new(args, &loaded, &task, optimum, assumptions, *epoch),
        Err(conflict) => Report::infeasible(&task, conflict),
    };
    if output.is_json() {
        output.object(&report)?;
    } else {
        print(&report, &loaded, &task, output);
    }
    Ok(if report.feasible { Verdict::Good } else { Verdict::Bad })
}

/// Runs once, and returns the last multipliers and the epoch it settled on.
fn visit(loaded: &Loaded, task: &FiniteTask<'_>) -> anyhow::Result<(Vec<Multipliers>, u64)> {
    let mut visited = std::collections::VecDeque::new();
    let mut observer = |event: &Event<'_>| {
        if let Event::Epoch(epoch) = event {
            if visited.len() == VISITED {
                visited.pop_front();
            }
            visited.push_back(epoch.multipliers.clone());
        }
        ControlFlow::Continue(())
    };
    let mut environment = Simulator::new(&*loaded.model, loaded.specification.clone())?;
    let mut agent = loaded.agent(task)?;
    let mut rng = Rng::stream(loaded.run.seed, 0);
    let mut policy = ExactPolicy::new(task);
    let steps = loaded.run.steps;
    let run = execute(&mut environment, &mut policy, &mut agent, steps, &mut rng, &mut observer)?;
    Ok((visited.into(), run.epoch))
}

/// The object printed as JSON. Slacks, B², ε, β and multipliers are in units of the rewards' ranges.
#[derive(Serialize)]
struct Report {
    feasible: bool,
    states: usize,
    choices: usize,
    communicating: bool,
    end_components: usize,
    ranges: Named<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conflict: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    objective: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    multipliers: Option<Named<f64>>,
    slater: Option<Slater>,
    #[serde(skip_serializing_if = "Option::is_none")]
    theory: Option<Theory>,
}

/// (A1): the Slater constant and how it is attained.
#[derive(Serialize)]
struct Slater {
    constant: f64,
    upper: f64,
    mixture: Vec<Part>,
}

#[derive(Serialize)]
struct Part {
    weight: f64,
    values: Named<f64>,
}

/// What holds at the multipliers of an execution.
#[derive(Serialize)]
struct Theory {
    squared_bound: f64,
    multiplier_bound: Option<f64>,
    bias: Vec<Bias>,
    drift: DriftJson,
    switch_time: f64,
    suggested_epoch: Option<u64>,
    auto_epoch: u64,
    step_size: f64,
    promised_loss: f64,
    wanted_loss: f64,
    step_size_for_wanted_loss: f64,
}

#[derive(Serialize)]
struct Bias {
    epoch: u64,
    epsilon: f64,
    beta: f64,
}

#[derive(Serialize)]
struct DriftJson {
    visited: usize,
    holds: usize,
    fails_up_to: f64,
    radius: Option<f64>,
    farthest: f64,
}

impl Report {
    fn base(task: &FiniteTask<'_>) -> Self {
        let model = task.model();
        let range = |(i, name): (usize, &String)| {
            let (low, high) = model.reward_range(i);
            (name.clone(), [low, high])
        };
        Self {
            feasible: true,
            states: model.states(),
            choices: model.choice_count(),
            communicating: task.structure().is_communicating(),
            end_components: task.structure().end_components.len(),
            ranges: model.reward_names().iter().enumerate().map(range).collect(),
            conflict: None,
            objective: None,
            multipliers: None,
            slater: None,
            theory: None,
        }
    }

    fn infeasible(task: &FiniteTask<'_>, conflict: &Conflict) -> Self {
        Self {
            feasible: false,
            conflict: Some(conflict.names.clone()),
            slater: Some(Slater::new(task, &conflict.slack)),
            ..Self::base(task)
        }
    }

    fn new(
        args: &CheckArgs,
        loaded: &Loaded,
        task: &FiniteTask<'_>,
        optimum: &Optimum,
        found: &Assumptions,
        epoch: u64,
    ) -> Self {
        let prices =
            task.specification().names().into_iter().zip(optimum.multipliers.as_slice().iter().copied());
        let shown = |b: &&EpochBias| EPOCHS.contains(&b.epoch);
        Self {
            objective: task.has_objective().then_some(objective_sign(task) * optimum.objective + 0.0),
            multipliers: Some(prices.collect()),
            slater: found.slater.as_ref().map(|s| Slater::new(task, s)),
            theory: Some(Theory {
                squared_bound: found.squared_bound,
                multiplier_bound: found.multiplier_bound,
                bias: found
                    .bias
                    .iter()
                    .filter(shown)
                    .map(|b| Bias { epoch: b.epoch, epsilon: b.epsilon, beta: b.beta })
                    .collect(),
                drift: DriftJson {
                    visited: found.drift.visited,
                    holds: found.drift.holds,
                    fails_up_to: found.drift.fails_up_to,
                    radius: found.drift.radius,
                    farthest: found.drift.farthest,
                },
                switch_time: found.switch_time,
                suggested_epoch: found.suggested_epoch,
                auto_epoch: epoch,
                step_size: loaded.run.step_size(),
                promised_loss: found.loss,
                wanted_loss: args.loss,
                step_size_for_wanted_loss: step_size_for(args.loss, found.squared_bound),
            }),
            ..Self::base(task)
        }
    }
}

impl Slater {
    fn new(task: &FiniteTask<'_>, slack: &Slack) -> Self {
        let part = |c: &acrl_exact::MixturePolicy| Part {
            weight: c.weight,
            values: named_values(task.specification(), &c.values),
        };
        Self { constant: slack.lower, upper: slack.upper, mixture: slack.mixture.iter().map(part).collect() }
    }
}

fn print(report: &Report, loaded: &Loaded, task: &FiniteTask<'_>, output: &mut Output) {
    let kind = if report.communicating {
        "one end component: every mixture is attained on almost every path".to_owned()
    } else {
        format!("{} end components: a run ends in one of them", report.end_components)
    };
    output.line(format!("{} states, {} choices, {kind}", report.states, report.choices));
    for (name, [low, high]) in report.ranges.iter() {
        output
            .line(styled(FAINT, format!("  {name} ranges from {} to {}", figure(*low, 4), figure(*high, 4))));
    }
    output.line("");
    output.line(styled(FAINT, "Slacks, B, epsilon and beta are in units of the rewards' ranges."));
    if let Some(slater) = &report.slater {
        print_slater(report, slater, output);
    }
    let Some(theory) = &report.theory else { return };
    output.line(format!(
        "(A2) B^2 = {}: the largest squared distance of the rewards from their bounds",
        figure(theory.squared_bound, 5)
    ));
    if let Some(bound) = theory.multiplier_bound {
        output.line(format!(
            "     with (A1): near the optimum the multipliers add up to at most {}",
            figure(bound, 5)
        ));
    }
    output.line("");
    output.line(styled(STRONG, "Assumption 1: how far an epoch's averages can be off"));
    let mut table = Table::new(&["  epoch", "epsilon", "beta"]);
    for bias in &theory.bias {
        table.plain(vec![format!("  {}", bias.epoch), figure(bias.epsilon, 4), figure(bias.beta, 4)]);
    }
    output.raw(&table.to_string());
    output.line(styled(
        FAINT,
        "  epsilon: of the rewards, beta: of the Lagrangian; worst over the policies visited in a run",
    ));
    output.line("");
    output.line(styled(STRONG, "Assumption 2: drift back to the optimal multipliers"));
    let drift = &theory.drift;
    output.line(match drift.radius {
        Some(radius) => format!("  holds: from distance {} on it is proved by (A1)", figure(radius, 3)),
        None => "  cannot be shown without slack".to_owned(),
    });
    output.line(format!(
        "  the {} multipliers visited are at most {} away; the drift holds at {} of them already",
        drift.visited,
        figure(drift.farthest, 3),
        drift.holds
    ));
    output.line("");
    print_settings(report, theory, loaded, task, output);
}

fn print_settings(
    report: &Report,
    theory: &Theory,
    loaded: &Loaded,
    task: &FiniteTask<'_>,
    output: &mut Output,
) {
    output.line(styled(STRONG, "Settings"));
    if !report.communicating {
        output.line(
            "  The theorems speak of one end component: with several, nothing is promised for a single run.",
        );
        return;
    }
    output.line(format!(
        "  a change of behaviour takes up to {} steps on average",
        figure(theory.switch_time, 3)
    ));
    output.line(match theory.suggested_epoch {
        Some(epoch) => format!("  epoch {epoch} is long enough for the proof (epsilon at most C)"),
        None => format!("  no epoch up to {} is long enough for the proof", Assumptions::LONGEST),
    });
    let auto = matches!(loaded.run.epoch_length(), acrl::EpochLength::Auto(_));
    output.line(format!("  {} epoch {}", if auto { "auto chose" } else { "given is" }, theory.auto_epoch));
    if task.has_objective() {
        output.line(format!(
            "  step size {} promises an objective within {} of the optimum, plus beta at the epoch used",
            figure(theory.step_size, 4),
            figure(theory.promised_loss, 4)
        ));
        output.line(format!(
            "  for {} of the objective's range, plus beta, take step size {}",
            figure(theory.wanted_loss, 4),
            figure(theory.step_size_for_wanted_loss, 4)
        ));
    }
}

fn print_slater(report: &Report, slater: &Slater, output: &mut Output) {
    if !report.feasible {
        let names = report.conflict.as_deref().unwrap_or_default().join(", ");
        output.line(format!("(A1) {}: no policy meets {names}", styled(BAD, "fails")));
        output.line(format!("     the best slack is {}", figure(slater.constant, 5)));
        return;
    }
    output.line(if slater.constant > 1e-9 {
        let holds = styled(GOOD, "holds");
        format!("(A1) {holds}: every requirement can have slack C = {} at once", figure(slater.constant, 5))
    } else {
        format!("(A1) {}: the requirements can be met, but with no slack to spare", styled(BAD, "fails"))
    });
    output.line(match slater.mixture.len() {
        1 => "     attained by one deterministic policy".to_owned(),
        n => format!("     approached by switching between {n} policies, with longer and longer stays:"),
    });
    if slater.mixture.len() > 1 {
        for part in &slater.mixture {
            let values: Vec<String> =
                part.values.iter().map(|(n, v)| format!("{n} {}", figure(*v, 4))).collect();
            output.line(format!("       {:>6} of the time {}", figure(part.weight, 4), values.join(", ")));
        }
    }
}
