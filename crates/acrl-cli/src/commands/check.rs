//! `acrl check`.

use acrl::Direction;
use acrl_app::check::{Bias, CheckReport, Slater, Theory};
use acrl_app::{Check, CheckOptions, PolicyCheckReport, check};
use acrl_exact::assumptions::Assumptions;

use crate::ExitStatus;
use crate::args::{CheckArgs, Global};
use crate::output::{BAD, Cell, FAINT, GOOD, Output, STRONG, Table, number, styled};

/// Checks and prints.
pub(crate) fn run(args: &CheckArgs, global: &Global, output: &mut Output) -> anyhow::Result<ExitStatus> {
    let options = CheckOptions {
        execution: args.execution.options(None),
        seed: global.seed,
        max_suboptimality: args.max_suboptimality,
    };
    let input = args.source.open()?;
    let spinner = output.spinner("checking");
    let report = check(&args.source.input, input, &options)?;
    spinner.finish();
    if output.is_json() {
        output.object(&report)?;
    } else {
        match &report {
            Check::Model(report) => print(report, output),
            Check::Policy(report) => print_policy(report, output),
        }
    }
    Ok(ExitStatus::of(report.feasible()))
}

fn print_policy(report: &PolicyCheckReport, output: &mut Output) {
    output.line(format!("trained policy, measured under {} fixed weights", report.entries));
    output.line("");
    let row = |(name, r): (&str, &acrl_app::check_policy::RequirementCheck)| {
        [
            format!(
                "  {name} {} {}",
                if r.direction == Direction::AtLeast { ">=" } else { "<=" },
                number(r.bound, 5)
            ),
            format!("{} ± {}", number(r.best, 5), number(r.standard_error, 2)),
            number(r.worst, 5),
            r.price.map_or_else(|| "-".to_owned(), |price| number(price, 4)),
        ]
        .map(Cell::from)
        .into()
    };
    let note = "  best, worst: averages that single weights attain (± one standard error)";
    let head = ["  requirement", "best", "worst", "price"];
    output.table(&Table::new(head, report.requirements.iter().map(row), note));
    output.line("");
    output.line(match (&report.conflict, report.certain) {
        (Some(conflict), _) => format!(
            "{}: no mixture of what the policy was measured to do meets {} (best slack {} of a range)",
            styled(BAD, "out of reach"),
            conflict.join(" and "),
            number(report.slack, 3)
        ),
        (None, true) => {
            format!("{}: slack {} of a range at once", styled(GOOD, "within reach"), number(report.slack, 3))
        }
        (None, false) => format!(
            "{}: slack {} of a range at once, but {} with averages two standard errors worse",
            styled(STRONG, "probably within reach"),
            number(report.slack, 3),
            number(report.slack_cautious, 3)
        ),
    });
    if let Some(objective) = &report.objective {
        let cautious = objective.cautious.map_or_else(|| "out of reach".to_owned(), |x| number(x, 5));
        output.line(format!(
            "{}: {} is estimated; between {cautious} and {} at two standard errors",
            objective.reward,
            number(objective.estimate, 5),
            number(objective.optimistic, 5)
        ));
    }
    if report.mixture.len() > 1 {
        let what = if report.feasible {
            "by switching between"
        } else {
            "the best slack is that of switching between"
        };
        output.line(styled(FAINT, what));
    }
    for part in &report.mixture {
        let values: Vec<String> = part.values.iter().map(|(n, v)| format!("{n} {}", number(*v, 4))).collect();
        output.line(format!("  {:>6} of the time {}", number(part.weight, 4), values.join(", ")));
    }
    output.line("");
    output.line(styled(STRONG, "Settings"));
    let execution = &report.execution;
    let start: Vec<String> =
        execution.init_multipliers.iter().map(|(n, l)| format!("{n} {}", number(*l, 4))).collect();
    output.line(format!("  initial multipliers {}", start.join(", ")));
    output.line(format!("  step size {}, epoch {}", number(execution.step_size, 4), execution.epoch));
    if let Some(epoch) = execution.suggested_epoch {
        output.line(format!(
            "  from epoch {epoch} on, changes of behaviour cost at most 0.5 % of the objective's range"
        ));
    }
}

