//! Lines, header sections and numbers of a `.drn` file.

use std::borrow::Cow;
use std::collections::HashMap;

use acrl::FiniteCmdp;

use super::{DrnError, error, shown, word};

/// Lines of a file, trimmed and without comments.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    rest: Option<&'a str>,
    /// Number of the last line, from 1.
    pub(super) number: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: Some(text.strip_prefix('\u{feff}').unwrap_or(text)), number: 0 }
    }

    pub(super) fn next(&mut self) -> Option<&'a str> {
        loop {
            let text = self.rest.filter(|text| !text.is_empty())?;
            let (line, rest) = text.split_once('\n').map_or((text, None), |(line, rest)| (line, Some(rest)));
            (self.rest, self.number) = (rest, self.number + 1);
            let line = line.trim_ascii();
            if !line.starts_with("//") {
                return Some(line);
            }
        }
    }

    /// Value of a section: the text after the colon, or the line below, unless that is a section.
    fn value(&mut self, same_line: Option<&'a str>) -> &'a str {
        let start = *self;
        match same_line.or_else(|| self.next()) {
            Some(line) if !line.starts_with('@') => line.trim_ascii(),
            _ => {
                *self = start;
                ""
            }
        }
    }
}

/// Header of a file, before `@model`.
#[derive(Default)]
pub(super) struct Header<'a> {
    pub(super) dtmc: bool,
    pub(super) states: usize,
    pub(super) choices: Option<usize>,
    pub(super) rewards: Vec<Cow<'a, str>>,
    placeholders: HashMap<&'a str, f64>,
}

impl<'a> Header<'a> {
    pub(super) fn read(lines: &mut Lines<'a>) -> Result<Self, DrnError> {
        let mut header = Self::default();
        let mut sections: Vec<&str> = Vec::new();
        while let Some(line) = lines.next() {
            if line.is_empty() {
                continue;
            }
            if line.starts_with('$') && sections.last() == Some(&"@placeholders") {
                header.placeholder(line).map_err(|message| error(lines.number, message))?;
                continue;
            }
            let colon = line.split_once(':').map(|(section, value)| (section.trim_ascii_end(), Some(value)));
            let (section, value) = colon.unwrap_or((line, None));
            if sections.contains(&section) {
                return Err(error(lines.number, format!("{section} is given twice")));
            }
            sections.push(section);
            match section {
                "@type" => header.model_type(lines.value(value)),
                "@value_type" => value_type(lines.value(value)),
                "@parameters" => match lines.value(value) {
                    "" => Ok(()),
                    names => Err(format!(
                        "the model has the parameters '{}', but parametric models are not supported",
                        shown(names)
                    )),
                },
                "@placeholders" => Ok(()),
                "@reward_models" => header.reward_models(lines.value(value)),
                "@nr_states" => count(section, lines.value(value)).map(|n| header.states = n),
                "@nr_choices" => count(section, lines.value(value)).map(|n| header.choices = Some(n)),
                "@model" => match ["@type", "@nr_states"].iter().find(|name| !sections.contains(name)) {
                    None => return Ok(header),
                    Some(name) => Err(format!("expected {name} before @model")),
                },
                _ => Err(format!(
                    "expected a section such as @type, @reward_models, @nr_states or @model, found '{}'",
                    shown(line)
                )),
            }
            .map_err(|message| error(lines.number, message))?;
        }
        Err(error(lines.number.max(1), "the file ends before @model"))
    }

    fn model_type(&mut self, name: &str) -> Result<(), String> {
        let kind = match name {
            "MDP" | "DTMC" => {
                self.dtmc = name == "DTMC";
                return Ok(());
            }
            "CTMC" | "MA" | "Markov Automaton" => "a continuous-time model",
            "POMDP" => "a partially observable model",
            "SMG" | "S2PG" => "a game",
            _ => "an unknown type",
        };
        Err(format!("@type is '{}', {kind}: only MDP and DTMC are supported", shown(name)))
    }

    fn reward_models(&mut self, names: &'a str) -> Result<(), String> {
        self.rewards = names.split_whitespace().map(word).collect();
        FiniteCmdp::builder(self.rewards.iter().map(|name| &**name)).check().map_err(|e| e.to_string())
    }

    fn placeholder(&mut self, line: &'a str) -> Result<(), String> {
        let Some((name, value)) = line.split_once(':') else {
            return Err(format!("expected '$NAME : NUMBER', found '{}'", shown(line)));
        };
        let name = name.trim_ascii_end();
        let value = self.number(value)?;
        match self.placeholders.insert(name, value) {
            None => Ok(()),
            Some(_) => Err(format!("the placeholder '{}' is given twice", shown(name))),
        }
    }

    /// Integer, decimal, fraction or placeholder.
    pub(super) fn number(&self, text: &str) -> Result<f64, String> {
        let text = text.trim_ascii();
        if text.starts_with('$') {
            let value = self.placeholders.get(text).copied();
            return value.ok_or_else(|| format!("the placeholder '{}' is not defined", shown(text)));
        }
        if text.starts_with(['[', '(']) {
            return Err(format!("found the interval '{}', but intervals are not supported", shown(text)));
        }
        let (p, q) = text.split_once('/').unwrap_or((text, "1"));
        match (p.trim_ascii_end().parse::<f64>(), q.trim_ascii_start().parse::<f64>()) {
            (Ok(p), Ok(q)) if q.is_finite() && (p / q).is_finite() => Ok(p / q),
            (Ok(_), Ok(_)) => Err(format!("expected a finite number, found '{}'", shown(text))),
            _ => Err(format!("expected a number, found '{}'", shown(text))),
        }
    }
}

fn value_type(name: &str) -> Result<(), String> {
    let kind = match name {
        "double" | "rational" => return Ok(()),
        "double-interval" | "rational-interval" => "intervals",
        "parametric" => "parametric",
        _ => "unknown",
    };
    Err(format!("@value_type is '{}' ({kind}): only double and rational are supported", shown(name)))
}

fn count(section: &str, text: &str) -> Result<usize, String> {
    let n = text.parse::<u32>().ok().filter(|n| *n > 0);
    let fault = || format!("{section} is '{}', expected a whole number from 1 to {}", shown(text), u32::MAX);
    n.map(|n| n as usize).ok_or_else(fault)
}
