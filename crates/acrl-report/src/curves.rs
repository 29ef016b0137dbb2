//! Curves and progress of a run, collected from its events as they are written.

use acrl::{Direction, History, MeanMinMax, Named, Specification, Verdict};
use serde::Deserialize;

/// The most points of a curve.
const POINTS: usize = 1000;

/// A line of `events.jsonl`. Numbers that are not finite are `null` there.
#[derive(Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
enum Line {
    Requirements(Vec<Bounded>),
    Started { requirements: Vec<String>, steps: u64 },
    Snapshot(Snapshot),
    Epoch { step: u64, multipliers: Vec<Option<f64>> },
    Finished { steps: u64, certificate: Certificate },
    Iteration { iteration: u64, total: u64, steps: u64, metrics: Named<Option<f64>> },
}

#[derive(Deserialize)]
struct Bounded {
    name: String,
    bound: f64,
    direction: Direction,
}

/// An [`acrl::Snapshot`] in which numbers may be missing.
#[derive(Deserialize)]
struct Snapshot {
    steps: u64,
    total: u64,
    runs: u64,
    objective: Option<[Option<f64>; 3]>,
    averages: Vec<[Option<f64>; 3]>,
    multipliers: Vec<[Option<f64>; 3]>,
    certified_shortfalls: Vec<Option<f64>>,
    #[serde(default)]
    tolerances: Vec<f64>,
}

impl From<&acrl::Snapshot> for Snapshot {
    fn from(snapshot: &acrl::Snapshot) -> Self {
        let summary = |s: &MeanMinMax| [s.mean(), s.min(), s.max()].map(Some);
        Self {
            steps: snapshot.steps,
            total: snapshot.total,
            runs: snapshot.runs as u64,
            objective: snapshot.objective.as_ref().map(summary),
            averages: snapshot.averages.iter().map(summary).collect(),
            multipliers: snapshot.multipliers.iter().map(summary).collect(),
            certified_shortfalls: snapshot.certified_shortfalls.iter().copied().map(Some).collect(),
            tolerances: snapshot.tolerances.clone(),
        }
    }
}

#[derive(Deserialize)]
struct Certificate {
    requirements: Vec<RequirementCertificate>,
}

#[derive(Deserialize)]
struct RequirementCertificate {
    #[serde(flatten)]
    requirement: Bounded,
    average: Option<f64>,
    certified_shortfall: Option<f64>,
}

/// A point of a curve: the mean of several runs, the least and the most. NaN where there is no number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) mean: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

/// A curve of any length in at most [`POINTS`] points: every 2^k-th, and the last.
#[derive(Debug, Clone, Default)]
pub(crate) struct Curve {
    kept: Vec<Point>,
    last: Option<Point>,
    seen: u64,
    /// log₂ of how many points come to one that is kept.
    halvings: u32,
}

impl Curve {
    fn push(&mut self, x: u64, [mean, least, most]: [Option<f64>; 3]) {
        let number = |y: Option<f64>| y.unwrap_or(f64::NAN);
        let point = Point { x: x as f64, mean: number(mean), least: number(least), most: number(most) };
        self.last = None;
        if self.seen.is_multiple_of(1 << self.halvings) {
            self.kept.push(point);
            if self.kept.len() >= POINTS {
                let mut even = false;
                self.kept.retain(|_| {
                    even = !even;
                    even
                });
                self.halvings += 1;
                self.last = Some(point);
            }
        } else {
            self.last = Some(point);
        }
        self.seen += 1;
    }

    fn one(&mut self, x: u64, y: Option<f64>) {
        self.push(x, [y; 3]);
    }

    pub(crate) fn points(&self) -> impl Iterator<Item = Point> + '_ {
        self.kept.iter().copied().chain(self.last)
    }

    pub(crate) fn latest(&self) -> Option<Point> {
        self.last.or(self.kept.last().copied())
    }
}

/// What is known of one requirement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tracked {
    pub(crate) name: String,
    /// The level and its side.
    pub(crate) bound: Option<(f64, Direction)>,
    /// The certified shortfall that still counts as met.
    pub(crate) tolerance: Option<f64>,
    pub(crate) averages: Curve,
    pub(crate) multipliers: Curve,
    /// Certified, of the worst run.
    pub(crate) shortfalls: Curve,
}

