//! The folder of a training run: events, metrics and the last checkpoint.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use acrl::{Event, Named};
use serde::{Deserialize, Serialize};

use crate::progress::Progress;
use crate::tail::Tail;
use crate::tensorboard::EventFile;
use crate::{Error, checkpoint};

const EVENTS: &str = "events.jsonl";
const PROGRESS: &str = "progress.csv";
const CHECKPOINT: &str = "checkpoint";
const LOCK: &str = ".lock";

/// A folder that records a training run:
///
/// | file | content |
/// |---|---|
/// | `events.jsonl` | every event as JSON, `{"type": ..., "data": {...}}`, one a line; a number that is not finite is `null` |
/// | `progress.csv` | a row per iteration: iteration, environment steps, seconds, then the metrics of the first row |
/// | `events.out.tfevents.*` | the metrics for TensorBoard, over environment steps |
/// | `checkpoint` | the last state to resume from |
///
/// The files can be read while the run goes on: they lag by at most about a second of the run's own time.
/// A resumed run truncates `events.jsonl` and `progress.csv` after the iteration of its checkpoint, so that they hold
/// each iteration once, and makes TensorBoard discard the same events. To lose nothing, call
/// [`iteration`](Self::iteration) first and [`save_checkpoint`](Self::save_checkpoint) right after it.
///
/// ```no_run
/// use std::path::Path;
/// use acrl_files::{RunFolder, checkpoint};
///
/// let path = Path::new("runs/first");
/// let mut run = RunFolder::create(path)?;
/// let metrics = [("rollout/scalarized_reward".to_owned(), 0.5)].into_iter().collect();
/// run.iteration(1, 10, 2_000, 0.1, &metrics)?;
/// run.save_checkpoint("my learner", &1_u64)?;
/// drop(run); // … a crash, and later:
/// let iteration: u64 = checkpoint::load(&RunFolder::checkpoint_path(path), "my learner")?;
/// let mut run = RunFolder::resume(path, iteration)?;
/// run.iteration(2, 10, 4_000, 0.2, &metrics)?;
/// run.finish()?;
/// # Ok::<(), acrl_files::Error>(())
/// ```
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// Held until the run ends.
    _lock: File,
    events: Tail,
    progress: Progress,
    tensorboard: EventFile,
    /// The run time of the last flush, in seconds.
    flushed: Option<f64>,
}

impl RunFolder {
    /// Begins a run in a new folder, or in one without a run. Missing parent folders are created.
    pub fn create(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(Error::io("create", path))?;
        let lock = lock(path)?;
        let content = |name: &Path| fs::metadata(path.join(name)).is_ok_and(|file| file.len() > 0);
        let mut names: Vec<PathBuf> = [EVENTS, PROGRESS, CHECKPOINT].map(PathBuf::from).into();
        names.extend(EventFile::all(path)?);
        if names.iter().any(|name| content(name)) {
            return Err(Error::RunExists(path.to_owned()));
        }
        Self::begin(path, lock)
    }

    /// Begins a run in place of the one in the folder, whose files are removed. Other files stay.
    pub fn replace(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(Error::io("create", path))?;
        let lock = lock(path)?;
        Self::begin(path, lock)
    }

    /// Resumes a run after this iteration, that of its checkpoint. Later rows and events are dropped.
    pub fn resume(path: &Path, iteration: u64) -> Result<Self, Error> {
        let lock = lock(path)?;
        let progress = Progress::resume(Tail::open(path.join(PROGRESS))?, iteration)?;
        let mut events = Tail::open(path.join(EVENTS))?;
        events.cut(iteration, iteration_of)?;
        let tensorboard = EventFile::create(path, Some(progress.steps().saturating_add(1)))?;
        Ok(Self { path: path.to_owned(), _lock: lock, events, progress, tensorboard, flushed: None })
    }

