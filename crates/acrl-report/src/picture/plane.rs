//! Planes with equal scales: the policy as arrows, and where the time goes.

use super::canvas::{Anchor, Canvas, INK, RULE, Rect, SOFT, Type, hex, short};
use super::scale::{Scale, number};
use super::{aspect, name};
use crate::{Area, Arrow, Field, Heat, Region};

/// Room left and right of the plane.
pub(super) const FIELD: (f64, f64) = (30.0, 10.0);
pub(super) const HEAT: (f64, f64) = (30.0, 66.0);
const TOP: f64 = 6.0;
const BOTTOM: f64 = 24.0;
/// A plane need not be higher.
const MOST: f64 = 460.0;
/// Viridis, from none to most.
const VIRIDIS: [[u8; 3]; 9] = [
    [0x44, 0x01, 0x54],
    [0x47, 0x2d, 0x7b],
    [0x3b, 0x52, 0x8b],
    [0x2c, 0x72, 0x8e],
    [0x21, 0x91, 0x8c],
    [0x28, 0xae, 0x80],
    [0x5e, 0xc9, 0x62],
    [0xad, 0xdc, 0x30],
    [0xfd, 0xe7, 0x25],
];

/// Of a panel that is so wide.
pub(super) fn height(area: &Area, width: f64, sides: (f64, f64)) -> f64 {
    ((width - sides.0 - sides.1) * aspect(area)).min(MOST) + TOP + BOTTOM
}

/// Where the plane is, in the middle of its place.
fn plane(area: &Area, place: Rect, sides: (f64, f64)) -> (Rect, Scale, Scale) {
    let height = height(area, place.width, sides) - TOP - BOTTOM;
    let width = height / aspect(area);
    let x = place.x + sides.0 + (place.width - sides.0 - sides.1 - width) / 2.0;
    let inside = Rect { x, y: place.y + TOP, width, height };
    let across = Scale::between(area.x.0, area.x.1).on(inside.x, inside.right());
    let up = Scale::between(area.y.0, area.y.1).on(inside.bottom(), inside.y);
    (inside, across, up)
}

fn frame(canvas: &mut Canvas, inside: Rect, x: &Scale, y: &Scale) {
    canvas.rect(inside, &format!("fill=\"none\" stroke=\"{RULE}\""));
    let style = Type::new(11.5, SOFT);
    for (value, text) in x.ticks(5).into_iter().filter(|(value, _)| x.shows(*value)) {
        canvas.text(x.at(value), inside.bottom() + 16.0, Anchor::Middle, style, &text);
    }
    for (value, text) in y.ticks(5).into_iter().filter(|(value, _)| y.shows(*value)) {
        canvas.text(inside.x - 6.0, y.at(value) + 4.0, Anchor::End, style, &text);
    }
}

pub(super) fn draw_field(field: &Field, canvas: &mut Canvas, place: Rect) {
    let (inside, x, y) = plane(&field.area, place, FIELD);
    canvas.clipped(inside, |canvas| {
        for region in &field.regions {
            let colour = hex(region.colour);
            let looks =
                format!("fill=\"{colour}\" fill-opacity=\"0.28\" stroke=\"{colour}\" stroke-width=\"1.2\"");
            canvas.polygon(region.outline.iter().map(|(a, b)| (x.at(*a), y.at(*b))), &looks);
        }
        arrows(&field.arrows, &field.area, canvas, &x, &y);
        for region in &field.regions {
            names(region, canvas, &x, &y, true);
        }
    });
    frame(canvas, inside, &x, &y);
}

/// A region's name stands above its upper left corner, where it covers the least.
fn names(region: &Region, canvas: &mut Canvas, x: &Scale, y: &Scale, coloured: bool) {
    let top = region.outline.iter().map(|(_, b)| *b).fold(f64::NEG_INFINITY, f64::max);
    let tops: Vec<f64> = region.outline.iter().filter(|(_, b)| *b > top - 1e-9).map(|(a, _)| *a).collect();
    let left = tops.iter().copied().fold(f64::INFINITY, f64::min);
    if !(left.is_finite() && top.is_finite()) {
        return;
    }
    let (at, anchor) = match tops.len() {
        1 => ((x.at(left), y.at(top) - 4.0), Anchor::Middle),
        _ => ((x.at(left), y.at(top) - 4.0), Anchor::Start),
    };
    if coloured {
        let width = super::text_width(&region.name, 13.5);
        let start = if tops.len() == 1 { at.0 - width / 2.0 } else { at.0 - 1.0 };
        let rect = Rect { x: start, y: at.1 - 11.0, width: width + 2.0, height: 14.0 };
        canvas.rect(rect, "fill=\"#ffffff\" fill-opacity=\"0.8\"");
    }
    name(canvas, at, anchor, &region.name, coloured.then_some(region.colour));
}

/// The distance of neighbours: of the grid if it is one, else of evenly spread points.
fn spacing(arrows: &[Arrow], area: &Area) -> f64 {
    let even = ((area.x.1 - area.x.0) * (area.y.1 - area.y.0) / arrows.len().max(1) as f64).abs().sqrt();
    let mut across: Vec<f64> = arrows.iter().map(|arrow| arrow.x).collect();
    across.sort_by(f64::total_cmp);
    across.dedup();
    let least = across
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .filter(|gap| *gap > 1e-9)
        .fold(f64::INFINITY, f64::min);
    if across.len() * 2 < arrows.len() { least.min(1.5 * even) } else { even }
}

