//! Training step as a share of the core's peak, against other matrix products in the same run.
//!
//! `taskset -c 0 cargo bench -p acrl-nn`. Other products get the vector tanh of this crate, so that only they differ;
//! they are spared the biases, which take them about a tenth more.
#![allow(missing_docs, clippy::print_stdout)]

mod peak;

use acrl_nn::{Adam, Batch, Instructions, Mlp, Workspace};
use rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::hint::black_box;
use std::time::Instant;

fn uniform(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// Name, operations per sample, peak, and the function to time.
type Step = (String, f64, f64, Box<dyn FnMut()>);

const SHAPE: [usize; 4] = [6, 64, 64, 2];

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    println!("{:<22} GFLOP/s", "peak");
    let sets = Instructions::available();
    let peaks: Vec<f64> = sets.iter().map(|&set| peak::gigaflops(set)).collect();
    for (set, peak) in sets.iter().zip(&peaks) {
        println!("{:<22} {peak:.0}", format!("{set:?}"));
    }

    let macs: usize = SHAPE.windows(2).map(|n| n[0] * n[1]).sum();
    let train = 2.0 * (3 * macs - SHAPE[0] * SHAPE[1]) as f64;
    println!("\n{SHAPE:?}, {train} floating point operations a sample in a train step, {} forward", 2 * macs);
    println!(
        "{:<22} {:>6} {:>9} {:>9} {:>11} {:>11}",
        "", "batch_size", "ms", "GFLOP/s", "of own peak", "of the best"
    );
    for batch_size in [256, 1024, 2048] {
        let report = |name: &str, flops: f64, peak: f64, seconds: f64| {
            let rate = flops * batch_size as f64 / seconds / 1e9;
            let shares = (100.0 * rate / peak, 100.0 * rate / peaks[0]);
            println!(
                "{name:<22} {batch_size:>6} {:>9.4} {rate:>9.1} {:>9.0} % {:>9.0} %",
                1e3 * seconds,
                shares.0,
                shares.1
            );
        };
        let mut steps: Vec<Step> = Vec::new();
        for (&set, &peak) in sets.iter().zip(&peaks) {
            steps.push((format!("train, {set:?}"), train, peak, Box::new(ours(set, batch_size))));
        }
        steps.push(("train, faer".into(), train, peaks[0], Box::new(peers::step(batch_size, peers::faer))));
        let best = peaks[0];
        steps.push((
            "train, matrixmultiply".into(),
            train,
            best,
            Box::new(peers::step(batch_size, peers::ndarray)),
        ));
        for (&set, &peak) in sets.iter().zip(&peaks) {
            steps.push((
                format!("infer, {set:?}"),
                2.0 * macs as f64,
                peak,
                Box::new(inference(set, batch_size)),
            ));
        }
        for (name, flops, peak, seconds) in fastest(steps) {
            report(&name, flops, peak, seconds);
        }
        println!();
    }
    let (net, n) = (Mlp::new(&SHAPE, 1.0, &mut Xoshiro256PlusPlus::seed_from_u64(0)), 4_738);
    let mut parameters = net.map(|net| net.parameters().to_vec()).unwrap_or_default();
    let (mut adam, gradient) = (Adam::new(n), vec![0.1; n]);
    let step = move || adam.step(black_box(&mut parameters), black_box(&gradient), 1e-3);
    let adam = fastest(vec![("Adam".into(), 0.0, 1.0, Box::new(step) as Box<dyn FnMut()>)]);
    println!("Adam, {n} parameters: {:.2} µs", 1e6 * adam[0].3);
}

/// The least time of each step: what else runs on the machine can only add to it. All of them are measured in turn.
fn fastest(mut steps: Vec<Step>) -> Vec<(String, f64, f64, f64)> {
    let mut times = vec![Vec::new(); steps.len()];
    for round in 0..401 {
        for ((.., step), times) in steps.iter_mut().zip(&mut times) {
            // One that is not measured brings its data back to the caches.
            step();
            let (start, mut count) = (Instant::now(), 0);
            while count == 0 || start.elapsed().as_secs_f64() < 0.0004 {
                step();
                count += 1;
            }
            // The first round is to warm up.
            if round > 0 {
                times.push(start.elapsed().as_secs_f64() / f64::from(count));
            }
        }
    }
    let least = |times: Vec<f64>| times.into_iter().fold(f64::INFINITY, f64::min);
    steps.into_iter().zip(times).map(|((name, flops, peak, _), t)| (name, flops, peak, least(t))).collect()
}

fn setting(set: Instructions, batch_size: usize) -> (Mlp, Workspace, Batch, Batch) {
    let Ok(net) = Mlp::new(&SHAPE, 1.0, &mut Xoshiro256PlusPlus::seed_from_u64(0)) else {
        unreachable!("the shape is valid")
    };
    let work = Workspace::new(&net, batch_size).with_instructions(set);
    let (mut x, mut d_y) = (Batch::new(SHAPE[0], batch_size), Batch::new(SHAPE[3], batch_size));
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for row in 0..SHAPE[0] {
        x.row_mut(row).iter_mut().for_each(|x| *x = uniform(&mut rng) as f32 - 0.5);
    }
    for row in 0..SHAPE[3] {
        d_y.row_mut(row).iter_mut().for_each(|d| *d = uniform(&mut rng) as f32 - 0.5);
    }
    (net, work, x, d_y)
}

