//! Policy table: the actions of the policies of the optimal mixture, state by state.

use std::path::Path;

use acrl_exact::{Optimum, Solution};
use acrl_report::{Cell, Table, number};
use serde::Serialize;

use super::SolveResult;
use crate::{Error, bail};

/// Policy table of a solution, as the key `policy_table` of `acrl solve --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PolicyTable {
    /// Number of states in which the policies of the mixture differ.
    pub differing_states: usize,
    /// Whether there is a row for every state.
    pub complete: bool,
    /// Rows in the order of the states.
    pub rows: Vec<PolicyRow>,
}

/// Row of a policy table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyRow {
    /// Name of the state.
    pub state: String,
    /// Name of each policy's action, in the order of the mixture.
    pub actions: Vec<String>,
    /// Whether the policies differ here.
    pub differs: bool,
}

impl SolveResult {
    /// Most rows of a policy table, except in a file of its own.
    pub const POLICY_ROWS: usize = 1_000;

    /// Policy table with a row for every state, or, of a model with more than [`POLICY_ROWS`](Self::POLICY_ROWS) states,
    /// for the first of those in which the policies differ.
    pub fn policy_table(&self, optimum: &Optimum) -> PolicyTable {
        let complete = self.model.states() <= Self::POLICY_ROWS;
        let differing: Vec<usize> =
            (0..self.model.states()).filter(|&s| differs(optimum, s)).take(Self::POLICY_ROWS).collect();
        PolicyTable {
            differing_states: self.differing_states(optimum),
            complete,
            rows: if complete {
                (0..self.model.states()).map(|s| self.policy_row(optimum, s)).collect()
            } else {
                differing.into_iter().map(|s| self.policy_row(optimum, s)).collect()
            },
        }
    }

    /// Number of states in which the policies of the mixture differ.
    pub fn differing_states(&self, optimum: &Optimum) -> usize {
        (0..self.model.states()).filter(|&s| differs(optimum, s)).count()
    }

    /// Actions where the policies of the mixture differ: the first `most` of these states.
    pub fn differing_table(&self, optimum: &Optimum, most: usize) -> Table {
        let states = (0..self.model.states()).filter(|&s| differs(optimum, s)).take(most);
        let rows = states.map(|s| {
            let PolicyRow { state, actions, .. } = self.policy_row(optimum, s);
            std::iter::once(state).chain(actions).map(Cell::from).collect()
        });
        let all = self.differing_states(optimum);
        let note = if all > most { format!("the first {most} of these {all} states") } else { String::new() };
        Table::new(std::iter::once("state".to_owned()).chain(policy_names(optimum)), rows, note)
    }

    /// Heading of the [table](Self::differing_table) of differences.
    pub fn differing_heading(&self, optimum: &Optimum) -> String {
        let (all, states) = (self.differing_states(optimum), self.model.states());
        format!("the policies differ in {all} of {states} states")
    }

    /// Writes the policy table of all states as CSV: `state`, `differs` (0 or 1), and a column for each policy, whose
    /// name has its share of time.
    pub fn write_policy_table(&self, path: &Path) -> Result<(), Error> {
        let Solution::Optimal(optimum) = &self.answer else {
            bail!("no policy table is written to {}: the requirements cannot be met", path.display());
        };
        let rows = (0..self.model.states()).map(|s| {
            let PolicyRow { state, actions, differs } = self.policy_row(optimum, s);
            let differs = u8::from(differs).to_string();
            [state, differs].into_iter().chain(actions).map(Cell::from).collect()
        });
        let header = ["state".to_owned(), "differs".to_owned()].into_iter().chain(policy_names(optimum));
        let table = Table::new(header, rows, "");
        Ok(acrl_files::write_atomically(path, table.to_csv().as_bytes())?)
    }

    fn policy_row(&self, optimum: &Optimum, state: usize) -> PolicyRow {
        let choices = self.model.choices(state);
        let name = |action: usize| self.model.action_name(choices.start + action).into_owned();
        PolicyRow {
            state: self.model.state_name(state).into_owned(),
            actions: optimum.mixture.iter().map(|policy| name(policy.actions[state])).collect(),
            differs: differs(optimum, state),
        }
    }
}

/// Whether the policies of the mixture differ in a state.
fn differs(optimum: &Optimum, state: usize) -> bool {
    optimum.mixture.windows(2).any(|pair| pair[0].actions[state] != pair[1].actions[state])
}

/// "policy 1 (0.25)": number and share of time of each policy of the mixture.
fn policy_names(optimum: &Optimum) -> impl Iterator<Item = String> {
    let shares = optimum.mixture.iter().map(|policy| policy.weight).enumerate();
    shares.map(|(j, share)| format!("policy {} ({})", j + 1, number(share, 5)))
}
