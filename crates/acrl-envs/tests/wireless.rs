//! Wireless: its rates, its fading, and its optimum.

#![allow(clippy::unwrap_used)]

use std::f64::consts::LN_2;

use acrl::{BatchMatrix, Rng, VecEnv as _};
use acrl_envs::{Wireless, WirelessParameters};

fn wireless(change: impl FnOnce(&mut WirelessParameters)) -> Wireless {
    let mut parameters = WirelessParameters::default();
    change(&mut parameters);
    Wireless::new(parameters).unwrap()
}

/// Steps so many environments with one action and calls back with the state before, and the rewards.
fn simulate(w: &Wireless, steps: usize, action: [f64; 2], mut seen: impl FnMut(&BatchMatrix, &BatchMatrix)) {
    let num_envs = 200;
    let mut rngs: Vec<Rng> = (0..num_envs as u64).map(|env| Rng::stream(3, env)).collect();
    let mut state = BatchMatrix::zeros(w.state_dimension(), num_envs);
    let (mut actions, mut rewards) =
        (BatchMatrix::zeros(2, num_envs), BatchMatrix::zeros(w.reward_names().len(), num_envs));
    for env in 0..num_envs {
        w.reset(&mut state, env, &mut rngs[env]).unwrap();
        actions.set_column(env, &action);
    }
    for _ in 0..steps {
        let before = state.clone();
        w.step(&mut state, &actions, &mut rewards, &mut rngs).unwrap();
        seen(&before, &rewards);
    }
}

#[test]
fn the_served_user_has_the_rate_of_shannon_and_the_others_none() {
    let w = wireless(|p| p.noise = 0.5);
    let mut state = BatchMatrix::zeros(6, 1);
    state.set_column(0, &[0.3, 0.4, 1.0, 0.0, 3.0, 4.0]);
    // |z|² = 0.25, 1, 25; the last is capped at 6.
    assert_eq!(w.gains(&state, 0), [0.5, 1.0, 3.0]);
    let mut seen = BatchMatrix::zeros(3, 1);
    w.observe(&state, &mut seen);
    for (seen, expected) in seen.column(0).zip([5.0f64.log2(), 9.0f64.log2(), 25.0f64.log2()]) {
        assert!((seen - expected).abs() < 1e-12);
    }
    let (mut actions, mut rewards) = (BatchMatrix::zeros(2, 1), BatchMatrix::zeros(5, 1));
    actions.set_column(0, &[2.0, 2.5]);
    w.step(&mut state, &actions, &mut rewards, &mut [Rng::new(0)]).unwrap();
    let rate = (1.0 + 2.5 * 3.0 / 0.5f64).log2();
    for (reward, expected) in rewards.column(0).zip([rate, 0.0, 0.0, rate, 2.5]) {
        assert!((reward - expected).abs() < 1e-12);
    }
    assert_eq!(w.reward_names(), ["sum_rate", "rate_near", "rate_middle", "rate_far", "power"]);
}

#[test]
fn users_that_do_not_exist_are_named_and_power_is_clipped() {
    let w = wireless(|_| ());
    let act = |action: [f64; 2]| {
        let (mut state, mut actions, mut rewards) =
            (BatchMatrix::zeros(6, 1), BatchMatrix::zeros(2, 1), BatchMatrix::zeros(5, 1));
        actions.set_column(0, &action);
        w.step(&mut state, &actions, &mut rewards, &mut [Rng::new(0)]).map(|()| rewards.at(4, 0))
    };
    assert_eq!([-1.0, 9.0, f64::INFINITY].map(|power| act([0.0, power]).unwrap()), [0.0, 4.0, 4.0]);
    for user in [-1.0, 3.0, 0.5, f64::NAN, f64::INFINITY] {
        let error = act([user, 1.0]).unwrap_err().to_string();
        assert!(error.contains(&format!("the action 'user' in env 0 is {user}, expected")), "{error}");
    }
    assert!(act([0.0, f64::NAN]).unwrap_err().to_string().contains("the action 'power' in env 0"));
}

