//! Preallocated memory of the forward and backward pass, and the passes themselves.

use crate::batch::{Batch, TILE};
use crate::gradient::{self, Blocks, turned};
use crate::isa::{Instructions, Isa, Kernel, Line};
use crate::kernels::{self, BLOCK, Layer, Row, ZERO, height};
use crate::mlp::Mlp;

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
    /// The output of one block.
    last: Vec<Row>,
    /// The derivatives on either side of a layer, for a chunk.
    deltas: [Vec<Row>; 2],
    /// The sums over samples of the rows of `deltas`, one line each.
    sums: Vec<Line>,
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
        Self {
            batch_size,
            instructions: Instructions::best(),
            inputs: hidden.iter().map(|n| vec![ZERO; height(*n) * blocks.max(1)]).collect(),
            last: vec![ZERO; outputs],
            deltas: [(); 2].map(|()| vec![ZERO; height(widest) * blocks.min(CHUNK)]),
            sums: vec![Line::ZERO; widest],
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

    /// True if it was made for this shape.
    pub(crate) fn fits(&self, shape: &[usize]) -> bool {
        self.shape == shape
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
        let Workspace { shape, inputs, turned, last, output, kept, .. } = self.work;
        let batch_size = self.input.batch_size();
        output.set_batch_size(batch_size);
        *kept = self.keep.then_some(batch_size);
        for block in 0..batch_size.div_ceil(BLOCK) {
            let slot = if self.keep { block } else { 0 };
            let lines = lines(batch_size, block);
            pack(self.input, block, &mut inputs[0][slot * height(shape[0])..][..shape[0]]);
            let mut parameters = self.net.parameters();
            for l in 0..inputs.len() {
                let (layer, rest) = Layer::split(parameters, shape[l], shape[l + 1]);
                parameters = rest;
                let (before, after) = inputs.split_at_mut(l + 1);
                let x = &before[l][slot * height(shape[l])..][..shape[l]];
                let vectors = gradient::turned(shape[l], shape[l + 1]);
                if self.keep && vectors > 0 {
                    let size = vectors * BLOCK;
                    gradient::turn(isa, x, lines, &mut turned[l][slot * size..][..size]);
                }
                if let Some(y) = after.first_mut() {
                    kernels::forward::<I, true>(
                        isa,
                        layer,
                        x,
                        &mut y[slot * height(shape[l + 1])..][..shape[l + 1]],
                        lines,
                    );
                } else {
                    kernels::forward::<I, false>(isa, layer, x, last, lines);
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
    pub(crate) gradient: &'a mut [f32],
    pub(crate) d_input: Option<&'a mut Batch>,
}

impl Kernel for Backward<'_> {
    #[inline(always)]
    fn run<I: Isa>(mut self, isa: I) {
        let Workspace { shape, inputs, deltas: [delta, next], sums, turned, .. } = self.work;
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
                let (d_w, d_c) = self.net.layer_of(l, self.gradient);
                let d_y = &delta[..chunk.len() * high_m];
                let size = gradient::turned(n, m) * BLOCK;
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
                sums.fill(Line::ZERO);
                let blocks =
                    d_y.chunks_exact(high_m).zip(x.chunks_exact(high_n)).zip(next.chunks_exact_mut(high_n));
                if l > 0 {
                    for (block, ((d_y, x), d_x)) in chunk.clone().zip(blocks) {
                        kernels::backward::<I, true>(
                            isa,
                            layer,
                            d_y,
                            (x, d_x),
                            sums,
                            lines(batch_size, block),
                        );
                    }
                    std::mem::swap(delta, next);
                } else if let Some(d_input) = &mut self.d_input {
                    for (block, ((d_y, x), d_x)) in chunk.clone().zip(blocks) {
                        kernels::backward::<I, false>(
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
