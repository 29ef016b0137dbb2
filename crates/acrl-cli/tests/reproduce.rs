//! `acrl reproduce` as a user meets it: the fast figures and claims.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "common/program.rs"]
mod program;

use program::{documented, json_in, refused};

/// The claims themselves are tested in acrl-paper.
#[test]
fn figures_and_claims_have_verdicts_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let only = "fig1,fig3,o1,primal-averaging,storage";
    let line = format!("reproduce --quick --out-dir report --only {only}");
    let (object, status) = json_in(folder.path(), &line);
    assert_eq!((status, object["failed"].as_u64()), (0, Some(0)), "{object}");
    let claims = object["claims"].as_array().unwrap();
    let claim = |id: &str| claims.iter().find(|c| c["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    for id in ["optimal-policy", "fig3-average", "fig3-rollouts", "fig3-switch", "o1", "storage"] {
        assert_eq!(claim(id)["verdict"], "pass", "{}", claim(id));
    }
    assert_eq!(claim("primal-averaging")["verdict"], "deviates");
    assert!(claim("primal-averaging")["why"].is_string());
    assert!(claim("primal-averaging")["measured"].as_str().unwrap().contains("0.442"));
    assert_eq!(claim("o1")["metrics"]["feasible_weightings"], 0.0);
    assert_eq!(claim("o1")["metrics"]["weightings"], 3721.0);
    for claim in claims {
        for key in ["where", "says", "threshold", "measured", "settings"] {
            assert!(!claim[key].as_str().unwrap().is_empty(), "{key} of {claim}");
        }
    }
    let figures = object["figures"].as_array().unwrap();
    let names: Vec<&str> = figures.iter().map(|f| f["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fig1", "fig3"]);
    for figure in figures {
        assert_eq!(figure["verdict"], "pass");
        for file in figure["files"].as_array().unwrap() {
            let path = folder.path().join("report").join(file.as_str().unwrap());
            assert!(path.metadata().unwrap().len() > 0, "{}", path.display());
        }
    }
    assert!(folder.path().join("report/report.html").exists());
    // Metrics have names of their own.
    let metrics = claims.iter().flat_map(|claim| claim["metrics"].as_object().unwrap().keys());
    documented([&object], &metrics.map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn results_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let claims = |threads| {
        let line = "reproduce --quick --out-dir report --only fig3,theorem-3";
        json_in(folder.path(), &format!("{line} --threads {threads}")).0["claims"].clone()
    };
    assert_eq!(claims(1), claims(4));
}

#[test]
fn unknown_name_lists_figures_and_claims() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["'fig8'", "fig1", "fig7", "o1", "theorem-2", "eta-theta"] {
        refused(folder.path(), "reproduce --out-dir report --only fig3,fig8", name);
    }
}
