//! `acrl solve` beyond the optimum: time limits, rounds, sweeps, parts, certificates, and answers that are executed.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;
use std::time::{Duration, Instant};

use acrl::FiniteCmdp;
use serde_json::Value;

#[path = "common/program.rs"]
mod program;

use program::{
    acrl_in, close, events, interrupt, json, json_in, number, refused, start_in, stderr, stdout, text,
};

fn save(model: &FiniteCmdp, folder: &Path, name: &str) {
    std::fs::write(folder.join(name), acrl_exact::npz::write(model)).unwrap();
}

/// A square grid of rough ground with moves that may slip: r0 is paid here and there, r1 in a far corner.
fn grid(side: usize) -> FiniteCmdp {
    let mut b = FiniteCmdp::builder(["r0", "r1"]);
    (0..side * side).for_each(|s| _ = b.state(s.to_string()));
    let mut seed = 1u64;
    let mut draw = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f64 / (1u64 << 24) as f64
    };
    for s in 0..side * side {
        let (x, y) = (s % side, s / side);
        let corner = if x + y + 12 >= 2 * side { 1.0 } else { 0.0 };
        let rewards = [draw().powi(4), corner * draw()];
        let next = [
            (x + 1).min(side - 1) + y * side,
            x.saturating_sub(1) + y * side,
            x + (y + 1).min(side - 1) * side,
            x + y.saturating_sub(1) * side,
        ];
        for (a, &to) in next.iter().enumerate() {
            let slip = next[(a + 1) % 4];
            let mut targets = vec![(to, 0.9)];
            if slip == to {
                targets[0].1 = 1.0
            } else {
                targets.push((slip, 0.1))
            }
            b.choice(s, a.to_string(), &targets, &rewards);
        }
    }
    b.build().unwrap()
}

#[test]
fn time_limit_gives_the_best_solution_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    save(&grid(60), folder, "grid.npz");
    let limited = "solve grid.npz --maximize r0 --gap 1e-9 --time-limit 0.01s --require r1>=0";
    let output = acrl_in(folder, &format!("{limited} --json --log rounds.jsonl"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("stopped at a gap of"), "{}", stderr(&output));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((object["status"].as_str(), &object["complete"]), (Some("optimal"), &Value::Bool(false)));
    assert!(number(&object["gap"]) > 1e-9);
    assert!(number(&object["bounds"][0]) <= number(&object["objective"]) + 1e-9);
    // The last round that was logged is the solution's.
    let last = &events(&folder.join("rounds.jsonl")).pop().unwrap();
    assert_eq!(last["type"], "round");
    assert_eq!((&last["data"]["lower"], &last["data"]["gap"]), (&object["bounds"][0], &object["gap"]));
    assert_eq!(last["data"]["round"], object["rounds"]);
    // Without a policy that meets the requirements there is nothing to give.
    let output = acrl_in(folder, "solve grid.npz --maximize r1 --require r0>=0.9 --time-limit 0.01s");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("--time-limit") && output.stdout.is_empty(), "{}", stderr(&output));
}

/// No solver of this precision closes such a gap: it gives up, and says so to people and to programs.
#[test]
fn unreached_gap_is_reported_as_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    save(&grid(20), folder, "grid.npz");
    let solve = "solve grid.npz --maximize r0 --require r1>=0.05";
    let output = acrl_in(folder, &format!("{solve} --gap 1e-17 --json"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("stopped at a gap of"), "{}", stderr(&output));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((object["status"].as_str(), &object["complete"]), (Some("optimal"), &Value::Bool(false)));
    assert!(number(&object["gap"]) > 1e-17);
    let text = stdout(&acrl_in(folder, &format!("{solve} --gap 1e-17")));
    assert!(text.contains("best found: r0 =") && !text.contains("optimal"), "{text}");
    // At the default it is reached.
    let object = json_in(folder, solve).0;
    assert_eq!(object["complete"], true);
    assert!(number(&object["gap"]) <= 1e-6);
}