fn print(report: &CheckReport, output: &mut Output) {
    let kind = if report.communicating {
        "one end component: every mixture is attained with probability 1".to_owned()
    } else {
        format!("{} end components: a run ends in one of them", report.end_components)
    };
    output.line(format!("{} states, {} choices, {kind}", report.states, report.choices));
    for (name, [low, high]) in report.ranges.iter() {
        output
            .line(styled(FAINT, format!("  {name} ranges from {} to {}", number(*low, 4), number(*high, 4))));
    }
    output.line("");
    output.line(styled(FAINT, "Slacks, B, epsilon and beta are in units of the rewards' ranges."));
    if let Some(slater) = &report.slater {
        print_slater(report, slater, output);
    }
    let Some(theory) = &report.theory else { return };
    output.line(format!(
        "(A2) B^2 = {}: the largest squared distance of the rewards from their bounds",
        number(theory.squared_bound, 5)
    ));
    if let Some(bound) = theory.multiplier_bound {
        output.line(format!(
            "     with (A1): near the optimum the multipliers add up to at most {}",
            number(bound, 5)
        ));
    }
    output.line("");
    output.line(styled(STRONG, "Assumption 1: how far an epoch's averages can be off"));
    let row = |bias: &Bias| {
        [format!("  {}", bias.epoch), number(bias.epsilon, 4), number(bias.beta, 4)].map(Cell::from).into()
    };
    let note = "  epsilon: of the rewards, beta: of the Lagrangian; worst over the policies visited in a run";
    output.table(&Table::new(["  epoch", "epsilon", "beta"], theory.bias.iter().map(row), note));
    output.line("");
    output.line(styled(STRONG, "Assumption 2: drift back to the optimal multipliers"));
    let drift = &theory.drift;
    output.line(match drift.radius {
        Some(radius) => format!("  holds: from distance {} on it follows from (A1)", number(radius, 3)),
        None => "  cannot be shown without slack".to_owned(),
    });
    output.line(format!(
        "  the drift condition holds at {} of the {} visited multipliers (max. distance {})",
        drift.holds,
        drift.visited,
        number(drift.farthest, 3)
    ));
    output.line("");
    print_settings(report, theory, output);
}

fn print_settings(report: &CheckReport, theory: &Theory, output: &mut Output) {
    output.line(styled(STRONG, "Settings"));
    if !report.communicating {
        output.line(
            "  The theorems speak of one end component: with several, there is no guarantee for a single run.",
        );
        return;
    }
    output.line(format!(
        "  a change of behaviour takes up to {} steps on average",
        number(theory.switch_time, 3)
    ));
    output.line(match theory.suggested_epoch {
        Some(epoch) => format!("  epoch {epoch} is long enough for the proof (epsilon at most C)"),
        None => format!("  no epoch up to {} is long enough for the proof", Assumptions::LONGEST),
    });
    let auto = report.auto_epoch;
    output.line(format!("  {} epoch {}", if auto { "auto chose" } else { "given is" }, theory.auto_epoch));
    if report.objective.is_some() {
        output.line(format!(
            "  step size {} guarantees an objective within {} of the optimum, plus beta at the epoch used",
            number(theory.step_size, 4),
            number(theory.suboptimality_bound, 4)
        ));
        output.line(format!(
            "  for {} of the objective's range, plus beta, take step size {}",
            number(theory.max_suboptimality, 4),
            number(theory.step_size_for_max_suboptimality, 4)
        ));
    }
}

fn print_slater(report: &CheckReport, slater: &Slater, output: &mut Output) {
    if !report.feasible {
        let names = report.conflict.as_deref().unwrap_or_default().join(", ");
        output.line(format!("(A1) {}: no policy meets {names}", styled(BAD, "fails")));
        output.line(format!("     the best slack is {}", number(slater.constant, 5)));
        return;
    }
    output.line(if slater.constant > 1e-9 {
        let holds = styled(GOOD, "holds");
        format!("(A1) {holds}: every requirement can have slack C = {} at once", number(slater.constant, 5))
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
                part.values.iter().map(|(n, v)| format!("{n} {}", number(*v, 4))).collect();
            output.line(format!("       {:>6} of the time {}", number(part.weight, 4), values.join(", ")));
        }
    }
}
