//! The network in double precision, one sample at a time, as the formulas have it.

use acrl_nn::{Activation, Mlp};

pub(crate) struct Reference {
    shape: Vec<usize>,
    activation: Activation,
    layer_norm: bool,
    pub(crate) parameters: Vec<f64>,
    pub(crate) gradient: Vec<f64>,
    pub(crate) outputs: Vec<Vec<f64>>,
    pub(crate) d_inputs: Vec<Vec<f64>>,
}

impl Reference {
    pub(crate) fn new(net: &Mlp) -> Self {
        let parameters: Vec<f64> = net.parameters().iter().map(|&p| f64::from(p)).collect();
        let gradient = vec![0.0; parameters.len()];
        Self {
            shape: net.shape().to_vec(),
            activation: net.activation(),
            layer_norm: net.has_layer_norm(),
            parameters,
            gradient,
            outputs: Vec::new(),
            d_inputs: Vec::new(),
        }
    }

    /// Where the weights of a layer start.
    fn start(&self, layer: usize) -> usize {
        let more = if self.layer_norm { 3 } else { 1 };
        (0..layer).map(|l| (self.shape[l] + more) * self.shape[l + 1]).sum()
    }

    /// The input and what comes out of each layer.
    pub(crate) fn forward(&self, x: &[f64]) -> Vec<Vec<f64>> {
        let mut layers = vec![x.to_vec()];
        for l in 0..self.shape.len() - 1 {
            let (n, m, start) = (self.shape[l], self.shape[l + 1], self.start(l));
            let affine = |j: usize| {
                let weights = &self.parameters[start + j * n..][..n];
                weights.iter().zip(&layers[l]).map(|(w, x)| w * x).sum::<f64>()
                    + self.parameters[start + n * m + j]
            };
            let last = l + 2 == self.shape.len();
            let mut y: Vec<f64> = (0..m).map(affine).collect();
            if !last {
                if self.layer_norm {
                    let (x, _) = normalized(&y);
                    let norm = &self.parameters[start + (n + 1) * m..];
                    y = (0..m).map(|j| norm[j] * x[j] + norm[m + j]).collect();
                }
                y.iter_mut().for_each(|y| *y = self.activate(*y));
            }
            layers.push(y);
        }
        layers
    }

    fn activate(&self, x: f64) -> f64 {
        match self.activation {
            Activation::Tanh => x.tanh(),
            Activation::Relu => x.max(0.0),
        }
    }

    /// Adds one sample.
    pub(crate) fn add(&mut self, x: &[f64], d_y: &[f64]) {
        let layers = self.forward(x);
        let mut d = d_y.to_vec();
        for l in (0..self.shape.len() - 1).rev() {
            let (n, m, start) = (self.shape[l], self.shape[l + 1], self.start(l));
            let last = l + 2 == self.shape.len();
            if self.layer_norm && !last {
                let sums: Vec<f64> = (0..m)
                    .map(|j| {
                        let weights = &self.parameters[start + j * n..][..n];
                        weights.iter().zip(&layers[l]).map(|(w, x)| w * x).sum::<f64>()
                            + self.parameters[start + n * m + j]
                    })
                    .collect();
                let (x, std) = normalized(&sums);
                let norm = start + (n + 1) * m;
                let scaled: Vec<f64> = (0..m).map(|j| d[j] * self.parameters[norm + j]).collect();
                let mean = scaled.iter().sum::<f64>() / m as f64;
                let slope = scaled.iter().zip(&x).map(|(d, x)| d * x).sum::<f64>() / m as f64;
                for j in 0..m {
                    self.gradient[norm + j] += d[j] * x[j];
                    self.gradient[norm + m + j] += d[j];
                    d[j] = (scaled[j] - mean - x[j] * slope) / std;
                }
            }
            let mut d_x = vec![0.0; n];
            for j in 0..m {
                for k in 0..n {
                    self.gradient[start + j * n + k] += d[j] * layers[l][k];
                    d_x[k] += self.parameters[start + j * n + k] * d[j];
                }
                self.gradient[start + n * m + j] += d[j];
            }
            if l > 0 {
                d_x.iter_mut().zip(&layers[l]).for_each(|(d, x)| match self.activation {
                    Activation::Tanh => *d *= 1.0 - x * x,
                    Activation::Relu => *d *= f64::from(u8::from(*x > 0.0)),
                });
            }
            d = d_x;
        }
        self.outputs.push(layers[layers.len() - 1].clone());
        self.d_inputs.push(d);
    }
}

/// (u − mean u)/√(var u + 10⁻⁵), and the root.
fn normalized(u: &[f64]) -> (Vec<f64>, f64) {
    let n = u.len() as f64;
    let mean = u.iter().sum::<f64>() / n;
    let std = (u.iter().map(|u| (u - mean).powi(2)).sum::<f64>() / n + 1e-5).sqrt();
    (u.iter().map(|u| (u - mean) / std).collect(), std)
}