#[cfg(unix)]
#[test]
fn ctrl_c_gives_the_best_solution_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    save(&grid(150), folder, "grid.npz");
    let solve = "solve grid.npz --maximize r0 --require r1>=0.05 --gap 1e-11 --json --log rounds.jsonl";
    let child = start_in(folder, solve);
    // As soon as there is something to report.
    let begin = Instant::now();
    let known = || {
        let text = std::fs::read_to_string(folder.join("rounds.jsonl")).unwrap_or_default();
        text.lines().any(|line| line.ends_with('}') && !line.contains("\"lower\":null"))
    };
    while !known() {
        assert!(begin.elapsed() < Duration::from_secs(120), "no round in two minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((object["status"].as_str(), &object["complete"]), (Some("optimal"), &Value::Bool(false)));
    assert!(number(&object["bounds"][0]) <= number(&object["bounds"][1]));
}

#[test]
fn slope_of_a_sweep_is_the_price() {
    let folder = tempfile::tempdir().unwrap();
    let (object, status) =
        json_in(folder.path(), "solve monitoring --sweep r1>=0.1..0.7:13 --out-dir report");
    assert_eq!((object["requirement"].as_str(), status), (Some("r1"), 0));
    let points = object["sweep"].as_array().unwrap();
    assert_eq!(points.len(), 13);
    close(&points[0]["bound"], 0.1, 1e-12);
    let feasible: Vec<&Value> = points.iter().filter(|p| p["status"] == "optimal").collect();
    assert!(feasible.len() > 5 && points.last().unwrap()["status"] == "infeasible");
    for point in &feasible {
        let (single, _) = json(&format!("solve monitoring --require r1>={}", number(&point["bound"])));
        close(&point["objective"], number(&single["objective"]), 1e-6);
    }
    for pair in feasible.windows(2) {
        let slope = (number(&pair[1]["objective"]) - number(&pair[0]["objective"]))
            / (number(&pair[1]["bound"]) - number(&pair[0]["bound"]));
        let price = |i: usize| number(&pair[i]["multipliers"]["r1"]);
        assert!(-slope >= price(0) - 1e-6 && -slope <= price(1) + 1e-6, "{slope} {pair:?}");
    }
    for name in ["report.html", "figures/sweep.svg", "figures/sweep.png", "data/sweep.csv"] {
        assert!(folder.path().join("report").join(name).exists(), "{name}");
    }
    let text = text("solve monitoring --sweep r1>=0.1..0.7:4");
    assert!(text.contains("r1 >=") && text.contains("infeasible") && text.contains("price"), "{text}");
    // Nowhere: the exit status says so. On the other side and downwards it is a curve too.
    assert_eq!(json("solve monitoring --sweep r1>=0.8..0.9:3").1, 1);
    let (object, _) = json("solve monitoring --minimize r0 --sweep r2<=0.6..0.4:3");
    assert_eq!(object["sweep"][0]["bound"], 0.6);
    for sweep in ["r1>=0.1", "r1>=0.1..0.2:1", "nobody>=0..1:3"] {
        refused(folder.path(), &format!("solve monitoring --sweep {sweep}"), "");
    }
}

#[test]
fn infeasibility_proof_is_one_sentence() {
    for (require, expected) in [
        (
            "--require r1>=0.55 --require r2>=0.55",
            "No policy has 0.5 r1 + 0.5 r2 above 0.5, and the bounds together ask for 0.55.",
        ),
        ("--require r1<=-0.5", "No policy has r1 below 0, and the bound asks for -0.5."),
    ] {
        let text = text(&format!("solve monitoring {require}"));
        assert!(text.contains(expected), "{text}");
    }
}

/// A hub leads to a trap that pays most and serves nobody, to one that only serves, or by chance to one of two rooms.
fn parts() -> FiniteCmdp {
    let mut b = FiniteCmdp::builder(["r0", "r1"]);
    (0..7).for_each(|s| _ = b.state(s.to_string()));
    b.choice(0, "trap", &[(1, 1.0)], &[0.0, 0.0]);
    b.choice(0, "serve", &[(6, 1.0)], &[0.0, 0.0]);
    b.choice(0, "rooms", &[(2, 0.3), (4, 0.3), (0, 0.4)], &[0.0, 0.0]);
    b.choice(1, "stay", &[(1, 1.0)], &[5.0, 0.0]);
    b.choice(6, "stay", &[(6, 1.0)], &[0.0, 1.0]);
    for (first, pay) in [(2, 1.0), (4, 0.5)] {
        b.choice(first, "earn", &[(first, 1.0)], &[pay, 0.0]);
        b.choice(first, "over", &[(first + 1, 1.0)], &[0.0, 0.0]);
        b.choice(first + 1, "serve", &[(first + 1, 0.9), (first, 0.1)], &[0.0, 1.0]);
    }
    b.build().unwrap()
}

#[test]
fn end_components_are_listed_and_the_almost_sure_optimum_is_executed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    save(&parts(), folder, "parts.npz");
    let solve = "solve parts.npz --maximize r0 --require r1>=0.25";
    let (object, _) = json_in(folder, &format!("{solve} --policy solved.safetensors"));
    // Three of four runs to the trap, one to serve.
    close(&object["objective"], 3.75, 1e-6);
    let components = object["components"].as_array().unwrap();
    assert_eq!(components.len(), 4);
    close(&components[0]["mass"], 0.75, 1e-6);
    assert_eq!((&components[0]["first"], &components[0]["states"]), (&Value::from("1"), &Value::from(1)));
    assert_eq!(components[0]["almost_sure"], Value::Null);
    close(&components[3]["mass"], 0.25, 1e-6);
    let total: f64 = components.iter().map(|c| number(&c["mass"])).sum();
    assert!((total - 1.0).abs() < 1e-9);
    let sure = components.iter().map(|c| &c["almost_sure"]).filter(|sure| sure.is_object());
    let sure: f64 = sure.map(|sure| number(&sure["mass"]) * number(&sure["objective"])).sum();
    close(&object["almost_sure"], sure, 1e-6);
    let text = stdout(&acrl_in(folder, solve));
    assert!(text.contains("share of runs") && text.contains("cannot be met"), "{text}");
    // Every run is one path; on average over many runs they have the certified value.
    for executor in ["", "--executor time-sharing"] {
        let line = format!("run solved.safetensors --steps 100000 --runs 100 {executor}");
        let (run, status) = json_in(folder, &line);
        assert!(status == 0 && run["verdict"] != "violated", "{run}");
        close(&run["averages"]["r0"], sure, 0.05);
        close(&run["objective"]["optimum"], sure, 1e-6);
        assert!(number(&run["worst"]["r1"]) > 0.24, "{run}");
    }
}

