//! A figure's numbers, for other programs.

use crate::{Arrow, Bars, Field, Figure, Heat, Lines, Plot, Region};

const COLUMNS: [&str; 11] =
    ["panel", "title", "kind", "series", "x", "y", "low", "high", "dx", "dy", "share"];

/// The cells of a row after the panel's number and title, in the order of [`COLUMNS`].
type Row = [String; 9];

/// A row of a kind; what is not given is empty.
fn row(kind: &str, series: &str, x: String, y: f64) -> Row {
    let mut row = Row::default();
    (row[0], row[1], row[2], row[3]) = (kind.to_owned(), series.to_owned(), x, number(y));
    row
}

/// The row with `low, high`.
fn with_range(mut row: Row, range: Option<(f64, f64)>) -> Row {
    if let Some((low, high)) = range {
        (row[4], row[5]) = (number(low), number(high));
    }
    row
}

impl Figure {
    /// The numbers in long format, a row for each point: `panel,title,kind,series,x,y,low,high,dx,dy,share`.
    ///
    /// | kind | series | x | y | low, high | dx, dy | share |
    /// |---|---|---|---|---|---|---|
    /// | `line` | the curve | x | y | the band | | |
    /// | `bar` | the kind of bar | the category | the value | the whisker | | |
    /// | `bound` | its name | of bars the category | the level | | | |
    /// | `arrow` | | x | y | | the velocity | |
    /// | `multiplier` | the requirement | | the value | | | |
    /// | `region` | the region | x of a corner | y | | | |
    /// | `cell` | | x of its middle | y | | | of the time |
    ///
    /// Panels count from 1. What there is not, or is not finite, is empty. A drawing has no rows.
    pub fn to_csv(&self) -> String {
        let mut csv = csv::Writer::from_writer(Vec::new());
        // A vector takes all that is written to it.
        let _ = csv.write_record(COLUMNS);
        for (i, panel) in self.panels.iter().enumerate() {
            let rows = match &panel.plot {
                Plot::Lines(lines) => lines_rows(lines),
                Plot::Bars(bars) => bars_rows(bars),
                Plot::Field(field) => field_rows(field),
                Plot::Heat(heat) => heat_rows(heat),
                Plot::Drawing { .. } => Vec::new(),
            };
            for row in rows {
                let _ = csv.write_record([(i + 1).to_string(), panel.title.clone()].iter().chain(&row));
            }
        }
        String::from_utf8(csv.into_inner().unwrap_or_default()).unwrap_or_default()
    }
}

fn lines_rows(lines: &Lines) -> Vec<Row> {
    let mut rows = Vec::new();
    for series in &lines.series {
        for (i, (x, y)) in series.x.iter().zip(&series.y).enumerate() {
            let range = series.band.as_ref().and_then(|band| Some((*band.low.get(i)?, *band.high.get(i)?)));
            rows.push(with_range(row("line", &series.name, number(*x), *y), range));
        }
    }
    rows.extend(lines.bounds.iter().map(|bound| row("bound", &bound.name, String::new(), bound.value)));
    rows
}

fn bars_rows(bars: &Bars) -> Vec<Row> {
    let mut rows = Vec::new();
    for bar in &bars.bars {
        for (i, (category, y)) in bars.categories.iter().zip(&bar.values).enumerate() {
            rows.push(with_range(row("bar", &bar.name, category.clone(), *y), bar.ranges.get(i).copied()));
        }
    }
    let bounds = bars.categories.iter().zip(&bars.bounds);
    rows.extend(bounds.filter_map(|(category, y)| Some(row("bound", "required", category.clone(), (*y)?))));
    rows
}

fn field_rows(field: &Field) -> Vec<Row> {
    let arrow = |arrow: &Arrow| {
        let mut row = row("arrow", "", number(arrow.x), arrow.y);
        (row[6], row[7]) = (number(arrow.dx), number(arrow.dy));
        row
    };
    let mut rows: Vec<Row> = field.arrows.iter().map(arrow).collect();
    rows.extend(field.sliders.iter().map(|s| row("multiplier", &s.name, String::new(), s.value)));
    rows.extend(region_rows(&field.regions));
    rows
}

fn heat_rows(heat: &Heat) -> Vec<Row> {
    let columns = heat.columns.max(1);
    let rows = heat.shares.len().div_ceil(columns).max(1);
    let middle =
        |(from, to): (f64, f64), k: usize, of: usize| from + (to - from) * (k as f64 + 0.5) / of as f64;
    let cell = |(k, share): (usize, &f64)| {
        let (x, y) = (middle(heat.area.x, k % columns, columns), middle(heat.area.y, k / columns, rows));
        let mut row = row("cell", "", number(x), y);
        row[8] = number(*share);
        row
    };
    heat.shares.iter().enumerate().map(cell).chain(region_rows(&heat.regions)).collect()
}

fn region_rows(regions: &[Region]) -> impl Iterator<Item = Row> + '_ {
    let corners = |region: &'_ Region| {
        let name = region.name.clone();
        region.outline.clone().into_iter().map(move |(x, y)| row("region", &name, number(x), y))
    };
    regions.iter().flat_map(corners)
}

fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}
