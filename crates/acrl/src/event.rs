//! Events: what a run or a training tells those who watch. One format for logs, streams and views.

use std::ops::ControlFlow;

use serde::Serialize;

use crate::{Certificate, Epoch, Named, Requirement, Snapshot};

/// Something that happened. As JSON it is `{"type": ..., "data": {...}}`, one object a line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event<'a> {
    /// What is required, for those who draw it.
    Requirements(&'a [Requirement]),
    /// An execution begins.
    Started {
        /// The requirements' names, in the order of all vectors that follow.
        requirements: &'a [String],
        /// The number of steps it is meant to take.
        steps: u64,
    },
    /// An epoch has ended and the multipliers have moved.
    Epoch(Epoch<'a>),
    /// How several executions stand that go on together.
    Snapshot(&'a Snapshot),
    /// An execution has ended, because it is complete or because an observer stopped it.
    Finished {
        /// The steps taken.
        steps: u64,
        /// What is proved about the requirements.
        certificate: &'a Certificate,
    },
    /// A learner has done one iteration.
    Iteration {
        /// Its number, from 1.
        iteration: u64,
        /// The number of iterations planned.
        total: u64,
        /// Environment steps taken so far: the x axis of training curves.
        steps: u64,
        /// Training metrics, such as a return or a temporal-difference error.
        metrics: &'a Named<f64>,
    },
    /// An exact solver has done one round. Everything in the user's signs.
    Round {
        /// Its number: the policies generated so far.
        round: usize,
        /// Proved: the best objective is not below this, if that is known yet.
        lower: Option<f64>,
        /// Proved: it is not above this, if that is known yet.
        upper: Option<f64>,
        /// The relative gap between the two, once there are both.
        gap: Option<f64>,
        /// Since the solver began.
        seconds: f64,
    },
}

/// Watches a run or a training and may stop it.
///
/// Called on the thread that runs, in the order of events, between two steps: what an observer
/// takes, the run waits for. `Break` ends the run after this event; that is not an error.
/// A closure is an observer, and [`Silent`] watches nothing.
pub trait Observer {
    /// Takes note of an event.
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()>;
}

impl<F: FnMut(&Event<'_>) -> ControlFlow<()>> Observer for F {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        self(event)
    }
}

/// Two observers: both receive every event, and either may stop the run.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        let (first, second) = (self.0.event(event), self.1.event(event));
        if first.is_break() { first } else { second }
    }
}

/// An optional observer; `None` never stops the run.
impl<O: Observer> Observer for Option<O> {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        self.as_mut().map_or(ControlFlow::Continue(()), |observer| observer.event(event))
    }
}

/// A borrowed observer. (A borrowed closure is an observer already, as it is a closure.)
impl Observer for &mut (dyn Observer + '_) {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        (**self).event(event)
    }
}

/// The observer that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _: &Event<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observers_compose_and_either_may_stop_the_run() {
        let (mut first, mut second) = (0, 0);
        let event = Event::Started { requirements: &[], steps: 1 };
        let mut stop_at_two = |_: &Event<'_>| {
            first += 1;
            if first == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let borrowed: &mut dyn Observer = &mut stop_at_two;
        let count = |_: &Event<'_>| {
            second += 1;
            ControlFlow::Continue(())
        };
        let mut both = (borrowed, (Some(count), None::<Silent>));
        assert!(both.event(&event).is_continue());
        assert!(both.event(&event).is_break());
        drop(both);
        assert_eq!((first, second), (2, 2));
    }
}
