//! Reproduction of the paper: every figure and claim, with a verdict on each.
//!
//! Claims and thresholds are in `claims.rs`, the experiments that measure them in the other modules. `acrl reproduce` is
//! [`reproduce`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod claims;
mod continuous;
mod diagrams;
mod duality;
mod example_1;
mod experiments;
mod fig_4;
mod fig_7;
mod finite;
mod guarantees;
mod page;
mod runs;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use acrl::Named;
use acrl_app::{Context as _, Control, Error, Progress as _, Stop, bail, create_folder};
use acrl_report::{Figure, Report};
use rayon::prelude::*;
use serde::Serialize;

pub use self::claims::ClaimVerdict;
use self::claims::{CLAIMS, Claim, FIGURES};
use self::experiments::{EXPERIMENTS, Experiment};

/// An experiment of so many seconds of one core is a long one.
const LONG: u64 = 10;

/// Configuration of a run of an experiment.
struct RunConfig<'a> {
    quick: bool,
    seed: u64,
    progress: ProgressShare<'a>,
}

/// An experiment's part of the progress bar, and the request to stop.
struct ProgressShare<'a> {
    control: Option<&'a Control>,
    units: u64,
    done: AtomicU64,
    stop: &'a Stop,
}

impl<'a> ProgressShare<'a> {
    /// Without a bar.
    fn hidden(stop: &'a Stop) -> Self {
        Self { control: None, units: 0, done: AtomicU64::new(0), stop }
    }

    /// Sets the completed part, from 0 to 1.
    fn set(&self, part: f64) {
        let now = (part.clamp(0.0, 1.0) * self.units as f64) as u64;
        let before = self.done.fetch_max(now, Ordering::Relaxed);
        if let Some(control) = self.control.filter(|_| now > before) {
            control.advance(now - before);
        }
    }
}

/// Figures and measurements of an experiment.
struct ExperimentResult {
    figures: Vec<Figure>,
    claims: Vec<ClaimMeasurement>,
}

impl ExperimentResult {
    /// Claims without a figure.
    fn of(claims: Vec<ClaimMeasurement>) -> Self {
        Self { figures: Vec::new(), claims }
    }
}

/// Measurement of a claim.
struct ClaimMeasurement {
    id: &'static str,
    numbers: Vec<(String, f64)>,
    text: String,
    settings: String,
}

impl ClaimMeasurement {
    fn new(id: &'static str) -> Self {
        Self { id, numbers: Vec::new(), text: String::new(), settings: String::new() }
    }

    /// Adds a number, which the threshold may be about.
    fn with(mut self, name: &str, value: f64) -> Self {
        self.numbers.push((name.to_owned(), value));
        self
    }

    /// Sets the description.
    fn description(mut self, text: String) -> Self {
        self.text = text;
        self
    }

    /// Sets the settings that reproduce it.
    fn settings(mut self, text: String) -> Self {
        self.settings = text;
        self
    }
}

/// The paper's claims, and what was measured about them; the object printed as JSON.
#[derive(Debug, Serialize)]
pub struct Reproduction {
    quick: bool,
    seed: u64,
    seconds: f64,
    /// False if a stop was requested before the end.
    pub complete: bool,
    /// The folder that holds the report and the files of the figures.
    pub folder: String,
    figures: Vec<FigureEntry>,
    /// The claims.
    pub claims: Vec<ClaimEntry>,
    /// Number of claims that pass.
    pub passed: usize,
    /// Number of claims that deviate with a stated reason.
    pub deviates: usize,
    /// Number of claims that fail.
    pub failed: usize,
    #[serde(skip)]
    page: Report,
}

#[derive(Debug, Serialize)]
struct FigureEntry {
    name: &'static str,
    title: &'static str,
    /// The worst of its claims.
    verdict: ClaimVerdict,
    claims: Vec<&'static str>,
    files: Vec<String>,
}

/// A claim of the paper and its measurement.
#[derive(Debug, Serialize)]
pub struct ClaimEntry {
    /// The identifier.
    pub id: &'static str,
    /// The place in the paper.
    #[serde(rename = "where")]
    pub place: &'static str,
    /// The figure that it is about.
    pub figure: Option<&'static str>,
    /// The claim.
    pub says: &'static str,
    /// The threshold.
    pub threshold: String,
    /// The measurement, in words.
    pub measured: String,
    /// The measured numbers.
    pub metrics: Named<f64>,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// The reason of a deviation, or a remark.
    pub why: Option<&'static str>,
    /// Settings of the experiment.
    pub settings: String,
    /// The seed.
    pub seed: u64,
}

