//! Counts of what was observed: transitions, rewards and ends of episodes.

use serde::{Deserialize, Serialize};

use super::TimeLimit;
use super::time_limit::Phases;

/// Counts per pair of a state and an action, and of the first states of episodes.
///
/// Terminations are counted apart from successors: the next episode begins in a state of one shared distribution, to which
/// every episode contributes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "FlatCounts", into = "FlatCounts")]
pub struct Counts {
    actions: usize,
    rewards: usize,
    /// By state, then by action.
    pairs: Vec<Pair>,
    /// Σ of every reward, pair after pair.
    sums: Vec<f64>,
    /// Episodes that began in each state.
    starts: Vec<u64>,
    limit: TimeLimit,
    steps: u64,
    episodes: u64,
}

/// Counts of one pair.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Pair {
    /// Times that the action was taken.
    pub(crate) visits: u64,
    /// Times that this terminated an episode.
    pub(crate) ends: u64,
    /// Successors in ascending order, with the times that each followed.
    pub(crate) successors: Vec<(u32, u64)>,
}

impl Pair {
    /// Times that a state followed.
    #[inline]
    pub(crate) fn times(&self, next: usize) -> u64 {
        let place = self.successors.binary_search_by_key(&(next as u32), |(to, _)| *to);
        place.map_or(0, |place| self.successors[place].1)
    }
}

/// Counts as arrays.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlatCounts {
    pub(crate) actions: usize,
    pub(crate) rewards: usize,
    pub(crate) visits: Vec<u64>,
    pub(crate) ends: Vec<u64>,
    /// Number of distinct successors of each pair.
    pub(crate) lengths: Vec<u32>,
    pub(crate) successors: Vec<u32>,
    pub(crate) times: Vec<u64>,
    pub(crate) sums: Vec<f64>,
    pub(crate) starts: Vec<u64>,
    #[serde(default)]
    pub(crate) limit: TimeLimit,
}

impl From<Counts> for FlatCounts {
    fn from(counts: Counts) -> Self {
        let Counts { actions, rewards, pairs, sums, starts, limit, .. } = counts;
        let (successors, times) = pairs.iter().flat_map(|pair| pair.successors.iter().copied()).unzip();
        Self {
            actions,
            rewards,
            visits: pairs.iter().map(|pair| pair.visits).collect(),
            ends: pairs.iter().map(|pair| pair.ends).collect(),
            lengths: pairs.iter().map(|pair| pair.successors.len() as u32).collect(),
            successors,
            times,
            sums,
            starts,
            limit,
        }
    }
}

impl TryFrom<FlatCounts> for Counts {
    type Error = String;

    fn try_from(flat: FlatCounts) -> Result<Self, String> {
        let FlatCounts { actions, rewards, visits, ends, lengths, successors, times, sums, starts, limit } =
            flat;
        limit.check()?;
        let states = starts.len();
        let n = states.saturating_mul(actions);
        let entries: u64 = lengths.iter().map(|n| u64::from(*n)).sum();
        if actions == 0
            || [visits.len(), ends.len(), lengths.len()] != [n; 3]
            || sums.len() != n.saturating_mul(rewards)
            || [successors.len() as u64, times.len() as u64] != [entries; 2]
        {
            return Err("the counts do not fit each other".to_owned());
        }
        if sums.iter().any(|sum| !sum.is_finite()) {
            return Err("a sum of rewards is not finite".to_owned());
        }
        let mut entries = successors.into_iter().zip(times);
        let mut pairs = Vec::with_capacity(n);
        for ((visits, ends), length) in visits.into_iter().zip(ends).zip(lengths) {
            let successors: Vec<(u32, u64)> = entries.by_ref().take(length as usize).collect();
            let ordered = successors.windows(2).all(|pair| pair[0].0 < pair[1].0);
            let known = successors.last().is_none_or(|(to, _)| (*to as usize) < states);
            let total = successors.iter().try_fold(ends, |sum, (_, times)| sum.checked_add(*times));
            if !ordered || !known || total != Some(visits) || successors.iter().any(|(_, times)| *times == 0)
            {
                return Err(format!("the counts of pair {} contradict each other", pairs.len()));
            }
            pairs.push(Pair { visits, ends, successors });
        }
        let sum = |numbers: &[u64]| {
            let sum = numbers.iter().try_fold(0_u64, |sum, n| sum.checked_add(*n));
            sum.ok_or("the counts are too large".to_owned())
        };
        let visits: Vec<u64> = pairs.iter().map(|pair: &Pair| pair.visits).collect();
        let (steps, episodes) = (sum(&visits)?, sum(&starts)?);
        Ok(Self { actions, rewards, pairs, sums, starts, limit, steps, episodes })
    }
}

