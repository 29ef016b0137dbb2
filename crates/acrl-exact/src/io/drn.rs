//! Storm's explicit format for finite models, `.drn`: [`read()`] and [`write()`].
//!
//! ```text
//! // Exported by storm            a comment: a line, or after @model the end of one
//! @type: MDP                      or DTMC, which has one action in each state
//! @value_type: double             or rational; optional
//! @parameters                     optional; the line below must be empty, because
//!                                 parametric models are refused
//! @placeholders                   optional
//! $0 : 1/3                        constants, which can be used below as $0
//! @reward_models                  optional: a model may have no rewards
//! energy delay                    their names
//! @nr_states
//! 2
//! @nr_choices                     optional
//! 2
//! @model
//! state 0 [1, 0] init "at work"   state rewards, labels
//!     action wait [0, 1]          the action's own rewards
//!         0 : 2/3                 target and probability
//!         1 : $0
//! state 1
//!     action repair
//!         0 : 1
//! ```
//!
//! States are numbered from 0, in order, and named by their number. A missing list of rewards is all
//! zeros, and r(s, a) is the state's reward plus the action's. The states labelled `init` are the
//! initial ones, all equally likely; without any it is state 0. Other labels are ignored. Actions of
//! a state that share a name (as `__NOLABEL__` does in Storm's files) become `name`, `name#2`, …
//! Numbers are integers, decimals or fractions p/q. Indentation is any white space, lines may end in
//! `\r\n`, and the last one need not end. The numbers of states and choices must be those of the
//! header, so that a file that was cut short is noticed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{Display, Write as _};

use acrl::{FiniteCmdp, FiniteCmdpBuilder, ModelFault};

mod header;
#[cfg(test)]
mod tests;

use super::{printable, shown};
use header::{Header, Lines};

/// Fault in a `.drn` file: `line 12: state 3, action 'a': the probabilities add up to 0.9, expected 1`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct DrnError {
    /// Line number, from 1.
    pub line: usize,
    /// Description of the fault, with the state and the action where they are known.
    pub message: String,
}

fn error(line: usize, message: impl Display) -> DrnError {
    DrnError { line, message: printable(message) }
}

/// Reads a model in the format that the [module](self) describes.
pub fn read(bytes: &[u8]) -> Result<FiniteCmdp, DrnError> {
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(error(1, "the file is compressed: unpack it first"));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let at = e.valid_up_to();
        let line = 1 + bytes[..at].iter().filter(|b| **b == b'\n').count();
        error(line, format!("byte {:#04x} is not UTF-8 text, expected a text file", bytes[at]))
    })?;
    let mut lines = Lines::new(text);
    let header = Header::read(&mut lines)?;
    let mut reader = Reader::new(header, lines.number);
    while let Some(line) = lines.next() {
        reader.line = lines.number;
        if line.is_empty() {
            continue;
        } else if let Some(rest) = after_keyword(line, "action") {
            reader.action(without_comment(rest))?;
        } else if let Some(rest) = after_keyword(line, "state") {
            reader.state(rest)?;
        } else {
            reader.transition(without_comment(line))?;
        }
    }
    reader.finish()
}

