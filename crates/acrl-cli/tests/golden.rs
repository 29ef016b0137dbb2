//! Golden outputs: seeded commands give bit-identical results.
//!
//! `golden/recorded.json` holds the outputs of an earlier program. Floating-point results depend on the vector
//! instructions of the machine, so elsewhere only exit statuses and keys are compared. After an intended change of
//! results, `ACRL_BLESS=1 cargo test -p acrl-cli --test golden` records the present ones.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// Keys that depend on the clock or the version.
const VOLATILE: [&str; 2] = ["seconds", "version"];

/// Compares a recorded value with a present one; `exact` is false where numbers may differ.
fn compare(old: &Value, new: &Value, place: &str, exact: bool) {
    match (old, new) {
        (Value::Object(before), Value::Object(now)) => {
            assert_eq!(before.len(), now.len(), "{place}: keys {before:?}, now {now:?}");
            for (key, value) in before.iter().filter(|(key, _)| !VOLATILE.contains(&key.as_str())) {
                compare(value, now.get(key).unwrap_or(&Value::Null), &format!("{place}.{key}"), exact);
            }
        }
        (Value::Array(before), Value::Array(now)) if exact || before.len() == now.len() => {
            assert_eq!(before.len(), now.len(), "{place}: length");
            for (i, (a, b)) in before.iter().zip(now).enumerate() {
                compare(a, b, &format!("{place}[{i}]"), exact);
            }
        }
        _ if exact => assert_eq!(old, new, "{place}"),
        _ => {}
    }
}

/// Runs a command in a folder, and returns what is recorded of it.
fn record(folder: &Path, args: &[&str], events: usize) -> Value {
    let output =
        Command::new(env!("CARGO_BIN_EXE_acrl")).current_dir(folder).args(args).arg("--json").output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let mut found = json!({
        "status": output.status.code(),
        "output": serde_json::from_slice::<Value>(&output.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}")),
    });
    for file in args.iter().map(|arg| folder.join(arg)).filter(|path| path.is_file()) {
        let bytes = std::fs::read(&file).unwrap();
        if file.extension().is_some_and(|kind| kind == "safetensors") {
            // The header holds names and metadata; tensors follow it.
            let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            found["tensors"] = json!(hash(&bytes[8 + header..]));
        } else {
            let lines = bytes.split(|byte| *byte == b'\n').take(events).filter(|line| !line.is_empty());
            found["log"] = lines.map(|line| serde_json::from_slice::<Value>(line).unwrap()).collect();
        }
    }
    found
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

fn instructions() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    for (name, found) in [
        ("avx512f", std::is_x86_feature_detected!("avx512f")),
        ("avx2", std::is_x86_feature_detected!("avx2")),
    ] {
        if found {
            return name;
        }
    }
    "other"
}

#[test]
fn seeded_outputs_are_bit_identical_to_the_recorded_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/recorded.json");
    let mut recorded: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let (folder, bless) = (tempfile::tempdir().unwrap(), std::env::var_os("ACRL_BLESS").is_some());
    let exact = recorded["instructions"] == instructions();
    for case in recorded["cases"].as_array_mut().unwrap() {
        let args: Vec<&str> =
            case["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
        let events = case["log"].as_array().map_or(0, Vec::len);
        let now = record(folder.path(), &args, events);
        let name = case["name"].as_str().unwrap();
        for part in ["status", "output", "tensors", "log"] {
            if !bless && !case[part].is_null() {
                compare(&case[part], &now[part], &format!("{name}.{part}"), exact || part == "status");
            }
        }
        if bless {
            let (name, args) = (case["name"].clone(), case["args"].clone());
            *case = now;
            case["name"] = name;
            case["args"] = args;
        }
    }
    if bless {
        // A line for each case, so that a change of one is seen as such.
        let cases: Vec<String> = recorded["cases"].as_array().unwrap().iter().map(Value::to_string).collect();
        let (program, set) = (&recorded["program"], json!(instructions()));
        let head = format!("{{\"program\": {program}, \"instructions\": {set}, \"cases\": [\n");
        std::fs::write(path, head + &cases.join(",\n") + "\n]}\n").unwrap();
    }
}
