//! Training as a user meets it: a policy file, other bounds without training, interruptions, damage.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

fn acrl(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_acrl")).current_dir(folder).args(args).output().unwrap()
}

/// The JSON object that a command prints, and its exit status.
fn json(folder: &Path, args: &[&str]) -> (Value, i32) {
    let output = acrl(folder, &[args, &["--json"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    let object = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {stderr}"));
    (object, output.status.code().unwrap())
}

/// Exit status 2, nothing on standard output, and a sentence that says so.
fn refused(folder: &Path, args: &[&str], expected: &str) {
    let output = acrl(folder, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty() && stderr.contains(expected), "{args:?}: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn one_policy_meets_changed_requirements_without_retraining() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (trained, status) =
        json(folder, &["train", "planar-speed", "-o", "p.safetensors", "--total-steps", "2500000"]);
    assert_eq!((trained["complete"].as_bool(), status), (Some(true), 0));
    for region in ["red", "blue", "green", "orange"] {
        let settled = trained["single_objective_values"][region][region].as_f64().unwrap();
        assert!(settled > 0.9, "all weight on {region} gives only {settled} of it");
    }
    for name in ["events.jsonl", "progress.csv", "checkpoint"] {
        assert!(folder.join("runs/p").join(name).exists(), "{name}");
    }
    let other = ["--require", "red>=0.05", "--require", "orange>=0.4", "--require", "blue>=0.1"];
    for bounds in [&[][..], &other[..]] {
        for epoch in ["auto", "1"] {
            let args = [&["run", "p.safetensors", "--runs", "8", "--epoch", epoch], bounds].concat();
            let args = if epoch == "1" { [&args[..], &["--step-size", "0.01"]].concat() } else { args };
            let (run, status) = json(folder, &args);
            let standing = &run["requirements"];
            assert!(status == 0 || epoch == "1", "{args:?}: {standing}");
            assert!(run["coverage"]["outside"].as_f64().unwrap() < 0.05, "{}", run["coverage"]);
        }
    }
    // A run is the same alone and among others, and whatever the number of threads.
    let (few, _) =
        json(folder, &["run", "p.safetensors", "--runs", "3", "--steps", "5000", "--threads", "1"]);
    let (same, _) =
        json(folder, &["run", "p.safetensors", "--runs", "3", "--steps", "5000", "--threads", "2"]);
    assert_eq!(few, same);

    // What cannot be had says so: five regions' worth of time in four.
    let args =
        ["run", "p.safetensors", "--steps", "20000", "--require", "red>=0.8", "--require", "blue>=0.3"];
    let (run, status) = json(folder, &args);
    assert_eq!(
        (run["diagnosis"]["verdict"].as_str(), status),
        (Some("infeasible"), 1),
        "{}",
        run["diagnosis"]
    );

    acrl(folder, &["run", "p.safetensors", "--steps", "20000", "--occupancy", "o.csv", "--log", "l.jsonl"]);
    let shares = std::fs::read_to_string(folder.join("o.csv")).unwrap();
    let total: f64 =
        shares.lines().skip(1).map(|l| l.rsplit(',').next().unwrap().parse::<f64>().unwrap()).sum();
    assert!((total - 1.0).abs() < 1e-9);
    assert!(std::fs::read_to_string(folder.join("l.jsonl")).unwrap().lines().count() > 10);

    refused(folder, &["run", "p.safetensors", "--require", "red<=0.1"], "was not trained for red<=0.1");
    refused(folder, &["run", "p.safetensors", "--maximize", "red"], "was trained without an objective");
    refused(
        folder,
        &["run", "p.safetensors", "--init-multipliers", "yellow=1"],
        "--init-multipliers names 'yellow'",
    );
    refused(folder, &["solve", "p.safetensors"], "is a trained policy");
    let bytes = std::fs::read(folder.join("p.safetensors")).unwrap();
    for cut in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(folder.join("cut.safetensors"), &bytes[..cut]).unwrap();
        refused(folder, &["run", "cut.safetensors"], "cut.safetensors");
    }
    let mut flipped = bytes.clone();
    flipped[bytes.len() - 5] ^= 16;
    std::fs::write(folder.join("flipped.safetensors"), flipped).unwrap();
    refused(folder, &["run", "flipped.safetensors"], "flipped.safetensors");
}

#[cfg(unix)]
#[test]
fn resumed_training_is_bit_identical() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = |output: &str, more: &[&str]| {
        let args = ["train", "drone", "-o", output, "--total-steps", "3000000", "--seed", "5", "--quiet"];
        Command::new(env!("CARGO_BIN_EXE_acrl"))
            .current_dir(folder)
            .args(args)
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    assert!(train("whole.safetensors", &["--threads", "1"]).wait_with_output().unwrap().status.success());
    let child = train("parts.safetensors", &[]);
    // In the middle, wherever that is: as soon as some iterations are on record.
    let progress = folder.join("runs/parts/progress.csv");
    while std::fs::read_to_string(&progress).map_or(0, |text| text.lines().count()) < 3 {
        std::thread::sleep(Duration::from_millis(20));
    }
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.code() == Some(1) {
        assert!(String::from_utf8_lossy(&output.stderr).contains("stopped by Ctrl-C"));
        let (run, _) = json(folder, &["run", "parts.safetensors", "--steps", "1000"]);
        assert_eq!(run["policy"]["complete"], false);
    }
    let output = train("parts.safetensors", &["--resume"]).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(read("whole.safetensors") == read("parts.safetensors"), "resuming changed the result");
    let metrics = |name: &str| -> Vec<Vec<String>> {
        let text = String::from_utf8(read(&format!("runs/{name}/progress.csv"))).unwrap();
        // Without seconds and steps per second.
        let timed: Vec<bool> =
            text.lines().next().unwrap().split(',').map(|c| c == "seconds" || c == "time/fps").collect();
        let kept =
            |line: &str| line.split(',').zip(&timed).filter(|(_, t)| !**t).map(|(v, _)| v.into()).collect();
        text.lines().map(kept).collect()
    };
    assert_eq!(metrics("whole"), metrics("parts"));

    let again = ["train", "drone", "-o", "parts.safetensors", "--total-steps", "3000000"];
    refused(folder, &again, "--resume");
    refused(folder, &[&again[..], &["--resume", "--seed", "6"]].concat(), "seed 5");
    let longer =
        ["train", "drone", "-o", "parts.safetensors", "--total-steps", "9e6", "--seed", "5", "--resume"];
    refused(folder, &longer, "other settings or steps");
    let other = ["train", "wireless", "-o", "parts.safetensors", "--seed", "5", "--resume"];
    refused(folder, &other, "another problem");
    std::fs::write(folder.join("runs/parts/checkpoint"), b"not a checkpoint").unwrap();
    refused(folder, &[&again[..], &["--resume", "--seed", "5"]].concat(), "runs/parts/checkpoint");
}

#[test]
fn compare_trains_every_method_on_the_same_steps() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let args = [
        "compare",
        "wireless",
        "--train-seeds",
        "1",
        "--train-steps",
        "50000",
        "--steps",
        "2000",
        "--runs",
        "2",
    ];
    let (table, _) = json(folder, &[&args[..], &["--threads", "1"]].concat());
    assert_eq!(table, json(folder, &[&args[..], &["--threads", "2"]].concat()).0);
    let methods = table["methods"].as_array().unwrap();
    let names: Vec<&str> = methods.iter().map(|m| m["method"].as_str().unwrap()).collect();
    let expected = [
        "A-CRL",
        "fixed weights",
        "dual descent, stopped",
        "primal-dual, online",
        "primal-dual, stopped",
        "pid-lagrangian, online",
        "pid-lagrangian, stopped",
        "primal averaging",
    ];
    assert_eq!(names, expected);
    assert_eq!((table["learner"].as_str(), table["train_steps"].as_u64()), (Some("ppo"), Some(65_536)));
    for entry in methods {
        let online = entry["method"].as_str().unwrap().ends_with("online");
        assert_eq!(entry["numbers"].is_u64(), !online, "{entry}");
        assert!(entry["averages"]["power"].is_f64() && entry["met"].is_boolean(), "{entry}");
    }
    // Two policies of four iterations are of the second half.
    let numbers = |name: &str| methods.iter().find(|m| m["method"] == name).unwrap()["numbers"].as_u64();
    assert_eq!(numbers("primal averaging"), numbers("primal-dual, stopped").map(|n| 2 * n));
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md")).unwrap();
    let mut keys: Vec<&String> = table.as_object().unwrap().keys().collect();
    keys.extend(methods[0].as_object().unwrap().keys());
    assert!(keys.iter().all(|key| page.contains(&format!("`{key}`"))), "{keys:?}");

    let (few, _) = json(folder, &[&args[..], &["--methods", "primal_dual"]].concat());
    assert_eq!(few["methods"].as_array().unwrap()[..], methods[3..5]);
    refused(folder, &[&args[..], &["--methods", "a_crl,magic"]].concat(), "magic");
    refused(folder, &["compare", "monitoring", "--methods", "pid_lagrangian"], "finite");

    // One of them by itself, as a file that runs like any other.
    let args = [
        "train",
        "wireless",
        "-o",
        "b.safetensors",
        "--method",
        "primal_averaging",
        "--total-steps",
        "50000",
    ];
    let (trained, status) = json(folder, &args);
    assert_eq!((trained["method"].as_str(), status), (Some("primal_averaging"), 0));
    assert!(trained["online"]["rate_far"].is_f64());
    let (run, _) = json(folder, &["run", "b.safetensors", "--steps", "2000", "--runs", "2"]);
    assert_eq!((&run["policy"]["method"], &run["coverage"]["outside"]), (&trained["method"], &0.0.into()));
    assert_eq!(run["averages"], methods[7]["averages"]);
    refused(folder, &["compare", "b.safetensors"], "is a trained policy");
    let other =
        ["train", "drone", "-o", "c.safetensors", "--method", "primal_dual", "--learner", "actor_critic"];
    refused(folder, &other, "ppo or policy_gradient");
}

/// Where a single policy does, primal-dual is a good method.
#[test]
fn primal_dual_meets_requirements_of_a_stationary_policy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json(
        folder,
        &["train", "wireless", "-o", "w.safetensors", "--method", "primal_dual", "--total-steps", "2000000"],
    );
    let (run, _) = json(folder, &["run", "w.safetensors", "--runs", "4"]);
    let shortfall = |name: &str, range: f64| run["requirements"][name]["shortfall"].as_f64().unwrap() / range;
    for (name, range) in [("rate_near", 5.6), ("rate_middle", 4.6), ("rate_far", 3.7), ("power", 4.0)] {
        assert!(shortfall(name, range) < 0.02, "{name}: {}", run["requirements"]);
    }
    assert!(run["averages"]["sum_rate"].as_f64().unwrap() > 1.4, "{}", run["averages"]);
}

#[test]
fn unsupported_inputs_are_rejected_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    refused(folder, &["run", "planar"], "acrl train planar -o");
    refused(folder, &["solve", "planar"], "is continuous");
    refused(folder, &["train", "monitoring", "-o", "m.safetensors"], "is finite");
    refused(folder, &["train", "planar", "-o", "m.bin"], ".safetensors");
    refused(folder, &["train", "planar", "-o", "m.safetensors", "--learner", "magic"], "magic");
    refused(folder, &["train", "planar", "-o", "m.safetensors", "--method", "magic"], "magic");
    refused(folder, &["train", "planar", "-o", "m.safetensors", "--resume"], "no checkpoint");
    refused(folder, &["train", "planar", "-o", "m.safetensors", "--require", "purple>=1"], "purple");
    refused(folder, &["train", "wireless", "-o", "m.safetensors", "--learner", "policy_gradient"], "ppo can");
    let average = acrl(folder, &["init", "planar", "-o", "average.toml"]);
    assert!(average.status.success());
    let path = folder.join("average.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, after) = text.split_once("[train]").unwrap_or((&text, ""));
    std::fs::write(&path, format!("{before}\n[train]\ncriterion = \"average_reward\"\n{after}")).unwrap();
    let gradient = [
        "train",
        "average.toml",
        "-o",
        "m.safetensors",
        "--learner",
        "policy_gradient",
        "--total-steps",
        "100",
    ];
    refused(folder, &gradient, "ppo and actor_critic");
    refused(folder, &["run", "monitoring", "--occupancy", "o.csv"], "finite model");
}
