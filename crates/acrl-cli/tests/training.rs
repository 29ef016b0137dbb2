//! Training as a user meets it: a policy file, other bounds without training, interruptions, damage.
#![allow(missing_docs, clippy::unwrap_used)]

use std::time::Duration;

#[path = "common/program.rs"]
mod program;

use program::{acrl_in, documented, events, interrupt, json_in, number, refused, start_in, stderr};

#[test]
fn one_policy_meets_changed_requirements_without_retraining() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (trained, status) = json_in(folder, "train planar-speed -o p.safetensors --total-steps 2500000");
    assert_eq!((trained["complete"].as_bool(), status), (Some(true), 0));
    for region in ["red", "blue", "green", "orange"] {
        let share = number(&trained["single_objective_values"][region][region]);
        assert!(share > 0.9, "all weight on {region} gives only {share} of it");
    }
    for name in ["events.jsonl", "progress.csv", "checkpoint"] {
        assert!(folder.join("runs/p").join(name).exists(), "{name}");
    }
    for bounds in ["", "--require red>=0.05 --require orange>=0.4 --require blue>=0.1"] {
        for epoch in ["auto", "1 --step-size 0.01"] {
            let (run, status) =
                json_in(folder, &format!("run p.safetensors --runs 8 --epoch {epoch} {bounds}"));
            assert!(status == 0 || epoch != "auto", "{bounds}: {}", run["requirements"]);
            assert!(number(&run["coverage"]["outside"]) < 0.05, "{}", run["coverage"]);
        }
    }
    let run =
        |threads| json_in(folder, &format!("run p.safetensors --runs 3 --steps 5000 --threads {threads}")).0;
    assert_eq!(run(1), run(2), "the number of threads makes no difference");

    let (run, status) =
        json_in(folder, "run p.safetensors --steps 20000 --require red>=0.8 --require blue>=0.3");
    let diagnosis = &run["diagnosis"];
    assert_eq!((diagnosis["verdict"].as_str(), status), (Some("infeasible"), 1), "{diagnosis}");

    let (check, status) = json_in(folder, "check p.safetensors --require red>=0.05");
    assert_eq!((check["feasible"].as_bool(), check["conflict"].is_null(), status), (Some(true), true, 0));
    let red = &check["requirements"]["red"];
    assert!(number(&red["bound"]) == 0.05 && number(&red["best"]) > 0.9, "{red}");
    assert!(number(&check["slack"]) > 0.0 && check["objective"].is_null(), "without an objective: {check}");
    let (check, status) = json_in(folder, "check p.safetensors --require red>=0.8 --require blue>=0.3");
    assert_eq!((check["feasible"].as_bool(), status), (Some(false), 1), "{check}");
    let conflict: Vec<&str> =
        check["conflict"].as_array().unwrap().iter().filter_map(serde_json::Value::as_str).collect();
    assert_eq!(conflict, ["red", "blue"], "the requirements that the same time is needed for");
    assert!(number(&check["slack"]) < 0.0);

    acrl_in(folder, "run p.safetensors --steps 20000 --occupancy o.csv --log l.jsonl");
    let shares = std::fs::read_to_string(folder.join("o.csv")).unwrap();
    let shares = shares.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse::<f64>().unwrap());
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(events(&folder.join("l.jsonl")).len() > 10);

    for (line, expected) in [
        ("run p.safetensors --require red<=0.1", "was not trained for red<=0.1"),
        ("run p.safetensors --maximize red", "was trained without an objective"),
        ("run p.safetensors --init-multipliers yellow=1", "--init-multipliers names 'yellow'"),
        ("solve p.safetensors", "is a trained policy"),
    ] {
        refused(folder, line, expected);
    }
    let bytes = std::fs::read(folder.join("p.safetensors")).unwrap();
    let mut damaged: Vec<Vec<u8>> =
        [0, 7, 100, bytes.len() / 2, bytes.len() - 1].map(|cut| bytes[..cut].to_vec()).into();
    damaged.push(bytes);
    let flipped = damaged.last_mut().unwrap();
    let at = flipped.len() - 5;
    flipped[at] ^= 16;
    for bytes in damaged {
        std::fs::write(folder.join("damaged.safetensors"), bytes).unwrap();
        refused(folder, "run damaged.safetensors", "damaged.safetensors");
    }
}

