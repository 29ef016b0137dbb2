//! The README's first command, as it is: about a minute on two cores.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "browser/chromium.rs"]
mod chromium;

use std::process::Command;

use chromium::Browser;
use serde_json::Value;

/// The names of figures in which a panel is empty.
const UNDRAWN: &str = "[...document.querySelectorAll('[data-figure]')].filter((figure) => {
    const panels = [...figure.querySelectorAll('.panel')];
    const marks = '.js-line, .js-fill, .bars path, .heatmaplayer image';
    return !panels.length || !panels.every((panel) => panel.querySelector(marks));
}).map((figure) => figure.dataset.figure)";

#[test]
fn the_demo_meets_every_requirement_and_shows_it() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("demo");
    let output = Command::new(env!("CARGO_BIN_EXE_acrl"))
        .args(["demo", "--json", "--folder", folder.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let demo: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(demo["met"], true);
    for runs in ["first", "changed"] {
        let requirements = demo[runs]["requirements"].as_object().unwrap();
        assert_eq!(requirements.len(), 4);
        assert!(requirements.values().all(|r| r["met"] == true), "{runs}: {requirements:?}");
        assert_eq!(demo[runs]["runs"], 20);
    }
    let methods: Vec<&str> = demo["comparison"]["methods"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["method"].as_str().unwrap())
        .collect();
    for method in
        ["a-crl", "fixed weights", "dual descent, stopped", "primal-dual, stopped", "primal averaging"]
    {
        assert!(methods.contains(&method), "{methods:?}");
    }
    let page = folder.join("report.html").canonicalize().unwrap();
    assert!(page.metadata().unwrap().len() < 8_000_000);
    // The policy is there to go on with.
    let policy = folder.join("policy.safetensors");
    let again = Command::new(env!("CARGO_BIN_EXE_acrl"))
        .args(["run", policy.to_str().unwrap(), "--runs", "4", "--require", "blue>=0.4"])
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stdout));

    let mut browser = Browser::start();
    browser.window(1100, 900, false);
    browser.goto(&format!("file://{}", page.display()));
    browser.wait("figures", "document.querySelectorAll('[data-figure]').length === 9");
    browser.wait("every figure is drawn", &format!("{UNDRAWN}.length === 0"));
    // The page computes the policy as the program does.
    let given = browser.eval("JSON.stringify(window.acrl.arrows('policy').map((a) => [a.dx, a.dy]))");
    let slide = |to: &str| {
        format!(
            "new Promise((resolve) => {{
                const slider = document.querySelector('[data-figure=policy] input[type=range]');
                slider.value = {to};
                slider.dispatchEvent(new Event('input', {{ bubbles: true }}));
                requestAnimationFrame(() => requestAnimationFrame(resolve));
            }})"
        )
    };
    let largest = |browser: &mut Browser| -> f64 {
        let given = given.as_str().unwrap();
        let now = browser.eval(&format!(
            "window.acrl.arrows('policy').map((a, i) => {{ const g = {given}[i]; return Math.hypot(a.dx - g[0], a.dy - g[1]); }})"
        ));
        now.as_array().unwrap().iter().map(|d| d.as_f64().unwrap()).fold(0.0, f64::max)
    };
    // Sliders move in steps, so touching one rounds its multiplier.
    browser.eval(&slide("slider.value"));
    let touched = largest(&mut browser);
    assert!(touched < 0.05, "the page and the program differ by {touched}");
    browser.eval(&slide("slider.max"));
    let moved = largest(&mut browser);
    assert!(moved > 0.5, "a slider moves the arrows by {moved} only");
    assert!(browser.problems().is_empty(), "{:?}", browser.problems());
    let foreign: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|url| !["file:", "data:", "blob:", "about:"].iter().any(|own| url.starts_with(own)))
        .collect();
    assert!(foreign.is_empty(), "requests leave the page: {foreign:?}");
    browser.picture("demo");
}
