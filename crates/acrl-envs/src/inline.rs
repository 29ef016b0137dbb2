//! Finite models written out in the problem file.

use std::collections::{HashMap, HashSet};

use acrl::FiniteCmdp;

use crate::document::{ProblemError, Table, one_of};

/// Reads `[model]` with its `[[model.state]]` and `[[model.state.action]]`.
pub(crate) fn read(model: &Table<'_>) -> Result<FiniteCmdp, ProblemError> {
    model.only(&["rewards", "initial", "state"])?;
    let rewards = reward_names(model)?;
    let expected = "at least one state: write [[model.state]], or name a model file with 'file'";
    let states = model.need("state", expected)?.tables("[[model.state]]")?;

    // Names first, so that an action can lead to a state that comes later.
    let mut names = Vec::with_capacity(states.len());
    let mut index = HashMap::with_capacity(states.len());
    for state in &states {
        state.only(&["name", "rewards", "action"])?;
        let value = state.need("name", "the state's name")?;
        let name = value.string("the state's name")?;
        if index.insert(name, names.len()).is_some() {
            return Err(value.error(format!("two states are called '{name}': names must differ")));
        }
        names.push(name);
    }

    let mut builder = FiniteCmdp::builder(rewards.iter().copied());
    for name in &names {
        builder.state(*name);
    }
    for (s, (state, name)) in states.into_iter().zip(&names).enumerate() {
        let state = state.retitled(format!("state '{name}'"));
        let base = reward_values(&state, &rewards)?;
        let actions = state.need("action", "at least one [[model.state.action]], if only to stay")?;
        let mut labels = HashSet::new();
        for action in actions.tables("[[model.state.action]]")? {
            action.only(&["name", "to", "rewards"])?;
            let value = action.need("name", "the action's name")?;
            let label = value.string("the action's name")?;
            if !labels.insert(label) {
                let message =
                    format!("two actions of state '{name}' are called '{label}': names must differ");
                return Err(value.error(message));
            }
            let action = action.retitled(format!("state '{name}', action '{label}'"));
            let mut values = reward_values(&action, &rewards)?;
            values.iter_mut().zip(&base).for_each(|(value, base)| *value += base);
            let expected = "where it leads, for example to = { A = 0.9, B = 0.1 }";
            let to = action.need("to", expected)?;
            let title = format!("'to' of {}", action.title());
            let transitions = distribution(&to.table(title)?, &names, &index)?;
            builder.choice(s, label, &transitions, &values);
            builder.check().map_err(|e| action.error(e.to_string()))?;
        }
    }
    for (state, p) in initial(model, &names, &index)? {
        builder.initial(state, p);
    }
    builder.build().map_err(|e| model.error(format!("[model]: {e}")))
}

fn reward_names<'a>(model: &Table<'a>) -> Result<Vec<&'a str>, ProblemError> {
    let expected = "the list of the rewards' names";
    let mut names = Vec::new();
    for value in model.need("rewards", expected)?.list(expected)? {
        let name = value.name()?;
        if names.contains(&name) {
            return Err(value.error(format!("two rewards are called '{name}': names must differ")));
        }
        names.push(name);
    }
    Ok(names)
}

/// The `rewards` of a state or an action; those that are not there are 0.
fn reward_values(owner: &Table<'_>, names: &[&str]) -> Result<Vec<f64>, ProblemError> {
    let Some(rewards) = owner.get("rewards") else { return Ok(vec![0.0; names.len()]) };
    let rewards = rewards.table(format!("'rewards' of {}", owner.title()))?;
    rewards.only(names)?;
    names.iter().map(|name| rewards.get(name).map_or(Ok(0.0), |value| value.number())).collect()
}

/// A table of states with their probabilities, in the order of the states.
fn distribution(
    table: &Table<'_>,
    names: &[&str],
    index: &HashMap<&str, usize>,
) -> Result<Vec<(usize, f64)>, ProblemError> {
    let mut distribution = Vec::new();
    for key in table.keys() {
        let Some(value) = table.get(key) else { continue };
        let Some(&state) = index.get(key) else {
            let message = format!("{} names the state '{key}', expected {}", table.title(), one_of(names));
            return Err(value.error(message));
        };
        distribution.push((state, value.probability()?));
    }
    distribution.sort_unstable_by_key(|(state, _)| *state);
    Ok(distribution)
}

fn initial(
    model: &Table<'_>,
    names: &[&str],
    index: &HashMap<&str, usize>,
) -> Result<Vec<(usize, f64)>, ProblemError> {
    let value = model.need("initial", "the state to start in, or a table of states and probabilities")?;
    if value.is_table() {
        let distribution = distribution(&value.table("'initial' in [model]")?, names, index)?;
        let sum: f64 = distribution.iter().map(|(_, p)| p).sum();
        if (sum - 1.0).abs() > FiniteCmdp::SUM_TOLERANCE {
            let message = format!("'initial' in [model]: the probabilities add up to {sum}, expected 1");
            return Err(value.error(message));
        }
        return Ok(distribution);
    }
    match value.as_string().and_then(|name| index.get(name)) {
        Some(&state) => Ok(vec![(state, 1.0)]),
        None => {
            Err(value.wrong(format!("a state or a table of states and probabilities: {}", one_of(names))))
        }
    }
}
