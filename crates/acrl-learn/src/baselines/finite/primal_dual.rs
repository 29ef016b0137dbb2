//! The primal-dual method: a gradient step on the policy and one on λ, rollout after rollout.
//!
//! > θ_{k+1} = θ_k + η_θ ∇̂_θ 𝓛(θ_k, λ_k),
//! > λ_{k+1} = \[λ_k − (η_λ/T₀) Σ_t (r(s_t, a_t) − c)\]₊,
//!
//! for a softmax policy π_θ(a|s) ∝ exp θ_{s,a} and the likelihood-ratio estimate (REINFORCE) from a
//! rollout of T₀ steps, which begins where the last one ended:
//!
//! > ∇̂_θ 𝓛 = (1/T₀) Σ_t ∇ log π_θ(a_t|s_t) G_t,
//! > G_t = r_λ(s_t, a_t) − r̄_λ(s_t) + Σ_{u=t+1}^{T₀−1} r_λ(s_u, a_u) + r̄_λ(s_{T₀}),
//!
//! where r̄_λ(s) = Σ_a π_θ(a|s) r_λ(s, a). A reward of the state alone so credits the actions before it
//! and no other, and the state after the last action is scored too. Without the factor 1/T₀ the
//! logits run away on Example 1 and the policy gets stuck.
//!
//! **Guaranteed**, by the certificate: the trajectory *during training* is short of its requirements by
//! at most λ/(η_λ/T₀ · n). **Not guaranteed**: that λ stays small, nor anything about π_θ at any k. On
//! Example 1 the policy has to be learnt anew whenever λ crosses 1, λ overshoots meanwhile, and stopped
//! anywhere the policy is infeasible almost always.

use acrl::{Certificate, DualDynamics, EpochLength, Event, Lagrangian, MultiplierStatistics, Multipliers};
use acrl::{Named, Observer, Rewards, Rng, Values};
use acrl_exact::FiniteTask;
use serde::Serialize;

use crate::settings::{POSITIVE, Range, STEPS, Settings, settings};
use crate::{LearnError, Stationary};

settings! {
    /// The settings, by default those of Fig. 4.
    #[derive(Copy)]
    pub struct PrimalDualConfig {
        /// Rollouts to run.
        rollouts: u64 = 400_000; STEPS;
        /// Steps T₀ of a rollout.
        length: u64 = 10; Range::Whole(1, 1_000_000_000);
        /// Step η_θ on the policy.
        primal_step: f64 = 0.025; POSITIVE;
        /// Step η_λ on the multipliers.
        dual_step: f64 = 0.0025; POSITIVE;
        /// Whether the gradient carries the factor 1/T₀.
        scaled: bool = true; Range::Table("true or false");
        /// About how many snapshots to keep.
        records: u64 = 1_000; STEPS;
    }
}

/// What a primal-dual training came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrimalDual {
    /// The rollouts done: all, unless the observer stopped it.
    pub rollouts: u64,
    /// The averages of r₀ … r_m over the whole training: what it attains if executed online.
    pub online: Values,
    /// What is proved about the requirements during training.
    pub certificate: Certificate,
    /// The multipliers after the first tenth of the rollouts.
    pub multipliers: Vec<MultiplierStatistics>,
    /// Snapshots at regular distances.
    pub record: Vec<Snapshot>,
    /// The last policy, frozen.
    pub last: Stationary,
}

/// The state of a training after some rollouts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Snapshot {
    /// k: the rollouts done.
    pub rollout: u64,
    /// λ_k.
    pub multipliers: Multipliers,
    /// The averages of r₀ … r_m in the last rollout.
    pub rewards: Vec<f64>,
    /// The averages of r₀ … r_m since the beginning.
    pub averages: Vec<f64>,
    /// π_θ(a|s), by number of the choice.
    pub probabilities: Vec<f64>,
}

