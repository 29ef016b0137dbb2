//! The products of a layer that go forward and backward, register tile by register tile.
//!
//! Activations are kept in blocks of 32 samples, each block feature-major and contiguous, so that a tile streams through
//! memory and rows of a large batch do not fall on the same cache sets.
//!
//! Vectors are handled in plain loops: closures given to `map` or `from_fn` are not always compiled into their caller,
//! and outside of it they would lack the instruction set.

use std::ops::Range;

use crate::batch::TILE;
use crate::isa::{Isa, Line, Tiles};
use crate::mlp::Activation;

/// Vectors of a block.
pub(crate) const LINES: usize = 2;
/// Samples of a block.
pub(crate) const BLOCK: usize = LINES * TILE;

/// Rows from a block to the next one: one more than it has, so that a row of all blocks is not on the same cache set.
pub(crate) const fn height(rows: usize) -> usize {
    rows + 1
}

/// One feature of a block.
pub(crate) type Row = [Line; LINES];
/// A feature of a block that is all zeros.
pub(crate) const ZERO: Row = [Line::ZERO; LINES];

/// y = W x + c, with W of `outputs` × `inputs`, row by row.
#[derive(Clone, Copy)]
pub(crate) struct Layer<'a> {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) weights: &'a [f32],
    pub(crate) bias: &'a [f32],
}

impl<'a> Layer<'a> {
    /// The layer that these parameters begin with, and the rest of them.
    #[inline(always)]
    pub(crate) fn split(parameters: &'a [f32], inputs: usize, outputs: usize) -> (Self, &'a [f32]) {
        let (weights, rest) = parameters.split_at(inputs * outputs);
        let (bias, rest) = rest.split_at(outputs);
        (Self { inputs, outputs, weights, bias }, rest)
    }
}

/// A map from the rows of one block to those of another, R rows × L vectors (from vector V on) at a time.
trait Product {
    /// The number of rows to make.
    fn rows(&self) -> usize;
    /// Makes the rows `row..row + R`.
    fn tile<I: Isa, const R: usize, const L: usize, const V: usize>(&mut self, isa: I, row: usize);
}

/// Makes all rows of the first `lines` vectors, in tiles that fill the registers.
#[inline(always)]
fn cover<I: Isa>(isa: I, lines: usize, product: &mut impl Product) {
    match (I::TILES, lines) {
        (Tiles::Large, LINES) => cover_rows::<I, 8, 2, 0>(isa, product),
        (Tiles::Large, _) => cover_rows::<I, 8, 1, 0>(isa, product),
        (Tiles::Medium, _) => {
            cover_rows::<I, 6, 1, 0>(isa, product);
            if lines == LINES {
                cover_rows::<I, 6, 1, 1>(isa, product);
            }
        }
        (Tiles::Small, _) => {
            cover_rows::<I, 2, 1, 0>(isa, product);
            if lines == LINES {
                cover_rows::<I, 2, 1, 1>(isa, product);
            }
        }
    }
}

#[inline(always)]
fn cover_rows<I: Isa, const R: usize, const L: usize, const V: usize>(isa: I, product: &mut impl Product) {
    let (mut row, n) = (0, product.rows());
    while row + R <= n {
        product.tile::<I, R, L, V>(isa, row);
        row += R;
    }
    if R > 4 && row + 4 <= n {
        product.tile::<I, 4, L, V>(isa, row);
        row += 4;
    }
    if R > 2 && row + 2 <= n {
        product.tile::<I, 2, L, V>(isa, row);
        row += 2;
    }
    if row < n {
        product.tile::<I, 1, L, V>(isa, row);
    }
}

/// acc[r][l] += w(r) · x[V + l].
#[inline(always)]
fn rank_one<I: Isa, const R: usize, const L: usize, const V: usize>(
    isa: I,
    acc: &mut [[I::V; L]; R],
    w: impl Fn(usize) -> f32,
    x: &Row,
) {
    let mut lines = [isa.splat(0.0); L];
    for l in 0..L {
        lines[l] = isa.load(&x[V + l].0);
    }
    for r in 0..R {
        let w = isa.splat(w(r));
        for l in 0..L {
            acc[r][l] = isa.mul_add(w, lines[l], acc[r][l]);
        }
    }
}

