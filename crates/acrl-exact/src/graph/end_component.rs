//! End component of a model as arrays, for fast sweeps.

use acrl::FiniteCmdp;

/// States of an end component and the choices that stay in it.
#[derive(Debug)]
pub(crate) struct EndComponent {
    /// The model's number of each state.
    states: Vec<u32>,
    /// The model's number of each choice.
    choices: Vec<u32>,
    first_choice: Vec<u32>,
    first: Vec<u32>,
    /// Successors of each choice other than its own state.
    targets: Vec<u32>,
    probabilities: Vec<f64>,
    /// Probability of a self-loop, for each choice.
    stay: Vec<f64>,
    /// 1/(1 − stay), or 1 for an absorbing choice.
    steps: Vec<f64>,
}

impl EndComponent {
    /// End component with these states, ascending.
    pub(crate) fn new(model: &FiniteCmdp, states: &[usize]) -> Self {
        const OUTSIDE: u32 = u32::MAX;
        let mut position = vec![OUTSIDE; model.states()];
        states.iter().enumerate().for_each(|(i, &s)| position[s] = i as u32);
        let mut this = Self {
            states: states.iter().map(|&s| s as u32).collect(),
            choices: Vec::new(),
            first_choice: vec![0],
            first: vec![0],
            targets: Vec::with_capacity(model.transitions()),
            probabilities: Vec::with_capacity(model.transitions()),
            stay: Vec::new(),
            steps: Vec::new(),
        };
        for (own, &s) in states.iter().enumerate() {
            for c in model.choices(s) {
                let choice = model.choice(c);
                if choice.targets.iter().all(|&t| position[t as usize] != OUTSIDE) {
                    let mut stay = 0.0;
                    for (&t, &p) in choice.targets.iter().zip(choice.probabilities) {
                        let t = position[t as usize];
                        if t as usize == own {
                            stay += p;
                        } else {
                            this.targets.push(t);
                            this.probabilities.push(p);
                        }
                    }
                    this.stay.push(stay);
                    let leaves = this.targets.len() > this.first[this.first.len() - 1] as usize;
                    this.steps.push(if leaves { 1.0 / (1.0 - stay) } else { 1.0 });
                    this.first.push(this.targets.len() as u32);
                    this.choices.push(c as u32);
                }
            }
            this.first_choice.push(this.choices.len() as u32);
        }
        this
    }

    /// Number of states.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn choice_count(&self) -> usize {
        self.choices.len()
    }

    /// The model's number of a state.
    pub(crate) fn state(&self, s: usize) -> usize {
        self.states[s] as usize
    }

    /// The model's number of a choice.
    #[inline(always)]
    pub(crate) fn choice(&self, choice: usize) -> usize {
        self.choices[choice] as usize
    }

    #[inline(always)]
    pub(crate) fn choices_of(&self, s: usize) -> std::ops::Range<usize> {
        self.first_choice[s] as usize..self.first_choice[s + 1] as usize
    }

    /// Successors of a choice other than its own state, and their probabilities.
    #[inline(always)]
    pub(crate) fn transitions(&self, choice: usize) -> (&[u32], &[f64]) {
        let range = self.first[choice] as usize..self.first[choice + 1] as usize;
        (&self.targets[range.clone()], &self.probabilities[range])
    }

    /// Probability of a self-loop.
    #[inline(always)]
    pub(crate) fn stay(&self, choice: usize) -> f64 {
        self.stay[choice]
    }

    /// Expected number of steps until a choice leaves its state, 1/(1 − stay); 1 for an absorbing choice.
    #[inline(always)]
    pub(crate) fn steps(&self, choice: usize) -> f64 {
        self.steps[choice]
    }

    /// Successors of s under any choice other than s itself, with repetitions.
    pub(crate) fn successors(&self, s: usize) -> &[u32] {
        let choices = self.choices_of(s);
        &self.targets[self.first[choices.start] as usize..self.first[choices.end] as usize]
    }
}
