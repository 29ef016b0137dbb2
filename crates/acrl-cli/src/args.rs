//! The flags, defined and documented in one place.

use std::path::PathBuf;
use std::time::Duration;

use acrl::{Objective, Requirement};
use acrl_app::{EpochOption, ExecutionOptions, ExecutorOption, InitMultipliers, Input, Sweep};
use acrl_envs::bundled;
use acrl_learn::{Learner, Method};
use clap::builder::Styles;
use clap::builder::styling::{AnsiColor, Effects};
use clap::{Args, Parser, Subcommand, ValueEnum};

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .usage(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .literal(AnsiColor::Cyan.on_default().effects(Effects::BOLD))
    .placeholder(AnsiColor::Cyan.on_default());

/// Constrained reinforcement learning with requirements enforced at run time.
///
/// Specify constraints on long-run averages - maximise one reward while others stay above (or
/// below) their bounds - and get the exact optimum, the price of every requirement, or an agent
/// that enforces them at run time.
#[derive(Debug, Parser)]
#[command(name = "acrl", version, styles = STYLES, max_term_width = 100)]
#[command(after_help = "\
Examples:
  acrl demo                                     train, run and compare, in a minute
  acrl problems                                 the problems that come with acrl
  acrl solve monitoring                         the optimum, and what each requirement costs
  acrl run monitoring --runs 20                 run the agent and see every requirement met
  acrl compare monitoring                       with fixed weights, dual descent and others
  acrl check monitoring                         assumptions and guarantees of the theorems
  acrl init monitoring -o my.toml               a commented problem file to edit

Exit status: 0 success; 1 a requirement is not met, or cannot be; 2 bad usage or input; 130 stopped
by Ctrl-C or --time-limit before there was a result.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: Global,
}

/// Flags of every verb.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Global {
    /// Print one JSON object on standard output instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Seed of all randomness [default: the problem's, else 0]
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,

    /// Number of threads; results do not depend on it [default: all cores]
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) threads: Option<u64>,

    /// No progress bar and no hints on standard error
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,

    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train, run, compare and change the requirements, in about a minute
    #[command(after_help = "\
Examples:
  acrl demo
  acrl demo --out-dir /tmp/demo --seed 7

It trains one policy on the four regions of the paper (with a speed limit), runs it 20 times beside
five baselines that trained as long, and then runs the same policy under other requirements,
without retraining. The folder gets report.html, figures, data and the policy; existing files of
these names are overwritten.")]
    Demo(DemoArgs),

    /// Find the exact optimum of a finite problem and the price of each requirement
    #[command(after_help = "\
Examples:
  acrl solve monitoring
  acrl solve queue --json
  acrl solve model.drn --minimize power --require 'queue<=2' --require 'drops<=0.01'
  acrl solve model.npz --maximize throughput --require 'power<=2'
  acrl solve monitoring --require 'r1>=0.55' --require 'r2>=0.55'   (an irreducible conflict)
  acrl solve big.npz --maximize output --require 'wear<=0.2' --time-limit 5m --log bounds.jsonl
  acrl solve monitoring --sweep 'r1>=0.1..0.6:20' --out-dir runs/sweep   (a curve, and a report)
  acrl solve queue --table queue.csv   (what to do in each state)
  acrl solve queue --policy queue.safetensors && acrl run queue.safetensors   (execute the solution)

With --time-limit, as with Ctrl-C, the best solution so far is given with its proven gap. With
--sweep the exit status is 0 if the requirements can be met at one of the bounds.")]
    Solve(SolveArgs),

    /// Train one policy for all multipliers on a continuous problem
    #[command(after_help = "\
Examples:
  acrl train planar-speed -o planar.safetensors
  acrl train wireless -o wireless.safetensors --seed 3 --json
  acrl train problem.toml -o mine.safetensors --total-steps 2e7 --out-dir runs/mine
  acrl train wireless -o baseline.safetensors --method primal_dual   (a baseline)
  acrl train problem.toml -o mine.safetensors --out-dir runs/mine --resume   (after Ctrl-C)

