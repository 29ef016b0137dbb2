//! Predecessors of states, and almost-sure reachability.

use acrl::FiniteCmdp;

/// Choices that may lead to each state, and the state of each choice.
pub(crate) struct Predecessors {
    first: Vec<u32>,
    choices: Vec<u32>,
    /// State of each choice.
    pub(crate) states: Vec<u32>,
}

impl Predecessors {
    pub(crate) fn new(model: &FiniteCmdp) -> Self {
        let n = model.states();
        let mut first = vec![0_u32; n + 1];
        let mut states = vec![0_u32; model.choice_count()];
        for s in 0..n {
            states[model.choices(s)].fill(s as u32);
            model.successors(s).iter().for_each(|&t| first[t as usize + 1] += 1);
        }
        (0..n).for_each(|s| first[s + 1] += first[s]);
        let mut next = first.clone();
        let mut choices = vec![0_u32; model.transitions()];
        for c in 0..model.choice_count() {
            for &t in model.choice(c).targets {
                choices[next[t as usize] as usize] = c as u32;
                next[t as usize] += 1;
            }
        }
        Self { first, choices, states }
    }

    /// Choices that may lead to a state, each with its own state.
    pub(crate) fn of(&self, state: usize) -> impl Iterator<Item = (usize, usize)> {
        let range = self.first[state] as usize..self.first[state + 1] as usize;
        self.choices[range].iter().map(|&c| (c as usize, self.states[c as usize] as usize))
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

    #[test]
    fn almost_sure_reachability_is_stricter_than_reachability() {
        let mut b = FiniteCmdp::builder(["x"]);
        (0..4).for_each(|s| _ = b.state(s.to_string()));
        b.choice(0, "gamble", &[(1, 0.5), (2, 0.5)], &[0.0]);
        b.choice(1, "stay", &[(1, 1.0)], &[0.0]);
        b.choice(2, "stay", &[(2, 1.0)], &[0.0]);
        b.choice(3, "try again", &[(1, 0.1), (3, 0.9)], &[0.0]);
        b.choice(3, "give up", &[(2, 1.0)], &[0.0]);
        let model = b.build().unwrap();
        assert_eq!(almost_surely_reaching(&model, &[false, true, false, false]), [false, true, false, true]);
    }
}
