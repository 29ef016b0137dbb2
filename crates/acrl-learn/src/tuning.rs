//! Tuning constants of the learners, by mechanism.
//!
//! They hold for all problems: `tests/promise.rs` checks them on problems for which none was tuned. A number that a user
//! may want to change is a setting instead ([`settings`](crate::settings)).

/// PPO in environments that can be reset to any state.
pub(crate) mod ppo {
    /// Actions between two looks at the rewards of all environments for the `RewardSample`.
    pub(crate) const REWARD_SAMPLE_INTERVAL: usize = 8;
    /// Environments per iteration whose weights enter the `Coverage`.
    pub(crate) const COVERAGE_SAMPLE: usize = 16;
    /// Initial scale of the first layer's parameters for w, relative to those for the observation. The best action depends on
    /// w in every state, but w is in \[0, 1\] and adds up to 1: with a scale of 1 a network learns one behaviour for all w.
    pub(crate) const WEIGHT_INPUT_SCALE: f32 = 4.0;
    /// Gain of the actor's initial output layer: actions begin near the middle of their intervals.
    pub(crate) const ACTOR_GAIN: f32 = 0.01;
    /// Actions in all environments, unless `total_steps` is given.
    pub(crate) const DEFAULT_ACTIONS: u64 = 4_000_000;
    /// Environment steps between two updates of external environments, over all of them.
    pub(crate) const EXTERNAL_BATCH: usize = 2048;
}

/// The network that estimates average rewards (Zhang & Ross 2021, Wan et al. 2021).
pub(crate) mod average_reward {
    /// Units of the one hidden layer: ρ is a function of a few weights, with kinks where behaviours change.
    pub(crate) const HIDDEN: usize = 64;
    /// Gain of the initial output layer.
    pub(crate) const OUTPUT_GAIN: f32 = 0.01;
    /// Gradient steps on ρ per iteration.
    pub(crate) const GRADIENT_STEPS: usize = 4;
    /// Learning rate of these steps at the start.
    pub(crate) const LEARNING_RATE: f32 = 3e-3;
    /// Share of their mean that is subtracted from values in an iteration: differential values are determined up to a
    /// constant, which would drift.
    pub(crate) const CENTRING: f32 = 0.1;
}

/// Weights to train on, and the reset buffer (`WeightCurriculum`).
pub(crate) mod curriculum {
    /// Gain of the dual dynamics in training, per step.
    pub(crate) const GAIN: f64 = 0.003;
    /// Share of fresh starts from the reset buffer.
    pub(crate) const FROM_BUFFER: f64 = 0.8;
    /// Share of those whose weights are dominated by the reward that was obtained there.
    pub(crate) const DOMINATED: f64 = 0.6;
    /// Stalled rollouts after which an environment is moved to a state of the reset buffer.
    pub(crate) const PATIENCE: u32 = 12;
    /// Size of the reset buffer of a reward.
    pub(crate) const BUFFER_SIZE: usize = 512;
    /// Actions by which a stored state may precede a reward with full progress, and fewer with less: the policy first learns to
    /// stay, then to return (reverse curriculum).
    pub(crate) const LOOK_BACK: f64 = 12.0;
    /// Probability that a new state replaces one of a full reset buffer.
    pub(crate) const REPLACE: f64 = 1.0 / 64.0;
    /// Threshold of a high reward, as a share of the range of averages.
    pub(crate) const HIGH: f64 = 0.5;
    /// Share of the range of averages up to which a rollout counts as stalled.
    pub(crate) const STALLED: f64 = 0.02;
    /// Share of fresh weights without weight on the objective. Large multipliers lead there, and the requirements must be met
    /// there at any cost.
    pub(crate) const WITHOUT_OBJECTIVE: f64 = 0.5;
    /// Probability per rollout that an environment with dual dynamics draws new requirements.
    pub(crate) const NEW_BOUNDS: f64 = 1.0 / 64.0;
    /// Probability per rollout that an environment with fixed weights draws new ones.
    pub(crate) const NEW_WEIGHTS: f64 = 1.0 / 32.0;
    /// [`NEW_BOUNDS`] of external environments, which are fewer, with longer rollouts.
    pub(crate) const NEW_EXTERNAL_BOUNDS: f64 = 1.0 / 16.0;
    /// [`NEW_WEIGHTS`] of external environments.
    pub(crate) const NEW_EXTERNAL_WEIGHTS: f64 = 1.0 / 8.0;
    /// Share of fresh weights of external environments that are dominated by a reward with little progress.
    pub(crate) const EXTERNAL_DOMINATED: f64 = 0.3;
    /// Share of the training in which external environments may have all weight on one reward, with decreasing probability.
    pub(crate) const SINGLE_REWARD: f64 = 0.25;
    /// Share of external environments with fresh weights that are reset.
    pub(crate) const RESTARTS: f64 = 0.25;
    /// Share of requirements that are drawn around the user's.
    pub(crate) const AROUND_GIVEN: f64 = 0.25;
    /// Weight above which an environment counts for the progress on a reward.
    pub(crate) const PROGRESS_WEIGHT: f64 = 0.6;
    /// Rate of the moving average of progress.
    pub(crate) const PROGRESS_RATE: f64 = 0.1;
    /// Rate at which the range of averages narrows.
    pub(crate) const RANGE_DECAY: f64 = 0.03;
    /// Size of the reservoir.
    pub(crate) const SAMPLE: usize = 1024;
}

