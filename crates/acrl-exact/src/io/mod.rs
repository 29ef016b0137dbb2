//! Model files: Storm's explicit format and arrays of NumPy and SciPy.

pub mod drn;
pub mod npz;

use std::borrow::Cow;

/// Excerpt of a file for an error message, of limited length.
fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(40) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
