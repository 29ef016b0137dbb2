//! Inner loops with the machine's best vector instructions.

use pulp::{Arch, NullaryFnOnce};

/// Calls `work` where the compiler may use all vector instructions that the machine has. It has to be marked
/// `#[inline(always)]`, and so has what it calls: a function that is called from there is compiled for any machine.
///
/// (`Arch::dispatch` itself wants an `FnOnce`: what it calls then is a shim around the closure, which is compiled apart from it, and
/// for any machine.)
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
