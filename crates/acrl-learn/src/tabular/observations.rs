//! Table of the distinct observations: the states of the model.

use serde::{Deserialize, Serialize};

/// Table of observations in the order in which they appeared. Only numbers that are not 0 are stored, because discrete
/// observations are encoded one-hot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Rows", into = "Rows")]
pub struct ObservationTable {
    rows: Rows,
    /// Open addressing: 0, or one more than the number of a state.
    slots: Vec<u32>,
}

/// Sparse rows of numbers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rows {
    /// Numbers of an observation.
    pub(crate) width: usize,
    /// End of each row.
    pub(crate) ends: Vec<u32>,
    /// Places of the numbers that are not 0.
    pub(crate) places: Vec<u32>,
    pub(crate) values: Vec<f64>,
}

impl Rows {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn range(&self, state: usize) -> std::ops::Range<usize> {
        let start = if state == 0 { 0 } else { self.ends[state - 1] as usize };
        start..self.ends[state] as usize
    }

    fn row(&self, state: usize) -> (&[u32], &[f64]) {
        let range = self.range(state);
        (&self.places[range.clone()], &self.values[range])
    }

    fn check(&self) -> Result<(), String> {
        let ordered = self.ends.windows(2).all(|pair| pair[0] <= pair[1]);
        let last = self.ends.last().map_or(0, |end| *end as usize);
        if !ordered || last != self.places.len() || last != self.values.len() {
            return Err("its rows do not fit its numbers".to_owned());
        }
        for state in 0..self.len() {
            let (places, values) = self.row(state);
            let fits = places.windows(2).all(|pair| pair[0] < pair[1])
                && places.last().is_none_or(|place| (*place as usize) < self.width)
                && values.iter().all(|x| *x != 0.0 && x.is_finite());
            if !fits {
                return Err(format!("observation {state} cannot be used"));
            }
        }
        Ok(())
    }
}

impl TryFrom<Rows> for ObservationTable {
    type Error = String;

    fn try_from(rows: Rows) -> Result<Self, String> {
        rows.check()?;
        let mut table = Self { slots: Vec::new(), rows };
        table.rehash();
        for state in 0..table.len() {
            let (places, values) = table.rows.row(state);
            if table.find_row(places, values) != Some(state) {
                return Err(format!("observation {state} occurs twice"));
            }
        }
        Ok(table)
    }
}

impl From<ObservationTable> for Rows {
    fn from(table: ObservationTable) -> Self {
        table.rows
    }
}

impl ObservationTable {
    /// An empty table of observations of `width` numbers.
    pub fn new(width: usize) -> Self {
        Self { rows: Rows { width, ..Rows::default() }, slots: vec![0; 64] }
    }

    /// Number of observations.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers of an observation.
    pub fn width(&self) -> usize {
        self.rows.width
    }

    /// State of an observation, if it is known.
    pub fn find(&self, observation: &[f64]) -> Option<usize> {
        let (places, values) = sparse(observation);
        self.find_row(&places, &values)
    }

    /// State of an observation, which is added if it is new; `None` if it is new and there are `limit` already, or if it is
    /// not finite.
    pub fn insert(&mut self, observation: &[f64], limit: usize) -> Option<usize> {
        let (places, values) = sparse(observation);
        let slot = self.slot(&places, &values);
        if self.slots[slot] != 0 {
            return Some(self.slots[slot] as usize - 1);
        }
        let (state, stored) = (self.len(), self.rows.places.len() + places.len());
        if state >= limit || values.iter().any(|x| !x.is_finite()) || stored >= u32::MAX as usize {
            return None;
        }
        self.rows.places.extend(places);
        self.rows.values.extend(values);
        self.rows.ends.push(self.rows.places.len() as u32);
        self.slots[slot] = state as u32 + 1;
        if 2 * self.len() > self.slots.len() {
            self.rehash();
        }
        Some(state)
    }

    /// The nearest observations among some of the table, in units of the range that each number has in the table; several if
    /// they are equally near, as all are to an unknown one of a discrete space.
    pub fn nearest(&self, observation: &[f64], among: impl Fn(usize) -> bool) -> Vec<usize> {
        // Zeros are not stored: they count for the range where some row lacks the number.
        let mut ranges = vec![(f64::INFINITY, f64::NEG_INFINITY, 0_usize); observation.len()];
        for (place, value) in self.rows.places.iter().zip(&self.rows.values) {
            let Some((low, high, stored)) = ranges.get_mut(*place as usize) else { continue };
            (*low, *high, *stored) = (low.min(*value), high.max(*value), *stored + 1);
        }
        let units: Vec<f64> = ranges
            .iter()
            .map(|&(low, high, stored)| {
                let (low, high) =
                    if stored < self.len() { (low.min(0.0), high.max(0.0)) } else { (low, high) };
                if high > low { high - low } else { 1.0 }
            })
            .collect();
        let square = |x: f64| x * x;
        let from_zero: f64 = observation.iter().zip(&units).map(|(x, unit)| square(x / unit)).sum();
        let distance = |state: usize| {
            let (places, values) = self.rows.row(state);
            let numbers = places.iter().zip(values).map(|(place, value)| (*place as usize, *value));
            let change = |(place, value): (usize, f64)| {
                square((observation[place] - value) / units[place])
                    - square(observation[place] / units[place])
            };
            from_zero + numbers.filter(|(place, _)| *place < observation.len()).map(change).sum::<f64>()
        };
        let states = (0..self.len()).filter(|&state| among(state));
        let distances: Vec<(usize, f64)> = states.map(|state| (state, distance(state))).collect();
        let least = distances.iter().map(|(_, distance)| *distance).fold(f64::INFINITY, f64::min);
        let close = least + TIE * (1.0 + from_zero);
        distances.into_iter().filter(|(_, distance)| *distance <= close).map(|(state, _)| state).collect()
    }

