//! Folders and reports as a user meets them.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;

use serde_json::Value;

#[path = "common/program.rs"]
mod program;

use program::{acrl_in, events, json_in, number, refused, start_in, stdout};

fn report(folder: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("report.json")).unwrap()).unwrap()
}

#[test]
fn run_writes_events_and_report() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("deep/run");
    let run = "run monitoring --runs 3 --steps 20000 --out-dir deep/run";
    assert_eq!(acrl_in(place.path(), run).status.code(), Some(0));
    let events = events(&folder.join("events.jsonl"));
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!((kinds[0], kinds[1], kinds[kinds.len() - 1]), ("requirements", "started", "finished"));
    assert_eq!(kinds.iter().filter(|kind| **kind == "snapshot").count(), 400);
    assert_eq!(events[0]["data"][1]["bound"].as_f64(), Some(1.0 / 3.0));
    let last = &events[events.len() - 2]["data"];
    assert_eq!((&last["steps"], &last["total"]), (&Value::from(20_000), &Value::from(20_000)));
    let finished = &events[events.len() - 1]["data"]["certificate"]["requirements"][0];
    let shortfall = number(&last["certified_shortfalls"][0]).max(0.0);
    assert!((shortfall - number(&finished["certified_shortfall"])).abs() < 1e-12);
    for file in
        ["report.html", "report.json", "figures/averages.svg", "figures/averages.png", "data/averages.csv"]
    {
        assert!(folder.join(file).metadata().is_ok_and(|file| file.len() > 100), "{file}");
    }
    let report = report(&folder);
    assert_eq!(report["good"], true);
    assert!(report["lead"].as_str().unwrap().contains("in every one of 3 runs"));
    assert!(report["command"].as_str().unwrap().starts_with("acrl run monitoring --runs 3"));

    // What is there is not lost by mistake.
    refused(place.path(), run, "holds a run already");
    refused(place.path(), run, "--replace");
    let replace = format!("{run} --replace");
    assert_eq!(acrl_in(place.path(), &replace).status.code(), Some(0));
    std::fs::write(folder.join("checkpoint"), "of a training").unwrap();
    refused(place.path(), &replace, "holds a training");
}

/// An unusable folder is an error before the work and not after it, and one that is in use is left alone.
#[test]
fn output_folder_is_checked_before_the_run() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("file"), "not a folder").unwrap();
    // Each of these would take minutes.
    for verb in ["compare wireless", "reproduce", "demo"] {
        refused(place.path(), &format!("{verb} --out-dir file"), "cannot create");
    }
    let mut running = start_in(place.path(), "run queue --steps 1e12 --quiet --out-dir run");
    let begin = std::time::Instant::now();
    while !place.path().join("run/events.jsonl").exists() {
        assert!(begin.elapsed().as_secs() < 60, "the run does not begin");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let second = "run queue --steps 100 --out-dir run --replace";
    refused(place.path(), second, "another run is writing");
    running.kill().unwrap();
    running.wait().unwrap();
    // The killed one holds nothing any more.
    assert!(acrl_in(place.path(), second).status.code() < Some(2));
}

#[test]
fn report_contains_the_diagnosis() {
    let place = tempfile::tempdir().unwrap();
    let output = acrl_in(place.path(), "run monitoring --require r1>=0.55 --require r2>=0.55 --out-dir run");
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("report.html"));
    let report = report(&place.path().join("run")).to_string();
    assert!(report.contains("Infeasible: no policy meets r1, r2 together"), "{report}");
}

#[test]
fn report_of_a_planar_policy_has_vector_field_and_occupancy() {
    let place = tempfile::tempdir().unwrap();
    let run = |line: &str| acrl_in(place.path(), line).status.code();
    let train = "train planar-speed --total-steps 300000 -o p.safetensors --out-dir training";
    assert_eq!(run(train), Some(0));
    assert!(run("run p.safetensors --runs 2 --steps 5000 --out-dir run").is_some_and(|code| code < 2));
    let report = report(&place.path().join("run"));
    let blocks = report["blocks"].as_array().unwrap().iter();
    let figures: Vec<&Value> =
        blocks.filter(|block| block["kind"] == "figure").map(|block| &block["content"]).collect();
    let names: Vec<&str> = figures.iter().map(|figure| figure["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["averages", "multipliers", "certificate", "policy", "occupancy"]);
    let field = &figures[3]["panels"][0]["plot"]["field"];
    assert_eq!(field["sliders"].as_array().unwrap().len(), 4);
    assert_eq!(field["model"]["shape"], serde_json::json!([6, 64, 64, 2]));
    for arrow in field["arrows"].as_array().unwrap() {
        let length = number(&arrow["dx"]).hypot(number(&arrow["dy"]));
        assert!(length <= 2.0 + 1e-9, "the speed limit is 2: {length}");
    }
    let shares = figures[4]["panels"][0]["plot"]["heat"]["shares"].as_array().unwrap();
    assert!((shares.iter().map(number).sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(place.path().join("run/report.html").metadata().unwrap().len() < 8_000_000);
}

#[test]
fn compare_writes_report_with_settling_times() {
    let place = tempfile::tempdir().unwrap();
    let (comparison, status) =
        json_in(place.path(), "compare monitoring --train-steps 20000 --out-dir compare");
    assert_eq!(status, 0);
    let methods = comparison["methods"].as_array().unwrap();
    let of = |name: &str| methods.iter().find(|entry| entry["method"] == name).unwrap();
    assert!((number(&comparison["optimum"]) - 1.0 / 3.0).abs() < 1e-6);
    let ours = of("A-CRL (exact)");
    assert!(ours["met_from"].as_u64().is_some_and(|step| step < 20_000), "{ours}");
    assert!(number(&ours["transient"]) < 0.01);
    // A fixed policy misses a requirement from beginning to end.
    let fixed = of("fixed weights");
    assert_eq!((&fixed["met_from"], fixed["verdict"].as_str()), (&Value::Null, Some("violated")));
    assert!(number(&fixed["transient"]) > 0.1);
    assert!(place.path().join("compare/figures/comparison.png").exists());
    refused(place.path(), "compare monitoring --train-seeds 2", "--train-seeds");
}
