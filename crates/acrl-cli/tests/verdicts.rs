//! Verdicts: text, JSON, exit status and report agree, by the table of `tests/verdicts.json`.

#![allow(missing_docs, clippy::unwrap_used)]

use serde_json::Value;

#[path = "common/program.rs"]
mod program;

use program::{acrl_in, json_in, root, stdout};

/// A state in which each step pays `good` or, by the second action, `bad`.
fn problem(case: &Value) -> String {
    let mut text = format!(
        r#"version = 1
[model]
rewards = ["x"]
initial = "s"
[[model.state]]
name = "s"
[[model.state.action]]
name = "good"
to = {{ s = 1 }}
rewards = {{ x = {} }}
[[model.state.action]]
name = "bad"
to = {{ s = 1 }}
rewards = {{ x = {} }}
[run]
steps = {}
"#,
        case["good"], case["bad"], case["steps"]
    );
    for (i, bound) in case["bounds"].as_array().unwrap().iter().enumerate() {
        let side = bound[0].as_str().unwrap();
        text += &format!("[[requirement]]\nname = \"r{i}\"\nreward = \"x\"\n{side} = {}\n", bound[1]);
    }
    text
}

#[test]
fn text_json_status_and_report_agree() {
    let table = std::fs::read_to_string(root().join("tests/verdicts.json")).unwrap();
    let table: Value = serde_json::from_str(&table).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for case in table.as_array().unwrap() {
        std::fs::write(folder.path().join("problem.toml"), problem(case)).unwrap();
        let (run, status) = json_in(folder.path(), "run problem.toml --out-dir out --replace");
        let expected: Vec<&str> =
            case["verdicts"].as_array().unwrap().iter().map(|v| v.as_str().unwrap()).collect();
        let name = case["case"].as_str().unwrap();
        for (i, verdict) in expected.iter().enumerate() {
            assert_eq!(run["requirements"][format!("r{i}")]["verdict"], **verdict, "{name}: {run}");
        }
        let worst = ["violated", "within_tolerance", "satisfied"].into_iter().find(|v| expected.contains(v));
        assert_eq!(run["verdict"].as_str(), worst, "{name}");
        assert_eq!(status, i32::from(worst == Some("violated")), "{name}");
        assert_eq!(run["diagnosis"]["verdict"] == "met", status == 0, "{name}: {}", run["diagnosis"]);
        let text = stdout(&acrl_in(folder.path(), "run problem.toml"));
        let report = std::fs::read_to_string(folder.path().join("out/report.json")).unwrap();
        let report: Value = serde_json::from_str(&report).unwrap();
        let rows = report["blocks"].to_string();
        for (i, verdict) in expected.iter().enumerate() {
            let words = verdict.replace('_', " ");
            assert!(text.contains(&format!("r{i} is {words}")), "{name}: {text}");
            assert!(rows.contains(&words), "{name}: {words}");
        }
        let lead = report["lead"].as_str().unwrap();
        assert_eq!(report["good"] == true, status == 0, "{name}");
        assert_eq!(lead.contains("violated"), worst == Some("violated"), "{name}: {lead}");
        assert_eq!(lead.contains("within"), worst == Some("within_tolerance"), "{name}: {lead}");
    }
}