    fn find_row(&self, places: &[u32], values: &[f64]) -> Option<usize> {
        (self.slots[self.slot(places, values)] as usize).checked_sub(1)
    }

    /// The slot of a row, or the empty one in which it belongs.
    fn slot(&self, places: &[u32], values: &[f64]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash(places, values) as usize & mask;
        while let Some(state) = (self.slots[slot] as usize).checked_sub(1) {
            if self.rows.row(state) == (places, values) {
                break;
            }
            slot = (slot + 1) & mask;
        }
        slot
    }

    fn rehash(&mut self) {
        self.slots = vec![0; (4 * self.len()).next_power_of_two().max(64)];
        for state in 0..self.len() {
            let (places, values) = self.rows.row(state);
            let slot = self.slot(places, values);
            if self.slots[slot] == 0 {
                self.slots[slot] = state as u32 + 1;
            }
        }
    }
}

/// Relative difference of squared distances that counts as none.
const TIE: f64 = 1e-12;

/// The numbers that are not 0, and their places.
fn sparse(observation: &[f64]) -> (Vec<u32>, Vec<f64>) {
    observation.iter().enumerate().filter(|(_, x)| **x != 0.0).map(|(place, x)| (place as u32, *x)).unzip()
}

/// FNV-1a over words, with a final mix.
fn hash(places: &[u32], values: &[f64]) -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (place, value) in places.iter().zip(values) {
        hash = (hash ^ u64::from(*place)).wrapping_mul(PRIME);
        hash = (hash ^ value.to_bits()).wrapping_mul(PRIME);
        hash ^= hash >> 29;
    }
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_are_numbered_in_the_order_of_their_appearance() {
        let mut table = ObservationTable::new(2);
        for i in 0..1_000 {
            let x = [f64::from(i % 250), f64::from(i % 250 == 7)];
            assert_eq!(table.insert(&x, 250), Some(i as usize % 250));
        }
        assert_eq!(table.insert(&[0.5, 0.0], 250), None, "the table is full");
        assert_eq!(table.insert(&[f64::NAN, 0.0], 300), None);
        assert_eq!(table.find(&[-0.0, 0.0]), Some(0), "-0 is 0");
        assert_eq!(table.find(&[7.0, 0.0]), None);
        let text = serde_json::to_string(&table).unwrap();
        assert_eq!(serde_json::from_str::<ObservationTable>(&text).unwrap(), table);
    }

    #[test]
    fn nearest_observation_is_measured_in_units_of_the_ranges() {
        let mut table = ObservationTable::new(2);
        for x in [[0.0, 0.0], [1.0, 0.0], [0.0, 1000.0], [1.0, 1000.0]] {
            table.insert(&x, 9);
        }
        assert_eq!(table.nearest(&[0.9, 400.0], |_| true), [1]);
        assert_eq!(table.nearest(&[0.5, 1000.0], |_| true), [2, 3]);
        let mut one_hot = ObservationTable::new(4);
        for i in 0..3 {
            one_hot.insert(&std::array::from_fn::<f64, 4, _>(|j| f64::from(u8::from(i == j))), 9);
        }
        assert_eq!(one_hot.nearest(&[0.0, 0.0, 0.0, 1.0], |s| s != 1), [0, 2]);
    }

    #[test]
    fn damaged_tables_are_refused() {
        for text in [
            r#"{"width":2,"ends":[2],"places":[0],"values":[1.0]}"#,
            r#"{"width":2,"ends":[1],"places":[2],"values":[1.0]}"#,
            r#"{"width":2,"ends":[1,2],"places":[0,0],"values":[1.0,1.0]}"#,
            r#"{"width":2,"ends":[1],"places":[0],"values":[0.0]}"#,
            r#"{"width":2,"ends":[1],"places":[0],"values":[1.0],"more":1}"#,
        ] {
            assert!(serde_json::from_str::<ObservationTable>(text).is_err(), "{text}");
        }
    }
}
