//! Random small models and all their deterministic policies, for tests by enumeration.

use acrl::{FiniteCmdp, Rng};

/// Random model of up to 5 states with ragged actions and sparse, sometimes deterministic
/// transitions: communicating, with transient states, or multichain, as it comes.
pub(crate) fn model(seed: u64) -> FiniteCmdp {
    let mut rng = Rng::new(seed);
    let states = 2 + rng.index(4);
    let mut b = FiniteCmdp::builder(["r0", "r1", "r2"]);
    (0..states).for_each(|s| _ = b.state(s.to_string()));
    for s in 0..states {
        for a in 0..1 + rng.index(3) {
            let (t, u, p) = (rng.index(states), rng.index(states), rng.uniform());
            let to = if t == u || p < 0.3 { vec![(t, 1.0)] } else { vec![(t, p), (u, 1.0 - p)] };
            let rewards = [rng.uniform(), rng.uniform(), (rng.index(3) as f64) / 2.0];
            b.choice(s, a.to_string(), &to, &rewards);
        }
    }
    b.build().unwrap()
}

/// Every deterministic policy.
pub(crate) fn all_policies(model: &FiniteCmdp) -> Vec<Vec<usize>> {
    let counts: Vec<usize> = (0..model.states()).map(|s| model.choices(s).len()).collect();
    let total: usize = counts.iter().product();
    (0..total)
        .map(|mut code| {
            let digit = |n: &usize| {
                let digit = code % n;
                code /= n;
                digit
            };
            counts.iter().map(digit).collect()
        })
        .collect()
}
