//! Small neural networks at the machine's limit: forward, backward, Adam.
//!
//! Made for policies and values of reinforcement learning: a few tanh layers some dozen units wide, a linear output,
//! batches of 16 to some thousand samples, one core.
//!
//! | item | what it is |
//! |---|---|
//! | [`Batch`] | rows × samples, feature-major: row `k` holds feature `k` of every sample |
//! | [`Mlp`] | tanh layers and a linear output, all parameters in one flat vector |
//! | [`Workspace`] | memory for up to so many samples, so that nothing is allocated in a loop |
//! | [`Adam`], [`clip_norm`] | the optimiser and the usual bound on the gradient's norm |
//! | [`tanh`], [`exp`] | the same functions over slices |
//! | [`normals`] | normal random numbers out of random bits |
//! | [`Instructions`] | AVX-512, AVX2 with FMA, or portable code; the best one is found at run time |
//!
//! **Same numbers.** A sample's output is the same to the bit wherever the sample is and however many samples there are.
//! AVX-512, AVX2 and portable code agree within rounding and the error of [`tanh`], which is made in two ways.
//!
//! ```
//! use acrl_nn::{Adam, Batch, Mlp, Workspace};
//!
//! let mut net = Mlp::new(&[1, 16, 1], 1.0, &mut acrl::Rng::new(0))?;
//! let (mut adam, mut work) = (Adam::new(net.parameters().len()), Workspace::new(&net, 64));
//! let mut x = Batch::new(1, 64);
//! x.row_mut(0).iter_mut().enumerate().for_each(|(b, x)| *x = b as f32 / 32.0 - 1.0);
//!
//! // Learns y = x² by least squares.
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
mod math;
mod mlp;
mod normal;
mod workspace;

pub use adam::{Adam, clip_norm};
pub use batch::Batch;
pub use isa::Instructions;
pub use math::{exp, tanh};
pub use mlp::{Mlp, ShapeError};
pub use normal::normals;
pub use workspace::Workspace;