impl Tracked {
    /// The verdict so far, in the worst run. `None` if there are no averages yet, or a tolerance would matter that is
    /// not known.
    pub(crate) fn verdict(&self) -> Option<Verdict> {
        let (average, (bound, direction)) = (self.averages.latest()?, self.bound?);
        let inside = match direction {
            Direction::AtLeast => average.least >= bound,
            Direction::AtMost => average.most <= bound,
        };
        match self.tolerance {
            None => inside.then_some(Verdict::Satisfied),
            Some(tolerance) => Some(Verdict::of(inside, self.shortfalls.latest()?.mean, tolerance)),
        }
    }

    /// Forgets what was measured.
    fn clear(&mut self) {
        (self.averages, self.multipliers, self.shortfalls) = Default::default();
    }
}

/// How far something has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    pub(crate) done: u64,
    pub(crate) total: u64,
}

/// A run as far as its events go: a training, an execution, or one after the other.
#[derive(Debug, Clone, Default)]
pub struct LiveRun {
    /// Iterations, once there is one.
    pub(crate) training: Option<Progress>,
    /// Environment steps of the training so far.
    pub(crate) training_steps: u64,
    /// Training metrics over environment steps, by name.
    pub(crate) metrics: Vec<(String, Curve)>,
    /// Steps, once there is an execution.
    pub(crate) execution: Option<Progress>,
    /// How many runs the numbers are over, if it is said.
    pub(crate) runs: Option<u64>,
    /// Its running average.
    pub(crate) objective: Curve,
    /// The name of the objective, and a title with its direction, if they are known.
    pub(crate) objective_name: Option<(String, String)>,
    /// The multipliers of the first run in its last steps, once it is done.
    pub(crate) detail: Vec<(u64, Vec<f64>)>,
    pub(crate) requirements: Vec<Tracked>,
    /// Whether the multipliers are those at the ends of epochs, and so constant in between.
    pub(crate) epochs: bool,
    /// True if the last event is the end of an execution.
    pub finished: bool,
}

impl LiveRun {
    /// The curves of runs that are done.
    pub(crate) fn of(specification: &Specification, history: &History) -> Self {
        let mut run = Self::default();
        run.bounded(specification.requirements().iter().map(|r| Bounded {
            name: r.name().to_owned(),
            bound: r.bound(),
            direction: r.direction(),
        }));
        history.snapshots().iter().for_each(|snapshot| run.snapshot(&snapshot.into()));
        run.objective_name = specification.objective().map(|objective| {
            let goal = if objective.sign() > 0.0 { "as much as possible" } else { "as little as possible" };
            (objective.reward.clone(), format!("{}: {goal}", objective.reward))
        });
        run.detail = history.detail().to_vec();
        run
    }

    /// Takes a line of `events.jsonl`. Unknown kinds are skipped: a later version may have written them.
    pub fn line(&mut self, line: &[u8]) {
        let Ok(line) = serde_json::from_slice(line) else { return };
        self.finished = false;
        match line {
            Line::Requirements(bounded) => self.bounded(bounded.into_iter()),
            Line::Started { requirements, steps } => self.started(&requirements, steps),
            Line::Snapshot(snapshot) => self.snapshot(&snapshot),
            // Of one run; snapshots say more.
            Line::Epoch { .. } if self.runs.is_some() => {}
            Line::Epoch { step, multipliers } => {
                self.execution.get_or_insert_default().done = step;
                self.epochs = true;
                for (tracked, multiplier) in self.requirements.iter_mut().zip(multipliers) {
                    tracked.multipliers.one(step, multiplier);
                }
            }
            Line::Finished { steps, certificate } => self.finished(steps, certificate),
            Line::Iteration { iteration, total, steps, metrics } => {
                self.iteration(iteration, total, steps, &metrics);
            }
        }
    }

    /// True before the first event that can be shown.
    pub fn is_empty(&self) -> bool {
        self.training.is_none() && self.execution.is_none()
    }

