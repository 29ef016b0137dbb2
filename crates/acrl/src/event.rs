//! Events of runs and trainings, and their observers. One format for logs, streams and views.

use std::ops::ControlFlow;

use serde::Serialize;

use crate::{Agent, BatchMatrix, Certificate, Epoch, Named, Requirement, Snapshot};

/// One event. As JSON it is `{"type": ..., "data": {...}}`, one object a line.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event<'a> {
    /// The requirements, for plots.
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
    /// The state of several simultaneous executions.
    Snapshot(&'a Snapshot),
    /// An execution has ended, because it is complete or because an observer stopped it.
    Finished {
        /// The steps taken.
        steps: u64,
        /// The certificate of the requirements.
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
        /// Metrics, such as a return or a temporal-difference error.
        metrics: &'a Named<f64>,
    },
    /// An exact solver has done one round. Everything in the user's signs.
    Round {
        /// Its number: the policies generated so far.
        round: usize,
        /// Proven lower bound of the best objective, if there is one yet.
        lower: Option<f64>,
        /// Proven upper bound, if there is one yet.
        upper: Option<f64>,
        /// The relative gap between the two.
        gap: Option<f64>,
        /// Seconds since the solver began.
        seconds: f64,
    },
}

/// All runs of an execution after one step of each.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The number of steps taken in this execution.
    pub steps: u64,
    /// The agents, one per run.
    pub agents: &'a [Agent],
    /// The states of the environments, one column per run; none in a finite model.
    pub states: Option<&'a BatchMatrix>,
}

/// An observer of a run or a training, which may stop it.
///
/// Both methods are called on the thread that runs, in the order of events, between two steps: the
/// run waits for them. `Break` ends the run after this event; that is not an error. A closure is an
/// observer of events, [`EachStep`] makes one of a closure on steps, and [`Silent`] does nothing.
pub trait Observer {
    /// Called for every event.
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()>;

    /// Called after every step of an execution.
    #[inline]
    fn step(&mut self, _step: &Step<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

impl<F: FnMut(&Event<'_>) -> ControlFlow<()>> Observer for F {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        self(event)
    }
}

/// An observer of every step, made of a closure.
#[derive(Debug, Clone, Copy)]
pub struct EachStep<F>(pub F);

impl<F: FnMut(&Step<'_>) -> ControlFlow<()>> Observer for EachStep<F> {
    fn event(&mut self, _: &Event<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[inline]
    fn step(&mut self, step: &Step<'_>) -> ControlFlow<()> {
        (self.0)(step)
    }
}

/// Two observers; the second one is called even if the first one stops the run.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        let first = self.0.event(event);
        let second = self.1.event(event);
        if first.is_break() { first } else { second }
    }

    #[inline]
    fn step(&mut self, step: &Step<'_>) -> ControlFlow<()> {
        let first = self.0.step(step);
        let second = self.1.step(step);
        if first.is_break() { first } else { second }
    }
}

/// An optional observer; `None` never stops the run.
impl<O: Observer> Observer for Option<O> {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        self.as_mut().map_or(ControlFlow::Continue(()), |observer| observer.event(event))
    }

    #[inline]
    fn step(&mut self, step: &Step<'_>) -> ControlFlow<()> {
        self.as_mut().map_or(ControlFlow::Continue(()), |observer| observer.step(step))
    }
}

/// A borrowed observer. (A borrowed closure is an observer already, as it is a closure.)
impl Observer for &mut (dyn Observer + '_) {
    fn event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        (**self).event(event)
    }

    fn step(&mut self, step: &Step<'_>) -> ControlFlow<()> {
        (**self).step(step)
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
        assert_eq!((first, second), (2, 2));
    }
}
