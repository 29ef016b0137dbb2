//! Forward and backward pass against a plain reference in double precision.

mod reference;

use acrl_nn::{Activation, Batch, Instructions, Mlp, Workspace, polyak_update};
use proptest::prelude::*;
use rand_core::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use reference::Reference;

fn uniform(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

fn random_batch(rows: usize, batch_size: usize, rng: &mut Xoshiro256PlusPlus) -> Batch {
    let mut batch = Batch::new(rows, batch_size);
    for row in 0..rows {
        batch.row_mut(row).iter_mut().for_each(|x| *x = 2.0 * uniform(rng) as f32 - 1.0);
    }
    batch
}

/// A network with biases that are not zero.
fn random_net(shape: &[usize], rng: &mut Xoshiro256PlusPlus) -> Mlp {
    let mut net = Mlp::new(shape, 1.0, rng).expect("a valid shape");
    net.parameters_mut().iter_mut().for_each(|p| *p += 0.2 * (uniform(rng) as f32 - 0.5));
    net
}

struct Passes {
    output: Batch,
    gradient: Vec<f32>,
    d_input: Batch,
}

fn passes(net: &Mlp, x: &Batch, d_y: &Batch, set: Instructions) -> Passes {
    let mut work = Workspace::new(net, x.batch_size()).with_instructions(set);
    let output = net.forward(x, &mut work).clone();
    let (mut gradient, mut d_input) =
        (vec![0.0; net.parameters().len()], Batch::new(x.rows(), x.batch_size()));
    net.backward_to_input(&mut work, d_y, &mut gradient, &mut d_input);
    Passes { output, gradient, d_input }
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

fn check(shape: &[usize], batch_size: usize, seed: u64) {
    check_net(|net| net, shape, batch_size, seed);
}

fn check_net(kind: fn(Mlp) -> Mlp, shape: &[usize], batch_size: usize, seed: u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let net = kind(random_net(shape, &mut rng));
    let x = random_batch(shape[0], batch_size, &mut rng);
    let d_y = random_batch(shape[shape.len() - 1], batch_size, &mut rng);
    let mut expected = Reference::new(&net);
    for b in 0..batch_size {
        let sample = |batch: &Batch| batch.iter_rows().map(|row| f64::from(row[b])).collect::<Vec<_>>();
        expected.add(&sample(&x), &sample(&d_y));
    }
    let mut same_bits: Option<Passes> = None;
    for set in Instructions::available() {
        let found = passes(&net, &x, &d_y, set);
        for b in 0..batch_size {
            for (row, y) in expected.outputs[b].iter().enumerate() {
                let y_found = f64::from(found.output.row(row)[b]);
                assert!(
                    (y_found - y).abs() < 1e-5,
                    "{set:?} {shape:?} {batch_size}: {y_found} instead of {y}"
                );
            }
            for (row, d) in expected.d_inputs[b].iter().enumerate() {
                let d_found = f64::from(found.d_input.row(row)[b]);
                assert!(
                    (d_found - d).abs() < 2e-5,
                    "{set:?} {shape:?} {batch_size}: {d_found} instead of {d}"
                );
            }
        }
        let tolerance = 1e-5 * (1.0 + batch_size as f64).sqrt();
        for (i, (found, g)) in found.gradient.iter().zip(&expected.gradient).enumerate() {
            let error = (f64::from(*found) - g).abs();
            assert!(
                error < tolerance,
                "{set:?} {shape:?} {batch_size}: parameter {i}: {found} instead of {g}"
            );
        }
        let mut work = Workspace::new(&net, batch_size).with_instructions(set);
        net.forward(&x, &mut work);
        let mut d_input = Batch::new(shape[0], batch_size);
        net.input_gradient(&mut work, &d_y, &mut d_input);
        assert!(d_input.iter_rows().zip(found.d_input.iter_rows()).all(|(a, b)| bits(a) == bits(b)));
        let mut work = Workspace::for_inference(&net, batch_size).with_instructions(set);
        let inferred = net.infer(&x, &mut work);
        assert!(inferred.iter_rows().zip(found.output.iter_rows()).all(|(a, b)| bits(a) == bits(b)));
        // AVX2 and AVX-512 are bit-identical without tanh, of which each has its own approximation.
        if shape.len() > 2 && net.activation() == Activation::Tanh {
            continue;
        }
        if set == Instructions::Avx512 {
            same_bits = Some(found);
        } else if let (Instructions::Avx2, Some(best)) = (set, &same_bits) {
            assert!(best.output.iter_rows().zip(found.output.iter_rows()).all(|(a, b)| bits(a) == bits(b)));
            assert!(best.d_input.iter_rows().zip(found.d_input.iter_rows()).all(|(a, b)| bits(a) == bits(b)));
            assert_eq!(bits(&best.gradient), bits(&found.gradient));
        }
    }
}

#[test]
fn passes_match_the_double_precision_reference() {
    for (seed, batch_size) in [1, 3, 15, 16, 17, 31, 32, 33, 48, 100, 257, 300].into_iter().enumerate() {
        check(&[6, 64, 64, 2], batch_size, seed as u64);
    }
    for width in [1, 3, 6, 17, 64, 100] {
        check(&[width, 1], 5, 1);
        check(&[1, width, 2], 33, 2);
        check(&[3, width, width, width, 1], 40, 3);
        check(&[width, 7, width], 65, 4);
    }
}

const KINDS: [fn(Mlp) -> Mlp; 3] = [
    |net| net.with_activation(Activation::Relu),
    |net| noisy(net.with_activation(Activation::Relu).with_layer_norm()),
    |net| noisy(net.with_layer_norm()),
];

/// Gains and shifts that are not those of the initialisation.
fn noisy(mut net: Mlp) -> Mlp {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
    net.parameters_mut().iter_mut().for_each(|p| *p += 0.2 * (uniform(&mut rng) as f32 - 0.5));
    net
}

#[test]
fn relu_and_layer_norm_match_the_double_precision_reference() {
    for kind in KINDS {
        for (seed, batch_size) in [1, 3, 16, 17, 32, 33, 100, 257, 300].into_iter().enumerate() {
            check_net(kind, &[6, 64, 64, 2], batch_size, seed as u64);
        }
        for width in [3, 17, 100] {
            check_net(kind, &[width, 1], 5, 1);
            check_net(kind, &[3, width, width, 1], 40, 3);
        }
    }
}

#[test]
fn samples_are_bit_identical_at_every_position_of_a_batch() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    for kind in KINDS {
        let net = kind(random_net(&[4, 33, 20, 3], &mut rng));
        let x = random_batch(4, 70, &mut rng);
        let all = net.infer(&x, &mut Workspace::for_inference(&net, 70)).clone();
        for b in [0, 1, 15, 16, 31, 32, 50, 69] {
            let mut one = Batch::new(4, 1);
            (0..4).for_each(|row| one.row_mut(row)[0] = x.row(row)[b]);
            let mut work = Workspace::for_inference(&net, 1);
            let alone = net.infer(&one, &mut work);
            assert!(all.iter_rows().zip(alone.iter_rows()).all(|(all, one)| bits(&all[b..=b]) == bits(one)));
        }
    }
}

#[test]
fn polyak_update_averages_every_parameter() {
    for n in [0, 1, 15, 16, 40] {
        let source: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let mut target = vec![-1.0; n];
        polyak_update(&mut target, &source, 0.25);
        assert!(target.iter().zip(&source).all(|(t, s)| (t - (0.25 * s - 0.75)).abs() < 1e-6));
    }
}

#[test]
fn networks_of_each_kind_survive_serialization() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(6);
    for kind in KINDS {
        let net = kind(random_net(&[2, 5, 4, 1], &mut rng));
        let text = serde_json::to_string(&net).expect("JSON");
        assert_eq!(serde_json::from_str::<Mlp>(&text).expect("a network"), net);
    }
    let plain = serde_json::to_string(&random_net(&[2, 1], &mut rng)).expect("JSON");
    assert!(!plain.contains("activation") && !plain.contains("layer_norm"), "{plain}");
}

