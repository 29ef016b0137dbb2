//! The problem file: its meaning, and error messages about wrong files.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use acrl::{EpochLength, Goal};
use acrl_envs::{Problem, RunSettings, Source, TrainSection, bundled};
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
fn a_model_file_is_named_and_not_opened() {
    let text = "[model]\nfile = 'models/x.drn'\n[[requirement]]\nreward = 'anything'\nat_least = 1\n";
    let problem = Problem::parse(text).unwrap();
    assert_eq!(problem.source, Source::File(Path::new("models/x.drn").to_owned()));
}

#[test]
fn an_epoch_is_a_number_or_auto_and_auto_has_a_start() {
    let run = |settings: &str| Problem::parse(&format!("{ENVIRONMENT}[run]\n{settings}")).unwrap().run;
    assert_eq!(run("epoch = 7").epoch_length(), EpochLength::Fixed(7));
    assert_eq!(run("epoch = 'auto'").epoch_length(), EpochLength::Auto(10));
    assert_eq!(run("epoch = 'auto'\nepoch_start = 3").epoch_length(), EpochLength::Auto(3));
}

#[test]
fn errors_about_the_file_and_its_sections_are_one_sentence() {
    let cases = [
        ("", "the file has no [environment] and no [model], expected one"),
        ("[run", "line 1: this is not TOML: "),
        ("x = 1\nx = 2", "line 2: this is not TOML: duplicate key"),
        (
            "version = 2",
            "line 1: 'version' in the problem file is 2, expected 1, the version this program reads",
        ),
        ("title = 3", "line 1: 'title' in the problem file is 3, expected a string"),
        (
            "\n[enviroment]",
            "line 2: unknown key 'enviroment' in the problem file: expected one of version, title",
        ),
        (
            "environment = 3",
            "line 1: 'environment' in the problem file is 3, expected a table: [environment]",
        ),
        ("[environment]", "line 1: 'kind' is missing in [environment], expected one of monitoring, patrol"),
        (
            "[environment]\nkind = 'maze'",
            "line 2: 'kind' in [environment] is \"maze\", expected one of monitoring",
        ),
        (
            "[environment]\nkind = 'patrol'\nslip = 2",
            "line 3: 'slip' of the patrol environment is 2, expected a number",
        ),
        ("[environment]\nkind = 'patrol'\nslip = nan", "line 3: 'slip' of the patrol environment is NaN"),
        (
            "[environment]\nkind = 'patrol'\nsize = 'x'",
            "line 3: 'size' in [environment]: invalid type: string \"x\", expected a whole",
        ),
        (
            "[environment]\nkind = 'patrol'\nsize = -3",
            "line 3: 'size' in [environment]: invalid value: integer '-3', expected a whole",
        ),
        (
            "[environment]\nkind = 'patrol'\nsise = 3",
            "line 3: [environment]: unknown key 'sise', expected 'size' or 'slip'",
        ),
        (
            "[environment]\nkind = 'patrol'\nsize = 99999999999999999999999",
            "line 3: 'size' in [environment]: ",
        ),
        (
            "[environment]\nkind = 'queue'\nlevels = [\n{ name = 'a', success = 1 }]",
            "line 4: 'levels' in [environment]: missing key 'power'",
        ),
        (
            "[environment]\nkind = 'queue'\nlevels = []",
            "line 3: 'levels' of the queue environment is a list of 0",
        ),
        (
            "[environment]\nkind = 'patrol'\n[model]\nfile = 'x'",
            "line 3: the file has both [environment] and [model]",
        ),
    ];
    for (text, expected) in cases {
        let message = message(text);
        assert!(message.starts_with(expected), "{message:?} does not begin with {expected:?}");
    }
}