The run folder holds events.jsonl, progress.csv, TensorBoard files and the checkpoint.
The exit status is 1 if Ctrl-C stopped the training; the policy is still written.")]
    Train(TrainArgs),

    /// Run an agent that meets its requirements by adjusting their multipliers online
    #[command(after_help = "\
Examples:
  acrl run monitoring
  acrl run monitoring --steps 1000000 --runs 100
  acrl run monitoring --require 'r1>=0.46' --require 'r2>=0.46' --epoch auto --steps 200000
  acrl run model.drn --maximize output --require 'poor<=0.1' --log run.jsonl
  acrl run planar.safetensors --runs 100 --require 'red>=0.3'   (a trained policy, another bound)
  acrl run queue.safetensors --executor policy   (pi(s, lambda) of a solved problem, as in the paper)")]
    Run(RunArgs),

    /// Compare A-CRL with other methods: same problem, same steps, same seeds
    #[command(after_help = "\
Examples:
  acrl compare monitoring
  acrl compare maintenance --runs 5 --json
  acrl compare wireless --methods a_crl,primal_dual --train-steps 2e6   (trains each method)

The defaults are at least 3 runs of at least 200000 steps, because baselines satisfy requirements
only on average. The exit status is 0 if A-CRL (on finite problems: with the exact policy) meets
every requirement.")]
    Compare(CompareArgs),

    /// Reproduce the paper: every figure and claim, with a verdict on each
    #[command(after_help = "\
Examples:
  acrl reproduce                          all of it, with the paper's numbers of runs
  acrl reproduce --quick                  with fewer runs (stated for each claim), in two minutes
  acrl reproduce --only fig3,fig4,o1      these only
  acrl reproduce --quick --json           one object: figures, claims, thresholds, verdicts

The folder holds report.html, report.json, the figures as SVG and PNG, and their data as CSV.
The exit status is 1 if a claim fails; an erratum of the paper or a deviation is no failure.")]
    Reproduce(ReproduceArgs),

    /// Check a finite problem: assumptions and guarantees of the theorems, epoch and step size
    #[command(after_help = "\
Examples:
  acrl check monitoring
  acrl check policy.safetensors --require 'blue>=0.4'   (a trained policy, another bound)
  acrl check model.drn --maximize r0 --require 'r1>=0.2' --max-suboptimality 0.01")]
    Check(CheckArgs),

    /// Open a run in the browser: the report, or live curves
    #[command(after_help = "\
Examples:
  acrl view runs/demo                    the report of a run
  acrl view runs/wireless                a training's live curves
  acrl view run.jsonl                    the log of 'acrl run --log run.jsonl'
  acrl view runs/demo --no-open --port 8000

It serves the page on this machine only (127.0.0.1), prints where, and ends with Ctrl-C.
A finished run shows its report; /live has its curves.")]
    View(ViewArgs),

    /// List the problems that come with acrl
    Problems,

    /// Write a commented problem file to start from
    #[command(after_help = "\
Examples:
  acrl init inline -o mine.toml      a small model written out, to be replaced by yours
  acrl init queue                    print it instead")]
    Init(InitArgs),

    /// Print a completion script for a shell
    #[command(after_help = "\
Examples:
  acrl completions bash > ~/.local/share/bash-completion/completions/acrl
  acrl completions zsh > ~/.zfunc/_acrl")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The input of verbs on finite problems.
const CHECKED: &str = "A finite problem or model (.toml, .drn, .npz, or a bundled problem's name): the assumptions and \
                       guarantees of the theorems; or a policy of 'acrl train': what its library says about the requirements";

const FINITE: &str = "A problem file (.toml) with a finite environment or model, a model in Storm's explicit format \
                      (.drn) or as NumPy and SciPy arrays (.npz), or a bundled problem's name";

/// The input of verbs on all problems, which train or solve the policies themselves.
const PROBLEM: &str = "A problem file (.toml), a model in Storm's explicit format (.drn) or as NumPy and SciPy arrays \
                       (.npz), or a bundled problem's name";

