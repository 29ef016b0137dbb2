//! Continuous environments in the problem file, and error messages about wrong files.

#![allow(clippy::unwrap_used)]

use acrl::EpochLength;
use acrl_envs::{Continuous, Problem, Shape, Source};

fn environment(kind: &str, text: &str) -> String {
    format!("[environment]\nkind = '{kind}'\n{text}")
}

fn message(text: &str) -> String {
    let error = Problem::parse(text).expect_err(text).to_string();
    assert!(!error.contains('\n'), "{error:?} has more than one line");
    error
}

#[test]
fn a_planar_file_defines_its_regions() {
    let text = environment(
        "planar",
        "width = 20\nheight = 5\nspeed_limit = 3\nenergy = true\nsampling_time = 0.1
regions = [{ name = 'a', shape = 'disc', centre = [18, 2.5], radius = 1 }]
home = { shape = 'polygon', vertices = [[0, 0], [2, 0], [0, 2]] }",
    );
    let problem = Problem::parse(&text).unwrap();
    let Source::Continuous(Continuous::Planar(planar)) = &problem.source else { panic!("not planar") };
    let p = planar.parameters();
    assert_eq!(
        (p.width, p.height, p.speed_limit, p.energy, p.sampling_time),
        (20.0, 5.0, Some(3.0), true, 0.1)
    );
    assert_eq!(p.regions[0].shape, Shape::Disc { centre: [18.0, 2.5], radius: 1.0 });
    assert_eq!(problem.source.reward_names().unwrap(), ["a", "home", "energy"]);
    assert_eq!(problem.specification.names(), ["a"]);
}

#[test]
fn given_run_settings_differ_from_defaults() {
    let run = |text: &str| Problem::parse(&environment("planar", &format!("[run]\n{text}"))).unwrap().run;
    let given = |text: &str| (run(text).step_size, run(text).epoch);
    assert_eq!(given("steps = 3"), (None, None));
    assert_eq!(given("step_size = 0.5"), (Some(0.5), None));
    assert_eq!(given("epoch = 'auto'"), (None, Some(EpochLength::Auto(10))));
    assert_eq!(given("epoch_start = 10"), (None, Some(EpochLength::Auto(10))));
    assert_eq!(given("epoch = 1\nstep_size = 0.01"), (Some(0.01), Some(EpochLength::Fixed(1))));
}