/// Products that go before each vector of the last tile that is finished.
const BETWEEN: usize = 4;

/// True if a tile with so many products per sum defers its activation to the loop of the next tile: tanh is a chain of
/// dependent instructions, which then overlaps with independent products.
#[inline(always)]
fn finished_later<I: Isa, const R: usize, const L: usize>(products: usize) -> bool {
    I::TILES == Tiles::Large && (R, L) == (8, LINES) && products >= R * L * BETWEEN
}

struct Forward<'a, const TANH: bool> {
    layer: Layer<'a>,
    x: &'a [Row],
    y: &'a mut [Row],
    /// The rows of y that are sums, to be finished later.
    unfinished: Range<usize>,
}

impl<const TANH: bool> Forward<'_, TANH> {
    /// A sum becomes its tanh.
    #[inline(always)]
    fn finish<I: Isa>(&mut self, isa: I, row: usize, line: usize) {
        let y = &mut self.y[row][line].0;
        isa.store(isa.tanh(isa.load(y)), y);
    }

    /// acc += W x, and R rows of y from `first` on are finished.
    #[inline(always)]
    fn add_and_finish<I: Isa, const R: usize, const L: usize, const V: usize>(
        &mut self,
        isa: I,
        acc: &mut [[I::V; L]; R],
        weights: [&[f32]; R],
        first: usize,
    ) {
        let (begin, rest) = self.x.split_at(R * L * BETWEEN);
        for (i, x) in begin.chunks_exact(BETWEEN).enumerate() {
            for t in 0..BETWEEN {
                rank_one::<I, R, L, V>(isa, acc, |r| weights[r][i * BETWEEN + t], &x[t]);
            }
            self.finish(isa, first + i / L, V + i % L);
        }
        for (k, x) in rest.iter().enumerate() {
            rank_one::<I, R, L, V>(isa, acc, |r| weights[r][begin.len() + k], x);
        }
    }

    /// acc += W x, each as 1 + T sums that inputs go to in turns.
    #[inline(always)]
    fn add_in_turns<I: Isa, const R: usize, const L: usize, const V: usize, const T: usize>(
        &self,
        isa: I,
        acc: &mut [[I::V; L]; R],
        weights: [&[f32]; R],
    ) {
        let mut more = [[[isa.splat(0.0); L]; R]; T];
        let rounds = self.x.chunks_exact(1 + T);
        let rest = self.x.len() - rounds.remainder().len();
        for (i, x) in rounds.enumerate() {
            let k = (1 + T) * i;
            rank_one::<I, R, L, V>(isa, acc, |r| weights[r][k], &x[0]);
            for t in 0..T {
                rank_one::<I, R, L, V>(isa, &mut more[t], |r| weights[r][k + 1 + t], &x[1 + t]);
            }
        }
        for (k, x) in self.x.iter().enumerate().skip(rest) {
            rank_one::<I, R, L, V>(isa, acc, |r| weights[r][k], x);
        }
        for t in 0..T {
            for r in 0..R {
                for l in 0..L {
                    acc[r][l] = isa.add(acc[r][l], more[t][r][l]);
                }
            }
        }
    }
}

