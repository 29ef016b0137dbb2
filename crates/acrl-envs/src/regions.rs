//! Regions of the plane: squares, discs and polygons, as the problem file gives them.
//!
//! Regions are closed: what lies on an edge is inside.

use acrl::BatchMatrix;
use serde::Deserialize;

use crate::parameter::{Check, ParameterError, is_name};

/// A region with a name.
///
/// In a problem file: `{ name = "red", shape = "square", centre = [2.5, 7.5], side = 2 }`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawRegion")]
pub struct Region {
    /// What its reward is called.
    pub name: String,
    /// Where it is.
    pub shape: Shape,
}

impl Region {
    /// A region with a name.
    pub fn new(name: impl Into<String>, shape: Shape) -> Self {
        Self { name: name.into(), shape }
    }
}

/// A closed set of points of the plane.
///
/// In a problem file: `shape = "square"` with `centre` and `side`, `"disc"` with `centre` and `radius`,
/// `"polygon"` with `vertices`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "RawShape")]
pub enum Shape {
    /// |x − centre₀| ≤ side/2 and |y − centre₁| ≤ side/2.
    Square {
        /// Its middle.
        centre: [f64; 2],
        /// The length of a side.
        side: f64,
    },
    /// |(x, y) − centre| ≤ radius.
    Disc {
        /// Its middle.
        centre: [f64; 2],
        /// Half of its width.
        radius: f64,
    },
    /// The inside of a closed line that does not cross itself, in either direction round.
    Polygon {
        /// Its corners, in order.
        vertices: Vec<[f64; 2]>,
    },
}

/// Each corner costs time in every step of every environment.
const MOST_VERTICES: usize = 100;

impl Shape {
    /// The least and the greatest x and y: `[[x_low, x_high], [y_low, y_high]]`.
    pub fn bounds(&self) -> [[f64; 2]; 2] {
        match self {
            Self::Square { centre, side } => centre.map(|c| [c - side / 2.0, c + side / 2.0]),
            Self::Disc { centre, radius } => centre.map(|c| [c - radius, c + radius]),
            Self::Polygon { vertices } => [0, 1].map(|axis| {
                let along = vertices.iter().map(|v| v[axis]);
                [along.clone().fold(f64::INFINITY, f64::min), along.fold(f64::NEG_INFINITY, f64::max)]
            }),
        }
    }

    /// Its area; of a polygon ½ |Σ (x_k y_{k+1} − x_{k+1} y_k)|.
    pub fn area(&self) -> f64 {
        match self {
            Self::Square { side, .. } => side * side,
            Self::Disc { radius, .. } => std::f64::consts::PI * radius * radius,
            Self::Polygon { vertices } => {
                edges(vertices).map(|(a, b)| a[0] * b[1] - b[0] * a[1]).sum::<f64>().abs() / 2.0
            }
        }
    }

    /// Its middle; of a polygon the mean of its corners.
    pub fn middle(&self) -> [f64; 2] {
        match self {
            Self::Square { centre, .. } | Self::Disc { centre, .. } => *centre,
            Self::Polygon { vertices } => {
                [0, 1].map(|axis| vertices.iter().map(|v| v[axis]).sum::<f64>() / vertices.len() as f64)
            }
        }
    }

    /// Whether a point is inside or on the edge.
    pub fn contains(&self, point: [f64; 2]) -> bool {
        let mut inside = [0.0];
        self.indicate(&[point[0]], &[point[1]], &mut inside);
        inside[0] == 1.0
    }

    /// Writes for each point (x, y) 1 if it is inside or on the edge, else 0.
    pub(crate) fn indicate(&self, x: &[f64], y: &[f64], inside: &mut [f64]) {
        let points = || x.iter().zip(y);
        match self {
            Self::Square { .. } => {
                let [[west, east], [south, north]] = self.bounds();
                for ((&x, &y), inside) in points().zip(inside) {
                    let within = (x >= west) & (x <= east) & (y >= south) & (y <= north);
                    *inside = if within { 1.0 } else { 0.0 };
                }
            }
            Self::Disc { centre: [cx, cy], radius } => {
                let limit = radius * radius;
                for ((&x, &y), inside) in points().zip(inside) {
                    let (dx, dy) = (x - cx, y - cy);
                    *inside = if dx * dx + dy * dy <= limit { 1.0 } else { 0.0 };
                }
            }
            // Edge by edge over all points, so that the inner loops have no branch.
            Self::Polygon { vertices } => match turning(vertices) {
                Some(turning) => indicate_convex(vertices, turning, x, y, inside),
                None => indicate_simple(vertices, x, y, inside),
            },
        }
    }