impl ClaimEntry {
    fn new(measured: ClaimMeasurement, seed: u64) -> Result<Self, Error> {
        let claim = Claim::find(measured.id).with_context(|| format!("no claim '{}'", measured.id))?;
        let metrics: Named<f64> = measured.numbers.into_iter().collect();
        let verdict = claim.verdict(&metrics);
        let note = Some(claim.note).filter(|note| !note.is_empty());
        Ok(Self {
            id: claim.id,
            place: claim.place,
            figure: claim.figure,
            says: claim.says,
            threshold: claim.threshold(),
            measured: measured.text,
            metrics,
            verdict,
            why: if verdict == ClaimVerdict::Deviates { claim.known } else { note },
            settings: measured.settings,
            seed,
        })
    }
}

/// What the command line asks for.
struct Wanted<'a>(&'a [String]);

impl Wanted<'_> {
    fn check(&self) -> Result<(), Error> {
        let names = || FIGURES.iter().map(|f| f.0).chain(CLAIMS.iter().map(|c| c.id));
        match self.0.iter().find(|name| !names().any(|known| known == name.as_str())) {
            Some(name) => bail!(
                "unknown figure or claim '{name}'; expected some of {}",
                names().collect::<Vec<_>>().join(", ")
            ),
            None => Ok(()),
        }
    }

    fn names(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|wanted| wanted == name)
    }

    fn claim(&self, id: &str) -> bool {
        let figure = Claim::find(id).and_then(|claim| claim.figure);
        self.names(id) || figure.is_some_and(|figure| self.names(figure))
    }

    fn experiment(&self, experiment: &Experiment) -> bool {
        experiment.figures.iter().any(|figure| self.names(figure))
            || experiment.claims.iter().any(|id| self.claim(id))
    }
}

/// What to reproduce, and where.
#[derive(Debug, Clone)]
pub struct ReproduceOptions {
    /// Fewer runs and fewer readings of settings that the paper leaves open.
    pub quick: bool,
    /// These figures and claims only; none: all.
    pub only: Vec<String>,
    /// Where the report is written to.
    pub out_dir: PathBuf,
    /// The seed of all randomness.
    pub seed: u64,
}

/// Runs the experiments and writes the report to its folder.
pub fn reproduce(options: &ReproduceOptions, control: &Control) -> Result<Reproduction, Error> {
    let ReproduceOptions { quick, only, out_dir: folder, seed } = options;
    let (wanted, seed, begin) = (Wanted(only), *seed, Instant::now());
    wanted.check()?;
    create_folder(folder)?;
    let experiments: Vec<&Experiment> = EXPERIMENTS.iter().filter(|e| wanted.experiment(e)).collect();
    control.begin(experiments.iter().map(|e| e.units).sum());
    let run = |experiment: &&Experiment| -> Result<Option<ExperimentResult>, Error> {
        if control.stop.requested() {
            return Ok(None);
        }
        control.message(experiment.what.to_owned());
        let progress = ProgressShare {
            control: Some(control),
            units: experiment.units,
            done: AtomicU64::new(0),
            stop: &control.stop,
        };
        let config = RunConfig { quick: *quick, seed, progress };
        let found = (experiment.run)(&config);
        // What was cut short by Ctrl-C is no result, and no error either.
        if control.stop.requested() {
            return Ok(None);
        }
        config.progress.set(1.0);
        found.map(Some).with_context(|| experiment.what.to_owned())
    };
    // The short ones first, so that Ctrl-C leaves something.
    let (long, short): (Vec<&Experiment>, Vec<_>) = experiments.into_iter().partition(|e| e.units >= LONG);
    let mut done = Vec::new();
    for some in [short, long] {
        done.extend(some.par_iter().with_max_len(1).map(run).collect::<Result<Vec<_>, Error>>()?);
    }
    let complete = done.iter().all(Option::is_some);
    let (mut figures, mut claims) = (Vec::new(), Vec::new());
    for found in done.into_iter().flatten() {
        figures.extend(found.figures);
        claims.extend(found.claims);
    }
    if claims.is_empty() {
        return Err(Error::Stopped(" before the first experiment was done"));
    }
    figures.retain(|figure| wanted.names(&figure.name));
    figures.sort_by(|a, b| a.name.cmp(&b.name));
    let mut entries = Vec::new();
    for measured in claims.into_iter().filter(|measured| wanted.claim(measured.id)) {
        entries.push(ClaimEntry::new(measured, seed)?);
    }
    entries.sort_by_key(|entry| CLAIMS.iter().position(|claim| claim.id == entry.id));
    let count = |verdict| entries.iter().filter(|entry| entry.verdict == verdict).count();
    let mut reproduction = Reproduction {
        quick: *quick,
        seed,
        seconds: begin.elapsed().as_secs_f64(),
        complete,
        folder: folder.display().to_string(),
        passed: count(ClaimVerdict::Pass),
        deviates: count(ClaimVerdict::Deviates),
        failed: count(ClaimVerdict::Fail),
        figures: figures.iter().filter_map(|figure| figure_entry(figure, &entries)).collect(),
        claims: entries,
        page: Report::default(),
    };
    reproduction.page = page::report(&reproduction, figures, only);
    reproduction
        .page
        .write(folder)
        .with_context(|| format!("cannot write the report to {}", folder.display()))?;
    Ok(reproduction)
}