/// PPO in environments that the caller steps.
pub(crate) mod external_ppo {
    /// Share of the training after which the scales of rewards are re-estimated.
    pub(crate) const RESCALE: f64 = 0.125;
    /// Shares of the training after which these scales may only grow. After half of the training the actor, which sees weights
    /// in units of R, could not adapt any more.
    pub(crate) const RESCALE_WIDER: [f64; 2] = [0.25, 0.5];
    /// Largest factor by which a re-estimation changes a scale.
    pub(crate) const MAX_RESCALE: f64 = 30.0;
    /// Initial scale of the critic's outputs. With rare rewards, the advantages of an untrained critic would move the policy
    /// before any reward was observed.
    pub(crate) const INITIAL_VALUE_SCALE: f64 = 0.01;
    /// Largest factor by which the input weights of w are scaled.
    pub(crate) const MAX_WEIGHT_INPUT_SCALE: f64 = 10.0;
    /// Lower bound of σ, as a share of its upper bound: rewards in reach are soon obtained, and best without noise, but
    /// rewards that have yet to be found need exploration.
    pub(crate) const MIN_STD: f64 = 2.0 / 3.0;
    /// Steps per block over which rewards are averaged to estimate the spread of averages.
    pub(crate) const BLOCK: usize = 16;
    /// Weight of the last episode in the moving average of their length.
    pub(crate) const LAST_EPISODE: f64 = 1.0 / 16.0;
}

/// The off-policy learner.
pub(crate) mod sac {
    /// Combinations of discrete parts of an action that are enumerated.
    pub(crate) const MAX_JOINT_ACTIONS: usize = 64;
    /// Steps whose mean estimates a long-run average, and that weights act for.
    pub(crate) const WINDOW: u32 = 250;
    /// Steps of a window that count as one before the first windows are over.
    pub(crate) const LEAST_WINDOW: u32 = 50;
    /// Share of these means on either side that is left out of their range.
    pub(crate) const OUTER: f64 = 0.03;
    /// Smallest unit of a reward, as a share of its largest magnitude.
    pub(crate) const MIN_UNIT: f64 = 1e-3;
    /// Range of means, relative to the largest magnitude, below which a reward counts as constant.
    pub(crate) const CONSTANT: f64 = 1e-9;
    /// Windows from which bounds of dual dynamics are drawn.
    pub(crate) const RECENT: usize = 32;
    /// Environment steps between two measurements of the units.
    pub(crate) const UNITS_PERIOD: u64 = 5_000;
    /// Shares of weights drawn uniformly from the simplex, and at a corner. The others are spread over orders of magnitude:
    /// useful multipliers run from 0.004 to 6.
    pub(crate) const UNIFORM: f64 = 0.4;
    pub(crate) const CORNERS: f64 = 0.08;
    /// Standard deviation of the logarithms of the others.
    pub(crate) const SOFTMAX_STD: f64 = 2.0;
    /// Steps of a stretch with dual dynamics, or without.
    pub(crate) const STRETCH: u32 = 2_000;
    /// Steps between two dual steps, and the step size in units.
    pub(crate) const DUAL_PERIOD: u32 = 50;
    pub(crate) const DUAL_STEP: f64 = 0.5;
    /// Largest multiplier at which dual dynamics begin.
    pub(crate) const MAX_MULTIPLIER: f64 = 100.0;
    /// What is added to weights before the logarithm of the second input, which resolves small weights.
    pub(crate) const LOG_WEIGHT_OFFSET: f32 = 0.003;
    /// Bounds of ln σ of the actor.
    pub(crate) const LOG_STD: (f32, f32) = (-5.0, 1.0);
    /// Gain of the actor's initial output layer.
    pub(crate) const ACTOR_GAIN: f32 = 0.1;
    /// Initial entropy coefficient, and its learning rate relative to that of the networks.
    pub(crate) const INITIAL_ENT_COEF: f32 = 0.1;
    pub(crate) const ENT_COEF_RATE: f32 = 3.0;
    /// Units of the one hidden layer of average rewards ρ(w).
    pub(crate) const AVERAGE_REWARD_HIDDEN: usize = 32;
    /// ε of Adam.
    pub(crate) const ADAM_EPSILON: f32 = 1e-8;
    /// Environment steps between two rows of metrics, at which the scaling of observations is refreshed.
    pub(crate) const ROW: u64 = 1_000;
}