impl<const TANH: bool> Product for Forward<'_, TANH> {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.layer.outputs
    }

    #[inline(always)]
    fn tile<I: Isa, const R: usize, const L: usize, const V: usize>(&mut self, isa: I, j: usize) {
        let n = self.x.len();
        let bias = &self.layer.bias[j..][..R];
        let weights: [&[f32]; R] = std::array::from_fn(|r| &self.layer.weights[(j + r) * n..][..n]);
        let mut acc = [[isa.splat(0.0); L]; R];
        for r in 0..R {
            acc[r] = [isa.splat(bias[r]); L];
        }
        let later = TANH && finished_later::<I, R, L>(n);
        // In a layer of one or two outputs so few sums would wait for each other.
        if later && j > 0 {
            self.add_and_finish::<I, R, L, V>(isa, &mut acc, weights, j - R);
        } else if R <= 2 && self.layer.outputs == R {
            self.add_in_turns::<I, R, L, V, 3>(isa, &mut acc, weights);
        } else {
            for (k, x) in self.x.iter().enumerate() {
                rank_one::<I, R, L, V>(isa, &mut acc, |r| weights[r][k], x);
            }
        }
        // Rows are paired the same way in tiles of any height, as only the last one may be odd.
        for r in 0..R {
            for l in 0..L {
                if later {
                    self.unfinished = j..j + R;
                } else if TANH && r % 2 == 1 {
                    (acc[r - 1][l], acc[r][l]) = isa.tanh_pair(acc[r - 1][l], acc[r][l]);
                } else if TANH && R == 1 {
                    acc[r][l] = isa.tanh(acc[r][l]);
                }
            }
        }
        for r in 0..R {
            for l in 0..L {
                isa.store(acc[r][l], &mut self.y[j + r][V + l].0);
            }
        }
    }
}

/// y = W x + c of one block, or the tanh of it. Each output adds up its inputs in the same order, whatever the samples.
#[inline(always)]
pub(crate) fn forward<I: Isa, const TANH: bool>(
    isa: I,
    layer: Layer,
    x: &[Row],
    y: &mut [Row],
    lines: usize,
) {
    let x = &x[..layer.inputs];
    let mut product = Forward::<TANH> { layer, x, y, unfinished: 0..0 };
    cover(isa, lines, &mut product);
    for row in product.unfinished.clone() {
        for line in 0..lines {
            product.finish(isa, row, line);
        }
    }
}

/// The activations of the sums of one block, in place.
#[inline(always)]
pub(crate) fn activate<I: Isa>(isa: I, activation: Activation, y: &mut [Row], lines: usize) {
    for row in y {
        for line in &mut row[..lines] {
            let sum = isa.load(&line.0);
            let y = match activation {
                Activation::Tanh => isa.tanh(sum),
                Activation::Relu => isa.clamp(sum, 0.0, f32::INFINITY),
            };
            isa.store(y, &mut line.0);
        }
    }
}

struct Backward<'a, const ACTIVATION: u8> {
    layer: Layer<'a>,
    d_y: &'a [Row],
    x: &'a [Row],
    d_x: &'a mut [Row],
    sums: &'a mut [Line],
    /// The rows of dx that are sums, to be finished later.
    unfinished: Range<usize>,
}

impl<const ACTIVATION: u8> Backward<'_, ACTIVATION> {
    /// acc += Wᵀ dy for the rows of dx from `k` on, and the R rows before them are finished.
    #[inline(always)]
    fn add_and_finish<I: Isa, const R: usize, const L: usize, const V: usize>(
        &mut self,
        isa: I,
        acc: &mut [[I::V; L]; R],
        k: usize,
    ) {
        let (n, row) = (self.layer.inputs, L * BETWEEN);
        let (begin, rest) = self.d_y.split_at(R * row);
        let (weights, weights_of_rest) = self.layer.weights.split_at(R * row * n);
        let products = begin.chunks_exact(row).zip(weights.chunks_exact(row * n));
        let rows = self.x[k - R..k].iter().zip(&mut self.d_x[k - R..k]).zip(&mut self.sums[k - R..k]);
        for ((d_y, weights), ((x, d_x), sum)) in products.zip(rows) {
            let weights: [&[f32]; 8] = std::array::from_fn(|t| &weights[t * n + k..][..R]);
            let mut all = isa.load(&sum.0);
            for l in 0..L {
                for t in l * BETWEEN..(l + 1) * BETWEEN {
                    rank_one::<I, R, L, V>(isa, acc, |r| weights[t][r], &d_y[t]);
                }
                let d = derivative::<I, ACTIVATION>(isa, isa.load(&d_x[V + l].0), &x[V + l]);
                isa.store(d, &mut d_x[V + l].0);
                all = isa.add(all, d);
            }
            isa.store(all, &mut sum.0);
        }
        for (weights, d_y) in weights_of_rest.chunks_exact(n).zip(rest) {
            let weights = &weights[k..][..R];
            rank_one::<I, R, L, V>(isa, acc, |r| weights[r], d_y);
        }
    }

    /// Makes of R sums, from row `k` of dx on, what they become.
    #[inline(always)]
    fn finish<I: Isa, const R: usize, const L: usize, const V: usize>(
        &mut self,
        isa: I,
        k: usize,
        acc: &[[I::V; L]; R],
    ) {
        let (x, d_x) = (&self.x[k..][..R], &mut self.d_x[k..][..R]);
        let sums = &mut self.sums[k..][..R];
        for r in 0..R {
            let mut sum = isa.load(&sums[r].0);
            for l in 0..L {
                let d = derivative::<I, ACTIVATION>(isa, acc[r][l], &x[r][V + l]);
                isa.store(d, &mut d_x[r][V + l].0);
                sum = isa.add(sum, d);
            }
            isa.store(sum, &mut sums[r].0);
        }
    }
}

