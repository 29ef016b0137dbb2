//! Writes a report with every kind of plot, to look at: `cargo run -p acrl-report --example sample -- FOLDER`.

use acrl_report::{
    Area, Arrow, Axis, Band, Bar, Bars, Block, Bound, Cell, Colour, Field, Figure, Heat, Lines, Model, Panel,
    Plot, Region, Report, Series, Slider, Table, Tone,
};

const NAMES: [&str; 4] = ["red", "blue", "green", "orange"];
const CENTRES: [(f64, f64); 4] = [(2.5, 7.5), (7.5, 7.5), (2.5, 2.5), (7.5, 2.5)];
const AREA: Area = Area { x: (0.0, 10.0), y: (0.0, 10.0) };

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "sample".to_owned());
    report().write(folder.as_ref())?;
    Ok(())
}

/// Uniform on −1 to 1, the same every time.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1 << 30) - 1.0
    }
}

fn report() -> Report {
    let mut noise = Noise(7);
    Report {
        title: "Four regions, watched as often as they should be".to_owned(),
        lead: "All four requirements are met. One policy was trained once; it switches between the regions by itself.".to_owned(),
        good: Some(true),
        blocks: vec![
            Block::Table(table()),
            Block::Heading("Execution".to_owned()),
            Block::Text("Twenty runs of 100,000 steps with one trained policy. The share of time in each region comes to its required level, while the multipliers keep moving.".to_owned()),
            Block::Figure(averages(&mut noise)),
            Block::Figure(multipliers(&mut noise)),
            Block::Heading("The policy".to_owned()),
            Block::Figure(field(&mut noise)),
            Block::Figure(fields(&mut noise)),
            Block::Figure(occupation(&mut noise)),
            Block::Heading("Beside others".to_owned()),
            Block::Figure(comparison()),
            Block::Figure(drawing()),
            Block::Heading("Hard to fit".to_owned()),
            Block::Figure(crowded(&mut noise)),
            Block::Figure(long_names()),
        ],
        facts: [("version", "0.1.0"), ("seed", "7"), ("step size", "0.05"), ("epoch", "100 steps"), ("machine", "2 cores")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .to_vec(),
        command: "acrl demo --seed 7 --steps 100000 --runs 20".to_owned(),
    }
}

fn table() -> Table {
    let cell = |text: &str, tone| Cell { text: text.to_owned(), tone };
    let row = |name: &str, good: bool, shares: [&str; 4]| {
        let tone = if good { Tone::Good } else { Tone::Bad };
        let mut row = vec![cell(name, Tone::Plain)];
        row.extend(shares.map(|share| cell(share, if good { Tone::Plain } else { Tone::Faint })));
        row.push(cell(if good { "met" } else { "short by 0.12" }, tone));
        row
    };
    Table {
        header: ["method", "red", "blue", "green", "orange", "requirements"].map(str::to_owned).to_vec(),
        rows: vec![
            row("A-CRL", true, ["0.201", "0.154", "0.251", "0.302"]),
            row("fixed weights", false, ["0.931", "0.000", "0.021", "0.048"]),
            row("primal-dual", false, ["0.115", "0.034", "0.251", "0.402"]),
        ],
        note: "Shares of time, the least of 20 runs. Required: red 0.2, blue 0.15, green 0.25, orange 0.3."
            .to_owned(),
    }
}

fn averages(noise: &mut Noise) -> Figure {
    let bounds = [0.2, 0.15, 0.25, 0.3];
    let series = NAMES.iter().zip(bounds).enumerate().map(|(i, (name, bound))| {
        let x: Vec<f64> = (0..400).map(|k| 250.0 * f64::from(k)).collect();
        let mut state = 0.0;
        let y: Vec<f64> = x
            .iter()
            .map(|x| {
                state = 0.97 * state + 0.03 * noise.next();
                bound + (0.2 * state + 0.1 * (i as f64 - 1.5)) * (-x / 15_000.0).exp() + 0.004
            })
            .collect();
        let wide = |x: f64| 0.02 + 0.08 * (-x / 10_000.0).exp();
        let band = Band {
            name: "least and most of 20 runs".to_owned(),
            low: x.iter().zip(&y).map(|(x, y)| (y - wide(*x)).max(0.0)).collect(),
            high: x.iter().zip(&y).map(|(x, y)| y + wide(*x)).collect(),
        };
        Series {
            name: (*name).to_owned(),
            colour: Colour::of(name, i),
            x,
            y,
            band: Some(band),
            steps: false,
            dashed: false,
        }
    });
    let bounds = NAMES.iter().zip(bounds).map(|(name, value)| Bound {
        name: format!("{name} ≥ {value}"),
        value,
        colour: Colour::of(name, 0),
    });
    Figure {
        name: "averages".to_owned(),
        title: "Averages come to what is required".to_owned(),
        caption: "Average of each reward since the start. Dashed: the required level.".to_owned(),
        columns: 1,
        panels: vec![Panel {
            title: String::new(),
            plot: Plot::Lines(Lines {
                x: Axis { label: "step".to_owned(), ..Axis::default() },
                y: Axis { label: "share of time".to_owned(), ..Axis::default() },
                series: series.collect(),
                bounds: bounds.collect(),
            }),
        }],
    }
}

fn multipliers(noise: &mut Noise) -> Figure {
    let panel = |title: &str, noise: &mut Noise, log: bool| {
        let series = NAMES.iter().enumerate().map(|(i, name)| {
            let x: Vec<f64> = (1..120).map(|k| f64::from(k) * 100.0).collect();
            let mut state = 0.5;
            let mut y: Vec<f64> = x
                .iter()
                .map(|_| {
                    state = (state + 0.08 * noise.next()).max(0.01);
                    state * if log { 100.0 } else { 1.0 }
                })
                .collect();
            y[50] = f64::NAN;
            Series {
                name: (*name).to_owned(),
                colour: Colour::of(name, i),
                x,
                y,
                band: None,
                steps: true,
                dashed: i == 3,
            }
        });
        Panel {
            title: title.to_owned(),
            plot: Plot::Lines(Lines {
                x: Axis { label: "step".to_owned(), ..Axis::default() },
                y: Axis { label: "multiplier λ".to_owned(), log, ..Axis::default() },
                series: series.collect(),
                bounds: vec![],
            }),
        }
    };
    Figure {
        name: "multipliers".to_owned(),
        title: "Multipliers switch the behaviour".to_owned(),
        caption: "Each multiplier grows while its requirement is behind. Left: the first run; right: powers of ten.".to_owned(),
        columns: 2,
        panels: vec![panel("run 1", noise, false), panel("run 2", noise, true)],
    }
}

fn regions() -> Vec<Region> {
    let square = |(x, y): (f64, f64)| {
        vec![(x - 1.0, y - 1.0), (x + 1.0, y - 1.0), (x + 1.0, y + 1.0), (x - 1.0, y + 1.0)]
    };
    let region = |(i, name): (usize, &&str)| Region {
        name: (*name).to_owned(),
        colour: Colour::of(name, i),
        outline: square(CENTRES[i]),
    };
    NAMES.iter().enumerate().map(region).collect()
}

/// Where the most pressing region is, more or less: what a trained policy does.
fn arrows(target: (f64, f64)) -> Vec<Arrow> {
    let side = |k: u32| 0.3 + 9.4 * f64::from(k) / 16.0;
    (0..17 * 17)
        .map(|k| {
            let (x, y) = (side(k % 17), side(k / 17));
            let (dx, dy) = (target.0 - x, target.1 - y);
            let shrink = 1.0 / (0.6 + dx.hypot(dy));
            Arrow { x, y, dx: dx * shrink, dy: dy * shrink }
        })
        .collect()
}

fn field(noise: &mut Noise) -> Figure {
    let shape = [6, 32, 32, 2];
    let count: usize = shape.windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum();
    let model = Model::Mlp {
        objective: false,
        scales: vec![1.0; 5],
        observation: vec![(5.0, 0.2), (5.0, 0.2)],
        rest: vec![],
        output: vec![(0.0, 1.0), (0.0, 1.0)],
        longest: Some(1.0),
        shape: shape.to_vec(),
        parameters: (0..count).map(|_| 0.6 * noise.next() as f32).collect(),
    };
    let sliders = NAMES.iter().enumerate().map(|(i, name)| Slider {
        name: (*name).to_owned(),
        colour: Colour::of(name, i),
        value: 0.25 * (i + 1) as f64,
        most: 3.0,
    });
    Figure {
        name: "policy".to_owned(),
        title: "Where the agent goes".to_owned(),
        caption: "Move a multiplier and see where the agent would go.".to_owned(),
        columns: 1,
        panels: vec![Panel {
            title: String::new(),
            plot: Plot::Field(Field {
                area: AREA,
                regions: regions(),
                arrows: arrows(CENTRES[3]),
                sliders: sliders.collect(),
                model: Some(model),
            }),
        }],
    }
}

fn fields(_: &mut Noise) -> Figure {
    let panel = |i: usize| Panel {
        title: format!("{} is most pressing", NAMES[i]),
        plot: Plot::Field(Field {
            area: AREA,
            regions: regions(),
            arrows: arrows(CENTRES[i]),
            sliders: vec![],
            model: None,
        }),
    };
    Figure {
        name: "behaviours".to_owned(),
        title: "Four behaviours of one policy".to_owned(),
        caption: "The same policy for four multipliers.".to_owned(),
        columns: 2,
        panels: (0..4).map(panel).collect(),
    }
}

fn occupation(noise: &mut Noise) -> Figure {
    let panel = |title: &str, noise: &mut Noise, columns: usize| {
        let cell = 10.0 / columns as f64;
        let mut shares: Vec<f64> = (0..columns * columns)
            .map(|k| {
                let at = ((k % columns) as f64 * cell + cell / 2.0, (k / columns) as f64 * cell + cell / 2.0);
                let near = CENTRES
                    .iter()
                    .map(|c| (-3.0 * ((c.0 - at.0).powi(2) + (c.1 - at.1).powi(2))).exp())
                    .sum::<f64>();
                let way = (-6.0 * ((at.0 - 5.0).abs().min((at.1 - 5.0).abs()))).exp() * 0.01;
                near + way + 0.001 * (1.0 + noise.next())
            })
            .collect();
        let total: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= total);
        Panel {
            title: title.to_owned(),
            plot: Plot::Heat(Heat { area: AREA, regions: regions(), columns, shares }),
        }
    };
    Figure {
        name: "occupation".to_owned(),
        title: "Where the time goes".to_owned(),
        caption: "Share of time in each cell.".to_owned(),
        columns: 2,
        panels: vec![panel("A-CRL", noise, 40), panel("primal-dual", noise, 20)],
    }
}

