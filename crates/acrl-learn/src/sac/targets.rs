//! Targets of the critics: one per reward, and one for the entropy.
//!
//! With weights w and the twin j whose w·Q′_j + Q′_j,entropy is the smaller,
//!
//! > discounted: y_i = r_i + γ (1 − terminated) Q′_ji, average reward: y_i = r_i − ρ_i(w) + Q′_ji,
//!
//! and for the entropy the same with r = 0 and Q′ − α ln π(a′). So the heads of rewards are those of the policy alone, and
//! whatever the weights and α were when a transition was made, it teaches the others too.

use acrl_nn::Batch;

/// What follows on a batch of transitions.
pub(super) struct Successors<'a> {
    /// Values of both twins at (s′, a′, w): a row per reward and, for continuous actions, one for the entropy.
    pub(super) values: [&'a Batch; 2],
    /// ln π(a′|s′, w) and α.
    pub(super) entropy: Option<(&'a [f32], f32)>,
    /// 0 where the episode terminated, else 1.
    pub(super) goes_on: &'a [f32],
    /// γ, or the average rewards ρ(w).
    pub(super) criterion: Return<'a>,
}

/// The return that a critic estimates.
pub(super) enum Return<'a> {
    /// Discounted by γ; nothing follows on a termination.
    Discounted(f32),
    /// Relative to average rewards; a termination is followed by the next episode.
    Average(&'a Batch),
}

/// For each sample whether the second twin has the smaller value, in the order of samples.
pub(super) fn pessimist(values: [&Batch; 2], weights: &Batch, second: &mut Vec<bool>) {
    let n = weights.batch_size();
    let mut difference = vec![0.0f32; n];
    for row in 0..values[0].rows() {
        let pairs = values[0].row(row).iter().zip(values[1].row(row)).map(|(a, b)| b - a);
        if row < weights.rows() {
            let weighted = pairs.zip(weights.row(row)).map(|(d, w)| d * w);
            difference.iter_mut().zip(weighted).for_each(|(sum, d)| *sum += d);
        } else {
            difference.iter_mut().zip(pairs).for_each(|(sum, d)| *sum += d);
        }
    }
    second.clear();
    second.extend(difference.iter().map(|d| *d < 0.0));
}

/// Writes the targets y, a row per reward and one for the entropy.
pub(super) fn targets(
    rewards: &Batch,
    weights: &Batch,
    successors: &Successors<'_>,
    second: &mut Vec<bool>,
    y: &mut Batch,
) {
    let Successors { values, entropy, goes_on, criterion } = successors;
    pessimist(*values, weights, second);
    for row in 0..y.rows() {
        let out = y.row_mut(row);
        for (b, out) in out.iter_mut().enumerate() {
            let mut next = values[usize::from(second[b])].row(row)[b];
            if let (Some((log, ent_coef)), true) = (entropy, row == rewards.rows()) {
                next -= ent_coef * log[b];
            }
            let now = if row < rewards.rows() { rewards.row(row)[b] } else { 0.0 };
            *out = match criterion {
                Return::Discounted(gamma) => now + gamma * goes_on[b] * next,
                Return::Average(rho) => now - rho.row(row)[b] + next,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch<const N: usize>(rows: &[[f32; N]]) -> Batch {
        let mut batch = Batch::new(rows.len(), N);
        rows.iter().enumerate().for_each(|(i, row)| batch.row_mut(i).copy_from_slice(row));
        batch
    }

    /// Two rewards and the entropy, three samples of which the last one terminates.
    fn case(criterion: Return<'_>) -> Batch {
        let rewards = batch(&[[1.0, 2.0, 3.0], [-1.0, 0.0, 0.5]]);
        let weights = batch(&[[0.5, 1.0, 0.25], [0.5, 0.0, 0.75]]);
        // Weighted: 3.5 + 1, 10 + 0, 3.25 + 1 against 3 + 1, 11 + 0, 4 + 4.
        let first = batch(&[[4.0, 10.0, 10.0], [3.0, 5.0, 1.0], [1.0, 0.0, 1.0]]);
        let second = batch(&[[2.0, 11.0, 1.0], [4.0, -5.0, 5.0], [1.0, 0.0, 4.0]]);
        let successors = Successors {
            values: [&first, &second],
            entropy: Some((&[-2.0, 1.0, 0.0], 0.5)),
            goes_on: &[1.0, 1.0, 0.0],
            criterion,
        };
        let (mut y, mut chosen) = (Batch::new(3, 3), Vec::new());
        targets(&rewards, &weights, &successors, &mut chosen, &mut y);
        assert_eq!(chosen, [true, false, false]);
        y
    }

    #[test]
    fn discounted_targets_take_the_pessimistic_twin_and_forfeit_the_rest_at_a_termination() {
        let y = case(Return::Discounted(0.5));
        assert_eq!(y.row(0), [1.0 + 0.5 * 2.0, 2.0 + 0.5 * 10.0, 3.0]);
        assert_eq!(y.row(1), [-1.0 + 0.5 * 4.0, 0.5 * 5.0, 0.5]);
        // α = 0.5, ln π = −2 and 1.
        assert_eq!(y.row(2), [0.5 * (1.0 + 1.0), 0.5 * (0.0 - 0.5), 0.0]);
    }

    #[test]
    fn average_reward_targets_subtract_the_average_and_go_on_after_a_termination() {
        let rho = batch(&[[0.25, 0.5, 0.75], [1.0, 2.0, 3.0], [0.125, 0.25, 0.5]]);
        let y = case(Return::Average(&rho));
        assert_eq!(y.row(0), [1.0 - 0.25 + 2.0, 2.0 - 0.5 + 10.0, 3.0 - 0.75 + 10.0]);
        assert_eq!(y.row(1), [-1.0 - 1.0 + 4.0, -2.0 + 5.0, 0.5 - 3.0 + 1.0]);
        assert_eq!(y.row(2), [-0.125 + 2.0, -0.25 + 0.0 - 0.5, -0.5 + 1.0]);
    }
}
