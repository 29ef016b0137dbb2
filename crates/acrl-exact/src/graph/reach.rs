//! Predecessors of states, and almost-sure reachability.

use acrl::FiniteCmdp;

/// Values grouped by key, each group in the order of the pairs.
pub(crate) struct Grouped {
    first: Vec<u32>,
    values: Vec<u32>,
}

impl Grouped {
    /// Groups pairs of a key and a value by counting sort.
    pub(crate) fn new(keys: usize, pairs: impl Iterator<Item = (usize, usize)> + Clone) -> Self {
        let mut first = vec![0_u32; keys + 1];
        pairs.clone().for_each(|(key, _)| first[key + 1] += 1);
        (0..keys).for_each(|key| first[key + 1] += first[key]);
        let mut next = first.clone();
        let mut values = vec![0_u32; first[keys] as usize];
        for (key, value) in pairs {
            values[next[key] as usize] = value as u32;
            next[key] += 1;
        }
        Self { first, values }
    }

    /// Values of a key.
    pub(crate) fn of(&self, key: usize) -> &[u32] {
        &self.values[self.first[key] as usize..self.first[key + 1] as usize]
    }
}

/// Choices that may lead to each state, and the state of each choice.
pub(crate) struct Predecessors {
    choices: Grouped,
    /// State of each choice.
    pub(crate) states: Vec<u32>,
}

impl Predecessors {
    pub(crate) fn new(model: &FiniteCmdp) -> Self {
        let mut states = vec![0_u32; model.choice_count()];
        (0..model.states()).for_each(|s| states[model.choices(s)].fill(s as u32));
        let into = |c: usize| model.choice(c).targets.iter().map(move |&t| (t as usize, c));
        let choices = Grouped::new(model.states(), (0..model.choice_count()).flat_map(into));
        Self { choices, states }
    }

    /// Choices that may lead to a state, each with its own state.
    pub(crate) fn of(&self, state: usize) -> impl Iterator<Item = (usize, usize)> {
        self.choices.of(state).iter().map(|&c| (c as usize, self.states[c as usize] as usize))
    }
}

/// States from which some policy reaches a goal with probability 1 (de Alfaro 1997).
pub(crate) fn almost_surely_reaching(model: &FiniteCmdp, goal: &[bool]) -> Vec<bool> {
    let n = model.states();
    let predecessors = Predecessors::new(model);
    let mut kept = vec![true; n];
    // Choices that may leave the kept states.
    let mut leaves = vec![false; model.choice_count()];
    loop {
        // States that can reach the goal by choices that never leave the kept states.
        let mut reaching: Vec<bool> = (0..n).map(|s| kept[s] && goal[s]).collect();
        let mut work: Vec<usize> = (0..n).filter(|&s| reaching[s]).collect();
        while let Some(t) = work.pop() {
            for (c, s) in predecessors.of(t) {
                if kept[s] && !leaves[c] && !std::mem::replace(&mut reaching[s], true) {
                    work.push(s);
                }
            }
        }
        if reaching == kept {
            return kept;
        }
        for s in (0..n).filter(|&s| kept[s] && !reaching[s]) {
            predecessors.of(s).for_each(|(c, _)| leaves[c] = true);
        }
        kept = reaching;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_models::of_choices;

    #[test]
    fn almost_sure_reachability_is_stricter_than_reachability() {
        let model = of_choices(&[
            (0, "gamble", &[(1, 0.5), (2, 0.5)], [0.0]),
            (1, "stay", &[(1, 1.0)], [0.0]),
            (2, "stay", &[(2, 1.0)], [0.0]),
            (3, "try again", &[(1, 0.1), (3, 0.9)], [0.0]),
            (3, "give up", &[(2, 1.0)], [0.0]),
        ]);
        assert_eq!(almost_surely_reaching(&model, &[false, true, false, false]), [false, true, false, true]);
    }
}