/// Trains from θ = 0 (the uniform policy) and λ = 0. The observer hears of every snapshot, as an
/// iteration with the multipliers as its figures, and may stop the training.
pub fn primal_dual(
    task: &FiniteTask<'_>,
    settings: &PrimalDualConfig,
    rng: &mut Rng,
    observer: &mut dyn Observer,
) -> Result<PrimalDual, LearnError> {
    settings.check_ranges()?;
    let (rollouts, t0) = (settings.rollouts, settings.length);
    let model = task.model();
    let rewards = (0..model.choice_count())
        .map(|c| Rewards::new(task.rewards(c).to_vec()))
        .collect::<Result<Vec<Rewards>, _>>()?;
    let requirements = task.specification().requirements().to_vec();
    let mut dynamics = DualDynamics::new(requirements, settings.dual_step, EpochLength::Fixed(t0))?
        .with_scales(task.objective_scale(), task.scales())?;
    let ascent = settings.primal_step / if settings.scaled { t0 as f64 } else { 1.0 };
    let mut theta = vec![0.0; model.choice_count()];
    let mut policy = theta.clone();
    (0..model.states()).for_each(|s| softmax(&theta, &mut policy, model.choices(s)));
    let mut gradient = theta.clone();
    let mut rollout: Vec<(usize, usize)> = Vec::with_capacity(t0 as usize);
    let (mut record, mut statistics) = (Vec::new(), Statistics::new(task.len()));
    let interval = rollouts.div_ceil(settings.records);
    let mut state = model.initial()[rng.weighted(&model.initial().iter().map(|i| i.1).collect::<Vec<_>>())].0;
    let mut done = 0;
    while done < rollouts {
        // T₀ steps with π_θ from where the last rollout ended.
        rollout.clear();
        for _ in 0..t0 {
            let choices = model.choices(state);
            let choice = choices.start + rng.weighted(&policy[choices]);
            rollout.push((state, choice));
            let to = model.choice(choice);
            let drawn = if to.targets.len() == 1 { 0 } else { rng.weighted(to.probabilities) };
            state = to.targets[drawn] as usize;
        }
        // θ ← θ + η_θ ∇̂𝓛, from the last step of the rollout to its first.
        let lagrangian = Lagrangian::new(dynamics.multipliers(), task.bounds())?;
        let reward = |c: usize| lagrangian.reward(&rewards[c]);
        let mean = |s: usize| model.choices(s).map(|c| policy[c] * reward(c)).sum::<f64>();
        let mut to_go = mean(state);
        for &(s, choice) in rollout.iter().rev() {
            let credit = reward(choice) - mean(s) + to_go;
            gradient[choice] += credit;
            model.choices(s).for_each(|c| gradient[c] -= credit * policy[c]);
            to_go += reward(choice);
        }
        for &(s, _) in &rollout {
            for c in model.choices(s) {
                theta[c] += ascent * std::mem::take(&mut gradient[c]);
            }
        }
        rollout.iter().for_each(|&(s, _)| softmax(&theta, &mut policy, model.choices(s)));
        // λ ← [λ − (η_λ/T₀) Σ (r − c)]₊.
        for &(_, choice) in &rollout {
            dynamics.observe(&rewards[choice])?;
        }
        done += 1;
        if done > rollouts / 10 {
            statistics.add(dynamics.multipliers().as_slice());
        }
        if done % interval == 0 || done == rollouts {
            record.push(Snapshot {
                rollout: done,
                multipliers: dynamics.multipliers().clone(),
                rewards: mean_rewards(&rewards, &rollout, task.len()),
                averages: dynamics.averages(),
                probabilities: policy.clone(),
            });
            let lambda = dynamics.multipliers().as_slice().iter().copied();
            let figures: Named<f64> = task.specification().names().into_iter().zip(lambda).collect();
            let (iteration, total) = (done.div_ceil(interval), rollouts.div_ceil(interval));
            let steps = done * t0;
            if observer.event(&Event::Iteration { iteration, total, steps, metrics: &figures }).is_break() {
                break;
            }
        }
    }
    Ok(PrimalDual {
        rollouts: done,
        online: Values::new(dynamics.averages())?,
        certificate: dynamics.certificate(),
        multipliers: statistics.of(dynamics.multipliers().as_slice()),
        record,
        last: Stationary::new(model, policy)?,
    })
}

/// π(a|s) ∝ exp θ_{s,a} for one state's choices.
fn softmax(theta: &[f64], policy: &mut [f64], choices: std::ops::Range<usize>) {
    let most = theta[choices.clone()].iter().fold(f64::NEG_INFINITY, |m, t| m.max(*t));
    let mut sum = 0.0;
    for c in choices.clone() {
        policy[c] = (theta[c] - most).exp();
        sum += policy[c];
    }
    policy[choices].iter_mut().for_each(|p| *p /= sum);
}

fn mean_rewards(rewards: &[Rewards], rollout: &[(usize, usize)], m: usize) -> Vec<f64> {
    let mean =
        |i: usize| rollout.iter().map(|(_, c)| rewards[*c].as_slice()[i]).sum::<f64>() / rollout.len() as f64;
    (0..=m).map(mean).collect()
}

/// Mean, least and most of each multiplier.
struct Statistics {
    count: f64,
    sums: Vec<f64>,
    low: Vec<f64>,
    high: Vec<f64>,
}

impl Statistics {
    fn new(m: usize) -> Self {
        let (low, high) = (vec![f64::INFINITY; m], vec![f64::NEG_INFINITY; m]);
        Self { count: 0.0, sums: vec![0.0; m], low, high }
    }

    fn add(&mut self, lambda: &[f64]) {
        self.count += 1.0;
        for (i, &l) in lambda.iter().enumerate() {
            self.sums[i] += l;
            self.low[i] = self.low[i].min(l);
            self.high[i] = self.high[i].max(l);
        }
    }

