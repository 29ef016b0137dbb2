//! The picture of a figure, to print: SVG written here, so that labels stand where nothing else does.

mod bars;
mod canvas;
mod lines;
mod plane;
mod png;
mod scale;

use canvas::{Anchor, Canvas, INK, Rect, SOFT, Type, hex, short, text_hex, text_width};

use crate::escape::escape;
use crate::{Area, Colour, Figure, Panel, Plot};

/// Of every picture; the height is what it takes.
const WIDTH: f64 = 960.0;
const MARGIN: f64 = 24.0;
const GAP: f64 = 24.0;
/// A panel's title, if a panel of its row has one.
const TITLE: f64 = 26.0;
/// What reads well on every system, and the font of the PNG.
const FONTS: &str =
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', Arial, sans-serif";

/// An entry of the legend.
struct Key<'a> {
    name: &'a str,
    mark: Mark,
}

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Line(Colour, bool),
    Bar(Colour),
    Band,
    Required,
}

impl Figure {
    /// The picture as SVG, on white. Names, labels and numbers are text, in whatever sans-serif font there is.
    pub fn to_svg(&self) -> String {
        let mut canvas = Canvas::default();
        let mut y = MARGIN;
        if !self.title.is_empty() {
            let style = Type { bold: true, ..Type::new(18.0, INK) };
            canvas.text(MARGIN, y + 16.0, Anchor::Start, style, &self.title);
            y += 34.0;
        }
        y = legend(&self.keys(), &mut canvas, y);
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let width = (WIDTH - 2.0 * MARGIN - GAP * (columns - 1) as f64) / columns as f64;
        for row in self.panels.chunks(columns) {
            let titled = row.iter().any(|panel| !panel.title.is_empty());
            let height = row.iter().map(|panel| height(panel, width, columns)).fold(0.0, f64::max);
            for (i, panel) in row.iter().enumerate() {
                let x = MARGIN + (width + GAP) * i as f64;
                let style = Type { bold: true, ..Type::new(14.0, INK) };
                if titled {
                    canvas.text(x + width / 2.0, y + 14.0, Anchor::Middle, style, &panel.title);
                }
                let y = if titled { y + TITLE } else { y };
                draw(panel, &mut canvas, Rect { x, y, width, height });
            }
            y += height + GAP * 0.75 + if titled { TITLE } else { 0.0 };
        }
        let (width, height) = (short(WIDTH), short((y - GAP * 0.75 + MARGIN).ceil()));
        let classes: String = Colour::ALL
            .iter()
            .zip(["red", "blue", "green", "orange", "purple", "sky"])
            .chain([(&Colour::Grey, "grey")])
            .map(|(colour, name)| format!(".{name} {{ fill: {}; }} ", hex(*colour)))
            .collect();
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"{FONTS}\" color=\"{INK}\">\n\
             <title>{}</title>\n<desc>{}</desc>\n\
             <style>{classes}.faint {{ opacity: 0.7; }}</style>\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            escape(&self.title),
            escape(&self.caption),
            canvas.elements,
        )
    }

    /// What the legend lists: each name once, whichever panels it is in.
    fn keys(&self) -> Vec<Key<'_>> {
        let (mut keys, mut bands): (Vec<Key>, Vec<Key>) = (vec![], vec![]);
        fn add<'a>(keys: &mut Vec<Key<'a>>, name: &'a str, mark: Mark) {
            if !name.is_empty() && keys.iter().all(|key| key.name != name) {
                keys.push(Key { name, mark });
            }
        }
        for panel in &self.panels {
            match &panel.plot {
                Plot::Lines(lines) => {
                    for series in &lines.series {
                        add(&mut keys, &series.name, Mark::Line(series.colour, series.dashed));
                        if let Some(band) = &series.band {
                            add(&mut bands, &band.name, Mark::Band);
                        }
                    }
                }
                Plot::Bars(bars) => {
                    bars.bars.iter().for_each(|bar| add(&mut keys, &bar.name, Mark::Bar(bar.colour)));
                    if bars.bounds.iter().flatten().next().is_some() {
                        add(&mut bands, "required", Mark::Required);
                    }
                }
                Plot::Field(_) | Plot::Heat(_) | Plot::Drawing { .. } => {}
            }
        }
        keys.extend(bands);
        // One curve whose axis says what it is needs no legend.
        if keys.len() < 2 { vec![] } else { keys }
    }
}