fn comparison() -> Figure {
    let bar = |name: &str, colour, values: [f64; 4]| Bar {
        name: name.to_owned(),
        colour,
        values: values.to_vec(),
        ranges: values.iter().map(|v| (v - 0.03_f64.min(*v), v + 0.02)).collect(),
    };
    Figure {
        name: "comparison".to_owned(),
        title: "The same budget for every method".to_owned(),
        caption: "Share of time in each region: the mean of 20 runs, and the least and the most.".to_owned(),
        columns: 1,
        panels: vec![Panel {
            title: String::new(),
            plot: Plot::Bars(Bars {
                categories: NAMES.map(str::to_owned).to_vec(),
                y: Axis { label: "share of time".to_owned(), ..Axis::default() },
                bars: vec![
                    bar("A-CRL", Colour::Blue, [0.204, 0.155, 0.253, 0.304]),
                    bar("primal-dual", Colour::Orange, [0.115, 0.034, 0.251, 0.402]),
                    bar("fixed weights", Colour::Grey, [0.62, 0.0, 0.021, 0.048]),
                ],
                bounds: vec![Some(0.2), Some(0.15), Some(0.25), Some(0.3)],
            }),
        }],
    }
}

fn drawing() -> Figure {
    let node = |x: u32, name: &str, class: &str| {
        format!(
            "<circle cx='{x}' cy='60' r='30' class='{class}' opacity='0.85'/><text x='{x}' y='65' text-anchor='middle' fill='currentColor'>{name}</text>"
        )
    };
    let arrow = |x: u32| {
        format!(
            "<path d='M{} 60 h60 m-8 -5 l8 5 l-8 5' fill='none' stroke='currentColor' stroke-width='1.5'/>",
            x + 35
        )
    };
    let elements = [
        node(60, "R1", "red"),
        arrow(60),
        node(190, "R0", "grey"),
        arrow(190),
        node(320, "R2", "blue"),
    ]
    .concat()
        + "<text x='190' y='112' text-anchor='middle' class='faint' fill='currentColor'>the agent moves one place at a time</text>";
    Figure {
        name: "monitoring".to_owned(),
        title: "The monitoring problem".to_owned(),
        caption: "Three states; the agent is to be a third of the time in R1 and in R2.".to_owned(),
        columns: 1,
        panels: vec![Panel {
            title: String::new(),
            plot: Plot::Drawing { width: 380.0, height: 120.0, elements },
        }],
    }
}

