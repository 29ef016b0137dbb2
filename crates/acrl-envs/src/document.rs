//! Reading TOML key by key, with errors that name the line, the value and what was expected.

use std::fmt;
use std::ops::{Range, RangeInclusive};

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// Error in a problem file, in one sentence that begins with the line where it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemError {
    line: Option<usize>,
    message: String,
}

impl ProblemError {
    /// An error that is not about a line.
    pub fn new(message: impl Into<String>) -> Self {
        Self { line: None, message: message.into() }
    }

    /// The same place with another message.
    pub(crate) fn with_message(self, message: String) -> Self {
        Self { message, ..self }
    }

    fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let before = &text.as_bytes()[..offset.min(text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        Self { line: Some(line), message: message.into() }
    }

    /// Line of the error, from 1, where it is known.
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The message without the line.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ProblemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ProblemError {}

/// Parses TOML; its own messages become one line.
pub(crate) fn parse(text: &str) -> Result<Spanned<DeTable<'_>>, ProblemError> {
    DeTable::parse(text).map_err(|e| {
        let message = format!("this is not TOML: {}", one_line(e.message()));
        match e.span() {
            Some(span) => ProblemError::at(text, span.start, message),
            None => ProblemError::new(message),
        }
    })
}

/// A table of the file and its name in messages.
#[derive(Clone)]
pub(crate) struct Table<'a> {
    text: &'a str,
    title: String,
    span: Range<usize>,
    table: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    pub(crate) fn root(text: &'a str, root: &'a Spanned<DeTable<'a>>) -> Self {
        Self { text, title: "the problem file".to_owned(), span: root.span(), table: root.get_ref() }
    }

    pub(crate) fn retitled(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    /// An error about the table as a whole.
    pub(crate) fn error(&self, message: impl Into<String>) -> ProblemError {
        ProblemError::at(self.text, self.span.start, message)
    }

    /// Refuses keys other than these.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), ProblemError> {
        let unknown = self.table.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref()));
        let Some((key, _)) = unknown.min_by_key(|(key, _)| key.span().start) else { return Ok(()) };
        let message = unknown_key(key.get_ref(), &self.title, known);
        Err(ProblemError::at(self.text, key.span().start, message))
    }

    /// An error at a key.
    pub(crate) fn error_at_key(&self, key: &str, message: impl Into<String>) -> ProblemError {
        let at = self.table.get_key_value(key).map_or(self.span.start, |(key, _)| key.span().start);
        ProblemError::at(self.text, at, message)
    }

    /// The whole table as a type that serde can read; an error of a field is what is expected of its value.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, ProblemError> {
        self.deserialize(self.table.clone()).map_err(|e| match self.place_of(&e) {
            (_, Some(value)) => value.wrong(e.message()),
            (at, None) => {
                // The names that serde puts into its message about an unknown field.
                let mut names = e.message().split('`').skip(1).step_by(2);
                let key = names.next().unwrap_or_default();
                ProblemError::at(self.text, at, unknown_key(key, &self.title, &names.collect::<Vec<_>>()))
            }
        })
    }

    /// Everything but one key, as a type that serde can read.
    pub(crate) fn rest<T: DeserializeOwned>(&self, without: &str) -> Result<T, ProblemError> {
        let mut table = self.table.clone();
        table.remove(without);
        self.deserialize(table).map_err(|e| {
            let (at, value) = self.place_of(&e);
            let place = value.map_or_else(|| self.title.clone(), |value| value.place);
            ProblemError::at(self.text, at, format!("{place}: {}", in_our_words(e.message())))
        })
    }

    fn deserialize<T: DeserializeOwned>(&self, table: DeTable<'a>) -> Result<T, toml::de::Error> {
        T::deserialize(ValueDeserializer::from(Spanned::new(self.span.clone(), DeValue::Table(table))))
    }

    /// The place of an error of serde, and the value there, if it is about one.
    fn place_of(&self, error: &toml::de::Error) -> (usize, Option<Value<'a>>) {
        let at = error.span().map_or(self.span.start, |span| span.start);
        let key = self.table.iter().find(|(_, value)| value.span().contains(&at));
        (at, key.and_then(|(key, _)| self.get(key.get_ref())))
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value<'a>> {
        let value = self.table.get(key)?;
        let place = format!("'{}' in {}", shown(key), self.title);
        Some(Value { text: self.text, place, value })
    }

    /// A key that must be there.
    pub(crate) fn need(&self, key: &str, expected: &str) -> Result<Value<'a>, ProblemError> {
        let missing = || self.error(format!("'{key}' is missing in {}, expected {expected}", self.title));
        self.get(key).ok_or_else(missing)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a str> {
        self.table.keys().map(|key| key.get_ref().as_ref())
    }
}

