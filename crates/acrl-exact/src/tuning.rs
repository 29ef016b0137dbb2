//! Tuning constants: they decide how fast an answer is found, not which one.
//!
//! Sizes were chosen by measurement on grids, queues and random models.

/// Models with at most this many states are priced exactly, by policy iteration at every λ: there a
/// factorisation takes milliseconds.
pub(crate) const EXACT_PRICING_STATES: usize = 300;
/// Chains with at most this many states are eliminated without an analysis of their sparsity pattern.
pub(crate) const SKYLINE_STATES: usize = 300;
/// Default limit of pricing rounds.
pub(crate) const MAX_ROUNDS: usize = 10_000;

/// Feasibility phase of an approximate oracle: the objective counts for this many rounds, because
/// without it large models end up far from where it is good (in full queues).
pub(crate) const OBJECTIVE_ROUNDS: usize = 12;
/// The weight of the objective in those rounds, relative to the requirements.
pub(crate) const OBJECTIVE_SHARE: f64 = 1e-4;

/// Level method: the share of the descent that is left, for policies evaluated by elimination.
pub(crate) const LEVEL: f64 = 0.5;
/// Level method: [`LEVEL`] where policies are evaluated by iteration; a round comes closer to the dual
/// function there.
pub(crate) const LEVEL_FAST_MIXING: f64 = 0.8;
/// Level method: [`LEVEL`] while the bounds are further apart than they are large; then no λ tried so
/// far is worth staying close to.
pub(crate) const LEVEL_FAR: f64 = 0.01;
/// Level method: passes of Hildreth's method over all cuts.
pub(crate) const PROJECTION_PASSES: usize = 500;

/// Policy iteration: repetitions of gain and bias stage, a safeguard against rounding.
pub(crate) const STAGE_REPETITIONS: usize = 100;
/// Policy iteration: improvement steps of a stage. In exact arithmetic no policy occurs twice; this
/// is for near-ties that rounding reverses.
pub(crate) const POLICY_ITERATIONS: usize = 2_000;

/// Modified policy iteration: Gauss–Seidel sweeps of a round are √n/15, within these limits.
pub(crate) const SWEEPS: (f64, f64) = (10.0, 20.0);
/// Modified policy iteration: the divisor of √n for the number of sweeps.
pub(crate) const SWEEPS_PER_SIDE: f64 = 15.0;
/// Modified policy iteration: sweeps of a round where chains mix fast.
pub(crate) const FAST_MIXING_SWEEPS: usize = 8;
/// Modified policy iteration: values are clipped at this many times the rewards' range at first (or
/// at 100 per state, if that is more), so that a region that a policy hardly ever leaves does not
/// dominate.
pub(crate) const VALUE_LIMIT: f64 = 1e6;
/// The least [`VALUE_LIMIT`], per state.
pub(crate) const VALUE_LIMIT_PER_STATE: f64 = 100.0;
/// Modified policy iteration: the growth of the value limit after rounds without progress.
pub(crate) const VALUE_LIMIT_GROWTH: f64 = 1e3;
/// Modified policy iteration: the cost of a step before the reference class is reached, as a share of
/// the distance between the bounds. It breaks ties between regions in favour of the reference class.
pub(crate) const TIME_COST: f64 = 1e-5;
/// Modified policy iteration: the share of the requested gap that the time cost may use up.
pub(crate) const TIME_COST_GAP_SHARE: f64 = 0.4;
/// Modified policy iteration: bounds have come closer when their distance falls to this share.
pub(crate) const CLOSER: f64 = 0.8;
/// Modified policy iteration: rounds without a new column or closer bounds until the oracle is
/// exhausted.
pub(crate) const STALLED_ROUNDS: usize = 60;
/// Modified policy iteration: stalled rounds after which every second round is plain policy iteration.
pub(crate) const PLAIN_AFTER: usize = 9;
/// Modified policy iteration: with at least this many states a sweep treats two halves in parallel,
/// each with the values of the other from before the sweep.
pub(crate) const PARALLEL_SWEEP_STATES: usize = 1 << 18;
/// Elements per parallel task; also the block length of sums, which fixes their order.
pub(crate) const CHUNK: usize = 1 << 14;
/// SIMD Bellman operator: the cost of the maximum over the actions of a state, in transitions.
pub(crate) const ARGMAX_COST: usize = 4;

/// Numbers that the factors of an elimination may hold: 2 GB.
pub(crate) const FACTOR_BUDGET: usize = 250_000_000;
/// Numbers that the factors for the stationary distribution of a redirection may hold: 1 GB.
pub(crate) const REDIRECT_FACTOR_BUDGET: usize = 125_000_000;
/// Reference states tried by an evaluation.
pub(crate) const REFERENCE_ATTEMPTS: usize = 4;
/// Most steps of the simulation that finds a state that is visited often.
pub(crate) const MAX_SIMULATED_STEPS: usize = 1_000_000;
/// Iterations after which a chain counts as mixing too slowly for iterative evaluation.
pub(crate) const MAX_ITERATIONS: usize = 100;
/// Gauss–Seidel iterations before each Jacobi iteration, which gives the error.
pub(crate) const GAUSS_SEIDEL_PER_CHECK: usize = 3;
/// Iterations without progress until damping is tried.
pub(crate) const DAMP_AFTER: usize = 8;
/// Iterations without progress until the iteration is given up.
pub(crate) const GIVE_UP_AFTER: usize = 16;