impl Counts {
    /// No counts, for this number of actions and of rewards.
    pub fn new(actions: usize, rewards: usize) -> Self {
        Self {
            actions,
            rewards,
            pairs: Vec::new(),
            sums: Vec::new(),
            starts: Vec::new(),
            limit: TimeLimit::default(),
            steps: 0,
            episodes: 0,
        }
    }

    /// Adds states up to this number.
    pub fn grow(&mut self, states: usize) {
        if states > self.states() {
            self.starts.resize(states, 0);
            self.pairs.resize(states * self.actions, Pair::default());
            self.sums.resize(self.pairs.len() * self.rewards, 0.0);
        }
    }

    /// Counts the first state of an episode.
    pub fn start(&mut self, state: usize) {
        self.grow(state + 1);
        self.starts[state] += 1;
        self.episodes += 1;
    }

    /// Counts a transition; without a successor it terminated the episode.
    pub fn transition(&mut self, state: usize, action: usize, rewards: &[f64], next: Option<usize>) {
        self.grow(state.max(next.unwrap_or(0)) + 1);
        let pair = state * self.actions + action;
        let sums = &mut self.sums[pair * self.rewards..(pair + 1) * self.rewards];
        sums.iter_mut().zip(rewards).for_each(|(sum, r)| *sum += r);
        let pair = &mut self.pairs[pair];
        pair.visits += 1;
        self.steps += 1;
        let Some(next) = next else {
            pair.ends += 1;
            return;
        };
        match pair.successors.binary_search_by_key(&(next as u32), |(to, _)| *to) {
            Ok(place) => pair.successors[place].1 += 1,
            Err(place) => pair.successors.insert(place, (next as u32, 1)),
        }
    }

    /// Counts an episode that was truncated after this number of steps.
    pub fn truncated(&mut self, steps: u64) {
        self.limit.truncated(steps);
    }

    /// Lengths of the episodes that were truncated.
    pub fn time_limit(&self) -> &TimeLimit {
        &self.limit
    }

    /// Phases of an episode in the model.
    pub(crate) fn phases(&self) -> Phases {
        self.limit.phases(self.states())
    }

    /// Number of states.
    pub fn states(&self) -> usize {
        self.starts.len()
    }

    /// Number of actions.
    pub fn actions(&self) -> usize {
        self.actions
    }

    /// Number of rewards.
    pub fn rewards(&self) -> usize {
        self.rewards
    }

    /// Number of transitions.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Number of episodes that began.
    pub fn episodes(&self) -> u64 {
        self.episodes
    }

    /// Number of pairs that were tried.
    pub fn pairs_tried(&self) -> usize {
        self.pairs.iter().filter(|pair| pair.visits > 0).count()
    }

    /// Times that an action was taken in a state.
    pub fn visits(&self, state: usize, action: usize) -> u64 {
        self.pairs.get(state * self.actions + action).map_or(0, |pair| pair.visits)
    }

    /// Episodes that began in each state.
    pub(crate) fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// Counts of all pairs, by state and then by action.
    pub(crate) fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Σ of every reward of a pair.
    pub(crate) fn sums(&self, pair: usize) -> &[f64] {
        &self.sums[pair * self.rewards..(pair + 1) * self.rewards]
    }

    /// Mean of a reward of a pair; 0 if it was never tried.
    #[inline]
    pub(crate) fn mean(&self, pair: usize, reward: usize) -> f64 {
        let visits = self.pairs[pair].visits;
        if visits == 0 { 0.0 } else { self.sums[pair * self.rewards + reward] / visits as f64 }
    }

    /// Mean of every reward over all steps.
    pub(crate) fn overall_means(&self) -> Vec<f64> {
        let mut means = vec![0.0; self.rewards];
        for pair in 0..self.pairs.len() {
            means.iter_mut().zip(self.sums(pair)).for_each(|(mean, sum)| *mean += sum);
        }
        means.iter_mut().for_each(|mean| *mean /= self.steps.max(1) as f64);
        means
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_round_trip_and_contradictions_are_refused() {
        let mut counts = Counts::new(2, 1);
        counts.start(0);
        counts.transition(0, 1, &[0.5], Some(2));
        counts.transition(0, 1, &[1.5], Some(1));
        counts.transition(2, 0, &[1.0], None);
        assert_eq!((counts.states(), counts.steps(), counts.pairs_tried()), (3, 3, 2));
        assert_eq!(counts.mean(1, 0), 1.0);
        let good = serde_json::to_value(&counts).unwrap();
        assert_eq!(serde_json::from_value::<Counts>(good.clone()).unwrap(), counts);
        for (key, value) in [
            ("visits", serde_json::json!([0, 3, 0, 0, 1, 0])),
            ("successors", serde_json::json!([1, 3])),
            ("sums", serde_json::json!([0.0])),
            ("actions", serde_json::json!(0)),
            ("more", serde_json::json!(0)),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert!(serde_json::from_value::<Counts>(bad).is_err(), "{key}");
        }
    }
}