/// Writes a model in Storm's format, from which [`read`] restores it, except that the format has no names
/// for states, only initial distributions that are uniform over some states, and names without white
/// space, which becomes `_`.
pub fn write(model: &FiniteCmdp) -> String {
    let mut out = String::from("// Exported by acrl\n");
    let mut initial = vec![false; model.states()];
    model.initial().iter().for_each(|(s, _)| initial[*s] = true);
    let first = model.initial().first().map_or(1.0, |(_, p)| *p);
    if model.initial().iter().any(|(_, p)| (p - first).abs() > FiniteCmdp::SUM_TOLERANCE) {
        out += "// The initial states are not equally likely, which this format cannot say.\n";
    }
    out += "@type: MDP\n@parameters\n\n@reward_models\n";
    let mut names = Names::default();
    for name in model.reward_names() {
        out += &names.unique(word(name));
        out.push(' ');
    }
    let (states, choices) = (model.states(), model.choice_count());
    // Writing to a String cannot fail.
    _ = writeln!(out, "\n@nr_states\n{states}\n@nr_choices\n{choices}\n@model");
    for state in 0..states {
        _ = writeln!(out, "state {state}{}", if initial[state] { " init" } else { "" });
        for number in model.choices(state) {
            let choice = model.choice(number);
            _ = write!(out, "\taction {}", word(&model.action_name(number)));
            for (i, &reward) in choice.rewards.iter().enumerate() {
                out += if i == 0 { " [" } else { ", " };
                write_number(&mut out, reward);
            }
            out += if choice.rewards.is_empty() { "\n" } else { "]\n" };
            for (target, &p) in choice.targets.iter().zip(choice.probabilities) {
                _ = write!(out, "\t\t{target} : ");
                write_number(&mut out, p);
                out.push('\n');
            }
        }
    }
    out
}

fn write_number(out: &mut String, x: f64) {
    let plain = x == 0.0 || (1e-5..1e16).contains(&x.abs());
    _ = if plain { write!(out, "{x}") } else { write!(out, "{x:e}") };
}

/// Reader of the part of a file after `@model`.
struct Reader<'a> {
    header: Header<'a>,
    builder: FiniteCmdpBuilder,
    line: usize,
    /// Number of states so far; the last one is being read.
    states: usize,
    choices: usize,
    initial: Vec<usize>,
    state_line: usize,
    state_rewards: Vec<f64>,
    /// Names of the actions of this state.
    names: Names<'a>,
    /// Name and line of the action that is being read.
    action: Option<(Cow<'a, str>, usize)>,
    rewards: Vec<f64>,
    transitions: Vec<(usize, f64)>,
    transition_lines: Vec<usize>,
}

impl<'a> Reader<'a> {
    fn new(header: Header<'a>, line: usize) -> Self {
        Self {
            builder: FiniteCmdp::builder(header.rewards.iter().map(|name| &**name)),
            line,
            states: 0,
            choices: 0,
            initial: Vec::new(),
            state_line: 0,
            state_rewards: vec![0.0; header.rewards.len()],
            names: Names::default(),
            action: None,
            rewards: vec![0.0; header.rewards.len()],
            transitions: Vec::new(),
            transition_lines: Vec::new(),
            header,
        }
    }

    /// Error on this line, with the state and the action that are being read.
    fn fault(&self, message: impl Display) -> DrnError {
        match (self.states, &self.action) {
            (0, _) => error(self.line, message),
            (n, None) => error(self.line, format!("state {}: {message}", n - 1)),
            (n, Some((name, _))) => {
                error(self.line, format!("state {}, action '{}': {message}", n - 1, shown(name)))
            }
        }
    }

    fn state(&mut self, rest: &'a str) -> Result<(), DrnError> {
        self.end_state()?;
        let (id, rest) = split_word(rest);
        if self.states == self.header.states {
            let message = format!("@nr_states is {}, but here is another state", self.states);
            return Err(error(self.line, message));
        }
        if id.parse() != Ok(self.states) {
            let expected = format!("expected state {}, since states are in order", self.states);
            return Err(error(self.line, format!("{expected}, found '{}'", shown(id))));
        }
        self.builder.state(self.states.to_string());
        self.states += 1;
        self.state_line = self.line;
        self.names = Names::default();
        self.rewards.fill(0.0);
        let mut rest = self.discrete_and_observed(rest)?;
        if rest.starts_with('[') {
            rest = self.add_rewards(rest)?;
            rest = self.discrete_and_observed(rest)?;
        }
        self.state_rewards.clone_from(&self.rewards);
        self.labels(rest)
    }

