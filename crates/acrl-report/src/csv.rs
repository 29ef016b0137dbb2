//! A figure's numbers, for other programs.

use crate::{Bars, Field, Figure, Heat, Lines, Plot};

const COLUMNS: [&str; 11] =
    ["panel", "title", "kind", "series", "x", "y", "low", "high", "dx", "dy", "share"];

/// The cells of a row beside the panel's number and title.
#[derive(Default)]
struct Row<'a> {
    kind: &'static str,
    series: &'a str,
    x: String,
    y: f64,
    range: Option<(f64, f64)>,
    velocity: Option<(f64, f64)>,
    share: Option<f64>,
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
            let mut add = |row: Row| {
                let [(low, high), (dx, dy)] = [row.range, row.velocity]
                    .map(|pair| pair.map_or_else(Default::default, |(a, b)| (number(a), number(b))));
                let (panel_number, y) = ((i + 1).to_string(), number(row.y));
                let share = row.share.map(number).unwrap_or_default();
                let title = panel.title.as_str();
                let _ = csv.write_record([
                    &panel_number,
                    title,
                    row.kind,
                    row.series,
                    &row.x,
                    &y,
                    &low,
                    &high,
                    &dx,
                    &dy,
                    &share,
                ]);
            };
            match &panel.plot {
                Plot::Lines(lines) => lines_rows(lines, &mut add),
                Plot::Bars(bars) => bars_rows(bars, &mut add),
                Plot::Field(field) => field_rows(field, &mut add),
                Plot::Heat(heat) => heat_rows(heat, &mut add),
                Plot::Drawing { .. } => {}
            }
        }
        String::from_utf8(csv.into_inner().unwrap_or_default()).unwrap_or_default()
    }
}

fn lines_rows<'a>(lines: &'a Lines, add: &mut impl FnMut(Row<'a>)) {
    for series in &lines.series {
        for (i, (x, y)) in series.x.iter().zip(&series.y).enumerate() {
            let range = series.band.as_ref().and_then(|band| Some((*band.low.get(i)?, *band.high.get(i)?)));
            add(Row { kind: "line", series: &series.name, x: number(*x), y: *y, range, ..Row::default() });
        }
    }
    for bound in &lines.bounds {
        add(Row { kind: "bound", series: &bound.name, y: bound.value, ..Row::default() });
    }
}

fn bars_rows<'a>(bars: &'a Bars, add: &mut impl FnMut(Row<'a>)) {
    for bar in &bars.bars {
        for (i, (category, y)) in bars.categories.iter().zip(&bar.values).enumerate() {
            let range = bar.ranges.get(i).copied();
            add(Row { kind: "bar", series: &bar.name, x: category.clone(), y: *y, range, ..Row::default() });
        }
    }
    for (category, bound) in bars.categories.iter().zip(&bars.bounds) {
        if let Some(y) = *bound {
            add(Row { kind: "bound", series: "required", x: category.clone(), y, ..Row::default() });
        }
    }
}

fn field_rows<'a>(field: &'a Field, add: &mut impl FnMut(Row<'a>)) {
    for arrow in &field.arrows {
        let velocity = Some((arrow.dx, arrow.dy));
        add(Row { kind: "arrow", x: number(arrow.x), y: arrow.y, velocity, ..Row::default() });
    }
    for slider in &field.sliders {
        add(Row { kind: "multiplier", series: &slider.name, y: slider.value, ..Row::default() });
    }
    region_rows(&field.regions, add);
}

fn heat_rows<'a>(heat: &'a Heat, add: &mut impl FnMut(Row<'a>)) {
    let columns = heat.columns.max(1);
    let rows = heat.shares.len().div_ceil(columns).max(1);
    let middle =
        |(from, to): (f64, f64), k: usize, of: usize| from + (to - from) * (k as f64 + 0.5) / of as f64;
    for (k, share) in heat.shares.iter().enumerate() {
        let (x, y) = (middle(heat.area.x, k % columns, columns), middle(heat.area.y, k / columns, rows));
        add(Row { kind: "cell", x: number(x), y, share: Some(*share), ..Row::default() });
    }
    region_rows(&heat.regions, add);
}

fn region_rows<'a>(regions: &'a [crate::Region], add: &mut impl FnMut(Row<'a>)) {
    for region in regions {
        for (x, y) in &region.outline {
            add(Row { kind: "region", series: &region.name, x: number(*x), y: *y, ..Row::default() });
        }
    }
}

fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}