#[cfg(unix)]
#[test]
fn resumed_training_is_bit_identical() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = |output: &str, more: &str| {
        let line =
            format!("train drone -o {output}.safetensors --total-steps 3000000 --seed 5 --quiet {more}");
        start_in(folder, &line)
    };
    assert!(train("whole", "--threads 1").wait_with_output().unwrap().status.success());
    let child = train("parts", "");
    // In the middle, wherever that is: as soon as some iterations are on record.
    let progress = folder.join("runs/parts/progress.csv");
    while std::fs::read_to_string(&progress).map_or(0, |text| text.lines().count()) < 3 {
        std::thread::sleep(Duration::from_millis(20));
    }
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    if output.status.code() == Some(1) {
        assert!(stderr(&output).contains("stopped by Ctrl-C"));
        let (run, _) = json_in(folder, "run parts.safetensors --steps 1000");
        assert_eq!(run["policy"]["complete"], false);
    }
    let output = train("parts", "--resume").wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
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

    let again = "train drone -o parts.safetensors --total-steps 3000000";
    refused(folder, again, "--resume");
    refused(folder, &format!("{again} --resume --seed 6"), "seed 5");
    let longer = "train drone -o parts.safetensors --total-steps 9e6 --seed 5 --resume";
    refused(folder, longer, "other settings or steps");
    refused(folder, "train wireless -o parts.safetensors --seed 5 --resume", "another problem");
    std::fs::write(folder.join("runs/parts/checkpoint"), b"not a checkpoint").unwrap();
    refused(folder, &format!("{again} --resume --seed 5"), "runs/parts/checkpoint");
}

#[test]
fn compare_trains_every_method_on_the_same_steps() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let compare = |more: &str| {
        json_in(folder, &format!("compare wireless --train-steps 50000 --steps 2000 --runs 2 {more}")).0
    };
    let table = compare("--train-seeds 1 --threads 1");
    assert_eq!(table, compare("--train-seeds 1 --threads 2"), "the number of threads makes no difference");
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
        assert!(entry["averages"]["power"].is_f64() && entry["verdict"].is_string(), "{entry}");
    }
    // Two policies of four iterations are of the second half.
    let numbers = |name: &str| methods.iter().find(|m| m["method"] == name).unwrap()["numbers"].as_u64();
    assert_eq!(numbers("primal averaging"), numbers("primal-dual, stopped").map(|n| 2 * n));
    documented([&table], &["sum_rate", "rate_near", "rate_middle", "rate_far", "power"]);

    assert_eq!(
        compare("--train-seeds 1 --methods primal_dual")["methods"].as_array().unwrap()[..],
        methods[3..5]
    );
    let seeds = compare("--train-seeds 2 --methods primal_dual");
    assert_eq!((&seeds["train_seeds"], &seeds["methods"][1]["runs_met"][1]), (&2.into(), &4.into()));
    assert_ne!(seeds["methods"][1]["averages"], methods[4]["averages"]);
    refused(folder, "compare wireless --methods a_crl,magic", "magic");
    refused(folder, "compare monitoring --methods pid_lagrangian", "finite");

    // One of them by itself, as a file that runs like any other.
    let (trained, status) =
        json_in(folder, "train wireless -o b.safetensors --method primal_averaging --total-steps 50000");
    assert_eq!((trained["method"].as_str(), status), (Some("primal_averaging"), 0));
    assert!(trained["online"]["rate_far"].is_f64());
    let (run, _) = json_in(folder, "run b.safetensors --steps 2000 --runs 2");
    assert_eq!((&run["policy"]["method"], &run["coverage"]["outside"]), (&trained["method"], &0.0.into()));
    assert_eq!(run["averages"], methods[7]["averages"]);
    refused(folder, "compare b.safetensors", "is a trained policy");
}

/// Where a single policy does, primal-dual is a good method.
#[test]
fn primal_dual_meets_requirements_of_a_stationary_policy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    json_in(folder, "train wireless -o w.safetensors --method primal_dual --total-steps 2000000");
    let (run, _) = json_in(folder, "run w.safetensors --runs 4");
    let shortfall = |name: &str, range: f64| number(&run["requirements"][name]["shortfall"]) / range;
    for (name, range) in [("rate_near", 5.6), ("rate_middle", 4.6), ("rate_far", 3.7), ("power", 4.0)] {
        assert!(shortfall(name, range) < 0.02, "{name}: {}", run["requirements"]);
    }
    assert!(number(&run["averages"]["sum_rate"]) > 1.4, "{}", run["averages"]);
}

#[test]
fn unsupported_inputs_are_rejected_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(acrl_in(folder, "init planar -o average.toml").status.success());
    let path = folder.join("average.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, after) = text.split_once("[train]").unwrap_or((&text, ""));
    std::fs::write(&path, format!("{before}\n[train]\ncriterion = \"average_reward\"\n{after}")).unwrap();
    for (line, expected) in [
        ("run planar", "acrl train planar -o"),
        ("solve planar", "is continuous"),
        ("train monitoring -o m.safetensors", "is finite"),
        ("train planar -o m.bin", ".safetensors"),
        ("train planar -o m.safetensors --learner magic", "magic"),
        ("train planar -o m.safetensors --method magic", "magic"),
        ("train planar -o m.safetensors --resume", "no checkpoint"),
        ("train planar -o m.safetensors --require purple>=1", "purple"),
        ("train wireless -o m.safetensors --learner policy_gradient", "ppo can"),
        (
            "train drone -o m.safetensors --method primal_dual --learner actor_critic",
            "ppo or policy_gradient",
        ),
        (
            "train average.toml -o m.safetensors --learner policy_gradient --total-steps 100",
            "ppo and actor_critic",
        ),
        ("run monitoring --occupancy o.csv", "finite model"),
    ] {
        refused(folder, line, expected);
    }
}
