//! `acrl reproduce` as a user meets it: the fast figures and claims.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "common/program.rs"]
mod program;

use program::{acrl_in, documented, json_in, refused};

/// The claims themselves are tested in acrl-paper.
#[test]
fn figures_and_claims_have_verdicts_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let only = "fig1,fig3,o1,primal-averaging,storage,fig4-lag";
    let line = format!("reproduce --quick --out-dir report --only {only}");
    let (object, status) = json_in(folder.path(), &line);
    assert_eq!((status, object["failed"].as_u64()), (0, Some(0)), "{object}");
    let claims = object["claims"].as_array().unwrap();
    let claim = |id: &str| claims.iter().find(|c| c["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    for id in ["optimal-policy", "fig3-average", "fig3-rollouts", "fig3-switch", "o1", "storage"] {
        assert_eq!(claim(id)["verdict"], "pass", "{}", claim(id));
    }
    assert_eq!(claim("primal-averaging")["verdict"], "erratum");
    assert_eq!(claim("primal-averaging")["evidence"][0]["metric"], "shortfall_by_occupancy");
    assert_eq!(claim("fig4-lag")["verdict"], "deviates");
    let criterion = &claim("fig4-lag")["criteria"][0];
    assert_eq!((&criterion["relation"], &criterion["holds"]), (&"at_least".into(), &false.into()));
    assert_eq!(criterion["bound"], 4000.0);
    assert_eq!(criterion["measured"], claim("fig4-lag")["metrics"]["longest_lag_in_rollouts"]);
    let headline = "6 reproduced, 1 erratum of the paper, 1 deviates, 0 fail \
                    (quick version, as large as the full one for these claims)";
    assert_eq!(object["headline"], headline);
    let counts = ["passed", "errata", "deviates", "failed"].map(|key| object[key].as_u64().unwrap());
    assert_eq!(counts.iter().sum::<u64>(), claims.len() as u64);
    assert!(claim("primal-averaging")["why"].is_string());
    assert!(claim("primal-averaging")["measured"].as_str().unwrap().contains("0.442"));
    assert_eq!(claim("o1")["metrics"]["feasible_weightings"], 0.0);
    assert_eq!(claim("o1")["metrics"]["weightings"], 3721.0);
    for claim in claims {
        for key in ["where", "says", "threshold", "sample", "measured", "settings"] {
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
    // One row for each claim, by verdict, and addressed by its id.
    let report = std::fs::read_to_string(folder.path().join("report/report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let blocks = report["blocks"].as_array().unwrap();
    let content =
        |kind: &str| blocks.iter().filter(|b| b["kind"] == kind).map(|b| &b["content"]).collect::<Vec<_>>();
    assert_eq!(content("heading")[..3], ["Deviations", "Errata of the paper", "Reproduced"]);
    let rows: Vec<_> = content("details").into_iter().flat_map(|rows| rows.as_array().unwrap()).collect();
    assert_eq!(rows.len(), claims.len());
    assert_eq!((&rows[0]["anchor"], &rows[0]["badge"]["text"]), (&"fig4-lag".into(), &"deviates".into()));
    // Metrics have names of their own.
    let metrics = claims.iter().flat_map(|claim| claim["metrics"].as_object().unwrap().keys());
    documented([&object], &metrics.map(String::as_str).collect::<Vec<_>>());
}

/// What is neither reproduced nor a failure is told apart in the text.
#[test]
fn text_lists_errata_and_deviations_apart() {
    let folder = tempfile::tempdir().unwrap();
    let line = "reproduce --quick --out-dir report --only constant-b,fig4-lag,o1";
    let output = acrl_in(folder.path(), line);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no '{part}' in {text}"));
    assert!(at("Errata of the paper\nconstant-b (") < at("Deviations\nfig4-lag ("));
    assert!(text.contains("rests on:  1 training of 400,000 rollouts"), "{text}");
    assert!(
        text.contains("\n1 reproduced, 1 erratum of the paper, 1 deviates, 0 fail (quick version"),
        "{text}"
    );
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
