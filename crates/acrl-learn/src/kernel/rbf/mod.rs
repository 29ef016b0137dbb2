//! Gaussian policies whose mean is a sum of kernels over states and multipliers: the paper's Section IV.
//!
//! > π_θ(a|s, λ) = N(μ(s, λ), σ²),  μ_i(s, λ) = Σ_n Σ_j θ_{n,i,j} κ_n(s) φ_j(λ),
//!
//! where κ_n and φ_j are products of [evenly spaced Gaussian kernels](Axis), one per coordinate, whose
//! bandwidth is their distance, as in the paper. The kernels are not divided by their sum. Products below 10⁻³
//! count as 0. For a bounded action μ is in units of half its interval, around the middle.
//!
//! The argument of φ is the [`Weighting`]: the paper's raw λ on a box, or normalised weights.

mod aligned;
mod axis;
mod field;
mod kernels;
mod rollout;
mod tensor;

use acrl::{ActionPart, BatchMatrix, Error, Interval, Rng, VecPolicy, VecTask};
use pulp::{Arch, Simd, WithSimd};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use axis::Axis;
pub(crate) use field::Field;
use kernels::Kernels;
pub(crate) use rollout::{Progress, Rollout};
pub(crate) use tensor::Tensor;

use crate::LearnError;
use crate::error::{length, setting};
use crate::settings::{Range, settings};

/// Coordinates of the kernels over the multipliers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Weighting {
    /// λ itself, on \[0, high\]^m, as in the paper. With an objective λ_i = w_i/w₀.
    ///
    /// Far outside the box there are no kernels: μ = 0, and the multipliers grow for ever. `clamp` takes the nearest λ of
    /// the box instead; the paper leaves it open.
    Raw {
        /// Upper end of the box.
        high: f64,
        /// Whether a λ outside is replaced by the nearest one inside.
        clamp: bool,
    },
    /// x_i = w_i R_i/max_j w_j R_j, on \[0, 1\], where R_i is the range of r_i; all 1 at λ = 0. With an objective i = 0 … m and
    /// w₀ has kernels of its own, without one i = 1 … m.
    ///
    /// Relative to the largest and not to the sum: equal weights, where behaviour changes, are then at nodes. Relative to
    /// the sum, four equal weights are 0.25 each, between two nodes that are 0.5 apart; the policy is blurred where it has
    /// to be sharp, and multipliers grow without bound.
    Normalised,
    /// None: a policy π_θ(a|s) that does not depend on λ, as baselines need it.
    Nothing,
}

settings! {
    /// Layout of the kernels of a policy. The number of kernels, times the coordinates of an action, is at most 33,554,432.
    #[derive(Copy)]
    pub struct RbfConfig {
        /// Coordinates of the kernels over the multipliers.
        weighting: Weighting = Weighting::Normalised; Range::Table("normalised, nothing, or raw with high and clamp");
        /// Kernels per coordinate of an observation.
        state_nodes: usize = 11; Range::Whole(2, Axis::NODES as u64);
        /// Kernels per multiplier.
        weight_nodes: usize = 3; Range::Whole(2, Axis::NODES as u64);
    }
}

impl RbfConfig {
    /// The layout of the paper: kernels one unit apart over λ ∈ \[0, 5\]^m, 11 per coordinate of the state.
    pub fn literal() -> Self {
        Self { weighting: Weighting::Raw { high: 5.0, clamp: false }, state_nodes: 11, weight_nodes: 6 }
    }
}

/// Map from the weights w₀ … w_m of an execution to the coordinates of the kernels over the multipliers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prices {
    weighting: Weighting,
    pub(crate) objective: bool,
    /// R₀ … R_m; all 1 for raw multipliers.
    pub(crate) scales: Vec<f64>,
}

impl Prices {
    fn new(task: &VecTask<'_>, weighting: Weighting) -> Self {
        let positive = |r: &f64| if *r > 0.0 { *r } else { 1.0 };
        let scales = match weighting {
            Weighting::Raw { .. } => vec![1.0; task.scales().len()],
            Weighting::Normalised | Weighting::Nothing => task.scales().iter().map(positive).collect(),
        };
        Self { weighting, objective: task.has_objective(), scales }
    }

    /// Number of kernel axes over the weights: one for each of r₁ … r_m, one for an objective that is normalised with them,
    /// and none for a policy that does not depend on them.
    fn axes(&self) -> usize {
        let m = self.scales.len().saturating_sub(1);
        match self.weighting {
            Weighting::Raw { .. } => m,
            Weighting::Normalised => m + usize::from(self.objective),
            Weighting::Nothing => 0,
        }
    }