/// Normalisation of observations, rewards and values; PopArt is by van Hasselt et al. (2016).
pub(crate) mod normalize {
    /// Width of a range above which observations are scaled by what is observed and not by the range.
    pub(crate) const WIDE: f64 = 4.0;
    /// Standard deviations around the mean that are scaled to [−1, 1].
    pub(crate) const OBSERVATION_STDS: f64 = 2.0;
    /// Standard deviation, relative to the largest value, below which a quantity counts as constant.
    pub(crate) const CONSTANT: f64 = 1e-9;
    /// Rate at which the variance of the advantages decreases, per update; it grows at once.
    pub(crate) const ADVANTAGE_VARIANCE_DECAY: f32 = 0.1;
    /// Rate at which the PopArt scale of the values decreases, per update; it grows at once.
    pub(crate) const VALUE_SCALE_DECAY: f32 = 0.1;
    /// Smallest PopArt scale.
    pub(crate) const MIN_VALUE_SCALE: f32 = 1e-6;
    /// Smallest scale of a reward, as a share of its largest absolute value.
    pub(crate) const MIN_REWARD_SCALE: f64 = 1e-3;
}

/// Exploration: sticky actions (Dabney et al. 2021) and count bonus (Strehl & Littman 2008).
pub(crate) mod exploration {
    /// Largest mean duration of a sticky action in steps, as a power of 2.
    pub(crate) const LONGEST: f64 = 6.0;
    /// Bins of the counts in \[−1, 1\], to which observations are scaled.
    pub(crate) const INSIDE: usize = 32;
    /// Bins on either side of that, four per octave: unvisited states may be far from visited ones.
    pub(crate) const OUTSIDE: usize = 16;
}

/// Kernel learners.
pub(crate) mod kernel {
    /// Learning rate of ρ, relative to that of V, which follows it.
    pub(crate) const AVERAGE_RATE: f64 = 0.1;
}

/// Sample of the reward vectors that occurred.
pub(crate) mod reward_sample {
    /// Largest number of vectors that are all stored.
    pub(crate) const ALL: usize = 64;
    /// Random directions beside the axes.
    pub(crate) const DRAWN: usize = 128;
}

/// Long-run averages under fixed weights, in environments that can be reset to any state.
pub(crate) mod library {
    /// Burn-in steps, before averages are measured.
    pub(crate) const BURN_IN: usize = 2_000;
    /// Steps over which averages are measured.
    pub(crate) const MEASURED: usize = 2_000;
    /// Random weights, beside the corners of the simplex and the middles of its edges.
    pub(crate) const DRAWN: usize = 40;
    /// Shares of the objective in weights of one requirement and the objective, beside the middle.
    pub(crate) const OBJECTIVE_SHARES: [f64; 3] = [0.05, 0.15, 0.3];
    /// Initial states drawn by the environment, beside those to which the corners lead.
    pub(crate) const FRESH: usize = 2;
    /// Largest difference of averages from different initial states, as a share of a reward's range.
    pub(crate) const AGREEMENT: f64 = 0.1;
}

