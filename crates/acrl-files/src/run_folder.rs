//! The folder of a training: what happened, the figures, and the last checkpoint.

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

/// Writes what a training tells to a folder:
///
/// | file | content |
/// |---|---|
/// | `events.jsonl` | every event as JSON, `{"type": ..., "data": {...}}`, one a line; a number that is not finite is `null` |
/// | `progress.csv` | a row per iteration: iteration, steps, seconds, then the figures of the first row |
/// | `events.out.tfevents.*` | the figures for TensorBoard, by iteration |
/// | `checkpoint` | the last state to resume from |
///
/// Others can read along: what is written is in the files within about a second of the run's own time.
/// A resumed run cuts `events.jsonl` and `progress.csv` back behind the last iteration that its checkpoint knows, so
/// that they hold each iteration once, and has TensorBoard forget the same. To lose nothing by that, call
/// [`iteration`](Self::iteration) first and [`save_checkpoint`](Self::save_checkpoint) right after it.
///
/// ```no_run
/// use std::path::Path;
/// use acrl_files::{RunFolder, checkpoint};
///
/// let path = Path::new("runs/first");
/// let mut run = RunFolder::create(path)?;
/// let figures = [("return".to_owned(), 0.5)].into_iter().collect();
/// run.iteration(1, 10, 2_000, 0.1, &figures)?;
/// run.save_checkpoint("my learner", &1_u64)?;
/// drop(run); // … a crash, and later:
/// let iteration: u64 = checkpoint::load(&RunFolder::checkpoint_path(path), "my learner")?;
/// let mut run = RunFolder::resume(path, iteration)?;
/// run.iteration(2, 10, 4_000, 0.2, &figures)?;
/// run.finish()?;
/// # Ok::<(), acrl_files::Error>(())
/// ```
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    /// Held as long as the run writes.
    _lock: File,
    events: Tail,
    progress: Progress,
    tensorboard: EventFile,
    /// The run's time at which the files were last flushed.
    flushed: f64,
}

impl RunFolder {
    /// Begins a run in a new folder, or in one without a run. Folders on the way are made.
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

    /// Goes on with a run after this iteration, the last one that its checkpoint knows. What the files say of later
    /// ones is dropped.
    pub fn resume(path: &Path, iteration: u64) -> Result<Self, Error> {
        let lock = lock(path)?;
        let progress = Progress::resume(Tail::open(path.join(PROGRESS))?, iteration)?;
        let mut events = Tail::open(path.join(EVENTS))?;
        events.cut(iteration, iteration_of)?;
        let tensorboard = EventFile::create(path, Some(iteration.saturating_add(1)))?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
            events,
            progress,
            tensorboard,
            flushed: f64::NEG_INFINITY,
        })
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
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
            events,
            progress,
            tensorboard,
            flushed: f64::NEG_INFINITY,
        })
    }

    /// Where the checkpoint of a run in this folder is.
    pub fn checkpoint_path(path: &Path) -> PathBuf {
        path.join(CHECKPOINT)
    }

    /// Whether somebody is writing to the run in this folder; `None` if that cannot be told, as where there is no run or
    /// the file system knows no locks.
    pub fn in_use(path: &Path) -> Option<bool> {
        let file = File::open(path.join(LOCK)).ok()?;
        match file.try_lock_shared() {
            Ok(()) => Some(false),
            Err(TryLockError::WouldBlock) => Some(true),
            Err(TryLockError::Error(_)) => None,
        }
    }

    /// Keeps others out of a folder as long as the result lives, for those who write to it themselves.
    pub fn lock(path: &Path) -> Result<FolderLock, Error> {
        lock(path).map(|file| FolderLock { _file: file })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes an iteration, the `iteration`-th of `of`, in all files: the environment's steps and the seconds of the
    /// run so far, those before it was resumed included, and figures to watch.
    pub fn iteration(
        &mut self,
        iteration: u64,
        of: u64,
        steps: u64,
        seconds: f64,
        figures: &Named<f64>,
    ) -> Result<(), Error> {
        self.event(&Event::Iteration { iteration, total: of, steps, metrics: figures })?;
        self.progress.row(iteration, steps, seconds, figures)?;
        self.tensorboard.scalars(iteration, figures)?;
        // Also when the clock was set back, as after a resume.
        if !(self.flushed..self.flushed + 1.0).contains(&seconds) {
            self.flushed = seconds;
            self.files().into_iter().try_for_each(Tail::flush)?;
        }
        Ok(())
    }

    /// Notes any event in `events.jsonl`, and only there.
    pub fn event(&mut self, event: &Event<'_>) -> Result<(), Error> {
        let mut line = serde_json::to_vec(event)
            .map_err(|error| Error::io("write", self.events.path())(error.into()))?;
        line.push(b'\n');
        self.events.write(&line)
    }

    /// Writes the state to resume from, after all that was noted has reached the disk, so that no checkpoint is ahead
    /// of the files beside it.
    pub fn save_checkpoint(&mut self, kind: &str, state: &impl Serialize) -> Result<(), Error> {
        self.sync()?;
        checkpoint::save(&Self::checkpoint_path(&self.path), kind, state)
    }

    /// Waits until all that was noted is on the disk.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.files().into_iter().try_for_each(Tail::sync)
    }

    /// Ends the run. Dropping it does the same, but says nothing of errors.
    pub fn finish(mut self) -> Result<(), Error> {
        self.sync()
    }

    fn files(&mut self) -> [&mut Tail; 3] {
        [&mut self.events, self.progress.file(), self.tensorboard.file()]
    }
}

/// A folder that nobody else writes to. Dropping it lets others in.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

/// Keeps other runs out of the folder. A file of its own, as on some systems a locked file cannot even be read.
fn lock(path: &Path) -> Result<File, Error> {
    let name = path.join(LOCK);
    let file = File::create(&name).map_err(Error::io("open", &name))?;
    let mut taken = file.try_lock();
    if let Err(TryLockError::WouldBlock) = taken {
        // Perhaps somebody who only asked whether the folder is in use.
        std::thread::sleep(Duration::from_millis(100));
        taken = file.try_lock();
    }
    match taken {
        Err(TryLockError::WouldBlock) => Err(Error::RunInUse(path.to_owned())),
        // Where the file system knows no locks, nobody is kept out.
        Err(TryLockError::Error(_)) | Ok(()) => Ok(file),
    }
}

/// The iteration that a line of `events.jsonl` is about.
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
