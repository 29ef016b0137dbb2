//! The program, started as a user does. A command line is split at spaces.
#![allow(dead_code)] // Each test uses its part.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// The project's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_acrl"));
    command.current_dir(folder).args(line.split_whitespace());
    command
}

/// Runs the program in a folder.
pub(crate) fn acrl_in(folder: &Path, line: &str) -> Output {
    command(folder, line).output().unwrap()
}

/// Runs the program.
pub(crate) fn acrl(line: &str) -> Output {
    acrl_in(&root(), line)
}

/// Starts the program in a folder, with pipes for what it prints.
pub(crate) fn start_in(folder: &Path, line: &str) -> Child {
    command(folder, line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Ctrl-C.
pub(crate) fn interrupt(process: &Child) {
    assert!(Command::new("kill").args(["-INT", &process.id().to_string()]).status().unwrap().success());
}

/// Standard output.
pub(crate) fn text(line: &str) -> String {
    stdout(&acrl(line))
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The JSON object that a command prints, and its exit status.
pub(crate) fn json_in(folder: &Path, line: &str) -> (Value, i32) {
    let output = acrl_in(folder, &format!("{line} --json"));
    let object = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{line}: {error}: {}", stderr(&output)));
    (object, output.status.code().unwrap())
}

pub(crate) fn json(line: &str) -> (Value, i32) {
    json_in(&root(), line)
}

/// Exit status 2, nothing on standard output, and an error that says so.
pub(crate) fn refused(folder: &Path, line: &str, expected: &str) {
    let output = acrl_in(folder, line);
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
    assert!(output.stdout.is_empty() && stderr.contains(expected), "{line}: {stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

/// The events of a log.
pub(crate) fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

pub(crate) fn close(value: &Value, expected: f64, tolerance: f64) {
    assert!((number(value) - expected).abs() <= tolerance, "{value} is not within {tolerance} of {expected}");
}

/// Checks that docs/json.md explains every key, but for these.
pub(crate) fn documented<'a>(values: impl IntoIterator<Item = &'a Value>, names: &[&str]) {
    fn check(value: &Value, page: &str, names: &[&str]) {
        for (key, value) in value.as_object().into_iter().flatten() {
            let known = names.contains(&key.as_str()) || page.contains(&format!("`{key}`"));
            assert!(known, "`{key}` is not in docs/json.md");
            check(value, page, names);
        }
        value.as_array().into_iter().flatten().for_each(|value| check(value, page, names));
    }
    let page = std::fs::read_to_string(root().join("docs/json.md")).unwrap();
    values.into_iter().for_each(|value| check(value, &page, names));
}
