//! The multilayer perceptron: shape, parameters, forward and backward pass.

use crate::batch::Batch;
use crate::init::orthogonal;
use crate::isa::dispatch;
use crate::kernels::Layer;
use crate::workspace::{Backward, Forward, Workspace};
use rand_core::Rng;
use serde::{Deserialize, Serialize};

/// An invalid shape, or parameters that do not fit it.
#[allow(missing_docs, reason = "the messages say what the fields are")]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Fewer than two widths.
    #[error("a network needs the widths of its input and its output, but its shape has {0} widths")]
    TooShort(usize),
    /// A width of zero.
    #[error("width {0} of the network's shape is 0, but a layer has at least one unit")]
    Empty(usize),
    /// More parameters than memory can hold.
    #[error("a network of this shape has more parameters than can be counted")]
    TooLarge,
    /// The wrong number of parameters.
    #[error("a network of this shape has {expected} parameters, not {found}")]
    Parameters { expected: usize, found: usize },
}

/// A multilayer perceptron: x₀ = input, xₗ = tanh(Wₗ xₗ₋₁ + cₗ), output = W x + c.
///
/// The parameters are one vector: layer by layer, the weights W row by row (a row per output of the layer), then c.
///
/// ```
/// use acrl_nn::{Batch, Mlp, Workspace};
///
/// let net = Mlp::from_parameters(&[2, 1], vec![1.0, 10.0, 0.5])?;
/// let mut x = Batch::new(2, 3);
/// x.row_mut(0).copy_from_slice(&[1.0, 2.0, 3.0]);
/// let mut work = Workspace::new(&net, 3);
/// assert_eq!(net.forward(&x, &mut work).row(0), [1.5, 2.5, 3.5]);
/// # Ok::<(), acrl_nn::ShapeError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct Mlp {
    shape: Vec<usize>,
    parameters: Vec<f32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    shape: Vec<usize>,
    parameters: Vec<f32>,
}

impl TryFrom<Stored> for Mlp {
    type Error = ShapeError;

    fn try_from(stored: Stored) -> Result<Self, ShapeError> {
        Self::from_parameters(&stored.shape, stored.parameters)
    }
}

/// The number of parameters of a shape.
fn count(shape: &[usize]) -> Result<usize, ShapeError> {
    if shape.len() < 2 {
        return Err(ShapeError::TooShort(shape.len()));
    }
    if let Some(layer) = shape.iter().position(|&n| n == 0) {
        return Err(ShapeError::Empty(layer));
    }
    let layers = shape.windows(2).map(|n| n[0].checked_add(1)?.checked_mul(n[1]));
    let sum = layers.into_iter().try_fold(0_usize, |sum, n| sum.checked_add(n?));
    sum.filter(|&n| n <= isize::MAX as usize / 64).ok_or(ShapeError::TooLarge)
}

impl Mlp {
    /// A network with the widths `shape` (input, hidden layers, output), orthogonal weights and zero biases.
    ///
    /// The gain of hidden layers is √2, that of the output `output_gain`.
    pub fn new(shape: &[usize], output_gain: f32, rng: &mut (impl Rng + ?Sized)) -> Result<Self, ShapeError> {
        let mut gains = vec![std::f32::consts::SQRT_2; shape.len().saturating_sub(1)];
        if let Some(gain) = gains.last_mut() {
            *gain = output_gain;
        }
        Self::with_gains(shape, &gains, rng)
    }

    /// A network with orthogonal weights and a gain for each layer; a layer without one gets 1.
    pub fn with_gains(
        shape: &[usize],
        gains: &[f32],
        rng: &mut (impl Rng + ?Sized),
    ) -> Result<Self, ShapeError> {
        let mut net = Self { shape: shape.to_vec(), parameters: vec![0.0; count(shape)?] };
        for l in 0..shape.len() - 1 {
            let gain = gains.get(l).copied().unwrap_or(1.0);
            let range = net.weights_of(l);
            orthogonal(&mut net.parameters[range], shape[l], gain, rng);
        }
        Ok(net)
    }

    /// A network with these parameters, in the order of [`Mlp::parameters`].
    pub fn from_parameters(shape: &[usize], parameters: Vec<f32>) -> Result<Self, ShapeError> {
        let (expected, found) = (count(shape)?, parameters.len());
        if expected != found {
            return Err(ShapeError::Parameters { expected, found });
        }
        Ok(Self { shape: shape.to_vec(), parameters })
    }