fn ours(set: Instructions, batch_size: usize) -> impl FnMut() {
    let (net, mut work, x, d_y) = setting(set, batch_size);
    let mut gradient = vec![0.0; net.parameters().len()];
    move || {
        black_box(net.forward(black_box(&x), &mut work));
        gradient.fill(0.0);
        net.backward(&mut work, black_box(&d_y), &mut gradient);
        black_box(&gradient);
    }
}

fn inference(set: Instructions, batch_size: usize) -> impl FnMut() {
    let (net, mut work, x, _) = setting(set, batch_size);
    move || {
        black_box(net.infer(black_box(&x), &mut work));
    }
}

/// The same train step with matrix products of other crates; matrices are sample-major as they like it.
mod peers {
    use super::{SHAPE, Xoshiro256PlusPlus, black_box, uniform};
    use rand_core::SeedableRng as _;

    /// A matrix and its strides, in rows and in columns.
    #[derive(Clone, Copy)]
    pub(super) struct View<'a> {
        data: &'a [f32],
        shape: [usize; 2],
        strides: [usize; 2],
    }

    fn view(data: &[f32], rows: usize, columns: usize) -> View<'_> {
        View { data, shape: [rows, columns], strides: [columns, 1] }
    }

    impl View<'_> {
        fn transposed(mut self) -> Self {
            self.shape.reverse();
            self.strides.reverse();
            self
        }
    }

    /// c = a b, or c += a b, where c is row by row.
    type Product = fn(&mut [f32], View, View, bool);

    pub(super) fn faer(c: &mut [f32], a: View, b: View, add: bool) {
        use faer::{Accum, MatMut, Par};
        let accumulate = if add { Accum::Add } else { Accum::Replace };
        let c = MatMut::from_row_major_slice_mut(c, a.shape[0], b.shape[1]);
        faer::linalg::matmul::matmul(c, accumulate, as_faer(&a), as_faer(&b), 1.0_f32, Par::Seq);
    }

    fn as_faer<'a>(m: &View<'a>) -> faer::MatRef<'a, f32> {
        if m.strides[1] == 1 {
            faer::MatRef::from_row_major_slice(m.data, m.shape[0], m.shape[1])
        } else {
            faer::MatRef::from_column_major_slice(m.data, m.shape[0], m.shape[1])
        }
    }

    pub(super) fn ndarray(c: &mut [f32], a: View, b: View, add: bool) {
        use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder, linalg::general_mat_mul};
        fn array<'a>(m: &View<'a>) -> ArrayView2<'a, f32> {
            let Ok(array) = ArrayView2::from_shape(m.shape.strides(m.strides), m.data) else {
                unreachable!("a view is as large as its data")
            };
            array
        }
        let Ok(mut c) = ArrayViewMut2::from_shape([a.shape[0], b.shape[1]], c) else {
            unreachable!("a result is as large as its data")
        };
        general_mat_mul(1.0, &array(&a), &array(&b), if add { 1.0 } else { 0.0 }, &mut c);
    }

    pub(super) fn step(batch_size: usize, product: Product) -> impl FnMut() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        let mut random = |n: usize| (0..n).map(|_| uniform(&mut rng) as f32 - 0.5).collect::<Vec<f32>>();
        let weights: Vec<Vec<f32>> = SHAPE.windows(2).map(|n| random(n[0] * n[1])).collect();
        let mut x: Vec<Vec<f32>> = SHAPE.iter().map(|n| random(n * batch_size)).collect();
        let mut d: Vec<Vec<f32>> = SHAPE.iter().map(|n| random(n * batch_size)).collect();
        let mut gradient = weights.clone();
        move || {
            for l in 0..3 {
                let (before, after) = x.split_at_mut(l + 1);
                let w = view(&weights[l], SHAPE[l + 1], SHAPE[l]);
                product(&mut after[0], view(&before[l], batch_size, SHAPE[l]), w.transposed(), false);
                if l < 2 {
                    acrl_nn::tanh(&mut after[0]);
                }
            }
            for l in (0..3).rev() {
                let (before, after) = d.split_at_mut(l + 1);
                let (x, d_y) = (&x[l], view(&after[0], batch_size, SHAPE[l + 1]));
                product(&mut gradient[l], d_y.transposed(), view(x, batch_size, SHAPE[l]), false);
                if l > 0 {
                    product(&mut before[l], d_y, view(&weights[l], SHAPE[l + 1], SHAPE[l]), false);
                    before[l].iter_mut().zip(x).for_each(|(d, x)| *d *= 1.0 - x * x);
                }
            }
            black_box(&gradient);
        }
    }
}