    /// Writes one coordinate per axis, given w₀ … w_m in `weights`, which is overwritten.
    #[inline(always)]
    pub(crate) fn coordinates(&self, weights: &mut [f64], out: &mut [f64]) {
        match self.weighting {
            Weighting::Raw { high, clamp } => {
                // A weight of 0 on the objective is a multiplier without bound: the far side of the box.
                let objective = if self.objective { weights[0] } else { 1.0 };
                for (out, w) in out.iter_mut().zip(&weights[1..]) {
                    let lambda = if objective > 0.0 { w / objective } else { high * w };
                    *out = if clamp { lambda.min(high) } else { lambda };
                }
            }
            Weighting::Normalised => {
                let first = usize::from(!self.objective);
                let mut most = 0.0f64;
                for i in first..weights.len() {
                    weights[i] *= self.scales[i];
                    most = most.max(weights[i]);
                }
                for (out, w) in out.iter_mut().zip(&weights[first..]) {
                    *out = if most > 0.0 { w / most } else { 1.0 };
                }
            }
            Weighting::Nothing => {}
        }
    }
}

/// θ = 0 for a task, with `extra` outputs beside the coordinates of its actions.
pub(crate) fn lay_out(
    task: &VecTask<'_>,
    settings: &RbfConfig,
    extra: usize,
) -> Result<(Tensor, Prices), LearnError> {
    let environment = task.environment();
    let axes = environment.observation_space().iter().map(|range| Axis::new(*range, settings.state_nodes));
    let high = match settings.weighting {
        Weighting::Raw { high, .. } => high,
        Weighting::Normalised | Weighting::Nothing => 1.0,
    };
    let axis = Axis::new(Interval::new(0.0, high), settings.weight_nodes)?;
    let prices = Prices::new(task, settings.weighting);
    let multipliers = vec![axis; prices.axes()];
    let outputs = environment.action_space().len() + extra;
    Ok((Tensor::zeros(axes.collect::<Result<_, _>>()?, multipliers, outputs)?, prices))
}

/// Middle and unit of each coordinate of an action; refuses choices.
pub(crate) fn units(parts: &[ActionPart]) -> Result<Vec<(f64, f64)>, LearnError> {
    let unit = |part: &ActionPart| match *part {
        ActionPart::Continuous(range) if range.is_bounded() => {
            let half = 0.5 * range.width();
            setting("half the interval of an action", half, f64::MIN_POSITIVE.., "above 0")?;
            Ok((range.low + half, half))
        }
        ActionPart::Continuous(_) => Ok((0.0, 1.0)),
        ActionPart::Discrete(n) => Err(LearnError::Setting {
            name: "choices of an action",
            value: n.to_string(),
            expected: "a number instead: a Gaussian policy cannot choose (ppo can)".to_owned(),
        }),
    };
    parts.iter().map(unit).collect()
}

/// Policy π_θ(a|s, λ), which takes its mean or draws its actions.
///
/// Actions in an environment depend on that environment only.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RbfPolicy {
    tensor: Tensor,
    prices: Prices,
    /// Middle and unit of each coordinate of an action.
    units: Vec<(f64, f64)>,
    /// σ, in these units.
    std: f64,
    sampling: bool,
    #[serde(skip)]
    scratch: Option<Scratch>,
}

/// Scratch buffers for one environment, so that acting allocates nothing.
#[derive(Debug, Clone)]
struct Scratch {
    kernels: Kernels,
    weights: Vec<f64>,
    coordinates: Vec<f64>,
    means: Vec<f64>,
}

/// Everything about a policy but θ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RbfShape {
    state: Vec<Axis>,
    multipliers: Vec<Axis>,
    prices: Prices,
    units: Vec<(f64, f64)>,
    std: f64,
    sampling: bool,
}

impl RbfPolicy {
    fn new(tensor: Tensor, prices: Prices, units: Vec<(f64, f64)>, std: f64) -> Result<Self, LearnError> {
        let above = |name, value| setting(name, value, f64::MIN_POSITIVE.., "a finite number above 0");
        above("std", std)?;
        length("units of the actions", tensor.outputs(), units.len())?;
        length("kernels over the multipliers", prices.axes(), tensor.multipliers().len())?;
        prices.scales.iter().try_for_each(|r| above("a scale of the rewards", *r))?;
        for (middle, unit) in &units {
            above("the unit of an action", *unit)?;
            setting("the middle of an action", *middle, .., "a finite number")?;
        }
        if let Weighting::Raw { high, .. } = prices.weighting {
            above("high", high)?;
        }
        Ok(Self::assemble(tensor, prices, units, std))
    }

    /// Of consistent parts.
    fn assemble(tensor: Tensor, prices: Prices, units: Vec<(f64, f64)>, std: f64) -> Self {
        Self { tensor, prices, units, std, sampling: false, scratch: None }
    }

    /// Of a shape and θ in the order of [`theta`](Self::theta); refuses inconsistent parts.
    pub fn from_parts(shape: RbfShape, theta: Vec<f32>) -> Result<Self, LearnError> {
        let RbfShape { state, multipliers, prices, units, std, sampling } = shape;
        let tensor = Tensor::new(state, multipliers, units.len(), theta)?;
        Ok(Self::new(tensor, prices, units, std)?.sampling(sampling))
    }

