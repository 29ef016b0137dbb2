//! The report and the live view as a browser shows them.
#![allow(missing_docs, clippy::unwrap_used)]

#[path = "browser/checks.rs"]
mod checks;
#[path = "browser/chromium.rs"]
mod chromium;
#[path = "common/program.rs"]
mod program;
#[path = "browser/sample.rs"]
mod sample;

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use checks::{arrows, clean, drawn, largest_difference, slide};
use chromium::Browser;
use program::interrupt;
use serde_json::Value;

/// Whether the page is no wider than the window.
const FITS: &str = "document.documentElement.scrollWidth <= innerWidth";

/// A report on the disk, and its address.
fn written(folder: &Path) -> String {
    sample::report().write(folder).unwrap();
    format!("file://{}", folder.join("report.html").canonicalize().unwrap().display())
}

#[test]
fn report_draws_every_figure_without_network_requests() {
    let folder = tempfile::tempdir().unwrap();
    let url = written(folder.path());
    let mut browser = Browser::start();
    browser.window(1100, 900, false);
    browser.goto(&url);
    drawn(&mut browser);
    let names = browser
        .eval("[...document.querySelectorAll('[data-figure]')].map((f) => f.dataset.figure).join(' ')");
    assert_eq!(names, "lines bars policy time drawing");
    assert_eq!(browser.eval(FITS), true);
    browser.picture("report");
    clean(&browser, "file://");
}

#[test]
fn multiplier_slider_updates_the_vector_field() {
    let folder = tempfile::tempdir().unwrap();
    let url = written(folder.path());
    let mut browser = Browser::start();
    browser.goto(&url);
    drawn(&mut browser);
    let given: Vec<[f64; 2]> = sample::field().arrows.iter().map(|a| [a.dx, a.dy]).collect();
    assert!(largest_difference(&arrows(&mut browser), &given) < 1e-4);
    // Touched, but left where it is: now the page computes what we did.
    slide(&mut browser, 0, "slider.value");
    assert!(largest_difference(&arrows(&mut browser), &given) < 1e-4);
    slide(&mut browser, 0, "slider.max");
    let moved = arrows(&mut browser);
    assert!(largest_difference(&moved, &given) > 0.05, "nothing moves");
    let path = "[...document.querySelectorAll('[data-figure=policy] .js-line')].map((l) => l.getAttribute('d')).join()";
    let before = browser.eval(path);
    slide(&mut browser, 2, "slider.max");
    assert!(largest_difference(&arrows(&mut browser), &moved) > 0.05, "nothing moves");
    assert_ne!(browser.eval(path), before, "the arrows are not drawn anew");
    clean(&browser, "file://");
}

#[test]
fn report_supports_dark_mode_and_small_screens() {
    let folder = tempfile::tempdir().unwrap();
    let url = written(folder.path());
    let mut browser = Browser::start();
    browser.window(390, 844, true);
    browser.goto(&url);
    drawn(&mut browser);
    assert_eq!(browser.eval(FITS), true, "{}", browser.eval("document.documentElement.scrollWidth"));
    let light = "getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3).map(Number)";
    let background: Vec<f64> = serde_json::from_value(browser.eval(light)).unwrap();
    assert!(background.iter().all(|part| *part < 80.0), "{background:?} is not dark");
    browser.picture("report-telephone-dark");
    browser.window(320, 600, false);
    browser.wait("a smaller window is filled", FITS);
    drawn(&mut browser);
    clean(&browser, "file://");
}

/// `acrl view`, at work.
struct View {
    process: Child,
    url: String,
}