    /// The widths of input, hidden layers and output.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// All parameters.
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// All parameters, to be changed.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }

    /// The range of the weights of layer `l` in the parameters.
    fn weights_of(&self, l: usize) -> std::ops::Range<usize> {
        let start = self.shape[..=l].windows(2).map(|n| (n[0] + 1) * n[1]).sum();
        start..start + self.shape[l] * self.shape[l + 1]
    }

    /// Layer `l`.
    pub(crate) fn layer(&self, l: usize) -> Layer<'_> {
        Layer::split(&self.parameters[self.weights_of(l).start..], self.shape[l], self.shape[l + 1]).0
    }

    /// The weights and the bias of layer `l` in a vector laid out like the parameters.
    pub(crate) fn layer_of<'a>(&self, l: usize, gradient: &'a mut [f32]) -> (&'a mut [f32], &'a mut [f32]) {
        let weights = self.weights_of(l);
        gradient[weights.start..weights.end + self.shape[l + 1]].split_at_mut(weights.len())
    }

    /// The output for every sample of the input; keeps the activations for [`Mlp::backward`].
    ///
    /// # Panics
    /// If the workspace was made for another shape, for inference or for fewer samples, or if the input has not as many
    /// rows as the network has inputs.
    pub fn forward<'a>(&self, input: &Batch, work: &'a mut Workspace) -> &'a Batch {
        assert!(
            work.can_keep(input.batch_size()),
            "the workspace cannot keep the activations of {} samples",
            input.batch_size()
        );
        self.pass(input, work, true)
    }

    /// The output for every sample of the input, without keeping activations.
    ///
    /// # Panics
    /// If the workspace was made for another shape or for fewer samples, or if the input has not as many rows as the
    /// network has inputs.
    pub fn infer<'a>(&self, input: &Batch, work: &'a mut Workspace) -> &'a Batch {
        self.pass(input, work, false)
    }

    fn pass<'a>(&self, input: &Batch, work: &'a mut Workspace, keep: bool) -> &'a Batch {
        assert!(work.fits(&self.shape), "the workspace is not made for the shape {:?}", self.shape);
        assert_eq!(input.rows(), self.shape[0], "rows of the input and inputs of the network");
        assert!(
            input.batch_size() <= work.batch_size(),
            "{} samples in a workspace for {}",
            input.batch_size(),
            work.batch_size()
        );
        dispatch(work.instructions(), Forward { net: self, input, work, keep });
        work.output()
    }

    /// *Adds* to `gradient`, laid out like the parameters θ, the sum over samples and outputs of d_output · ∂output/∂θ.
    ///
    /// # Panics
    /// If the last pass through the workspace was not [`Mlp::forward`] with as many samples as `d_output`, or if the
    /// number of its rows or the length of the gradient is not the network's.
    pub fn backward(&self, work: &mut Workspace, d_output: &Batch, gradient: &mut [f32]) {
        self.back(work, d_output, gradient, None);
    }

    /// [`Mlp::backward`] that also writes the derivative by the input to `d_input`.
    ///
    /// # Panics
    /// As [`Mlp::backward`], and if `d_input` has not the rows of the input or too little room for its samples.
    pub fn backward_to_input(
        &self,
        work: &mut Workspace,
        d_output: &Batch,
        gradient: &mut [f32],
        d_input: &mut Batch,
    ) {
        assert_eq!(d_input.rows(), self.shape[0], "rows of d_input and inputs of the network");
        d_input.set_batch_size(d_output.batch_size());
        self.back(work, d_output, gradient, Some(d_input));
    }

    fn back(
        &self,
        work: &mut Workspace,
        d_output: &Batch,
        gradient: &mut [f32],
        d_input: Option<&mut Batch>,
    ) {
        assert!(work.fits(&self.shape), "the workspace is not made for the shape {:?}", self.shape);
        assert_eq!(
            work.kept(),
            Some(d_output.batch_size()),
            "samples of the last forward pass and of d_output"
        );
        assert_eq!(
            d_output.rows(),
            self.shape[self.shape.len() - 1],
            "rows of d_output and outputs of the network"
        );
        assert_eq!(gradient.len(), self.parameters.len(), "length of the gradient and number of parameters");
        dispatch(work.instructions(), Backward { net: self, work, d_output, gradient, d_input });
    }
}
