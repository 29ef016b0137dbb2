//! Polyak averaging of parameters (Polyak & Juditsky 1992), as of target networks.

use crate::batch::TILE;
use crate::isa::{Instructions, Isa, Kernel, dispatch};

struct Average<'a> {
    target: &'a mut [f32],
    source: &'a [f32],
    tau: f32,
}

impl Kernel for Average<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let tau = isa.splat(self.tau);
        let average = |target: &mut [f32; TILE], source: &[f32; TILE]| {
            let (t, s) = (isa.load(target), isa.load(source));
            isa.store(isa.mul_add(tau, isa.sub(s, t), t), target);
        };
        let (target, target_rest) = self.target.as_chunks_mut::<TILE>();
        let (source, source_rest) = self.source.as_chunks::<TILE>();
        target.iter_mut().zip(source).for_each(|(target, source)| average(target, source));
        let mut last = [[0.0; TILE]; 2];
        last[0][..target_rest.len()].copy_from_slice(target_rest);
        last[1][..source_rest.len()].copy_from_slice(source_rest);
        let [target, source] = &mut last;
        average(target, source);
        target_rest.copy_from_slice(&target[..target_rest.len()]);
    }
}

/// θ′ ← θ′ + τ (θ − θ′).
///
/// ```
/// let mut target = [1.0, 2.0];
/// acrl_nn::polyak_update(&mut target, &[3.0, 2.0], 0.25);
/// assert_eq!(target, [1.5, 2.0]);
/// ```
///
/// # Panics
/// If the parameters of one are not as many as those of the other.
pub fn polyak_update(target: &mut [f32], source: &[f32], tau: f32) {
    assert_eq!(target.len(), source.len(), "number of parameters");
    dispatch(Instructions::best(), Average { target, source, tau });
}
