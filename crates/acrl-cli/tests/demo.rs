//! The README's first command, as it is: about a minute on two cores.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "browser/checks.rs"]
mod checks;
#[path = "browser/chromium.rs"]
mod chromium;
#[path = "common/program.rs"]
mod program;

use checks::{arrows, clean, drawn, largest_difference, slide};
use chromium::Browser;
use program::{acrl_in, json_in, stdout};

#[test]
fn demo_meets_every_requirement_and_writes_a_report() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("demo");
    let (demo, status) = json_in(place.path(), "demo --out-dir demo");
    assert_eq!(status, 0);
    assert_eq!(demo["met"], true);
    for runs in ["first", "changed"] {
        let requirements = demo[runs]["requirements"].as_object().unwrap();
        assert_eq!(requirements.len(), 4);
        assert!(requirements.values().all(|r| r["verdict"] != "violated"), "{runs}: {requirements:?}");
        assert_eq!(demo[runs]["runs"], 20);
    }
    let methods: Vec<&str> = demo["comparison"]["methods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["method"].as_str().unwrap())
        .collect();
    for method in
        ["A-CRL", "fixed weights", "dual descent, stopped", "primal-dual, stopped", "primal averaging"]
    {
        assert!(methods.contains(&method), "{methods:?}");
    }
    let page = folder.join("report.html").canonicalize().unwrap();
    assert!(page.metadata().unwrap().len() < 8_000_000);
    // The policy is there to go on with.
    let again = acrl_in(place.path(), "run demo/policy.safetensors --runs 4 --require blue>=0.4");
    assert_eq!(again.status.code(), Some(0), "{}", stdout(&again));

    let mut browser = Browser::start();
    browser.window(1100, 900, false);
    browser.goto(&format!("file://{}", page.display()));
    browser.wait("figures", "document.querySelectorAll('[data-figure]').length === 9");
    drawn(&mut browser);
    // The page computes the policy as the program does; sliders move in steps, so touching one rounds its multiplier.
    let given = arrows(&mut browser);
    slide(&mut browser, 0, "slider.value");
    let touched = largest_difference(&arrows(&mut browser), &given);
    assert!(touched < 0.05, "the page and the program differ by {touched}");
    slide(&mut browser, 0, "slider.max");
    let moved = largest_difference(&arrows(&mut browser), &given);
    assert!(moved > 0.5, "a slider moves the arrows by {moved} only");
    clean(&browser, "file://");
    browser.picture("demo");
}