/// A value of the file and its name in messages.
pub(crate) struct Value<'a> {
    text: &'a str,
    place: String,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> Value<'a> {
    /// An error at this value.
    pub(crate) fn error(&self, message: impl Into<String>) -> ProblemError {
        ProblemError::at(self.text, self.value.span().start, message)
    }

    /// The error with the value and what was expected.
    pub(crate) fn wrong(&self, expected: impl fmt::Display) -> ProblemError {
        let value = match self.value.get_ref() {
            DeValue::String(s) => format!("\"{}\"", shown(s)),
            DeValue::Integer(i) => shown(&i.to_string()),
            DeValue::Float(x) => shown(x.as_str()),
            DeValue::Boolean(b) => b.to_string(),
            DeValue::Datetime(d) => d.to_string(),
            DeValue::Array(a) => format!("a list of {}", a.len()),
            DeValue::Table(_) => "a table".to_owned(),
        };
        self.error(format!("{} is {value}, expected {expected}", self.place))
    }

    /// The value without its place; `null` for a number that is not finite, and for a date.
    pub(crate) fn json(&self) -> serde_json::Value {
        json(self.value.get_ref())
    }

    /// A finite number.
    pub(crate) fn number(&self) -> Result<f64, ProblemError> {
        let number = match self.value.get_ref() {
            DeValue::Integer(i) => i128::from_str_radix(i.as_str(), i.radix()).ok().map(|i| i as f64),
            DeValue::Float(x) => x.as_str().parse().ok(),
            _ => return Err(self.wrong("a number")),
        };
        number.filter(|x: &f64| x.is_finite()).ok_or_else(|| self.wrong("a finite number"))
    }

    /// A number from 0 to 1.
    pub(crate) fn probability(&self) -> Result<f64, ProblemError> {
        let expected = "a number from 0 to 1";
        let p = self.number().map_err(|_| self.wrong(expected))?;
        if (0.0..=1.0).contains(&p) { Ok(p) } else { Err(self.wrong(expected)) }
    }

    /// A whole number in a range.
    pub(crate) fn whole(&self, range: &RangeInclusive<u64>) -> Result<u64, ProblemError> {
        let number = match self.value.get_ref() {
            DeValue::Integer(i) => u64::from_str_radix(i.as_str(), i.radix()).ok(),
            _ => None,
        };
        let wrong = || self.wrong(format!("a whole number from {} to {}", range.start(), range.end()));
        number.filter(|n| range.contains(n)).ok_or_else(wrong)
    }

    pub(crate) fn as_string(&self) -> Option<&'a str> {
        match self.value.get_ref() {
            DeValue::String(s) => Some(s.as_ref()),
            _ => None,
        }
    }

    /// A string that is not empty.
    pub(crate) fn string(&self, expected: &str) -> Result<&'a str, ProblemError> {
        self.as_string().filter(|s| !s.trim().is_empty()).ok_or_else(|| self.wrong(expected))
    }

    /// A name that can be written in `NAME>=X` too.
    pub(crate) fn name(&self) -> Result<&'a str, ProblemError> {
        let expected = "a name: a string that is not empty and has no <, > or =";
        let usable = |s: &&str| s.trim() == *s && !s.contains(['<', '>', '=']);
        self.as_string().filter(|s| !s.is_empty()).filter(usable).ok_or_else(|| self.wrong(expected))
    }

    pub(crate) fn is_table(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Table(_))
    }

    /// A table, called `title` from now on.
    pub(crate) fn table(&self, title: impl Into<String>) -> Result<Table<'a>, ProblemError> {
        let title = title.into();
        match self.value.get_ref() {
            DeValue::Table(table) => Ok(Table { text: self.text, title, span: self.value.span(), table }),
            _ => Err(self.wrong(format!("a table: {title}"))),
        }
    }

    /// A list of values.
    pub(crate) fn list(&self, expected: &str) -> Result<Vec<Value<'a>>, ProblemError> {
        let DeValue::Array(array) = self.value.get_ref() else { return Err(self.wrong(expected)) };
        let item = |value| Value { text: self.text, place: format!("a part of {}", self.place), value };
        Ok(array.iter().map(item).collect())
    }

    /// A list of tables, each called `title`.
    pub(crate) fn tables(&self, title: &str) -> Result<Vec<Table<'a>>, ProblemError> {
        let expected = format!("a list of tables: write {title}, once for each of them");
        self.list(&expected)?
            .into_iter()
            .map(|item| if item.is_table() { item.table(title) } else { Err(item.wrong(&expected)) })
            .collect()
    }
}

