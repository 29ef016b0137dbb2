//! Curves, with their bounds labelled at the right.

use super::canvas::{Anchor, Canvas, GRID, INK, Rect, SOFT, Type, hex, text_hex, text_width};
use super::scale::Scale;
use crate::thin::thin;
use crate::{Bound, Colour, Lines, Series};

/// More points than that for a curve are not seen.
const POINTS: usize = 1500;
const LABEL: f64 = 12.5;
const TICK: f64 = 12.0;

/// Bounds of one height share a line and a label.
struct Level {
    value: f64,
    colour: Option<Colour>,
    text: String,
}

pub(super) fn draw(lines: &Lines, canvas: &mut Canvas, place: Rect) {
    let levels = levels(&lines.bounds);
    let bands = lines.series.iter().filter_map(|series| series.band.as_ref());
    let edges = bands.flat_map(|band| band.low.iter().chain(&band.high));
    let heights = lines.series.iter().flat_map(|series| &series.y).chain(edges).copied();
    let x = Scale::of(&lines.x, lines.series.iter().flat_map(|series| &series.x).copied(), false);
    let y = Scale::of(&lines.y, heights.chain(levels.iter().map(|level| level.value)), true);

    let label = levels.iter().map(|level| text_width(&level.text, LABEL)).fold(0.0, f64::max);
    let right = if levels.is_empty() { 14.0 } else { label + 10.0 };
    let (inside, y) = frame(canvas, place, right, y, &lines.y.label);
    let x = x.on(inside.x, inside.right());
    let mut ticks = x.ticks((inside.width / 52.0) as usize);
    ticks.retain(|(value, _)| x.shows(*value));
    for (value, text) in &ticks {
        let at = x.at(*value);
        canvas.line((at, inside.y), (at, inside.bottom()), &format!("stroke=\"{GRID}\""));
        canvas.text(at, inside.bottom() + 17.0, Anchor::Middle, Type::new(TICK, SOFT), text);
    }
    let middle = inside.x + inside.width / 2.0;
    canvas.text(middle, inside.bottom() + 36.0, Anchor::Middle, Type::new(LABEL, SOFT), &lines.x.label);

    canvas.clipped(inside, |canvas| {
        lines.series.iter().for_each(|series| band(series, canvas, &x, &y));
        lines.series.iter().for_each(|series| curve(series, canvas, &x, &y));
        for level in levels.iter().filter(|level| y.shows(level.value)) {
            let colour = level.colour.map_or_else(|| SOFT.to_owned(), hex);
            let at = y.at(level.value);
            let looks = format!("stroke=\"{colour}\" stroke-width=\"1.4\" stroke-dasharray=\"7 5\"");
            canvas.line((inside.x, at), (inside.right(), at), &looks);
        }
    });
    labels(&levels, canvas, inside, &y);
}

/// The y axis: its lines, numbers and label. Gives what is left for the data, and the scale there.
pub(super) fn frame(canvas: &mut Canvas, place: Rect, right: f64, y: Scale, label: &str) -> (Rect, Scale) {
    let (top, bottom) = (8.0, 46.0);
    let count = ((place.height - top - bottom) / 36.0).max(2.0) as usize;
    let ticks: Vec<_> = y.ticks(count).into_iter().filter(|(value, _)| y.shows(*value)).collect();
    let wide = ticks.iter().map(|(_, text)| text_width(text, TICK)).fold(0.0, f64::max);
    let named = if label.is_empty() { 0.0 } else { 22.0 };
    let left = named + wide + 8.0;
    let inside = Rect {
        x: place.x + left,
        y: place.y + top,
        width: (place.width - left - right).max(40.0),
        height: place.height - top - bottom,
    };
    let y = y.on(inside.bottom(), inside.y);
    for (value, text) in &ticks {
        let at = y.at(*value);
        canvas.line((inside.x, at), (inside.right(), at), &format!("stroke=\"{GRID}\""));
        canvas.text(inside.x - 8.0, at + 4.2, Anchor::End, Type::new(TICK, SOFT), text);
    }
    canvas.upward_text(place.x + 11.0, inside.y + inside.height / 2.0, Type::new(LABEL, SOFT), label);
    (inside, y)
}

/// The pixels of a curve, in segments without gaps; steps have their corners.
fn segments(x: &[f64], y: &[f64], steps: bool) -> Vec<Vec<(f64, f64)>> {
    let mut segments = vec![vec![]];
    let mut before: Option<f64> = None;
    for i in thin(x, y, POINTS) {
        let Some(segment) = segments.last_mut() else { continue };
        if !(x[i].is_finite() && y[i].is_finite()) {
            // The step before the gap lasts until there.
            if let (true, Some(y), true) = (steps, before, x[i].is_finite()) {
                segment.push((x[i], y));
            }
            before = None;
            segments.push(vec![]);
            continue;
        }
        if let (true, Some(y)) = (steps, before) {
            segment.push((x[i], y));
        }
        segment.push((x[i], y[i]));
        before = Some(y[i]);
    }
    segments.retain(|segment| !segment.is_empty());
    segments
}