    /// Everything but θ.
    pub fn shape(&self) -> RbfShape {
        RbfShape {
            state: self.tensor.state().to_vec(),
            multipliers: self.tensor.multipliers().to_vec(),
            prices: self.prices.clone(),
            units: self.units.clone(),
            std: self.std,
            sampling: self.sampling,
        }
    }

    /// θ, by kernel of the state (the last coordinate running fastest), coordinate of the action, and kernel of the
    /// multipliers (the first one running fastest).
    pub fn theta(&self) -> Vec<f32> {
        self.tensor.theta()
    }

    /// `Ok` if it can act in the task's environment; else the difference.
    pub(crate) fn check(&self, task: &VecTask<'_>) -> Result<(), String> {
        let environment = task.environment();
        let axes = environment.observation_space().iter().zip(self.tensor.state());
        let same = axes.clone().all(|(range, axis)| Axis::new(*range, axis.nodes).is_ok_and(|a| a == *axis));
        if !same || axes.len() != self.tensor.state().len() {
            return Err("it was trained on observations in other ranges".to_owned());
        }
        let units = units(environment.action_space()).map_err(|e| e.to_string())?;
        if units != self.units {
            return Err("it was trained for actions in other ranges".to_owned());
        }
        let prices = Prices::new(task, self.prices.weighting);
        if prices != self.prices {
            return Err("it was trained for another objective or rewards with other ranges".to_owned());
        }
        Ok(())
    }

    /// Whether it does not depend on λ.
    pub fn ignores_weights(&self) -> bool {
        self.prices.weighting == Weighting::Nothing
    }

    /// Whether it draws its actions.
    pub fn is_sampling(&self) -> bool {
        self.sampling
    }

    /// The same policy, drawing actions from N(μ, σ²) as the paper does, or taking μ.
    pub fn sampling(mut self, sampling: bool) -> Self {
        self.sampling = sampling;
        self
    }
}

impl PartialEq for RbfPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.tensor == other.tensor && self.shape() == other.shape()
    }
}

impl VecPolicy for RbfPolicy {
    fn act(
        &mut self,
        observation: &BatchMatrix,
        weights: &BatchMatrix,
        actions: &mut BatchMatrix,
        rngs: &mut [Rng],
    ) -> Result<(), Error> {
        let num_envs = observation.num_envs();
        for (what, expected, found) in [
            ("rows of an observation", self.tensor.state().len(), observation.len()),
            ("weights of a policy", self.prices.scales.len(), weights.len()),
            ("rows of an action", self.units.len(), actions.len()),
            ("num_envs of weights", num_envs, weights.num_envs()),
            ("num_envs of actions", num_envs, actions.num_envs()),
            ("generators", num_envs, rngs.len()),
        ] {
            if num_envs > 0 && expected != found {
                return Err(Error::Arity { what: what.into(), expected, found });
            }
        }
        if let Some(&value) = observation.as_slice().iter().find(|x| !x.is_finite()) {
            return Err(Error::NotFinite { what: "an observation".into(), value });
        }
        let (tensor, rewards) = (&self.tensor, self.prices.scales.len());
        self.scratch.get_or_insert_with(|| Scratch {
            kernels: Kernels::new(tensor),
            weights: vec![0.0; rewards],
            coordinates: vec![0.0; tensor.multipliers().len()],
            means: vec![0.0; tensor.outputs()],
        });
        Arch::new().dispatch(Act { policy: self, observation, weights, actions, rngs });
        Ok(())
    }
}

/// Acting in all environments, one after the other, with the vector instructions of the machine.
struct Act<'a> {
    policy: &'a mut RbfPolicy,
    observation: &'a BatchMatrix,
    weights: &'a BatchMatrix,
    actions: &'a mut BatchMatrix,
    rngs: &'a mut [Rng],
}

impl WithSimd for Act<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { policy, observation, weights, actions, rngs } = self;
        let RbfPolicy { tensor, prices, units, std, sampling, scratch } = policy;
        let Some(Scratch { kernels, weights: w, coordinates, means }) = scratch else { return };
        for (env, rng) in rngs.iter_mut().enumerate() {
            for (i, w) in w.iter_mut().enumerate() {
                *w = weights.at(i, env);
            }
            prices.coordinates(w, coordinates);
            kernels.set_multipliers(tensor.multipliers(), coordinates);
            kernels.set_state(tensor.state(), (0..observation.len()).map(|row| observation.at(row, env)));
            tensor.value(simd, kernels, means);
            for (i, ((middle, unit), mean)) in units.iter().zip(means.iter()).enumerate() {
                let noise = if *sampling { *std * rng.normal() } else { 0.0 };
                actions.set(i, env, middle + unit * (mean + noise));
            }
        }
    }
}

impl Serialize for RbfPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for RbfPolicy {
    /// Refuses a policy whose parts are inconsistent.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Self { tensor, prices, units, std, sampling, .. } = Self::deserialize(deserializer)?;
        let policy = Self::new(tensor, prices, units, std).map_err(serde::de::Error::custom)?;
        Ok(policy.sampling(sampling))
    }
}

#[cfg(test)]
pub(crate) mod tests;