impl View {
    fn of(run: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_acrl"))
            .args(["view", "--no-open", "--json"])
            .arg(run)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let object: Value = serde_json::from_str(&line).unwrap();
        Self { process, url: object["url"].as_str().unwrap().to_owned() }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn snapshot(step: u64) -> String {
    let near = 0.2 + 0.3 / (1.0 + step as f64 / 1000.0);
    format!(
        r#"{{"type":"snapshot","data":{{"steps":{step},"total":20000,"runs":20,"averages":[[{near},{},{}],[0.2,0.1,0.21]],"multipliers":[[1.5,1,2],[{near},0,1]],"certified_shortfalls":[{near},0.01],"tolerances":[0.02,0.02]}}}}"#,
        near - 0.05,
        near + 0.05
    )
}

/// How many points the figures show.
const POINTS: &str = "[...document.querySelectorAll('[data-figure] .plot')].reduce(
    (sum, plot) => sum + (plot.data || []).reduce((n, trace) => n + (trace.x || []).length, 0), 0)";

/// Waits until there are more points than before, and returns how many.
fn grown(browser: &mut Browser, before: u64) -> u64 {
    browser.wait("there are more points", &format!("{POINTS} > {before}"));
    browser.eval(POINTS).as_u64().unwrap()
}

#[test]
fn live_view_updates_until_the_run_finishes() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = File::create(folder.path().join("events.jsonl")).unwrap();
    log.write_all(
        br#"{"type":"requirements","data":[{"name":"red","bound":0.2,"direction":"at_least"},{"name":"blue","bound":0.3,"direction":"at_most"}]}
{"type":"started","data":{"requirements":["red","blue"],"steps":20000}}
"#,
    )
    .unwrap();
    let view = View::of(folder.path());
    let mut browser = Browser::start();
    browser.window(1100, 900, false);
    browser.goto(&view.url);
    let mut points = 0;
    for part in 0..3 {
        for k in 1..=5 {
            writeln!(log, "{}", snapshot(1000 * (5 * part + k))).unwrap();
        }
        // Somebody is in the middle of writing a line.
        write!(log, "{}", &snapshot(0)[..40]).unwrap();
        log.flush().unwrap();
        points = grown(&mut browser, points);
        let length = log.metadata().unwrap().len() - 40;
        log.set_len(length).unwrap();
        log = OpenOptions::new().append(true).open(folder.path().join("events.jsonl")).unwrap();
    }
    drawn(&mut browser);
    let names = browser
        .eval("[...document.querySelectorAll('[data-figure]')].map((f) => f.dataset.figure).join(' ')");
    assert_eq!(names, "averages multipliers certificate");
    assert!(browser.eval("document.body.innerText").as_str().unwrap().contains("Step 15,000 of 20,000"));
    browser.picture("live");
    log.write_all(b"{\"type\":\"finished\",\"data\":{\"steps\":20000,\"certificate\":{\"steps\":20000,\"requirements\":[]}}}\n")
        .unwrap();
    browser.wait("it says that it is finished", "document.body.innerText.includes('Finished: 20,000 steps')");
    browser.wait("it stops asking", "document.getElementById('state').textContent === 'finished'");
    clean(&browser, &view.url);

    browser.window(390, 844, true);
    browser.goto(&format!("{}live", view.url));
    drawn(&mut browser);
    assert_eq!(browser.eval(FITS), true);
    browser.picture("live-telephone-dark");

    // The report of a finished run takes the place of its curves.
    sample::report().write(folder.path()).unwrap();
    browser.goto(&view.url);
    browser.wait("the report is there", "document.querySelector('[data-figure=policy]')");
    drawn(&mut browser);
    clean(&browser, &view.url);
}

/// Starts the program in the background and waits until its run has begun.
fn started(run: &Path, args: &[&str]) -> Child {
    let process = Command::new(env!("CARGO_BIN_EXE_acrl"))
        .args(args)
        .args(["--threads", "1", "--quiet", "--out-dir"])
        .arg(run)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while !run.join("events.jsonl").is_file() {
        assert!(begin.elapsed() < chromium::PATIENCE, "{args:?} does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    process
}

/// That the view of a run gains points; a picture of it.
fn watch(browser: &mut Browser, view: &View, picture: &str) {
    browser.goto(&view.url);
    let first = grown(browser, 0);
    grown(browser, first);
    assert_eq!(browser.eval("document.getElementById('state').textContent"), "live");
    drawn(browser);
    browser.picture(picture);
}

#[cfg(unix)]
#[test]
fn live_view_follows_trainings_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::start();
    browser.window(1100, 900, false);

    let (run, policy) = (folder.path().join("training"), folder.path().join("policy.safetensors"));
    let mut training = started(&run, &["train", "planar-speed", "-o", policy.to_str().unwrap()]);
    let mut view = View::of(&run);
    watch(&mut browser, &view, "live-training");
    // It cannot say that it ends.
    training.kill().unwrap();
    training.wait().unwrap();
    browser.wait("it says that it has stopped", "document.body.innerText.includes('Stopped: iteration')");
    clean(&browser, &view.url);
    interrupt(&view.process);
    assert_eq!(view.process.wait().unwrap().code(), Some(0), "Ctrl-C ends the view well");

    browser.forget();
    let run = folder.path().join("run");
    let mut running = started(&run, &["run", "queue", "--steps", "4e8"]);
    let view = View::of(&run);
    watch(&mut browser, &view, "live-run");
    interrupt(&running);
    browser.wait("it says that it is over", "document.getElementById('state').textContent === 'finished'");
    running.wait().unwrap();
    // Now there is a report.
    browser.goto(&view.url);
    browser.wait("the report is there", "document.getElementById('live').textContent === 'null'");
    drawn(&mut browser);
    clean(&browser, &view.url);
}