    /// True after the last iteration of a training without an execution.
    pub fn trained(&self) -> bool {
        self.execution.is_none() && self.training.is_some_and(|training| training.done >= training.total)
    }

    fn bounded(&mut self, bounded: impl Iterator<Item = Bounded>) {
        for (i, Bounded { name, bound, direction }) in bounded.enumerate() {
            let known = self.requirements.iter().position(|tracked| tracked.name == name);
            let at = known.unwrap_or_else(|| {
                let at = i.min(self.requirements.len());
                self.requirements.insert(at, Tracked { name, ..Tracked::default() });
                at
            });
            self.requirements[at].bound = Some((bound, direction));
        }
    }

    fn started(&mut self, names: &[String], steps: u64) {
        let mut known = std::mem::take(&mut self.requirements);
        known.iter_mut().for_each(Tracked::clear);
        let tracked = |name: &String| match known.iter().find(|tracked| tracked.name == *name) {
            Some(tracked) => tracked.clone(),
            None => Tracked { name: name.clone(), ..Tracked::default() },
        };
        self.requirements = names.iter().map(tracked).collect();
        self.execution = Some(Progress { done: 0, total: steps });
        (self.runs, self.epochs, self.objective) = (None, false, Curve::default());
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        let Snapshot {
            steps,
            total,
            runs,
            objective,
            averages,
            multipliers,
            certified_shortfalls,
            tolerances,
        } = snapshot;
        self.execution = Some(Progress { done: *steps, total: *total });
        self.runs = Some(*runs);
        if std::mem::take(&mut self.epochs) {
            self.requirements.iter_mut().for_each(Tracked::clear);
        }
        objective.iter().for_each(|objective| self.objective.push(*steps, *objective));
        for (i, tracked) in self.requirements.iter_mut().enumerate() {
            averages.get(i).iter().for_each(|average| tracked.averages.push(*steps, **average));
            multipliers.get(i).iter().for_each(|value| tracked.multipliers.push(*steps, **value));
            certified_shortfalls
                .get(i)
                .iter()
                .for_each(|shortfall| tracked.shortfalls.one(*steps, **shortfall));
            tracked.tolerance = tolerances.get(i).copied();
        }
    }

    fn finished(&mut self, steps: u64, certificate: Certificate) {
        self.finished = true;
        self.execution.get_or_insert_default().done = steps;
        for certified in certificate.requirements {
            let Bounded { name, bound, direction } = certified.requirement;
            let known = self.requirements.iter_mut().find(|tracked| tracked.name == name);
            let Some(tracked) = known else { continue };
            tracked.bound = Some((bound, direction));
            // Of one run; what is known of all runs says more.
            if tracked.averages.seen == 0 {
                tracked.averages.one(steps, certified.average);
                tracked.shortfalls.one(steps, certified.certified_shortfall);
            }
        }
    }

