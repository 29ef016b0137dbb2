//! A batch of replayed transitions as the networks take it.

use acrl::Rng;
use acrl_nn::Batch;

use super::inputs::WeightedInputs;
use super::replay::ReplayBuffer;
use super::weights;

/// Transitions with scaled observations and rewards in units, a row per quantity.
#[derive(Debug, Clone)]
pub(super) struct Minibatch {
    records: Vec<f32>,
    drawn: Vec<f64>,
    /// Inputs (s, w) and (s′, w).
    pub(super) state: Batch,
    pub(super) next: Batch,
    pub(super) action: Batch,
    pub(super) rewards: Batch,
    pub(super) weights: Batch,
    /// 0 where the episode terminated, else 1.
    pub(super) goes_on: Vec<f32>,
}

impl Minibatch {
    pub(super) fn new(inputs: &WeightedInputs, action: usize, size: usize) -> Self {
        Self {
            records: Vec::new(),
            drawn: vec![0.0; inputs.weights()],
            state: Batch::new(inputs.len(), size),
            next: Batch::new(inputs.len(), size),
            action: Batch::new(action, size),
            rewards: Batch::new(inputs.weights(), size),
            weights: Batch::new(inputs.weights(), size),
            goes_on: vec![0.0; size],
        }
    }

    /// Draws transitions. The first `relabelled` of them get weights that are drawn anew, the others keep those that acted:
    /// rewards are vectors, so a transition teaches every weighting (Abels et al. 2019; cf. hindsight experience replay,
    /// Andrychowicz et al. 2017).
    pub(super) fn sample(
        &mut self,
        replay: &ReplayBuffer,
        inputs: &WeightedInputs,
        relabelled: usize,
        rng: &mut Rng,
    ) {
        let Self { records, drawn, state, next, action, rewards, weights, goes_on } = self;
        let (layout, size) = (replay.layout(), goes_on.len());
        replay.sample(size, rng, records);
        let width = layout.width();
        for record in records.chunks_exact_mut(width).take(relabelled) {
            weights::draw(drawn, rng);
            let out = &mut record[layout.weights_at()..][..drawn.len()];
            out.iter_mut().zip(&*drawn).for_each(|(out, w)| *out = *w as f32);
        }
        let copy = |at: usize, out: &mut [f32], factor: f32, offset: f32| {
            let column = records.iter().skip(at).step_by(width);
            out.iter_mut().zip(column).for_each(|(out, x)| *out = x * factor + offset);
        };
        for row in 0..layout.observation {
            let (factor, offset) = inputs.scaling(row);
            copy(row, state.row_mut(row), factor, offset);
            copy(layout.next_at() + row, next.row_mut(row), factor, offset);
        }
        for row in 0..layout.action {
            copy(layout.action_at() + row, action.row_mut(row), 1.0, 0.0);
        }
        let scales = inputs.0.scales();
        let first = scales.len() - layout.rewards;
        for row in 0..layout.rewards {
            copy(layout.rewards_at() + row, rewards.row_mut(row), (1.0 / scales[first + row]) as f32, 0.0);
            copy(layout.weights_at() + row, weights.row_mut(row), 1.0, 0.0);
            state.row_mut(layout.observation + row).copy_from_slice(weights.row(row));
        }
        copy(layout.terminated_at(), goes_on, -1.0, 1.0);
        inputs.spread_weights(state);
        for row in layout.observation..inputs.len() {
            next.row_mut(row).copy_from_slice(state.row(row));
        }
    }
}

#[cfg(test)]
mod tests {
    use acrl::{Interval, Objective, Requirement, Specification, VecTask};
    use acrl_envs::{External, ExternalAction, ExternalParameters, ExternalReward};

    use super::*;
    use crate::ppo::Inputs;
    use crate::sac::replay::Layout;

    #[test]
    fn transitions_are_scaled_and_part_of_them_relabelled() {
        let reward = |name: &str, high: f64| ExternalReward { name: name.to_owned(), low: 0.0, high };
        let external = External::new(ExternalParameters {
            observation: vec![[0.0, 1.0]],
            action: vec![ExternalAction { choices: Some(2), low: None, high: None }],
            reward: vec![reward("r", 2.0), reward("cost", 4.0)],
            spaces: None,
        })
        .unwrap();
        let cost = Requirement::at_most("cost", 1.0).unwrap();
        let specification = Specification::new(Some(Objective::maximize("r")), vec![cost]).unwrap();
        let task = VecTask::new(&external, specification).unwrap();
        let mut inputs = WeightedInputs(Inputs::new(&task).unwrap());
        inputs.set_observation(vec![Interval::new(5.0, 9.0)]);
        let mut replay = ReplayBuffer::new(Layout { observation: 1, action: 1, rewards: 2 }, 10);
        // s, a, r, s′, w, terminated.
        replay.extend(&[6.0, 1.0, 3.0, -2.0, 9.0, 0.75, 0.25, 1.0]);
        let mut batch = Minibatch::new(&inputs, 1, 8);
        batch.sample(&replay, &inputs, 4, &mut Rng::new(1));
        for b in 0..8 {
            let column = |batch: &Batch| batch.iter_rows().map(|row| row[b]).collect::<Vec<_>>();
            let w = column(&batch.weights);
            assert!(b < 4 || w == [0.75, 0.25], "{b}: {w:?}");
            assert!(b >= 4 || w[0] != 0.75, "{b}: {w:?}");
            assert!((w[0] + w[1] - 1.0).abs() < 1e-6);
            assert_eq!(column(&batch.rewards), [1.5, -0.5]);
            assert_eq!((column(&batch.action), batch.goes_on[b]), (vec![1.0], 0.0));
            let (state, next) = (column(&batch.state), column(&batch.next));
            assert_eq!((state[0], next[0]), (-0.5, 1.0));
            assert_eq!(state[1..], next[1..]);
            for (i, w) in w.iter().enumerate() {
                assert!((state[1 + i] - (2.0 * w - 1.0)).abs() < 1e-6);
                assert!((state[3 + i] - ((w + 0.003).ln() / 3.0 + 1.0)).abs() < 1e-6);
                assert!((inputs.weight(&batch.state, i, b) - w).abs() < 1e-6);
            }
        }
    }
}
