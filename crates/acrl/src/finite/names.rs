//! Compact storage of the names of states and actions.

use std::borrow::Cow;
use std::collections::HashMap;

/// The names of the states: their numbers, without memory, or texts.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StateNames {
    /// This many states, each named by its number.
    Numbered(usize),
    /// The concatenated texts and their ends.
    Listed { text: String, ends: Vec<usize> },
}

impl StateNames {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Numbered(states) => *states,
            Self::Listed { ends, .. } => ends.len(),
        }
    }

    pub(super) fn get(&self, state: usize) -> Cow<'_, str> {
        match self {
            Self::Numbered(_) => Cow::Owned(state.to_string()),
            Self::Listed { text, ends } => {
                let start = if state == 0 { 0 } else { ends[state - 1] };
                Cow::Borrowed(&text[start..ends[state]])
            }
        }
    }

    /// Adds a state. Texts are stored from the first name on that is not its number.
    pub(super) fn push(&mut self, name: &str) {
        match self {
            Self::Numbered(states) if is_number(name, *states) => *states += 1,
            Self::Numbered(states) => {
                let (mut text, mut ends) = (String::new(), Vec::new());
                for state in 0..*states {
                    text += &state.to_string();
                    ends.push(text.len());
                }
                *self = Self::Listed { text, ends };
                self.push(name);
            }
            Self::Listed { text, ends } => {
                *text += name;
                ends.push(text.len());
            }
        }
    }

    pub(super) fn shrink_to_fit(&mut self) {
        if let Self::Listed { text, ends } = self {
            text.shrink_to_fit();
            ends.shrink_to_fit();
        }
    }
}

/// True if a name is the decimal form of this number.
fn is_number(name: &str, number: usize) -> bool {
    let usual = name.bytes().all(|b| b.is_ascii_digit()) && (name.len() == 1 || !name.starts_with('0'));
    usual && name.parse() == Ok(number)
}

/// The names of the actions: few distinct ones, which many choices share.
#[derive(Debug, Clone)]
pub(super) struct ActionNames {
    /// The distinct names; `None`: each is its number.
    pub(super) names: Option<Vec<String>>,
    /// The index of each choice's name; `None`: the position of the choice in its state.
    pub(super) of: Option<Vec<u32>>,
}

impl ActionNames {
    pub(super) fn number(&self, choice: usize, position: usize) -> usize {
        self.of.as_ref().map_or(position, |of| of[choice] as usize)
    }

    /// The name of a choice, given its position in its state.
    pub(super) fn get(&self, choice: usize, position: usize) -> Cow<'_, str> {
        let number = self.number(choice, position);
        self.names.as_ref().map_or_else(|| Cow::Owned(number.to_string()), |n| Cow::Borrowed(&*n[number]))
    }
}

/// The numbers of distinct names.
#[derive(Debug, Clone, Default)]
pub(super) struct Interner {
    pub(super) names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Interner {
    /// The number of a name, with `guess` tried first.
    pub(super) fn number(&mut self, name: &str, guess: usize) -> u32 {
        if self.names.get(guess).is_some_and(|known| known == name) {
            return guess as u32;
        }
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        // There are no more names than choices, and no more choices than transitions.
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}