/// The input and its specification.
#[derive(Debug, Clone, Args)]
pub(crate) struct Source {
    /// A problem file (.toml), a model in Storm's explicit format (.drn) or as NumPy and SciPy arrays (.npz), a trained
    /// policy (.safetensors), or a bundled problem's name
    #[arg(value_name = "PROBLEM|MODEL|POLICY", value_hint = clap::ValueHint::FilePath)]
    pub(crate) input: String,

    /// Maximise this reward instead of the problem's objective
    #[arg(long, value_name = "NAME", conflicts_with = "minimize")]
    maximize: Option<String>,

    /// Minimise this reward instead of the problem's objective
    #[arg(long, value_name = "NAME")]
    minimize: Option<String>,

    /// A requirement such as 'r1>=0.2' or 'queue<=4' (in quotes); replaces the problem's bound of the same
    /// reward and direction. May be given several times
    #[arg(long = "require", value_name = "CONDITION")]
    pub(crate) require: Vec<Requirement>,
}

impl Source {
    /// The objective of the command line, if it names one.
    fn objective(&self) -> Option<Objective> {
        let maximize = self.maximize.as_ref().map(Objective::maximize);
        maximize.or_else(|| self.minimize.as_ref().map(Objective::minimize))
    }

    /// Reads the input.
    pub(crate) fn open(&self) -> Result<Input, acrl_app::Error> {
        Input::open(&self.input, self.objective(), &self.require)
    }
}

/// `acrl solve`.
#[derive(Debug, Args)]
#[command(mut_arg("input", |input| input.value_name("PROBLEM|MODEL").help(FINITE)))]
pub(crate) struct SolveArgs {
    #[command(flatten)]
    pub(crate) source: Source,

    /// Stop at this relative gap between the certified bounds
    #[arg(long, value_name = "G", allow_negative_numbers = true, default_value = "1e-6", value_parser = positive)]
    pub(crate) gap: f64,

    /// Time limit ('90', '90s', '5m' or '1h'); gives the best solution found and its proven gap
    #[arg(long, value_name = "TIME", allow_negative_numbers = true, value_parser = time)]
    pub(crate) time_limit: Option<Duration>,

    /// How the objective depends on one requirement: 'r1>=0.1..0.4:20' solves for 20 bounds from 0.1 to 0.4 (in quotes); the
    /// number may be left out
    #[arg(long, value_name = "CONDITION..BOUND:N", value_parser = sweep)]
    pub(crate) sweep: Option<Sweep>,

    /// Write the solution as a policy file, to be executed with acrl run
    #[arg(long, value_name = "POLICY", value_hint = clap::ValueHint::FilePath, value_parser = policy, conflicts_with = "sweep")]
    pub(crate) policy: Option<PathBuf>,

    /// Write the action of each policy of the mixture in every state to this file, as CSV
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "sweep")]
    pub(crate) table: Option<PathBuf>,

    /// Write the bounds to this file after every iteration, one JSON object a line
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,

    /// Write a report (report.html, figures, data) to this folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) out_dir: Option<PathBuf>,
}

/// How to execute.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Execution {
    /// Steps of each run [default: the problem's, else 200000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) steps: Option<u64>,

    /// Step size of the dual update, in units of the rewards' ranges [default: the problem's, else what a trained
    /// policy recommends, else 0.01 for a solved policy, else 0.5]
    #[arg(long, value_name = "X", allow_negative_numbers = true, value_parser = positive)]
    pub(crate) step_size: Option<f64>,

    /// Steps between two dual updates, or 'auto': for a finite problem planned from the number of steps and what a
    /// change of policy costs, for a trained policy adapted from its recommended value [default: the problem's, else
    /// auto]
    #[arg(long, value_name = "N|auto", allow_negative_numbers = true, value_parser = epoch)]
    pub(crate) epoch: Option<EpochOption>,

    /// Certified shortfall that is tolerated, as a share of what is asked: of |bound|, or of its distance from the
    /// worst average that a policy can have, if that is smaller, or of half the reward's range
    /// [default: the problem's, else 0.01]
    #[arg(long, value_name = "T", allow_negative_numbers = true, value_parser = positive)]
    pub(crate) tolerance: Option<f64>,
}