fn curve(series: &Series, canvas: &mut Canvas, x: &Scale, y: &Scale) {
    let xs: Vec<f64> = series.x.iter().map(|v| x.at(*v)).collect();
    let ys: Vec<f64> = series.y.iter().map(|v| y.at(*v)).collect();
    let (colour, dash) = (hex(series.colour), if series.dashed { " stroke-dasharray=\"6 4\"" } else { "" });
    for segment in segments(&xs, &ys, series.steps) {
        if let [(x, y)] = segment[..] {
            let rect = Rect { x: x - 2.5, y: y - 2.5, width: 5.0, height: 5.0 };
            canvas.rect(rect, &format!("rx=\"2.5\" fill=\"{colour}\""));
            continue;
        }
        let looks =
            format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\"{dash}");
        canvas.polyline(segment.into_iter(), &looks);
    }
}

fn band(series: &Series, canvas: &mut Canvas, x: &Scale, y: &Scale) {
    let Some(band) = &series.band else { return };
    let count = series.x.len().min(band.low.len()).min(band.high.len());
    let xs: Vec<f64> = series.x[..count].iter().map(|v| x.at(*v)).collect();
    // A gap of one edge is a gap of the band. On a logarithmic axis what has no place is far below.
    let edge = |values: &[f64]| -> Vec<f64> {
        let whole = |i: usize| band.low[i].is_finite() && band.high[i].is_finite();
        let floor = |v: f64| if v.is_finite() { v } else { 1e5 };
        (0..count).map(|i| if whole(i) { floor(y.at(values[i])) } else { f64::NAN }).collect()
    };
    let (low, high) = (edge(&band.low), edge(&band.high));
    let looks = format!("fill=\"{}\" fill-opacity=\"0.18\"", hex(series.colour));
    let (lows, highs) = (segments(&xs, &low, series.steps), segments(&xs, &high, series.steps));
    for (low, high) in lows.into_iter().zip(highs) {
        canvas.polygon(high.into_iter().chain(low.into_iter().rev()), &looks);
    }
}

fn levels(bounds: &[Bound]) -> Vec<Level> {
    let mut groups: Vec<Vec<&Bound>> = vec![];
    for bound in bounds.iter().filter(|bound| bound.value.is_finite()) {
        match groups.iter_mut().find(|group| group[0].value == bound.value) {
            Some(group) => group.push(bound),
            None => groups.push(vec![bound]),
        }
    }
    let alone = groups.len() == 1;
    groups.iter().map(|group| level(group, alone)).collect()
}

/// "red ≥ 0.2" and "blue ≥ 0.2" are "red, blue ≥ 0.2", or "≥ 0.2" if there are no others.
fn level(group: &[&Bound], alone: bool) -> Level {
    let value = group[0].value;
    if let [bound] = group {
        return Level { value, colour: Some(bound.colour), text: bound.name.clone() };
    }
    let split: Option<Vec<_>> = group.iter().map(|bound| bound.name.split_once(' ')).collect();
    let text = match split {
        Some(parts) if parts.iter().all(|(_, rest)| *rest == parts[0].1) => {
            let names: Vec<_> = parts.iter().map(|(name, _)| *name).collect();
            if alone { parts[0].1.to_owned() } else { format!("{} {}", names.join(", "), parts[0].1) }
        }
        _ => group.iter().map(|bound| bound.name.as_str()).collect::<Vec<_>>().join(", "),
    };
    Level { value, colour: None, text }
}

fn labels(levels: &[Level], canvas: &mut Canvas, inside: Rect, y: &Scale) {
    let mut shown: Vec<_> = levels.iter().filter(|level| y.shows(level.value)).collect();
    shown.sort_by(|a, b| y.at(a.value).total_cmp(&y.at(b.value)));
    let mut places: Vec<f64> = shown.iter().map(|level| y.at(level.value)).collect();
    apart(&mut places, LABEL + 3.0);
    for (level, at) in shown.iter().zip(places) {
        let style = Type::new(LABEL, level.colour.map_or(INK, text_hex));
        canvas.text(inside.right() + 6.0, at + 4.4, Anchor::Start, style, &level.text);
    }
}

/// Moves ascending places as little as it takes to have them `distance` apart.
fn apart(places: &mut [f64], distance: f64) {
    for _ in 0..100 {
        let mut moved = false;
        for i in 1..places.len() {
            let lacking = distance - (places[i] - places[i - 1]);
            if lacking > 0.01 {
                places[i - 1] -= lacking / 2.0;
                places[i] += lacking / 2.0;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_overlap() {
        let mut places = [10.0, 10.0, 11.0, 60.0];
        apart(&mut places, 15.0);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] > 14.9), "{places:?}");
        assert_eq!(places[3], 60.0);
    }

    #[test]
    fn bounds_of_one_height_share_a_label() {
        let bound = |name: &str, value| Bound { name: name.to_owned(), value, colour: Colour::Red };
        let texts = |bounds: &[Bound]| -> Vec<String> {
            levels(bounds).into_iter().map(|level| level.text).collect()
        };
        let same = [bound("red ≥ 0.2", 0.2), bound("blue ≥ 0.2", 0.2)];
        assert_eq!(texts(&same), ["≥ 0.2"]);
        let [red, blue] = same;
        assert_eq!(texts(&[red, blue, bound("green ≥ 0.3", 0.3)]), ["red, blue ≥ 0.2", "green ≥ 0.3"]);
    }

    #[test]
    fn steps_have_corners_and_gaps_are_left_open() {
        let found = segments(&[0.0, 1.0, 2.0, 3.0], &[5.0, 6.0, f64::NAN, 7.0], true);
        assert_eq!(found, [vec![(0.0, 5.0), (1.0, 5.0), (1.0, 6.0), (2.0, 6.0)], vec![(3.0, 7.0)]]);
    }
}
