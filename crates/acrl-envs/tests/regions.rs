//! Regions: what is inside, on the edge and outside, and which regions are refused.

#![allow(clippy::unwrap_used)]

use acrl::Rng;
use acrl_envs::{Planar, PlanarParameters, Region, Shape};

fn polygon(vertices: &[[f64; 2]]) -> Shape {
    Shape::Polygon { vertices: vertices.to_vec() }
}

/// A square with a piece cut out of its east side.
const NOTCHED: [[f64; 2]; 5] = [[1.0, 1.0], [5.0, 1.0], [2.0, 3.0], [5.0, 5.0], [1.0, 5.0]];

#[test]
fn edges_and_corners_belong_to_a_region() {
    let square = Shape::Square { centre: [2.5, 7.5], side: 2.0 };
    let disc = Shape::Disc { centre: [5.0, 5.0], radius: 2.5 };
    let triangle = polygon(&[[1.0, 1.0], [5.0, 1.0], [1.0, 4.0]]);
    let notched = polygon(&NOTCHED);
    let backwards = polygon(&NOTCHED.iter().rev().copied().collect::<Vec<_>>());
    type Points = &'static [[f64; 2]];
    let cases: [(&Shape, Points, Points); 5] = [
        (&square, &[[1.5, 6.5], [3.5, 8.5], [2.5, 6.5], [2.0, 7.0]], &[[1.4999999, 7.0], [3.5, 8.5000001]]),
        (&disc, &[[7.5, 5.0], [5.0, 2.5], [6.5, 7.0], [5.0, 5.0]], &[[7.5, 5.0001], [6.8, 6.8]]),
        (
            &triangle,
            &[[1.0, 1.0], [3.0, 2.5], [5.0, 1.0], [1.0, 2.0], [2.0, 2.0]],
            &[[3.0, 2.51], [0.9, 2.0]],
        ),
        (
            &notched,
            &[[1.0, 1.0], [2.0, 3.0], [3.5, 2.0], [1.5, 3.0], [5.0, 5.0], [1.0, 3.0]],
            &[[2.1, 3.0], [4.0, 3.0], [5.0, 3.0], [0.5, 3.0], [5.5, 1.0], [6.0, 5.0]],
        ),
        (&backwards, &[[2.0, 3.0], [3.5, 2.0], [1.5, 3.0]], &[[2.1, 3.0], [6.0, 5.0]]),
    ];
    for (shape, inside, outside) in cases {
        assert!(inside.iter().all(|point| shape.contains(*point)), "{shape:?}");
        assert!(outside.iter().all(|point| !shape.contains(*point)), "{shape:?}");
    }
    assert!((notched.area() - 10.0).abs() < 1e-12 && (triangle.area() - 6.0).abs() < 1e-12);
    assert_eq!(notched.bounds(), [[1.0, 5.0], [1.0, 5.0]]);
}

/// The angle that the polygon turns round the point: ±2π inside, 0 outside.
fn winds_around(vertices: &[[f64; 2]], point: [f64; 2]) -> bool {
    let angle = |v: [f64; 2]| (v[1] - point[1]).atan2(v[0] - point[0]);
    let next = vertices.iter().cycle().skip(1);
    let turned: f64 = vertices
        .iter()
        .zip(next)
        .map(|(a, b)| {
            (angle(*b) - angle(*a) + 3.0 * std::f64::consts::PI).rem_euclid(std::f64::consts::TAU)
                - std::f64::consts::PI
        })
        .sum();
    turned.abs() > 1.0
}

