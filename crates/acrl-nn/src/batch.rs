//! The matrix of inputs or outputs of a network.

/// SIMD lanes of a vector; rows are padded to a multiple of it.
pub(crate) const TILE: usize = 16;

/// A feature-major matrix: `rows` features of `batch_size` samples, each row contiguous.
///
/// The number of samples can be changed up to the capacity without allocating.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    rows: usize,
    batch_size: usize,
    stride: usize,
    data: Vec<f32>,
}

impl Batch {
    /// A matrix of zeros.
    pub fn new(rows: usize, batch_size: usize) -> Self {
        let stride = batch_size.next_multiple_of(TILE);
        Self { rows, batch_size, stride, data: vec![0.0; rows * stride] }
    }

    /// The number of features.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of samples.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// The largest number of samples that fits.
    pub fn capacity(&self) -> usize {
        self.stride
    }

    /// Limits every row to its first `batch_size` samples; the data stay in place.
    ///
    /// # Panics
    /// If `batch_size` is above [`Batch::capacity`].
    pub fn set_batch_size(&mut self, batch_size: usize) {
        assert!(batch_size <= self.stride, "{batch_size} samples in a batch with capacity {}", self.stride);
        self.batch_size = batch_size;
    }

    /// Feature `row` of all samples.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.stride..][..self.stride][..self.batch_size]
    }

    /// Feature `row` of all samples, to be written.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.data[row * self.stride..][..self.stride][..self.batch_size]
    }

    /// All rows in order.
    pub fn iter_rows(&self) -> impl Iterator<Item = &[f32]> {
        (0..self.rows).map(|row| self.row(row))
    }
}
