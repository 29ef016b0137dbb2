//! The problem file: its meaning, and error messages about wrong files.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use acrl::{EpochLength, Goal};
use acrl_envs::{Continuous, Problem, RunSettings, Shape, Source, TrainSection, bundled};
use proptest::prelude::*;

const ENVIRONMENT: &str = "[environment]\nkind = 'monitoring'\n";

const MODEL: &str = "[model]
rewards = ['x', 'y']
initial = 'A'
[[model.state]]
name = 'A'
rewards = { x = 1 }
[[model.state.action]]
name = 'go'
to = { B = 0.25, A = 0.75 }
rewards = { x = 0.5, y = -2 }
[[model.state]]
name = 'B'
[[model.state.action]]
name = 'back'
to = { A = 1 }
";

fn message(text: &str) -> String {
    let error = Problem::parse(text).expect_err(text).to_string();
    assert!(!error.contains('\n'), "{error:?} has more than one line");
    error
}

/// Checks the errors of a table. Each line is the text of a file, where `;` ends a line, and after `=>` the beginning of
/// the message.
fn assert_errors(file: impl Fn(&str) -> String, table: &str) {
    for case in table.lines().map(str::trim).filter(|case| !case.is_empty()) {
        let (text, expected) = case.split_once(" => ").unwrap();
        let message = message(&file(&text.replace("; ", "\n")));
        assert!(message.starts_with(expected), "{message:?} does not begin with {expected:?}");
    }
}

#[test]
fn an_environment_brings_its_own_requirements_and_settings_have_defaults() {
    let problem = Problem::parse(ENVIRONMENT).unwrap();
    assert_eq!((problem.title, problem.specification.names()), (None, vec!["r1".into(), "r2".into()]));
    assert_eq!((problem.run, problem.train), (RunSettings::default(), TrainSection::default()));
}

#[test]
fn objective_or_requirement_sections_replace_those_of_the_environment() {
    let text = format!("{ENVIRONMENT}[[requirement]]\nname = 'left'\nreward = 'r1'\nat_most = 1\n");
    let specification = Problem::parse(&text).unwrap().specification;
    assert_eq!((specification.objective(), specification.names()), (None, vec!["left".into()]));
    let text = format!("{ENVIRONMENT}[objective]\nreward = 'r2'\ndirection = 'minimize'");
    let specification = Problem::parse(&text).unwrap().specification;
    assert_eq!(specification.objective().unwrap().goal, Goal::Minimize);
    assert!(specification.requirements().is_empty());
}

#[test]
fn the_two_sides_of_one_reward_are_two_requirements() {
    let side = |bound: &str| format!("[[requirement]]\nreward = 'r1'\n{bound}\n");
    let text = format!("{ENVIRONMENT}{}{}", side("at_least = 0.2"), side("at_most = 0.4"));
    assert_eq!(Problem::parse(&text).unwrap().specification.names(), ["r1.min", "r1.max"]);
}

#[test]
fn an_inline_model_adds_state_rewards_to_those_of_the_action() {
    let problem = Problem::parse(MODEL).unwrap();
    let Source::Model(model) = &problem.source else { panic!("not a model") };
    assert_eq!((model.states(), model.choice_count(), model.initial()), (2, 2, &[(0, 1.0)][..]));
    let go = model.choice(0);
    assert_eq!((&*model.action_name(0), go.rewards), ("go", &[1.5, -2.0][..]));
    assert_eq!((go.targets, go.probabilities), (&[0, 1][..], &[0.75, 0.25][..]));
    assert_eq!(model.choice(1).rewards, [0.0, 0.0]);
    assert!(problem.specification.requirements().is_empty());
    let text = MODEL.replace("'A'\n[[model.state]]\nname", "{ A = 0.5, B = 0.5 }\n[[model.state]]\nname");
    let Source::Model(model) = Problem::parse(&text).unwrap().source else { panic!("not a model") };
    assert_eq!(model.initial(), [(0, 0.5), (1, 0.5)]);
}

