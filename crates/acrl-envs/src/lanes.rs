//! Checks of what a batch is given, said in one way for all environments.

use acrl::{Error, Rng, Rows};

/// Fails unless the parts of a step fit together: rows as many as expected, and lanes as many as the state.
pub(crate) fn check_step(
    [state_rows, action_rows, reward_rows]: [usize; 3],
    state: &Rows,
    actions: &Rows,
    rewards: &Rows,
    rngs: &[Rng],
) -> Result<(), Error> {
    let lanes = state.lanes();
    arity("lanes of the actions", lanes, actions.lanes())?;
    arity("lanes of the rewards", lanes, rewards.lanes())?;
    arity("generators of the lanes", lanes, rngs.len())?;
    if lanes > 0 {
        arity("rows of the state", state_rows, state.len())?;
        arity("rows of the actions", action_rows, actions.len())?;
        arity("rows of the rewards", reward_rows, rewards.len())?;
    }
    Ok(())
}

/// Fails unless `state` has such a lane to reset.
pub(crate) fn check_reset(rows: usize, state: &Rows, lane: usize) -> Result<(), Error> {
    if lane >= state.lanes() {
        return Err(Error::Environment(format!("there is no lane {lane}: the batch has {}", state.lanes())));
    }
    arity("rows of the state", rows, state.len())
}

fn arity(what: &str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(Error::Arity { what: what.to_owned(), expected, found }) }
}

/// Fails with the first NaN of a row of actions, or infinite number if `finite` says that it needs finite ones.
pub(crate) fn check_numbers(name: &str, row: &[f64], finite: bool) -> Result<(), Error> {
    // Over all of them without leaving early, which the compiler turns into a few instructions per lane.
    let wrong = |a: f64| if finite { !a.is_finite() } else { a.is_nan() };
    if !row.iter().fold(false, |any, &a| any | wrong(a)) {
        return Ok(());
    }
    let lane = row.iter().position(|&a| wrong(a)).unwrap_or(0);
    Err(Error::NotFinite { what: format!("the action '{name}' in lane {lane}"), value: row[lane] })
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
