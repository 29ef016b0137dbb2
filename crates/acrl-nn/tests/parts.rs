//! Functions over slices, Adam, initialisation and deserialisation.

use acrl_nn::{Adam, Mlp, ShapeError, clip_norm, exp, tanh};
use proptest::prelude::*;
use rand_core::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

fn uniform(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

#[test]
fn tanh_is_accurate_over_all_floats() {
    let mut x: Vec<f32> = (-1_200_000..=1_200_000).map(|i| i as f32 * 1e-5).collect();
    x.extend((-140..20).map(|e| 1.37 * 2.0_f32.powi(e)));
    let mut y = x.clone();
    tanh(&mut y);
    for (x, y) in x.iter().zip(&y) {
        let expected = f64::from(*x).tanh();
        let error = (f64::from(*y) - expected).abs();
        assert!(error <= 1e-6 * expected.abs(), "tanh {x} is {expected}, not {y}");
        assert!(y.abs() < 1.0 && y.is_sign_positive() == x.is_sign_positive());
    }
    let mut mirrored: Vec<f32> = x.iter().map(|x| -x).collect();
    tanh(&mut mirrored);
    assert!(mirrored.iter().zip(&y).all(|(a, b)| a.to_bits() == (-b).to_bits()));
    let mut special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MAX, f32::MIN_POSITIVE];
    tanh(&mut special);
    assert!(special[0].is_nan());
    assert!(
        (special[1] - 1.0).abs() < 1e-6 && (special[2] + 1.0).abs() < 1e-6 && (special[5] - 1.0).abs() < 1e-6
    );
    assert_eq!([special[3].to_bits(), special[4].to_bits()], [0.0_f32.to_bits(), (-0.0_f32).to_bits()]);
}

#[test]
fn exp_is_accurate_over_all_floats() {
    let x: Vec<f32> = (-1_100_000..=900_000).map(|i| i as f32 * 1e-4).collect();
    let mut y = x.clone();
    exp(&mut y);
    for (x, y) in x.iter().zip(&y) {
        let expected = f64::from(*x).exp();
        if expected > f64::from(f32::MAX) {
            assert_eq!(*y, f32::INFINITY, "exp {x}");
        } else {
            let error = (f64::from(*y) - expected).abs();
            assert!(error <= 2.4e-7 * expected + 1.5e-45, "exp {x} is {expected}, not {y}");
        }
    }
    let mut special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0];
    exp(&mut special);
    assert!(special[0].is_nan());
    assert_eq!(special[1..], [f32::INFINITY, 0.0, 1.0]);
}

#[test]
fn orthogonal_initialization_has_the_requested_gain() {
    for shape in [[6, 64], [64, 6], [7, 7], [1, 1], [1, 5]] {
        let net = Mlp::with_gains(&shape, &[3.0], &mut Xoshiro256PlusPlus::seed_from_u64(9))
            .expect("a valid shape");
        let (n, m) = (shape[0], shape[1]);
        let w = |j: usize, k: usize| f64::from(net.parameters()[j * n + k]);
        for a in 0..n.min(m) {
            for b in 0..n.min(m) {
                let dot: f64 = if m <= n {
                    (0..n).map(|k| w(a, k) * w(b, k)).sum()
                } else {
                    (0..m).map(|j| w(j, a) * w(j, b)).sum()
                };
                assert!((dot - if a == b { 9.0 } else { 0.0 }).abs() < 1e-5, "{shape:?}");
            }
        }
        assert!(net.parameters()[n * m..].iter().all(|c| *c == 0.0));
    }
}

#[test]
fn invalid_shapes_are_rejected() {
    let new = |shape: &[usize]| Mlp::new(shape, 1.0, &mut Xoshiro256PlusPlus::seed_from_u64(0)).map(|_| ());
    assert_eq!(new(&[]), Err(ShapeError::TooShort(0)));
    assert_eq!(new(&[3]), Err(ShapeError::TooShort(1)));
    assert_eq!(new(&[3, 0, 1]), Err(ShapeError::Empty(1)));
    assert_eq!(new(&[usize::MAX, 2]), Err(ShapeError::TooLarge));
    assert_eq!(new(&[usize::MAX / 2, 2, 2]), Err(ShapeError::TooLarge));
    let few = Mlp::from_parameters(&[2, 1], vec![0.0; 2]).map(|_| ());
    assert_eq!(few, Err(ShapeError::Parameters { expected: 3, found: 2 }));
}

