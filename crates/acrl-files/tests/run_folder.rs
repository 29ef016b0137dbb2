//! Run folders: a resumed run writes the same files as an uninterrupted one.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write as _;
use std::path::Path;

use acrl::{Event, Named};
use acrl_files::{Error, RunFolder, checkpoint};
use proptest::prelude::*;

fn metrics(i: u64) -> Named<f64> {
    [("return, mean".to_owned(), i as f64 / 3.0), ("loss".to_owned(), 1e-9 * i as f64)].into_iter().collect()
}

fn iterations(run: &mut RunFolder, range: std::ops::RangeInclusive<u64>) {
    for i in range {
        if i % 3 == 0 {
            run.event(&Event::Started { requirements: &["r".to_owned()], steps: i }).unwrap();
        }
        run.iteration(i, 100, 20 * i, 0.3 * i as f64, &metrics(i)).unwrap();
    }
}

fn text(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

#[test]
fn iterations_are_written_as_events_and_csv_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs/first");
    let mut run = RunFolder::create(&path).unwrap();
    iterations(&mut run, 1..=3);
    // Metrics that appear or disappear do not move the columns.
    run.iteration(
        4,
        100,
        80,
        2.0,
        &[("new".to_owned(), 1.0), ("loss".to_owned(), f64::NAN)].into_iter().collect(),
    )
    .unwrap();
    run.finish().unwrap();
    assert_eq!(
        text(&path, "progress.csv"),
        "iteration,steps,seconds,\"return, mean\",loss\n\
         1,20,0.3,0.3333333333333333,1e-9\n\
         2,40,0.6,0.6666666666666666,2e-9\n\
         3,60,0.8999999999999999,1.0,3.0000000000000004e-9\n\
         4,80,2.0,,NaN\n"
    );
    let events = text(&path, "events.jsonl");
    let lines: Vec<&str> = events.lines().collect();
    assert_eq!(
        lines[0],
        r#"{"type":"iteration","data":{"iteration":1,"total":100,"steps":20,"metrics":{"return, mean":0.3333333333333333,"loss":1e-9}}}"#
    );
    assert_eq!(lines[2], r#"{"type":"started","data":{"requirements":["r"],"steps":3}}"#);
    assert_eq!(
        lines[4],
        r#"{"type":"iteration","data":{"iteration":4,"total":100,"steps":80,"metrics":{"new":1.0,"loss":null}}}"#
    );
}

#[test]
fn files_lag_by_at_most_one_second() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = RunFolder::create(folder.path()).unwrap();
    let lines = || {
        (
            text(folder.path(), "events.jsonl").lines().count(),
            text(folder.path(), "progress.csv").lines().count(),
        )
    };
    run.iteration(1, 9, 1, 0.1, &metrics(1)).unwrap();
    assert_eq!(lines(), (1, 2), "the first at once");
    run.iteration(2, 9, 2, 0.2, &metrics(2)).unwrap();
    assert_eq!(lines(), (1, 2), "not each by itself");
    run.iteration(3, 9, 3, 1.2, &metrics(3)).unwrap();
    assert_eq!(lines(), (3, 4), "after a second");
    run.iteration(4, 9, 4, 1.3, &metrics(4)).unwrap();
    run.save_checkpoint("k", &4_u64).unwrap();
    assert_eq!(lines(), (4, 5), "before a checkpoint");
    assert_eq!(checkpoint::load::<u64>(&RunFolder::checkpoint_path(folder.path()), "k").unwrap(), 4);
}

#[test]
fn existing_run_is_not_overwritten_without_replace() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("notes.txt"), b"mine").unwrap();
    let mut run = RunFolder::create(path).unwrap();
    iterations(&mut run, 1..=2);
    run.save_checkpoint("k", &2_u64).unwrap();
    assert!(matches!(RunFolder::replace(path), Err(Error::RunInUse(_))));
    assert!(matches!(RunFolder::resume(path, 1), Err(Error::RunInUse(_))));
    run.finish().unwrap();
    let error = RunFolder::create(path).unwrap_err().to_string();
    assert_eq!(error, format!("{} holds a run already: resume it or choose another folder", path.display()));
    RunFolder::replace(path).unwrap().finish().unwrap();
    assert_eq!(text(path, "events.jsonl"), "");
    assert!(!RunFolder::checkpoint_path(path).exists());
    assert_eq!(text(path, "notes.txt"), "mine");
    let tensorboard = fs::read_dir(path)
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().to_str().unwrap().contains("tfevents"));
    assert_eq!(tensorboard.count(), 1);
}

#[test]
fn resume_rejects_a_foreign_progress_file() {
    let folder = tempfile::tempdir().unwrap();
    let other = "epoch,loss\n1,2\n";
    fs::write(folder.path().join("progress.csv"), other).unwrap();
    let error = RunFolder::resume(folder.path(), 1).unwrap_err().to_string();
    assert!(
        error.ends_with("begins with 'epoch,loss': expected the columns iteration,steps,seconds"),
        "{error}"
    );
    assert_eq!(text(folder.path(), "progress.csv"), other);
    let error = RunFolder::resume(&folder.path().join("none"), 1).unwrap_err().to_string();
    assert!(error.starts_with("cannot open "), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn resumed_run_writes_the_same_files(
        reached in 1_u64..30,
        back in 0_u64..30,
        torn in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            // What could be taken for a row.
            "[0-9,.]{0,9}".prop_map(|row| format!("{row}\n").into_bytes()),
        ],
        end in 30_u64..40,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
        let mut run = RunFolder::create(&whole).unwrap();
        iterations(&mut run, 1..=end);
        run.finish().unwrap();

        let mut run = RunFolder::create(&parts).unwrap();
        iterations(&mut run, 1..=reached);
        run.finish().unwrap();
        for name in ["events.jsonl", "progress.csv"] {
            let mut file = fs::OpenOptions::new().append(true).open(parts.join(name)).unwrap();
            file.write_all(&torn).unwrap();
        }
        let iteration = reached.saturating_sub(back);
        let mut run = RunFolder::resume(&parts, iteration).unwrap();
        iterations(&mut run, iteration + 1..=end);
        run.finish().unwrap();
        for name in ["events.jsonl", "progress.csv"] {
            prop_assert_eq!(text(&whole, name), text(&parts, name));
        }
    }
}