/// The layer below is the input: nothing to be differentiated.
pub(crate) const NONE: u8 = 0;
/// The layer below ends in a tanh.
pub(crate) const TANH: u8 = 1;
/// The layer below ends in a ReLU.
pub(crate) const RELU: u8 = 2;

/// d times the derivative of the activation that x came out of: 1 − x² of a tanh, 1 or 0 of a ReLU.
#[inline(always)]
fn derivative<I: Isa, const ACTIVATION: u8>(isa: I, d: I::V, x: &Line) -> I::V {
    let x = isa.load(&x.0);
    match ACTIVATION {
        TANH => isa.mul_sub_from(isa.mul(d, x), x, d),
        RELU => isa.where_positive(x, d),
        _ => d,
    }
}

impl<const ACTIVATION: u8> Product for Backward<'_, ACTIVATION> {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.layer.inputs
    }

    #[inline(always)]
    fn tile<I: Isa, const R: usize, const L: usize, const V: usize>(&mut self, isa: I, k: usize) {
        let mut acc = [[isa.splat(0.0); L]; R];
        let later = finished_later::<I, R, L>(self.d_y.len());
        if later && k > 0 {
            self.add_and_finish::<I, R, L, V>(isa, &mut acc, k);
        } else {
            for (weights, d_y) in self.layer.weights.chunks_exact(self.layer.inputs).zip(self.d_y) {
                let weights = &weights[k..][..R];
                rank_one::<I, R, L, V>(isa, &mut acc, |r| weights[r], d_y);
            }
        }
        if !later {
            self.finish::<I, R, L, V>(isa, k, &acc);
            return;
        }
        for r in 0..R {
            for l in 0..L {
                isa.store(acc[r][l], &mut self.d_x[k + r][V + l].0);
            }
        }
        self.unfinished = k..k + R;
    }
}

/// dx = Wᵀ dy of one block, times the derivative of the activation that x came out of. Adds the vectors of each row of dx to its line of `sums`.
#[inline(always)]
pub(crate) fn backward<I: Isa, const ACTIVATION: u8>(
    isa: I,
    layer: Layer,
    d_y: &[Row],
    (x, d_x): (&[Row], &mut [Row]),
    sums: &mut [Line],
    lines: usize,
) {
    let d_y = &d_y[..layer.outputs];
    let mut product = Backward::<ACTIVATION> { layer, d_y, x, d_x, sums, unfinished: 0..0 };
    cover(isa, lines, &mut product);
    for row in product.unfinished.clone() {
        let sums = [[isa.load(&product.d_x[row][0].0), isa.load(&product.d_x[row][1].0)]];
        product.finish::<I, 1, LINES, 0>(isa, row, &sums);
    }
}
