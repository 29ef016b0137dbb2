//! The report: headings, text, tables and figures in their order, and how to get them again.

use serde::{Deserialize, Serialize};

use crate::Figure;

/// A page.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The title.
    pub title: String,
    /// The outcome in a sentence or two.
    pub lead: String,
    /// Whether all went well; `None` if nothing was at stake.
    pub good: Option<bool>,
    /// The content.
    pub blocks: Vec<Block>,
    /// Version, seed, settings and machine, shown at the end.
    pub facts: Vec<(String, String)>,
    /// The command that makes it again.
    pub command: String,
}

/// A part of a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "content")]
pub enum Block {
    /// A section begins.
    Heading(String),
    /// A paragraph of plain text.
    Text(String),
    /// A table.
    Table(Table),
    /// A figure.
    Figure(Figure),
    /// Rows that open on a click.
    Details(Vec<Details>),
}

/// A row of a list that opens to show more.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Details {
    /// The name after `#` in a link to the row; no other row has it.
    pub anchor: String,
    /// What is shown while it is closed.
    pub summary: String,
    /// Beside it: in a few words, and how they look.
    pub badge: Cell,
    /// Label and content of each line inside; several paragraphs of one label are joined by newlines.
    pub lines: Vec<(String, String)>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Table {
    /// The first column is text, the others are aligned right.
    pub header: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
    /// Below it, in small print. May be empty.
    pub note: String,
}

impl Table {
    /// The header and the rows as comma-separated values (RFC 4180).
    pub fn to_csv(&self) -> String {
        let mut csv = csv::Writer::from_writer(Vec::new());
        // A vector takes all that is written to it.
        let _ = csv.write_record(&self.header);
        for row in &self.rows {
            let _ = csv.write_record(row.iter().map(|cell| &cell.text));
        }
        String::from_utf8(csv.into_inner().unwrap_or_default()).unwrap_or_default()
    }

    /// A table with a remark below it, which may be empty.
    pub fn new<H: Into<String>>(
        header: impl IntoIterator<Item = H>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
        note: impl Into<String>,
    ) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { header, rows: rows.into_iter().collect(), note: note.into() }
    }
}

/// What a table's cell says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// How it looks.
    pub tone: Tone,
}

impl Cell {
    /// Text in a tone.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }

    /// "yes" or "no".
    pub fn yes_no(yes: bool) -> Self {
        if yes { Self::new("yes", Tone::Good) } else { Self::new("no", Tone::Bad) }
    }
}

impl<T: Into<String>> From<T> for Cell {
    /// Plain text.
    fn from(text: T) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// How a cell looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// As it is.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Not so.
    Bad,
    /// Beside the point.
    Faint,
}