    /// Refuses the exit rate `!1.5` and the observation `{2}`.
    fn discrete_and_observed(&self, rest: &'a str) -> Result<&'a str, DrnError> {
        let what = match *rest.as_bytes() {
            [b'!', b'0'..=b'9' | b'.' | b'$', ..] => "an exit rate, but continuous-time",
            [b'{', b'0'..=b'9', ..] => "an observation, but partially observable",
            _ => return Ok(rest),
        };
        Err(self.fault(format!("'{}' is {what} models are not supported", shown(split_word(rest).0))))
    }

    fn labels(&mut self, mut rest: &'a str) -> Result<(), DrnError> {
        while !rest.is_empty() && !rest.starts_with("//") {
            let label;
            if let Some(quoted) = rest.strip_prefix('"') {
                let closed = quoted.split_once('"');
                (label, rest) = closed.ok_or_else(|| self.fault("a label's quotation mark is not closed"))?;
                rest = rest.trim_ascii_start();
            } else if rest.starts_with('[') {
                return Err(self.fault("expected one list of rewards, before the labels"));
            } else {
                (label, rest) = split_word(rest);
            }
            if label == "init" && self.initial.last() != Some(&(self.states - 1)) {
                self.initial.push(self.states - 1);
            }
        }
        Ok(())
    }

    fn action(&mut self, rest: &'a str) -> Result<(), DrnError> {
        self.end_action()?;
        if self.states == 0 {
            return Err(self.fault("expected a state before its first action"));
        }
        if self.header.dtmc && !self.names.0.is_empty() {
            return Err(self.fault("a second action, but a DTMC has one in each state"));
        }
        if self.header.choices == Some(self.choices) {
            return Err(self.fault(format!("@nr_choices is {}, but here is another action", self.choices)));
        }
        let bytes = rest.as_bytes();
        let bracket = |&i: &usize| bytes[i] == b'[' && (i == 0 || bytes[i - 1].is_ascii_whitespace());
        let (name, rest) = rest.split_at((0..bytes.len()).find(bracket).unwrap_or(bytes.len()));
        if name.is_empty() {
            return Err(self.fault("expected the name of the action"));
        }
        let name = self.names.unique(word(name.trim_ascii_end()));
        self.action = Some((name, self.line));
        self.choices += 1;
        self.transitions.clear();
        self.transition_lines.clear();
        self.rewards.clone_from(&self.state_rewards);
        if !rest.is_empty() && self.add_rewards(rest)?.starts_with('[') {
            return Err(self.fault("expected one list of rewards"));
        }
        Ok(())
    }

    /// Adds a list `[r1, r2]` to the rewards and returns what follows it.
    fn add_rewards(&mut self, list: &'a str) -> Result<&'a str, DrnError> {
        let Some((list, rest)) = list[1..].split_once(']') else {
            return Err(self.fault("the list of rewards is not closed, expected ']'"));
        };
        let mut found = 0;
        for text in list.split(',').filter(|_| !list.trim_ascii().is_empty()) {
            let value = self.header.number(text).map_err(|message| self.fault(message))?;
            if let Some(reward) = self.rewards.get_mut(found) {
                *reward += value;
            }
            found += 1;
        }
        let expected = self.rewards.len();
        if found != expected {
            let fault = format!("expected {expected} rewards, as named by @reward_models, found {found}");
            return Err(self.fault(fault));
        }
        Ok(rest.trim_ascii_start())
    }

    fn transition(&mut self, line: &'a str) -> Result<(), DrnError> {
        let parts = line.split_once(':').map(|(target, p)| (target.trim_ascii_end().parse::<usize>(), p));
        let Some((Ok(target), p)) = parts else {
            let expected = "expected 'state …', 'action …' or 'TARGET : PROBABILITY'";
            return Err(self.fault(format!("{expected}, found '{}'", shown(line))));
        };
        if self.action.is_none() {
            return Err(self.fault(format!("expected an action before the transition to {target}")));
        }
        if target >= self.header.states {
            return Err(self.fault(ModelFault::Target { target, states: self.header.states }));
        }
        let value = self.header.number(p).map_err(|message| self.fault(message))?;
        if !(0.0..=1.0 + FiniteCmdp::SUM_TOLERANCE).contains(&value) {
            return Err(self.fault(ModelFault::Probability { target, value }));
        }
        self.transitions.push((target, value));
        self.transition_lines.push(self.line);
        Ok(())
    }

    fn end_action(&mut self) -> Result<(), DrnError> {
        let Some((name, line)) = self.action.take() else { return Ok(()) };
        self.builder.choice(self.states - 1, name, &self.transitions, &self.rewards);
        self.builder.check().map_err(|e| {
            self.line = line;
            if let ModelFault::DuplicateTarget { target } = e.fault {
                let mut repeats = self.transitions.iter().zip(&self.transition_lines);
                self.line = repeats.rfind(|((t, _), _)| *t == target).map_or(line, |(_, line)| *line);
            }
            self.action = e.action.map(|name| (Cow::Owned(name), line));
            self.fault(e.fault)
        })
    }

    fn end_state(&mut self) -> Result<(), DrnError> {
        self.end_action()?;
        if self.states > 0 && self.names.0.is_empty() {
            self.line = self.state_line;
            return Err(self.fault(ModelFault::NoAction));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<FiniteCmdp, DrnError> {
        let line = self.line;
        if self.states < self.header.states {
            let (found, expected) = (self.states, self.header.states);
            let message = format!("@nr_states is {expected}, but the file ends after {found} states");
            return Err(error(line, message));
        }
        self.end_state()?;
        if let Some(expected) = self.header.choices.filter(|n| *n != self.choices) {
            let found = self.choices;
            let message = format!("@nr_choices is {expected}, but the file ends after {found} actions");
            return Err(error(line, message));
        }
        for &state in &self.initial {
            self.builder.initial(state, 1.0 / self.initial.len() as f64);
        }
        self.builder.build().map_err(|e| error(line, e))
    }
}

/// Names in use. A name that is taken gets a number: `go`, `go#2`, `go#3`.
#[derive(Default)]
struct Names<'a>(HashMap<Cow<'a, str>, usize>);

impl<'a> Names<'a> {
    fn unique(&mut self, name: Cow<'a, str>) -> Cow<'a, str> {
        let Some(mut n) = self.0.get(&name).copied() else {
            self.0.insert(name.clone(), 1);
            return name;
        };
        let other: Cow<'a, str> = loop {
            n += 1;
            let other = Cow::Owned(format!("{name}#{n}"));
            if !self.0.contains_key(&other) {
                break other;
            }
        };
        self.0.insert(name, n);
        self.0.insert(other.clone(), 1);
        other
    }
}

/// Name as one word that is not a keyword of the format.
fn word(name: &str) -> Cow<'_, str> {
    let prefix = name.is_empty() || name.starts_with(['[', '@']) || name.starts_with("//");
    if !prefix && !name.contains(char::is_whitespace) {
        return Cow::Borrowed(name);
    }
    let letters = name.chars().map(|c| if c.is_whitespace() { '_' } else { c });
    prefix.then_some('_').into_iter().chain(letters).collect()
}

/// Rest of a line after a keyword.
fn after_keyword<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(keyword)?;
    let ends = rest.bytes().next().is_none_or(|b| b.is_ascii_whitespace());
    ends.then(|| rest.trim_ascii_start())
}

/// First word, and the rest.
fn split_word(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|b| b.is_ascii_whitespace()).unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    (word, rest.trim_ascii_start())
}

fn without_comment(line: &str) -> &str {
    let bytes = line.as_bytes();
    let comment = |&i: &usize| bytes[i..].starts_with(b"//") && bytes[i - 1].is_ascii_whitespace();
    let end = if bytes.contains(&b'/') { (1..bytes.len()).find(comment) } else { None };
    line[..end.unwrap_or(line.len())].trim_ascii_end()
}
