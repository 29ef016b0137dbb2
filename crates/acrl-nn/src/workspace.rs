//! Preallocated memory of the forward and backward pass, and the passes themselves.

use crate::batch::{Batch, TILE};
use crate::gradient::{self, Blocks, turned};
use crate::isa::{Instructions, Isa, Kernel, Line};
use crate::kernels::{self, BLOCK, NONE, RELU, Row, TANH, ZERO, height};
use crate::layer_norm;
use crate::mlp::{Activation, Mlp};

/// Blocks whose gradient is added up in registers before it goes to memory: 256 samples, few enough for the second-level cache.
const CHUNK: usize = 8;

/// Preallocated memory for networks of one shape and batches up to a maximal size.
#[derive(Debug, Clone)]
pub struct Workspace {
    shape: Vec<usize>,
    batch_size: usize,
    instructions: Instructions,
    /// The inputs of each layer, block by block.
    inputs: Vec<Vec<Row>>,
    /// The inputs of wide layers, transposed: the features of a sample are contiguous.
    turned: Vec<Vec<Line>>,
    /// The normalised sums of each hidden layer with layer normalisation, block by block.
    normalized: Vec<Vec<Row>>,
    /// The inverse standard deviation of each sample's sums in these layers, a row per block.
    inverse_stds: Vec<Vec<Row>>,
    /// The output of one block.
    last: Vec<Row>,
    /// The derivatives on either side of a layer, for a chunk.
    deltas: [Vec<Row>; 2],
    /// The sums over samples of the rows of `deltas`, one line each.
    sums: Vec<Line>,
    /// The same of the derivatives by the gains of layer normalisation.
    gain_sums: Vec<Line>,
    output: Batch,
    /// The number of samples of the last forward pass, if its activations are kept.
    kept: Option<usize>,
}

impl Workspace {
    /// A workspace for training on up to `batch_size` samples.
    pub fn new(net: &Mlp, batch_size: usize) -> Self {
        Self::with_blocks(net, batch_size, batch_size.div_ceil(BLOCK))
    }

    /// A workspace for [`Mlp::infer`] on up to `batch_size` samples; activations take the memory of one block.
    pub fn for_inference(net: &Mlp, batch_size: usize) -> Self {
        Self::with_blocks(net, batch_size, 0)
    }

    fn with_blocks(net: &Mlp, batch_size: usize, blocks: usize) -> Self {
        let shape = net.shape().to_vec();
        let widest = shape.iter().copied().max().unwrap_or(0);
        let (outputs, hidden) = (shape[shape.len() - 1], &shape[..shape.len() - 1]);
        let norms = if net.has_layer_norm() { &hidden[1..] } else { &[] };
        Self {
            batch_size,
            instructions: Instructions::best(),
            inputs: hidden.iter().map(|n| vec![ZERO; height(*n) * blocks.max(1)]).collect(),
            normalized: norms.iter().map(|n| vec![ZERO; height(*n) * blocks.max(1)]).collect(),
            inverse_stds: norms.iter().map(|_| vec![ZERO; blocks.max(1)]).collect(),
            last: vec![ZERO; outputs],
            deltas: [(); 2].map(|()| vec![ZERO; height(widest) * blocks.min(CHUNK)]),
            sums: vec![Line::ZERO; widest],
            gain_sums: vec![Line::ZERO; if norms.is_empty() { 0 } else { widest }],
            turned: shape.windows(2).map(|n| vec![Line::ZERO; turned(n[0], n[1]) * BLOCK * blocks]).collect(),
            output: Batch::new(outputs, batch_size),
            kept: None,
            shape,
        }
    }

    /// Selects an instruction set; one that the machine lacks is replaced by the next best.
    pub fn with_instructions(mut self, instructions: Instructions) -> Self {
        self.instructions = instructions;
        self
    }

    /// The selected instruction set.
    pub fn instructions(&self) -> Instructions {
        self.instructions
    }

    /// The largest number of samples.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// The output of the last forward pass.
    pub fn output(&self) -> &Batch {
        &self.output
    }

    /// The number of samples of the last forward pass if its activations are kept.
    pub(crate) fn kept(&self) -> Option<usize> {
        self.kept
    }

