//! Names of the learner that this branch renames in Python only.
//!
//! To be deleted, with its uses in `train.rs`, when the crates below have the new names.

use acrl::Named;
use acrl_learn::LearnError;
use pyo3::PyErr;
use serde_json::Value;

use crate::errors::{InputError, input};

/// Settings: the new name and the former one.
const SETTINGS: [(&str, &str); 17] = [
    ("total_steps", "decisions"),
    ("n_steps", "segment"),
    ("action_repeat", "hold"),
    ("update_epochs", "passes"),
    ("minibatch_size", "minibatch"),
    ("learning_rate", "step_size"),
    ("criterion", "targets"),
    ("gamma", "discount"),
    ("gae_lambda", "trace"),
    ("clip_range", "clip"),
    ("init_std", "deviation"),
    ("final_std", "last_deviation"),
    ("ent_coef", "entropy"),
    ("min_advantage_std", "advantage_floor"),
    ("max_grad_norm", "gradient_norm"),
    ("hidden_sizes", "hidden"),
    ("weight_sampler", "sampler"),
];

/// Values of settings.
const VALUES: [(&str, &str); 3] =
    [("average_reward", "average"), ("dual_trajectory", "dual"), ("faces", "corners")];

/// Metrics.
const METRICS: [(&str, &str); 7] = [
    ("rollout/scalarized_reward", "reward"),
    ("rollout/min_objective_progress", "mastered"),
    ("train/policy_gradient_loss", "policy_loss"),
    ("train/value_loss", "value_loss"),
    ("train/approx_kl", "divergence"),
    ("train/clip_fraction", "clipped"),
    ("train/std", "deviation"),
];

fn find<'a>(names: &'a [(&'a str, &'a str)], name: &str) -> Option<&'a str> {
    names.iter().find(|(from, _)| *from == name).map(|(_, to)| *to)
}

fn back<'a>(names: &'a [(&'a str, &'a str)], name: &str) -> Option<&'a str> {
    names.iter().find(|(_, to)| *to == name).map(|(from, _)| *from)
}

pub(crate) fn old_setting(name: String) -> String {
    find(&SETTINGS, &name).map_or(name, str::to_owned)
}

pub(crate) fn new_setting(name: String) -> String {
    back(&SETTINGS, &name).map_or(name, str::to_owned)
}

pub(crate) fn old_value(value: Value) -> Value {
    value.as_str().and_then(|text| find(&VALUES, text)).map_or(value.clone(), Value::from)
}

pub(crate) fn new_value(value: Value) -> Value {
    value.as_str().and_then(|text| back(&VALUES, text)).map_or(value.clone(), Value::from)
}

pub(crate) fn new_metrics(metrics: Option<Named<f64>>) -> Option<Named<f64>> {
    let renamed = |(name, value): (&str, f64)| {
        let name = back(&METRICS, name).map_or_else(|| name.to_owned(), str::to_owned);
        (name, value)
    };
    metrics.map(|metrics| metrics.iter().map(|(name, value)| renamed((name, *value))).collect())
}

/// An error of the learner with the new name of the setting.
pub(crate) fn renamed_setting(error: LearnError) -> PyErr {
    match &error {
        LearnError::Setting { name, .. } => {
            let new = new_setting((*name).to_owned());
            InputError::new_err(error.to_string().replace(&format!("'{name}'"), &format!("'{new}'")))
        }
        _ => input(error),
    }
}