#[test]
fn errors_about_run_objective_and_requirements_are_one_sentence() {
    let cases = [
        (
            "[run]\nsteps = 1\nstepsize = 1",
            "line 5: unknown key 'stepsize' in [run]: expected one of steps, runs, step_size, ",
        ),
        (
            "[run]\nsteps = 0",
            "line 4: 'steps' in [run] is 0, expected a whole number from 1 to 1000000000000000",
        ),
        ("[run]\nsteps = -1", "line 4: 'steps' in [run] is -1, expected a whole number"),
        ("[run]\nsteps = 1.5", "line 4: 'steps' in [run] is 1.5, expected a whole number"),
        (
            "[run]\nsteps = 99999999999999999999999999",
            "line 4: 'steps' in [run] is 99999999999999999999999999, expected",
        ),
        ("[run]\nruns = true", "line 4: 'runs' in [run] is true, expected a whole number from 1 to 1000000"),
        (
            "[run]\nseed = -1",
            "line 4: 'seed' in [run] is -1, expected a whole number from 0 to 18446744073709551615",
        ),
        (
            "[run]\nepoch = 0",
            "line 4: 'epoch' in [run] is 0, expected a whole number from 1 to 1000000000, or auto",
        ),
        ("[run]\nepoch = 'long'", "line 4: 'epoch' in [run] is \"long\", expected"),
        ("[run]\nepoch = 4\nepoch_start = 5", "line 5: 'epoch_start' in [run] is for epoch = \"auto\" only"),
        ("[run]\nstep_size = 0", "line 4: 'step_size' in [run] is 0, expected a finite number above 0"),
        ("[run]\nstep_size = inf", "line 4: 'step_size' in [run] is inf, expected a finite number above 0"),
        (
            "[run]\ntolerance = nan",
            "line 4: 'tolerance' in [run] is nan, expected a number above 0 and at most 1",
        ),
        ("[[run]]\n", "line 3: 'run' in the problem file is a list of 1, expected a table: [run]"),
        ("[objective]\ndirection = 'maximize'", "line 3: 'reward' is missing in [objective]"),
        (
            "[objective]\nreward = 'r9'",
            "line 4: 'reward' in [objective] is \"r9\", expected a reward of this problem: one of r0, r1, r2",
        ),
        (
            "[objective]\nreward = 'r0'\ndirection = 'up'",
            "line 5: 'direction' in [objective] is \"up\", expected maximize or minimize",
        ),
        (
            "[requirement]\nreward = 'r1'",
            "line 3: 'requirement' in the problem file is a table, expected a list of tables: write [[requirement]]",
        ),
        (
            "[[requirement]]\nreward = 'r1'",
            "line 3: the [[requirement]] on 'r1' has no bound, expected at_least or at_most",
        ),
        (
            "[[requirement]]\nreward = 'r1'\nat_least = 0\nat_most = 1",
            "line 6: the [[requirement]] on 'r1' has both",
        ),
        (
            "[[requirement]]\nreward = 'r1'\nat_least = nan",
            "line 5: 'at_least' in [[requirement]] is nan, expected a finite number",
        ),
        (
            "[[requirement]]\nreward = 'r1'\nat_most = 1e999",
            "line 5: 'at_most' in [[requirement]] is 1e999, expected a finite number",
        ),
        (
            "[[requirement]]\nreward = 'r1'\nat_most = '1'",
            "line 5: 'at_most' in [[requirement]] is \"1\", expected a number",
        ),
        ("[[requirement]]\nreward = 'r1'\natleast = 1", "line 5: unknown key 'atleast' in [[requirement]]"),
        (
            "[[requirement]]\nreward = 'r1'\nname = 'a>b'\nat_least = 0",
            "line 5: 'name' in [[requirement]] is \"a>b\", expected a name",
        ),
        (
            "[[requirement]]\nreward = 'r1'\nat_least = 0\n[[requirement]]\nreward = 'r1'\nat_least = 1",
            "[[requirement]]: two requirements are called 'r1'",
        ),
    ];
    for (text, expected) in cases {
        let message = message(&format!("{ENVIRONMENT}{text}"));
        assert!(message.starts_with(expected), "{message:?} does not begin with {expected:?}");
    }
}

#[test]
fn errors_about_an_inline_model_name_the_state_and_the_action() {
    let go = "state 'A', action 'go'";
    let cases = [
        ("B = 0.25, A", "A", format!("line 7: {go}: the probabilities add up to 0.75, expected 1")),
        ("B = 0.25", "C = 0.25", format!("line 9: 'to' of {go} names the state 'C', expected one of A, B")),
        (
            "B = 0.25",
            "B = -0.25",
            format!("line 9: 'B' in 'to' of {go} is -0.25, expected a number from 0 to 1"),
        ),
        ("B = 0.25", "B = nan", format!("line 9: 'B' in 'to' of {go} is nan, expected a number from 0 to 1")),
        (
            "B = 0.25",
            "B = '1/4'",
            format!("line 9: 'B' in 'to' of {go} is \"1/4\", expected a number from 0 to 1"),
        ),
        (
            "to = { B = 0.25, A = 0.75 }",
            "to = 'B'",
            format!("line 9: 'to' in {go} is \"B\", expected a table"),
        ),
        (
            "to = { B = 0.25, A = 0.75 }",
            "",
            format!("line 7: 'to' is missing in {go}, expected where it leads"),
        ),
        ("y = -2", "z = -2", format!("line 10: unknown key 'z' in 'rewards' of {go}: expected one of x, y")),
        ("y = -2", "y = inf", format!("line 10: 'y' in 'rewards' of {go} is inf, expected a finite number")),
        ("name = 'B'", "name = 'A'", "line 12: two states are called 'A'".into()),
        ("name = 'B'", "", "line 11: 'name' is missing in [[model.state]], expected the state's name".into()),
        (
            "name = 'B'",
            "name = ''",
            "line 12: 'name' in [[model.state]] is \"\", expected the state's name".into(),
        ),
        ("'x', 'y'", "'x', 'x'", "line 2: two rewards are called 'x'".into()),
        ("'x', 'y'", "'x', 3", "line 2: a part of 'rewards' in [model] is 3, expected a name".into()),
        (
            "initial = 'A'",
            "initial = 'C'",
            "line 3: 'initial' in [model] is \"C\", expected a state or a table".into(),
        ),
        (
            "initial = 'A'",
            "initial = { A = 0.5 }",
            "line 3: 'initial' in [model]: the probabilities add up to 0.5".into(),
        ),
        (
            "initial = 'A'",
            "",
            "line 1: 'initial' is missing in [model], expected the state to start in".into(),
        ),
        (
            "initial = 'A'",
            "start = 'A'",
            "line 3: unknown key 'start' in [model]: expected one of rewards, initial".into(),
        ),
        ("initial = 'A'", "file = 'x.drn'", "line 3: [model] has both 'file' and '".into()),
        (
            "[[model.state.action]]\nname = 'back'\nto = { A = 1 }\n",
            "",
            "line 11: 'action' is missing in state 'B'".into(),
        ),
    ];
    for (from, to, expected) in cases {
        assert!(MODEL.contains(from), "{from}");
        let message = message(&MODEL.replace(from, to));
        assert!(message.starts_with(&expected), "{message:?} does not begin with {expected:?}");
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
