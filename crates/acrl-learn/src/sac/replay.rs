//! Replay buffer of vector-valued transitions.

use acrl::Rng;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Numbers of the parts of a record, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Layout {
    /// Observation s, and the next one s′.
    pub(super) observation: usize,
    /// Action a.
    pub(super) action: usize,
    /// Rewards in their own units, and weights w that acted.
    pub(super) rewards: usize,
}

impl Layout {
    /// Numbers of a record: s, a, r, s′, w, and whether the episode terminated.
    pub(super) fn width(self) -> usize {
        2 * self.observation + self.action + 2 * self.rewards + 1
    }

    /// Position of the action.
    pub(super) fn action_at(self) -> usize {
        self.observation
    }

    /// Position of the rewards.
    pub(super) fn rewards_at(self) -> usize {
        self.observation + self.action
    }

    /// Position of s′: the first observation of the next episode after a termination, the final one after a truncation.
    pub(super) fn next_at(self) -> usize {
        self.rewards_at() + self.rewards
    }

    /// Position of the weights.
    pub(super) fn weights_at(self) -> usize {
        self.next_at() + self.observation
    }

    /// Position of 1 if the episode terminated, else 0.
    pub(super) fn terminated_at(self) -> usize {
        self.width() - 1
    }
}

/// The last transitions, up to a capacity. A record is contiguous, so that a random one is a few cache lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub(super) struct ReplayBuffer {
    layout: Layout,
    capacity: usize,
    /// Record that is replaced next, once the buffer is full.
    oldest: usize,
    #[serde(serialize_with = "to_bytes")]
    data: Vec<f32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    layout: Layout,
    capacity: usize,
    oldest: usize,
    #[serde(deserialize_with = "from_bytes")]
    data: Vec<f32>,
}

impl TryFrom<Stored> for ReplayBuffer {
    type Error = String;

    fn try_from(stored: Stored) -> Result<Self, String> {
        let Stored { layout, capacity, oldest, data } = stored;
        let (width, numbers) = (layout.width(), data.len());
        let full = numbers / width == capacity;
        if numbers % width != 0 || numbers / width > capacity || oldest >= if full { capacity } else { 1 } {
            return Err(format!(
                "a replay buffer of {capacity} records of {width} numbers holds {numbers}, the oldest at {oldest}"
            ));
        }
        Ok(Self { layout, capacity, oldest, data })
    }
}

impl ReplayBuffer {
    /// An empty buffer for at most `capacity` transitions.
    pub(super) fn new(layout: Layout, capacity: usize) -> Self {
        Self { layout, capacity: capacity.max(1), oldest: 0, data: Vec::new() }
    }

    /// The layout of its records.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Number of transitions.
    pub(super) fn len(&self) -> usize {
        self.data.len() / self.layout.width()
    }

    /// Adds records, in place of the oldest ones if it is full.
    pub(super) fn extend(&mut self, records: &[f32]) {
        let width = self.layout.width();
        for record in records.chunks_exact(width) {
            if self.len() < self.capacity {
                self.data.extend_from_slice(record);
            } else {
                self.data[self.oldest * width..][..width].copy_from_slice(record);
                self.oldest = (self.oldest + 1) % self.capacity;
            }
        }
    }

    /// Copies transitions drawn with replacement, one after the other.
    pub(super) fn sample(&self, count: usize, rng: &mut Rng, records: &mut Vec<f32>) {
        let (n, width) = (self.len(), self.layout.width());
        records.clear();
        for _ in 0..count {
            records.extend_from_slice(&self.data[rng.index(n) * width..][..width]);
        }
    }
}

/// Bit for bit, four bytes per number.
fn to_bytes<S: Serializer>(data: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    serializer.serialize_bytes(&bytes)
}

fn from_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
    struct Bytes;
    impl<'de> serde::de::Visitor<'de> for Bytes {
        type Value = Vec<f32>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("four bytes per number")
        }

        fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Vec<f32>, E> {
            let (numbers, rest) = bytes.as_chunks::<4>();
            if !rest.is_empty() {
                return Err(E::invalid_length(bytes.len(), &self));
            }
            Ok(numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
        }

        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<f32>, A::Error> {
            let mut bytes = Vec::new();
            while let Some(byte) = seq.next_element::<u8>()? {
                bytes.push(byte);
            }
            self.visit_bytes(&bytes)
        }
    }
    deserializer.deserialize_bytes(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { observation: 2, action: 1, rewards: 2 };

    fn record(t: usize) -> Vec<f32> {
        (0..LAYOUT.width()).map(|k| (100 * t + k) as f32 + 0.1).collect()
    }

    #[test]
    fn the_oldest_transitions_are_replaced() {
        let mut replay = ReplayBuffer::new(LAYOUT, 3);
        (0..5).for_each(|t| replay.extend(&record(t)));
        assert_eq!(replay.len(), 3);
        let mut found = Vec::new();
        replay.sample(200, &mut Rng::new(1), &mut found);
        let mut firsts: Vec<f32> = found.chunks_exact(LAYOUT.width()).map(|r| r[0]).collect();
        firsts.sort_by(f32::total_cmp);
        firsts.dedup();
        assert_eq!(firsts, [200.1, 300.1, 400.1]);
        assert!(found.chunks_exact(LAYOUT.width()).all(|r| *r == record((r[0] / 100.0) as usize)));
    }

    #[test]
    fn storage_keeps_every_bit_and_damage_is_refused() {
        let mut replay = ReplayBuffer::new(LAYOUT, 3);
        (0..4).for_each(|t| replay.extend(&record(t)));
        replay.extend(&[f32::MIN_POSITIVE; 10]);
        let text = serde_json::to_string(&replay).unwrap();
        assert_eq!(serde_json::from_str::<ReplayBuffer>(&text).unwrap(), replay);
        let bytes = acrl_files::checkpoint::encode("replay", &replay).unwrap();
        assert!(bytes.len() < 4 * 30 + 200, "{}", bytes.len());
        let read: ReplayBuffer = acrl_files::checkpoint::decode(&bytes, "replay").unwrap();
        assert_eq!(read, replay);
        for damaged in
            [text.replace("\"capacity\":3", "\"capacity\":2"), text.replace("\"oldest\":2", "\"oldest\":3")]
        {
            assert!(serde_json::from_str::<ReplayBuffer>(&damaged).is_err(), "{damaged}");
        }
    }
}