#[test]
fn solved_policy_runs_by_multipliers_and_by_time_sharing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A small model with π(λ) from the model itself, and a larger one with the policies of the file.
    save(&grid(40), folder, "grid.npz");
    for (problem, executor, steps) in [
        ("queue", "stationary", 2_000_000),
        ("grid.npz --maximize r0 --require r1>=0.1", "time_sharing", 2_000_000),
    ] {
        let (solved, _) = json_in(folder, &format!("solve {problem} --policy solved.safetensors"));
        for (flag, executor) in [("", executor), ("--executor time-sharing", "time_sharing")] {
            let (run, status) = json_in(folder, &format!("run solved.safetensors --steps {steps} {flag}"));
            assert_eq!((status, run["executor"].as_str()), (0, Some(executor)), "{run}");
            for (name, value) in solved["values"].as_object().unwrap() {
                close(&run["averages"][name], number(value), 0.015 * number(value).abs().max(0.3));
            }
        }
    }
    // Other bounds by multipliers, other things not at all.
    let (solved, _) = json_in(folder, "solve queue --policy solved.safetensors");
    let first = &solved["specification"]["requirements"][0];
    let sign = if first["direction"] == "at_least" { ">=" } else { "<=" };
    let bound = format!("{}{sign}{}", first["reward"].as_str().unwrap(), 1.1 * number(&first["bound"]));
    assert_eq!(json_in(folder, &format!("run solved.safetensors --require {bound} --steps 400000")).1, 0);
    refused(folder, "run solved.safetensors --require nobody>=1", "nobody");
    refused(folder, "run queue --time-sharing", "--executor time-sharing");
    let again = json_in(folder, "solve solved.safetensors").0;
    assert_eq!(again["objective"], solved["objective"], "the file holds the model");
    let path = folder.join("solved.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.len() - 20;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    refused(folder, "run solved.safetensors", "damaged");
}

#[test]
fn policy_table_has_the_actions_of_each_policy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (solved, status) = json_in(folder, "solve monitoring --table table.csv --out-dir report");
    assert_eq!(status, 0);
    let table = &solved["policy_table"];
    let rows = table["rows"].as_array().unwrap();
    let states: Vec<_> = rows.iter().map(|row| row["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["R0", "R1", "R2"]);
    let policies = solved["mixture"].as_array().unwrap().len();
    let differing: Vec<_> = rows.iter().filter(|row| row["differs"] == true).collect();
    assert_eq!(
        (differing.len() as u64, table["complete"].as_bool()),
        (table["differing_states"].as_u64().unwrap(), Some(true))
    );
    assert!(!differing.is_empty());
    for row in rows {
        let actions = row["actions"].as_array().unwrap();
        assert_eq!(actions.len(), policies);
        assert_eq!(row["differs"] == true, actions.iter().any(|action| *action != actions[0]));
    }
    let csv = std::fs::read_to_string(folder.join("table.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("state,differs,policy 1 ("), "{csv}");
    assert_eq!(lines.len(), 4);
    assert!(lines[1].starts_with("R0,"), "{csv}");
    let page = std::fs::read_to_string(folder.join("report/report.html")).unwrap();
    assert!(page.contains("The policies differ in"));
    let shown = text("solve monitoring");
    assert!(shown.contains(&format!("the policies differ in {} of 3 states:", differing.len())), "{shown}");
}

#[test]
fn large_models_have_a_table_of_differences() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    save(&grid(40), folder, "grid.npz");
    let solve = "solve grid.npz --maximize r0 --require r1>=0.1";
    let (solved, _) = json_in(folder, &format!("{solve} --table table.csv"));
    let table = &solved["policy_table"];
    assert_eq!(table["complete"], false);
    let rows = table["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["differs"] == true));
    assert_eq!(rows.len() as u64, table["differing_states"].as_u64().unwrap().min(1_000));
    assert_eq!(std::fs::read_to_string(folder.join("table.csv")).unwrap().lines().count(), 1_601);
}

#[test]
fn no_policy_is_written_for_infeasible_problems() {
    let folder = tempfile::tempdir().unwrap();
    let output = acrl_in(folder.path(), "solve monitoring --require r1>=0.9 --policy p.safetensors");
    assert!(output.status.code() == Some(1) && !folder.path().join("p.safetensors").exists());
    assert!(stderr(&output).contains("no policy written to"));
}
