//! Bugs that were found and fixed, one test each.
#![allow(missing_docs, clippy::unwrap_used)]

use serde_json::Value;

#[path = "common/program.rs"]
mod program;

use program::acrl_in;

/// Targets with their probabilities, and rewards.
type Action<'a> = (&'a [(usize, &'a str)], &'a [&'a str]);

/// A `.drn` file from the actions of each state; the first state is initial.
fn drn(rewards: usize, states: &[&[Action<'_>]]) -> String {
    let names: Vec<String> = (0..rewards).map(|i| format!("r{i}")).collect();
    let mut text = format!(
        "@type: MDP\n@parameters\n\n@reward_models\n{}\n@nr_states\n{}\n@model\n",
        names.join(" "),
        states.len()
    );
    for (s, actions) in states.iter().enumerate() {
        text += &format!("state {s}{}\n", if s == 0 { " init" } else { "" });
        for (a, (targets, rewards)) in actions.iter().enumerate() {
            text += &format!("\taction a{a} [{}]\n", rewards.join(", "));
            for (t, p) in *targets {
                text += &format!("\t\t{t} : {p}\n");
            }
        }
    }
    text
}

/// A line of states: left, stay, right. r0 = 0, r1 marks the left end and r2 the right one.
fn line(length: usize) -> String {
    let mut text =
        format!("@type: MDP\n@parameters\n\n@reward_models\nr0 r1 r2\n@nr_states\n{length}\n@model\n");
    for s in 0..length {
        let (left, right) = (u8::from(s == 0), u8::from(s + 1 == length));
        text += &format!("state {s} [0, {left}, {right}]{}\n", if s == 0 { " init" } else { "" });
        for (name, t) in [("left", s.saturating_sub(1)), ("stay", s), ("right", (s + 1).min(length - 1))] {
            text += &format!("\taction {name}\n\t\t{t} : 1\n");
        }
    }
    text
}

/// The object that `acrl VERB model.drn ARGS --json` prints (null if none), and the exit status.
fn acrl(verb: &str, model: &str, args: &str) -> (Value, i32) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model.drn"), model).unwrap();
    let output = acrl_in(folder.path(), &format!("{verb} model.drn {args} --json"));
    (serde_json::from_slice(&output.stdout).unwrap_or(Value::Null), output.status.code().unwrap())
}

/// Policy iteration stopped at a bias that was not the largest, so that bounds were loose.
#[test]
fn infeasible_long_corridor_is_detected() {
    for length in [2, 3, 4, 10, 100] {
        let (object, status) = acrl("solve", &line(length), "--require r1>=0.6 --require r2>=0.6");
        assert_eq!((object["status"].as_str(), status), (Some("infeasible"), 1), "length {length}");
        assert!((object["relax"]["uniform"].as_f64().unwrap() - 0.1).abs() < 1e-6);
    }
}

/// What counts as a tie was measured by the largest number about, which a small probability never reached.
#[test]
fn small_transition_probabilities_are_kept() {
    // A leak of 1e-11 into a worthless state, or none: in the long run all the difference.
    let leak = drn(
        1,
        &[
            &[(&[(0, "0.99999999999"), (1, "0.00000000001")], &["1"]), (&[(0, "1")], &["1"])],
            &[(&[(1, "1")], &["0"])],
        ],
    );
    let (object, _) = acrl("solve", &leak, "--maximize r0");
    assert!((object["objective"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{object}");
    // States that cannot be reached, with a bias of 1e9, spoilt those that can.
    let far = drn(
        1,
        &[
            &[(&[(0, "1")], &["0.4999"]), (&[(1, "1")], &["0.5"])],
            &[(&[(0, "1")], &["0.5"])],
            &[(&[(2, "0.999999999"), (3, "0.000000001")], &["1"])],
            &[(&[(3, "0.999999999"), (2, "0.000000001")], &["0"])],
        ],
    );
    let (object, _) = acrl("solve", &far, "--maximize r0");
    assert!((object["objective"].as_f64().unwrap() - 0.5).abs() < 1e-9, "{object}");
}

/// The range of a reward, and with it the tolerance, came from states that cannot be reached.
#[test]
fn unreachable_states_do_not_widen_the_tolerance() {
    let model = drn(2, &[&[(&[(0, "1")], &["0", "0.2"])], &[(&[(1, "1")], &["0", "1000000"])]]);
    let (object, status) = acrl("run", &model, "--require r1>=0.9");
    assert_eq!((object["diagnosis"]["verdict"].as_str(), status), (Some("infeasible"), 1));
    let (object, status) = acrl("solve", &model, "--require r1>=0.2000005");
    assert_eq!((object["status"].as_str(), status), (Some("infeasible"), 1));
}

/// A dual update that overflowed was dropped, and the certificate said 0.
#[test]
fn bound_beyond_the_reward_range_is_infeasible() {
    let model = drn(2, &[&[(&[(0, "1")], &["0", "0"])]]);
    for bound in ["r1>=1e308", "r1>=1e300"] {
        let (object, status) = acrl("run", &model, &format!("--require {bound}"));
        assert_ne!(status, 0, "{bound}: {object}");
    }
}

/// A requirement that holds only on average over the part in which a run ends was called a short epoch.
#[test]
fn two_absorbing_components_are_not_diagnosed_as_short_epoch() {
    let chance = drn(
        2,
        &[
            &[(&[(1, "0.5"), (2, "0.5")], &["0", "0"])],
            &[(&[(1, "1")], &["1", "0"])],
            &[(&[(2, "1")], &["0", "1"])],
        ],
    );
    let args = "--maximize r0 --require r1>=0.4 --runs 8";
    let (object, status) = acrl("run", &chance, args);
    assert_eq!((object["diagnosis"]["verdict"].as_str(), status), (Some("infeasible"), 1), "{object}");
    let choice = drn(
        2,
        &[
            &[(&[(1, "1")], &["0", "0"]), (&[(2, "1")], &["0", "0"])],
            &[(&[(1, "1")], &["1", "0"])],
            &[(&[(2, "1")], &["0", "1"])],
        ],
    );
    let (object, status) = acrl("run", &choice, args);
    assert_eq!((object["verdict"].as_str(), status), (Some("satisfied"), 0), "it steers: {object}");
    let literal = format!("{args} --executor policy");
    let (object, status) = acrl("run", &choice, &literal);
    assert_eq!(
        (object["diagnosis"]["verdict"].as_str(), status),
        (Some("policy_insufficient"), 1),
        "{object}"
    );
    let (object, _) = acrl("solve", &choice, "--maximize r0 --require r1>=0.4");
    assert!((object["objective"].as_f64().unwrap() - 0.6).abs() < 1e-9, "expected");
    assert!(object["almost_sure"].as_f64().unwrap().abs() < 1e-9, "on almost every path");
}

/// A large offset of the rewards excused a large error in the multipliers.
#[test]
fn prices_are_invariant_to_reward_offsets() {
    let room = |offset: f64| {
        let r = |x: f64| (x + offset).to_string();
        let (earn, serve, both) = (r(1.0), r(0.0), r(0.7));
        drn(
            2,
            &[&[
                (&[(0, "1")], &[earn.as_str(), "0"]),
                (&[(0, "1")], &[serve.as_str(), "1"]),
                (&[(0, "1")], &[both.as_str(), "0.4"]),
            ]],
        )
    };
    for offset in [0.0, 1000.0, -100_000.0] {
        let (object, _) = acrl("solve", &room(offset), "--maximize r0 --require r1>=0.5");
        let price = object["multipliers"]["r1"].as_f64().unwrap();
        assert!((price - 0.7 / 0.6).abs() < 1e-6, "offset {offset}: {price}");
    }
}

/// The worst run of a reward that is objective and requirement was that of the objective.
#[test]
fn worst_run_of_a_minimized_objective_is_the_largest() {
    let model = drn(1, &[&[(&[(0, "1")], &["1"]), (&[(0, "1")], &["0"])]]);
    let (object, _) = acrl("run", &model, "--maximize r0 --require r0<=0.3 --steps 1005");
    let requirement = &object["requirements"]["r0"];
    assert!(
        requirement["worst"].as_f64().unwrap() >= requirement["average"].as_f64().unwrap() - 1e-12,
        "{object}"
    );
}
