//! `progress.csv`: a row of figures per iteration, for spreadsheets and data frames.

use std::borrow::Cow;
use std::fmt::Write as _;

use acrl::Named;

use crate::Error;
use crate::tail::Tail;

const COLUMNS: &str = "iteration,steps,seconds";

/// The table. Its columns are those of the first row: a figure that comes later has no place in it, and one that is
/// missing leaves its cell empty.
#[derive(Debug)]
pub(crate) struct Progress {
    file: Tail,
    columns: Option<Vec<String>>,
}

impl Progress {
    /// An empty table.
    pub(crate) fn create(mut file: Tail) -> Result<Self, Error> {
        file.clear()?;
        Ok(Self { file, columns: None })
    }

    /// What is there up to an iteration.
    pub(crate) fn resume(mut file: Tail, iteration: u64) -> Result<Self, Error> {
        if let Some(found) = file.first_line()?.filter(|line| !begins_well(line)) {
            return Err(Error::NotProgress { path: file.path().to_owned(), found: shorten(found) });
        }
        file.cut(iteration, |line| {
            let number = line.split(|&byte| byte == b',').next()?;
            std::str::from_utf8(number).ok()?.parse().ok()
        })?;
        let columns = file.first_line()?.map(|line| fields(&line).skip(3).collect());
        // Reading has moved the place to write to.
        file.end()?;
        Ok(Self { file, columns })
    }

    pub(crate) fn row(
        &mut self,
        iteration: u64,
        steps: u64,
        seconds: f64,
        figures: &Named<f64>,
    ) -> Result<(), Error> {
        let mut text = String::new();
        let columns = self.columns.get_or_insert_with(|| {
            let columns: Vec<String> = figures.iter().map(|(name, _)| plain(name).into_owned()).collect();
            text.push_str(COLUMNS);
            columns.iter().for_each(|name| text.extend([",", &quoted(name)]));
            text.push('\n');
            columns
        });
        // A string takes all that is written to it.
        let _ = write!(text, "{iteration},{steps},{seconds:?}");
        for column in columns {
            text.push(',');
            if let Some((_, x)) = figures.iter().find(|(name, _)| plain(name) == *column) {
                let _ = write!(text, "{x:?}");
            }
        }
        text.push('\n');
        self.file.write(text.as_bytes())
    }

    pub(crate) fn file(&mut self) -> &mut Tail {
        &mut self.file
    }
}

fn begins_well(line: &str) -> bool {
    line.strip_prefix(COLUMNS).is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
}

fn shorten(mut line: String) -> String {
    if let Some((end, _)) = line.char_indices().nth(60) {
        line.replace_range(end.., "...");
    }
    line
}

/// A name on one line.
fn plain(name: &str) -> Cow<'_, str> {
    if name.contains(char::is_control) { name.replace(char::is_control, " ").into() } else { name.into() }
}

/// A name in quotes if it would look like more than one otherwise.
fn quoted(name: &str) -> Cow<'_, str> {
    if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")).into() } else { name.into() }
}

/// The fields of a line, without their quotes.
fn fields(line: &str) -> impl Iterator<Item = String> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let mut inside = false;
        let text = rest?;
        let end = text.find(|c| {
            inside ^= c == '"';
            c == ',' && !inside
        });
        let (field, after) = end.map_or((text, None), |end| (&text[..end], Some(&text[end + 1..])));
        rest = after;
        let bare = field.strip_prefix('"').and_then(|field| field.strip_suffix('"'));
        Some(bare.map_or_else(|| field.to_owned(), |bare| bare.replace("\"\"", "\"")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_quoting() {
        let names = ["plain", "a,b", "", "say \"hi\"", "\"", ",", "λ₁"];
        let line: Vec<_> = names.iter().map(|name| quoted(name)).collect();
        assert_eq!(fields(&line.join(",")).collect::<Vec<_>>(), names);
    }
}
