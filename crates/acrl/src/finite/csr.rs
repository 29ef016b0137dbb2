//! A finite model from the arrays of a sparse matrix, in their own memory.

use std::collections::HashSet;

use super::fault::{ModelError, ModelFault};
use super::names::{ActionNames, StateNames};
use super::{FiniteCmdp, checked_initial, checked_rewards, checked_sum, first_choices};

/// The arrays of a finite model whose transitions are a sparse matrix in rows (CSR), one row for
/// each pair of a state and an action. [`FiniteCmdp::from_csr`] checks them and makes them the
/// model, in the memory that they have.
#[derive(Debug, Clone, Default)]
pub struct CsrModel {
    /// The number of states, which are named by their numbers.
    pub states: usize,
    /// The names of the rewards.
    pub reward_names: Vec<String>,
    /// The first row of each state, and the number of rows at the end. Without it every state has
    /// the same number of rows, and a row without entries is an action that the state does not
    /// have.
    pub first_row: Option<Vec<u32>>,
    /// The names of the actions, in the order of a state's rows. Without it they are numbers.
    pub action_names: Option<Vec<String>>,
    /// The index of each row's name, if it does not follow from the order of rows.
    pub row_actions: Option<Vec<u32>>,
    /// The first entry of each row, and the number of entries at the end (`indptr`).
    pub first_entry: Vec<u32>,
    /// The successor state of each entry (`indices`). Repeated states in a row are added up.
    pub targets: Vec<u32>,
    /// The probability of each entry (`data`). Zeros are dropped.
    pub probabilities: Vec<f64>,
    /// r(s, a), all rewards of a row after those of the row before.
    pub rewards: Vec<f64>,
    /// The initial distribution; state 0 if it is empty.
    pub initial: Vec<(usize, f64)>,
}

impl FiniteCmdp {
    /// Makes a model of arrays, with the same checks as the [builder](Self::builder) and without a
    /// copy of them.
    ///
    /// ```
    /// use acrl::{CsrModel, FiniteCmdp};
    ///
    /// let model = FiniteCmdp::from_csr(CsrModel {
    ///     states: 2,
    ///     reward_names: vec!["x".into()],
    ///     first_entry: vec![0, 1, 2, 2, 4], // the second state has no first action
    ///     targets: vec![0, 1, 0, 1],
    ///     probabilities: vec![1.0, 1.0, 0.25, 0.75],
    ///     rewards: vec![0.0, 1.0, 0.0, 2.0],
    ///     ..CsrModel::default()
    /// })?;
    /// assert_eq!((model.choices(0), model.choices(1)), (0..2, 2..3));
    /// assert_eq!((model.action_name(2), model.choice(2).rewards), ("1".into(), &[2.0][..]));
    /// # Ok::<(), acrl::ModelError>(())
    /// ```
    pub fn from_csr(mut arrays: CsrModel) -> Result<Self, ModelError> {
        let initial = std::mem::take(&mut arrays.initial);
        arrays.check().map_err(ModelError::whole)?;
        let initial = checked_initial(initial, arrays.states)?;
        let (counts, of) = arrays.compact()?;
        let mut model = Self {
            reward_names: arrays.reward_names,
            state_names: StateNames::Numbered(arrays.states),
            actions: ActionNames { names: arrays.action_names, of },
            first_choice: first_choices(counts),
            first_transition: arrays.first_entry,
            targets: arrays.targets,
            probabilities: arrays.probabilities,
            rewards: arrays.rewards,
            initial,
        };
        model.check_actions()?;
        model.shrink_to_fit();
        Ok(model)
    }
}

impl CsrModel {
    fn rows(&self) -> usize {
        self.first_entry.len().saturating_sub(1)
    }

    /// The rows of a state.
    fn rows_of(&self, state: usize) -> std::ops::Range<usize> {
        match &self.first_row {
            Some(first) => first[state] as usize..first[state + 1] as usize,
            None => {
                let actions = self.rows() / self.states;
                state * actions..(state + 1) * actions
            }
        }
    }

