//! The program as a user meets it: results, exit status, JSON, logs, pipes.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

#[path = "common/program.rs"]
mod program;

use program::{acrl, close, json, number, root, text};

#[test]
fn solve_finds_the_optimum_of_example_1() {
    let (object, status) = json(&["solve", "crates/acrl-envs/problems/monitoring.toml"]);
    assert_eq!((object["status"].as_str(), status), (Some("optimal"), 0));
    close(&object["objective"], 1.0 / 3.0, 1e-6);
    close(&object["multipliers"]["r1"], 1.0, 1e-6);
    close(&object["multipliers"]["r2"], 1.0, 1e-6);
    assert!(number(&object["gap"]) <= 1e-6);
    assert!(number(&object["bounds"][0]) <= number(&object["bounds"][1]));
    let mixture = object["mixture"].as_array().unwrap();
    for name in ["r1", "r2"] {
        let value: f64 = mixture.iter().map(|c| number(&c["weight"]) * number(&c["values"][name])).sum();
        assert!(value >= 1.0 / 3.0 - 1e-9, "{name} {value}");
    }
    assert_eq!(object["states"], 3);
}

#[test]
fn run_on_example_1_reproduces_figure_3() {
    let (object, status) = json(&["run", "crates/acrl-envs/problems/monitoring.toml", "--steps", "10000"]);
    assert_eq!((object["epoch"].as_u64(), status), (Some(10), 0));
    for name in ["r0", "r1", "r2"] {
        close(&object["averages"][name], 1.0 / 3.0, 0.004);
    }
    for name in ["r1", "r2"] {
        let multiplier = &object["multipliers"][name];
        assert!(number(&multiplier["min"]) >= 0.7 && number(&multiplier["max"]) <= 1.15, "{multiplier}");
    }
    assert_eq!(object["diagnosis"]["verdict"], "met");
    let (object, _) = json(&["run", "crates/acrl-envs/problems/monitoring.toml", "--steps", "1000000"]);
    for name in ["r0", "r1", "r2"] {
        close(&object["averages"][name], 1.0 / 3.0, 1e-4);
    }
}

#[test]
fn auto_epoch_meets_tight_requirements_and_infeasible_ones_are_diagnosed() {
    let harder = [
        "run",
        "crates/acrl-envs/problems/monitoring.toml",
        "--require",
        "r1>=0.46",
        "--require",
        "r2>=0.46",
        "--steps",
        "200000",
    ];
    let (object, status) = json(&[&harder[..], &["--epoch", "auto"]].concat());
    assert_eq!(status, 0);
    for name in ["r1", "r2"] {
        assert!(number(&object["requirements"][name]["certified_shortfall"]) <= 0.005);
        close(&object["averages"][name], 0.46, 0.005);
    }
    let (object, status) = json(&harder);
    assert_eq!((object["diagnosis"]["verdict"].as_str(), status), (Some("epoch_too_short"), 1));

    let impossible = [
        "run",
        "crates/acrl-envs/problems/monitoring.toml",
        "--require",
        "r1>=0.55",
        "--require",
        "r2>=0.55",
        "--epoch",
        "auto",
    ];
    let (object, status) = json(&impossible);
    assert_eq!((object["diagnosis"]["verdict"].as_str(), status), (Some("infeasible"), 1));
    assert_eq!(object["diagnosis"]["names"], serde_json::json!(["r1", "r2"]));
}

#[test]
fn solve_reports_conflict_and_relaxation() {
    let args = [
        "solve",
        "crates/acrl-envs/problems/monitoring.toml",
        "--require",
        "r1>=0.55",
        "--require",
        "r2>=0.55",
    ];
    let (object, status) = json(&args);
    assert_eq!((object["status"].as_str(), status), (Some("infeasible"), 1));
    assert_eq!(object["conflict"], serde_json::json!(["r1", "r2"]));
    close(&object["relax"]["uniform"], 0.05, 1e-6);
    close(&object["relax"]["single"]["r1"], 0.1, 1e-6);
    // The relaxation is enough, and a little less is not.
    let relaxed = |c: &str| {
        acrl(&["solve", "crates/acrl-envs/problems/monitoring.toml", "--require", c, "--require", "r2>=0.55"])
    };
    assert_eq!(relaxed("r1>=0.45").status.code(), Some(0));
    assert_eq!(relaxed("r1>=0.451").status.code(), Some(1));
}

#[test]
fn directions_signs_and_two_sided_requirements_are_preserved() {
    let (object, _) = json(&["solve", "crates/acrl-envs/problems/queue.toml"]);
    assert!(number(&object["objective"]) > 0.0, "power is minimised and positive");
    assert!(number(&object["values"]["queue"]) <= 4.0 + 1e-6 && number(&object["values"]["queue"]) > 0.0);
    assert!(number(&object["bounds"][0]) <= number(&object["bounds"][1]));
    let two_sided = ["--require", "r1>=0.3", "--require", "r1<=0.35"];
    let (object, status) = json(&[&["solve", "monitoring"], &two_sided[..]].concat());
    assert_eq!(status, 0);
    assert!(object["multipliers"].get("r1.min").is_some() && object["multipliers"].get("r1.max").is_some());
}