fn json(value: &DeValue<'_>) -> serde_json::Value {
    use serde_json::Value;
    match value {
        DeValue::String(s) => Value::from(s.as_ref()),
        DeValue::Integer(i) => {
            match (u64::from_str_radix(i.as_str(), i.radix()), i64::from_str_radix(i.as_str(), i.radix())) {
                (Ok(n), _) => Value::from(n),
                (_, Ok(n)) => Value::from(n),
                _ => Value::Null,
            }
        }
        DeValue::Float(x) => Value::from(x.as_str().parse::<f64>().unwrap_or(f64::NAN)),
        DeValue::Boolean(b) => Value::from(*b),
        DeValue::Datetime(_) => Value::Null,
        DeValue::Array(a) => a.iter().map(|value| json(value.get_ref())).collect(),
        DeValue::Table(t) => {
            t.iter().map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref()))).collect()
        }
    }
}

/// The message about a key that is not known.
pub(crate) fn unknown_key(key: &str, title: &str, known: &[&str]) -> String {
    format!("unknown key '{}' in {title}: expected one of {}", shown(key), known.join(", "))
}

/// A piece of the file as it appears in a message: short and on one line.
fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    // `escape_debug` is for text in double quotes; apostrophes are fine here.
    shown.replace("\\'", "'")
}

/// `names` as a list for a message, which a long one does not fill.
pub(crate) fn one_of<S: AsRef<str>>(names: &[S]) -> String {
    const MOST: usize = 20;
    let mut list: Vec<String> = names.iter().take(MOST).map(|name| shown(name.as_ref())).collect();
    if names.len() > MOST {
        list.push(format!("… ({} in all)", names.len()));
    }
    format!("one of {}", list.join(", "))
}

fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Serde's message without the words of Rust.
fn in_our_words(message: &str) -> String {
    let mut words = one_line(message);
    for (theirs, ours) in [
        ("unknown field", "unknown key"),
        ("missing field", "missing key"),
        ("expected usize", "expected a whole number of at least 0"),
        ("expected f64", "expected a number"),
        ("expected a sequence", "expected a list"),
        ("expected struct ", "expected a table of "),
        ("there are no fields", "there are no keys"),
        ("floating point", "number"),
        ("`", "'"),
    ] {
        words = words.replace(theirs, ours);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_from_one() {
        for (offset, line) in [(0, 1), (1, 1), (2, 2), (5, 3), (99, 4)] {
            assert_eq!(ProblemError::at("a\nb\r\nc\n", offset, "").line(), Some(line), "{offset}");
        }
    }

    #[test]
    fn long_and_odd_texts_are_shown_short_and_on_one_line() {
        assert_eq!(shown("it's\n\"x\""), "it's\\n\\\"x\\\"");
        assert_eq!(shown(&"é".repeat(100)).chars().count(), 61);
        assert_eq!(one_of(&["a", "b"]), "one of a, b");
        assert!(one_of(&["a"; 30]).ends_with("… (30 in all)"));
    }
}