/// Bounds that are equal, or too close for their labels, in narrow panels.
fn crowded(noise: &mut Noise) -> Figure {
    let panel = |title: &str, bounds: [f64; 4], noise: &mut Noise| {
        let series = NAMES.iter().enumerate().map(|(i, name)| {
            let x: Vec<f64> = (0..50_000).map(|k| 20.0 * f64::from(k)).collect();
            let y = x.iter().map(|x| bounds[i] + 0.3 * (-x / 2e5).exp() + 0.02 * noise.next()).collect();
            Series {
                name: (*name).to_owned(),
                colour: Colour::of(name, i),
                x,
                y,
                band: None,
                steps: false,
                dashed: false,
            }
        });
        let series: Vec<Series> = series
            .map(|mut series| {
                let kept = acrl_report::thin(&series.x, &series.y, 800);
                series.x = kept.iter().map(|k| series.x[*k]).collect();
                series.y = kept.iter().map(|k| series.y[*k]).collect();
                series
            })
            .collect();
        let bounds = NAMES.iter().zip(bounds).map(|(name, value)| Bound {
            name: format!("{name} ≥ {value}"),
            value,
            colour: Colour::of(name, 0),
        });
        let bounds = bounds.collect();
        let (x, y) = (Axis { label: "step".to_owned(), ..Axis::default() }, Axis::default());
        Panel { title: title.to_owned(), plot: Plot::Lines(Lines { x, y, series, bounds }) }
    };
    Figure {
        name: "crowded".to_owned(),
        title: "Three panels in a row".to_owned(),
        caption: "Equal bounds share a label, close ones are moved apart.".to_owned(),
        columns: 3,
        panels: vec![
            panel("all the same", [0.2; 4], noise),
            panel("two and two", [0.2, 0.2, 0.6, 0.61], noise),
            panel("close together", [0.2, 0.21, 0.22, 0.23], noise),
        ],
    }
}

fn long_names() -> Figure {
    let names = [
        "A-CRL",
        "fixed weights",
        "dual descent",
        "primal-dual",
        "PID-Lagrangian",
        "primal averaging by occupancy",
    ];
    let bar = |name: &str, colour, scale: f64| Bar {
        name: name.to_owned(),
        colour,
        values: (1..=6).map(|k| scale / f64::from(k)).collect(),
        ranges: vec![],
    };
    Figure {
        name: "long-names".to_owned(),
        title: "Shortfall, in units of what is tolerated".to_owned(),
        caption: "On a logarithmic axis.".to_owned(),
        columns: 1,
        panels: vec![Panel {
            title: String::new(),
            plot: Plot::Bars(Bars {
                categories: names.map(str::to_owned).to_vec(),
                y: Axis { label: "shortfall".to_owned(), log: true, ..Axis::default() },
                bars: vec![bar("first draw", Colour::Purple, 40.0), bar("second draw", Colour::Sky, 0.9)],
                bounds: vec![Some(1.0); 6],
            }),
        }],
    }
}