impl Execution {
    /// The options of a use case, with a number of runs.
    pub(crate) fn options(&self, runs: Option<u64>) -> ExecutionOptions {
        let Self { steps, step_size, epoch, tolerance } = *self;
        ExecutionOptions { steps, runs, step_size, epoch, tolerance }
    }
}

/// `acrl run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) source: Source,

    /// Number of runs [default: the problem's, else 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) runs: Option<u64>,

    #[command(flatten)]
    pub(crate) execution: Execution,

    /// Write the events of the first run to this file, one JSON object a line
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) log: Option<PathBuf>,

    /// Initial multipliers: 'optimum' (of a finite problem), 'library' (initialise from a trained policy's stored
    /// evaluations), 'zero', or NAME=X,NAME=X [default: optimum or library; with --executor policy on a finite
    /// problem, zero]
    #[arg(long, value_name = "INIT", value_parser = init_multipliers)]
    pub(crate) init_multipliers: Option<InitMultipliers>,

    /// What turns multipliers into actions. For a finite problem: 'stationary' runs its optimal mixture as one
    /// randomised policy, 'time-sharing' one policy of the mixture after the other, 'policy' acts with π(s, λ) as in
    /// the paper [default: stationary where that attains the optimum, else time-sharing]. For a trained policy:
    /// 'policy' acts with π(s, λ), 'time-sharing' with entries of its library in turns, 'library' during each epoch with
    /// the entry that maximises the Lagrangian at λ [default: whichever did better in calibration; with a fixed --epoch, policy]
    #[arg(long, value_name = "NAME", value_parser = executor)]
    pub(crate) executor: Option<ExecutorOption>,

    /// Write the share of the time spent in each cell of a grid over the first two coordinates, as CSV
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) occupancy: Option<PathBuf>,

    /// Write events while it runs, and then a report (report.html, figures, data) to this folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) out_dir: Option<PathBuf>,

    /// Replace a run that the folder holds already
    #[arg(long, requires = "out_dir")]
    pub(crate) replace: bool,
}

/// `acrl demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Folder for the report and the policy
    #[arg(long, value_name = "DIR", default_value = "runs/demo", value_hint = clap::ValueHint::DirPath)]
    pub(crate) out_dir: PathBuf,

    /// Environment steps on which each method trains [default: the learner's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) train_steps: Option<u64>,
}

/// `acrl train`.
#[derive(Debug, Args)]
#[command(mut_arg("input", |input| input.value_name("PROBLEM").help(
    "A problem file (.toml) with a continuous environment, or a bundled problem's name"
)))]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) source: Source,

    /// The policy file to write
    #[arg(long, short, value_name = "POLICY", value_hint = clap::ValueHint::FilePath, value_parser = policy)]
    pub(crate) output: PathBuf,

    /// Environment steps of training [default: the problem's, else the learner's]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) total_steps: Option<u64>,

    /// The learner [default: the problem's, else ppo]
    #[arg(long, value_name = "NAME")]
    pub(crate) learner: Option<Learner>,

    /// What to train: a_crl (one policy for all multipliers), or a baseline: fixed_weights,
    /// dual_descent, primal_dual, pid_lagrangian or primal_averaging [default: the problem's, else a_crl]
    #[arg(long, value_name = "NAME")]
    pub(crate) method: Option<Method>,

    /// Folder for logs and checkpoint [default: runs/ and the policy's name]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) out_dir: Option<PathBuf>,

    /// Resume from the checkpoint; the result is bit-identical to an uninterrupted run
    #[arg(long, conflicts_with = "replace")]
    pub(crate) resume: bool,

    /// Replace a training that the folder holds already
    #[arg(long)]
    pub(crate) replace: bool,

    /// Seconds between two checkpoints
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, default_value_t = 30.0, value_parser = positive)]
    pub(crate) checkpoint_every: f64,
}

