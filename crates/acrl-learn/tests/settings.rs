//! The `[train]` section, error messages about it, and the reference page of the settings.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::Path;

use acrl_envs::{Problem, ProblemError, Source, bundled};
use acrl_learn::settings::{Range, Settings};
use acrl_learn::{
    ActorCriticConfig, BaselineConfig, Criterion, Learner, LearnerConfig, Method, PolicyGradientConfig,
    PpoConfig, QLearningConfig, SacConfig, TabularConfig, TrainSettings, WeightSampler,
};

fn read(kind: &str, text: &str) -> Result<TrainSettings, ProblemError> {
    let problem = Problem::parse(&format!("[environment]\nkind = '{kind}'\n[train]\n{text}"))?;
    TrainSettings::read(&problem.train, matches!(problem.source, Source::Continuous(_)))
}

#[test]
fn defaults_depend_on_the_kind_of_problem() {
    assert_eq!(read("planar", "").unwrap(), TrainSettings::of(true));
    assert_eq!(read("queue", "").unwrap(), TrainSettings::of(false));
    assert_eq!(
        (TrainSettings::of(true).learner, TrainSettings::of(false).learner),
        (Learner::Ppo, Learner::QLearning)
    );
    assert_eq!(TrainSettings::of(true).ppo().unwrap(), PpoConfig::default());
    for file in bundled() {
        let problem = Problem::parse(file.text).unwrap();
        let continuous = matches!(problem.source, Source::Continuous(_));
        TrainSettings::read(&problem.train, continuous).unwrap_or_else(|e| panic!("{}: {e}", file.name));
    }
}

#[test]
fn every_setting_of_the_learners_can_be_given() {
    let text = "learner = 'actor_critic'\nmethod = 'primal_dual'\nseed = 18446744073709551615\ntotal_steps = 5\n\
                n_steps = 7\nhidden_sizes = [32]\ngamma = 0.9\naction_repeat = 3\ncriterion = 'average_reward'\n\
                weight_sampler = 'faces'\nlearning_rate = 0.01\nlambda_lr = 2\nclip_range = 0.3\nrounds = 4\n\
                weight_grid_size = 9\nkernels = { state_nodes = 5 }\ngains = { integral = 1 }";
    let train = read("drone", text).unwrap();
    assert_eq!(
        (train.method, train.learner, train.seed),
        (Method::PrimalDual, Learner::ActorCritic, u64::MAX)
    );
    let ppo = PpoConfig {
        total_steps: Some(5),
        n_steps: 7,
        hidden_sizes: vec![32],
        gamma: 0.9,
        action_repeat: Some(3),
        criterion: Criterion::AverageReward,
        weight_sampler: WeightSampler::Faces,
        learning_rate: 0.01,
        clip_range: 0.3,
        ..PpoConfig::default()
    };
    assert_eq!(train.learner_config(Learner::Ppo, None).unwrap(), LearnerConfig::Ppo(ppo.clone()));
    let more = PpoConfig { total_steps: Some(6), ..ppo };
    assert_eq!(train.learner_config(Learner::Ppo, Some(6)).unwrap(), LearnerConfig::Ppo(more));
    let critic = train.actor_critic().unwrap();
    // The other defaults are those of the criterion.
    assert_eq!(
        (critic.learning_rate, critic.critic_learning_rate, critic.kernels.state_nodes),
        (0.01, 0.1, 5)
    );
    let baseline = train.baseline(Method::DualDescent).unwrap();
    assert_eq!((baseline.method, baseline.lambda_lr, baseline.rounds), (Method::DualDescent, Some(2.0), 4));
    assert_eq!((baseline.gains.integral, baseline.gains.derivative), (1.0, 1.0));
    assert_eq!(train.q_learning().unwrap().weight_grid_size, 9);
    let average = train.learner_config(Learner::PolicyGradient, None).unwrap_err().to_string();
    assert!(average.contains("which have a critic"), "{average}");
}

#[test]
fn a_box_selects_the_settings_of_the_paper() {
    let train = read("planar", "learner = 'policy_gradient'\nweight_sampler = 'box'").unwrap();
    assert_eq!(train.policy_gradient().unwrap(), PolicyGradientConfig::literal());
    let train = read("planar", "learner = 'policy_gradient'\nweight_sampler = 'dual_trajectory'").unwrap();
    assert_eq!(train.policy_gradient().unwrap(), PolicyGradientConfig::default());
}

#[test]
fn words_are_read_and_written() {
    for learner in Learner::ALL {
        assert_eq!(learner.to_string().parse::<Learner>().unwrap(), *learner);
    }
    for method in Method::ALL {
        assert_eq!(method.to_string().parse::<Method>().unwrap(), *method);
    }
    let error = "sgd".parse::<Learner>().unwrap_err().to_string();
    assert_eq!(
        error,
        "the learner is \"sgd\", expected one of ppo, policy_gradient, actor_critic, q_learning"
    );
}