#[test]
fn every_wrong_parameter_gets_an_error_of_one_sentence() {
    let square = "shape = 'square', centre = [5, 5], side = 2";
    let region = |keys: &str| format!("regions = [{{ {keys} }}]");
    let cases = [
        (
            "planar",
            "width = 0".into(),
            "line 3: 'width' of the planar environment is 0, expected a number above 0 and at most",
        ),
        ("planar", "height = -1".into(), "line 3: 'height' of the planar environment is -1"),
        (
            "planar",
            "width = 'x'".into(),
            "line 3: 'width' in [environment]: invalid type: string \"x\", expected a number",
        ),
        ("planar", "sampling_time = nan".into(), "line 3: 'sampling_time' of the planar environment is NaN"),
        ("planar", "speed_limit = inf".into(), "line 3: 'speed_limit' of the planar environment is inf"),
        (
            "planar",
            "energy = true".into(),
            "line 3: 'energy' of the planar environment is true, expected false, unless",
        ),
        (
            "planar",
            "energy = 1".into(),
            "line 3: 'energy' in [environment]: invalid type: integer '1', expected a boolean",
        ),
        ("planar", "regions = []".into(), "line 3: 'regions' of the planar environment is a list of 0"),
        (
            "planar",
            "regions = 3".into(),
            "line 3: 'regions' in [environment]: invalid type: integer '3', expected a list",
        ),
        (
            "planar",
            "regions = [3]".into(),
            "line 3: 'regions' in [environment]: invalid type: integer '3', expected a table: name",
        ),
        ("planar", region(square), "line 3: 'regions' in [environment]: missing key 'name'"),
        (
            "planar",
            region("name = 'a', shape = 'ring'"),
            "line 3: 'regions' in [environment]: unknown variant 'ring', expected one of 'square', 'disc', 'polygon'",
        ),
        (
            "planar",
            region("name = 'a', shape = 'disc', side = 1"),
            "line 3: 'regions' in [environment]: region 'a': a disc needs 'centre' and 'radius' and nothing else",
        ),
        (
            "planar",
            region("name = 'a', shape = 'square', centre = [1, 2, 3], side = 1"),
            "line 3: 'regions' in [environment]: a list of 3, expected a point [x, y]",
        ),
        (
            "planar",
            region(&format!("name = 'a', center = [1, 2], {square}")),
            "line 3: 'regions' in [environment]: unknown key 'center', expected one of 'name'",
        ),
        (
            "planar",
            region(&format!("name = 'home', {square}")),
            "line 3: 'regions[0].name' of the planar environment is 'home', expected a name",
        ),
        (
            "planar",
            "home = { shape = 'disc', centre = [0, 0], radius = 1 }".into(),
            "line 3: 'home.centre' of the planar environment is such that the region reaches from (-1, -1)",
        ),
        (
            "planar",
            "home = { shape = 'polygon' }".into(),
            "line 3: 'home' in [environment]: a polygon needs 'vertices' and nothing else",
        ),
        (
            "planar",
            "size = 10".into(),
            "line 3: [environment]: unknown key 'size', expected one of 'width', 'height'",
        ),
        (
            "planar",
            "[objective]\nreward = 'energy'".into(),
            "line 4: 'reward' in [objective] is \"energy\", expected a reward of this problem: one of red, blue",
        ),
        ("wireless", "users = []".into(), "line 3: 'users' of the wireless environment is a list of 0"),
        (
            "wireless",
            "users = [{ name = 'a', gain = 0 }]".into(),
            "line 3: 'users[0].gain' of the wireless environment is 0",
        ),
        (
            "wireless",
            "users = [{ name = 'a<', gain = 1 }]".into(),
            "line 3: 'users[0].name' of the wireless environment is 'a<'",
        ),
        (
            "wireless",
            "users = [{ name = 'a', gain = 1 }, { name = 'a', gain = 1 }]".into(),
            "line 3: 'users[1].name'",
        ),
        (
            "wireless",
            "users = [{ name = 'a' }]".into(),
            "line 3: 'users' in [environment]: missing key 'gain'",
        ),
        ("wireless", "noise = 0".into(), "line 3: 'noise' of the wireless environment is 0"),
        ("wireless", "max_power = -1".into(), "line 3: 'max_power' of the wireless environment is -1"),
        (
            "wireless",
            "correlation = 1".into(),
            "line 3: 'correlation' of the wireless environment is 1, expected a number from 0 to 0.9999",
        ),
        ("wireless", "gain_cap = nan".into(), "line 3: 'gain_cap' of the wireless environment is NaN"),
        ("drone", "width = 0".into(), "line 3: 'width' of the drone environment is 0"),
        ("drone", "height = nan".into(), "line 3: 'height' of the drone environment is NaN"),
        ("drone", "sampling_time = 0".into(), "line 3: 'sampling_time' of the drone environment is 0"),
        ("drone", "thrust = 0".into(), "line 3: 'thrust' of the drone environment is 0"),
        ("drone", "drag = 0".into(), "line 3: 'drag' of the drone environment is 0"),
        (
            "drone",
            "drag = 11".into(),
            "line 3: 'drag' of the drone environment is 11, expected at most 1 / sampling_time = 10",
        ),
        (
            "drone",
            "gust = -0.1".into(),
            "line 3: 'gust' of the drone environment is -0.1, expected a number from 0",
        ),
        ("drone", "gust_correlation = 1".into(), "line 3: 'gust_correlation' of the drone environment is 1"),
        ("drone", "watch_speed = 0".into(), "line 3: 'watch_speed' of the drone environment is 0"),
        (
            "drone",
            region(&format!("name = 'energy', {square}")),
            "line 3: 'regions[0].name' of the drone environment is 'energy'",
        ),
        (
            "drone",
            "home = { shape = 'disc', centre = [5, 5], radius = 9 }".into(),
            "line 3: 'home.centre' of the drone environment",
        ),
    ];
    for (kind, text, expected) in cases {
        let message = message(&environment(kind, &text));
        assert!(message.starts_with(expected), "{message:?} does not begin with {expected:?}");
    }
}