    fn iteration(&mut self, iteration: u64, total: u64, steps: u64, metrics: &Named<Option<f64>>) {
        // Another training begins.
        if self.training.is_some_and(|training| iteration <= training.done) {
            self.metrics.clear();
        }
        self.training = Some(Progress { done: iteration, total });
        self.training_steps = steps;
        for (name, value) in metrics.iter() {
            let known = self.metrics.iter().position(|(known, _)| *known == name);
            let at = known.unwrap_or(self.metrics.len());
            if known.is_none() {
                self.metrics.push((name.to_owned(), Curve::default()));
            }
            self.metrics[at].1.one(steps, *value);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn live(lines: &[&str]) -> LiveRun {
        let mut live = LiveRun::default();
        lines.iter().for_each(|line| live.line(line.as_bytes()));
        live
    }

    #[test]
    fn long_curves_are_thinned_and_keep_the_last_point() {
        let mut curve = Curve::default();
        for x in 0..100_000_u64 {
            curve.one(x, Some(x as f64));
            let points: Vec<f64> = curve.points().map(|point| point.x).collect();
            if x.is_multiple_of(997) || x < 3000 {
                assert!(
                    points.len() <= POINTS && points.len() as u64 >= (x + 1).min(POINTS as u64 / 2 - 1),
                    "{x}"
                );
                assert!(points.is_sorted_by(|a, b| a < b), "{x}");
                assert_eq!((points[0], points[points.len() - 1]), (0.0, x as f64));
                assert_eq!(curve.latest().unwrap().x, x as f64);
            }
        }
    }

    #[test]
    fn an_execution_is_followed_with_its_bounds() {
        let mut live = live(&[
            r#"{"type":"requirements","data":[{"name":"a","bound":0.3,"direction":"at_least"},{"name":"b","bound":2,"direction":"at_most"}]}"#,
            r#"{"type":"started","data":{"requirements":["a","b"],"steps":100}}"#,
            r#"{"type":"snapshot","data":{"steps":50,"total":100,"runs":3,"averages":[[0.35,0.29,0.4],[1,0.9,1.1]],"multipliers":[[1,0,2],[0,0,0]],"certified_shortfalls":[0.1,null],"objective":[0.5,0.4,0.6],"first":[1,0],"tolerances":[0.1,0.1]}}"#,
            r#"{"type":"tomorrow's","data":{}}"#,
            "not JSON",
        ]);
        assert_eq!(live.execution, Some(Progress { done: 50, total: 100 }));
        let verdicts: Vec<_> = live.requirements.iter().map(Tracked::verdict).collect();
        assert_eq!(
            verdicts,
            [Some(Verdict::WithinTolerance), Some(Verdict::Satisfied)],
            "the worst run counts, on the side that hurts"
        );
        assert_eq!(live.objective.latest().unwrap().least, 0.4);
        assert!(live.requirements[1].shortfalls.latest().unwrap().mean.is_nan());
        assert!(!live.finished);
        live.line(
            br#"{"type":"finished","data":{"steps":100,"certificate":{"steps":100,"requirements":[]}}}"#,
        );
        assert!(live.finished);
        live.line(br#"{"type":"started","data":{"requirements":["a","b"],"steps":7}}"#);
        assert!(!live.finished && live.requirements[0].averages.latest().is_none());
        assert_eq!(live.requirements[0].bound, Some((0.3, Direction::AtLeast)), "bounds are kept");
    }

    #[test]
    fn log_of_one_run_gives_multipliers_by_epoch() {
        let live = live(&[
            r#"{"type":"started","data":{"requirements":["r1"],"steps":20}}"#,
            r#"{"type":"epoch","data":{"k":0,"step":10,"steps":10,"multipliers":[0.5],"length":10}}"#,
            r#"{"type":"epoch","data":{"k":1,"step":20,"steps":10,"multipliers":[0.25],"length":10}}"#,
            r#"{"type":"finished","data":{"steps":20,"certificate":{"steps":20,"requirements":[{"name":"r1","bound":0.3,"direction":"at_least","average":0.31,"certified_shortfall":0}]}}}"#,
        ]);
        let multipliers: Vec<f64> = live.requirements[0].multipliers.points().map(|p| p.mean).collect();
        assert_eq!(multipliers, [0.5, 0.25]);
        assert!(live.epochs && live.finished);
        assert_eq!(live.requirements[0].verdict(), Some(Verdict::Satisfied), "without a tolerance");
    }

    #[test]
    fn a_training_has_a_curve_per_metric_and_restarts() {
        let mut live = live(&[
            r#"{"type":"iteration","data":{"iteration":1,"total":2,"steps":100,"metrics":{"reward":0.5,"loss":null}}}"#,
            r#"{"type":"iteration","data":{"iteration":2,"total":2,"steps":200,"metrics":{"reward":0.6,"loss":0.1}}}"#,
        ]);
        let names: Vec<_> = live.metrics.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["reward", "loss"]);
        assert!(live.trained());
        live.line(
            br#"{"type":"iteration","data":{"iteration":1,"total":9,"steps":50,"metrics":{"return":1}}}"#,
        );
        assert_eq!(live.training, Some(Progress { done: 1, total: 9 }));
        assert_eq!(live.metrics.len(), 1);
    }
}