/// Nested dissection: smaller sets are not split further.
pub(crate) const LEAF: usize = 6;
/// Nested dissection: breadth-first searches for a peripheral vertex.
pub(crate) const PERIPHERAL_SEARCHES: usize = 4;
/// Nested dissection: passes of the separator refinement.
pub(crate) const REFINEMENT_PASSES: usize = 8;
/// Assembly tree: a parallel subtree has at most this share of all work.
pub(crate) const LARGEST_SUBTREE: f64 = 1.0 / 8.0;
/// Assembly tree: a parallel subtree has at least this share of all work.
pub(crate) const SMALLEST_SUBTREE: f64 = 1.0 / 256.0;
/// Assembly tree: with fewer multiplications in all nothing is done in parallel.
pub(crate) const LITTLE_WORK: f64 = 1e7;
/// Supernode amalgamation: a child is merged if the supernode is at most this wide and the share of
/// stored zeros is below the limit.
pub(crate) const AMALGAMATION: [(usize, f64); 4] =
    [(4, f64::INFINITY), (16, 0.4), (48, 0.1), (usize::MAX, 0.05)];
/// Dense elimination: states per block before the rows behind it are updated.
pub(crate) const BLOCK: usize = 32;
/// Dense elimination: matrix products with fewer multiplications are written out.
pub(crate) const SMALL_PRODUCT: usize = 4096;
/// Dense elimination: matrix products with more multiplications are halved for two threads, ...
pub(crate) const LARGE_PRODUCT: usize = 8_000_000;
/// ... as long as each half has this many rows.
pub(crate) const PARALLEL_ROWS: usize = 512;

/// Redirection: value-iteration sweeps within which a state must reach the core of a policy.
pub(crate) const REDIRECT_SWEEPS: usize = 2_000;
/// Redirection: the fewest sweeps in large models.
pub(crate) const MIN_REDIRECT_SWEEPS: usize = 50;
/// Redirection: transitions visited in all sweeps together.
pub(crate) const REDIRECT_WORK: usize = 2_000_000_000;
/// Numbers that the optimality cones of an exact policy may hold: 128 MB.
pub(crate) const CONE_MEMORY: usize = 16_000_000;
/// Lead home: rounds of policy iteration, a safeguard against rounding.
pub(crate) const LEAD_HOME_ROUNDS: usize = 100;
/// Lead home: multiples of the first price of a step that are tried.
pub(crate) const LEAD_HOME_RAISES: [f64; 4] = [1.0, 10.0, 100.0, 1000.0];
/// Lead home: the way takes at most this many times as long as the fastest one.
pub(crate) const LONGEST_DETOUR: f64 = 2.0;

/// Execution: models with at most this many states are planned from occupancy measures and hitting times.
pub(crate) const PLANNED_STATES: usize = 20_000;
/// Execution of larger models: a change of policy is guessed to take this long, ...
pub(crate) const UNPLANNED_BASE: f64 = 50.0;
/// ... and this many steps per √n more: about the time to cross the model.
pub(crate) const UNPLANNED_PER_SIDE: f64 = 40.0;
/// Execution: a change of policy ends in the likeliest states that have this share of the time.
pub(crate) const CORE_SHARE: f64 = 0.9;
/// Execution: the price of a shortfall, in units of that which an optimum has or might have.
pub(crate) const PENALTY: f64 = 10.0;
/// Execution: the shortest epoch.
pub(crate) const SHORTEST_EPOCH: u64 = 10;
/// Execution: a policy of a small share waits at most for a cycle of this many changes of policy.
pub(crate) const LONGEST_CYCLE: f64 = 50.0;
/// Execution: a turn is at least this many times as long as the way there.
pub(crate) const SHORTEST_TURN: f64 = 2.0;
/// Execution: how often shares are solved for until they fit the turns that they bring.
pub(crate) const ROUNDS: usize = 3;
/// Execution without a known end: epochs start with at most this many steps.
pub(crate) const OPEN_ENDED_LONGEST: u64 = 20_000;
/// Execution: policies are not combined if corrections then take this many times as long.
pub(crate) const SLOW_MIXING: f64 = 4.0;
/// Execution: by how much changes of policy may shift the shares, if longer epochs are to gain nothing.
pub(crate) const TRANSIENT_SHARE: f64 = 0.05;
/// Execution: chance is corrected by the maximisers at these multiples of a price; the last ones in large models, too.
pub(crate) const CORRECTION_PRICES: [f64; 8] = [0.0, 0.5, 0.9, 1.1, 1.5, 3.0, 10.0, f64::INFINITY];
/// Execution: models with more states have fewer corrections.
pub(crate) const LARGE_FOR_CORRECTIONS: usize = 2_000;
/// Execution: the share of the objective that changes of policy may cost if longer epochs are to save nothing.
pub(crate) const SWITCHING_LOSS: f64 = 5e-4;
/// Execution without a known end: the largest and the smallest share of the steps taken.
pub(crate) const LONGEST_SHARE: f64 = 0.125;
/// See [`LONGEST_SHARE`].
pub(crate) const SHORTEST_SHARE: f64 = 0.001;
