//! Dispatch of inner loops to the vector instructions of the machine.

use pulp::{Arch, NullaryFnOnce};

/// Calls `work`, compiled for all vector instructions that the machine has. The closure must be marked
/// `#[inline(always)]`, and so must the functions it calls: others are compiled for the baseline.
///
/// (`Arch::dispatch` takes an `FnOnce`, which it calls through a shim that is compiled for the baseline.)
#[inline(always)]
pub(crate) fn vectorised<R>(work: impl FnMut() -> R) -> R {
    Arch::new().dispatch(Inlined(work))
}

struct Inlined<F>(F);

impl<R, F: FnMut() -> R> NullaryFnOnce for Inlined<F> {
    type Output = R;

    #[inline(always)]
    fn call(mut self) -> R {
        (self.0)()
    }
}