    /// True if the activations of `batch_size` samples can be kept.
    pub(crate) fn can_keep(&self, batch_size: usize) -> bool {
        self.inputs
            .iter()
            .zip(&self.shape)
            .all(|(rows, n)| rows.len() >= height(*n) * batch_size.div_ceil(BLOCK))
    }

    /// True if it was made for networks of this kind.
    pub(crate) fn fits(&self, net: &Mlp) -> bool {
        self.shape == net.shape()
            && self.normalized.len() == if net.has_layer_norm() { self.shape.len() - 2 } else { 0 }
    }
}

/// The number of vectors in block `block` of a batch.
#[inline(always)]
fn lines(batch_size: usize, block: usize) -> usize {
    (batch_size - block * BLOCK).min(BLOCK).div_ceil(TILE)
}

/// Copies a block out of a batch, with zeros in samples beyond the last.
#[inline(always)]
fn pack(batch: &Batch, block: usize, to: &mut [Row]) {
    for (k, to) in to.iter_mut().enumerate() {
        let from = &batch.row(k)[block * BLOCK..];
        for (line, to) in to.iter_mut().enumerate() {
            let from = from.get(line * TILE..).unwrap_or(&[]);
            if let Some(from) = from.first_chunk::<TILE>() {
                to.0 = *from;
            } else {
                to.0 = std::array::from_fn(|i| from.get(i).copied().unwrap_or(0.0));
            }
        }
    }
}

/// Copies a block into a batch.
#[inline(always)]
fn unpack(from: &[Row], block: usize, batch: &mut Batch) {
    for (k, from) in from.iter().enumerate() {
        let to = &mut batch.row_mut(k)[block * BLOCK..];
        for (to, from) in to.chunks_mut(TILE).zip(from) {
            to.copy_from_slice(&from.0[..to.len()]);
        }
    }
}

/// The forward pass.
pub(crate) struct Forward<'a> {
    pub(crate) net: &'a Mlp,
    pub(crate) input: &'a Batch,
    pub(crate) work: &'a mut Workspace,
    /// Keep the activations for a backward pass.
    pub(crate) keep: bool,
}

impl Kernel for Forward<'_> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Workspace { shape, inputs, turned, normalized, inverse_stds, last, output, kept, .. } = self.work;
        let batch_size = self.input.batch_size();
        output.set_batch_size(batch_size);
        *kept = self.keep.then_some(batch_size);
        for block in 0..batch_size.div_ceil(BLOCK) {
            let slot = if self.keep { block } else { 0 };
            let lines = lines(batch_size, block);
            pack(self.input, block, &mut inputs[0][slot * height(shape[0])..][..shape[0]]);
            for l in 0..inputs.len() {
                let layer = self.net.layer(l);
                let (before, after) = inputs.split_at_mut(l + 1);
                let x = &before[l][slot * height(shape[l])..][..shape[l]];
                let vectors = gradient::turned(shape[l], shape[l + 1]);
                if self.keep && vectors > 0 {
                    let size = vectors * BLOCK;
                    gradient::turn(isa, x, lines, &mut turned[l][slot * size..][..size]);
                }
                let Some(y) = after.first_mut() else {
                    kernels::forward::<I, false>(isa, layer, x, last, lines);
                    continue;
                };
                let y = &mut y[slot * height(shape[l + 1])..][..shape[l + 1]];
                let activation = self.net.activation();
                if let Some(normalized) = normalized.get_mut(l) {
                    kernels::forward::<I, false>(isa, layer, x, y, lines);
                    let normalized = &mut normalized[slot * height(shape[l + 1])..][..shape[l + 1]];
                    let inverse_std = &mut inverse_stds[l][slot];
                    layer_norm::forward(isa, self.net.norm(l), y, (normalized, inverse_std), lines);
                    kernels::activate(isa, activation, y, lines);
                } else if activation == Activation::Tanh {
                    kernels::forward::<I, true>(isa, layer, x, y, lines);
                } else {
                    kernels::forward::<I, false>(isa, layer, x, y, lines);
                    kernels::activate(isa, activation, y, lines);
                }
            }
            unpack(last, block, output);
        }
    }
}

