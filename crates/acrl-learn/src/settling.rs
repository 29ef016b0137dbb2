//! What a policy settles at, in an environment that keeps its states to itself.

use acrl::{Library, Rng, Rows, Settled, Steering};

use crate::settle::weightings;

/// Visits of each weighting, from different places.
const VISITS: usize = 3;
/// How far the averages of visits may be apart, as a share of a reward's range. More than where states can be set:
/// visits are shorter.
const AGREEMENT: f64 = 0.25;
/// A visit got stuck if it lacks more than this share of what the library has to offer at its weights.
const STUCK: f64 = 0.5;
/// The share of visits that may get stuck.
const MAY_BE_STUCK: f64 = 0.05;

/// The [library](crate::settle()) of a policy, found while somebody else steps the lanes: each lane holds one
/// weighting after the other, so that each starts where others have led.
///
/// Ask for the [weights](Self::weights), act with them, [tell](Self::observe) the rewards, until it [is
/// over](Self::is_over).
#[derive(Debug, Clone)]
pub struct Settling {
    scales: Vec<f64>,
    objective: bool,
    weightings: Vec<Vec<f64>>,
    /// The weighting of each lane, round by round.
    rounds: Vec<Vec<usize>>,
    round: usize,
    step: usize,
    settling: usize,
    measured: usize,
    weights: Rows,
    sums: Rows,
    counts: Vec<f64>,
    /// The averages of each visit, by weighting.
    visits: Vec<Vec<Vec<f64>>>,
}

impl Settling {
    /// For rewards with the ranges R₀ … R_m: every weighting is held for `settling` steps of which nothing is noted, and
    /// `measured` steps of which the averages are. `drawn` is the number of weightings beside the regular ones; with
    /// `None` there are only the corners.
    pub fn new(
        scales: &[f64],
        objective: bool,
        lanes: usize,
        drawn: Option<usize>,
        (settling, measured): (usize, usize),
        seed: u64,
    ) -> Self {
        let mut rng = Rng::stream(seed, u64::MAX - 1);
        let mut weightings = weightings(scales, objective, drawn.unwrap_or(0), &mut rng);
        if drawn.is_none() {
            weightings.truncate(scales.len() - usize::from(!objective));
        }
        let mut order: Vec<usize> = (0..VISITS * weightings.len()).map(|k| k % weightings.len()).collect();
        // The last round is filled up: no lane is idle.
        while !order.len().is_multiple_of(lanes.max(1)) {
            order.push(rng.index(weightings.len()));
        }
        for i in (1..order.len()).rev() {
            order.swap(i, rng.index(i + 1));
        }
        let mut settling = Self {
            scales: scales.to_vec(),
            objective,
            rounds: order.chunks(lanes.max(1)).map(<[usize]>::to_vec).collect(),
            round: 0,
            step: 0,
            settling,
            measured: measured.max(1),
            weights: Rows::zeros(scales.len(), lanes),
            sums: Rows::zeros(scales.len(), lanes),
            counts: vec![0.0; lanes],
            visits: vec![Vec::new(); weightings.len()],
            weightings,
        };
        settling.set_weights();
        settling
    }

    fn set_weights(&mut self) {
        if let Some(round) = self.rounds.get(self.round) {
            for (lane, j) in round.iter().enumerate() {
                self.weights.set_lane(lane, &self.weightings[*j]);
            }
        }
    }

    /// w₀ … w_m of every lane, to act with.
    pub fn weights(&self) -> &Rows {
        &self.weights
    }

    /// Steps in each lane.
    pub fn steps(&self) -> usize {
        self.rounds.len() * (self.settling + self.measured)
    }

    /// Whether all has been seen.
    pub fn is_over(&self) -> bool {
        self.round == self.rounds.len()
    }

    /// Takes note of r₀ … r_m in lanes that made a step.
    pub fn observe(&mut self, rewards: &Rows, valid: &[bool]) {
        if self.is_over() {
            return;
        }
        self.step += 1;
        if self.step > self.settling {
            for (lane, _) in valid.iter().enumerate().filter(|(_, valid)| **valid) {
                self.counts[lane] += 1.0;
                (0..rewards.len()).for_each(|i| {
                    self.sums.set(i, lane, self.sums.at(i, lane) + rewards.at(i, lane));
                });
            }
        }
        if self.step < self.settling + self.measured {
            return;
        }
        for (lane, j) in self.rounds[self.round].iter().enumerate() {
            if self.counts[lane] > 0.0 {
                let average = self.sums.lane(lane).map(|sum| sum / self.counts[lane]).collect();
                self.visits[*j].push(average);
            }
        }
        self.sums.as_mut_slice().fill(0.0);
        self.counts.fill(0.0);
        (self.step, self.round) = (0, self.round + 1);
        self.set_weights();
    }

