//! Kernels compared with their formulas, and a small problem for the learners.

use super::*;
use acrl::{Objective, Requirement, Spaces, Specification};

#[path = "../../../tests/common/unit_interval.rs"]
mod unit_interval;

pub(crate) use unit_interval::UnitInterval;

/// x in \[0, 1\] and a velocity in \[−1, 1\]: `left` and `right` are 1 in a quarter each, `still` is 1 − v².
pub(crate) fn line() -> UnitInterval {
    let velocity = ActionPart::Continuous(Interval::new(-1.0, 1.0));
    UnitInterval::new(&["left", "right", "still"], &[velocity], |x, [v, _], rewards, _| {
        let v = v.clamp(-1.0, 1.0);
        *rewards = [f64::from(*x < 0.25), f64::from(*x > 0.75), 1.0 - v * v];
        *x = (*x + 0.1 * v).clamp(0.0, 1.0);
    })
}

pub(crate) fn task(line: &UnitInterval) -> VecTask<'_> {
    let requirements = ["left", "right"].map(|name| Requirement::at_least(name, 0.3).unwrap());
    VecTask::new(line, Specification::new(None, requirements.to_vec()).unwrap()).unwrap()
}

fn task_with_objective(line: &UnitInterval) -> VecTask<'_> {
    let objective = Some(Objective::maximize("still"));
    let requirement = Requirement::at_least("left", 0.3).unwrap();
    VecTask::new(line, Specification::new(objective, vec![requirement]).unwrap()).unwrap()
}

/// Kernels over two coordinates of the state and two multipliers with θ drawn at random, for two outputs.
fn random_tensor() -> Tensor {
    let axis = |low, high, nodes| Axis::new(Interval::new(low, high), nodes).unwrap();
    let (state, multipliers) =
        (vec![axis(0.0, 10.0, 11), axis(-1.0, 1.0, 4)], vec![axis(0.0, 1.0, 3), axis(0.0, 5.0, 6)]);
    let mut rng = Rng::new(2);
    let theta = (0..11 * 4 * 2 * 18).map(|_| rng.normal() as f32).collect();
    Tensor::new(state, multipliers, 2, theta).unwrap()
}

/// Σ_n Σ_j θ_{n,o,j} κ_n(s) φ_j(λ) from the formulas, with products below 10⁻³ left out; and each κ_n φ_j.
fn naive(tensor: &Tensor, state: &[f64], multipliers: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let products = |axes: &[Axis], x: &[f64]| {
        let mut products = vec![1.0];
        for (axis, x) in axes.iter().zip(x) {
            let kernel = |k: usize| {
                let d = (x - (axis.low + axis.spacing * k as f64)) / axis.spacing;
                (-0.5 * d * d).exp()
            };
            products = products
                .iter()
                .flat_map(|p| (0..axis.nodes).map(move |k| p * kernel(k)))
                .collect::<Vec<f64>>();
        }
        products.into_iter().map(|p| if p >= 1e-3 { p } else { 0.0 }).collect::<Vec<f64>>()
    };
    let reversed = |axes: &[Axis]| axes.iter().rev().copied().collect::<Vec<_>>();
    let last_first = [multipliers[1], multipliers[0]];
    let kappa = products(tensor.state(), state);
    let phi = products(&reversed(tensor.multipliers()), &last_first);
    let features: Vec<f64> = kappa.iter().flat_map(|k| phi.iter().map(move |p| k * p)).collect();
    let theta = tensor.theta();
    let value = |o: usize| {
        let row = |n: usize| theta[(n * 2 + o) * phi.len()..(n * 2 + o + 1) * phi.len()].iter();
        (0..kappa.len()).flat_map(row).zip(&features).map(|(t, f)| f64::from(*t) * f).sum()
    };
    ((0..2).map(value).collect(), features)
}

/// A kernel that is one part in a million off may be left out by one and not by the other.
const POINTS: [([f64; 2], [f64; 2]); 4] =
    [([5.2, 0.3], [0.4, 1.7]), ([0.0, -1.0], [0.0, 0.0]), ([9.7, 1.4], [1.0, 5.0]), ([2.5, 0.9], [0.7, 8.3])];

#[test]
fn both_orders_of_summation_agree_with_the_formula() {
    struct Value<'a>(&'a Tensor, &'a mut Kernels, &'a mut [f64]);
    impl WithSimd for Value<'_> {
        type Output = ();
        fn with_simd<S: Simd>(self, simd: S) {
            self.0.value(simd, self.1, self.2);
        }
    }
    let tensor = random_tensor();
    let (mut kernels, mut field) = (Kernels::new(&tensor), Field::new(&tensor));
    for (state, multipliers) in POINTS {
        let (expected, _) = naive(&tensor, &state, &multipliers);
        let mut found = [[f64::NAN; 2]; 2];
        kernels.set_state(tensor.state(), state.into_iter());
        kernels.set_multipliers(tensor.multipliers(), &multipliers);
        Arch::new().dispatch(Value(&tensor, &mut kernels, &mut found[0]));
        field.set_multipliers(&tensor, &multipliers);
        field.kernels.set_state(tensor.state(), state.into_iter());
        field.value(&tensor, &mut found[1]);
        for found in found.iter().flatten().zip(expected.iter().cycle()) {
            assert!((found.0 - found.1).abs() < 1e-5, "{state:?} {multipliers:?}: {found:?}");
        }
    }
}

