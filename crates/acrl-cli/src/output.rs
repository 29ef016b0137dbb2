//! What goes to standard output and to standard error, and how numbers and tables look.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use acrl_app::Progress;
pub(crate) use acrl_report::{count, number};
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

    /// A remark on standard error, for people.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet && !self.json {
            let _ = writeln!(anstream::stderr(), "{text}");
        }
    }

    /// A warning on standard error.
    pub(crate) fn warn(&self, text: &str) {
        let _ = writeln!(anstream::stderr(), "{}: {text}", styled(WARN, "warning"));
    }

    /// A progress bar, shown on a terminal only.
    pub(crate) fn bar(&self, what: &'static str) -> Bar {
        if self.quiet {
            return Bar(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{msg} {bar:30} {percent:>3} %  {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        Bar(ProgressBar::new(0).with_style(style).with_message(what))
    }

    /// A sign of life for work of unknown length.
    pub(crate) fn spinner(&self, what: &'static str) -> Bar {
        if self.quiet {
            return Bar(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{spinner} {prefix} {msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let spinner = ProgressBar::new_spinner().with_style(style).with_prefix(what);
        spinner.enable_steady_tick(Duration::from_millis(200));
        Bar(spinner)
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

/// A progress bar or spinner.
#[derive(Clone)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// Removes it from the terminal.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn begin(&self, total: u64) {
        self.0.set_length(total);
        self.0.set_position(0);
        self.0.reset_eta();
    }

    fn advance(&self, amount: u64) {
        self.0.inc(amount);
    }

    fn message(&self, text: String) {
        self.0.set_message(text);
    }
}

/// The path of a report, and how to open it.
pub(crate) fn report_line(folder: &Path) -> String {
    format!("report: {} (acrl view {})", folder.join("report.html").display(), folder.display())
}

/// The command line, as it can be typed again.
pub(crate) fn command(words: &[OsString]) -> String {
    let quoted = |word: String| {
        let safe = |c: char| c.is_ascii_alphanumeric() || "-_./,=:".contains(c);
        if !word.is_empty() && word.chars().all(safe) {
            word
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    let words = words.iter().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("acrl".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Prints an error and its causes as one sentence.
pub(crate) fn error(error: &anyhow::Error) {
    let mut message = String::new();
    for (i, cause) in error.chain().enumerate() {
        let _ = write!(message, "{}{cause}", if i == 0 { "" } else { ": " });
    }
    let _ = writeln!(anstream::stderr(), "{}: {message}", styled(BAD, "error"));
}

/// ">=" or "<=" and the bound.
pub(crate) fn relation(requirement: &acrl::Requirement, digits: usize) -> String {
    let sign = if requirement.sign() > 0.0 { ">=" } else { "<=" };
    format!("{sign} {}", number(requirement.bound(), digits))
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
    fn columns_line_up() {
        let mut table = Table::new(&["name", "x"]);
        table.plain(vec!["a".into(), "1".into()]);
        table.plain(vec!["longer".into(), "10".into()]);
        let text = anstream::adapter::strip_str(&table.to_string()).to_string();
        assert_eq!(text, "name     x\na        1\nlonger  10\n");
    }
}
