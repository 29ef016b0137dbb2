//! What acrl shows: a [`Report`] is one self-contained HTML page, a picture of each [`Figure`], and the data behind it.
//!
//! Nothing here knows about learning: the program fills in the figures, this room draws them.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod colour;
mod csv;
mod error;
mod figure;
mod folder;
mod page;
mod report;

pub use colour::Colour;
pub use error::Error;
pub use figure::{
    Area, Arrow, Axis, Band, Bar, Bars, Bound, Field, Figure, Heat, Lines, Model, Panel, Plot, Region,
    Series, Slider,
};
pub use page::live_html;
pub use report::{Block, Cell, Report, Table, Tone};