/// Long-run averages under fixed weights with standard errors, in environments that the caller steps.
pub(crate) mod external_library {
    /// Visits of each weighting, from different states.
    pub(crate) const VISITS: usize = 3;
    /// Largest difference of the averages of visits, as a share of a reward's range, that is not tested. It is larger than where
    /// states can be set, because visits are shorter.
    pub(crate) const AGREEMENT: f64 = 0.25;
    /// Parts of a visit, whose variance is that within visits.
    pub(crate) const PARTS: usize = 8;
    /// Critical value of the one-way ANOVA F test of equal means of visits: with three visits of eight parts F has 2 and 21
    /// degrees of freedom, and exceeds it with probability 0.001.
    pub(crate) const CRITICAL_F: f64 = 10.0;
    /// Share of the library's range of w·v by which a visit must fall short to count as stuck.
    pub(crate) const STUCK: f64 = 0.5;
    /// Share of visits that may be stuck.
    pub(crate) const MAY_BE_STUCK: f64 = 0.05;
    /// Target of the standard errors, as a share of the range of values: weightings are visited again until it is reached, as
    /// long as there are steps left.
    pub(crate) const PRECISE: f64 = 0.01;
    /// Weight, in visits, of the variance of all weightings in that of one (shrinkage): three visits that agree by chance, as
    /// those without a rare cost do, do not prove that a value is exact.
    pub(crate) const SHARED: f64 = 4.0;
    /// Standard errors within which a difference is not significant.
    pub(crate) const ERRORS: f64 = 2.0;
}

/// Evaluation of the weightings that are the best ones for some weights, in environments that the caller steps.
pub(crate) mod front {
    /// The share of the training's steps that it takes.
    pub(crate) const SHARE: f64 = 0.1;
    /// The smallest and the largest multiplier, in units: useful ones run from 0.004 to 6.
    pub(crate) const MULTIPLIERS: (f64, f64) = (0.0125, 12.8);
    /// Multipliers of one requirement, by factors of two.
    pub(crate) const LEVELS: usize = 11;
    /// Combinations of multipliers of several requirements.
    pub(crate) const WEIGHTINGS: usize = 25;
    /// Weight, in visits, of the variance of all weightings in that of one.
    pub(crate) const SHARED: f64 = super::external_library::SHARED;
}

/// Lengths of an evaluation in environments that the caller steps.
pub(crate) mod external_evaluation {
    /// Steps of a visit before its rewards count, and steps of which they count, before both are scaled to the training.
    pub(crate) const WARM_UP: f64 = 250.0;
    pub(crate) const MEASURED: f64 = 500.0;
    /// Weights drawn from the simplex beside the regular ones.
    pub(crate) const DRAWN: usize = 12;
    /// The share of the training's steps that an evaluation takes, and the factors between which its visits are scaled for it.
    pub(crate) const SHARE: f64 = 0.15;
    pub(crate) const FACTORS: (f64, f64) = (0.1, 2.0);
    /// The largest share, for averages whose standard errors are too large after the regular visits, and for long episodes.
    pub(crate) const LARGEST_SHARE: f64 = 0.25;
    /// The mean improvement of single-objective averages, in units of ranges, from which on actions are sampled: the mode of a
    /// discrete distribution may cycle where samples do not.
    pub(crate) const SAMPLING_GAIN: f64 = 0.02;
}

/// Grid search of the execution defaults.
pub(crate) mod calibration {
    /// Sets of requirements beside the user's.
    pub(crate) const DRAWN: usize = 7;
    /// Shortfall that counts as none, in units of ranges: half of the default tolerance of a run.
    pub(crate) const TOLERATED: f64 = 0.5 * acrl_envs::RunSettings::TOLERANCE;
    /// Epoch of the library without an objective.
    pub(crate) const LIBRARY_EPOCH: u64 = 400;
    /// The longest initial epoch by default.
    pub(crate) const MAX_INITIAL_EPOCH: u64 = 1 << 14;
    /// Step size and epoch of a policy that is not calibrated, with an objective: multipliers must stay near their prices.
    pub(crate) const WITH_OBJECTIVE: (f64, u64) = (1.2, 400);
    /// The same without an objective: nothing is lost by large steps.
    pub(crate) const WITHOUT_OBJECTIVE: (f64, u64) = (0.6, 200);
}