#[test]
fn polygons_agree_with_the_angle_they_turn_round_a_point() {
    let mut rng = Rng::new(2);
    for case in 0..300 {
        // Seen from the middle in order of angle, so that the line never meets itself; convex or not.
        let corners = 3 + rng.index(8);
        let vertices: Vec<[f64; 2]> = (0..corners)
            .map(|k| {
                let angle = std::f64::consts::TAU * (k as f64 + 0.8 * rng.uniform()) / corners as f64;
                let radius = if case % 2 == 0 { 2.0 } else { 0.5 + 2.0 * rng.uniform() };
                [5.0 + radius * angle.cos(), 5.0 + radius * angle.sin()]
            })
            .collect();
        let shape = polygon(&vertices);
        for _ in 0..200 {
            let point = [2.0 + 6.0 * rng.uniform(), 2.0 + 6.0 * rng.uniform()];
            assert_eq!(shape.contains(point), winds_around(&vertices, point), "{vertices:?} {point:?}");
        }
    }
}

#[test]
fn regions_that_are_none_are_refused_with_their_place() {
    let square = |centre: [f64; 2], side: f64| Shape::Square { centre, side };
    let cases: [(Shape, &str); 15] = [
        (
            square([2.0, 2.0], 0.0),
            "'regions[1].side' of the planar environment is 0, expected a finite number above 0",
        ),
        (square([2.0, 2.0], f64::NAN), "'regions[1].side' of the planar environment is NaN"),
        (square([2.0, 2.0], f64::INFINITY), "'regions[1].side' of the planar environment is inf"),
        (
            square([9.5, 2.0], 2.0),
            "'regions[1].centre' of the planar environment is such that the region reaches from (8.5, 1) to (10.5, 3), expected it to lie in the box from (0, 0) to (10, 10)",
        ),
        (square([f64::NAN, 2.0], 2.0), "'regions[1].centre'"),
        (Shape::Disc { centre: [1.0, 5.0], radius: 1.5 }, "reaches from (-0.5, 3.5)"),
        (
            Shape::Disc { centre: [1.0, 5.0], radius: -1.0 },
            "'regions[1].radius' of the planar environment is -1",
        ),
        (
            polygon(&[[1.0, 1.0], [2.0, 2.0]]),
            "'regions[1].vertices' of the planar environment is a list of 2, expected a list of 3 to 100 points",
        ),
        (polygon(&[[1.0, 1.0]; 101]), "is a list of 101"),
        (polygon(&[[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]), "is a polygon without area"),
        (polygon(&[[1.0, 1.0], [2.0, 2.0], [3.0, f64::NAN]]), "is a list with [3, NaN]"),
        (
            polygon(&[[1.0, 1.0], [3.0, 3.0], [3.0, 1.0], [0.5, 3.5]]),
            "is a line that meets itself (edges 1 and 3)",
        ),
        (
            polygon(&[[1.0, 1.0], [5.0, 1.0], [3.0, 1.0], [3.0, 4.0]]),
            "is a line that meets itself (edges 1 and 2)",
        ),
        (polygon(&[[1.0, 1.0], [5.0, 1.0], [5.0, 11.0]]), "reaches from (1, 1) to (5, 11)"),
        (polygon(&[[1e308, -1e308], [-1e308, 1e308], [1e308, 1e308]]), "'regions[1].vertices'"),
    ];
    for (shape, expected) in cases {
        let mut parameters = PlanarParameters::default();
        parameters.regions[1].shape = shape;
        let error = Planar::new(parameters).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} does not contain {expected:?}");
    }
}

#[test]
fn names_of_regions_differ_and_can_be_written_in_a_requirement() {
    for name in ["", " red", "red", "home", "energy", "a>b", "a=b"] {
        let mut parameters = PlanarParameters::default();
        parameters.regions[1].name = name.to_owned();
        let error = Planar::new(parameters).unwrap_err().to_string();
        let expected =
            format!("'regions[1].name' of the planar environment is '{name}', expected a name that");
        assert!(error.starts_with(&expected), "{error}");
    }
    let none = PlanarParameters { regions: vec![], ..PlanarParameters::default() };
    assert!(
        Planar::new(none)
            .unwrap_err()
            .to_string()
            .contains("'regions' of the planar environment is a list of 0")
    );
    let ok = Region::new("région 1", Shape::Disc { centre: [5.0, 5.0], radius: 5.0 });
    Planar::new(PlanarParameters { regions: vec![ok], ..PlanarParameters::default() }).unwrap();
}
