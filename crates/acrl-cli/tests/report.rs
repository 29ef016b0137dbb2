//! Folders and reports as a user meets them.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn acrl(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_acrl")).args(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn events(folder: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join("events.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn run_writes_events_and_report() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("deep/run");
    let path = folder.to_str().unwrap();
    let run = ["run", "monitoring", "--runs", "3", "--steps", "20000", "--out-dir", path];
    assert_eq!(acrl(&run).status.code(), Some(0));
    let events = events(&folder);
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[1], kinds[kinds.len() - 1]), ("requirements", "started", "finished"));
    assert_eq!(kinds.iter().filter(|kind| **kind == "snapshot").count(), 400);
    assert_eq!(events[0]["data"][1]["bound"].as_f64(), Some(1.0 / 3.0));
    let last = &events[events.len() - 2]["data"];
    assert_eq!((&last["steps"], &last["total"]), (&Value::from(20_000), &Value::from(20_000)));
    let certified = last["shortfalls"][0].as_f64().unwrap();
    assert!(
        (certified
            - events[events.len() - 1]["data"]["certificate"]["requirements"][0]["shortfall"]
                .as_f64()
                .unwrap())
        .abs()
            < 1e-12
    );
    for file in
        ["report.html", "report.json", "figures/averages.svg", "figures/averages.png", "data/averages.csv"]
    {
        assert!(folder.join(file).metadata().is_ok_and(|file| file.len() > 100), "{file}");
    }
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("report.json")).unwrap()).unwrap();
    assert_eq!(report["good"], true);
    assert!(report["lead"].as_str().unwrap().contains("All 2 requirements are met in every one of 3 runs"));
    assert!(report["command"].as_str().unwrap().starts_with("acrl run monitoring --runs 3"));

    // What is there is not lost by mistake.
    let again = acrl(&run);
    assert_eq!(again.status.code(), Some(2));
    assert!(stderr(&again).contains("holds a run already") && stderr(&again).contains("--replace"));
    assert_eq!(acrl(&[&run[..], &["--replace"]].concat()).status.code(), Some(0));
    std::fs::write(folder.join("checkpoint"), "of a training").unwrap();
    let training = acrl(&[&run[..], &["--replace"]].concat());
    assert_eq!(training.status.code(), Some(2));
    assert!(stderr(&training).contains("holds a training"), "{}", stderr(&training));
}

/// A folder that cannot be had is told before the work and not after it, and one that is in use is left alone.
#[test]
fn output_folder_is_checked_before_the_run() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "not a folder").unwrap();
    let file = file.to_str().unwrap();
    // Each of these would take minutes.
    for args in [
        &["compare", "wireless", "--out-dir", file][..],
        &["reproduce", "--out-dir", file],
        &["demo", "--out-dir", file],
    ] {
        let output = acrl(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains("cannot create") && stderr(&output).contains(file), "{args:?}");
    }
    let folder = place.path().join("run");
    let path = folder.to_str().unwrap();
    let mut running = Command::new(env!("CARGO_BIN_EXE_acrl"))
        .args(["run", "queue", "--steps", "1e12", "--quiet", "--out-dir", path])
        .spawn()
        .unwrap();
    let begin = std::time::Instant::now();
    while !folder.join("events.jsonl").exists() {
        assert!(begin.elapsed().as_secs() < 60, "the run does not begin");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let second = acrl(&["run", "queue", "--steps", "100", "--out-dir", path, "--replace"]);
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains("another run is writing"), "{}", stderr(&second));
    // The killed one holds nothing any more.
    assert!(
        acrl(&["run", "queue", "--steps", "100", "--out-dir", path, "--replace"]).status.code() < Some(2)
    );
}

#[test]
fn report_contains_the_diagnosis() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let output = acrl(&[
        "run",
        "monitoring",
        "--require",
        "r1>=0.55",
        "--require",
        "r2>=0.55",
        "--out-dir",
        folder.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("report.html"));
    let report = std::fs::read_to_string(folder.join("report.json")).unwrap();
    assert!(report.contains("Infeasible: no policy meets r1, r2 together"), "{report}");
}

