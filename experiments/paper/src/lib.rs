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

use self::claims::{CLAIMS, Claim, FIGURES};
pub use self::claims::{ClaimVerdict, Criterion, Relation};
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
    sample: String,
    /// The sample of the full version, where `--quick` has made it smaller.
    full_sample: Option<String>,
    numbers: Vec<(String, f64)>,
    text: String,
    settings: String,
}

impl ClaimMeasurement {
    fn new(id: &'static str) -> Self {
        Self {
            id,
            sample: String::new(),
            full_sample: None,
            numbers: Vec::new(),
            text: String::new(),
            settings: String::new(),
        }
    }

    /// Sets what the numbers rest on.
    fn sample(mut self, text: &str) -> Self {
        self.sample = text.to_owned();
        self
    }

    /// Sets what the numbers rest on, where that depends on `--quick`.
    fn sample_of(mut self, config: &RunConfig<'_>, text: impl Fn(bool) -> String) -> Self {
        self.sample = text(config.quick);
        self.full_sample = config.quick.then(|| text(false));
        self
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
    /// Whether some claims rest on fewer runs than in the paper.
    pub quick: bool,
    seed: u64,
    seconds: f64,
    /// False if a stop was requested before the end.
    pub complete: bool,
    /// The folder that holds the report and the files of the figures.
    pub folder: String,
    figures: Vec<FigureEntry>,
    /// The claims.
    pub claims: Vec<ClaimEntry>,
    /// The counts in words, and whether this is the quick version.
    pub headline: String,
    /// Number of claims that are reproduced.
    pub passed: usize,
    /// Number of claims that are errata of the paper.
    pub errata: usize,
    /// Number of claims that deviate in a stated way.
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
    /// The thresholds in words.
    pub threshold: String,
    /// The thresholds beside their measurements.
    pub criteria: Vec<Criterion>,
    /// What shows that `why` is right, for an erratum or a deviation.
    pub evidence: Vec<Criterion>,
    /// What the measurement rests on: runs and steps.
    pub sample: String,
    /// What it rests on in the full version, where that is more.
    pub full_sample: Option<String>,
    /// The measurement, in words.
    pub measured: String,
    /// The measured numbers.
    pub metrics: Named<f64>,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// The explanation of an erratum or a deviation, else a remark.
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
        let judgement = claim.judge(&metrics);
        let requirements = judgement.criteria.iter().map(Criterion::requirement);
        Ok(Self {
            id: claim.id,
            place: claim.place,
            figure: claim.figure,
            says: claim.says,
            threshold: requirements.collect::<Vec<_>>().join("; "),
            criteria: judgement.criteria,
            evidence: judgement.evidence,
            sample: measured.sample,
            full_sample: measured.full_sample,
            measured: measured.text,
            metrics,
            verdict: judgement.verdict,
            why: judgement.why,
            settings: measured.settings,
            seed,
        })
    }

    /// What the measurement rests on, and in the full version if that is more.
    pub fn rests_on(&self) -> String {
        match &self.full_sample {
            Some(full) => format!("{} (quick version; full: {full})", self.sample),
            None => self.sample.clone(),
        }
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
    let headline = headline(*quick, &entries);
    let mut reproduction = Reproduction {
        quick: *quick,
        seed,
        seconds: begin.elapsed().as_secs_f64(),
        complete,
        folder: folder.display().to_string(),
        headline,
        passed: count(ClaimVerdict::Pass),
        errata: count(ClaimVerdict::Erratum),
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

/// As "30 reproduced, 5 errata of the paper, 4 deviate, 0 fail".
fn headline(quick: bool, claims: &[ClaimEntry]) -> String {
    let counts = ClaimVerdict::ALL
        .map(|verdict| verdict.count(claims.iter().filter(|claim| claim.verdict == verdict).count()));
    let counts = counts.join(", ");
    let smaller = claims.iter().filter(|claim| claim.full_sample.is_some()).count();
    match (quick, smaller) {
        (false, _) => counts,
        (true, 0) => format!("{counts} (quick version, as large as the full one for these claims)"),
        (true, 1) => format!("{counts} (quick version: 1 claim rests on fewer runs than in the full one)"),
        (true, _) => {
            format!("{counts} (quick version: {smaller} claims rest on fewer runs than in the full one)")
        }
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
            assert!(!claim.limits.is_empty(), "{}", claim.id);
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
        let verdict = |id: &str, numbers: &[(&str, f64)]| {
            let measured = numbers.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            Claim::find(id).unwrap().judge(&measured).verdict
        };
        assert_eq!(verdict("o1", &[("feasible_weightings", 0.0)]), ClaimVerdict::Pass);
        assert_eq!(verdict("o1", &[("feasible_weightings", 1.0)]), ClaimVerdict::Fail);
        assert_eq!(verdict("o1", &[("feasible_weightings", f64::NAN)]), ClaimVerdict::Fail);
        for id in ["o1", "constant-b", "fig4-lag", "fig6-order"] {
            assert_eq!(verdict(id, &[]), ClaimVerdict::Fail, "{id}");
        }
    }

    #[test]
    fn erratum_or_deviation_needs_its_evidence() {
        let judge = |id: &str, numbers: &[(&str, f64)]| {
            let measured = numbers.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            Claim::find(id).unwrap().judge(&measured)
        };
        let both = |second: f64, first: f64| {
            [("share_of_stays_with_lambda_2_larger", second), ("share_of_stays_with_lambda_1_larger", first)]
        };
        assert_eq!(judge("typo-switch", &both(1.0, 0.0)).verdict, ClaimVerdict::Pass);
        assert_eq!(judge("typo-switch", &both(0.0, 1.0)).verdict, ClaimVerdict::Erratum);
        assert_eq!(judge("typo-switch", &both(0.5, 0.5)).verdict, ClaimVerdict::Fail);
        let lag = |rollouts: f64| judge("fig4-lag", &[("longest_lag_in_rollouts", rollouts)]);
        assert_eq!(lag(8_000.0).verdict, ClaimVerdict::Pass);
        assert_eq!(lag(2_700.0).verdict, ClaimVerdict::Deviates);
        assert_eq!(lag(500.0).verdict, ClaimVerdict::Fail);
        assert!(lag(8_000.0).evidence.is_empty() && lag(2_700.0).evidence[0].holds);
    }

    #[test]
    fn counts_agree_with_their_nouns_and_verbs() {
        let count = |n: usize| ClaimVerdict::ALL.map(|verdict| verdict.count(n)).join(", ");
        assert_eq!(count(1), "1 reproduced, 1 erratum of the paper, 1 deviates, 1 fails");
        assert_eq!(count(2), "2 reproduced, 2 errata of the paper, 2 deviate, 2 fail");
    }

    #[test]
    fn thresholds_are_phrases() {
        let measured = [("share_of_runs_that_meet_all".to_owned(), 0.95)].into_iter().collect();
        let judgement = Claim::find("fig6-all-runs").unwrap().judge(&measured);
        let text = judgement.criteria[0].to_string();
        assert_eq!(text, "share of runs that meet all: at least 1, measured 0.95");
        let missing = Claim::find("fig4-overshoot").unwrap().judge(&measured).criteria[0].to_string();
        assert_eq!(missing, "largest multiplier relative to A-CRL: at least 1.3, measured nothing");
    }
}
