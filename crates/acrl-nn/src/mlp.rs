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

/// The activation σ of hidden layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// tanh x.
    #[default]
    Tanh,
    /// max(x, 0).
    Relu,
}

impl Activation {
    fn is_tanh(&self) -> bool {
        *self == Self::Tanh
    }
}

/// A multilayer perceptron: x₀ = input, xₗ = σ(Wₗ xₗ₋₁ + cₗ), output = W x + c.
///
/// The parameters are one vector: layer by layer, the weights W row by row (a row per output of the layer), then c.
///
/// The [`Activation`] σ is tanh unless another is [chosen](Mlp::with_activation). Hidden layers may have
/// [layer normalisation](Mlp::with_layer_norm); their parameters are then followed by the gains g and shifts b.
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
    #[serde(skip_serializing_if = "Activation::is_tanh")]
    activation: Activation,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    layer_norm: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    shape: Vec<usize>,
    parameters: Vec<f32>,
    #[serde(default)]
    activation: Activation,
    #[serde(default)]
    layer_norm: bool,
}

impl TryFrom<Stored> for Mlp {
    type Error = ShapeError;

    fn try_from(stored: Stored) -> Result<Self, ShapeError> {
        let Stored { shape, parameters, activation, layer_norm } = stored;
        if layer_norm {
            Self::from_normalized_parameters(&shape, parameters, activation)
        } else {
            Ok(Self::from_parameters(&shape, parameters)?.with_activation(activation))
        }
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

/// The number of gains and shifts of a shape with layer normalisation.
fn norms(shape: &[usize]) -> usize {
    2 * shape.iter().skip(1).rev().skip(1).sum::<usize>()
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
        let mut net = Self {
            shape: shape.to_vec(),
            parameters: vec![0.0; count(shape)?],
            activation: Activation::Tanh,
            layer_norm: false,
        };
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
        Ok(Self { shape: shape.to_vec(), parameters, activation: Activation::Tanh, layer_norm: false })
    }

    /// A network with layer normalisation and these parameters, in the order of [`Mlp::parameters`].
    pub fn from_normalized_parameters(
        shape: &[usize],
        parameters: Vec<f32>,
        activation: Activation,
    ) -> Result<Self, ShapeError> {
        let (expected, found) = (count(shape)? + norms(shape), parameters.len());
        if expected != found {
            return Err(ShapeError::Parameters { expected, found });
        }
        Ok(Self { shape: shape.to_vec(), parameters, activation, layer_norm: true })
    }

    /// The same network with another activation of its hidden layers.
    pub fn with_activation(mut self, activation: Activation) -> Self {
        self.activation = activation;
        self
    }

    /// The same network with layer normalisation (Ba et al. 2016) between the sums and the activation of each hidden
    /// layer: xₗ = σ(g (u − mean u)/√(var u + 10⁻⁵) + b) with u = Wₗ xₗ₋₁ + cₗ, gains g = 1 and shifts b = 0.
    pub fn with_layer_norm(mut self) -> Self {
        if self.layer_norm {
            return self;
        }
        let mut parameters = Vec::with_capacity(self.parameters.len() + norms(&self.shape));
        for l in 0..self.shape.len() - 1 {
            let (start, m) = (self.weights_of(l).start, self.shape[l + 1]);
            parameters.extend(&self.parameters[start..][..(self.shape[l] + 1) * m]);
            if l + 2 < self.shape.len() {
                parameters.extend(std::iter::repeat_n(1.0, m).chain(std::iter::repeat_n(0.0, m)));
            }
        }
        self.parameters = parameters;
        self.layer_norm = true;
        self
    }

    /// The activation of hidden layers.
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// Whether hidden layers are normalised.
    pub fn has_layer_norm(&self) -> bool {
        self.layer_norm
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
        let more = if self.layer_norm { 3 } else { 1 };
        let start = self.shape[..=l].windows(2).map(|n| (n[0] + more) * n[1]).sum();
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

    /// The gains and the shifts of hidden layer `l` in a vector laid out like the parameters.
    pub(crate) fn norm(&self, l: usize) -> (&[f32], &[f32]) {
        let start = self.weights_of(l).end + self.shape[l + 1];
        self.parameters[start..][..2 * self.shape[l + 1]].split_at(self.shape[l + 1])
    }

    /// The gains and the shifts of hidden layer `l` in a vector laid out like the parameters.
    pub(crate) fn norm_of<'a>(&self, l: usize, gradient: &'a mut [f32]) -> (&'a mut [f32], &'a mut [f32]) {
        let start = self.weights_of(l).end + self.shape[l + 1];
        gradient[start..][..2 * self.shape[l + 1]].split_at_mut(self.shape[l + 1])
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
        assert!(work.fits(self), "the workspace is not made for the shape {:?}", self.shape);
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
        self.back(work, d_output, Some(gradient), None);
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
        self.back(work, d_output, Some(gradient), Some(d_input));
    }

    /// Writes the sum over outputs of d_output · ∂output/∂input of each sample to `d_input`, as
    /// [`Mlp::backward_to_input`] does, without the gradient by the parameters.
    ///
    /// # Panics
    /// As [`Mlp::backward_to_input`].
    pub fn input_gradient(&self, work: &mut Workspace, d_output: &Batch, d_input: &mut Batch) {
        assert_eq!(d_input.rows(), self.shape[0], "rows of d_input and inputs of the network");
        d_input.set_batch_size(d_output.batch_size());
        self.back(work, d_output, None, Some(d_input));
    }

    fn back(
        &self,
        work: &mut Workspace,
        d_output: &Batch,
        gradient: Option<&mut [f32]>,
        d_input: Option<&mut Batch>,
    ) {
        assert!(work.fits(self), "the workspace is not made for the shape {:?}", self.shape);
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
        if let Some(gradient) = &gradient {
            assert_eq!(
                gradient.len(),
                self.parameters.len(),
                "length of the gradient and number of parameters"
            );
        }
        dispatch(work.instructions(), Backward { net: self, work, d_output, gradient, d_input });
    }
}