    /// Fails unless it lies in the box [0, width] × [0, height] and has an area; `key` is its parameter.
    pub(crate) fn check(
        &self,
        check: &Check,
        key: &str,
        [width, height]: [f64; 2],
    ) -> Result<(), ParameterError> {
        let positive = |part: &str, value: f64| {
            let expected = "a finite number above 0";
            let fine = value.is_finite() && value > 0.0;
            if fine { Ok(()) } else { Err(check.error(format!("{key}.{part}"), value, expected)) }
        };
        let part = match self {
            Self::Square { side, .. } => positive("side", *side).map(|()| "centre"),
            Self::Disc { radius, .. } => positive("radius", *radius).map(|()| "centre"),
            Self::Polygon { vertices } => check_polygon(vertices, check, key).map(|()| "vertices"),
        }?;
        let [[west, east], [south, north]] = self.bounds();
        // Written so that a NaN is outside too.
        let inside = west >= 0.0 && east <= width && south >= 0.0 && north <= height;
        if !inside {
            let value = format!("such that the region reaches from ({west}, {south}) to ({east}, {north})");
            let expected = format!("it to lie in the box from (0, 0) to ({width}, {height})");
            return Err(check.error(format!("{key}.{part}"), value, expected));
        }
        Ok(())
    }
}

/// Inside a convex polygon is what is on the inner side of each edge.
fn indicate_convex(vertices: &[[f64; 2]], turning: f64, x: &[f64], y: &[f64], inside: &mut [f64]) {
    inside.fill(f64::INFINITY);
    for (a, b) in edges(vertices) {
        let (across, up) = (turning * (b[0] - a[0]), turning * (b[1] - a[1]));
        for ((&x, &y), depth) in x.iter().zip(y).zip(inside.iter_mut()) {
            let inward = across * (y - a[1]) - up * (x - a[0]);
            *depth = if inward < *depth { inward } else { *depth };
        }
    }
    inside.iter_mut().for_each(|depth| *depth = if *depth >= 0.0 { 1.0 } else { 0.0 });
}

/// Inside any polygon is what has an odd number of edges to the east of it.
fn indicate_simple(vertices: &[[f64; 2]], x: &[f64], y: &[f64], inside: &mut [f64]) {
    // A point holds 0 or 1, the parity so far, or ∞ once it was found on an edge; |v − 1| turns the parity and
    // keeps ∞.
    inside.fill(0.0);
    for (a, b) in edges(vertices) {
        let (across, up) = (b[0] - a[0], b[1] - a[1]);
        let [west, east] = [a[0].min(b[0]), a[0].max(b[0])];
        let [south, north] = [a[1].min(b[1]), a[1].max(b[1])];
        let upward = up > 0.0;
        for ((&x, &y), v) in x.iter().zip(y).zip(inside.iter_mut()) {
            let left = across * (y - a[1]) - up * (x - a[0]);
            let meets = ((a[1] > y) != (b[1] > y)) & ((left > 0.0) == upward);
            let on_edge = (left == 0.0) & (x >= west) & (x <= east) & (y >= south) & (y <= north);
            let turned = if meets { (*v - 1.0).abs() } else { *v };
            *v = if on_edge { f64::INFINITY } else { turned };
        }
    }
    inside.iter_mut().for_each(|v| *v = v.min(1.0));
}

/// 1 if a polygon is convex and goes round to the left, −1 if it is and goes to the right.
fn turning(vertices: &[[f64; 2]]) -> Option<f64> {
    let thirds = vertices.iter().copied().cycle().skip(2);
    let mut turns = edges(vertices).zip(thirds).map(|((a, b), c)| side(a, b, c));
    let left = turns.clone().all(|turn| turn >= 0.0);
    if left { Some(1.0) } else { turns.all(|turn| turn <= 0.0).then_some(-1.0) }
}

fn check_polygon(vertices: &[[f64; 2]], check: &Check, key: &str) -> Result<(), ParameterError> {
    let key = format!("{key}.vertices");
    if !(3..=MOST_VERTICES).contains(&vertices.len()) {
        let value = format!("a list of {}", vertices.len());
        return Err(check.error(key, value, format!("a list of 3 to {MOST_VERTICES} points [x, y]")));
    }
    if let Some([x, y]) = vertices.iter().find(|v| v.iter().any(|c| !c.is_finite())) {
        return Err(check.error(key, format!("a list with [{x}, {y}]"), "finite numbers"));
    }
    let polygon = Shape::Polygon { vertices: vertices.to_vec() };
    if polygon.area() <= 0.0 {
        return Err(check.error(key, "a polygon without area", "corners that are not on one line"));
    }
    let n = vertices.len();
    let list: Vec<_> = edges(vertices).collect();
    for i in 0..n {
        for j in i + 1..n {
            let neighbours = j == i + 1 || (i == 0 && j == n - 1);
            let ((a, b), (c, d)) = (list[i], list[j]);
            // Neighbours share a corner: they are at fault only if they run back over each other.
            let crossing = if neighbours {
                let shared = if j == i + 1 { b } else { a };
                let (p, q) = if j == i + 1 { (a, d) } else { (b, c) };
                let ahead = (p[0] - shared[0]) * (q[0] - shared[0]) + (p[1] - shared[1]) * (q[1] - shared[1]);
                side(p, shared, q) == 0.0 && ahead >= 0.0
            } else {
                cross(a, b, c, d)
            };
            if crossing {
                let value = format!("a line that meets itself (edges {} and {})", i + 1, j + 1);
                return Err(check.error(key, value, "the corners in order round the region"));
            }
        }
    }
    Ok(())
}