#[test]
fn gains_are_exponential_in_every_slot_and_correlated_as_asked() {
    for correlation in [0.0, 0.9] {
        let w = wireless(|p| p.correlation = correlation);
        let (mut sum, mut above, mut count) = ([0.0; 3], 0.0, 0.0);
        let (mut product, mut last): (f64, Option<BatchMatrix>) = (0.0, None);
        simulate(&w, 500, [0.0, 1.0], |state, _| {
            for env in 0..state.num_envs() {
                w.gains(state, env).iter().enumerate().for_each(|(k, h)| sum[k] += h);
                above += f64::from(u8::from(w.gains(state, env)[1] > 1.0));
                count += 1.0;
                product += last.as_ref().map_or(0.0, |last| last.at(0, env) * state.at(0, env));
            }
            last = Some(state.clone());
        });
        // E min(x, 6) = 1 − e⁻⁶.
        let cut = 1.0 - (-6.0f64).exp();
        for (sum, mean) in sum.iter().zip([2.0 * cut, cut, 0.5 * cut]) {
            assert!((sum / count / mean - 1.0).abs() < 0.03, "{sum} {mean}");
        }
        assert!((above / count - (-1.0f64).exp()).abs() < 0.01);
        assert!((product / count / 0.5 - correlation).abs() < 0.02, "{}", product / count);
    }
}

#[test]
fn the_requirements_are_what_equal_turns_give() {
    let w = wireless(|p| p.correlation = 0.0);
    let specification = w.specification().unwrap();
    assert_eq!(specification.bounds(), [0.443, 0.286, 0.173, -1.0]);
    for (k, bound) in specification.bounds().iter().take(3).enumerate() {
        let (mut sum, mut count) = (0.0, 0.0);
        simulate(&w, 500, [k as f64, 1.0], |_, rewards| {
            sum += rewards.row(k + 1).iter().sum::<f64>();
            count += rewards.num_envs() as f64;
        });
        assert!((sum / count / 3.0 - bound).abs() < 0.004, "{} {bound}", sum / count / 3.0);
    }
}

#[test]
fn water_filling_is_better_than_anything_on_a_grid() {
    let w = wireless(|_| ());
    let mut rng = Rng::new(4);
    for _ in 0..200 {
        let mut weights: Vec<f64> = (0..5).map(|_| 2.0 * rng.uniform() - 0.3).collect();
        weights[4] = 0.5 - 2.0 * rng.uniform();
        let gains: Vec<f64> = (0..3).map(|_| 3.0 * rng.uniform()).collect();
        let worth = |k: usize, power: f64| {
            (weights[0] + weights[k + 1]) * (1.0 + power * gains[k]).log2() + weights[4] * power
        };
        let (user, power) = w.optimal_action(&weights, &gains).unwrap();
        for (k, i) in (0..3).flat_map(|k| (0..=100).map(move |i| (k, i))) {
            let other = worth(k, 0.04 * f64::from(i));
            assert!(worth(user, power) >= other - 1e-12, "{weights:?} {gains:?}");
        }
    }
    assert!(w.optimal_action(&[1.0; 4], &[1.0; 3]).is_err());
    assert_eq!(w.optimal_action(&[1.0, 0.0, 0.0, 0.0, -1.0], &[0.0; 3]).unwrap().1, 0.0);
}

/// Dual descent over samples: d(λ) is at least the optimum for every λ, and near λ* the maximiser itself meets the
/// requirements, so that its sum rate is at most the optimum.
#[test]
fn dual_descent_finds_the_optimum_that_the_page_states() {
    let w = wireless(|p| p.correlation = 0.0);
    let c = w.specification().unwrap().bounds();
    let mut rng = Rng::new(7);
    let users = &w.parameters().users;
    let mut draw = || users.iter().map(|u| u.gain * (-(1.0 - rng.uniform()).ln()).min(6.0)).collect();
    let samples: Vec<Vec<f64>> = (0..20_000).map(|_| draw()).collect();
    let values = |lambda: &[f64; 4], samples: &[Vec<f64>]| {
        let weights = [1.0, lambda[0], lambda[1], lambda[2], -lambda[3]];
        let mut sums = [0.0; 5];
        for h in samples {
            let (user, power) = w.optimal_action(&weights, h).unwrap();
            let rate = (power * h[user]).ln_1p() / LN_2;
            sums[0] += rate;
            sums[user + 1] += rate;
            sums[4] -= power;
        }
        sums.map(|sum| sum / samples.len() as f64)
    };
    let mut lambda = [0.0, 0.0, 0.0, 0.5];
    for samples in samples.chunks(1_000).cycle().take(100) {
        let v = values(&lambda, samples);
        (0..4).for_each(|i| lambda[i] = f64::max(0.0, lambda[i] + 0.3 * (c[i] - v[i + 1])));
    }
    let v = values(&lambda, &samples);
    let dual = v[0] + (0..4).map(|i| lambda[i] * (v[i + 1] - c[i])).sum::<f64>();
    assert!((dual - Wireless::DEFAULT_OPTIMUM).abs() < 0.03, "{dual}");
    assert!((lambda[2] - 0.303).abs() < 0.1 && (lambda[3] - 0.895).abs() < 0.1, "{lambda:?}");
    assert!((0..4).all(|i| v[i + 1] > c[i] - 0.05), "{v:?}");
}
