//! `acrl reproduce` as a user meets it: the fast figures and claims.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn acrl(folder: &Path, args: &[&str]) -> Output {
    let folder = folder.join("report");
    let (first, rest) = args.split_at(1);
    Command::new(env!("CARGO_BIN_EXE_acrl"))
        .args(first)
        .args(["--out-dir", folder.to_str().unwrap()])
        .args(rest)
        .output()
        .unwrap()
}

fn json(folder: &Path, only: &str, more: &[&str]) -> (Value, i32) {
    let output = acrl(folder, &[&["reproduce", "--quick", "--json", "--only", only], more].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    let object = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{only}: {e}: {stderr}"));
    (object, output.status.code().unwrap())
}

const FAST: &str = "fig1,fig2,fig3,o1,o2,theorem-2,proposition-1,unique-maximiser,memory,storage,primal-averaging,\
                    primal-averaging-occupancy,epoch-length,theorem-3,typo-switch";

#[test]
fn fast_figures_and_claims_pass() {
    let folder = tempfile::tempdir().unwrap();
    let (object, status) = json(folder.path(), FAST, &[]);
    assert_eq!((status, object["failed"].as_u64()), (0, Some(0)), "{object}");
    let claims = object["claims"].as_array().unwrap();
    let claim = |id: &str| claims.iter().find(|c| c["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    for id in
        ["optimal-policy", "augmented-state", "fig3-average", "fig3-rollouts", "fig3-switch", "o1", "o2"]
    {
        assert_eq!(claim(id)["verdict"], "pass", "{}", claim(id));
    }
    for id in ["primal-averaging", "typo-switch"] {
        assert_eq!(claim(id)["verdict"], "deviates", "{}", claim(id));
        assert!(claim(id)["why"].is_string());
    }
    assert_eq!(claim("o1")["metrics"]["feasible_weightings"], 0.0);
    assert_eq!(claim("o1")["metrics"]["weightings"], 3721.0);
    assert!(claim("primal-averaging")["measured"].as_str().unwrap().contains("0.442"));
    assert!(claim("fig3-average")["metrics"]["distance_after_1000_rollouts"].as_f64().unwrap() < 0.004);
    // Every number of a threshold was measured.
    for claim in claims {
        for key in ["where", "says", "threshold", "measured", "settings"] {
            assert!(!claim[key].as_str().unwrap().is_empty(), "{key} of {claim}");
        }
    }
    let figures = object["figures"].as_array().unwrap();
    let names: Vec<&str> = figures.iter().map(|f| f["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fig1", "fig2", "fig3"]);
    for figure in figures {
        assert_eq!(figure["verdict"], "pass");
        for file in figure["files"].as_array().unwrap() {
            let path = folder.path().join("report").join(file.as_str().unwrap());
            assert!(path.metadata().unwrap().len() > 0, "{}", path.display());
        }
    }
    assert!(folder.path().join("report/report.html").exists());
}

#[test]
fn results_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let claims = |threads| json(folder.path(), "fig3,theorem-3", &["--threads", threads]).0["claims"].clone();
    assert_eq!(claims("1"), claims("4"));
}

#[test]
fn unknown_name_lists_figures_and_claims() {
    let folder = tempfile::tempdir().unwrap();
    let output = acrl(folder.path(), &["reproduce", "--only", "fig3,fig8"]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    for name in ["'fig8'", "fig1", "fig7", "o1", "theorem-2", "eta-theta"] {
        assert!(message.contains(name), "{name} is missing from {message}");
    }
}

/// Every key that is printed is explained in docs/json.md; numbers by name have names of their own.
#[test]
fn every_json_key_is_documented() {
    let folder = tempfile::tempdir().unwrap();
    let (object, _) = json(folder.path(), "fig1", &[]);
    let mut found: BTreeSet<String> = object.as_object().unwrap().keys().cloned().collect();
    for list in ["figures", "claims"] {
        found.extend(object[list][0].as_object().unwrap().keys().cloned());
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/json.md");
    let page = std::fs::read_to_string(page).unwrap();
    let missing: Vec<&String> = found.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "not in docs/json.md: {missing:?}");
}
