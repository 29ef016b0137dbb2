//! Model files: Storm's explicit format and arrays of NumPy and SciPy.

pub mod drn;
pub mod npz;

use std::borrow::Cow;
use std::fmt::Display;

/// Excerpt of a file for an error message, of limited length.
fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(40) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Message without control characters, which names in a file may hold.
fn printable(message: impl Display) -> String {
    message.to_string().replace(char::is_control, "\u{fffd}")
}
