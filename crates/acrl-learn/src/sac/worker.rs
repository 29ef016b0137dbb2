//! Gradient steps beside the environments: the learner is lent to a thread, and awaited before the next update.
//!
//! What acts lags by one update whether or not there is a thread, so results do not depend on it. With one thread
//! ([`rayon::current_num_threads`]) the gradient steps are made at once.

use std::fmt;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::SacConfig;
use super::learner::{Diverged, Learner, Losses};

/// A learner that may be at work.
pub(super) struct Worker(Mutex<State>);

#[derive(Default)]
struct State {
    /// `None` while it is lent.
    learner: Option<Box<Learner>>,
    thread: Option<Thread>,
    /// Losses of gradient steps that were not asked for yet, and a loss that was not finite.
    outcome: Outcome,
}

/// Losses, and the error that stopped the gradient steps.
#[derive(Debug, Clone, Copy, Default)]
struct Outcome {
    losses: Losses,
    diverged: Option<Diverged>,
}

/// Gradient steps to be made.
#[derive(Debug, Clone)]
struct Job {
    settings: SacConfig,
    learning_rate: f32,
    count: u64,
}

struct Thread {
    jobs: Sender<(Box<Learner>, Job)>,
    done: Receiver<(Box<Learner>, Outcome)>,
    handle: JoinHandle<()>,
}

impl Job {
    fn run(&self, learner: &mut Learner) -> Outcome {
        let mut outcome = Outcome::default();
        for _ in 0..self.count {
            match learner.gradient_step(&self.settings, self.learning_rate) {
                Ok(losses) => outcome.losses.add(losses),
                Err(diverged) => {
                    outcome.diverged = Some(diverged);
                    break;
                }
            }
        }
        outcome
    }
}

impl Thread {
    fn spawn() -> Option<Self> {
        let (jobs, received) = channel::<(Box<Learner>, Job)>();
        let (sender, done) = channel();
        let work = move || {
            for (mut learner, job) in received {
                let outcome = job.run(&mut learner);
                if sender.send((learner, outcome)).is_err() {
                    break;
                }
            }
        };
        let handle = std::thread::Builder::new().name("sac".to_owned()).spawn(work).ok()?;
        Some(Self { jobs, done, handle })
    }
}

impl State {
    /// The learner, when it is back.
    fn wait(&mut self) -> &mut Learner {
        let Self { learner, thread, outcome } = self;
        learner.get_or_insert_with(|| match thread.take() {
            Some(lent) => match lent.done.recv() {
                Ok((learner, of_job)) => {
                    *thread = Some(lent);
                    outcome.losses.add(of_job.losses);
                    outcome.diverged = outcome.diverged.or(of_job.diverged);
                    learner
                }
                Err(_) => match lent.handle.join() {
                    Err(panic) => resume_unwind(panic),
                    Ok(()) => unreachable!("the thread ends only after its channel"),
                },
            },
            None => unreachable!("a learner is lent to a thread only"),
        })
    }
}

impl Worker {
    pub(super) fn new(learner: Learner) -> Self {
        Self(Mutex::new(State { learner: Some(Box::new(learner)), ..State::default() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the learner, when it is back.
    pub(super) fn read<T>(&self, look: impl FnOnce(&Learner) -> T) -> T {
        look(self.lock().wait())
    }

    /// The learner, when it is back.
    pub(super) fn wait(&mut self) -> &mut Learner {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).wait()
    }

    /// Losses of the gradient steps since the last call, when they are made.
    pub(super) fn take_losses(&mut self) -> Losses {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.wait();
        std::mem::take(&mut state.outcome.losses)
    }

    /// A loss that was not finite since the last call, when the gradient steps are made.
    pub(super) fn take_diverged(&mut self) -> Option<Diverged> {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.wait();
        state.outcome.diverged.take()
    }

    /// Begins gradient steps, or makes them if there is no thread for them.
    pub(super) fn start(&mut self, settings: &SacConfig, learning_rate: f32, count: u64) {
        if count == 0 {
            return;
        }
        let job = Job { settings: settings.clone(), learning_rate, count };
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.wait();
        if state.thread.is_none() && rayon::current_num_threads() > 1 {
            state.thread = Thread::spawn();
        }
        let State { learner, thread, outcome } = state;
        match (learner.take(), &*thread) {
            (Some(lent), Some(to)) => {
                // A thread that has ended has panicked, which the next wait reports.
                *learner = to.jobs.send((lent, job)).err().map(|error| error.0.0);
            }
            (mut own, _) => {
                let made = own.as_mut().map(|learner| job.run(learner)).unwrap_or_default();
                outcome.losses.add(made.losses);
                outcome.diverged = outcome.diverged.or(made.diverged);
                *learner = own;
            }
        }
    }
}

impl Clone for Worker {
    fn clone(&self) -> Self {
        let mut state = self.lock();
        let learner = Some(Box::new(state.wait().clone()));
        Self(Mutex::new(State { learner, thread: None, outcome: state.outcome }))
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read(|learner| learner.fmt(f))
    }
}

/// What is stored. A loss that was not finite is met again, as the step was not made.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    learner: Box<Learner>,
    losses: Losses,
}

#[derive(Serialize)]
struct StoredRef<'a> {
    learner: &'a Learner,
    losses: Losses,
}

impl Serialize for Worker {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut state = self.lock();
        state.wait();
        let losses = state.outcome.losses;
        StoredRef { learner: state.wait(), losses }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Worker {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Stored { learner, losses } = Stored::deserialize(deserializer)?;
        let outcome = Outcome { losses, diverged: None };
        Ok(Self(Mutex::new(State { learner: Some(learner), thread: None, outcome })))
    }
}