/// Above 0 if c is to the left of the way from a to b, 0 on the line.
fn side(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> f64 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

/// Whether the segments ab and cd have a point in common.
fn cross(a: [f64; 2], b: [f64; 2], c: [f64; 2], d: [f64; 2]) -> bool {
    let between = |a: [f64; 2], b: [f64; 2], c: [f64; 2]| {
        side(a, b, c) == 0.0 && (0..2).all(|k| c[k] >= a[k].min(b[k]) && c[k] <= a[k].max(b[k]))
    };
    let strictly = side(a, b, c) * side(a, b, d) < 0.0 && side(c, d, a) * side(c, d, b) < 0.0;
    strictly || between(a, b, c) || between(a, b, d) || between(c, d, a) || between(c, d, b)
}

fn edges(vertices: &[[f64; 2]]) -> impl Iterator<Item = ([f64; 2], [f64; 2])> + Clone + '_ {
    vertices.iter().copied().zip(vertices.iter().copied().cycle().skip(1))
}

/// Checks regions and a home: their names, and that they lie in the box.
pub(crate) fn check_regions(
    check: &Check,
    regions: &[Region],
    home: Option<&Shape>,
    size: [f64; 2],
) -> Result<(), ParameterError> {
    check.items("regions", regions.len(), "regions")?;
    for (i, Region { name, shape }) in regions.iter().enumerate() {
        let taken = ["home", "energy"].contains(&name.as_str());
        let own = is_name(name) && !taken && !regions[..i].iter().any(|other| other.name == *name);
        let expected =
            || "a name that nothing else has (home, energy are taken), without <, > or =".to_owned();
        check.within(&format!("regions[{i}].name"), format!("'{name}'"), own, expected)?;
        shape.check(check, &format!("regions[{i}]"), size)?;
    }
    home.map_or(Ok(()), |home| home.check(check, "home", size))
}

/// Writes to the first rows of `rewards` which shapes the points in rows 0 and 1 of a state are in.
pub(crate) fn indicate_all<'a>(
    shapes: impl Iterator<Item = &'a Shape>,
    state: &BatchMatrix,
    rewards: &mut BatchMatrix,
) {
    let (x, y) = (state.row(0), state.row(1));
    for (i, shape) in shapes.enumerate() {
        shape.indicate(x, y, rewards.row_mut(i));
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table: name, shape, and what the shape needs")]
struct RawRegion {
    name: String,
    shape: ShapeName,
    centre: Option<Point>,
    side: Option<f64>,
    radius: Option<f64>,
    vertices: Option<Vec<Point>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table: shape, and what the shape needs")]
struct RawShape {
    shape: ShapeName,
    centre: Option<Point>,
    side: Option<f64>,
    radius: Option<f64>,
    vertices: Option<Vec<Point>>,
}

/// Two numbers and not three, which an array would let pass.
#[derive(Deserialize)]
#[serde(try_from = "Vec<f64>")]
struct Point([f64; 2]);

impl TryFrom<Vec<f64>> for Point {
    type Error = String;

    fn try_from(numbers: Vec<f64>) -> Result<Self, String> {
        let count = numbers.len();
        numbers.try_into().map(Self).map_err(|_| format!("a list of {count}, expected a point [x, y]"))
    }
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase", expecting = "square, disc or polygon")]
enum ShapeName {
    Square,
    Disc,
    Polygon,
}

impl TryFrom<RawShape> for Shape {
    type Error = String;

    fn try_from(raw: RawShape) -> Result<Self, String> {
        let RawShape { shape, centre, side, radius, vertices } = raw;
        match (shape, centre, side, radius, vertices) {
            (ShapeName::Square, Some(Point(centre)), Some(side), None, None) => {
                Ok(Self::Square { centre, side })
            }
            (ShapeName::Disc, Some(Point(centre)), None, Some(radius), None) => {
                Ok(Self::Disc { centre, radius })
            }
            (ShapeName::Polygon, None, None, None, Some(vertices)) => {
                Ok(Self::Polygon { vertices: vertices.into_iter().map(|Point(at)| at).collect() })
            }
            (ShapeName::Square, ..) => Err("a square needs 'centre' and 'side' and nothing else".into()),
            (ShapeName::Disc, ..) => Err("a disc needs 'centre' and 'radius' and nothing else".into()),
            (ShapeName::Polygon, ..) => Err("a polygon needs 'vertices' and nothing else".into()),
        }
    }
}

impl TryFrom<RawRegion> for Region {
    type Error = String;

    fn try_from(raw: RawRegion) -> Result<Self, String> {
        let RawRegion { name, shape, centre, side, radius, vertices } = raw;
        let shape = Shape::try_from(RawShape { shape, centre, side, radius, vertices })
            .map_err(|e| format!("region '{name}': {e}"))?;
        Ok(Self { name, shape })
    }
}
