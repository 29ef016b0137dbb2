//! Checkpoints: a bit-identical round trip or an error message.
#![allow(clippy::unwrap_used)]

use acrl_files::checkpoint::{CheckpointError, decode, encode, load, save};
use proptest::collection::vec;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Phase {
    Begin,
    At { step: u64 },
    Near(f64),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct State {
    iteration: u64,
    parameters: Vec<f32>,
    averages: Vec<f64>,
    rng: acrl::Rng,
    last: Option<f64>,
    phase: Phase,
    nested: Vec<(usize, bool, String)>,
    #[serde(skip)]
    memory: Vec<f32>,
}

fn state() -> State {
    State {
        iteration: u64::MAX,
        parameters: vec![0.1, -0.0, f32::MIN_POSITIVE / 4.0],
        averages: vec![1.0 / 3.0, f64::INFINITY],
        rng: acrl::Rng::new(3),
        last: None,
        phase: Phase::At { step: 1 << 40 },
        nested: vec![(1, true, "λ".to_owned())],
        memory: vec![],
    }
}

#[test]
fn skipped_fields_are_defaulted_and_the_rest_round_trips() {
    let bytes = encode("ppo", &State { memory: vec![1.0], ..state() }).unwrap();
    assert_eq!(decode::<State>(&bytes, "ppo").unwrap(), state());
}

#[test]
fn every_changed_or_missing_byte_is_detected() {
    let bytes = encode("ppo", &state()).unwrap();
    for i in 0..bytes.len() {
        assert!(decode::<State>(&bytes[..i], "ppo").is_err(), "{i} bytes");
        let mut damaged = bytes.clone();
        for change in 1..=255 {
            damaged[i] = bytes[i] ^ change;
            assert!(decode::<State>(&damaged, "ppo").is_err(), "byte {i} to {}", damaged[i]);
        }
    }
    assert!(decode::<State>(&[&bytes[..], b"x"].concat(), "ppo").is_err());
}

#[test]
fn each_fault_has_its_error_message() {
    let bytes = encode("ppo", &state()).unwrap();
    let version = |version: u8| [&bytes[..8], &[version], &bytes[9..]].concat();
    let mut flipped = bytes.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let length = bytes.len();
    for (bytes, kind, sentence) in [
        (b"PK".to_vec(), "ppo", "it is no checkpoint of acrl".to_owned()),
        (
            version(2),
            "ppo",
            "written by a newer acrl: this program reads version 1, and the file has version 2".to_owned(),
        ),
        (flipped, "ppo", "the file is damaged: its checksum does not match its content".to_owned()),
        (
            bytes[..length - 3].to_vec(),
            "ppo",
            format!("the file is cut short: expected {length} bytes, found {}", length - 3),
        ),
        (bytes[..10].to_vec(), "ppo", "the file is cut short: expected 28 bytes, found 10".to_owned()),
        (
            bytes.clone(),
            "actor_critic",
            "it is the state of 'ppo': expected that of 'actor_critic'".to_owned(),
        ),
    ] {
        assert_eq!(decode::<State>(&bytes, kind).unwrap_err().to_string(), sentence);
    }
}

#[test]
fn state_of_another_type_is_rejected() {
    #[derive(Serialize)]
    struct Renamed {
        iterations: u64,
    }
    #[derive(Debug, Deserialize)]
    struct Expected {
        #[serde(rename = "iteration")]
        _iteration: u64,
    }
    let bytes = encode("ppo", &Renamed { iterations: 1 }).unwrap();
    let error = decode::<Expected>(&bytes, "ppo").unwrap_err();
    assert_eq!(error.to_string(), "its state does not fit this program: missing field `iteration`");
}

#[test]
fn save_replaces_the_file_and_errors_name_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    save(&path, "ppo", &State { iteration: 1, ..state() }).unwrap();
    save(&path, "ppo", &state()).unwrap();
    assert_eq!(load::<State>(&path, "ppo").unwrap(), state());
    let error = load::<State>(&path, "other").unwrap_err();
    assert_eq!(error.to_string(), format!("cannot use {} as a checkpoint", path.display()));
    assert!(
        load::<State>(&folder.path().join("none"), "ppo").unwrap_err().to_string().starts_with("cannot open")
    );
    if cfg!(target_os = "linux") {
        assert!(load::<State>("/dev/zero".as_ref(), "ppo").is_err());
    }
}

/// A crafted length allocates nothing: only existing bytes are read.
#[test]
fn crafted_length_allocates_nothing() {
    let mut bytes = encode("ppo", &state()).unwrap();
    bytes[20..28].copy_from_slice(&u64::MAX.to_le_bytes());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    std::fs::write(&path, &bytes).unwrap();
    assert!(load::<State>(&path, "ppo").is_err());
    assert!(matches!(decode::<State>(&bytes, "ppo"), Err(CheckpointError::CutShort { .. })));
}

proptest! {
    #[test]
    fn any_float_bits_round_trip(singles in vec(any::<u32>(), 0..50), doubles in vec(any::<u64>(), 0..50), n: u64, near: u64) {
        let state = (
            singles.iter().map(|&bits| f32::from_bits(bits)).collect::<Vec<_>>(),
            doubles.iter().map(|&bits| f64::from_bits(bits)).collect::<Vec<_>>(),
            (n, Some(Phase::Near(f64::from_bits(near))), Phase::Begin),
        );
        let bytes = encode("k", &state).unwrap();
        type Read = (Vec<f32>, Vec<f64>, (u64, Option<Phase>, Phase));
        let read: Read = decode(&bytes, "k").unwrap();
        prop_assert_eq!(read.0.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), singles);
        prop_assert_eq!(read.1.iter().map(|x| x.to_bits()).collect::<Vec<_>>(), doubles);
        prop_assert_eq!(read.2.0, n);
        prop_assert!(matches!(read.2.1, Some(Phase::Near(x)) if x.to_bits() == near));
    }

    #[test]
    fn random_bytes_are_rejected(bytes in vec(any::<u8>(), 0..100)) {
        prop_assert!(decode::<State>(&bytes, "ppo").is_err());
        prop_assert!(decode::<State>(&[b"acrl-ckp\x01\0\0\0", &bytes[..]].concat(), "ppo").is_err());
    }
}
