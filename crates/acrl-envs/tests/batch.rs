//! What every batch environment promises, tried on all of them.

#![allow(clippy::unwrap_used)]

use acrl::{ActionPart, BatchMatrix, Rng, VecEnv, VecTask};
use acrl_envs::{
    Continuous, Drone, DroneParameters, Planar, PlanarParameters, RandomPlanar, Shape, Wireless,
    WirelessParameters,
};
use proptest::prelude::*;

fn environments() -> Vec<Continuous> {
    let home = Some(Shape::Polygon { vertices: vec![[4.0, 4.0], [6.0, 4.0], [5.0, 4.5], [5.0, 6.0]] });
    let planar = |parameters| Continuous::Planar(Planar::new(parameters).unwrap());
    let drone = |parameters| Continuous::Drone(Drone::new(parameters).unwrap());
    let wireless = |parameters| Continuous::Wireless(Wireless::new(parameters).unwrap());
    let mut all = vec![
        planar(PlanarParameters::default()),
        planar(PlanarParameters {
            speed_limit: Some(2.0),
            home: home.clone(),
            ..PlanarParameters::default()
        }),
        planar(PlanarParameters {
            speed_limit: Some(3.0),
            energy: true,
            width: 12.0,
            ..PlanarParameters::default()
        }),
        wireless(WirelessParameters::default()),
        wireless(WirelessParameters { correlation: 0.0, ..WirelessParameters::default() }),
        drone(DroneParameters::default()),
        drone(DroneParameters { home, gust: 0.0, watch_speed: Some(0.5), ..DroneParameters::default() }),
    ];
    all.extend((0..4).map(|seed| Continuous::Planar(RandomPlanar::new(seed).unwrap().planar().clone())));
    all
}

/// Parallel environments with a generator each.
struct Batch<'a> {
    environment: &'a dyn VecEnv,
    state: BatchMatrix,
    actions: BatchMatrix,
    rewards: BatchMatrix,
    rngs: Vec<Rng>,
}

impl<'a> Batch<'a> {
    fn new(environment: &'a dyn VecEnv, streams: &[u64]) -> Self {
        let num_envs = streams.len();
        let mut state = BatchMatrix::zeros(environment.state_dimension(), num_envs);
        let mut rngs: Vec<Rng> = streams.iter().map(|stream| Rng::stream(9, *stream)).collect();
        for (env, rng) in rngs.iter_mut().enumerate() {
            environment.reset(&mut state, env, rng).unwrap();
        }
        let actions = BatchMatrix::zeros(environment.action_space().len(), num_envs);
        let rewards = BatchMatrix::zeros(environment.reward_names().len(), num_envs);
        Self { environment, state, actions, rewards, rngs }
    }

    fn step(&mut self) -> Result<(), acrl::Error> {
        self.environment.step(&mut self.state, &self.actions, &mut self.rewards, &mut self.rngs)
    }

    fn observation(&self) -> BatchMatrix {
        let mut seen = BatchMatrix::zeros(self.environment.observation_space().len(), self.state.num_envs());
        self.environment.observe(&self.state, &mut seen);
        seen
    }
}

/// Part of an action from a number: a choice that exists, or the number itself.
fn part(part: ActionPart, number: f64) -> f64 {
    match part {
        ActionPart::Discrete(n) => (number.abs() * 10.0) as usize as f64 % n as f64,
        ActionPart::Continuous(_) => number,
    }
}

#[test]
fn an_environment_is_bit_identical_alone_and_in_any_batch() {
    for continuous in environments() {
        let environment = continuous.batch();
        let (mut alone, streams) = (Batch::new(environment, &[5]), [3, 8, 5, 1, 2, 0, 7]);
        let mut among = Batch::new(environment, &streams);
        let mut again = Batch::new(environment, &streams);
        let mut numbers = Rng::new(1);
        for _ in 0..300 {
            for (row, &kind) in environment.action_space().iter().enumerate() {
                for (env, stream) in streams.iter().enumerate() {
                    let action = part(kind, 2.0 * numbers.normal());
                    among.actions.set(row, env, action);
                    again.actions.set(row, env, action);
                    if *stream == 5 {
                        alone.actions.set(row, 0, action);
                    }
                }
            }
            alone.step().unwrap();
            among.step().unwrap();
            again.step().unwrap();
            assert!(
                alone.state.column(0).eq(among.state.column(2))
                    && alone.rewards.column(0).eq(among.rewards.column(2))
            );
            assert!(alone.observation().column(0).eq(among.observation().column(2)));
            assert!(
                again.state == among.state && again.rewards == among.rewards,
                "the seed decides everything"
            );
        }
    }
}

