//! What goes to standard output and to standard error, and how numbers and tables look.

use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::args::Global;

pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const STRONG: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();

/// `text` in a style. Colours are taken out again where nobody could see them.
pub(crate) fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Collects the result of a verb and writes it at the end, all at once.
pub(crate) struct Output {
    text: String,
    hint: Option<String>,
    json: bool,
    quiet: bool,
    command: String,
}

impl Output {
    /// `command` is the command line, as it can be typed again.
    pub(crate) fn new(global: &Global, command: String) -> Self {
        Self { text: String::new(), hint: None, json: global.json, quiet: global.quiet, command }
    }

    /// The command line, as it can be typed again.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    /// Whether one JSON object is wanted.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Adds a line of text.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// Adds text as it is.
    pub(crate) fn raw(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Sets the one JSON object.
    pub(crate) fn object(&mut self, object: &impl Serialize) -> anyhow::Result<()> {
        self.text = serde_json::to_string_pretty(object).context("the result cannot be written as JSON")?;
        self.text.push('\n');
        Ok(())
    }

    /// A hint on standard error after the result, for people.
    pub(crate) fn hint(&mut self, text: impl Into<String>) {
        if !self.quiet && !self.json && std::io::stderr().is_terminal() {
            self.hint = Some(text.into());
        }
    }

    /// A warning on standard error.
    pub(crate) fn warn(&self, text: &str) {
        let _ = writeln!(anstream::stderr(), "{}: {text}", styled(WARN, "warning"));
    }

    /// A bar over a number of steps, shown on a terminal only.
    pub(crate) fn bar(&self, length: u64, what: &'static str) -> ProgressBar {
        if self.quiet {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{msg} {bar:30} {percent:>3} %  {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(length).with_style(style).with_message(what)
    }

    /// A sign of life for work of unknown length.
    pub(crate) fn spinner(&self, what: &'static str) -> ProgressBar {
        if self.quiet {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{spinner} {prefix} {msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let spinner = ProgressBar::new_spinner().with_style(style).with_prefix(what);
        spinner.enable_steady_tick(Duration::from_millis(200));
        spinner
    }

    /// Writes the result. A reader that has gone away is not an error.
    pub(crate) fn finish(&self) -> anyhow::Result<()> {
        let mut stdout = anstream::stdout().lock();
        match stdout.write_all(self.text.as_bytes()).and_then(|()| stdout.flush()) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            result => result.context("cannot write to standard output")?,
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(anstream::stderr(), "\n{}", styled(FAINT, hint));
        }
        Ok(())
    }
}

/// Prints an error and its causes as one sentence.
pub(crate) fn error(error: &anyhow::Error) {
    let mut message = String::new();
    for (i, cause) in error.chain().enumerate() {
        let _ = write!(message, "{}{cause}", if i == 0 { "" } else { ": " });
    }
    let _ = writeln!(anstream::stderr(), "{}: {message}", styled(BAD, "error"));
}

/// A number with so many significant digits, plainly written where that is readable.
pub(crate) fn figure(x: f64, digits: usize) -> String {
    // Less than this is rounding.
    if x.abs() < 1e-12 {
        return "0".to_owned();
    }
    let magnitude = x.abs().log10().floor() as i32;
    if !x.is_finite() || !(-5..=9).contains(&magnitude) {
        return format!("{x:.*e}", digits.saturating_sub(1));
    }
    let decimals = (digits as i32 - 1 - magnitude).max(0) as usize;
    let text = format!("{x:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// "1 step", "2 steps".
pub(crate) fn count(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// ">=" or "<=" and the bound.
pub(crate) fn relation(requirement: &acrl::Requirement, digits: usize) -> String {
    let sign = if requirement.sign() > 0.0 { ">=" } else { "<=" };
    format!("{sign} {}", figure(requirement.bound(), digits))
}

/// A table with a header; the first column is text and the others are numbers, aligned right.
pub(crate) struct Table {
    rows: Vec<Vec<(String, Style)>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|h| ((*h).to_owned(), STRONG)).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<(String, Style)>) {
        self.rows.push(cells);
    }

    pub(crate) fn plain(&mut self, cells: Vec<String>) {
        self.row(cells.into_iter().map(|cell| (cell, Style::new())).collect());
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |j: usize| {
            self.rows.iter().filter_map(|row| row.get(j)).map(|(cell, _)| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|j| width(j).unwrap_or(0)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (j, (cell, style)) in row.iter().enumerate() {
                let padding = " ".repeat(widths[j] - cell.chars().count());
                let cell = styled(*style, cell);
                let _ =
                    if j == 0 { write!(line, "{cell}{padding}") } else { write!(line, "  {padding}{cell}") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_readable() {
        for (x, expected) in [
            (1.0 / 3.0, "0.3333"),
            (0.0, "0"),
            (1.0, "1"),
            (12345.6, "12346"),
            (-0.05, "-0.05"),
            (-3e-17, "0"),
            (1.5e-7, "1.500e-7"),
            (2e12, "2.000e12"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(figure(x, 4), expected);
        }
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["name", "x"]);
        table.plain(vec!["a".into(), "1".into()]);
        table.plain(vec!["longer".into(), "10".into()]);
        let text = anstream::adapter::strip_str(&table.to_string()).to_string();
        assert_eq!(text, "name     x\na        1\nlonger  10\n");
    }
}