/// `acrl compare`.
#[derive(Debug, Args)]
#[command(mut_arg("input", |input| input.value_name("PROBLEM|MODEL").help(PROBLEM)))]
#[command(mut_arg("steps", |steps| steps.help("Steps of each run [default: the problem's, at least 200000]")))]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    pub(crate) source: Source,

    /// Number of runs [default: the problem's, at least 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) runs: Option<u64>,

    #[command(flatten)]
    pub(crate) execution: Execution,

    /// Environment steps on which each learning method may train [default: the problem's, else the learner's, or
    /// 1000000 for finite problems]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = count)]
    pub(crate) train_steps: Option<u64>,

    /// Compare these only: a_crl, fixed_weights, dual_descent, primal_dual, pid_lagrangian (continuous problems),
    /// primal_averaging
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub(crate) methods: Vec<Method>,

    /// Training runs per method, with consecutive seeds (continuous problems) [default: 3]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) train_seeds: Option<u64>,

    /// Write a report (report.html, figures, data) to this folder
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    pub(crate) out_dir: Option<PathBuf>,
}

/// `acrl reproduce`.
#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// Fewer runs and fewer readings of settings that the paper leaves open; every figure and claim is still included
    #[arg(long)]
    pub(crate) quick: bool,

    /// These figures (fig1 to fig7, with their claims) and claims only; an unknown name lists them all
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// Folder for the report
    #[arg(long, value_name = "DIR", default_value = "runs/reproduce", value_hint = clap::ValueHint::DirPath)]
    pub(crate) out_dir: PathBuf,
}

/// `acrl check`.
#[derive(Debug, Args)]
#[command(mut_arg("input", |input| input.value_name("PROBLEM|MODEL|POLICY").help(CHECKED)))]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) execution: Execution,

    /// Largest acceptable suboptimality, as a share of the objective's range: prints the step size for it
    #[arg(long, value_name = "X", allow_negative_numbers = true, default_value_t = 0.01, value_parser = positive)]
    pub(crate) max_suboptimality: f64,
}

/// `acrl view`.
#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// A run's folder (with report.html or events.jsonl), a report (.html), or a log of events (.jsonl)
    #[arg(value_name = "RUN", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) run: PathBuf,

    /// Port to serve on; 0 takes any that is free
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 0)]
    pub(crate) port: u16,

    /// Do not open the browser
    #[arg(long)]
    pub(crate) no_open: bool,
}

/// `acrl init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The bundled problem to start from
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(bundled().iter().map(|b| b.name)))]
    pub(crate) name: String,

    /// The file to write; it must not exist yet [default: standard output]
    #[arg(long, short, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// A whole number above 0; `1e6` and `1_000_000` are readable ways to write one.
fn count(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let whole = plain.parse::<u64>().ok().or_else(|| {
        let value = plain.parse::<f64>().ok()?;
        (value.fract() == 0.0 && (1.0..=1e15).contains(&value)).then_some(value as u64)
    });
    match whole {
        Some(n) if (1..=1_000_000_000_000_000).contains(&n) => Ok(n),
        _ => Err("expected a whole number from 1 to 1e15".to_owned()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("expected a number greater than 0".to_owned()),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) if text.ends_with('m') => (number, 60.0),
        Some(number) if text.ends_with('h') => (number, 3600.0),
        Some(number) => (number, 1.0),
        None => (text, 1.0),
    };
    let seconds = number.trim().parse::<f64>().ok().map(|number| number * unit);
    let duration = seconds.filter(|s| *s > 0.0).and_then(|s| Duration::try_from_secs_f64(s).ok());
    duration.ok_or_else(|| "expected a time above 0 such as '90', '90s', '5m' or '1h'".to_owned())
}

fn sweep(text: &str) -> Result<Sweep, String> {
    const POINTS: usize = 20;
    let wrong = || {
        "expected a requirement, the last bound and a number of bounds from 2 to 10000, such as 'r1>=0.1..0.4:20'"
            .to_owned()
    };
    let (first, rest) = text.split_once("..").ok_or_else(wrong)?;
    let (last, points) =
        rest.split_once(':').map_or((rest, Some(POINTS)), |(l, n)| (l, n.trim().parse().ok()));
    let requirement = first.parse::<Requirement>().map_err(|_| wrong())?;
    let last = last.trim().parse::<f64>().ok().filter(|x| x.is_finite() && *x != requirement.bound());
    match (last, points) {
        (Some(last), Some(points @ 2..=10_000)) => Ok(Sweep::new(requirement, last, points)),
        _ => Err(wrong()),
    }
}

