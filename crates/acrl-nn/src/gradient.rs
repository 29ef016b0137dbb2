//! The product of a layer that adds up over samples: the gradient, register tile by register tile.

use crate::batch::TILE;
use crate::isa::{Isa, Line, Tiles};
use crate::kernels::{BLOCK, LINES, Row};

/// Some blocks of the same height, of which the last one may have a single vector.
#[derive(Clone, Copy)]
pub(crate) struct Blocks<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) height: usize,
}

/// The number of vectors into which the features of a sample are laid side by side for the gradient: those of layers that
/// are wide on both sides. For others it costs more than it gains.
pub(crate) fn turned(inputs: usize, outputs: usize) -> usize {
    if outputs >= TILE { inputs / TILE } else { 0 }
}

/// Lays the first features of each sample of a block side by side: line v · 32 + b has the v-th 16 of sample b.
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

/// A part of dW that is made in tiles of R rows from row j on and of C columns (or vectors of columns) from `at` on.
trait Tiled {
    fn tile<I: Isa, const R: usize, const C: usize>(&mut self, isa: I, j: usize, at: usize);

    /// All rows of C columns.
    #[inline(always)]
    fn column<I: Isa, const R: usize, const C: usize>(&mut self, isa: I, at: usize, outputs: usize) {
        let mut j = 0;
        while j + R <= outputs {
            self.tile::<I, R, C>(isa, j, at);
            j += R;
        }
        while j < outputs {
            self.tile::<I, 1, C>(isa, j, at);
            j += 1;
        }
    }
}

/// Σ over samples of dy[j]·x[k], 16 k at a time: sample after sample is added, and there is nothing to add up at the end.
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
}

impl Tiled for Sums<'_> {
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

/// Σ over samples of dy[j]·x[k].
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
}

impl Tiled for Dots<'_> {
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

/// acc[r][c] += dy[r] · x[c], sample by sample, of vector V.
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
