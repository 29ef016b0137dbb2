//! The three products of a layer, register tile by register tile.
//!
//! Activations are kept in blocks of 32 lanes, each block feature-major and contiguous, so that a tile streams through
//! memory and rows of a large batch do not fall on the same cache sets.
//!
//! Vectors are handled in plain loops: closures given to `map` or `from_fn` are not always compiled into their caller,
//! and outside of it they would lack the instruction set.

use crate::batch::TILE;
use crate::isa::{Isa, Line, Tiles};

/// Vectors of a block.
pub(crate) const LINES: usize = 2;
/// Lanes of a block.
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

/// What makes rows of a block out of rows of another, R rows × L vectors (from vector V on) at a time.
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

struct Forward<'a, const TANH: bool> {
    layer: Layer<'a>,
    x: &'a [Row],
    y: &'a mut [Row],
}

impl<const TANH: bool> Forward<'_, TANH> {
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
        // In a layer of one or two outputs so few sums would wait for each other.
        if R <= 2 && self.layer.outputs == R {
            self.add_in_turns::<I, R, L, V, 3>(isa, &mut acc, weights);
        } else {
            for (k, x) in self.x.iter().enumerate() {
                rank_one::<I, R, L, V>(isa, &mut acc, |r| weights[r][k], x);
            }
        }
        // Rows are paired the same way in tiles of any height, as only the last one may be odd.
        for r in 0..R {
            for l in 0..L {
                if TANH && r % 2 == 1 {
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

/// y = W x + c of one block, or the tanh of it. Each output adds up its inputs in the same order, whatever the lanes.
#[inline(always)]
pub(crate) fn forward<I: Isa, const TANH: bool>(
    isa: I,
    layer: Layer,
    x: &[Row],
    y: &mut [Row],
    lines: usize,
) {
    let x = &x[..layer.inputs];
    cover(isa, lines, &mut Forward::<TANH> { layer, x, y });
}

struct Backward<'a, const TANH: bool> {
    layer: Layer<'a>,
    d_y: &'a [Row],
    x: &'a [Row],
    d_x: &'a mut [Row],
    sums: &'a mut [Line],
}

impl<const TANH: bool> Product for Backward<'_, TANH> {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.layer.inputs
    }

    #[inline(always)]
    fn tile<I: Isa, const R: usize, const L: usize, const V: usize>(&mut self, isa: I, k: usize) {
        let mut acc = [[isa.splat(0.0); L]; R];
        for (weights, d_y) in self.layer.weights.chunks_exact(self.layer.inputs).zip(self.d_y) {
            let weights = &weights[k..][..R];
            rank_one::<I, R, L, V>(isa, &mut acc, |r| weights[r], d_y);
        }
        let (x, d_x) = (&self.x[k..][..R], &mut self.d_x[k..][..R]);
        let sums = &mut self.sums[k..][..R];
        for r in 0..R {
            let mut sum = isa.load(&sums[r].0);
            for l in 0..L {
                let mut d = acc[r][l];
                if TANH {
                    let x = isa.load(&x[r][V + l].0);
                    d = isa.mul_sub_from(isa.mul(d, x), x, d);
                }
                isa.store(d, &mut d_x[r][V + l].0);
                sum = isa.add(sum, d);
            }
            isa.store(sum, &mut sums[r].0);
        }
    }
}

/// dx = Wᵀ dy of one block, times 1 − x² if x came out of a tanh. Adds the vectors of each row of dx to its line of `sums`.
#[inline(always)]
pub(crate) fn backward<I: Isa, const TANH: bool>(
    isa: I,
    layer: Layer,
    d_y: &[Row],
    (x, d_x): (&[Row], &mut [Row]),
    sums: &mut [Line],
    lines: usize,
) {
    let d_y = &d_y[..layer.outputs];
    cover(isa, lines, &mut Backward::<TANH> { layer, d_y, x, d_x, sums });
}

/// Some blocks of the same height, of which the last one may have a single vector.
#[derive(Clone, Copy)]
pub(crate) struct Blocks<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) height: usize,
}

/// The number of vectors into which the features of a lane are laid side by side for the gradient: those of layers that
/// are wide on both sides. For others it costs more than it gains.
pub(crate) fn turned(inputs: usize, outputs: usize) -> usize {
    if outputs >= TILE { inputs / TILE } else { 0 }
}

/// Lays the first features of each lane of a block side by side: line v · 32 + b has the v-th 16 of lane b.
#[inline(always)]
pub(crate) fn turn<I: Isa>(isa: I, x: &[Row], lines: usize, turned: &mut [Line]) {
    for (x, turned) in x.chunks_exact(TILE).zip(turned.chunks_exact_mut(BLOCK)) {
        for (line, to) in turned.chunks_exact_mut(TILE).enumerate().take(lines) {
            let mut tile = [isa.splat(0.0); TILE];
            for i in 0..TILE {
                tile[i] = isa.load(&x[i][line].0);
            }
            let tile = isa.transpose(tile);
            for i in 0..TILE {
                isa.store(tile[i], &mut to[i].0);
            }
        }
    }
}

