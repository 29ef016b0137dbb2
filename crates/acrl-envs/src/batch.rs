//! Checks of batched steps, with the same messages for all environments, and common parts of their dynamics.

use acrl::{BatchMatrix, Error, Rng, Spaces};

/// Fails unless the matrices of a step have the expected rows and as many environments as the state.
pub(crate) fn check_step(
    spaces: &Spaces,
    state: &BatchMatrix,
    actions: &BatchMatrix,
    rewards: &BatchMatrix,
    rngs: &[Rng],
) -> Result<(), Error> {
    let num_envs = state.num_envs();
    arity("num_envs of the actions", num_envs, actions.num_envs())?;
    arity("num_envs of the rewards", num_envs, rewards.num_envs())?;
    arity("generators of the num_envs", num_envs, rngs.len())?;
    if num_envs > 0 {
        arity("rows of the state", spaces.state_dimension, state.len())?;
        arity("rows of the actions", spaces.action.len(), actions.len())?;
        arity("rows of the rewards", spaces.reward_names.len(), rewards.len())?;
    }
    Ok(())
}

/// Fails unless `state` has such an environment to reset.
pub(crate) fn check_reset(spaces: &Spaces, state: &BatchMatrix, env: usize) -> Result<(), Error> {
    if env >= state.num_envs() {
        return Err(Error::Environment(format!("there is no env {env}: the batch has {}", state.num_envs())));
    }
    arity("rows of the state", spaces.state_dimension, state.len())
}

/// `Ok` if a list has the length it should have.
pub(crate) fn arity(what: &str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(Error::Arity { what: what.to_owned(), expected, found }) }
}

/// Fails with the first NaN of a row of actions, or infinite number if `finite` says that it needs finite ones.
pub(crate) fn check_numbers(name: &str, row: &[f64], finite: bool) -> Result<(), Error> {
    // Without an early exit, so that the loop is vectorised.
    let wrong = |a: f64| if finite { !a.is_finite() } else { a.is_nan() };
    if !row.iter().fold(false, |any, &a| any | wrong(a)) {
        return Ok(());
    }
    let env = row.iter().position(|&a| wrong(a)).unwrap_or(0);
    Err(Error::NotFinite { what: format!("the action '{name}' in env {env}"), value: row[env] })
}

/// Shortens the vector (a, b) to length `limit`; infinite parts count as very long ones.
#[inline]
pub(crate) fn shortened(a: f64, b: f64, limit: f64) -> (f64, f64) {
    // Within this the square of the length is a number.
    const LONGEST: f64 = 1e150;
    let (a, b) = (a.clamp(-LONGEST, LONGEST), b.clamp(-LONGEST, LONGEST));
    let square = a * a + b * b;
    let factor = if square > limit * limit { limit / square.sqrt() } else { 1.0 };
    (a * factor, b * factor)
}

/// Two independent normal numbers with mean 0 and variance 1 (Marsaglia's polar method).
#[inline]
pub(crate) fn normal_pair(rng: &mut Rng) -> (f64, f64) {
    loop {
        let (a, b) = (2.0 * rng.uniform() - 1.0, 2.0 * rng.uniform() - 1.0);
        let square = a * a + b * b;
        if square > 0.0 && square < 1.0 {
            let factor = (-2.0 * square.ln() / square).sqrt();
            return (a * factor, b * factor);
        }
    }
}
