//! Former names are gone from the interface: flags, JSON keys, settings and the reference pages.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;

use serde_json::Value;

#[path = "common/program.rs"]
mod program;

use program::{json, refused, root, text};

const FLAGS: [&str; 8] =
    ["--folder", "--budget", "--trainings", "--steering", "--start", "--mixture", "--occupation", "--loss"];
const KEYS: [&str; 9] =
    ["figures", "of", "acting", "steering", "advice", "corners", "fallbacks", "reach", "growth"];
const SETTINGS: [&str; 18] = [
    "lanes",
    "segment",
    "decisions",
    "hold",
    "passes",
    "minibatch",
    "multiplier_step",
    "trace",
    "discount",
    "clip",
    "deviation",
    "last_deviation",
    "entropy",
    "gradient_norm",
    "advantage_floor",
    "hidden",
    "targets",
    "points",
];
const VERBS: [&str; 10] =
    ["demo", "solve", "run", "train", "compare", "check", "reproduce", "view", "problems", "init"];

#[test]
fn help_has_no_former_flag() {
    for verb in VERBS {
        let help = text(&format!("{verb} --help"));
        let words: Vec<&str> = help.split(|c: char| !(c.is_alphanumeric() || c == '-')).collect();
        for flag in FLAGS {
            assert!(!words.contains(&flag), "acrl {verb} --help has {flag}");
        }
    }
}

#[test]
fn a_former_flag_is_an_error_that_names_the_new_one() {
    for (args, new) in [
        ("run monitoring --folder x", "--out-dir"),
        ("run monitoring --steering library", "--executor"),
        ("compare monitoring --budget 10", "--train-steps"),
        ("check monitoring --loss 0.1", "--max-suboptimality"),
    ] {
        refused(&root(), args, new);
    }
}

fn keys(value: &Value, place: &str) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                assert!(!KEYS.contains(&key.as_str()), "{place} has the key {key}");
                keys(value, place);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, place)),
        _ => {}
    }
}

#[test]
fn json_has_no_former_key() {
    for args in [
        "solve monitoring",
        "solve monitoring --require r1>=0.55 --require r2>=0.55",
        "run monitoring --steps 1000",
        "run monitoring --steps 1000 --require r1>=0.55 --require r2>=0.55",
        "check monitoring",
        "problems",
    ] {
        keys(&json(args).0, args);
    }
}

/// Reference pages and bundled problems; notes and the changelog tell the history.
fn pages() -> Vec<std::path::PathBuf> {
    let files = |folder: &str| {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect::<Vec<_>>()
    };
    let mut pages = vec![root().join("README.md"), root().join("ARCHITECTURE.md")];
    pages
        .extend(["docs", "docs/guides", "crates/acrl-envs/problems"].iter().flat_map(|folder| files(folder)));
    pages
}

#[test]
fn reference_pages_have_no_former_name() {
    for page in pages() {
        let Ok(text) = std::fs::read_to_string(&page) else { continue };
        let name = page.strip_prefix(root()).unwrap_or(Path::new("?")).display();
        for flag in FLAGS {
            let found = text.split(|c: char| !(c.is_alphanumeric() || c == '-')).any(|word| word == flag);
            assert!(!found, "{name} has {flag}");
        }
        for setting in SETTINGS {
            assert!(!text.contains(&format!("`{setting}`")), "{name} has the setting {setting}");
            assert!(
                !text.lines().any(|line| line.trim_start().starts_with(&format!("{setting} ="))),
                "{name} sets {setting}"
            );
        }
    }
}