#[test]
fn a_planar_file_defines_its_regions() {
    let text = "[environment]
kind = 'planar'
width = 20\nheight = 5\nspeed_limit = 3\nenergy = true\nsampling_time = 0.1
regions = [{ name = 'a', shape = 'disc', centre = [18, 2.5], radius = 1 }]
home = { shape = 'polygon', vertices = [[0, 0], [2, 0], [0, 2]] }";
    let problem = Problem::parse(text).unwrap();
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
fn a_model_file_is_named_and_not_opened() {
    let text = "[model]\nfile = 'models/x.drn'\n[[requirement]]\nreward = 'anything'\nat_least = 1\n";
    let problem = Problem::parse(text).unwrap();
    assert_eq!(problem.source, Source::File(Path::new("models/x.drn").to_owned()));
}

#[test]
fn run_settings_that_are_not_given_stay_open() {
    let run = |settings: &str| Problem::parse(&format!("{ENVIRONMENT}[run]\n{settings}")).unwrap().run;
    for (settings, step_size, epoch) in [
        ("steps = 3", None, None),
        ("step_size = 0.5", Some(0.5), None),
        ("epoch = 'auto'", None, Some(EpochLength::Auto(10))),
        ("epoch_start = 10", None, Some(EpochLength::Auto(10))),
        ("epoch = 'auto'\nepoch_start = 3", None, Some(EpochLength::Auto(3))),
        ("epoch = 7\nstep_size = 1", Some(1.0), Some(EpochLength::Fixed(7))),
    ] {
        assert_eq!((run(settings).step_size, run(settings).epoch), (step_size, epoch), "{settings}");
    }
}

#[test]
fn errors_about_the_file_and_its_sections_are_one_sentence() {
    assert_eq!(message(""), "the file has no [environment] and no [model], expected one");
    let table = r#"
        [run => line 1: this is not TOML:
        x = 1; x = 2 => line 2: this is not TOML: duplicate key
        version = 2 => line 1: 'version' in the problem file is 2, expected 1, the version this program reads
        title = 3 => line 1: 'title' in the problem file is 3, expected a string
        ; [enviroment] => line 2: unknown key 'enviroment' in the problem file: expected one of version, title
        environment = 3 => line 1: 'environment' in the problem file is 3, expected a table: [environment]
        [environment] => line 1: 'kind' is missing in [environment], expected one of monitoring, patrol
        [environment]; kind = 'maze' => line 2: 'kind' in [environment] is "maze", expected one of monitoring
        [environment]; kind = 'queue'; levels = [; { name = 'a', success = 1 }] => line 4: 'levels' in [environment]: missing key 'power'
        [environment]; kind = 'patrol'; [model]; file = 'x' => line 3: the file has both [environment] and [model]
    "#;
    assert_errors(str::to_owned, table);
}

#[test]
fn errors_about_run_objective_and_requirements_are_one_sentence() {
    let table = r#"
        [run]; steps = 1; stepsize = 1 => line 5: unknown key 'stepsize' in [run]: expected one of steps, runs, step_size,
        [run]; steps = 0 => line 4: 'steps' in [run] is 0, expected a whole number from 1 to 1000000000000000
        [run]; steps = -1 => line 4: 'steps' in [run] is -1, expected a whole number
        [run]; steps = 1.5 => line 4: 'steps' in [run] is 1.5, expected a whole number
        [run]; steps = 99999999999999999999999999 => line 4: 'steps' in [run] is 99999999999999999999999999, expected
        [run]; runs = true => line 4: 'runs' in [run] is true, expected a whole number from 1 to 1000000
        [run]; seed = -1 => line 4: 'seed' in [run] is -1, expected a whole number from 0 to 18446744073709551615
        [run]; epoch = 0 => line 4: 'epoch' in [run] is 0, expected a whole number from 1 to 1000000000, or auto
        [run]; epoch = 'long' => line 4: 'epoch' in [run] is "long", expected
        [run]; epoch = 4; epoch_start = 5 => line 5: 'epoch_start' in [run] is for epoch = "auto" only
        [run]; step_size = 0 => line 4: 'step_size' in [run] is 0, expected a finite number above 0
        [run]; step_size = inf => line 4: 'step_size' in [run] is inf, expected a finite number above 0
        [run]; tolerance = nan => line 4: 'tolerance' in [run] is nan, expected a number above 0 and at most 1
        [[run]];  => line 3: 'run' in the problem file is a list of 1, expected a table: [run]
        [objective]; direction = 'maximize' => line 3: 'reward' is missing in [objective]
        [objective]; reward = 'r9' => line 4: 'reward' in [objective] is "r9", expected a reward of this problem: one of r0, r1, r2
        [objective]; reward = 'r0'; direction = 'up' => line 5: 'direction' in [objective] is "up", expected maximize or minimize
        [requirement]; reward = 'r1' => line 3: 'requirement' in the problem file is a table, expected a list of tables: write [[requirement]]
        [[requirement]]; reward = 'r1' => line 3: the [[requirement]] on 'r1' has no bound, expected at_least or at_most
        [[requirement]]; reward = 'r1'; at_least = 0; at_most = 1 => line 6: the [[requirement]] on 'r1' has both
        [[requirement]]; reward = 'r1'; at_least = nan => line 5: 'at_least' in [[requirement]] is nan, expected a finite number
        [[requirement]]; reward = 'r1'; at_most = 1e999 => line 5: 'at_most' in [[requirement]] is 1e999, expected a finite number
        [[requirement]]; reward = 'r1'; at_most = '1' => line 5: 'at_most' in [[requirement]] is "1", expected a number
        [[requirement]]; reward = 'r1'; atleast = 1 => line 5: unknown key 'atleast' in [[requirement]]
        [[requirement]]; reward = 'r1'; name = 'a>b'; at_least = 0 => line 5: 'name' in [[requirement]] is "a>b", expected a name
        [[requirement]]; reward = 'r1'; at_least = 0; [[requirement]]; reward = 'r1'; at_least = 1 => [[requirement]]: two requirements are called 'r1'
    "#;
    assert_errors(|text| format!("{ENVIRONMENT}{text}"), table);
    let no_energy = "[environment]\nkind = 'planar'\n[objective]\nreward = 'energy'";
    assert!(
        message(no_energy).contains("is \"energy\", expected a reward of this problem: one of red, blue")
    );
}

/// Each line begins with the kind of environment; all errors are in line 3.
#[test]
fn errors_about_parameters_are_one_sentence() {
    let table = r#"
        queue: capacity = 0 => 'capacity' of the queue environment is 0, expected a whole number from 1 to 100000
        queue: arrival = 1.5 => 'arrival' of the queue environment is 1.5
        queue: levels = [] => 'levels' of the queue environment is a list of 0, expected a list of 1 to 100 service levels
        queue: levels = [{ name = 'a', success = nan, power = 1 }] => 'levels[0].success' of the queue environment is NaN
        queue: levels = [{ name = 'a', success = 1, power = -1 }] => 'levels[0].power' of the queue environment is -1
        queue: levels = [{ name = '', success = 1, power = 1 }] => 'levels[0].name' of the queue environment is ''
        queue: levels = [{ name = 'a', success = 1, power = 1 }, { name = 'a', success = 1, power = 2 }] => 'levels[1].name' of the queue environment is 'a', expected a name that no other level has
        maintenance: levels = 1 => 'levels' of the maintenance environment is 1, expected a whole number from 2 to 10000
        maintenance: poor_levels = 6 => 'poor_levels' of the maintenance environment is 6, expected a whole number from 1 to 5
        maintenance: wear = -0.1 => 'wear' of the maintenance environment is -0.1
        maintenance: shock = 0.8 => 'shock' of the maintenance environment is 0.8, expected a number from 0 to 1 - wear = 0.75
        maintenance: shock = nan => 'shock' of the maintenance environment is NaN
        maintenance: repair_gain = 0 => 'repair_gain' of the maintenance environment is 0
        maintenance: replace_cost = inf => 'replace_cost' of the maintenance environment is inf, expected a number from 0 to 1000000
        power: capacity = 0 => 'capacity' of the power environment is 0, expected a whole number from 1 to 10000
        power: arrival = 1.5 => 'arrival' of the power environment is 1.5, expected a number from 0 to 1
        power: wake = nan => 'wake' of the power environment is NaN, expected a number from 0 to 1
        power: suspend = -1 => 'suspend' of the power environment is -1, expected a number from 0 to 1
        power: asleep_power = -0.1 => 'asleep_power' of the power environment is -0.1
        inventory: capacity = 201 => 'capacity' of the inventory environment is 201, expected a whole number from 1 to 200
        inventory: demand = 0 => 'demand' of the inventory environment is 0, expected a number above 0 and at most 100
        inventory: demand = nan => 'demand' of the inventory environment is NaN
        inventory: order_cost = inf => 'order_cost' of the inventory environment is inf, expected a number from 0 to 1000000
        patrol: size = 1 => 'size' of the patrol environment is 1, expected a whole number from 2 to 1000
        patrol: size = 1001 => 'size' of the patrol environment is 1001
        patrol: slip = -0.1 => 'slip' of the patrol environment is -0.1, expected a number from 0 to 1
        patrol: slip = nan => 'slip' of the patrol environment is NaN
        patrol: size = 'x' => 'size' in [environment]: invalid type: string "x", expected a whole
        patrol: size = -3 => 'size' in [environment]: invalid value: integer '-3', expected a whole
        patrol: sise = 3 => [environment]: unknown key 'sise', expected 'size' or 'slip'
        patrol: size = 99999999999999999999999 => 'size' in [environment]:
        monitoring: regions = 0 => 'regions' of the monitoring environment is 0, expected a whole number from 1 to 1000
        planar: width = 0 => 'width' of the planar environment is 0, expected a number above 0 and at most
        planar: height = -1 => 'height' of the planar environment is -1
        planar: width = 'x' => 'width' in [environment]: invalid type: string "x", expected a number
        planar: sampling_time = nan => 'sampling_time' of the planar environment is NaN
        planar: speed_limit = inf => 'speed_limit' of the planar environment is inf
        planar: energy = true => 'energy' of the planar environment is true, expected false, unless
        planar: energy = 1 => 'energy' in [environment]: invalid type: integer '1', expected a boolean
        planar: regions = [] => 'regions' of the planar environment is a list of 0
        planar: regions = 3 => 'regions' in [environment]: invalid type: integer '3', expected a list
        planar: regions = [3] => 'regions' in [environment]: invalid type: integer '3', expected a table: name
        planar: regions = [{ shape = 'square', centre = [5, 5], side = 2 }] => 'regions' in [environment]: missing key 'name'
        planar: regions = [{ name = 'a', shape = 'ring' }] => 'regions' in [environment]: unknown variant 'ring', expected one of 'square', 'disc', 'polygon'
        planar: regions = [{ name = 'a', shape = 'disc', side = 1 }] => 'regions' in [environment]: region 'a': a disc needs 'centre' and 'radius' and nothing else
        planar: regions = [{ name = 'a', shape = 'square', centre = [1, 2, 3], side = 1 }] => 'regions' in [environment]: a list of 3, expected a point [x, y]
        planar: regions = [{ name = 'a', center = [1, 2], shape = 'square', centre = [5, 5], side = 2 }] => 'regions' in [environment]: unknown key 'center', expected one of 'name'
        planar: regions = [{ name = 'home', shape = 'square', centre = [5, 5], side = 2 }] => 'regions[0].name' of the planar environment is 'home', expected a name
        planar: home = { shape = 'disc', centre = [0, 0], radius = 1 } => 'home.centre' of the planar environment is such that the region reaches from (-1, -1)
        planar: home = { shape = 'polygon' } => 'home' in [environment]: a polygon needs 'vertices' and nothing else
        planar: size = 10 => [environment]: unknown key 'size', expected one of 'width', 'height'
        wireless: users = [] => 'users' of the wireless environment is a list of 0
        wireless: users = [{ name = 'a', gain = 0 }] => 'users[0].gain' of the wireless environment is 0
        wireless: users = [{ name = 'a<', gain = 1 }] => 'users[0].name' of the wireless environment is 'a<'
        wireless: users = [{ name = 'a', gain = 1 }, { name = 'a', gain = 1 }] => 'users[1].name'
        wireless: users = [{ name = 'a' }] => 'users' in [environment]: missing key 'gain'
        wireless: noise = 0 => 'noise' of the wireless environment is 0
        wireless: max_power = -1 => 'max_power' of the wireless environment is -1
        wireless: correlation = 1 => 'correlation' of the wireless environment is 1, expected a number from 0 to 0.9999
        wireless: gain_cap = nan => 'gain_cap' of the wireless environment is NaN
        drone: width = 0 => 'width' of the drone environment is 0
        drone: height = nan => 'height' of the drone environment is NaN
        drone: sampling_time = 0 => 'sampling_time' of the drone environment is 0
        drone: thrust = 0 => 'thrust' of the drone environment is 0
        drone: drag = 0 => 'drag' of the drone environment is 0
        drone: drag = 11 => 'drag' of the drone environment is 11, expected at most 1 / sampling_time = 10
        drone: gust = -0.1 => 'gust' of the drone environment is -0.1, expected a number from 0
        drone: gust_correlation = 1 => 'gust_correlation' of the drone environment is 1
        drone: watch_speed = 0 => 'watch_speed' of the drone environment is 0
        drone: regions = [{ name = 'energy', shape = 'square', centre = [5, 5], side = 2 }] => 'regions[0].name' of the drone environment is 'energy'
        drone: home = { shape = 'disc', centre = [5, 5], radius = 9 } => 'home.centre' of the drone environment
    "#;
    for case in table.lines().map(str::trim).filter(|case| !case.is_empty()) {
        let (kind, rest) = case.split_once(": ").unwrap();
        let (text, expected) = rest.split_once(" => ").unwrap();
        let case = format!("{text} => line 3: {expected}");
        assert_errors(|text| format!("[environment]\nkind = '{kind}'\n{text}"), &case);
    }
}

#[test]
fn errors_about_an_inline_model_name_the_state_and_the_action() {
    let table = r#"
        B = 0.25, A -> A => line 7: state 'A', action 'go': the probabilities add up to 0.75, expected 1
        B = 0.25 -> C = 0.25 => line 9: 'to' of state 'A', action 'go' names the state 'C', expected one of A, B
        B = 0.25 -> B = -0.25 => line 9: 'B' in 'to' of state 'A', action 'go' is -0.25, expected a number from 0 to 1
        B = 0.25 -> B = nan => line 9: 'B' in 'to' of state 'A', action 'go' is nan, expected a number from 0 to 1
        B = 0.25 -> B = '1/4' => line 9: 'B' in 'to' of state 'A', action 'go' is "1/4", expected a number from 0 to 1
        to = { B = 0.25, A = 0.75 } -> to = 'B' => line 9: 'to' in state 'A', action 'go' is "B", expected a table
        to = { B = 0.25, A = 0.75 } ->  => line 7: 'to' is missing in state 'A', action 'go', expected where it leads
        y = -2 -> z = -2 => line 10: unknown key 'z' in 'rewards' of state 'A', action 'go': expected one of x, y
        y = -2 -> y = inf => line 10: 'y' in 'rewards' of state 'A', action 'go' is inf, expected a finite number
        name = 'B' -> name = 'A' => line 12: two states are called 'A'
        name = 'B' ->  => line 11: 'name' is missing in [[model.state]], expected the state's name
        name = 'B' -> name = '' => line 12: 'name' in [[model.state]] is "", expected the state's name
        'x', 'y' -> 'x', 'x' => line 2: two rewards are called 'x'
        'x', 'y' -> 'x', 3 => line 2: a part of 'rewards' in [model] is 3, expected a name
        initial = 'A' -> initial = 'C' => line 3: 'initial' in [model] is "C", expected a state or a table
        initial = 'A' -> initial = { A = 0.5 } => line 3: 'initial' in [model]: the probabilities add up to 0.5
        initial = 'A' ->  => line 1: 'initial' is missing in [model], expected the state to start in
        initial = 'A' -> start = 'A' => line 3: unknown key 'start' in [model]: expected one of rewards, initial
        initial = 'A' -> file = 'x.drn' => line 3: [model] has both 'file' and '
        [[model.state.action]]; name = 'back'; to = { A = 1 };  ->  => line 11: 'action' is missing in state 'B'
    "#;
    for case in table.lines().map(str::trim).filter(|case| !case.is_empty()) {
        let (change, expected) = case.split_once(" => ").unwrap();
        let [from, to] =
            change.split_once(" -> ").map(|(a, b)| [a, b].map(|s| s.replace("; ", "\n"))).unwrap();
        assert!(MODEL.contains(&from), "{from}");
        assert_errors(|_| MODEL.replace(&from, &to), &format!("x => {expected}"));
    }
    assert!(
        message("[model]\nrewards = []").contains("write [[model.state]], or name a model file with 'file'")
    );
    assert!(message("[model]\nfile = ''").contains("line 2: 'file' in [model] is \"\""));
    let twice = format!("{MODEL}[[model.state.action]]\nname = 'back'\nto = {{ A = 1 }}\n");
    assert_eq!(message(&twice), "line 17: two actions of state 'B' are called 'back': names must differ");
    let huge = MODEL.replace("x = 1 }", "x = 1e308 }").replace("x = 0.5", "x = 1e308");
    assert!(message(&huge).contains("the reward 'x' is inf, expected a finite number"));
}

#[test]
fn deep_nesting_is_an_error() {
    for (open, close) in [("[", "]"), ("{a=", "}")] {
        message(&format!("[run]\nsteps = {}1{}", open.repeat(100_000), close.repeat(100_000)));
    }
    message(&format!("[{}x]", "a.".repeat(100_000)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]

    /// Files that are nearly right: a bundled one with a piece cut out and another put in.
    #[test]
    fn no_text_causes_a_panic(
        file in 0..bundled().len(), at in 0.0..1.0f64, length in 0..40usize,
        piece in "[a-z0-9_=\\[\\]{}'\"., \n\\-é]{0,12}|nan|inf|-1|1e999|99999999999999999999|\\[\\["
    ) {
        let text: Vec<char> = bundled()[file].text.chars().collect();
        let start = (at * text.len() as f64) as usize;
        let end = (start + length).min(text.len());
        let changed: String =
            text[..start].iter().copied().chain(piece.chars()).chain(text[end..].iter().copied()).collect();
        if let Err(error) = Problem::parse(&changed) {
            prop_assert!(!error.to_string().contains('\n'));
        }
        let _ = Problem::parse(&piece);
    }
}

/// The examples of the documentation are problem files.
#[test]
fn the_documented_examples_are_read() {
    let page = include_str!("../../../docs/problem-file.md");
    let blocks: Vec<&str> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 3);
    for block in blocks {
        Problem::parse(block).unwrap_or_else(|error| panic!("{error}\n{block}"));
    }
}
