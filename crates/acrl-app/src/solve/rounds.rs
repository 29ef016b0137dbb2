//! The rounds of a solve, as they are shown, passed on and stopped.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use acrl::Event;
use acrl_exact::{SolveError, SolveOptions, SolveRound};
use acrl_report::number;

use crate::Error;
use crate::control::{Control, Progress as _};

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub struct SolveSettings {
    /// At this relative gap between the certified bounds; default 1e-6.
    pub gap: f64,
    /// After so long, whatever the gap.
    pub time_limit: Option<Duration>,
}

impl Default for SolveSettings {
    fn default() -> Self {
        Self { gap: SolveOptions::default().gap, time_limit: None }
    }
}

impl SolveSettings {
    pub(crate) fn options(&self) -> SolveOptions {
        SolveOptions { gap: self.gap, ..SolveOptions::default() }
    }
}

/// Looks at the rounds of a solve: shows them, passes them on, and stops it when it is time.
pub(crate) struct Rounds<'a> {
    pub(crate) start: Instant,
    limit: Option<Duration>,
    sign: f64,
    control: &'a Control,
    observer: &'a mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
}

impl<'a> Rounds<'a> {
    pub(crate) fn new(
        settings: &SolveSettings,
        sign: f64,
        control: &'a Control,
        observer: &'a mut dyn FnMut(&Event<'_>) -> ControlFlow<()>,
    ) -> Self {
        Self { start: Instant::now(), limit: settings.time_limit, sign, control, observer }
    }

    /// `what` is said before the round.
    pub(crate) fn look(&mut self, what: &str, round: &SolveRound) -> ControlFlow<()> {
        let signed = |bound: Option<f64>| bound.map(|x| self.sign * x + 0.0);
        let (lower, upper) = if self.sign > 0.0 {
            (signed(round.lower), signed(round.upper))
        } else {
            (signed(round.upper), signed(round.lower))
        };
        let seconds = self.start.elapsed().as_secs_f64();
        let message = match (lower, upper, round.gap) {
            (Some(lower), Some(upper), Some(gap)) => {
                format!("between {} and {}, gap {},", number(lower, 6), number(upper, 6), number(gap, 2))
            }
            _ => "looking for a policy that meets the requirements,".to_owned(),
        };
        self.control.message(format!("{what}round {}, {message}", round.round));
        let event = Event::Round { round: round.round, lower, upper, gap: round.gap, seconds };
        if (self.observer)(&event).is_break() || self.over() {
            // Whatever else looks at it stops too.
            self.control.stop.request();
        }
        self.control.stop.flow()
    }

    fn over(&self) -> bool {
        self.limit.is_some_and(|limit| self.start.elapsed() >= limit)
    }

    /// What went wrong, with the time that it was given.
    pub(crate) fn error(&self, error: SolveError) -> Error {
        match (&error, self.limit) {
            (SolveError::Stopped, Some(limit)) if self.over() => Error::Input(format!(
                "no policy that meets the requirements was found in {} s, nor that there is none: give it a longer \
                 --time-limit",
                number(limit.as_secs_f64(), 3)
            )),
            _ => error.into(),
        }
    }
}
