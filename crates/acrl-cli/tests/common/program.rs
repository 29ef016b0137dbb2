//! The program, started as a user does, for the tests that need it.
#![allow(dead_code)] // Each test uses its part.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The project's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the program there.
pub(crate) fn acrl(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_acrl")).current_dir(root()).args(args).output().unwrap()
}

/// What it prints.
pub(crate) fn text(args: &[&str]) -> String {
    String::from_utf8(acrl(args).stdout).unwrap()
}

/// The JSON object that a command prints, and its exit status.
pub(crate) fn json(args: &[&str]) -> (Value, i32) {
    let output = acrl(&[args, &["--json"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    let object = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {stderr}"));
    (object, output.status.code().unwrap())
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("not a number: {value}"))
}

pub(crate) fn close(value: &Value, expected: f64, tolerance: f64) {
    assert!((number(value) - expected).abs() <= tolerance, "{value} is not within {tolerance} of {expected}");
}
