//! The network in double precision, one sample at a time, as the formulas have it.

use acrl_nn::Mlp;

pub(crate) struct Reference {
    shape: Vec<usize>,
    pub(crate) parameters: Vec<f64>,
    pub(crate) gradient: Vec<f64>,
    pub(crate) outputs: Vec<Vec<f64>>,
    pub(crate) d_inputs: Vec<Vec<f64>>,
}

impl Reference {
    pub(crate) fn new(net: &Mlp) -> Self {
        let parameters: Vec<f64> = net.parameters().iter().map(|&p| f64::from(p)).collect();
        let gradient = vec![0.0; parameters.len()];
        Self { shape: net.shape().to_vec(), parameters, gradient, outputs: Vec::new(), d_inputs: Vec::new() }
    }

    /// Where the weights of a layer start.
    fn start(&self, layer: usize) -> usize {
        (0..layer).map(|l| (self.shape[l] + 1) * self.shape[l + 1]).sum()
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
            layers.push((0..m).map(|j| if last { affine(j) } else { affine(j).tanh() }).collect());
        }
        layers
    }

    /// Adds one sample.
    pub(crate) fn add(&mut self, x: &[f64], d_y: &[f64]) {
        let layers = self.forward(x);
        let mut d = d_y.to_vec();
        for l in (0..self.shape.len() - 1).rev() {
            let (n, m, start) = (self.shape[l], self.shape[l + 1], self.start(l));
            let mut d_x = vec![0.0; n];
            for j in 0..m {
                for k in 0..n {
                    self.gradient[start + j * n + k] += d[j] * layers[l][k];
                    d_x[k] += self.parameters[start + j * n + k] * d[j];
                }
                self.gradient[start + n * m + j] += d[j];
            }
            if l > 0 {
                d_x.iter_mut().zip(&layers[l]).for_each(|(d, x)| *d *= 1.0 - x * x);
            }
            d = d_x;
        }
        self.outputs.push(layers[layers.len() - 1].clone());
        self.d_inputs.push(d);
    }
}