#[test]
fn every_wrong_setting_gets_an_error_of_one_sentence() {
    for (text, expected) in [
        (
            "learner = 'sac'",
            "'learner' in [train] is \"sac\", expected one of ppo, policy_gradient, actor_critic, q_learning",
        ),
        (
            "learner = 'q_learning'",
            "'learner' in [train] is \"q_learning\", expected ppo, policy_gradient or actor_critic",
        ),
        ("learner = 'tabular'", "'learner' in [train]: 'tabular' is now 'q_learning'"),
        ("learner = 3", "'learner' in [train] is 3, expected one of ppo"),
        ("method = 'magic'", "'method' in [train] is \"magic\", expected one of a_crl, fixed_weights"),
        ("total_steps = 0", "'total_steps' in [train] is 0, expected a whole number from 1"),
        (
            "hidden_sizes = 64",
            "'hidden_sizes' in [train] is 64, expected a list of 1 to 8 widths of hidden layers",
        ),
        ("hidden_sizes = []", "'hidden_sizes' in [train] is a list of 0, expected a list of 1 to 8"),
        ("hidden_sizes = [64, 0]", "'hidden_sizes' in [train] is a list of 2, expected a list of 1 to 8"),
        ("gamma = 1", "'gamma' in [train] is 1, expected a number above 0 and below 1"),
        ("gamma = nan", "'gamma' in [train] is nan, expected a number above 0 and below 1"),
        ("gamma = 'x'", "'gamma' in [train] is \"x\", expected a number above 0 and below 1"),
        ("learning_rate = 0", "'learning_rate' in [train] is 0, expected a number above 0 and below 1"),
        ("lambda_lr = -1", "'lambda_lr' in [train] is -1, expected a finite number above 0"),
        ("action_repeat = 0", "'action_repeat' in [train] is 0, expected a whole number from 1 to 1000"),
        (
            "weight_grid_size = 0",
            "'weight_grid_size' in [train] is 0, expected a whole number from 1 to 1000000",
        ),
        (
            "criterion = 'total'",
            "'criterion' in [train] is \"total\", expected one of discounted, average_reward",
        ),
        (
            "weight_sampler = 'ball'",
            "'weight_sampler' in [train] is \"ball\", expected one of dual_trajectory, simplex",
        ),
        ("gains = { integral = 'x' }", "'gains' in [train] is a table, expected a table of proportional"),
        ("seed = -1", "'seed' in [train] is -1, expected a whole number from 0"),
        ("epochs = 1", "unknown key 'epochs' in [train]: expected one of learner, method, seed, total_steps"),
        ("hold = 3", "'hold' in [train] is now 'action_repeat'"),
        ("step_size = 0.1", "'step_size' in [train] is now 'learning_rate'"),
        ("criterion = 'average'", "'criterion' in [train]: 'average' is now 'average_reward'"),
        ("weight_sampler = 'corners'", "'weight_sampler' in [train]: 'corners' is now 'faces'"),
    ] {
        let message = read("planar", text).expect_err(text).to_string();
        assert!(!message.contains('\n'), "{message:?}");
        assert!(
            message.starts_with(&format!("line 4: {expected}")),
            "{message:?} does not begin with {expected:?}"
        );
    }
}

/// A number with separators of thousands.
fn separated(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    String::from_utf8(groups.join(&b',')).unwrap()
}

/// A range as the reference page writes it.
fn notation(range: Range) -> String {
    match range {
        Range::Whole(low, 1_000_000_000_000_000..) => format!("integer ≥ {low}"),
        Range::Whole(low, high) => format!("integer from {low} to {}", separated(high)),
        Range::Open(low, f64::INFINITY) => format!("> {low}"),
        Range::Open(low, high) => format!("({low}, {high})"),
        Range::HalfOpen(low, high) => format!("({low}, {high}]"),
        Range::Closed(low, f64::INFINITY) => format!("≥ {low}"),
        Range::Closed(low, high) => format!("[{low}, {high}]"),
        Range::ClosedOpen(low, high) => format!("[{low}, {high})"),
        Range::Layers(widest) => format!("list of 1 to 8 integers from 1 to {}", separated(widest)),
        Range::Nonnegative => "list of numbers ≥ 0".to_owned(),
        Range::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Range::Table(expected) => expected.replace('|', "\\|"),
    }
}

/// A table of the settings of a learner.
fn table<T: Settings + Default>(title: &str) -> String {
    let defaults = serde_json::to_value(T::default()).unwrap();
    let mut text = format!("## {title}\n\n| setting | default | range | purpose |\n|---|---|---|---|\n");
    for setting in T::SETTINGS {
        let default = setting.default.map_or_else(|| format!("`{}`", defaults[setting.key]), str::to_owned);
        let (range, purpose) = (notation(setting.range), setting.purpose.trim());
        writeln!(text, "| `{}` | {default} | {range} | {purpose} |", setting.key).unwrap();
    }
    text
}

/// `ACRL_BLESS=1 cargo test` writes the page anew.
#[test]
fn the_reference_page_is_generated_from_the_settings() {
    let page = [
        "# Training settings\n\nSettings of the learners in `[train]` of a [problem file](problem-file.md), beside `learner`,\n\
         `method` and `seed`. A setting of another learner than the chosen one has no effect. This page is\ngenerated from the \
         program.\n"
            .to_owned(),
        table::<PpoConfig>("ppo"),
        table::<SacConfig>("sac (environments that the caller steps)"),
        table::<TabularConfig>("tabular (environments that the caller steps)"),
        table::<PolicyGradientConfig>("policy_gradient"),
        table::<ActorCriticConfig>("actor_critic"),
        table::<QLearningConfig>("q_learning (finite problems)"),
        table::<TabularConfig>("tabular (environments that the caller steps)"),
        table::<BaselineConfig>("Baselines (`method`)"),
    ]
    .join("\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/training-settings.md");
    if std::env::var_os("ACRL_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/training-settings.md is out of date: run ACRL_BLESS=1 cargo test -p acrl-learn"
    );
}