fn arrows(arrows: &[Arrow], area: &Area, canvas: &mut Canvas, x: &Scale, y: &Scale) {
    let longest =
        arrows.iter().map(|arrow| arrow.dx.hypot(arrow.dy)).filter(|v| v.is_finite()).fold(1e-12, f64::max);
    let step = spacing(arrows, area);
    let pixels = (x.at(area.x.0 + step) - x.at(area.x.0)).abs();
    let unit = 0.86 * pixels / longest;
    let (mut shafts, mut heads) = (String::new(), String::new());
    for arrow in arrows {
        let (dx, dy) = (arrow.dx * unit / 2.0, -arrow.dy * unit / 2.0);
        let length = dx.hypot(dy);
        let (px, py) = (x.at(arrow.x), y.at(arrow.y));
        if !(length > 0.0 && px.is_finite() && py.is_finite()) {
            continue;
        }
        // The head shrinks with short arrows, so that they still point somewhere.
        let head = (0.3 * pixels).min(1.2 * length);
        let (ux, uy) = (dx / length, dy / length);
        let (tx, ty) = (px + dx, py + dy);
        let (bx, by) = (tx - head * ux, ty - head * uy);
        let side = 0.38 * head;
        shafts += &format!("M{} {}L{} {}", short(px - dx), short(py - dy), short(bx), short(by));
        heads += &format!(
            "M{} {}L{} {}L{} {}Z",
            short(tx),
            short(ty),
            short(bx - side * uy),
            short(by + side * ux),
            short(bx + side * uy),
            short(by - side * ux)
        );
    }
    canvas.add(format_args!("<path d=\"{shafts}\" fill=\"none\" stroke=\"{INK}\" stroke-width=\"1.2\"/>"));
    canvas.add(format_args!("<path d=\"{heads}\" fill=\"{INK}\"/>"));
}

/// Colours follow the root of the share, so that ways show beside the places where time is spent.
pub(super) fn draw_heat(heat: &Heat, canvas: &mut Canvas, place: Rect) {
    let (inside, x, y) = plane(&heat.area, place, HEAT);
    let columns = heat.columns.max(1);
    let rows = heat.shares.len().div_ceil(columns).max(1);
    let most = heat.shares.iter().copied().filter(|v| v.is_finite()).fold(1e-12, f64::max);
    let (wide, high) = (inside.width / columns as f64, inside.height / rows as f64);
    let level = |share: f64| if share > 0.0 { (100.0 * (share / most).sqrt()).round() as usize } else { 0 };
    canvas.rect(inside, &format!("fill=\"{}\"", viridis(0.0)));
    canvas.add(format_args!("<g shape-rendering=\"crispEdges\">"));
    for (row, shares) in heat.shares.chunks(columns).enumerate() {
        let mut from = 0;
        // Cells of one colour are one rectangle.
        while from < shares.len() {
            let shade = level(shares[from]);
            let same = shares[from..].iter().take_while(|share| level(**share) == shade).count();
            if shade > 0 {
                let rect = Rect {
                    x: inside.x + wide * from as f64,
                    y: inside.bottom() - high * (row + 1) as f64,
                    width: wide * same as f64,
                    height: high,
                };
                canvas.rect(rect, &format!("fill=\"{}\"", viridis(shade as f64 / 100.0)));
            }
            from += same;
        }
    }
    canvas.add(format_args!("</g>"));
    canvas.clipped(inside, |canvas| {
        for region in &heat.regions {
            let corners = region.outline.iter().map(|(a, b)| (x.at(*a), y.at(*b)));
            canvas.polygon(corners, "fill=\"none\" stroke=\"#ffffff\" stroke-width=\"1.5\"");
            names(region, canvas, &x, &y, false);
        }
    });
    frame(canvas, inside, &x, &y);
    colour_bar(canvas, inside, most);
}

fn colour_bar(canvas: &mut Canvas, inside: Rect, most: f64) {
    let bar = Rect { x: inside.right() + 10.0, y: inside.y, width: 10.0, height: inside.height };
    let steps = 60;
    for k in 0..steps {
        let height = bar.height / f64::from(steps);
        // A little higher than needed, so that no seam shows.
        let y = bar.bottom() - height * f64::from(k + 1);
        let over = if k == 0 { 0.0 } else { 0.6 };
        let rect = Rect { y, height: height + over, ..bar };
        canvas.rect(rect, &format!("fill=\"{}\"", viridis((f64::from(k) + 0.5) / f64::from(steps))));
    }
    let unit = 10_f64.powf(most.log10().floor());
    let mut last = f64::INFINITY;
    for factor in [0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 6.0, 9.0] {
        let share = factor * unit;
        let at = bar.bottom() - bar.height * (share / most).sqrt();
        if share <= most * (1.0 + 1e-9) && last - at > 14.0 {
            let text = format!("{} %", number(100.0 * share));
            canvas.text(
                bar.right() + 5.0,
                at.clamp(bar.y + 4.0, bar.bottom()) + 4.0,
                Anchor::Start,
                Type::new(11.0, SOFT),
                &text,
            );
            last = at;
        }
    }
}

fn viridis(share: f64) -> String {
    let place = share.clamp(0.0, 1.0) * (VIRIDIS.len() - 1) as f64;
    let i = (place as usize).min(VIRIDIS.len() - 2);
    let mix = |c: usize| {
        let (a, b) = (f64::from(VIRIDIS[i][c]), f64::from(VIRIDIS[i + 1][c]));
        (a + (b - a) * (place - i as f64)).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}
