//! Figures and reports: a [`Report`] is one self-contained HTML page, a picture of each [`Figure`], and the data behind it.
//!
//! Pages are built from events ([`LiveRun`], [`live_report`]) and from results ([`run_page`]); nothing here runs or trains.
//!
//! | a report becomes | by |
//! |---|---|
//! | a folder with all of the following | [`Report::write`] |
//! | one page that opens without a network | [`Report::to_html`] |
//! | a page that follows a run | [`live_html`] |
//! | pictures to print | [`Figure::to_svg`], [`Figure::to_png`] |
//! | the numbers behind a figure | [`Figure::to_csv`] |
//!
//! Cargo features, on by default: `html` (pages, with the embedded plotly.js) and `static-figures` (SVG and PNG, with
//! fonts and a renderer). Without them [`Report::write`] leaves out the files in question.
//!
//! ```
//! use acrl_report::{Axis, Block, Colour, Figure, Panel, Report, Series};
//!
//! let series = Series::new("λ", Colour::Blue, vec![0.0, 1.0, 2.0], vec![0.0, 0.5, 0.25]);
//! let panel = Panel::lines("", Axis::new("epoch"), Axis::new("multiplier"), vec![series], vec![]);
//! let figure = Figure::new("multiplier", "A multiplier", "", 1, vec![panel]);
//! assert!(figure.to_svg().contains("A multiplier"));
//! let blocks = vec![Block::Figure(figure)];
//! let report = Report { title: "A run".to_owned(), blocks, ..Report::default() };
//! assert!(report.to_html().len() < 8_000_000);
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod colour;
mod csv;
mod curves;
mod error;
#[cfg(any(feature = "html", feature = "static-figures"))]
mod escape;
mod figure;
mod folder;
mod live_page;
mod number;
#[cfg(feature = "html")]
mod page;
#[cfg(feature = "static-figures")]
mod picture;
mod report;
pub mod run_figures;
pub mod run_page;
#[cfg(feature = "static-figures")]
mod thin;

pub use colour::Colour;
pub use curves::LiveRun;
pub use error::Error;
pub use figure::{
    Area, Arrow, Axis, Band, Bar, Bars, Bound, Field, Figure, Heat, Lines, Model, Panel, Plot, Region,
    Series, Slider,
};
pub use live_page::live_report;
pub use number::{bound, count, grouped, number};
#[cfg(feature = "html")]
pub use page::live_html;
pub use report::{Block, Cell, Details, Report, Table, Tone};
