//! Policies that act: the exact π(λ), the policy set of a solution, and time sharing between them.

mod deterministic;
mod exact;
mod policy_set;
mod redirect;
mod time_sharing;

pub(crate) use deterministic::DeterministicPolicy;
pub use exact::ExactPolicy;
pub use policy_set::{Executable, ExecutableComponent, PolicySetExecutor, SETTLE};
pub use redirect::redirect_slow_states;
pub use time_sharing::TimeSharingExecutor;