    fn begin(path: &Path, lock: File) -> Result<Self, Error> {
        let mut old = vec![Self::checkpoint_path(path)];
        old.retain(|checkpoint| checkpoint.exists());
        old.extend(EventFile::all(path)?);
        for file in old {
            fs::remove_file(&file).map_err(Error::io("remove", &file))?;
        }
        let mut events = Tail::open(path.join(EVENTS))?;
        events.clear()?;
        let progress = Progress::create(Tail::open(path.join(PROGRESS))?)?;
        let tensorboard = EventFile::create(path, None)?;
        Ok(Self { path: path.to_owned(), _lock: lock, events, progress, tensorboard, flushed: None })
    }

    /// The path of the checkpoint of a run in this folder.
    pub fn checkpoint_path(path: &Path) -> PathBuf {
        path.join(CHECKPOINT)
    }

    /// True if a process is writing to the run in this folder; `None` if unknown, as where there is no run or the file
    /// system has no locks.
    pub fn in_use(path: &Path) -> Option<bool> {
        let file = File::open(path.join(LOCK)).ok()?;
        match file.try_lock_shared() {
            Ok(()) => Some(false),
            Err(TryLockError::WouldBlock) => Some(true),
            Err(TryLockError::Error(_)) => None,
        }
    }

    /// Locks a folder against other writers until the result is dropped.
    pub fn lock(path: &Path) -> Result<FolderLock, Error> {
        lock(path).map(|file| FolderLock { _file: file })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records iteration number `iteration` of `total` in all files: environment steps and seconds since the start of
    /// the run (including those before a resume) and its metrics. Environment steps are the x axis of TensorBoard.
    pub fn iteration(
        &mut self,
        iteration: u64,
        total: u64,
        steps: u64,
        seconds: f64,
        metrics: &Named<f64>,
    ) -> Result<(), Error> {
        self.event(&Event::Iteration { iteration, total, steps, metrics })?;
        self.progress.row(iteration, steps, seconds, metrics)?;
        self.tensorboard.scalars(steps, metrics)?;
        // Also when the run time went back, as after a resume.
        if !self.flushed.is_some_and(|last| (last..last + 1.0).contains(&seconds)) {
            self.flushed = Some(seconds);
            self.files().into_iter().try_for_each(Tail::flush)?;
        }
        Ok(())
    }

    /// Records any event in `events.jsonl`, and only there.
    pub fn event(&mut self, event: &Event<'_>) -> Result<(), Error> {
        let mut line = serde_json::to_vec(event)
            .map_err(|error| Error::io("write", self.events.path())(error.into()))?;
        line.push(b'\n');
        self.events.write(&line)
    }

    /// Writes the state to resume from, after all records have reached the disk, so that no checkpoint is ahead of the
    /// other files.
    pub fn save_checkpoint(&mut self, kind: &str, state: &impl Serialize) -> Result<(), Error> {
        self.sync()?;
        checkpoint::save(&Self::checkpoint_path(&self.path), kind, state)
    }

    /// Waits until all records are on the disk.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.files().into_iter().try_for_each(Tail::sync)
    }

    /// Ends the run. Dropping it does the same, but ignores errors.
    pub fn finish(mut self) -> Result<(), Error> {
        self.sync()
    }

    fn files(&mut self) -> [&mut Tail; 3] {
        [&mut self.events, self.progress.file(), self.tensorboard.file()]
    }
}

/// An exclusive lock on a folder, released on drop.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

/// Locks the folder by a separate file, because on some systems a locked file cannot be read.
fn lock(path: &Path) -> Result<File, Error> {
    let name = path.join(LOCK);
    let file = File::create(&name).map_err(Error::io("open", &name))?;
    let mut taken = file.try_lock();
    if let Err(TryLockError::WouldBlock) = taken {
        // Perhaps a call of `in_use`, which holds the lock briefly.
        std::thread::sleep(Duration::from_millis(100));
        taken = file.try_lock();
    }
    match taken {
        Err(TryLockError::WouldBlock) => Err(Error::RunInUse(path.to_owned())),
        // A file system without locks excludes nobody.
        Err(TryLockError::Error(_)) | Ok(()) => Ok(file),
    }
}

/// The iteration of a line of `events.jsonl`.
fn iteration_of(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct Line {
        r#type: String,
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        iteration: Option<u64>,
    }
    let line: Line = serde_json::from_slice(line).ok()?;
    line.data.iteration.filter(|_| line.r#type == "iteration")
}