/// The learner that counts, plans and solves.
pub(crate) mod tabular {
    /// Backups of prioritised sweeping per transition. They cost about as much as a step of a small simulator in Rust, and a
    /// tenth of one in Python.
    pub(crate) const BACKUPS: usize = 16;
    /// Change of a value, as a share of it, below which prioritised sweeping stops: it does not change actions.
    pub(crate) const LEAST_PRIORITY: f64 = 1e-4;
    /// Relative change of the value of a new episode from which on it is propagated to the pairs that end one.
    pub(crate) const RESET_CHANGE: f64 = 0.01;
    /// Change of values in units of the reward's range that ends value iteration: half a percent of a γ = 0.99 horizon.
    pub(crate) const PRECISION: f64 = 5e-3;
    /// Least and greatest number of sweeps of value iteration for a plan of exploration; large models get few.
    pub(crate) const SWEEPS: (usize, usize) = (10, 300);
    /// Transitions that value iteration may read per environment step, on average.
    pub(crate) const WORK: usize = 500;
    /// A phase of exploration takes this share of the steps so far, ...
    pub(crate) const PHASE: f64 = 0.05;
    /// ... but at least this many steps of each environment.
    pub(crate) const SHORTEST_PHASE: u64 = 100;
    /// Steps of each environment at the beginning of a phase for which the model's claim is compared with what happened.
    pub(crate) const COMPARED: u64 = 100;
    /// Number of iterations of a training: reports, and chances to write a checkpoint.
    pub(crate) const ITERATIONS: u64 = 100;
    /// Largest number of joint actions.
    pub(crate) const MOST_ACTIONS: usize = 256;
    /// Transitions to first states of episodes that a model may have; of more first states a sample is taken.
    pub(crate) const RESET_ENTRIES: usize = 4_000_000;
    /// Largest number of phases into which a time limit divides episodes, and of states of a model with phases.
    pub(crate) const MOST_PHASES: usize = 16;
    pub(crate) const PHASED_STATES: usize = 1_000;
    /// Relative gap to which an estimate is solved; its error is larger.
    pub(crate) const GAP: f64 = 1e-4;
    /// Rounds of a solve times the size of the model, after which it ends with the gap that it has.
    pub(crate) const SOLVE_WORK: usize = 50_000_000;
    /// Bounds that cannot be met in an estimate are relaxed by this share of the ranges at least, ...
    pub(crate) const LEAST_RELAXATION: f64 = 1e-5;
    /// ... by this factor more each time that the solver cannot say how much is missing, ...
    pub(crate) const RELAXATION_GROWTH: f64 = 2.0;
    /// ... and at most this number of times: then the whole range has been tried.
    pub(crate) const MOST_RELAXATIONS: usize = 24;
    /// Bounds are lowered by a negligible slack if prices fall by more than this factor.
    pub(crate) const STEEP: f64 = 1.5;
    /// Drawn weights of the library times the size of the model: large models get few.
    pub(crate) const LIBRARY_WORK: usize = 1_000_000;
    /// An execution solves its model for the first time after this share of the training's steps, ...
    pub(crate) const FIRST_RESOLVE: f64 = 0.05;
    /// ... and after at least this many steps; ...
    pub(crate) const LEAST_RESOLVE: u64 = 1_000;
    /// ... and then each time that its steps have grown by this factor.
    pub(crate) const RESOLVE_GROWTH: f64 = 1.5;
    /// States that an execution may add until it solves its model again.
    pub(crate) const STATES_ADDED: usize = 1_000;
}

/// Choice of a learner.
pub(crate) mod auto {
    /// Environment steps, and parallel environments, from which on the learner is `ppo`: its updates take a fraction of the
    /// time of the others'.
    pub(crate) const LONG_TRAINING: u64 = 5_000_000;
    pub(crate) const MANY_ENVS: usize = 16;
    /// Share of a training after which the tabular learner stays, and the fewest steps of its trial.
    pub(crate) const TRIAL: f64 = 0.1;
    pub(crate) const SHORTEST_TRIAL: u64 = 500;
    /// Share of distinct observations in the steps so far above which they do not recur.
    pub(crate) const FEW_REPEATS: f64 = 0.5;
    /// Steps per pair of observation and action which a table needs.
    pub(crate) const STEPS_PER_PAIR: f64 = 10.0;
    /// Disagreement of measured averages with those of the model, in units of ranges, which shows hidden states if it is
    /// larger by this number of standard errors.
    pub(crate) const DISAGREEMENT: f64 = 0.1;
    pub(crate) const DISAGREEMENT_ERRORS: f64 = 3.0;
}