#[test]
fn a_step_on_theta_is_the_gradient_of_the_log_density() {
    let (tensor, std, action) = (random_tensor(), 0.7, [0.4, -1.3]);
    // Two steps of a rollout at the same multipliers, with credits 1 and −2.
    let (steps, multipliers) = ([([5.2, 0.3], 1.0), ([4.6, -0.2], -2.0)], [0.4, 1.7]);
    let mut moved = tensor.clone();
    let mut field = Field::new(&tensor);
    field.set_multipliers(&tensor, &multipliers);
    for (state, credit) in steps {
        let mut mean = [0.0; 2];
        field.kernels.set_state(tensor.state(), state.into_iter());
        field.value(&tensor, &mut mean);
        let kernels = field.kernels.state().to_vec();
        field.add_gradient(&kernels, &[0, 1].map(|o| credit * (action[o] - mean[o]) / (std * std)));
    }
    field.ascend(&mut moved);
    let log_density = |tensor: &Tensor| -> f64 {
        let density = |(state, credit): &([f64; 2], f64)| {
            let (mean, _) = naive(tensor, state, &multipliers);
            credit * (0..2).map(|o| -0.5 * ((action[o] - mean[o]) / std).powi(2)).sum::<f64>()
        };
        steps.iter().map(density).sum()
    };
    let (theta, after) = (tensor.theta(), moved.theta());
    let mut checked = 0;
    for k in (0..theta.len()).step_by(7) {
        let shifted = |h: f32| {
            let mut theta = theta.clone();
            theta[k] += h;
            Tensor::new(tensor.state().to_vec(), tensor.multipliers().to_vec(), 2, theta).unwrap()
        };
        let slope = (log_density(&shifted(0.01)) - log_density(&shifted(-0.01))) / 0.02;
        let found = f64::from(after[k] - theta[k]);
        assert!((slope - found).abs() < 1e-3 * slope.abs().max(1.0), "weight {k}: {slope} {found}");
        checked += usize::from(slope.abs() > 0.01);
    }
    assert!(checked > 20, "only {checked} slopes are not 0");
}

/// A policy for the line with θ drawn at random.
fn random_policy(task: &VecTask<'_>, settings: &RbfConfig) -> RbfPolicy {
    let (tensor, prices) = lay_out(task, settings, 0).unwrap();
    let mut rng = Rng::new(4);
    let theta = tensor.theta().iter().map(|_| rng.normal() as f32).collect();
    let tensor = Tensor::new(tensor.state().to_vec(), tensor.multipliers().to_vec(), 1, theta).unwrap();
    RbfPolicy::new(tensor, prices, units(task.environment().action_space()).unwrap(), 0.5).unwrap()
}

fn act(policy: &mut RbfPolicy, x: f64, weights: &[f64], rng: &mut Rng) -> f64 {
    let (mut observation, mut w, mut action) =
        (BatchMatrix::zeros(1, 1), BatchMatrix::zeros(weights.len(), 1), BatchMatrix::zeros(1, 1));
    observation.set(0, 0, x);
    w.set_column(0, weights);
    policy.act(&observation, &w, &mut action, std::slice::from_mut(rng)).unwrap();
    action.at(0, 0)
}

#[test]
fn actions_depend_on_their_environment_only() {
    let line = line();
    for settings in [RbfConfig::default(), RbfConfig::literal()] {
        let mut policy = random_policy(&task(&line), &settings).sampling(true);
        let (num_envs, mut rng) = (37, Rng::new(9));
        let (mut observation, mut weights, mut actions) = (
            BatchMatrix::zeros(1, num_envs),
            BatchMatrix::zeros(3, num_envs),
            BatchMatrix::zeros(1, num_envs),
        );
        for env in 0..num_envs {
            observation.set(0, env, rng.uniform());
            weights.set_column(env, &[0.0, 6.0 * rng.uniform(), rng.uniform()]);
        }
        let mut rngs: Vec<Rng> = (0..num_envs as u64).map(|env| Rng::stream(1, env)).collect();
        policy.act(&observation, &weights, &mut actions, &mut rngs).unwrap();
        for env in 0..num_envs {
            let w: Vec<f64> = weights.column(env).collect();
            let mut rng = Rng::stream(1, env as u64);
            assert_eq!(act(&mut policy, observation.at(0, env), &w, &mut rng), actions.at(0, env));
            assert_eq!(rng, rngs[env]);
        }
    }
}

