//! Fixed weights: maximise r₀ + Σ λ_i r_i for a λ that is given, and hope.
//!
//! The rule is that there is none: a [`Method::FixedWeights`](super::Method) holds λ, by default 1 for each requirement in units of
//! the rewards' ranges, and the learner trains π(s) for it as for any other reward.
//!
//! **Guaranteed**: what the learner guarantees for a single reward. **Not guaranteed**: any requirement. No bound enters the
//! training, and where behaviour has to be switched (Example 1, regions that are apart) no λ gives a policy that meets them: a
//! maximiser goes to the best region and stays. Whoever looks for weights by hand pays the whole budget for every
//! weighting tried.
