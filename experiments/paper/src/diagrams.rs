//! Figs. 1 and 2, drawn.

use std::fmt::Write as _;

use acrl::FiniteCmdp;
use acrl_report::{Figure, Panel, Plot};

/// Elements of a drawing.
#[derive(Default)]
struct Drawing(String);

impl Drawing {
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.0.write_fmt(element);
    }

    /// Text around a point.
    fn text(&mut self, x: f64, y: f64, size: f64, text: &str) {
        self.add(format_args!(
            "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" text-anchor=\"middle\" fill=\"currentColor\">{text}</text>"
        ));
    }

    fn rectangle(&mut self, [x, y, width, height]: [f64; 4], class: &str) {
        let filled = if class.is_empty() { "fill=\"none\"" } else { "fill-opacity=\"0.25\"" };
        self.add(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"4\" class=\"{class}\" {filled} \
             stroke=\"currentColor\" stroke-width=\"1.5\"/>"
        ));
    }

    fn circle(&mut self, [x, y]: [f64; 2], radius: f64, class: &str) {
        self.add(format_args!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" class=\"{class}\" fill-opacity=\"0.25\" stroke=\"currentColor\" \
             stroke-width=\"1.5\"/>"
        ));
    }

    /// A line through points, with a head at its end.
    fn arrow(&mut self, points: &[[f64; 2]], dashed: bool) {
        let [.., from, to] = points else { return };
        let list: Vec<String> = points.iter().map(|[x, y]| format!("{x:.1},{y:.1}")).collect();
        let dash = if dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        self.add(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\"{dash}/>",
            list.join(" ")
        ));
        let length = (to[0] - from[0]).hypot(to[1] - from[1]).max(1e-9);
        let [ux, uy] = [(to[0] - from[0]) / length, (to[1] - from[1]) / length];
        let side = |s: f64| [to[0] - 9.0 * ux - s * 4.0 * uy, to[1] - 9.0 * uy + s * 4.0 * ux];
        let ([ax, ay], [bx, by]) = (side(1.0), side(-1.0));
        self.add(format_args!(
            "<polygon points=\"{:.1},{:.1} {ax:.1},{ay:.1} {bx:.1},{by:.1}\" fill=\"currentColor\"/>",
            to[0], to[1]
        ));
    }

    fn panel(self, title: &str, width: f64, height: f64) -> Panel {
        Panel::new(title, Plot::Drawing { width, height, elements: self.0 })
    }
}

/// Fig. 1: the plane with two regions, and the model as it is: an arrow for every choice.
pub(crate) fn problem(model: &FiniteCmdp) -> Figure {
    let mut plane = Drawing::default();
    plane.rectangle([20.0, 20.0, 320.0, 200.0], "");
    plane.rectangle([45.0, 120.0, 80.0, 80.0], "blue");
    plane.rectangle([235.0, 40.0, 80.0, 80.0], "orange");
    plane.text(85.0, 165.0, 16.0, "R1");
    plane.text(275.0, 85.0, 16.0, "R2");
    plane.text(180.0, 60.0, 14.0, "agent");
    plane.circle([180.0, 80.0], 7.0, "grey");
    plane.arrow(&[[172.0, 88.0], [150.0, 110.0], [130.0, 145.0]], true);
    plane.arrow(&[[189.0, 82.0], [210.0, 92.0], [231.0, 88.0]], true);

    let mut graph = Drawing::default();
    let at = |s: usize| [180.0 + 120.0 * [0.0, -1.0, 1.0][s.min(2)], 120.0];
    let radius = 28.0;
    for s in 0..model.states().min(3) {
        graph.circle(at(s), radius, ["grey", "blue", "orange"][s]);
        graph.text(at(s)[0], at(s)[1] + 6.0, 18.0, &model.state_name(s));
        for c in model.choices(s) {
            for &to in model.choice(c).targets {
                let (from, to) = (at(s), at(to as usize));
                if from == to {
                    // A loop above the state: a circle, open where it meets the state's.
                    let [x, y] = [from[0], from[1] - radius - 14.0];
                    let (open, radius) = (0.607, 20.0);
                    let angle = |i: i32| open + (std::f64::consts::TAU - 2.0 * open) * f64::from(i) / 24.0;
                    let point = |a: f64| [x - radius * a.sin(), y + radius * a.cos()];
                    let points: Vec<_> = (0..=24).map(angle).map(point).collect();
                    graph.arrow(&points, false);
                } else {
                    let way = (to[0] - from[0]).signum();
                    let y = from[1] + 10.0 * way;
                    graph.arrow(&[[from[0] + way * 29.0, y], [to[0] - way * 29.0, y]], false);
                }
            }
        }
    }
    graph.text(60.0, 185.0, 14.0, "at least c1 = 1/3");
    graph.text(180.0, 205.0, 14.0, "as much as possible");
    graph.text(300.0, 185.0, 14.0, "at least c2 = 1/3");
    Figure::new(
        "fig1",
        "The monitoring problem",
        "An agent must spend a share c1 of its time at R1 and c2 at R2, and otherwise be at R0. Left: in the plane. \
         Right: the three states of Example 1, with an arrow for every action.",
        2,
        vec![
            plane.panel("In the plane", 360.0, 240.0),
            graph.panel("As three states (Example 1)", 360.0, 240.0),
        ],
    )
}

/// Fig. 2: the block diagram.
pub(crate) fn augmented_state() -> Figure {
    let mut d = Drawing::default();
    let block = |d: &mut Drawing, [x, y]: [f64; 2], class: &str, lines: &[&str]| {
        d.rectangle([x, y, 260.0, 60.0], class);
        for (i, line) in lines.iter().enumerate() {
            let top = y + 37.0 - 10.0 * (lines.len() as f64 - 1.0);
            d.text(x + 130.0, top + 20.0 * i as f64, 15.0, line);
        }
    };
    block(&mut d, [150.0, 20.0], "", &["environment", "s(t+1) ~ p( s(t+1) | s(t), a(t) )"]);
    block(&mut d, [150.0, 120.0], "blue", &["policy", "a(t) ~ π( s(t), λ(k) )"]);
    block(&mut d, [150.0, 220.0], "red", &["dual dynamics", "λ ← [ λ − η ( mean r − c ) ]₊"]);
    // s from the environment to the policy, along the left.
    d.arrow(&[[150.0, 50.0], [70.0, 50.0], [70.0, 140.0], [150.0, 140.0]], false);
    d.text(48.0, 98.0, 15.0, "s(t)");
    // λ from the dual dynamics to the policy, along the left.
    d.arrow(&[[150.0, 250.0], [70.0, 250.0], [70.0, 160.0], [150.0, 160.0]], false);
    d.text(48.0, 210.0, 15.0, "λ(k)");
    // a from the policy to the environment and to the dual dynamics, along the right.
    d.arrow(&[[410.0, 150.0], [490.0, 150.0], [490.0, 60.0], [410.0, 60.0]], false);
    d.text(515.0, 108.0, 15.0, "a(t)");
    // The rewards of an epoch.
    d.arrow(&[[410.0, 40.0], [560.0, 40.0], [560.0, 250.0], [410.0, 250.0]], false);
    d.text(555.0, 275.0, 15.0, "r(t), T0 steps");
    d.text(280.0, 312.0, 13.0, "the augmented state is (s(t), λ(k)): λ moves once in T0 steps");
    Figure::new(
        "fig2",
        "The augmented state",
        "Training learns the policy (blue) for all multipliers. Execution runs the dual dynamics (red) beside it: the \
         multipliers are part of the state.",
        1,
        vec![d.panel("", 640.0, 330.0)],
    )
}
