//! Environments with known optima, and the problem file that names them.
//!
//! Every environment is a [`acrl::FiniteCmdp`] with named rewards, so that each of them can be
//! solved exactly, trained on and run, and serves as everyone's test problem. One file each, documented
//! under the same headings.
//!
//! | environment | states | objective | requirements |
//! |---|---|---|---|
//! | [`monitoring`] | 3 | be at R0 | shares of time at R1, R2 (Example 1 of the paper) |
//! | [`patrol`] | N² | little effort | shares of time in four regions |
//! | [`queue`] | N + 1 | little power | mean queue, lost jobs |
//! | [`maintenance`] | K | output | time in poor condition, cost |
//!
//! An environment is made from a parameter struct by one fallible constructor; a value of its type
//! has been checked. [`problem`] is the problem file: one of these environments, or a model, with
//! what to achieve in it. [`bundled`] are the problem files that come with the program.
//!
//! ```
//! use acrl_envs::{Problem, Source};
//!
//! let problem = Problem::parse("environment.kind = 'monitoring'")?;
//! let Source::Model(model) = &problem.source else { unreachable!() };
//! assert_eq!(model.states(), 3);
//! assert_eq!(problem.specification.names(), ["r1", "r2"]);
//! # Ok::<(), acrl_envs::ProblemError>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod document;
mod inline;
pub mod maintenance;
pub mod monitoring;
mod parameter;
pub mod patrol;
pub mod problem;
pub mod queue;
#[cfg(test)]
mod test_support;

pub use document::ProblemError;
pub use maintenance::{Maintenance, MaintenanceParameters};
pub use monitoring::{Monitoring, MonitoringParameters};
pub use parameter::ParameterError;
pub use patrol::{Patrol, PatrolParameters};
pub use problem::{EpochSetting, Problem, RunSettings, Source, TrainSettings};
pub use queue::{Queue, QueueParameters, ServiceLevel};

/// A problem file that comes with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bundled {
    /// What `acrl init` calls it.
    pub name: &'static str,
    /// One line on what it is; the same as the file's `title`.
    pub summary: &'static str,
    /// The file, with its comments.
    pub text: &'static str,
}

/// The problem files that come with the program.
pub fn bundled() -> &'static [Bundled] {
    &[
        Bundled {
            name: "monitoring",
            summary: "Three states, a third of the time each: no weighting of the rewards does it",
            text: include_str!("../../../problems/monitoring.toml"),
        },
        Bundled {
            name: "patrol",
            summary: "A robot watches four corners of a slippery grid with little effort",
            text: include_str!("../../../problems/patrol.toml"),
        },
        Bundled {
            name: "queue",
            summary: "A server saves power while its queue stays short and few jobs are lost",
            text: include_str!("../../../problems/queue.toml"),
        },
        Bundled {
            name: "maintenance",
            summary: "A machine that wears out: produce, within a budget, rarely in poor condition",
            text: include_str!("../../../problems/maintenance.toml"),
        },
        Bundled {
            name: "inline",
            summary: "A robot and its battery: a template for a model of your own",
            text: include_str!("../../../problems/inline.toml"),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundled_problem_parses_and_is_titled_as_listed() {
        for file in bundled() {
            let problem = Problem::parse(file.text).unwrap_or_else(|e| panic!("{}: {e}", file.name));
            assert_eq!(problem.title.as_deref(), Some(file.summary), "{}", file.name);
            assert!(!problem.specification.requirements().is_empty(), "{}", file.name);
        }
    }

    #[test]
    fn the_bundled_files_say_what_the_environments_default_to() {
        for (name, kind) in [
            ("monitoring", "monitoring"),
            ("patrol", "patrol"),
            ("queue", "queue"),
            ("maintenance", "maintenance"),
        ] {
            let file = bundled().iter().find(|b| b.name == name).unwrap();
            let default = Problem::parse(&format!("[environment]\nkind = '{kind}'")).unwrap();
            let problem = Problem::parse(file.text).unwrap();
            assert_eq!(problem.source, default.source, "{name}");
            assert_eq!(problem.specification, default.specification, "{name}");
        }
    }

    #[test]
    fn the_inline_problem_has_the_optimum_its_comment_tells() {
        let file = bundled().iter().find(|b| b.name == "inline").unwrap();
        let problem = Problem::parse(file.text).unwrap();
        let Source::Model(model) = &problem.source else { panic!("not a model") };
        test_support::assert_stochastic(model);
        let dual = test_support::dual_value(model, &problem.specification, &[0.75, 2.5]);
        assert!((dual - 0.5375).abs() < 1e-9, "{dual}");
    }
}