    /// What the policy settles at; weightings whose visits disagree, or of which there is one alone, are left out, but for
    /// the corners.
    pub fn library(&self) -> Library {
        let corners = self.scales.len() - usize::from(!self.objective);
        let mut library = Library::default();
        for (j, (weights, visits)) in self.weightings.iter().zip(&self.visits).enumerate() {
            let (mut values, mut apart) = (Vec::new(), false);
            for (i, scale) in self.scales.iter().enumerate() {
                let of_visits = || visits.iter().map(|averages| averages[i]);
                let (low, high) =
                    (of_visits().fold(f64::INFINITY, f64::min), of_visits().fold(f64::MIN, f64::max));
                apart |= high - low > AGREEMENT * scale;
                values.push(of_visits().sum::<f64>() / visits.len() as f64);
            }
            let agreed = visits.len() > 1 && !apart;
            if agreed || (j < corners && !visits.is_empty()) {
                library.entries.push(Settled {
                    weights: weights.clone(),
                    values,
                    place: 0,
                    travel: Vec::new(),
                });
            }
        }
        library
    }

    /// What should turn λ into behaviour: the policy; or the library, if the policy gets stuck at weights in between, where
    /// it does far worse in w·v than what it does at others. The library never asks for those.
    pub fn steering(&self) -> Steering {
        let library = self.library();
        let value = |w: &[f64], v: &[f64]| w.iter().zip(v).map(|(w, v)| w * v).sum::<f64>();
        let (mut visits, mut stuck) = (0.0, 0.0);
        for (weights, averages) in self.weightings.iter().zip(&self.visits) {
            let offered = || library.entries.iter().map(|entry| value(weights, &entry.values));
            let (low, high) =
                (offered().fold(f64::INFINITY, f64::min), offered().fold(f64::NEG_INFINITY, f64::max));
            for v in averages {
                visits += 1.0;
                stuck += f64::from(high - value(weights, v) > STUCK * (high - low));
            }
        }
        if stuck > MAY_BE_STUCK * visits { Steering::Library } else { Steering::Policy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes whose rewards are the weights themselves, in units of R: nothing to travel, no noise.
    fn settled(lanes: usize, drawn: Option<usize>) -> (Settling, Library) {
        let scales = [2.0, 1.0, 10.0];
        let mut settling = Settling::new(&scales, true, lanes, drawn, (3, 5), 7);
        let (mut steps, mut rewards) = (0, Rows::zeros(3, lanes));
        while !settling.is_over() {
            rewards.as_mut_slice().copy_from_slice(settling.weights().as_slice());
            if steps % 8 < 3 {
                rewards.as_mut_slice().fill(1e6); // on the way, nothing counts
            }
            settling.observe(&rewards, &vec![true; lanes]);
            steps += 1;
        }
        assert_eq!(steps, settling.steps());
        let library = settling.library();
        (settling, library)
    }

    #[test]
    fn every_weighting_is_visited_and_its_average_noted() {
        for lanes in [1, 4, 16] {
            let (settling, library) = settled(lanes, Some(5));
            // Corners, middles of edges, three beside them for each requirement, and five more.
            assert_eq!(library.entries.len(), 3 + 3 + 6 + 5);
            assert!(settling.visits.iter().all(|visits| visits.len() >= VISITS));
            for entry in &library.entries {
                let near = entry.values.iter().zip(&entry.weights).all(|(v, w)| (v - w).abs() < 1e-12);
                assert!(near, "{entry:?}");
            }
            assert_eq!(library.entries[2].weights, [0.0, 0.0, 0.1]);
        }
        assert_eq!(settled(4, None).1.entries.len(), 3);
    }

    #[test]
    fn a_policy_that_gets_stuck_is_steered_by_its_library() {
        for (stuck, steering) in [(false, Steering::Policy), (true, Steering::Library)] {
            let mut settling = Settling::new(&[1.0, 1.0, 1.0], false, 4, Some(6), (0, 4), 3);
            let mut rewards = Rows::zeros(3, 4);
            while !settling.is_over() {
                for lane in 0..4 {
                    // All of the reward that matters more; but nothing if both matter about as much.
                    let (a, b) = (settling.weights().at(1, lane), settling.weights().at(2, lane));
                    let had = if stuck && a.min(b) > 0.3 { 0.0 } else { 1.0 };
                    rewards.set_lane(lane, &[0.0, had * f64::from(a >= b), had * f64::from(a < b)]);
                }
                settling.observe(&rewards, &[true; 4]);
            }
            assert_eq!(settling.steering(), steering);
        }
    }

    #[test]
    fn lanes_that_only_reset_do_not_count_and_disagreement_is_left_out() {
        let mut settling = Settling::new(&[1.0, 1.0], false, 2, Some(3), (0, 4), 1);
        let (mut rewards, mut k) = (Rows::zeros(2, 2), 0.0);
        while !settling.is_over() {
            k += 1.0;
            rewards.row_mut(1).copy_from_slice(&[k, f64::NAN]);
            settling.observe(&rewards, &[true, false]);
        }
        // One requirement, no objective: one corner, which stays although its visits are far apart.
        let library = settling.library();
        assert_eq!(library.entries.len(), 1);
        assert!(library.entries[0].values[1].is_finite());
    }
}
