//! SVG, element by element.

use std::fmt::Write as _;

use crate::Colour;
use crate::escape::escape;

pub(super) const INK: &str = "#1c2024";
pub(super) const SOFT: &str = "#5d656e";
pub(super) const RULE: &str = "#d5d9dd";
pub(super) const GRID: &str = "#eceef0";

/// Elements so far.
#[derive(Default)]
pub(super) struct Canvas {
    pub(super) elements: String,
    clips: usize,
}

/// Where a text stands: x and y are those of its baseline's start, middle or end.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A text's looks.
#[derive(Clone, Copy)]
pub(super) struct Type<'a> {
    pub(super) size: f64,
    pub(super) colour: &'a str,
    pub(super) bold: bool,
}

impl<'a> Type<'a> {
    pub(super) fn new(size: f64, colour: &'a str) -> Self {
        Self { size, colour, bold: false }
    }
}

/// A rectangle in pixels, y downwards.
#[derive(Clone, Copy)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Rect {
    pub(super) fn right(self) -> f64 {
        self.x + self.width
    }

    pub(super) fn bottom(self) -> f64 {
        self.y + self.height
    }
}

impl Canvas {
    pub(super) fn add(&mut self, arguments: std::fmt::Arguments) {
        // A string takes everything.
        let _ = self.elements.write_fmt(arguments);
        self.elements.push('\n');
    }

    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, style: Type, text: &str) {
        self.turned_text(x, y, anchor, style, text, "");
    }

    /// Read from below to above.
    pub(super) fn upward_text(&mut self, x: f64, y: f64, style: Type, text: &str) {
        let turn = format!(" transform=\"rotate(-90 {} {})\"", short(x), short(y));
        self.turned_text(x, y, Anchor::Middle, style, text, &turn);
    }

    fn turned_text(&mut self, x: f64, y: f64, anchor: Anchor, style: Type, text: &str, turn: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if style.bold { " font-weight=\"700\"" } else { "" };
        let (x, y, Type { size, colour, .. }, text) = (short(x), short(y), style, escape(text));
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{colour}\"{anchor}{weight}{turn}>{text}</text>"
        ));
    }

    /// `looks` are attributes, such as `stroke="red"`.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), looks: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(short);
        self.add(format_args!("<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" {looks}/>"));
    }

    pub(super) fn rect(&mut self, rect: Rect, looks: &str) {
        let [x, y, width, height] = [rect.x, rect.y, rect.width, rect.height].map(short);
        self.add(format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {looks}/>"));
    }

    pub(super) fn polyline(&mut self, points: impl Iterator<Item = (f64, f64)>, looks: &str) {
        self.points("polyline", points, looks);
    }

    pub(super) fn polygon(&mut self, points: impl Iterator<Item = (f64, f64)>, looks: &str) {
        self.points("polygon", points, looks);
    }

    fn points(&mut self, tag: &str, points: impl Iterator<Item = (f64, f64)>, looks: &str) {
        let mut list = String::new();
        for (x, y) in points {
            let _ = write!(list, "{},{} ", short(x), short(y));
        }
        self.add(format_args!("<{tag} points=\"{}\" {looks}/>", list.trim_end()));
    }

    /// What is drawn by `inside` is cut off at the rectangle's edges.
    pub(super) fn clipped(&mut self, rect: Rect, inside: impl FnOnce(&mut Self)) {
        self.clips += 1;
        let name = format!("clip{}", self.clips);
        self.elements += &format!("<clipPath id=\"{name}\">");
        self.rect(rect, "");
        self.elements += &format!("</clipPath>\n<g clip-path=\"url(#{name})\">\n");
        inside(self);
        self.elements += "</g>\n";
    }
}

/// A coordinate to a hundredth of a pixel, without zeros at the end.
pub(super) fn short(value: f64) -> String {
    // Far outside is as good as anywhere outside, and some programs fail on large numbers.
    let text = format!("{:.2}", value.clamp(-1e5, 1e5));
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// As the page has it.
pub(super) fn hex(colour: Colour) -> String {
    let [r, g, b] = colour.rgb();
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// The colour for text, dark enough to be read on white.
pub(super) fn text_hex(colour: Colour) -> &'static str {
    match colour {
        Colour::Red => "#b04e00",
        Colour::Blue => "#0068a3",
        Colour::Green => "#007a59",
        Colour::Orange => "#946600",
        Colour::Purple => "#a34d7d",
        Colour::Sky => "#1b75aa",
        Colour::Grey => "#626262",
    }
}

/// The width of a text, more or less, in the embedded font.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let width = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' => 0.27,
        'f' | 'r' | 't' | '(' | ')' | '-' => 0.38,
        'm' | 'w' | 'M' | 'W' | '%' => 0.9,
        c if c.is_uppercase() => 0.66,
        _ => 0.58,
    };
    size * text.chars().map(width).sum::<f64>()
}
