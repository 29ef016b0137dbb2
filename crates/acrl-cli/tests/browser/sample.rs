//! A report with every kind of plot.

use acrl_report::{
    Area, Arrow, Axis, Band, Bar, Bars, Block, Bound, Cell, Colour, Field, Figure, Heat, Lines, Model, Panel,
    Plot, Region, Report, Series, Slider, Table, Tone,
};

const AREA: Area = Area { x: (0.0, 10.0), y: (0.0, 10.0) };
const SHAPE: [usize; 4] = [5, 8, 8, 2];
/// The multipliers that the sliders show first.
const SHOWN: [f64; 3] = [0.4, 1.5, 0.0];

pub(crate) fn report() -> Report {
    let panels = |name: &str, plots: Vec<Plot>| {
        let caption = format!("A caption about {name}, in a sentence that is long enough for a line.");
        let panels: Vec<Panel> = plots.into_iter().map(|plot| Panel::new("", plot)).collect();
        Block::Figure(Figure::new(name, &format!("All about {name}"), &caption, panels.len(), panels))
    };
    Report {
        title: "A report with every kind of plot".to_owned(),
        lead: "Everything that a report may hold is in this one.".to_owned(),
        good: Some(true),
        blocks: vec![
            Block::Heading("Numbers".to_owned()),
            Block::Text("Markup such as <b>this</b> & 'that' is text. </script>".to_owned()),
            Block::Table(table()),
            panels("lines", vec![lines(false), lines(true)]),
            panels("bars", vec![bars()]),
            panels("policy", vec![Plot::Field(field())]),
            panels("time", vec![heat()]),
            panels("drawing", vec![drawing()]),
        ],
        facts: vec![("version".to_owned(), "0.1.0".to_owned())],
        command:
            "acrl run some/long/path/to/a/policy-with-a-long-name.safetensors --runs 20 --steps 200000 --json"
                .to_owned(),
    }
}

fn table() -> Table {
    let row = |name: &str, tone| {
        let cells = std::iter::repeat_n(Cell::new("0.123456", tone), 9);
        std::iter::once(name.into()).chain(cells).collect()
    };
    let rows = [row("good", Tone::Good), row("bad", Tone::Bad), row("faint", Tone::Faint)];
    Table::new((0..10).map(|i| format!("column {i}")), rows, "A table that is wider than a telephone.")
}

fn lines(log: bool) -> Plot {
    let x: Vec<f64> = (0..50).map(f64::from).collect();
    let y: Vec<f64> = x.iter().map(|x| if *x == 20.0 { f64::NAN } else { 0.1 + x / 100.0 }).collect();
    let band = Band {
        name: "min–max over 3 runs".to_owned(),
        low: y.iter().map(|y| 0.9 * y).collect(),
        high: y.iter().map(|y| 1.1 * y).collect(),
    };
    let series = |name: &str, i| {
        let y = y.iter().map(|y| y + 0.2 * i as f64).collect();
        Series::new(name, Colour::of(name, i), x.clone(), y)
    };
    Plot::Lines(Lines {
        x: Axis::new("step"),
        y: Axis { log, ..Axis::new("average") },
        series: vec![
            Series { band: Some(band), ..series("red", 0) },
            Series { steps: true, dashed: true, ..series("blue", 1) },
        ],
        bounds: vec![Bound::new("red ≥ 0.4", 0.4, Colour::Red)],
    })
}

fn bars() -> Plot {
    let bar = |name: &str, colour, values: [f64; 3]| Bar {
        name: name.to_owned(),
        colour,
        values: values.to_vec(),
        ranges: values.iter().map(|v| (v - 0.05, v + 0.05)).collect(),
    };
    Plot::Bars(Bars {
        categories: ["red", "blue", "green"].map(str::to_owned).to_vec(),
        y: Axis::new("share of time"),
        bars: vec![bar("one", Colour::Blue, [0.2, 0.3, 0.1]), bar("other", Colour::Grey, [0.5, 0.1, 0.2])],
        bounds: vec![Some(0.2), None, Some(0.1)],
    })
}

fn region() -> Region {
    let outline = vec![(1.0, 1.0), (3.0, 1.0), (3.0, 3.0), (1.0, 3.0)];
    Region { name: "red".to_owned(), colour: Colour::Red, outline }
}

/// A small network, and where it goes at the multipliers shown first by our own computation.
pub(crate) fn field() -> Field {
    let count = SHAPE.windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum::<usize>();
    let parameters: Vec<f32> = (0..count).map(|k| ((k * k % 97) as f32 / 48.0 - 1.0) * 0.8).collect();
    let side = |k: u32| 0.5 + f64::from(k);
    let arrows = (0..100).map(|k| arrow(&parameters, side(k % 10), side(k / 10))).collect();
    let slider = |(i, value): (usize, &f64)| Slider {
        name: ["red", "blue", "green"][i].to_owned(),
        colour: Colour::ALL[i],
        value: *value,
        most: 3.0,
    };
    Field {
        area: AREA,
        regions: vec![region()],
        arrows,
        sliders: SHOWN.iter().enumerate().map(slider).collect(),
        model: Some(Model::Mlp {
            objective: false,
            scales: vec![1.0, 1.0, 0.5, 2.0],
            observation: vec![(5.0, 0.2), (5.0, 0.2)],
            rest: vec![],
            output: vec![(0.0, 1.0), (0.1, 2.0)],
            longest: Some(1.0),
            shape: SHAPE.to_vec(),
            parameters,
        }),
    }
}

fn arrow(parameters: &[f32], x: f64, y: f64) -> Arrow {
    let weighted = [SHOWN[0], SHOWN[1] * 0.5, SHOWN[2] * 2.0];
    let sum: f64 = weighted.iter().sum();
    let mut values = vec![(x - 5.0) * 0.2, (y - 5.0) * 0.2];
    values.extend(weighted.map(|w| w / sum));
    let mut rest = parameters;
    for (layer, pair) in SHAPE.windows(2).enumerate() {
        let (weights, after) = rest.split_at(pair[0] * pair[1]);
        let (biases, after) = after.split_at(pair[1]);
        rest = after;
        let out = |(row, bias): (&[f32], &f32)| {
            let sum: f64 = row.iter().zip(&values).map(|(w, v)| f64::from(*w) * v).sum();
            let sum = sum + f64::from(*bias);
            if layer + 2 < SHAPE.len() { sum.tanh() } else { sum }
        };
        values = weights.chunks(pair[0]).zip(biases).map(out).collect();
    }
    let (dx, dy) = (values[0], 0.1 + 2.0 * values[1]);
    let shorten = 1.0 / dx.hypot(dy).max(1.0);
    Arrow { x, y, dx: dx * shorten, dy: dy * shorten }
}

fn heat() -> Plot {
    let shares = (0..100).map(|k| f64::from(k) / 4950.0).collect();
    Plot::Heat(Heat { area: AREA, regions: vec![region()], columns: 10, shares })
}

fn drawing() -> Plot {
    let elements =
        "<circle cx='60' cy='60' r='40' class='red'/><text x='60' y='65' fill='currentColor'>R1</text>";
    Plot::Drawing { width: 380.0, height: 120.0, elements: elements.to_owned() }
}