#[test]
fn each_comes_with_requirements_on_rewards_that_it_has() {
    for continuous in environments() {
        let task = VecTask::new(continuous.batch(), continuous.specification().unwrap()).unwrap();
        assert!(task.scales().iter().all(|scale| *scale > 0.0), "{continuous:?}");
        assert!(
            continuous
                .batch()
                .observation_space()
                .iter()
                .all(|range| range.is_bounded() && range.width() > 0.0)
        );
        assert!(continuous.batch().action_repeat() >= 1);
    }
}

#[test]
fn batches_that_do_not_fit_together_are_errors() {
    for continuous in environments() {
        let environment = continuous.batch();
        let wrong = |change: fn(&mut Batch<'_>)| {
            let mut batch = Batch::new(environment, &[0, 1]);
            change(&mut batch);
            batch.step().unwrap_err().to_string()
        };
        let actions = environment.action_space().len();
        assert_eq!(
            wrong(|l| l.actions = BatchMatrix::zeros(1, 2)),
            format!("rows of the actions: expected {actions} numbers, found 1")
        );
        assert_eq!(
            wrong(|l| l.actions = BatchMatrix::zeros(2, 3)),
            "num_envs of the actions: expected 2 numbers, found 3"
        );
        assert!(wrong(|l| l.rewards = BatchMatrix::zeros(1, 2)).starts_with("rows of the rewards"));
        assert!(wrong(|l| l.state = BatchMatrix::zeros(1, 2)).starts_with("rows of the state"));
        assert!(wrong(|l| _ = l.rngs.pop()).starts_with("generators of the num_envs"));
        let mut state = BatchMatrix::zeros(environment.state_dimension(), 2);
        assert!(
            environment.reset(&mut state, 2, &mut Rng::new(0)).unwrap_err().to_string().contains("no env 2")
        );
        Batch::new(environment, &[]).step().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    /// Whatever is done, what is seen and what is rewarded stay within what was promised; and what is no number
    /// is an error that changes nothing.
    #[test]
    fn observations_and_rewards_stay_in_their_ranges(
        seed in 0..1000u64,
        numbers in prop::collection::vec(
            prop_oneof![
                8 => -10.0..10.0f64,
                1 => -1e300..1e300f64,
                1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0]),
            ],
            40,
        ),
    ) {
        for continuous in environments() {
            let environment = continuous.batch();
            let mut batch = Batch::new(environment, &[seed, seed + 1]);
            for pair in numbers.chunks(4) {
                for (row, &kind) in environment.action_space().iter().enumerate() {
                    (0..2).for_each(|env| batch.actions.set(row, env, part(kind, pair[2 * row + env])));
                }
                let before = batch.state.clone();
                let bad = |&(row, kind): &(usize, &ActionPart)| match kind {
                    ActionPart::Continuous(range) => batch.actions.row(row).iter()
                        .any(|a| a.is_nan() || (a.is_infinite() && !range.is_bounded())),
                    ActionPart::Discrete(_) => batch.actions.row(row).iter().any(|a| a.is_nan()),
                };
                let bad = environment.action_space().iter().enumerate().find(bad).is_some();
                match batch.step() {
                    Ok(()) => prop_assert!(!bad),
                    Err(error) => {
                        prop_assert!(bad && error.to_string().starts_with("the action '"), "{}", error);
                        prop_assert_eq!(&batch.state, &before);
                        continue;
                    }
                }
                let within = |rows: &BatchMatrix, ranges: &[acrl::Interval]| ranges.iter().enumerate().all(|(row, range)| {
                    rows.row(row).iter().all(|x| *x >= range.low - 1e-12 && *x <= range.high + 1e-12)
                });
                prop_assert!(within(&batch.rewards, environment.reward_ranges()), "{:?}", batch.rewards);
                prop_assert!(within(&batch.observation(), environment.observation_space()), "{:?}", batch.state);
            }
        }
    }
}