/// In as many rows as it takes; gives where the panels begin.
fn legend(keys: &[Key], canvas: &mut Canvas, top: f64) -> f64 {
    let (mut x, mut y) = (MARGIN, top);
    for key in keys {
        let width = 26.0 + text_width(key.name, 13.0);
        if x > MARGIN && x + width > WIDTH - MARGIN {
            (x, y) = (MARGIN, y + 20.0);
        }
        let middle = y + 8.0;
        let line = |canvas: &mut Canvas, looks: &str| canvas.line((x, middle), (x + 20.0, middle), looks);
        match key.mark {
            Mark::Line(colour, dashed) => {
                let dash = if dashed { " stroke-dasharray=\"5 3\"" } else { "" };
                line(canvas, &format!("stroke=\"{}\" stroke-width=\"2.4\"{dash}", hex(colour)));
            }
            Mark::Required => {
                line(canvas, &format!("stroke=\"{INK}\" stroke-width=\"1.5\" stroke-dasharray=\"4 3\""))
            }
            Mark::Bar(colour) => {
                let rect = Rect { x: x + 4.0, y: middle - 6.0, width: 12.0, height: 12.0 };
                canvas.rect(rect, &format!("rx=\"2\" fill=\"{}\"", hex(colour)));
            }
            Mark::Band => {
                let rect = Rect { x, y: middle - 5.0, width: 20.0, height: 10.0 };
                canvas.rect(rect, "fill=\"#808080\" fill-opacity=\"0.25\"");
            }
        }
        canvas.text(x + 26.0, middle + 4.5, Anchor::Start, Type::new(13.0, INK), key.name);
        x += width + 20.0;
    }
    if keys.is_empty() { y } else { y + 30.0 }
}

fn height(panel: &Panel, width: f64, columns: usize) -> f64 {
    match &panel.plot {
        Plot::Lines(_) | Plot::Bars(_) => f64::min(if columns > 1 { 310.0 } else { 380.0 }, width.max(220.0)),
        Plot::Field(field) => {
            let sliders = if field.sliders.is_empty() { 0.0 } else { 24.0 };
            plane::height(&field.area, width, plane::FIELD) + sliders
        }
        Plot::Heat(heat) => plane::height(&heat.area, width, plane::HEAT),
        Plot::Drawing { width: wide, height, .. } => {
            if *wide > 0.0 && *height > 0.0 {
                height * drawing_scale(*wide, width)
            } else {
                0.0
            }
        }
    }
}

/// A small drawing is hardly blown up: its letters should be about as large as those of other figures.
fn drawing_scale(wide: f64, width: f64) -> f64 {
    (width / wide).min(1.25)
}

fn draw(panel: &Panel, canvas: &mut Canvas, place: Rect) {
    match &panel.plot {
        Plot::Lines(lines) => lines::draw(lines, canvas, place),
        Plot::Bars(bars) => bars::draw(bars, canvas, place),
        Plot::Heat(heat) => plane::draw_heat(heat, canvas, place),
        Plot::Field(field) => {
            plane::draw_field(field, canvas, place);
            let shown: Vec<String> = field
                .sliders
                .iter()
                .map(|slider| format!("{} {}", slider.name, scale::number(slider.value)))
                .collect();
            if !shown.is_empty() {
                let text = format!("multipliers: {}", shown.join(", "));
                let y = place.y + plane::height(&field.area, place.width, plane::FIELD) + 14.0;
                canvas.text(place.x + place.width / 2.0, y, Anchor::Middle, Type::new(13.0, SOFT), &text);
            }
        }
        Plot::Drawing { width, height, elements } => {
            if !(*width > 0.0 && *height > 0.0) {
                return;
            }
            let scale = drawing_scale(*width, place.width);
            let (x, y) = (short(place.x + (place.width - width * scale) / 2.0), short(place.y));
            let (wide, high) = (short(width * scale), short(height * scale));
            canvas.add(format_args!(
                "<svg x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{high}\" viewBox=\"0 0 {width} {height}\" \
                 font-size=\"14\">{elements}</svg>"
            ));
        }
    }
}

/// A region's name, white if it has no colour.
fn name(canvas: &mut Canvas, at: (f64, f64), anchor: Anchor, name: &str, colour: Option<Colour>) {
    let colour = colour.map_or("#ffffff", text_hex);
    let style = Type { bold: true, ..Type::new(12.5, colour) };
    canvas.text(at.0, at.1, anchor, style, name);
}

fn aspect(area: &Area) -> f64 {
    let (wide, high) = (area.x.1 - area.x.0, area.y.1 - area.y.0);
    if wide > 0.0 && high > 0.0 { high / wide } else { 1.0 }
}