#[test]
fn deserialization_rejects_invalid_state() {
    let net = Mlp::new(&[2, 3, 1], 0.01, &mut Xoshiro256PlusPlus::seed_from_u64(4)).expect("a valid shape");
    let text = serde_json::to_string(&net).expect("JSON");
    assert_eq!(serde_json::from_str::<Mlp>(&text).expect("a network"), net);
    for (text, reason) in [
        (r#"{"shape": [2], "parameters": []}"#, "1 widths"),
        (r#"{"shape": [2, 0], "parameters": []}"#, "width 1"),
        (r#"{"shape": [1, 1], "parameters": [0.0]}"#, "2 parameters, not 1"),
        (r#"{"shape": [1, 18446744073709551615], "parameters": []}"#, "more parameters"),
    ] {
        let error = serde_json::from_str::<Mlp>(text).expect_err(text).to_string();
        assert!(error.contains(reason), "{error}");
    }

    let mut adam = Adam::new(3);
    adam.step(&mut [1.0, 2.0, 3.0], &[0.1, -0.2, 0.3], 0.01);
    let text = serde_json::to_string(&adam).expect("JSON");
    assert_eq!(serde_json::from_str::<Adam>(&text).expect("an optimiser"), adam);
    for (wrong, reason) in [
        (text.replace("\"beta\":[0.9", "\"beta\":[1.0"), "decay rates"),
        (text.replace("\"epsilon\":", "\"epsilon\":-"), "epsilon"),
        (text.replace("\"second\":[", "\"second\":[-1.0,"), "4 second moments"),
        (text.replace("\"second\":[", "\"second\":[-").replace("1e-5", "0.00001"), "mean of squares"),
    ] {
        let error = serde_json::from_str::<Adam>(&wrong).expect_err(&wrong).to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn clip_norm_leaves_small_gradients_unchanged() {
    assert_eq!(clip_norm(&[0.3, 0.4], 1.0).0, 1.0);
    assert_eq!(clip_norm(&[0.0; 40], 1.0), (1.0, 0.0));
    let (scale, norm) = clip_norm(&[1.0; 100], 0.5);
    assert_eq!((scale, norm), (0.05, 10.0));
}

proptest! {
    #[test]
    fn adam_matches_the_published_update(n in 0_usize..70, steps in 1_usize..20, seed in any::<u64>(), scale in 0.1_f32..2.0) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (beta, epsilon, rate) = ([0.9_f32, 0.999], 1e-5_f32, 0.01_f32);
        let [b1, b2] = beta.map(f64::from);
        let mut x: Vec<f32> = (0..n).map(|_| uniform(&mut rng) as f32 - 0.5).collect();
        let mut expected: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let (mut m, mut v) = (vec![0.0; n], vec![0.0; n]);
        let mut adam = Adam::with(n, beta, epsilon);
        for t in 1..=steps {
            let g: Vec<f32> = (0..n).map(|_| uniform(&mut rng) as f32 - 0.5).collect();
            adam.step_scaled(&mut x, &g, rate, scale);
            for i in 0..n {
                let g = f64::from(g[i]) * f64::from(scale);
                m[i] = b1 * m[i] + (1.0 - b1) * g;
                v[i] = b2 * v[i] + (1.0 - b2) * g * g;
                let (m, v) = (m[i] / (1.0 - b1.powi(t as i32)), v[i] / (1.0 - b2.powi(t as i32)));
                expected[i] -= f64::from(rate) * m / (v.sqrt() + f64::from(epsilon));
            }
        }
        prop_assert_eq!(adam.steps(), steps as u64);
        for (x, expected) in x.iter().zip(&expected) {
            prop_assert!((f64::from(*x) - expected).abs() < 1e-5, "{} instead of {}", x, expected);
        }
    }
}