/// dW += dy xᵀ over some blocks; `odd` says that the last block has one vector only, and `turned` is what [`turn`] made of x.
#[inline(always)]
pub(crate) fn gradient<I: Isa>(
    isa: I,
    d_y: Blocks,
    x: Blocks,
    turned: &[Line],
    odd: bool,
    d_w: &mut [f32],
    outputs: usize,
) {
    let inputs = d_w.len() / outputs;
    let vectors = self::turned(inputs, outputs);
    if vectors > 0 {
        let mut sums = Sums { d_y, turned, vectors, odd, d_w, inputs };
        match I::TILES {
            Tiles::Large => sums.columns::<I, 8, 2>(isa, outputs),
            Tiles::Medium => sums.columns::<I, 6, 1>(isa, outputs),
            Tiles::Small => sums.columns::<I, 2, 1>(isa, outputs),
        }
    }
    Dots { d_y, x, odd, d_w, inputs }.columns(isa, vectors * TILE, outputs);
}

/// Adds the vectors of each row of some blocks to its line of `sums`; `odd` says that the last block has one vector only.
#[inline(always)]
pub(crate) fn add_up<I: Isa>(isa: I, d_y: Blocks, odd: bool, sums: &mut [Line]) {
    let blocks = d_y.rows.len() / d_y.height;
    for (block, rows) in d_y.rows.chunks_exact(d_y.height).enumerate() {
        let lines = if odd && block + 1 == blocks { 1 } else { LINES };
        for (sum, row) in sums.iter_mut().zip(rows) {
            for line in &row[..lines] {
                isa.store(isa.add(isa.load(&sum.0), isa.load(&line.0)), &mut sum.0);
            }
        }
    }
}

/// dc += the numbers of each line.
#[inline(always)]
pub(crate) fn collect<I: Isa>(isa: I, sums: &[Line], d_c: &mut [f32]) {
    let (tiles, rest) = sums.as_chunks::<TILE>();
    let (d_c, d_rest) = d_c.split_at_mut(tiles.len() * TILE);
    for (tile, d_c) in tiles.iter().zip(d_c.chunks_exact_mut(TILE)) {
        let mut all = [isa.splat(0.0); TILE];
        for i in 0..TILE {
            all[i] = isa.load(&tile[i].0);
        }
        d_c.iter_mut().zip(isa.sums(all)).for_each(|(d_c, sum)| *d_c += sum);
    }
    d_rest.iter_mut().zip(rest).for_each(|(d_c, line)| *d_c += isa.sum(isa.load(&line.0)));
}

/// Σ over lanes of dy[j]·x[k], 16 k at a time: lane after lane is added, and there is nothing to add up at the end.
struct Sums<'a> {
    d_y: Blocks<'a>,
    turned: &'a [Line],
    vectors: usize,
    odd: bool,
    d_w: &'a mut [f32],
    inputs: usize,
}

impl Sums<'_> {
    /// The first 16 · `vectors` columns of dW.
    #[inline(always)]
    fn columns<I: Isa, const R: usize, const L: usize>(&mut self, isa: I, outputs: usize) {
        let mut v = 0;
        while v + L <= self.vectors {
            self.column::<I, R, L>(isa, v, outputs);
            v += L;
        }
        if v < self.vectors {
            self.column::<I, R, 1>(isa, v, outputs);
        }
    }

    #[inline(always)]
    fn column<I: Isa, const R: usize, const L: usize>(&mut self, isa: I, v: usize, outputs: usize) {
        let mut j = 0;
        while j + R <= outputs {
            self.tile::<I, R, L>(isa, j, v);
            j += R;
        }
        while j < outputs {
            self.tile::<I, 1, L>(isa, j, v);
            j += 1;
        }
    }

    #[inline(always)]
    fn tile<I: Isa, const R: usize, const L: usize>(&mut self, isa: I, j: usize, v: usize) {
        let mut acc = [[isa.splat(0.0); L]; R];
        let blocks = self.d_y.rows.len() / self.d_y.height;
        for block in 0..blocks {
            let d_y = &self.d_y.rows[block * self.d_y.height + j..][..R];
            let x = &self.turned[(block * self.vectors + v) * BLOCK..][..L * BLOCK];
            let lines = if self.odd && block + 1 == blocks { 1 } else { LINES };
            for line in 0..lines {
                let x: [&[Line]; L] = std::array::from_fn(|l| &x[l * BLOCK + line * TILE..][..TILE]);
                for i in 0..TILE {
                    let mut lines = [isa.splat(0.0); L];
                    for l in 0..L {
                        lines[l] = isa.load(&x[l][i].0);
                    }
                    for r in 0..R {
                        let d = isa.splat(d_y[r][line].0[i]);
                        for l in 0..L {
                            acc[r][l] = isa.mul_add(d, lines[l], acc[r][l]);
                        }
                    }
                }
            }
        }
        for r in 0..R {
            let d_w = &mut self.d_w[(j + r) * self.inputs + v * TILE..][..L * TILE];
            for (d_w, acc) in d_w.as_chunks_mut::<TILE>().0.iter_mut().zip(acc[r]) {
                isa.store(isa.add(isa.load(d_w), acc), d_w);
            }
        }
    }
}