impl Reproduction {
    /// Whether no claim fails, and nothing was left out.
    pub fn good(&self) -> bool {
        self.complete && self.failed == 0
    }

    /// The page on it, which is in its folder already.
    pub fn page(&self) -> &Report {
        &self.page
    }
}

fn figure_entry(figure: &Figure, claims: &[ClaimEntry]) -> Option<FigureEntry> {
    let (name, title) = *FIGURES.iter().find(|(name, _)| *name == figure.name)?;
    let own = || claims.iter().filter(|claim| claim.figure == Some(name));
    Some(FigureEntry {
        name,
        title,
        verdict: own().map(|claim| claim.verdict).max().unwrap_or(ClaimVerdict::Pass),
        claims: own().map(|claim| claim.id).collect(),
        files: [("figures", "svg"), ("figures", "png"), ("data", "csv")]
            .map(|(folder, ending)| format!("{folder}/{name}.{ending}"))
            .to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_claim_has_one_id_one_experiment_and_a_threshold() {
        let ids: BTreeSet<&str> = CLAIMS.iter().map(|claim| claim.id).collect();
        assert_eq!(ids.len(), CLAIMS.len());
        let measured: Vec<&str> = EXPERIMENTS.iter().flat_map(|e| e.claims).copied().collect();
        assert_eq!(measured.len(), CLAIMS.len());
        assert_eq!(measured.iter().copied().collect::<BTreeSet<_>>(), ids);
        for claim in CLAIMS {
            assert!(!claim.limits.is_empty() && !claim.threshold().is_empty(), "{}", claim.id);
        }
    }

    #[test]
    fn every_figure_has_an_experiment_and_a_claim() {
        let drawn: BTreeSet<&str> = EXPERIMENTS.iter().flat_map(|e| e.figures).copied().collect();
        assert_eq!(drawn, FIGURES.iter().map(|figure| figure.0).collect());
        for (name, _) in FIGURES {
            assert!(CLAIMS.iter().any(|claim| claim.figure == Some(name)), "{name}");
        }
        // A figure that is asked for by name brings its claims along, and they are measured with it.
        for claim in CLAIMS {
            let Some(figure) = claim.figure else { continue };
            let experiment = EXPERIMENTS.iter().find(|e| e.claims.contains(&claim.id)).unwrap();
            assert!(experiment.figures.contains(&figure), "{}", claim.id);
        }
    }

    #[test]
    fn missing_or_nan_measurement_fails_a_claim() {
        let claim = Claim::find("o1").unwrap();
        let of = |value: f64| [("feasible_weightings".to_owned(), value)].into_iter().collect();
        assert_eq!(claim.verdict(&of(0.0)), ClaimVerdict::Pass);
        assert_eq!(claim.verdict(&of(1.0)), ClaimVerdict::Fail);
        assert_eq!(claim.verdict(&of(f64::NAN)), ClaimVerdict::Fail);
        assert_eq!(claim.verdict(&Named::from_iter([])), ClaimVerdict::Fail);
        assert_eq!(Claim::find("constant-b").unwrap().verdict(&Named::from_iter([])), ClaimVerdict::Deviates);
    }
}
