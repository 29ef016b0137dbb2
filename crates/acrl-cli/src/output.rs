//! What goes to standard output and to standard error, and how numbers and tables look.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use acrl_app::Progress;
pub(crate) use acrl_report::{Cell, Table, Tone, count, number};
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

    /// Adds a table, and the remark below it.
    pub(crate) fn table(&mut self, table: &Table) {
        self.text += &aligned(table);
        if !table.note.is_empty() {
            self.line(styled(FAINT, &table.note));
        }
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
        let bar = self.progress(ProgressBar::new(0), "{msg} {bar:30} {percent:>3} %  {eta} left");
        Bar(bar.with_message(what))
    }

    /// A sign of life for work of unknown length.
    pub(crate) fn spinner(&self, what: &'static str) -> Bar {
        let spinner = self.progress(ProgressBar::new_spinner(), "{spinner} {prefix} {msg} {elapsed}");
        spinner.enable_steady_tick(Duration::from_millis(200));
        Bar(spinner.with_prefix(what))
    }

    fn progress(&self, bar: ProgressBar, template: &str) -> ProgressBar {
        match ProgressStyle::with_template(template) {
            Ok(style) if !self.quiet => bar.with_style(style),
            _ => ProgressBar::hidden(),
        }
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

/// Text as a terminal shows it, in ASCII.
pub(crate) fn ascii(text: &str) -> String {
    text.replace('≥', ">=").replace('≤', "<=")
}

/// A table with a header; the first column is text and the others are numbers, aligned right.
fn aligned(table: &Table) -> String {
    let cell = |cell: &Cell| match cell.tone {
        Tone::Plain => (ascii(&cell.text), Style::new()),
        Tone::Good => (ascii(&cell.text), GOOD),
        // For people who see no colours.
        Tone::Bad if cell.text == "no" => ("NO".to_owned(), BAD),
        Tone::Bad => (ascii(&cell.text), BAD),
        Tone::Faint => (ascii(&cell.text), FAINT),
    };
    let header = table.header.iter().map(|text| (ascii(text), STRONG)).collect();
    let mut rows: Vec<Vec<(String, Style)>> = vec![header];
    rows.extend(table.rows.iter().map(|row| row.iter().map(cell).collect()));
    let width =
        |j: usize| rows.iter().filter_map(|row| row.get(j)).map(|(cell, _)| cell.chars().count()).max();
    let widths: Vec<usize> = (0..).map_while(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (j, (cell, style)) in row.iter().enumerate() {
            let padding = " ".repeat(widths[j] - cell.chars().count());
            let cell = styled(*style, cell);
            line += &if j == 0 { format!("{cell}{padding}") } else { format!("  {padding}{cell}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_signs_are_ascii() {
        let row = |name: &str, x: &str, met| vec![name.into(), x.into(), Cell::yes_no(met)];
        let table =
            Table::new(["name", "x", "met"], [row("a", "≥ 1", true), row("longer", "≤ 10", false)], "");
        let text = anstream::adapter::strip_str(&aligned(&table)).to_string();
        assert_eq!(text, "name        x  met\na        >= 1  yes\nlonger  <= 10   NO\n");
    }
}
