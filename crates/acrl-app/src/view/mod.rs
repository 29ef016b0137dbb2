//! A server for the page of a run: live curves while it goes on, the report when it is done.

mod follow;
mod server;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acrl_files::RunFolder;
use acrl_report::{Block, LiveRun, Report, live_report};
use serde::Serialize;

use self::follow::{Follow, News};
use self::server::{Response, Server};
use crate::{Context as _, Error, ensure};

const REPORT: &str = "report.html";
const EVENTS: &str = "events.jsonl";
/// What is served of a folder: files of these names, and of these folders.
const FILES: [&str; 4] = [REPORT, "report.json", EVENTS, "progress.csv"];
const FOLDERS: [&str; 2] = ["figures", "data"];

/// A page that is being served on 127.0.0.1; dropping it ends that.
pub struct Viewer {
    server: Server,
}

impl Viewer {
    /// Serves a run's folder, report or log. Port 0 takes any free port.
    pub fn start(run: &Path, port: u16) -> Result<Self, Error> {
        let view = Arc::new(View::open(run)?);
        let server = Server::start(port, move |path| view.answer(path));
        let server = server.with_context(|| {
            format!("cannot serve on port {port} of 127.0.0.1: choose another --port, or leave it out")
        })?;
        Ok(Self { server })
    }

    /// The address of the page.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Opens the page in the user's browser.
    pub fn open_browser(&self) -> Result<(), Error> {
        Ok(open::that_detached(self.url())?)
    }
}

/// What there is to look at.
struct View {
    /// A run's folder, unless a file was named that stands for itself.
    folder: Option<PathBuf>,
    report: Option<PathBuf>,
    events: PathBuf,
    /// The run's, for the title.
    name: String,
    command: String,
    state: Mutex<State>,
}

/// What was read of the events.
struct State {
    follow: Follow,
    /// Locked by who writes.
    folder: Option<PathBuf>,
    live: LiveRun,
    /// Whether nothing more is to come.
    done: bool,
    /// The answer, as long as nothing changes.
    json: Option<String>,
}

impl View {
    fn open(run: &Path) -> Result<Self, Error> {
        let shown = run.display();
        let metadata = run.metadata().with_context(|| format!("cannot open {shown}"))?;
        let named = |name: &str| run.file_name() == Some(OsStr::new(name));
        let folder = match run.parent() {
            _ if metadata.is_dir() => Some(run.to_owned()),
            Some(parent) if named(REPORT) || named(EVENTS) => Some(parent.join(".")),
            _ => None,
        };
        let ending = run.extension().and_then(OsStr::to_str);
        if !metadata.is_dir() && ending != Some("jsonl") {
            ensure!(
                ending == Some("html") && is_page(run),
                "{shown} is not a report: expected a run's folder, a .html report or a .jsonl log"
            );
        }
        let (report, events) = match &folder {
            Some(folder) => (Some(folder.join(REPORT)), folder.join(EVENTS)),
            None if ending == Some("html") => (Some(run.to_owned()), PathBuf::new()),
            None => (None, run.to_owned()),
        };
        let name = run.canonicalize().ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let state = State {
            follow: Follow::new(events.clone()),
            folder: folder.clone(),
            live: LiveRun::default(),
            done: false,
            json: None,
        };
        let view = Self {
            folder,
            report,
            events,
            name: name.unwrap_or_else(|| shown.to_string()),
            command: format!("acrl view {shown}"),
            state: Mutex::new(state),
        };
        view.check(run)?;
        Ok(view)
    }