/// The backward pass.
pub(crate) struct Backward<'a> {
    pub(crate) net: &'a Mlp,
    pub(crate) work: &'a mut Workspace,
    pub(crate) d_output: &'a Batch,
    pub(crate) gradient: Option<&'a mut [f32]>,
    pub(crate) d_input: Option<&'a mut Batch>,
}

impl Kernel for Backward<'_> {
    #[inline(always)]
    fn run<I: Isa>(mut self, isa: I) {
        let Workspace { shape, inputs, deltas, sums, gain_sums, turned, normalized, inverse_stds, .. } =
            self.work;
        let [delta, next] = deltas;
        let batch_size = self.d_output.batch_size();
        let blocks = batch_size.div_ceil(BLOCK);
        for first in (0..blocks).step_by(CHUNK) {
            let chunk = first..(first + CHUNK).min(blocks);
            let odd = lines(batch_size, chunk.end - 1) == 1;
            let outputs = shape[shape.len() - 1];
            for (block, to) in chunk.clone().zip(delta.chunks_exact_mut(height(outputs))) {
                pack(self.d_output, block, &mut to[..outputs]);
            }
            let rows = &delta[..chunk.len() * height(outputs)];
            sums.fill(Line::ZERO);
            gradient::add_up(isa, Blocks { rows, height: height(outputs) }, odd, &mut sums[..outputs]);
            for l in (0..inputs.len()).rev() {
                let (layer, n, m) = (self.net.layer(l), shape[l], shape[l + 1]);
                let (high_n, high_m) = (height(n), height(m));
                let x = &inputs[l][chunk.start * high_n..chunk.end * high_n];
                let d_y = &delta[..chunk.len() * high_m];
                let size = gradient::turned(n, m) * BLOCK;
                if let Some(gradient) = &mut self.gradient {
                    let (d_w, d_c) = self.net.layer_of(l, gradient);
                    gradient::gradient(
                        isa,
                        Blocks { rows: d_y, height: high_m },
                        Blocks { rows: x, height: high_n },
                        &turned[l][chunk.start * size..chunk.end * size],
                        odd,
                        d_w,
                        m,
                    );
                    gradient::collect(isa, &sums[..m], d_c);
                }
                sums.fill(Line::ZERO);
                let blocks =
                    d_y.chunks_exact(high_m).zip(x.chunks_exact(high_n)).zip(next.chunks_exact_mut(high_n));
                if l > 0 {
                    let activation = self.net.activation();
                    for (block, ((d_y, x), d_x)) in chunk.clone().zip(blocks) {
                        let lines = lines(batch_size, block);
                        match activation {
                            Activation::Tanh => {
                                kernels::backward::<I, TANH>(isa, layer, d_y, (x, d_x), sums, lines);
                            }
                            Activation::Relu => {
                                kernels::backward::<I, RELU>(isa, layer, d_y, (x, d_x), sums, lines);
                            }
                        }
                    }
                    if let Some(normalized) = normalized.get(l - 1) {
                        if let Some(gradient) = &mut self.gradient {
                            gradient::collect(isa, &sums[..n], self.net.norm_of(l - 1, gradient).1);
                        }
                        sums.fill(Line::ZERO);
                        let gains = self.net.norm(l - 1).0;
                        let blocks = next.chunks_exact_mut(high_n).zip(chunk.clone());
                        gain_sums.fill(Line::ZERO);
                        for (d, block) in blocks {
                            let kept = (&normalized[block * high_n..][..n], &inverse_stds[l - 1][block]);
                            let sums = (&mut gain_sums[..n], &mut sums[..n]);
                            layer_norm::backward(
                                isa,
                                gains,
                                kept,
                                &mut d[..n],
                                sums,
                                lines(batch_size, block),
                            );
                        }
                        if let Some(gradient) = &mut self.gradient {
                            gradient::collect(isa, &gain_sums[..n], self.net.norm_of(l - 1, gradient).0);
                        }
                    }
                    std::mem::swap(delta, next);
                } else if let Some(d_input) = &mut self.d_input {
                    for (block, ((d_y, x), d_x)) in chunk.clone().zip(blocks) {
                        kernels::backward::<I, NONE>(
                            isa,
                            layer,
                            d_y,
                            (x, &mut *d_x),
                            sums,
                            lines(batch_size, block),
                        );
                        unpack(&d_x[..n], block, d_input);
                    }
                }
            }
        }
    }
}