/// Σ over lanes of dy[j]·x[k].
struct Dots<'a> {
    d_y: Blocks<'a>,
    x: Blocks<'a>,
    odd: bool,
    d_w: &'a mut [f32],
    inputs: usize,
}

impl Dots<'_> {
    /// The columns of dW from `k` on, in tiles that fill the registers.
    #[inline(always)]
    fn columns<I: Isa>(&mut self, isa: I, mut k: usize, outputs: usize) {
        let inputs = self.inputs;
        match I::TILES {
            Tiles::Large => {
                while k + 8 <= inputs {
                    self.column::<I, 2, 8>(isa, k, outputs);
                    k += 8;
                }
                if k + 4 <= inputs {
                    self.column::<I, 4, 4>(isa, k, outputs);
                    k += 4;
                }
                if k + 2 <= inputs {
                    self.column::<I, 8, 2>(isa, k, outputs);
                    k += 2;
                }
                if k < inputs {
                    self.column::<I, 16, 1>(isa, k, outputs);
                }
            }
            Tiles::Medium => {
                while k + 3 <= inputs {
                    self.column::<I, 2, 3>(isa, k, outputs);
                    k += 3;
                }
                while k < inputs {
                    self.column::<I, 4, 1>(isa, k, outputs);
                    k += 1;
                }
            }
            Tiles::Small => {
                while k < inputs {
                    self.column::<I, 2, 1>(isa, k, outputs);
                    k += 1;
                }
            }
        }
    }

    /// The columns `k..k + C` of dW.
    #[inline(always)]
    fn column<I: Isa, const R: usize, const C: usize>(&mut self, isa: I, k: usize, outputs: usize) {
        let mut j = 0;
        while j + R <= outputs {
            self.tile::<I, R, C>(isa, j, k);
            j += R;
        }
        while j < outputs {
            self.tile::<I, 1, C>(isa, j, k);
            j += 1;
        }
    }

    #[inline(always)]
    fn tile<I: Isa, const R: usize, const C: usize>(&mut self, isa: I, j: usize, k: usize) {
        let mut acc = [[isa.splat(0.0); C]; R];
        let blocks = self.d_y.rows.len() / self.d_y.height;
        for block in 0..blocks {
            let d_y = &self.d_y.rows[block * self.d_y.height + j..][..R];
            let x = &self.x.rows[block * self.x.height + k..][..C];
            products::<I, R, C, 0>(isa, &mut acc, d_y, x);
            if !(self.odd && block + 1 == blocks) {
                products::<I, R, C, 1>(isa, &mut acc, d_y, x);
            }
        }
        if R * C == TILE {
            let mut flat = [isa.splat(0.0); TILE];
            for i in 0..TILE {
                flat[i] = acc[i / C][i % C];
            }
            let sums = isa.sums(flat);
            for r in 0..R {
                for (d_w, sum) in self.d_w[(j + r) * self.inputs + k..][..C].iter_mut().zip(&sums[r * C..]) {
                    *d_w += sum;
                }
            }
        } else {
            for r in 0..R {
                for (d_w, acc) in self.d_w[(j + r) * self.inputs + k..][..C].iter_mut().zip(acc[r]) {
                    *d_w += isa.sum(acc);
                }
            }
        }
    }
}

/// acc[r][c] += dy[r] · x[c], lane by lane, of vector V.
#[inline(always)]
fn products<I: Isa, const R: usize, const C: usize, const V: usize>(
    isa: I,
    acc: &mut [[I::V; C]; R],
    d_y: &[Row],
    x: &[Row],
) {
    let mut d = [isa.splat(0.0); R];
    for r in 0..R {
        d[r] = isa.load(&d_y[r][V].0);
    }
    for c in 0..C {
        let x = isa.load(&x[c][V].0);
        for r in 0..R {
            acc[r][c] = isa.mul_add(d[r], x, acc[r][c]);
        }
    }
}