    /// Checks that the arrays fit together.
    fn check(&self) -> Result<(), ModelFault> {
        let (states, rows) = (self.states, self.rows());
        if states == 0 {
            return Err(ModelFault::NoStates);
        }
        if states > u32::MAX as usize {
            return Err(ModelFault::TooManyStates { states });
        }
        checked_rewards(&self.reward_names)?;
        let length = |what, expected: usize, found: usize| {
            if expected == found { Ok(()) } else { Err(ModelFault::Length { what, expected, found }) }
        };
        length("entries of the transitions' matrix", self.targets.len(), self.probabilities.len())?;
        offsets("the first entries of rows", &self.first_entry, self.targets.len())?;
        length("rewards", rows.saturating_mul(self.reward_names.len()), self.rewards.len())?;
        let most = match &self.first_row {
            None => {
                // As many rows as the nearest multiple of the states.
                length("rows, as many for each state", rows.div_ceil(states).max(1) * states, rows)?;
                rows / states
            }
            Some(first) => {
                length("first rows of states", states + 1, first.len())?;
                offsets("the first rows of states", first, rows)?;
                first.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0) as usize
            }
        };
        let Some(names) = &self.action_names else {
            return length("rows with a name", 0, self.row_actions.as_ref().map_or(0, Vec::len));
        };
        let mut seen = HashSet::new();
        if let Some(name) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(ModelFault::DuplicateActionName(name.clone()));
        }
        let Some(of) = &self.row_actions else { return length("names of actions", most, names.len()) };
        length("rows with a name", rows, of.len())?;
        let beyond = of.iter().find(|name| **name as usize >= names.len());
        beyond.map_or(Ok(()), |name| length("names of actions", *name as usize + 1, names.len()))
    }

    /// Checks the rows and moves them together: without entries that are 0, without entries for a
    /// target that was already there, and without rows that have none. Returns how many choices
    /// each state has, and which action each of them is, unless it follows from its place.
    fn compact(&mut self) -> Result<(Vec<u32>, Option<Vec<u32>>), ModelError> {
        let (n, fixed) = (self.reward_names.len(), self.first_row.is_none());
        let missing = |row: &[f64]| fixed && row.iter().all(|p| *p == 0.0);
        let entries = |first: &[u32]| first[0] as usize..first[1] as usize;
        let drops = self.first_entry.windows(2).any(|first| missing(&self.probabilities[entries(first)]));
        let named = self.row_actions.take();
        let mut of = (drops || named.is_some()).then(|| Vec::with_capacity(self.rows()));
        let mut counts = vec![0_u32; self.states];
        // How many rows and entries there are so far; where the next row begins in the arrays as
        // they were.
        let (mut row_count, mut entry_count, mut start) = (0, 0, 0);
        let mut scratch = Vec::new();
        for state in 0..self.states {
            let rows = self.rows_of(state);
            for row in rows.clone() {
                let entries = start..self.first_entry[row + 1] as usize;
                start = entries.end;
                if missing(&self.probabilities[entries.clone()]) {
                    continue;
                }
                let number = named.as_ref().map_or(row - rows.start, |named| named[row] as usize);
                let place = |fault| ModelError {
                    state: Some(state.to_string()),
                    action: Some(match &self.action_names {
                        Some(names) => names[number].clone(),
                        None => number.to_string(),
                    }),
                    fault,
                };
                let rewards = row * n..(row + 1) * n;
                if let Some(i) = self.rewards[rewards.clone()].iter().position(|r| !r.is_finite()) {
                    let (reward, value) = (self.reward_names[i].clone(), self.rewards[rewards][i]);
                    return Err(place(ModelFault::Reward { reward, value }));
                }
                self.rewards.copy_within(rewards, row_count * n);
                let targets = &mut self.targets[entries.clone()];
                let probabilities = &mut self.probabilities[entries.clone()];
                let kept = tidy(targets, probabilities, self.states, &mut scratch).map_err(place)?;
                let kept = entries.start..entries.start + kept;
                self.targets.copy_within(kept.clone(), entry_count);
                self.probabilities.copy_within(kept.clone(), entry_count);
                (row_count, entry_count) = (row_count + 1, entry_count + kept.len());
                self.first_entry[row_count] = entry_count as u32;
                counts[state] += 1;
                if let Some(of) = &mut of {
                    of.push(number as u32);
                }
            }
            if counts[state] == 0 {
                let state = Some(state.to_string());
                return Err(ModelError { state, action: None, fault: ModelFault::NoAction });
            }
        }
        self.first_entry.truncate(row_count + 1);
        self.targets.truncate(entry_count);
        self.probabilities.truncate(entry_count);
        self.rewards.truncate(row_count * n);
        Ok((counts, of))
    }
}

/// Checks that offsets begin with 0, never decrease and end with a total.
fn offsets(what: &'static str, offsets: &[u32], total: usize) -> Result<(), ModelFault> {
    let first = offsets.first().map_or(0, |first| *first as usize);
    if first != 0 {
        return Err(ModelFault::Offsets { what, before: 0, after: first });
    }
    if let Some(pair) = offsets.windows(2).find(|pair| pair[0] > pair[1]) {
        return Err(ModelFault::Offsets { what, before: pair[0] as usize, after: pair[1] as usize });
    }
    let found = offsets.last().map_or(0, |last| *last as usize);
    if found == total { Ok(()) } else { Err(ModelFault::LastOffset { what, expected: total, found }) }
}

/// Checks a row, moves its positive entries to the front, each target once, and returns how many
/// there are. The order stays as it is, unless a target is there twice.
fn tidy(
    targets: &mut [u32],
    probabilities: &mut [f64],
    states: usize,
    scratch: &mut Vec<(u32, f64)>,
) -> Result<usize, ModelFault> {
    if let Some(target) = targets.iter().find(|t| **t as usize >= states) {
        return Err(ModelFault::Target { target: *target as usize, states });
    }
    let entries = targets.iter().map(|t| *t as usize).zip(probabilities.iter().copied());
    let total = checked_sum(entries)?;
    if !targets.is_sorted_by(|a, b| a < b) {
        scratch.clear();
        scratch.extend(targets.iter().copied().zip(probabilities.iter().copied()));
        scratch.sort_by_key(|(t, _)| *t);
        if scratch.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            probabilities.fill(0.0);
            let mut last = 0;
            for (i, &(t, p)) in scratch.iter().enumerate() {
                last = if i == 0 || scratch[i - 1].0 == t { last } else { last + 1 };
                targets[last] = t;
                probabilities[last] += p;
            }
        }
    }
    let mut kept = 0;
    for i in 0..targets.len() {
        if probabilities[i] > 0.0 {
            (targets[kept], probabilities[kept]) = (targets[i], probabilities[i] / total);
            kept += 1;
        }
    }
    Ok(kept)
}
