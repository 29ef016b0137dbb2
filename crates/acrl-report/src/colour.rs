//! Colours that everybody can tell apart (Okabe and Ito's), under the names of the paper's regions.

use serde::{Deserialize, Serialize};

/// A colour, which the page and the pictures render so that it is readable on light and on dark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// Vermilion, #D55E00.
    Red,
    /// #0072B2.
    Blue,
    /// Bluish green, #009E73.
    Green,
    /// #E69F00.
    Orange,
    /// Reddish purple, #CC79A7.
    Purple,
    /// Sky blue, #56B4E9.
    Sky,
    /// Grey: what is beside the point, such as the objective next to requirements.
    Grey,
}

impl Colour {
    /// The order in which colours are given to what has no colour of its own.
    pub const ALL: [Self; 6] = [Self::Red, Self::Blue, Self::Green, Self::Orange, Self::Purple, Self::Sky];

    /// The colour of that name, as regions have it (`red`, `blue`, `green`, `orange`); else the `index`-th of all.
    pub fn of(name: &str, index: usize) -> Self {
        match name {
            "red" => Self::Red,
            "blue" => Self::Blue,
            "green" => Self::Green,
            "orange" => Self::Orange,
            _ => Self::ALL[index % Self::ALL.len()],
        }
    }

    /// Red, green and blue, from 0 to 255.
    pub fn rgb(self) -> [u8; 3] {
        match self {
            Self::Red => [0xD5, 0x5E, 0x00],
            Self::Blue => [0x00, 0x72, 0xB2],
            Self::Green => [0x00, 0x9E, 0x73],
            Self::Orange => [0xE6, 0x9F, 0x00],
            Self::Purple => [0xCC, 0x79, 0xA7],
            Self::Sky => [0x56, 0xB4, 0xE9],
            Self::Grey => [0x80, 0x80, 0x80],
        }
    }
}