#[test]
fn npz_model_and_problem_file_have_the_same_solution() {
    let example = acrl_envs::Monitoring::new(acrl_envs::MonitoringParameters::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.npz");
    std::fs::write(&model, acrl_exact::npz::write(&example.model().unwrap())).unwrap();
    let asked = ["--maximize", "r0", "--require", "r1>=0.3", "--require", "r2>=0.3"];
    let (object, status) = json(&[&["solve", model.to_str().unwrap()], &asked[..]].concat());
    assert_eq!((status, &object["states"], &object["choices"]), (0, &Value::from(3), &Value::from(6)));
    close(&object["objective"], 0.4, 1e-6);
    let problem = folder.path().join("problem.toml");
    let text = "[model]\nfile = 'model.npz'\n[objective]\nreward = 'r0'\n[[requirement]]\nreward = 'r1'\nat_least = 0.3\n";
    std::fs::write(&problem, text).unwrap();
    let (object, status) = json(&["run", problem.to_str().unwrap(), "--steps", "20000"]);
    assert_eq!((status, &object["requirements"]["r1"]["met"]), (0, &Value::from(true)));
}

#[test]
fn runs_are_bit_identical_for_any_number_of_threads() {
    let args = [
        "run",
        "crates/acrl-envs/problems/queue.toml",
        "--runs",
        "8",
        "--steps",
        "20000",
        "--seed",
        "3",
        "--json",
    ];
    let one = acrl(&[&args[..], &["--threads", "1"]].concat()).stdout;
    let all = acrl(&args).stdout;
    assert!(!one.is_empty() && one == all);
    let other = acrl(&[
        "run",
        "crates/acrl-envs/problems/queue.toml",
        "--runs",
        "8",
        "--steps",
        "20000",
        "--seed",
        "4",
        "--json",
    ])
    .stdout;
    assert_ne!(one, other, "the seed matters");
}

#[test]
fn every_bundled_problem_is_solved_and_run() {
    let (object, _) = json(&["problems"]);
    let problems = object["problems"].as_array().unwrap();
    assert!(problems.len() >= 10);
    for problem in problems {
        let name = problem["name"].as_str().unwrap();
        if problem["continuous"] == true {
            let refusal = String::from_utf8(acrl(&["run", name]).stderr).unwrap();
            assert!(refusal.contains(&format!("acrl train {name} -o")), "{refusal}");
            continue;
        }
        let (solved, status) = json(&["solve", name]);
        assert_eq!((solved["status"].as_str(), status), (Some("optimal"), 0), "{name}");
        let (object, status) = json(&["run", name]);
        assert_eq!((object["diagnosis"]["verdict"].as_str(), status), (Some("met"), 0), "{name}: {object}");
    }
}

#[test]
fn check_reports_assumptions_and_guarantees() {
    let (object, status) = json(&["check", "monitoring"]);
    assert_eq!(status, 0);
    close(&object["slater"]["constant"], 1.0 / 6.0, 1e-6);
    let theory = &object["theory"];
    close(&theory["squared_bound"], 5.0 / 9.0, 1e-9);
    close(&theory["promised_loss"], 0.5 * 5.0 / 18.0, 1e-9);
    close(&theory["step_size_for_wanted_loss"], 2.0 * 0.01 * 9.0 / 5.0, 1e-9);
    close(&theory["switch_time"], 2.0, 1e-9);
    assert!(theory["suggested_epoch"].as_u64().unwrap() > 1);
    let text = text(&["check", "monitoring"]);
    for expected in ["(A1) holds", "(A2) B^2", "Assumption 1", "Assumption 2", "step size"] {
        assert!(text.contains(expected), "{expected:?} is missing from\n{text}");
    }
    assert_eq!(
        acrl(&["check", "monitoring", "--require", "r1>=0.55", "--require", "r2>=0.55"]).status.code(),
        Some(1)
    );
}

#[test]
fn compare_lists_every_method() {
    let (object, status) = json(&["compare", "monitoring"]);
    assert_eq!(status, 0);
    let methods = object["methods"].as_array().unwrap();
    let met = |name: &str| {
        let entry =
            methods.iter().find(|m| m["method"] == name).unwrap_or_else(|| panic!("no {name}: {object}"));
        entry["met"].as_bool().unwrap()
    };
    assert!(met("A-CRL (exact)") && met("A-CRL (learned)") && met("primal averaging (by occupancy)"));
    assert!(!met("fixed weights") && !met("dual descent, stopped") && !met("primal averaging (by state)"));
    let text = text(&["compare", "monitoring"]);
    assert!(text.contains("A-CRL (exact)") && text.contains("fixed weights"), "{text}");
}

#[test]
fn log_is_json_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let output = acrl(&["run", "monitoring", "--steps", "1000", "--log", path.to_str().unwrap()]);
    assert!(matches!(output.status.code(), Some(0 | 1)));
    let log = std::fs::read_to_string(path).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 102);
    assert_eq!(events[0]["type"], "started");
    assert_eq!(events[1]["type"], "epoch");
    assert_eq!(events[101]["type"], "finished");
    assert_eq!(events[100]["data"]["multipliers"].as_array().unwrap().len(), 2);
}

