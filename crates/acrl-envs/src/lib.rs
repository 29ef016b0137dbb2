//! Environments with known optima, and the problem file that names them.
//!
//! One file each, documented under the same headings. The finite ones are an [`acrl::FiniteCmdp`] with
//! named rewards, so that each of them can be solved exactly; the continuous ones an
//! [`acrl::VecEnv`], many copies of which step together. All of them can be trained on and run, and serve
//! as everyone's test problems.
//!
//! | finite | states | objective | requirements |
//! |---|---|---|---|
//! | [`monitoring`] | 3 | be at R0 | shares of time at R1, R2 (Example 1 of the paper) |
//! | [`patrol`] | N² | little effort | shares of time in four regions |
//! | [`queue`] | N + 1 | little power | mean queue, lost jobs |
//! | [`maintenance`] | K | output | time in poor condition, cost |
//! | [`power`] | 4 (N + 1) | little power | mean queue, lost jobs |
//! | [`inventory`] | S + 1 | little cost | served demand, mean stock |
//!
//! | continuous | states | actions | objective | requirements |
//! |---|---|---|---|---|
//! | [`planar`] | position | velocity | none, be at home, or little energy | shares of time in regions (Section IV of the paper) |
//! | [`wireless`] | fading channels | user and power | sum rate | each user's rate, power |
//! | [`drone`] | position, velocity, wind | thrust | little energy, or be at home | shares of time in regions |
//! | [`external`] | hidden | as described | any | any: it is outside of the program |
//!
//! [`regions`] are the shapes of regions. [`RandomPlanar`] draws random planar problems.
//!
//! An environment is made from a parameter struct by one fallible constructor; a value of its type
//! has been checked. [`problem`] is the problem file: one of these environments, or a model, with objective and
//! requirements. [`bundled`] are the problem files that come with the program.
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

mod batch;
mod document;
pub mod drone;
pub mod external;
mod inline;
pub mod inventory;
pub mod maintenance;
pub mod monitoring;
mod parameter;
pub mod patrol;
pub mod planar;
mod planar_grid;
mod planar_random;
pub mod power;
pub mod problem;
pub mod queue;
pub mod regions;
mod settings;
pub mod wireless;

pub use document::ProblemError;
pub use drone::{Drone, DroneParameters};
pub use external::{External, ExternalAction, ExternalParameters, ExternalReward};
pub use inventory::{Inventory, InventoryParameters};
pub use maintenance::{Maintenance, MaintenanceParameters};
pub use monitoring::{Monitoring, MonitoringParameters};
pub use parameter::ParameterError;
pub use patrol::{Patrol, PatrolParameters};
pub use planar::{Planar, PlanarParameters};
pub use planar_random::{RandomObjective, RandomPlanar};
pub use power::{Power, PowerParameters};
pub use problem::{Continuous, Problem, Source};
pub use queue::{Queue, QueueParameters, ServiceLevel};
pub use regions::{Region, Shape};
pub use settings::{RunSettings, TrainSection};
pub use wireless::{User, Wireless, WirelessParameters};

/// A problem file that comes with the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bundled {
    /// Name, as in `acrl init NAME`.
    pub name: &'static str,
    /// One line on what it is; the same as the file's `title`.
    pub summary: &'static str,
    /// The file, with its comments.
    pub text: &'static str,
}

macro_rules! bundled {
    ($($name:literal: $summary:literal,)*) => {
        &[$(Bundled {
            name: $name,
            summary: $summary,
            text: include_str!(concat!("../problems/", $name, ".toml")),
        }),*]
    };
}

/// The problem files that come with the program.
pub fn bundled() -> &'static [Bundled] {
    bundled! {
        "monitoring": "Three states, a third of the time each: no weighting of the rewards does it",
        "patrol": "A robot watches four corners of a slippery grid with little effort",
        "queue": "A server saves power while its queue stays short and few jobs are lost",
        "maintenance": "A machine that wears out: produce, within a budget, rarely in poor condition",
        "power": "A server sleeps to save power: its changes of mode are slow, its queue is bounded",
        "inventory": "A shop orders at a fixed cost: serve nearly all demand from little stock",
        "planar": "An agent in a box watches four regions: the paper's continuous example",
        "planar-speed": "The four regions again, with a speed limit: travelling takes time",
        "planar-home": "Be at home as much as the four regions allow",
        "wireless": "A base station serves near and far users over fading channels on a power budget",
        "drone": "A drone with inertia watches three regions in gusts of wind, with little energy",
        "inline": "A robot and its battery: a template for a model of your own",
    }
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
    fn bundled_files_equal_the_defaults_of_the_environments() {
        let home = "home = { shape = 'disc', centre = [5, 5], radius = 1 }";
        for (name, environment) in [
            ("monitoring", "kind = 'monitoring'"),
            ("patrol", "kind = 'patrol'"),
            ("queue", "kind = 'queue'"),
            ("maintenance", "kind = 'maintenance'"),
            ("power", "kind = 'power'"),
            ("inventory", "kind = 'inventory'"),
            ("planar", "kind = 'planar'"),
            ("planar-speed", "kind = 'planar'\nspeed_limit = 2"),
            ("planar-home", &format!("kind = 'planar'\nspeed_limit = 2\n{home}")),
            ("wireless", "kind = 'wireless'"),
            ("drone", "kind = 'drone'"),
        ] {
            let file = bundled().iter().find(|b| b.name == name).unwrap();
            let default = Problem::parse(&format!("[environment]\n{environment}")).unwrap();
            let problem = Problem::parse(file.text).unwrap();
            assert_eq!(problem.source, default.source, "{name}");
            assert_eq!(problem.specification, default.specification, "{name}");
        }
    }
}

/// The example of README.md, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