    /// A training that was stopped within its first tenth has only its last multipliers to show.
    fn of(mut self, lambda: &[f64]) -> Vec<MultiplierStatistics> {
        if self.count == 0.0 {
            self.add(lambda);
        }
        let entry = |(i, &last): (usize, &f64)| MultiplierStatistics {
            last,
            mean: self.sums[i] / self.count,
            min: self.low[i],
            max: self.high[i],
        };
        lambda.iter().enumerate().map(entry).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::finite::violation;
    use crate::test_models::{monitoring, third};
    use acrl::Silent;
    use std::ops::ControlFlow;

    fn train(settings: &PrimalDualConfig, seed: u64) -> PrimalDual {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        primal_dual(&task, settings, &mut Rng::new(seed), &mut Silent).unwrap()
    }

    fn lambda(snapshot: &Snapshot) -> f64 {
        snapshot.multipliers.as_slice()[0]
    }

    /// The longest time in rollouts with λ₁ > 1 during which the policy still leaves R₁.
    fn longest_delay(record: &[Snapshot]) -> u64 {
        let (mut longest, mut since) = (0, None);
        for snapshot in record {
            let late = lambda(snapshot) > 1.0 && snapshot.probabilities[3] < 0.5; // stay at R₁
            since = if late { since.or(Some(snapshot.rollout)) } else { None };
            longest = since.map_or(longest, |since| longest.max(snapshot.rollout - since));
        }
        longest
    }

    /// The settings of Fig. 4. A-CRL keeps its multipliers within [0.7, 1.15] there.
    #[test]
    fn it_is_feasible_on_average_overshoots_and_cannot_be_stopped() {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        for seed in 0..3 {
            let trained = train(&PrimalDualConfig::default(), seed);
            assert!(violation(&task, &trained.online) < 0.01, "seed {seed}: {:?}", trained.online);
            assert!((trained.online.objective() - 1.0 / 3.0).abs() < 0.02, "{:?}", trained.online);
            for statistics in &trained.multipliers {
                assert!(statistics.min < 0.5, "seed {seed}: {statistics:?}");
                assert!(statistics.max > 1.8 && statistics.max < 4.0, "seed {seed}: {statistics:?}");
            }
            let crossings =
                trained.record.windows(2).filter(|w| (lambda(&w[0]) > 1.0) != (lambda(&w[1]) > 1.0));
            assert!(crossings.count() > 20, "seed {seed}");
            let delay = longest_delay(&trained.record);
            assert!((1_500..50_000).contains(&delay), "seed {seed}: {delay}");
            // Stopped anywhere after the first tenth it is infeasible, as it is at the end.
            let frozen = |s: &Snapshot| {
                Stationary::new(&model, s.probabilities.clone()).unwrap().values(&task).unwrap()
            };
            let settled = &trained.record[trained.record.len() / 10..];
            let infeasible = settled.iter().filter(|s| violation(&task, &frozen(s)) > 0.005).count();
            assert!(infeasible as f64 > 0.95 * settled.len() as f64, "seed {seed}: {infeasible}");
            assert!(violation(&task, &trained.last.values(&task).unwrap()) > 0.005, "seed {seed}");
        }
    }

    #[test]
    fn without_the_factor_the_policy_gets_stuck_and_the_multipliers_grow() {
        for seed in 0..2 {
            let trained = train(&PrimalDualConfig { scaled: false, ..Default::default() }, seed);
            let most = trained.multipliers.iter().map(|s| s.max).fold(0.0, f64::max);
            assert!(most > 100.0, "seed {seed}: {most}");
        }
    }

    #[test]
    fn the_certificate_is_true_and_the_averages_are_those_of_the_rollouts() {
        let settings = PrimalDualConfig { rollouts: 500, records: 500, ..Default::default() };
        let trained = train(&settings, 4);
        assert_eq!((trained.record.len(), trained.rollouts), (500, 500));
        for i in 0..3 {
            let mean = trained.record.iter().map(|s| s.rewards[i]).sum::<f64>() / 500.0;
            assert!((mean - trained.online.as_slice()[i]).abs() < 1e-12);
        }
        for entry in &trained.certificate.requirements {
            assert!(entry.measured_shortfall() <= entry.certified_shortfall + 1e-12, "{entry:?}");
        }
        assert_eq!(trained, train(&settings, 4));
    }

    #[test]
    fn it_stops_when_asked_and_refuses_bad_settings() {
        let model = monitoring();
        let task = FiniteTask::new(&model, &third()).unwrap();
        let mut stop = |_: &Event<'_>| ControlFlow::Break(());
        let settings = PrimalDualConfig { rollouts: 1_000, records: 100, ..Default::default() };
        let stopped = primal_dual(&task, &settings, &mut Rng::new(0), &mut stop).unwrap();
        assert_eq!((stopped.rollouts, stopped.record.len()), (10, 1));
        assert_eq!(stopped.multipliers[0].max, stopped.multipliers[0].last);
        for bad in [
            PrimalDualConfig { rollouts: 0, ..settings },
            PrimalDualConfig { length: 0, ..settings },
            PrimalDualConfig { primal_step: -1.0, ..settings },
            PrimalDualConfig { dual_step: f64::NAN, ..settings },
            PrimalDualConfig { records: 0, ..settings },
        ] {
            assert!(primal_dual(&task, &bad, &mut Rng::new(0), &mut Silent).is_err(), "{bad:?}");
        }
    }
}