#[test]
fn empty_batches_are_accepted() {
    check(&[2, 3, 1], 0, 0);
}

#[test]
fn reference_gradient_matches_finite_differences() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
    let net = random_net(&[3, 5, 4, 2], &mut rng);
    reference_matches_finite_differences(&net);
    for kind in KINDS {
        reference_matches_finite_differences(&kind(net.clone()));
    }
}

fn reference_matches_finite_differences(net: &Mlp) {
    let (x, d_y) = ([0.3, -0.7, 0.2], [0.9, -0.4]);
    let mut reference = Reference::new(net);
    reference.add(&x, &d_y);
    let loss = |r: &Reference, x: &[f64]| -> f64 {
        let y = r.forward(x).pop().expect("an output");
        y.iter().zip(&d_y).map(|(y, d)| y * d).sum()
    };
    let h = 1e-5;
    for i in 0..net.parameters().len() {
        let (mut plus, mut minus) = (Reference::new(net), Reference::new(net));
        plus.parameters[i] += h;
        minus.parameters[i] -= h;
        let slope = (loss(&plus, &x) - loss(&minus, &x)) / (2.0 * h);
        assert!((slope - reference.gradient[i]).abs() < 1e-8, "parameter {i}");
    }
    for k in 0..3 {
        let (mut plus, mut minus) = (x, x);
        plus[k] += h;
        minus[k] -= h;
        let slope = (loss(&reference, &plus) - loss(&reference, &minus)) / (2.0 * h);
        assert!((slope - reference.d_inputs[0][k]).abs() < 1e-8, "input {k}");
    }
}

