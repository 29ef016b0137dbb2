//! Finite problems of six kinds, drawn by seed, with features that describe their states.

use std::collections::BTreeMap;

use acrl::{FiniteCmdp, ModelError, Rng};

/// A problem whose model is hidden from the learner.
pub(crate) struct BlackBox {
    /// Kind and seed.
    pub(crate) name: String,
    /// The model. Every state has the same actions.
    pub(crate) model: FiniteCmdp,
    /// Numbers that describe each state.
    pub(crate) features: Vec<Vec<f64>>,
    /// Reward to maximise.
    pub(crate) objective: &'static str,
    /// Rewards with bounds: names, and whether they are bounded from below.
    pub(crate) bounded: [(&'static str, bool); 2],
}

/// The kinds of problems.
pub(crate) const KINDS: [&str; 6] = ["inventory", "queue", "machines", "battery", "pacing", "random"];

/// Draws a problem; `states` is the size of a random one.
pub(crate) fn draw(kind: usize, seed: u64, states: Option<usize>) -> Result<BlackBox, ModelError> {
    let mut rng = Rng::stream(seed, kind as u64);
    let rng = &mut rng;
    let mut problem = match kind {
        0 => inventory(rng)?,
        1 => queue(rng)?,
        2 => machines(rng)?,
        3 => battery(rng)?,
        4 => pacing(rng)?,
        _ => random(rng, states)?,
    };
    problem.name = format!("{}-{seed}", KINDS[kind]);
    Ok(problem)
}

fn between(low: f64, high: f64, rng: &mut Rng) -> f64 {
    low + (high - low) * rng.uniform()
}

fn whole(low: usize, high: usize, rng: &mut Rng) -> usize {
    low + rng.index(high - low + 1)
}

/// Random numbers that add up to 1.
fn shares(n: usize, rng: &mut Rng) -> Vec<f64> {
    let drawn: Vec<f64> = (0..n).map(|_| 0.1 - (1.0 - rng.uniform()).ln()).collect();
    let sum: f64 = drawn.iter().sum();
    drawn.iter().map(|x| x / sum).collect()
}

/// Successors without repetitions and without those of probability 0.
fn merged(next: impl Iterator<Item = (usize, f64)>) -> Vec<(usize, f64)> {
    let mut sums = BTreeMap::new();
    next.filter(|(_, p)| *p > 0.0).for_each(|(to, p)| *sums.entry(to).or_insert(0.0) += p);
    sums.into_iter().collect()
}

/// What an action does in a state: the successors, and the rewards.
type Outcome = (Vec<(Vec<usize>, f64)>, Vec<f64>);

/// A model over all tuples of whole numbers below `sizes`.
fn product(
    sizes: &[usize],
    actions: usize,
    rewards: &[&str],
    outcome: impl Fn(&[usize], usize) -> Outcome,
) -> Result<(FiniteCmdp, Vec<Vec<f64>>), ModelError> {
    let states: usize = sizes.iter().product();
    let tuple = |mut s: usize| -> Vec<usize> {
        let digit = |n: &usize| {
            let digit = s % n;
            s /= n;
            digit
        };
        sizes.iter().map(digit).collect()
    };
    let index = |tuple: &[usize]| tuple.iter().zip(sizes).rev().fold(0, |s, (digit, n)| s * n + digit);
    let mut model = FiniteCmdp::builder(rewards.iter().copied());
    (0..states).for_each(|s| _ = model.state(s.to_string()));
    for s in 0..states {
        for action in 0..actions {
            let (next, values) = outcome(&tuple(s), action);
            let next = merged(next.iter().map(|(to, p)| (index(to), *p)));
            model.choice(s, action.to_string(), &next, &values);
        }
    }
    let features = (0..states).map(|s| tuple(s).iter().map(|x| *x as f64).collect()).collect();
    Ok((model.build()?, features))
}

/// A stock, and an order of 0 … 3 lots a day: little cost, under a service level and a limit on orders.
fn inventory(rng: &mut Rng) -> Result<BlackBox, ModelError> {
    let capacity = whole(10, 20, rng);
    let lot = whole(2, 4, rng);
    let demand = shares(whole(4, 7, rng), rng);
    let (price, holding) = (between(2.0, 6.0, rng), between(0.05, 0.4, rng));
    let outcome = |s: &[usize], action: usize| {
        let ordered = (action * lot).min(capacity - s[0]);
        let stock = s[0] + ordered;
        let sold = |d: usize| d.min(stock);
        let mean: f64 = demand.iter().enumerate().map(|(d, p)| p * sold(d) as f64).sum();
        let all: f64 = demand.iter().enumerate().map(|(d, p)| p * d as f64).sum();
        let profit = price * mean - holding * stock as f64 - 1.2 * ordered as f64;
        let next = demand.iter().enumerate().map(|(d, p)| (vec![stock - sold(d)], *p)).collect();
        (next, vec![profit, mean / all, f64::from(u8::from(action > 0))])
    };
    let (model, features) = product(&[capacity + 1], 4, &["profit", "service", "orders"], outcome)?;
    let bounded = [("service", true), ("orders", false)];
    Ok(BlackBox { name: String::new(), model, features, objective: "profit", bounded })
}

/// Jobs of two classes arrive at a server with two speeds: admit them or not, work slowly or fast.
fn queue(rng: &mut Rng) -> Result<BlackBox, ModelError> {
    let capacity = whole(8, 20, rng);
    let arrival = [between(0.2, 0.45, rng), between(0.1, 0.4, rng)];
    let pay = [between(0.5, 1.0, rng), between(1.0, 3.0, rng)];
    let rate = [between(0.2, 0.4, rng), between(0.5, 0.8, rng)];
    // (jobs, class of the arrival or 0)
    let outcome = |s: &[usize], action: usize| {
        let (admit, speed) = (action % 2, action / 2);
        let enters = s[1] > 0 && admit == 1 && s[0] < capacity;
        let jobs = s[0] + usize::from(enters);
        let served = if jobs > 0 { rate[speed] } else { 0.0 };
        let classes = [1.0 - arrival[0] - arrival[1], arrival[0], arrival[1]];
        let mut next = Vec::new();
        for (class, p) in classes.iter().enumerate() {
            next.push((vec![jobs - usize::from(jobs > 0), class], p * served));
            next.push((vec![jobs, class], p * (1.0 - served)));
        }
        let earned = if enters { pay[s[1] - 1] } else { 0.0 };
        (next, vec![earned, jobs as f64 / capacity as f64, f64::from(u8::from(speed == 1))])
    };
    let (model, features) = product(&[capacity + 1, 3], 4, &["revenue", "delay", "energy"], outcome)?;
    let bounded = [("delay", false), ("energy", false)];
    Ok(BlackBox { name: String::new(), model, features, objective: "revenue", bounded })
}

/// Two machines wear out; one of them can be repaired at a time, which takes a crew.
fn machines(rng: &mut Rng) -> Result<BlackBox, ModelError> {
    let levels = whole(4, 7, rng);
    let wear = [between(0.1, 0.4, rng), between(0.1, 0.4, rng)];
    let value = [between(0.5, 1.5, rng), between(0.5, 1.5, rng)];
    let repaired = between(0.5, 0.95, rng);
    let outcome = |s: &[usize], action: usize| {
        let of = |machine: usize| -> Vec<(usize, f64)> {
            let level = s[machine];
            if action == machine + 1 {
                return vec![(0, repaired), (level, 1.0 - repaired)];
            }
            let worse = (level + 1).min(levels - 1);
            vec![(worse, wear[machine]), (level, 1.0 - wear[machine])]
        };
        let (first, second) = (of(0), of(1));
        let mut next = Vec::new();
        for (a, p) in &first {
            second.iter().for_each(|(b, q)| next.push((vec![*a, *b], p * q)));
        }
        let output = |machine: usize| {
            let idle = action == machine + 1 || s[machine] == levels - 1;
            if idle { 0.0 } else { value[machine] * (1.0 - s[machine] as f64 / (2 * levels) as f64) }
        };
        let down = (0..2).filter(|machine| s[*machine] == levels - 1).count();
        (next, vec![output(0) + output(1), down as f64, f64::from(u8::from(action > 0))])
    };
    let (model, features) = product(&[levels, levels], 3, &["output", "down", "crew"], outcome)?;
    let bounded = [("down", false), ("crew", false)];
    Ok(BlackBox { name: String::new(), model, features, objective: "output", bounded })
}

/// A battery beside a changing price and demand: charge, hold or discharge.
fn battery(rng: &mut Rng) -> Result<BlackBox, ModelError> {
    let (levels, prices) = (whole(6, 10, rng), whole(3, 5, rng));
    let stay = between(0.5, 0.8, rng);
    let level: Vec<f64> = (0..prices).map(|i| between(0.5, 1.5, rng) + 0.7 * i as f64).collect();
    let busy = between(0.3, 0.6, rng);
    // (charge, price, demand)
    let outcome = |s: &[usize], action: usize| {
        let (charge, price, demand) = (s[0], s[1], s[2]);
        let up = usize::from(action == 0 && charge + 1 < levels);
        let down = usize::from(action == 2 && charge > 0);
        let served = if demand == 0 { 1.0 } else { 0.4 + 0.6 * down as f64 };
        let profit = level[price] * (down as f64 - 1.1 * up as f64);
        let mut next = Vec::new();
        for to in 0..prices {
            let move_to = if prices == 1 { 0.0 } else { (1.0 - stay) / (prices - 1) as f64 };
            let p = if to == price { stay } else { move_to };
            next.push((vec![charge + up - down, to, 1], p * busy));
            next.push((vec![charge + up - down, to, 0], p * (1.0 - busy)));
        }
        (next, vec![profit, served, (up + down) as f64])
    };
    let (model, features) = product(&[levels, prices, 2], 3, &["profit", "served", "cycles"], outcome)?;
    let bounded = [("served", true), ("cycles", false)];
    Ok(BlackBox { name: String::new(), model, features, objective: "profit", bounded })
}

/// Bids for users of several kinds, whose patience wears out with every advertisement.
fn pacing(rng: &mut Rng) -> Result<BlackBox, ModelError> {
    let (kinds, fatigue) = (whole(3, 5, rng), whole(5, 9, rng));
    let mix = shares(kinds, rng);
    let worth: Vec<f64> = (0..kinds).map(|_| between(0.2, 2.0, rng)).collect();
    let cost = [0.0, between(0.2, 0.5, rng), between(0.7, 1.2, rng)];
    let wins = [0.0, between(0.3, 0.5, rng), between(0.7, 0.95, rng)];
    let recovery = between(0.2, 0.5, rng);
    // (fatigue, kind)
    let outcome = |s: &[usize], action: usize| {
        let (tired, kind) = (s[0], s[1]);
        let fresh = 1.0 - tired as f64 / fatigue as f64;
        let won = wins[action];
        let more = (tired + 1).min(fatigue - 1);
        let mut next = Vec::new();
        for (to, p) in mix.iter().enumerate() {
            next.push((vec![more, to], p * won));
            next.push((vec![tired.saturating_sub(1), to], p * (1.0 - won) * recovery));
            next.push((vec![tired, to], p * (1.0 - won) * (1.0 - recovery)));
        }
        let clicks = won * worth[kind] * fresh;
        (next, vec![clicks, won * cost[action], if kind == 0 { won } else { 0.0 }])
    };
    let (model, features) = product(&[fatigue, kinds], 3, &["clicks", "spend", "reach"], outcome)?;
    let bounded = [("spend", false), ("reach", true)];
    Ok(BlackBox { name: String::new(), model, features, objective: "clicks", bounded })
}

/// Random transitions and rewards.
fn random(rng: &mut Rng, size: Option<usize>) -> Result<BlackBox, ModelError> {
    let (states, actions) = (whole(20, 200, rng), whole(2, 4, rng));
    let states = size.unwrap_or(states);
    let mut model = FiniteCmdp::builder(["r0", "r1", "r2"]);
    (0..states).for_each(|s| _ = model.state(s.to_string()));
    for s in 0..states {
        for action in 0..actions {
            let n = whole(2, 5, rng);
            let mut next: Vec<(usize, f64)> =
                shares(n, rng).into_iter().map(|p| (rng.index(states), p)).collect();
            // A ring, so that every state can be reached.
            next[0].0 = (s + 1 + action) % states;
            let rewards: Vec<f64> = (0..3).map(|_| rng.uniform()).collect();
            model.choice(s, action.to_string(), &merged(next.into_iter()), &rewards);
        }
    }
    let features = (0..states).map(|s| vec![(s % 16) as f64, (s / 16) as f64]).collect();
    let bounded = [("r1", true), ("r2", true)];
    Ok(BlackBox { name: String::new(), model: model.build()?, features, objective: "r0", bounded })
}