#[test]
fn report_of_a_planar_policy_has_vector_field_and_occupancy() {
    let place = tempfile::tempdir().unwrap();
    let (policy, folder) = (place.path().join("p.safetensors"), place.path().join("run"));
    let (policy, logs) = (policy.to_str().unwrap(), place.path().join("training"));
    let train = [
        "train",
        "planar-speed",
        "--total-steps",
        "300000",
        "-o",
        policy,
        "--out-dir",
        logs.to_str().unwrap(),
    ];
    assert_eq!(acrl(&train).status.code(), Some(0));
    let run = ["run", policy, "--runs", "2", "--steps", "5000", "--out-dir", folder.to_str().unwrap()];
    assert!(acrl(&run).status.code().is_some_and(|code| code < 2));
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("report.json")).unwrap()).unwrap();
    let figures: Vec<&Value> = report["blocks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|block| block["kind"] == "figure")
        .map(|block| &block["content"])
        .collect();
    let names: Vec<&str> = figures.iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["averages", "multipliers", "certificate", "policy", "occupancy"]);
    let field = &figures[3]["panels"][0]["plot"]["field"];
    assert_eq!(field["sliders"].as_array().unwrap().len(), 4);
    assert_eq!(field["model"]["shape"], serde_json::json!([6, 64, 64, 2]));
    for arrow in field["arrows"].as_array().unwrap() {
        let length = arrow["dx"].as_f64().unwrap().hypot(arrow["dy"].as_f64().unwrap());
        assert!(length <= 2.0 + 1e-9, "the speed limit is 2: {length}");
    }
    let shares = figures[4]["panels"][0]["plot"]["heat"]["shares"].as_array().unwrap();
    assert!((shares.iter().map(|share| share.as_f64().unwrap()).sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(folder.join("report.html").metadata().unwrap().len() < 8_000_000);
}

#[test]
fn compare_writes_report_with_settling_times() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("compare");
    let output = acrl(&[
        "compare",
        "monitoring",
        "--json",
        "--train-steps",
        "20000",
        "--out-dir",
        folder.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0));
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    let methods = comparison["methods"].as_array().unwrap();
    let of = |name: &str| methods.iter().find(|entry| entry["method"] == name).unwrap();
    assert!((comparison["optimum"].as_f64().unwrap() - 1.0 / 3.0).abs() < 1e-6);
    let ours = of("A-CRL (exact)");
    assert!(ours["met_from"].as_u64().is_some_and(|step| step < 20_000), "{ours}");
    assert!(ours["transient"].as_f64().unwrap() < 0.01);
    // A policy that is kept misses a requirement from beginning to end.
    let fixed = of("fixed weights");
    assert_eq!((&fixed["met_from"], fixed["met"].as_bool()), (&Value::Null, Some(false)));
    assert!(fixed["transient"].as_f64().unwrap() > 0.1);
    assert!(folder.join("figures/comparison.png").exists());
    let refused = acrl(&["compare", "monitoring", "--train-seeds", "2"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn compare_trains_each_method_with_several_seeds() {
    let args = [
        "compare",
        "planar-speed",
        "--methods",
        "a_crl,primal_dual",
        "--train-steps",
        "40000",
        "--train-seeds",
        "2",
        "--runs",
        "2",
        "--steps",
        "2000",
        "--json",
    ];
    let first = acrl(&args);
    let comparison: Value = serde_json::from_slice(&first.stdout).unwrap();
    assert_eq!(comparison["train_seeds"], 2);
    let names: Vec<&str> = comparison["methods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["method"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["A-CRL", "primal-dual, online", "primal-dual, stopped"]);
    let one = acrl(&[&args[..], &["--threads", "1"]].concat());
    assert_eq!(first.stdout, one.stdout, "the number of threads makes no difference");
}
