//! Small neural networks near hardware peak: forward pass, backward pass, Adam.
//!
//! Made for the policies and value functions of reinforcement learning: a few layers of 16 to 256 units, a linear
//! output, batches of 16 to a few thousand samples, one core.
//!
//! | item | contents |
//! |---|---|
//! | [`Batch`] | features × samples, feature-major: row `k` holds feature `k` of every sample |
//! | [`Mlp`] | tanh or ReLU layers and a linear output, all parameters in one flat vector |
//! | [`Workspace`] | preallocated activations, so that nothing is allocated in a training loop |
//! | [`Adam`], [`clip_norm`] | the optimiser and gradient norm clipping |
//! | [`polyak_update`] | averaging of parameters, for target networks |
//! | [`tanh`], [`exp`] | vectorised functions over slices |
//! | [`normals`] | standard normal random numbers from random bits |
//! | [`Instructions`] | AVX-512, AVX2 with FMA, or portable code; selected at run time |
//!
//! **Reproducibility.** A sample's output is bit-identical at every position of a batch of any size. AVX-512, AVX2 and
//! portable code agree within rounding and the error of [`tanh`], of which there are two approximations.
//!
//! ```
//! use acrl_nn::{Adam, Batch, Mlp, Workspace};
//! use rand_core::SeedableRng;
//! use rand_xoshiro::Xoshiro256PlusPlus;
//!
//! let mut rng = Xoshiro256PlusPlus::seed_from_u64(0); // any rand_core::Rng
//! let mut net = Mlp::new(&[1, 16, 1], 1.0, &mut rng)?;
//! let (mut adam, mut work) = (Adam::new(net.parameters().len()), Workspace::new(&net, 64));
//! let mut x = Batch::new(1, 64);
//! x.row_mut(0).iter_mut().enumerate().for_each(|(b, x)| *x = b as f32 / 32.0 - 1.0);
//!
//! // Fit y = x² by least squares.
//! let (mut error, mut gradient) = (Batch::new(1, 64), vec![0.0; net.parameters().len()]);
//! let mut loss = f32::INFINITY;
//! for _ in 0..1000 {
//!     let y = net.forward(&x, &mut work);
//!     for b in 0..64 {
//!         error.row_mut(0)[b] = (y.row(0)[b] - x.row(0)[b].powi(2)) / 64.0;
//!     }
//!     loss = error.row(0).iter().map(|e| 64.0 * e * e).sum();
//!     gradient.fill(0.0);
//!     net.backward(&mut work, &error, &mut gradient);
//!     adam.step(net.parameters_mut(), &gradient, 0.03);
//! }
//! assert!(loss < 1e-3);
//! # Ok::<(), acrl_nn::ShapeError>(())
//! ```

mod adam;
mod batch;
mod gradient;
mod init;
mod isa;
mod kernels;
mod layer_norm;
mod math;
mod mlp;
mod normal;
mod polyak;
mod workspace;

pub use adam::{Adam, clip_norm};
pub use batch::Batch;
pub use isa::Instructions;
pub use math::{exp, tanh};
pub use mlp::{Activation, Mlp, ShapeError};
pub use normal::normals;
pub use polyak::polyak_update;
pub use workspace::Workspace;

/// The example of README.md, as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