#[test]
fn normalised_weights_are_scale_invariant_and_raw_multipliers_are_not() {
    let (line, mut rng) = (line(), Rng::new(0));
    let near = |a: f64, b: f64| (a - b).abs() < 1e-5;
    for settings in [RbfConfig::default(), RbfConfig::literal()] {
        let mut policy = random_policy(&task_with_objective(&line), &settings);
        let a = act(&mut policy, 0.4, &[1.0, 2.5], &mut rng);
        assert!(near(act(&mut policy, 0.4, &[0.2, 0.5], &mut rng), a), "{settings:?}");
        assert!(!near(act(&mut policy, 0.4, &[1.0, 1.0], &mut rng), a), "{settings:?}");
        assert!(act(&mut policy, 0.4, &[0.0, 1.0], &mut rng).is_finite());
    }
    let mut normalised = random_policy(&task(&line), &RbfConfig::default());
    let equal = act(&mut normalised, 0.4, &[0.0, 0.7, 0.7], &mut rng);
    assert!(near(act(&mut normalised, 0.4, &[0.0; 3], &mut rng), equal));
    let mut raw = random_policy(&task(&line), &RbfConfig::literal());
    assert!(!near(
        act(&mut raw, 0.4, &[0.0, 1.4, 1.4], &mut rng),
        act(&mut raw, 0.4, &[0.0, 0.7, 0.7], &mut rng)
    ));
    assert_eq!(act(&mut raw, 0.4, &[0.0, 20.0, 20.0], &mut rng), 0.0, "there are no kernels");
    let clamped = RbfConfig { weighting: Weighting::Raw { high: 5.0, clamp: true }, ..RbfConfig::literal() };
    let mut clamped = random_policy(&task(&line), &clamped);
    let edge = act(&mut clamped, 0.4, &[0.0, 5.0, 5.0], &mut rng);
    assert!(edge != 0.0 && act(&mut clamped, 0.4, &[0.0, 20.0, 20.0], &mut rng) == edge);
}

#[test]
fn a_policy_survives_serialisation_and_a_damaged_one_is_refused() {
    let line = line();
    let policy = random_policy(&task(&line), &RbfConfig::default()).sampling(true);
    let stored = serde_json::to_value(&policy).unwrap();
    assert_eq!(serde_json::from_value::<RbfPolicy>(stored.clone()).unwrap(), policy);
    assert_eq!(RbfPolicy::from_parts(policy.shape(), policy.theta()).unwrap(), policy);
    assert!(RbfPolicy::from_parts(policy.shape(), policy.theta()[1..].to_vec()).is_err());
    assert!(RbfPolicy::from_parts(policy.shape(), vec![f32::NAN; policy.theta().len()]).is_err());
    for (path, value) in [
        ("/std", serde_json::json!(-1.0)),
        ("/units", serde_json::json!([])),
        ("/units/0/1", serde_json::json!(0.0)),
        ("/prices/scales", serde_json::json!([1.0])),
        ("/prices/scales/1", serde_json::json!(0.0)),
        ("/tensor/theta", serde_json::json!([0.0])),
        ("/tensor/outputs", serde_json::json!(2)),
        ("/tensor/state/0/nodes", serde_json::json!(12)),
        ("/tensor/state/0/spacing", serde_json::json!(-1.0)),
        ("/tensor/multipliers/1/nodes", serde_json::json!(1u64 << 60)),
    ] {
        let mut bad = stored.clone();
        *bad.pointer_mut(path).unwrap() = value;
        assert!(serde_json::from_value::<RbfPolicy>(bad).is_err(), "{path}");
    }
}

#[test]
fn incompatible_problems_are_refused_with_a_reason() {
    let line = line();
    let refuse = |line: &UnitInterval, settings: &RbfConfig| {
        let laid_out = lay_out(&task(line), settings, 0).map(|_| ());
        laid_out.and_then(|()| units(&line.spaces.action).map(|_| ())).unwrap_err().to_string()
    };
    let default = RbfConfig::default();
    let changed = |change: fn(&mut Spaces)| {
        let mut line = line.clone();
        change(&mut line.spaces);
        line
    };
    let unbounded = changed(|spaces| spaces.observation = vec![Interval::UNBOUNDED]);
    assert!(refuse(&unbounded, &default).contains("axis of kernels"));
    let choice = changed(|spaces| spaces.action = vec![ActionPart::Discrete(3)]);
    assert!(refuse(&choice, &default).contains("ppo"));
    let high = changed(|spaces| spaces.observation = vec![Interval::new(0.0, 1.0); 8]);
    assert!(refuse(&high, &default).contains("fewer nodes"));
    assert!(refuse(&line, &RbfConfig { state_nodes: 1, ..default }).contains("nodes"));
    let raw = Weighting::Raw { high: f64::INFINITY, clamp: false };
    assert!(lay_out(&task(&line), &RbfConfig { weighting: raw, ..default }, 0).is_err());
    let mut policy = random_policy(&task(&line), &default);
    let (one, two) = (BatchMatrix::zeros(1, 1), BatchMatrix::zeros(2, 1));
    let mut actions = BatchMatrix::zeros(1, 1);
    assert!(policy.act(&one, &two, &mut actions, &mut [Rng::new(0)]).is_err(), "too few weights");
    assert!(policy.act(&one, &BatchMatrix::zeros(3, 1), &mut actions, &mut []).is_err(), "no generator");
}
