//! Policies that act: the exact π(λ), the policy set of a solution, and time sharing between them.

mod deterministic;
mod exact;
mod executable;
mod lead_home;
mod mixture;
mod plan;
mod planner;
mod redirect;

pub(crate) use deterministic::DeterministicPolicy;
pub use exact::ExactPolicy;
pub use executable::{Executable, ExecutableComponent, SETTLE};
pub use mixture::{MixtureExecutor, MixtureState};
pub use plan::{ExecutionPlan, PlanOptions, Realisation};
pub use redirect::redirect_slow_states;
