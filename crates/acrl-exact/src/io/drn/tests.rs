use acrl::FiniteCmdp;

use super::{read, write};

/// File of Storm: valuations as comments, both kinds of rewards, labels, repeated action names.
const STORM: &str = "\
// Exported by storm
// Original model type: MDP
@type: MDP
@value_type: double
@parameters

@placeholders
$0 : 0.25
$half : 1/2
@reward_models
energy delay\x20
@nr_states
3
@nr_choices
5
@model
state 0 [0.5, 0] init deadlock
//[x=0\t& y=1]
\taction __NOLABEL__ [1, 2]
\t\t0 : $0
\t\t1 : 0.25
\t\t2 : $half
\taction __NOLABEL__ [0, -3e-1]
\t\t2 : 1
\taction go
\t\t0 : 0
\t\t1 : 1/3
\t\t2 : 2/3
state 1 [1/4, 1] \"a quoted label // init\" init
//[x=1\t& y=1]
\taction go [0, 0]
\t\t1 : 1
state 2 done
\taction go [0, 1] label
\t\t0 : 0.3333333333
\t\t1 : 0.3333333333
\t\t2 : 0.3333333333
";

fn model(text: &str) -> FiniteCmdp {
    read(text.as_bytes()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn message(bytes: &[u8]) -> String {
    read(bytes).map_or_else(|e| e.to_string(), |m| format!("no error, {} states", m.states()))
}

/// Equal but for the last digits of the probabilities, which are divided by their sum once more.
fn assert_same(a: &FiniteCmdp, b: &FiniteCmdp) {
    assert_eq!((a.states(), a.choice_count(), a.initial()), (b.states(), b.choice_count(), b.initial()));
    assert_eq!(a.reward_names(), b.reward_names());
    assert!((0..a.states()).all(|s| a.choices(s) == b.choices(s) && a.state_name(s) == b.state_name(s)));
    assert!((0..a.choice_count()).all(|c| a.action_name(c) == b.action_name(c)));
    for (x, y) in (0..a.choice_count()).map(|c| (a.choice(c), b.choice(c))) {
        assert_eq!((x.targets, x.rewards), (y.targets, y.rewards));
        assert!(x.probabilities.iter().zip(y.probabilities).all(|(p, q)| (p - q).abs() <= 1e-15 * p.abs()));
    }
}

#[test]
fn files_of_storm_are_read() {
    let m = model(STORM);
    assert_eq!((m.states(), m.choice_count(), m.transitions()), (3, 5, 10));
    assert_eq!(m.reward_names(), ["energy", "delay"]);
    assert_eq!(m.initial(), [(0, 0.5), (1, 0.5)]);
    assert_eq!((m.choices(0), m.choices(1), &*m.state_name(2)), (0..3, 3..4, "2"));
    let actions: Vec<_> = (0..5).map(|c| m.action_name(c)).collect();
    assert_eq!(actions, ["__NOLABEL__", "__NOLABEL__#2", "go", "go", "go"]);
    let rewards: Vec<&[f64]> = (0..5).map(|c| m.choice(c).rewards).collect();
    assert_eq!(rewards, [[1.5, 2.0], [0.5, -0.3], [0.5, 0.0], [0.25, 1.0], [0.0, 1.0]]);
    assert_eq!((m.choice(0).targets, m.choice(0).probabilities), (&[0, 1, 2][..], &[0.25, 0.25, 0.5][..]));
    assert_eq!((m.choice(2).targets, m.choice(2).probabilities), (&[1, 2][..], &[1.0 / 3.0, 2.0 / 3.0][..]));
    assert!((m.choice(4).probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-15);

    let windows = format!("\u{feff}{}", STORM.replace('\n', "\r\n"));
    assert_eq!(model(&windows), m);
    assert_eq!(model(STORM.trim_end()), m);
    let spaces = STORM.replace("\t\t", "  ").replace("\taction", " action").replace(" : ", ":\t");
    assert_eq!(model(&spaces), m);
    assert_eq!(model(&STORM.replace("@nr_choices\n5\n", "")), m);
    assert_eq!(model(&STORM.replace("\t\t2 : 1\n", "\n// here\n\t\t2 : 1 // and here\n\n")), m);
}

#[test]
fn chains_without_rewards_start_in_state_0() {
    let m = model("@type: DTMC\n@nr_states\n2\n@model\nstate 0\naction 0\n1 : 1\nstate 1\naction 0\n0 : 1");
    assert_eq!((m.states(), m.choice_count(), m.initial()), (2, 2, &[(0, 1.0)][..]));
    assert!(m.reward_names().is_empty() && m.choice(0).rewards.is_empty());
    // Sections whose line below is missing are empty.
    let m =
        model("@type: MDP\n@parameters\n@reward_models\n@nr_states\n1\n@model\nstate 0\naction a\n0 : 1\n");
    assert!(m.reward_names().is_empty());
}

#[test]
fn written_models_are_read_back() {
    let m = model(STORM);
    assert_same(&model(&write(&m)), &m);
    let again = model(&write(&m));
    assert_same(&model(&write(&again)), &again);

    let mut b = FiniteCmdp::builder(["the cost", "the_cost", "@x"]);
    b.state("A");
    b.state("B");
    b.choice(0, "go fast [1]", &[(1, 1e-300), (0, 1.0)], &[1e300, -1e-7, 0.1 + 0.2]);
    b.choice(0, "go_fast [1]", &[(1, 1.0)], &[0.0; 3]);
    b.choice(0, "", &[(1, 1.0)], &[-1.0, f64::MIN_POSITIVE, f64::MAX]);
    b.choice(0, "// no", &[(0, 1.0)], &[0.0; 3]);
    b.choice(1, "[2]", &[(1, 0.75), (0, 0.25)], &[1.0, 2.0, 3.0]);
    b.initial(1, 1.0);
    let m = b.build().expect("a model");
    let back = model(&write(&m));
    assert_eq!(back.reward_names(), ["the_cost", "the_cost#2", "_@x"]);
    let actions: Vec<_> = (0..5).map(|c| back.action_name(c)).collect();
    assert_eq!(actions, ["go_fast_[1]", "go_fast_[1]#2", "_", "_//_no", "_[2]"]);
    assert_eq!(back.initial(), m.initial());
    for (x, y) in (0..5).map(|c| (m.choice(c), back.choice(c))) {
        assert_eq!((x.targets, x.probabilities, x.rewards), (y.targets, y.probabilities, y.rewards));
    }
    assert_same(&model(&write(&back)), &back);
}

#[test]
fn truncated_files_are_refused() {
    let whole = model(STORM);
    for end in 0..STORM.len() {
        match read(&STORM.as_bytes()[..end]) {
            // Only the line end and last digits that do not matter can be missing.
            Ok(m) => {
                assert!(end >= STORM.len() - 5, "cut at byte {end}");
                assert_eq!(m.choice_count(), whole.choice_count());
            }
            Err(e) => assert!(e.line <= 1 + STORM[..end].matches('\n').count(), "{e}"),
        }
    }
}

const HEAD: &str = "@type: MDP\n@reward_models\nx y\n@nr_states\n2\n@nr_choices\n2\n@model\n";
const BODY: &str =
    "state 0 init\n\taction a [1, 2]\n\t\t0 : 0.5\n\t\t1 : 0.5\nstate 1 [0, 1]\n\taction b\n\t\t1 : 1\n";

#[test]
fn errors_name_the_line_and_the_place() {
    assert_eq!(model(&[HEAD, BODY].concat()).states(), 2);
    // What to replace in the file above, by what, and what the message then contains.
    let cases = [
        ("@type: MDP\n", "", "line 7: expected @type before @model"),
        ("MDP", "CTMC", "line 1: @type is 'CTMC', a continuous-time model: only MDP and DTMC"),
        ("MDP", "Markov Automaton", "line 1: @type is 'Markov Automaton', a continuous-time model"),
        ("MDP", "POMDP", "@type is 'POMDP', a partially observable model"),
        ("MDP", "SMG", "@type is 'SMG', a game"),
        ("MDP", "mdp2", "@type is 'mdp2', an unknown type"),
        ("MDP", "", "@type is ''"),
        ("MDP", "MDP\n@type: MDP", "line 2: @type is given twice"),
        ("MDP", "MDP\n@value_type: double-interval", "@value_type is 'double-interval' (intervals)"),
        ("MDP", "MDP\n@value_type: parametric", "@value_type is 'parametric'"),
        ("MDP", "MDP\n@value_type: float", "only double and rational are supported"),
        ("MDP", "MDP\n@parameters\np q", "line 3: the model has the parameters 'p q', but parametric models"),
        ("MDP", "MDP\n@placeholders\n$0 1", "line 3: expected '$NAME : NUMBER', found '$0 1'"),
        ("MDP", "MDP\n@placeholders\n$0 : p+1", "line 3: expected a number, found 'p+1'"),
        ("MDP", "MDP\n@placeholders\n$0 : 1\n$0 : 2", "line 4: the placeholder '$0' is given twice"),
        ("MDP", "MDP\n@colour\nred", "line 2: expected a section such as @type"),
        ("MDP", "MDP\nhello", "found 'hello'"),
        ("MDP", "MDP\n$0 : 1", "line 2: expected a section"),
        ("x y", "x x", "line 3: two rewards are called 'x'"),
        ("@nr_states\n2\n", "", "line 6: expected @nr_states before @model"),
        ("@nr_states\n2", "@nr_states\nmany", "line 5: @nr_states is 'many', expected a whole number from 1"),
        ("@nr_states\n2", "@nr_states\n0", "@nr_states is '0'"),
        ("@nr_states\n2", "@nr_states\n-2", "@nr_states is '-2'"),
        ("@nr_states\n2", "@nr_states\n1000000000000000000", "@nr_states is '1000000000000000000', expected"),
        ("@nr_states\n2", "@nr_states\n3", "line 15: @nr_states is 3, but the file ends after 2 states"),
        ("@nr_states\n2", "@nr_states\n4294967295", "but the file ends after 2 states"),
        ("@nr_states\n2", "@nr_states\n2\n@nr_states\n2", "line 6: @nr_states is given twice"),
        (
            "0 : 0.5\n\t\t1 : 0.5\nstate 1 [0, 1]\n\taction b\n\t\t1 : 1",
            "0 : 1\nstate 1\naction a\n0 : 1\nstate 2",
            "@nr_states is 2, but here is another state",
        ),
        ("@nr_choices\n2", "@nr_choices\n3", "line 15: @nr_choices is 3, but the file ends after 2 actions"),
        ("@nr_choices\n2", "@nr_choices\n1", "line 14: state 1: @nr_choices is 1, but here is another"),
        ("@nr_choices\n2", "@nr_choices\n1e3", "@nr_choices is '1e3'"),
        ("@model\n", "", "line 8: expected a section such as @type"),
        ("state 1", "state 0", "line 13: expected state 1, since states are in order, found '0'"),
        ("state 0", "state 1", "line 9: expected state 0, since states are in order, found '1'"),
        ("state 0 init", "state", "line 9: expected state 0, since states are in order, found ''"),
        ("state 0", "state -1", "found '-1'"),
        ("state 0 init\n", "", "line 9: expected a state before its first action"),
        ("state 0 init", "state 0 !1.5 init", "line 9: state 0: '!1.5' is an exit rate"),
        ("state 0 init", "state 0 {3} init", "line 9: state 0: '{3}' is an observation"),
        ("[0, 1]", "[0, 1] {3}", "line 13: state 1: '{3}' is an observation"),
        ("init", "\"init", "line 9: state 0: a label's quotation mark is not closed"),
        ("init", "init [1, 2]", "line 9: state 0: expected one list of rewards, before the labels"),
        ("[0, 1]", "[0]", "line 13: state 1: expected 2 rewards, as named by @reward_models, found 1"),
        ("[0, 1]", "[0, 1, 2]", "found 3"),
        ("[0, 1]", "[]", "found 0"),
        ("[0, 1]", "[0, 1", "line 13: state 1: the list of rewards is not closed"),
        ("[0, 1]", "[0, one]", "line 13: state 1: expected a number, found 'one'"),
        ("[1, 2]", "[1,]", "line 10: state 0, action 'a': expected a number, found ''"),
        ("[1, 2]", "[1, nan]", "line 10: state 0, action 'a': expected a finite number, found 'nan'"),
        ("[1, 2]", "[1, -inf]", "expected a finite number, found '-inf'"),
        ("[1, 2]", "[1, 1e999]", "expected a finite number, found '1e999'"),
        ("[1, 2]", "[1, 1/0]", "expected a finite number, found '1/0'"),
        ("[1, 2]", "[1, 1/inf]", "expected a finite number, found '1/inf'"),
        ("[1, 2]", "[1, $7]", "the placeholder '$7' is not defined"),
        ("[1, 2]", "[1, 2] [3, 4]", "line 10: state 0, action 'a': expected one list of rewards"),
        ("action a [1, 2]", "action [1, 2]", "line 10: state 0: expected the name of the action"),
        ("action a [1, 2]", "action", "line 10: state 0: expected the name of the action"),
        ("action a [1, 2]", "actions a [1, 2]", "line 10: state 0: expected 'state …', 'action …'"),
        ("\taction a [1, 2]\n", "", "line 10: state 0: expected an action before the transition to 0"),
        ("\taction b\n\t\t1 : 1\n", "", "line 13: state 1: the state has no action"),
        ("\t\t1 : 1\n", "", "line 14: state 1, action 'b': the probabilities add up to 0, expected 1"),
        ("1 : 0.5", "1 : 0.4", "line 10: state 0, action 'a': the probabilities add up to 0.9, expected 1"),
        ("1 : 0.5", "1 : 0.50001", "line 10: state 0, action 'a': the probabilities add up to 1.00001"),
        ("1 : 0.5", "1 : -0.5", "line 12: state 0, action 'a': the probability of target 1 is -0.5"),
        ("1 : 0.5", "1 : 1.5", "the probability of target 1 is 1.5, expected a number from 0 to 1"),
        ("1 : 0.5", "1 : NaN", "line 12: state 0, action 'a': expected a finite number, found 'NaN'"),
        ("1 : 0.5", "1 : [0.4, 0.6]", "found the interval '[0.4, 0.6]', but intervals are not supported"),
        ("1 : 0.5", "1 : p", "line 12: state 0, action 'a': expected a number, found 'p'"),
        ("1 : 0.5", "1 : ", "expected a number, found ''"),
        ("1 : 0.5", "1 : 1/2/3", "expected a number, found '1/2/3'"),
        ("1 : 0.5", "1 : 0x1", "expected a number, found '0x1'"),
        ("1 : 0.5", "1 : $x", "the placeholder '$x' is not defined"),
        ("1 : 0.5", "2 : 0.5", "line 12: state 0, action 'a': the target 2 does not exist: the states"),
        ("1 : 0.5", "99999999999999999999 : 0.5", "found '99999999999999999999 : 0.5'"),
        ("1 : 0.5", "-1 : 0.5", "line 12: state 0, action 'a': expected 'state …'"),
        ("1 : 0.5", "0 : 0.5", "line 12: state 0, action 'a': the target 0 is listed twice"),
        ("1 : 0.5", "1 0.5", "line 12: state 0, action 'a': expected 'state …', 'action …' or 'TARGET :"),
        ("1 : 0.5", "@model", "found '@model'"),
        ("1 : 0.5", "\u{1b}[31m", "found '\u{fffd}[31m'"),
    ];
    let good = [HEAD, BODY].concat();
    for (from, to, expected) in cases {
        assert!(good.contains(from), "{from:?}");
        let found = message(good.replacen(from, to, 1).as_bytes());
        assert!(found.contains(expected), "{to:?}: {found:?} does not contain {expected:?}");
    }
    let two = BODY.replace("state 1", "\taction c\n\t\t0 : 1\nstate 1");
    let dtmc = [&HEAD.replace("MDP", "DTMC"), two.as_str()].concat();
    let found = message(dtmc.as_bytes());
    assert_eq!(found, "line 13: state 0: a second action, but a DTMC has one in each state");
    let large = good.replace("[0, 1]", "[1e308, 1]").replace("action b", "action b [1e308, 1]");
    assert!(message(large.as_bytes()).contains("line 14: state 1, action 'b': the reward 'x' is inf"));
    let bytes = [b"@type: MDP\n// caf\xe9\n", good.as_bytes()].concat();
    assert!(message(&bytes).contains("line 2: byte 0xe9 is not UTF-8 text"), "{}", message(&bytes));
    assert_eq!(message(b"\x1f\x8b\x08\0"), "line 1: the file is compressed: unpack it first");
    assert_eq!(message(b""), "line 1: the file ends before @model");
    assert_eq!(message(HEAD.as_bytes()), "line 8: @nr_states is 2, but the file ends after 0 states");
    let long = good.replace("1 : 0.5", &format!("1 : {}", "é".repeat(100)));
    assert!(message(long.as_bytes()).ends_with(&format!("found '{}…'", "é".repeat(40))));
}
