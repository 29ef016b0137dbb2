//! Draws `docs/images/monitoring.svg`: Algorithm 2 on Example 1, as in Fig. 3 of the paper.
#![allow(missing_docs, clippy::print_stdout)]

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;

use acrl::{DualDynamics, EpochLength, Event, Multipliers, Policy as _, Rng, Task, execute};
use acrl_envs::{Monitoring, MonitoringParameters};
use acrl_exact::{ExactPolicy, FiniteTask};
use plotters::prelude::*;

/// Okabe and Ito's blue, vermilion and grey: told apart by everybody.
const R1: RGBColor = RGBColor(0, 114, 178);
const R2: RGBColor = RGBColor(213, 94, 0);
const R0: RGBColor = RGBColor(120, 120, 120);
const EPOCHS: u64 = 120;

fn main() -> Result<(), Box<dyn Error>> {
    let example = Monitoring::new(MonitoringParameters::default())?;
    let (model, specification) = (example.model()?, example.specification()?);
    let task = FiniteTask::new(&model, &specification)?;
    let mut environment = Task::new(&model, specification.clone())?;
    let mut dynamics = DualDynamics::new(specification.requirements().to_vec(), 0.5, EpochLength::Fixed(10))?;

    // λ after each epoch, and which state the agent is in at each step.
    let mut lambdas: Vec<[f64; 2]> = vec![[0.0, 0.0]];
    let mut states: Vec<usize> = Vec::new();
    let mut exact = ExactPolicy::new(&task);
    let mut policy = |state: &usize, lambda: &Multipliers, rng: &mut Rng| {
        states.push(*state);
        exact.act(state, lambda, rng)
    };
    let mut observer = |event: &Event<'_>| {
        if let Event::Epoch(epoch) = event {
            let l = epoch.multipliers.as_slice();
            lambdas.push([l[0], l[1]]);
        }
        ControlFlow::Continue(())
    };
    execute(&mut environment, &mut policy, &mut dynamics, 10 * EPOCHS, &mut Rng::new(0), &mut observer)?;
    let share = |s: usize| {
        let mut visits = 0.0;
        let mut points = Vec::new();
        for (t, &at) in states.iter().enumerate() {
            visits += f64::from(u8::from(at == s));
            points.push(((t + 1) as f64 / 10.0, visits / (t + 1) as f64));
        }
        points
    };

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images/monitoring.svg");
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    let area = SVGBackend::new(&path, (900, 560)).into_drawing_area();
    area.fill(&WHITE)?;
    let (top, bottom) = area.split_vertically(280);

    let whole = |x: &f64| format!("{x:.0}");
    let mut chart = ChartBuilder::on(&top)
        .caption("share of time so far in each region: required 1/3 at R1 and at R2", ("sans-serif", 17))
        .margin(12)
        .margin_right(60)
        .x_label_area_size(28)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..EPOCHS as f64, 0.0..0.7)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .y_labels(8)
        .x_label_formatter(&whole)
        .draw()?;
    chart.draw_series(LineSeries::new(
        [(0.0, 1.0 / 3.0), (EPOCHS as f64, 1.0 / 3.0)],
        BLACK.mix(0.6).stroke_width(1),
    ))?;
    for (s, colour) in [(0, R0), (1, R1), (2, R2)] {
        let series = LineSeries::new(share(s), colour.stroke_width(2));
        chart
            .draw_series(series)?
            .label(format!("R{s}"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .draw()?;

    let mut chart = ChartBuilder::on(&bottom)
        .caption("multipliers: above 1 the agent stays, below 1 it goes back to R0", ("sans-serif", 17))
        .margin(12)
        .margin_right(60)
        .x_label_area_size(40)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..EPOCHS as f64, 0.0..1.2)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .x_label_formatter(&whole)
        .x_desc("epoch (10 steps each)")
        .draw()?;
    chart.draw_series(LineSeries::new([(0.0, 1.0), (EPOCHS as f64, 1.0)], BLACK.mix(0.6).stroke_width(1)))?;
    for (i, colour) in [(0, R1), (1, R2)] {
        // λ is constant within an epoch: draw steps.
        let steps = lambdas.windows(2).enumerate().flat_map(|(k, pair)| {
            [(k as f64, pair[0][i]), (k as f64 + 1.0, pair[0][i]), (k as f64 + 1.0, pair[1][i])]
        });
        chart
            .draw_series(LineSeries::new(steps, colour.stroke_width(2)))?
            .label(format!("λ{}", i + 1))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE)
        .draw()?;
    area.present()?;
    println!("docs/images/monitoring.svg");
    Ok(())
}