#[test]
fn init_writes_a_valid_problem_and_never_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let path = path.to_str().unwrap();
    assert!(acrl(&["init", "inline", "-o", path]).status.success());
    assert!(acrl(&["solve", path]).status.success());
    let again = acrl(&["init", "queue", "-o", path]);
    assert_eq!(again.status.code(), Some(2));
    assert!(acrl(&["solve", path]).status.success(), "the first file is still there");
}

#[test]
fn help_has_examples_and_plain_acrl_is_help() {
    let plain = acrl(&[]);
    assert!(plain.status.success());
    assert!(String::from_utf8_lossy(&plain.stdout).contains("Examples:"));
    for verb in ["solve", "run", "compare", "reproduce", "check", "init", "completions"] {
        let help = text(&[verb, "--help"]);
        assert!(help.contains("Examples:") && help.contains(&format!("acrl {verb}")), "{verb}: {help}");
    }
    assert!(text(&["--version"]).starts_with("acrl "));
    for shell in ["bash", "zsh", "fish"] {
        assert!(text(&["completions", shell]).contains("acrl"));
    }
}

#[test]
fn output_is_plain_in_a_pipe_and_coloured_on_request() {
    assert!(!text(&["run", "monitoring"]).contains('\u{1b}'));
    assert!(text(&["run", "monitoring", "--color", "always"]).contains('\u{1b}'));
    assert!(acrl(&["run", "monitoring"]).stderr.is_empty(), "no progress bar in a pipe");
}

#[test]
fn closed_pipe_is_not_an_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_acrl"))
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn full_disk_error_names_the_file() {
    // /dev/full accepts an open and refuses every write.
    if !Path::new("/dev/full").exists() {
        return;
    }
    let output = acrl(&["run", "monitoring", "--log", "/dev/full"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write /dev/full"));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_acrl"))
        .args(["problems"])
        .stdout(full)
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
}

/// Every key that is printed is explained in docs/json.md.
#[test]
fn every_json_key_is_documented() {
    fn keys(value: &Value, found: &mut std::collections::BTreeSet<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    found.insert(key.clone());
                    keys(value, found);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
            _ => {}
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    acrl(&["run", "monitoring", "--steps", "100", "--log", path.to_str().unwrap()]);
    let mut found = std::collections::BTreeSet::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        keys(&serde_json::from_str(line).unwrap(), &mut found);
    }
    let impossible = ["--require", "r1>=0.55", "--require", "r2>=0.55"];
    for args in [
        &["solve", "monitoring"][..],
        &[&["solve", "monitoring"], &impossible[..]].concat(),
        &["solve", "monitoring", "--require", "r1>=0", "--require", "r2>=0"],
        &["run", "monitoring"],
        &["check", "monitoring"],
        &[&["check", "monitoring"], &impossible[..]].concat(),
        &["compare", "monitoring", "--steps", "1000", "--train-steps", "1000"],
        &["problems"],
    ] {
        keys(&json(args).0, &mut found);
    }
    let page = std::fs::read_to_string(root().join("docs/json.md")).unwrap();
    let rewards = ["r0", "r1", "r2", "type", "data"];
    let missing: Vec<&String> = found
        .iter()
        .filter(|key| !rewards.contains(&key.as_str()) && !page.contains(&format!("`{key}`")))
        .collect();
    assert!(missing.is_empty(), "not in docs/json.md: {missing:?}");
}

/// Ctrl-C loses nothing: the steps taken so far are reported.
#[cfg(unix)]
#[test]
fn ctrl_c_reports_partial_results() {
    let child = Command::new(env!("CARGO_BIN_EXE_acrl"))
        .args(["run", "queue", "--steps", "1e13", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let steps = object["steps"].as_u64().unwrap();
    assert!(steps > 0 && steps < 10_000_000_000_000, "{steps}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("stopped by Ctrl-C"));
}

#[test]
fn view_rejects_paths_that_are_not_runs() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("empty")).unwrap();
    std::fs::create_dir_all(at("runs/first")).unwrap();
    std::fs::write(at("runs/first/events.jsonl"), "{}\n").unwrap();
    std::fs::write(at("notes.txt"), "notes").unwrap();
    std::fs::write(at("notes.html"), "notes").unwrap();
    for (name, expected) in [
        ("missing", "missing: "),
        ("empty", "expected report.html or events.jsonl in it"),
        ("runs", "; there is one in "),
        ("runs/first", "has nothing to show"),
        ("notes.txt", "is not a report: expected a run's folder"),
        ("notes.html", "is not a report: expected a run's folder"),
    ] {
        let output = acrl(&["view", "--no-open", at(name).to_str().unwrap()]);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
        assert!(stderr.contains(expected), "{name}: {stderr}");
        assert!(output.stdout.is_empty(), "{name}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    std::fs::write(at("empty/report.html"), "<!DOCTYPE html>").unwrap();
    let output = acrl(&["view", "--no-open", "--port", &port, at("empty").to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("choose another --port"));
}
