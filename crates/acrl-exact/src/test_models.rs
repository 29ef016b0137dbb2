//! Small models, and all deterministic policies of one, for tests.

use acrl::{FiniteCmdp, Objective, Requirement, Rng, Specification};

use crate::graph::EndComponent;

/// Choice of a model: state, action, successors with their probabilities, rewards r0, r1, ...
pub(crate) type NamedChoice<'a, const K: usize> = (usize, &'a str, &'a [(usize, f64)], [f64; K]);

/// Model of its choices.
pub(crate) fn of_choices<const K: usize>(choices: &[NamedChoice<'_, K>]) -> FiniteCmdp {
    let mut b = FiniteCmdp::builder((0..K).map(|i| format!("r{i}")));
    let last = choices.iter().map(|(s, ..)| *s).max().unwrap();
    (0..=last).for_each(|s| _ = b.state(s.to_string()));
    choices.iter().for_each(|(s, action, to, rewards)| _ = b.choice(*s, *action, to, rewards));
    b.build().unwrap()
}

/// Maximises r0 with lower bounds on other rewards.
pub(crate) fn maximise_r0(bounds: &[(&str, f64)]) -> Specification {
    let requirements = bounds.iter().map(|(reward, c)| Requirement::at_least(*reward, *c).unwrap());
    Specification::new(Some(Objective::maximize("r0")), requirements.collect()).unwrap()
}

/// End component of all states.
pub(crate) fn whole_component(model: &FiniteCmdp) -> EndComponent {
    EndComponent::new(model, &(0..model.states()).collect::<Vec<_>>())
}

/// Random model of up to 5 states.
pub(crate) fn model(seed: u64) -> FiniteCmdp {
    let mut rng = Rng::new(seed);
    let states = 2 + rng.index(4);
    random_model(&mut rng, states)
}

/// Random model with ragged actions and sparse, sometimes deterministic transitions: communicating, with
/// transient states, or multichain, as it comes.
pub(crate) fn random_model(rng: &mut Rng, states: usize) -> FiniteCmdp {
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
