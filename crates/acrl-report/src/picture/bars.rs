//! Groups of bars, with whiskers and a line across each group at its bound.

use super::canvas::{Anchor, Canvas, INK, RULE, Rect, Type, hex, text_width};
use super::lines::frame;
use super::scale::{Scale, number};
use crate::Bars;

pub(super) fn draw(bars: &Bars, canvas: &mut Canvas, place: Rect) {
    let values = bars.bars.iter().flat_map(|bar| &bar.values).copied();
    let whiskers = bars.bars.iter().flat_map(|bar| &bar.ranges).flat_map(|(low, high)| [*low, *high]);
    let bounds = bars.bounds.iter().flatten().copied();
    let all = values.chain(whiskers).chain(bounds).chain([0.0]);
    let (inside, y) = frame(canvas, place, 8.0, Scale::of(&bars.y, all, true), &bars.y.label);
    let group = inside.width / bars.categories.len().max(1) as f64;
    let floor = if y.shows(0.0) { y.at(0.0) } else { inside.bottom() };
    canvas.line((inside.x, floor), (inside.right(), floor), &format!("stroke=\"{RULE}\""));

    for (i, category) in bars.categories.iter().enumerate() {
        let start = inside.x + group * (i as f64 + 0.14);
        let width = 0.72 * group / bars.bars.len().max(1) as f64;
        let middle = inside.x + group * (i as f64 + 0.5);
        label(canvas, category, middle, inside.bottom(), group);
        canvas.clipped(inside, |canvas| {
            for (j, bar) in bars.bars.iter().enumerate() {
                let left = start + width * (j as f64 + 0.05);
                let Some(top) = bar.values.get(i).map(|v| y.at(*v)).filter(|top| top.is_finite()) else {
                    continue;
                };
                let rect =
                    Rect { x: left, y: top.min(floor), width: 0.9 * width, height: (floor - top).abs() };
                canvas.rect(rect, &format!("fill=\"{}\"", hex(bar.colour)));
                if let Some((low, high)) = bar.ranges.get(i) {
                    whisker(canvas, left + 0.45 * width, y.at(*low), y.at(*high), (0.2 * width).min(5.0));
                }
            }
        });
        if let Some(bound) = bars.bounds.get(i).copied().flatten().filter(|bound| y.shows(*bound)) {
            let (at, end) = (y.at(bound), start + 0.76 * group);
            let looks = format!("stroke=\"{INK}\" stroke-width=\"1.5\" stroke-dasharray=\"4 3\"");
            canvas.line((start - 0.04 * group, at), (end, at), &looks);
            // The axis tells where 0 is.
            let text = number(bound);
            if bound != 0.0 && text_width(&text, 11.5) < 0.2 * group - 5.0 {
                canvas.text(end + 5.0, at + 4.0, Anchor::Start, Type::new(11.5, INK), &text);
            }
        }
    }
}

fn whisker(canvas: &mut Canvas, x: f64, low: f64, high: f64, half: f64) {
    if !(low.is_finite() && high.is_finite()) {
        return;
    }
    let looks = format!("stroke=\"{INK}\" stroke-width=\"1.2\"");
    canvas.line((x, low), (x, high), &looks);
    for end in [low, high] {
        canvas.line((x - half, end), (x + half, end), &looks);
    }
}

/// Under its group; in two lines or smaller if it is too long for one.
fn label(canvas: &mut Canvas, text: &str, middle: f64, bottom: f64, width: f64) {
    let size = (12.5 * 0.95 * width / text_width(text, 12.5).max(1.0)).clamp(8.5, 12.5);
    let fits = text_width(text, 12.5) <= 0.95 * width;
    let half = text.match_indices(' ').map(|(at, _)| at).min_by_key(|at| at.abs_diff(text.len() / 2));
    match half {
        Some(at) if !fits => {
            let longer = text_width(&text[..at], 12.5).max(text_width(&text[at + 1..], 12.5));
            let size = (12.5 * 0.95 * width / longer).clamp(8.5, 12.5);
            canvas.text(middle, bottom + 17.0, Anchor::Middle, Type::new(size, INK), &text[..at]);
            canvas.text(middle, bottom + 32.0, Anchor::Middle, Type::new(size, INK), &text[at + 1..]);
        }
        _ => canvas.text(middle, bottom + 18.0, Anchor::Middle, Type::new(size, INK), text),
    }
}