    /// Whether there is something to show, or will be.
    fn check(&self, run: &Path) -> Result<(), Error> {
        if self.report().is_some() {
            return Ok(());
        }
        let shown = run.display();
        ensure!(
            self.events.is_file(),
            "{shown} holds no run: expected {REPORT} or {EVENTS} in it{}",
            nearby(run)
        );
        let mut state = self.state();
        let events = self.events.display();
        state.refresh().with_context(|| format!("cannot read {events}"))?;
        let nothing = state.live.is_empty() && (state.done || !state.follow.at_start());
        ensure!(!nothing, "{events} has nothing to show: expected events of 'acrl run' or 'acrl train'");
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The report, if there is one.
    fn report(&self) -> Option<&Path> {
        self.report.as_deref().filter(|report| report.is_file())
    }

    fn answer(&self, path: &str) -> Response {
        match (path, self.report(), &self.folder) {
            ("/", Some(report), _) if self.is_done() => page(report),
            ("/live", Some(report), _) if !self.events.is_file() => page(report),
            ("/" | "/live", ..) => {
                Response::ok("text/html; charset=utf-8", acrl_report::live_html(&self.name, "/live.json"))
            }
            ("/live.json", ..) => self.live(),
            ("/report.html", Some(report), _) => page(report),
            // Browsers ask for it; there is none.
            ("/favicon.ico", ..) => Response::status(204),
            (path, _, Some(folder)) if is_served(path) => Response::file(folder, path),
            _ => Response::status(404),
        }
    }

    /// Whether the run has ended; a report without events is of one that has.
    fn is_done(&self) -> bool {
        let mut state = self.state();
        let known = state.refresh().is_ok() && !(state.live.is_empty() && state.in_use() != Some(true));
        !known || state.done
    }

    /// `{"report": …, "done": …}`.
    fn live(&self) -> Response {
        #[derive(Serialize)]
        struct Answer {
            report: Report,
            done: bool,
        }
        let mut state = self.state();
        // What cannot be read now may be readable the next time.
        let _ = state.refresh();
        let State { live, done, json, .. } = &mut *state;
        let json = json.get_or_insert_with(|| {
            let mut report = live_report(live, *done, &self.name, self.command.clone());
            if *done && self.report().is_some() {
                report
                    .blocks
                    .insert(0, Block::Text("The report is written: reload this page to see it.".to_owned()));
            }
            serde_json::to_string(&Answer { report, done: *done }).unwrap_or_default()
        });
        Response::ok("application/json", json.as_bytes())
    }
}

impl State {
    /// Reads what is new.
    fn refresh(&mut self) -> std::io::Result<()> {
        let live = &mut self.live;
        let new = self.follow.read(|news| match news {
            News::Again => *live = LiveRun::default(),
            News::Line(line) => live.line(line),
        })?;
        // Once the folder is free, that is not asked again as long as nothing happens: to ask is to hold its lock for a
        // moment.
        let ended = self.live.finished || (self.done && !new);
        let done = ended || self.in_use().map_or(self.live.trained(), |used| !used);
        if new || done != self.done {
            self.json = None;
        }
        self.done = done;
        Ok(())
    }

    /// Whether somebody is writing to the run's folder, if that can be told.
    fn in_use(&self) -> Option<bool> {
        self.folder.as_deref().and_then(RunFolder::in_use)
    }
}

fn page(report: &Path) -> Response {
    match std::fs::read(report) {
        Ok(page) => Response::ok("text/html; charset=utf-8", page),
        Err(_) => Response::status(404),
    }
}

/// Whether a path is of a file that belongs to a report.
fn is_served(path: &str) -> bool {
    match path.trim_start_matches('/').split_once('/') {
        None => FILES.contains(&path.trim_start_matches('/')),
        Some((folder, _)) => FOLDERS.contains(&folder),
    }
}

/// Whether a file begins as a page does.
fn is_page(path: &Path) -> bool {
    let Ok(text) = std::fs::read(path) else { return false };
    let text = text.trim_ascii_start();
    text.get(..14).is_some_and(|begin| begin.eq_ignore_ascii_case(b"<!doctype html"))
}

/// Where else a run may be meant to be.
fn nearby(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> =
        entries.filter(|path| path.join(REPORT).is_file() || path.join(EVENTS).is_file()).collect();
    runs.sort();
    match runs.as_slice() {
        [] => String::new(),
        [first, ..] => format!("; there is one in {}", first.display()),
    }
}