/// A path that ends as policies do.
fn policy(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(ending) if ending == "safetensors" => Ok(path),
        _ => Err("expected a file name that ends in .safetensors".to_owned()),
    }
}

fn init_multipliers(text: &str) -> Result<InitMultipliers, String> {
    match text {
        "library" => return Ok(InitMultipliers::Library),
        "optimum" => return Ok(InitMultipliers::Optimum),
        "zero" => return Ok(InitMultipliers::Zero),
        _ => {}
    }
    let one = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let value = value.trim().parse::<f64>().ok().filter(|x| x.is_finite() && *x >= 0.0)?;
        Some((name.trim().to_owned(), value))
    };
    let list: Option<Vec<_>> = text.split(',').map(one).collect();
    list.map(InitMultipliers::Given).ok_or_else(|| {
        "expected 'optimum', 'library', 'zero', or NAME=X,NAME=X with numbers that are not negative"
            .to_owned()
    })
}

fn executor(text: &str) -> Result<ExecutorOption, String> {
    let known = ExecutorOption::ALL.iter().find(|(name, _)| *name == text);
    known
        .map(|(_, executor)| *executor)
        .ok_or_else(|| "expected 'stationary', 'time-sharing', 'policy' or 'library'".to_owned())
}

fn epoch(text: &str) -> Result<EpochOption, String> {
    if text == "auto" {
        return Ok(EpochOption::Auto);
    }
    match text.parse::<u64>() {
        Ok(steps) if steps > 0 => Ok(EpochOption::Fixed(steps)),
        _ => Err("expected a whole number greater than 0, or 'auto'".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn times_and_sweeps_are_parsed() {
        for (text, seconds) in [("90", 90.0), ("1.5s", 1.5), ("5m", 300.0), ("1h", 3600.0)] {
            assert_eq!(time(text).unwrap().as_secs_f64(), seconds);
        }
        for text in ["", "0", "-1", "m", "5d", "nan", "inf", "1e300"] {
            assert!(time(text).is_err(), "{text}");
        }
        let found = sweep("r1>=0.1..0.4:4").unwrap();
        assert_eq!((found.requirement.name(), found.bounds.len()), ("r1", 4));
        assert!((found.bounds[1] - 0.2).abs() < 1e-12 && found.bounds[3] == 0.4);
        assert_eq!(sweep("queue<=-2..3").unwrap().bounds.len(), 20);
        for text in
            ["r1>=0.1", "r1..2:3", "r1>=0.1..0.4:1", "r1>=0.1..0.1:3", "r1>=0.1..x:3", "r1>=0.1..inf:3"]
        {
            assert!(sweep(text).is_err(), "{text}");
        }
    }

    #[test]
    fn argument_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    /// `docs/cli.md` is generated from the definitions; `ACRL_BLESS=1` rewrites it.
    #[test]
    fn reference_page_is_up_to_date() {
        let mut root = Cli::command().term_width(100);
        root.build();
        let mut page =
            "# Command line\n\nGenerated from the definitions of the flags; see CONTRIBUTING.\n".to_owned();
        page += &section("acrl", &mut root.clone());
        for verb in root.get_subcommands().filter(|c| c.get_name() != "help") {
            page += &section(&format!("acrl {}", verb.get_name()), &mut verb.clone().term_width(100));
        }
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
        if std::env::var_os("ACRL_BLESS").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(written == page, "docs/cli.md is out of date: run this test with ACRL_BLESS=1");
    }

    fn section(title: &str, command: &mut clap::Command) -> String {
        let help = command.render_long_help().to_string();
        let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
        format!("\n## `{title}`\n\n```text\n{}\n```\n", lines.join("\n").trim_end())
    }
}