#[test]
fn backward_accumulates_into_the_gradient() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let net = random_net(&[2, 9, 2], &mut rng);
    let (x, d_y) = (random_batch(2, 20, &mut rng), random_batch(2, 20, &mut rng));
    let mut work = Workspace::new(&net, 20);
    let mut gradient = vec![0.0; net.parameters().len()];
    net.forward(&x, &mut work);
    net.backward(&mut work, &d_y, &mut gradient);
    let once = gradient.clone();
    net.backward(&mut work, &d_y, &mut gradient);
    assert!(gradient.iter().zip(&once).all(|(twice, once)| *twice == 2.0 * once));
}

#[test]
fn workspace_is_reusable_with_smaller_batches() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let net = random_net(&[6, 33, 2], &mut rng);
    let mut work = Workspace::new(&net, 100);
    for batch_size in [100, 7, 64, 17, 100] {
        let (x, d_y) = (random_batch(6, batch_size, &mut rng), random_batch(2, batch_size, &mut rng));
        let fresh = passes(&net, &x, &d_y, Instructions::best());
        let mut gradient = vec![0.0; net.parameters().len()];
        assert_eq!(net.forward(&x, &mut work).row(1), fresh.output.row(1));
        net.backward(&mut work, &d_y, &mut gradient);
        assert_eq!(gradient, fresh.gradient);
    }
}

#[test]
fn nan_inputs_affect_only_their_own_sample() {
    let net = random_net(&[1, 20, 1], &mut Xoshiro256PlusPlus::seed_from_u64(1));
    let mut x = Batch::new(1, 40);
    x.row_mut(0)[7] = f32::NAN;
    x.row_mut(0)[8] = f32::INFINITY;
    for set in Instructions::available() {
        let mut work = Workspace::new(&net, 40).with_instructions(set);
        let y = net.forward(&x, &mut work);
        assert!((0..40).all(|b| y.row(0)[b].is_nan() == (b == 7)));
    }
}

proptest! {
    #[test]
    fn random_shapes_match_the_double_precision_reference(
        shape in prop::collection::vec(1_usize..40, 2..5),
        batch_size in 1_usize..80,
        seed in any::<u64>(),
    ) {
        check(&shape, batch_size, seed);
    }

    #[test]
    fn output_does_not_depend_on_the_position_in_the_batch(
        shape in prop::collection::vec(1_usize..40, 2..5),
        batch_size in 1_usize..100,
        others in 1_usize..100,
        seed in any::<u64>(),
    ) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let net = random_net(&shape, &mut rng);
        let (x, mut z) = (random_batch(shape[0], batch_size, &mut rng), random_batch(shape[0], others, &mut rng));
        let (from, to) = (rng.next_u64() as usize % batch_size, rng.next_u64() as usize % others);
        for row in 0..shape[0] {
            z.row_mut(row)[to] = x.row(row)[from];
        }
        for set in Instructions::available() {
            let mut work = Workspace::new(&net, batch_size.max(others)).with_instructions(set);
            let here: Vec<u32> = net.forward(&x, &mut work).iter_rows().map(|y| y[from].to_bits()).collect();
            let there: Vec<u32> = net.infer(&z, &mut work).iter_rows().map(|y| y[to].to_bits()).collect();
            prop_assert_eq!(here, there);
        }
    }
}
