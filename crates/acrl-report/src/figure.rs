//! Figures as data: the page, the pictures and the tables are all made of these.

use serde::{Deserialize, Serialize};

use crate::Colour;

/// A figure of one or more panels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The stem of its files: small letters, digits and hyphens.
    pub name: String,
    /// What it shows, in a few words.
    pub title: String,
    /// How to read it, in a sentence or two.
    pub caption: String,
    /// Number of columns of panels.
    pub columns: usize,
    /// The panels, row by row.
    pub panels: Vec<Panel>,
}

impl Figure {
    /// A figure with its panels in this number of columns.
    pub fn new(name: &str, title: &str, caption: &str, columns: usize, panels: Vec<Panel>) -> Self {
        let [name, title, caption] = [name, title, caption].map(str::to_owned);
        Self { name, title, caption, columns, panels }
    }
}

/// One pair of axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Panel {
    /// May be empty.
    pub title: String,
    /// What is drawn.
    pub plot: Plot,
}

impl Panel {
    /// A panel; the title may be empty.
    pub fn new(title: impl Into<String>, plot: Plot) -> Self {
        Self { title: title.into(), plot }
    }

    /// Curves and required levels.
    pub fn lines(
        title: impl Into<String>,
        x: Axis,
        y: Axis,
        series: Vec<Series>,
        bounds: Vec<Bound>,
    ) -> Self {
        Self::new(title, Plot::Lines(Lines { x, y, series, bounds }))
    }
}

/// What a panel shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plot {
    /// Curves.
    Lines(Lines),
    /// Groups of bars.
    Bars(Bars),
    /// A policy as arrows.
    Field(Field),
    /// Shares of time on a grid.
    Heat(Heat),
    /// A drawing: the inside of an `<svg>` with this viewBox. It uses `currentColor` for ink and the class names
    /// `red`, `blue`, `green`, `orange`, `purple`, `sky`, `grey` (fill) and `faint` for the rest.
    Drawing {
        /// Width of the viewBox.
        width: f64,
        /// Height of the viewBox.
        height: f64,
        /// Elements.
        elements: String,
    },
}

/// An axis.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Axis {
    /// Says what, and the unit.
    pub label: String,
    /// From, to; found if absent.
    pub range: Option<(f64, f64)>,
    /// Powers of ten.
    pub log: bool,
}

impl Axis {
    /// A linear axis whose range is that of the data.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }
}

/// Curves over one x axis, and horizontal lines that they should stay above or below.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lines {
    /// Horizontal.
    pub x: Axis,
    /// Vertical.
    pub y: Axis,
    /// The curves.
    pub series: Vec<Series>,
    /// Required levels.
    pub bounds: Vec<Bound>,
}

/// A curve. A number that is not finite is a gap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// For the legend.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Ascending.
    pub x: Vec<f64>,
    /// One for each x.
    pub y: Vec<f64>,
    /// A band around it.
    pub band: Option<Band>,
    /// Constant from each x to the next.
    pub steps: bool,
    /// Dashed.
    pub dashed: bool,
}

impl Series {
    /// A solid curve without a band.
    pub fn new(name: impl Into<String>, colour: Colour, x: Vec<f64>, y: Vec<f64>) -> Self {
        Self { name: name.into(), colour, x, y, band: None, steps: false, dashed: false }
    }
}

/// From the lowest to the highest of several runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// Such as "min–max over 20 runs".
    pub name: String,
    /// One for each x.
    pub low: Vec<f64>,
    /// One for each x.
    pub high: Vec<f64>,
}

/// A required level: a dashed horizontal line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// Such as "red ≥ 0.2".
    pub name: String,
    /// Where.
    pub value: f64,
    /// The colour of what it bounds.
    pub colour: Colour,
}

impl Bound {
    /// A required level.
    pub fn new(name: impl Into<String>, value: f64, colour: Colour) -> Self {
        Self { name: name.into(), value, colour }
    }
}

/// Groups of bars: a group for each category, and in it a bar of each kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bars {
    /// The names of the groups.
    pub categories: Vec<String>,
    /// Vertical.
    pub y: Axis,
    /// The kinds.
    pub bars: Vec<Bar>,
    /// For each category the required level, if there is one: a line across its group.
    pub bounds: Vec<Option<f64>>,
}

/// One kind of bar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// For the legend.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// One for each category.
    pub values: Vec<f64>,
    /// For each category the lowest and highest of several runs: a whisker. May be empty.
    pub ranges: Vec<(f64, f64)>,
}

/// A rectangle of the plane.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Area {
    /// From, to.
    pub x: (f64, f64),
    /// From, to.
    pub y: (f64, f64),
}

/// A named part of the plane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// A closed polygon.
    pub outline: Vec<(f64, f64)>,
}

/// A policy over the plane, for some multipliers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// What is shown.
    pub area: Area,
    /// Behind the arrows.
    pub regions: Vec<Region>,
    /// At the multipliers that the sliders show first.
    pub arrows: Vec<Arrow>,
    /// One for each multiplier, in order.
    pub sliders: Vec<Slider>,
    /// How the page computes the arrows when a slider moves; without it there are no sliders to move.
    pub model: Option<Model>,
}

/// Where and whereto. The length of arrows is relative: the longest is a little less than their distance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Arrow {
    /// Position.
    pub x: f64,
    /// Position.
    pub y: f64,
    /// Velocity.
    pub dx: f64,
    /// Velocity.
    pub dy: f64,
}

/// A multiplier that can be moved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slider {
    /// The requirement.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// The value shown first.
    pub value: f64,
    /// The largest value.
    pub most: f64,
}

/// A policy small enough to be computed in the page. The inputs of a network are
/// (observation − offset)·factor for each observation, of which the first two are the position and the others as
/// `rest` says, and then the weights (1, λ)/(1 + Σλ), or without an objective λ/Σλ (all equal at λ = 0); multipliers are
/// first multiplied by `scales`. The first two outputs, times `output`, are the velocity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Model {
    /// tanh layers, and a last one without.
    Mlp {
        /// Whether the first weight is the objective's.
        objective: bool,
        /// What the objective's weight 1 counts, and each multiplier: the ranges of the rewards.
        scales: Vec<f64>,
        /// (offset, factor) of each observation.
        observation: Vec<(f64, f64)>,
        /// Observations after the first two.
        rest: Vec<f64>,
        /// (middle, half-width) of the two outputs.
        output: Vec<(f64, f64)>,
        /// The longest velocity, if the environment shortens longer ones.
        longest: Option<f64>,
        /// Inputs, hidden layers, outputs.
        shape: Vec<usize>,
        /// Layer by layer the weights row by row (a row per output), then the biases.
        parameters: Vec<f32>,
    },
}

/// Shares of time on a grid of cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heat {
    /// What the grid covers.
    pub area: Area,
    /// Outlined on top.
    pub regions: Vec<Region>,
    /// Cells along x.
    pub columns: usize,
    /// Row by row from the least y; they add up to 1.
    pub shares: Vec<f64>,
}
