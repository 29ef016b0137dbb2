//! The matrix that goes in and out of a network.

/// Lanes of a vector; rows are padded to a multiple of it.
pub(crate) const TILE: usize = 16;

/// A feature-major matrix: `rows` features of `lanes` samples, each row contiguous.
///
/// The number of lanes can be changed up to the capacity it was made with, without allocating.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    rows: usize,
    lanes: usize,
    stride: usize,
    data: Vec<f32>,
}

impl Batch {
    /// A matrix of zeros.
    pub fn new(rows: usize, lanes: usize) -> Self {
        let stride = lanes.next_multiple_of(TILE);
        Self { rows, lanes, stride, data: vec![0.0; rows * stride] }
    }

    /// The number of features.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of samples.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// The largest number of lanes that fits.
    pub fn capacity(&self) -> usize {
        self.stride
    }

    /// Uses only the first `lanes` of each row; what the rows hold stays as it is.
    ///
    /// # Panics
    /// If `lanes` is above [`Batch::capacity`].
    pub fn set_lanes(&mut self, lanes: usize) {
        assert!(lanes <= self.stride, "{lanes} lanes in a batch with room for {}", self.stride);
        self.lanes = lanes;
    }

    /// Feature `row` of all lanes.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.stride..][..self.stride][..self.lanes]
    }

    /// Feature `row` of all lanes, to be written.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        &mut self.data[row * self.stride..][..self.stride][..self.lanes]
    }

    /// All rows in order.
    pub fn iter_rows(&self) -> impl Iterator<Item = &[f32]> {
        (0..self.rows).map(|row| self.row(row))
    }
}
