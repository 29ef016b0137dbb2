//! The solution as the object of `acrl solve --json`.

use acrl::{Named, Specification};
use acrl_exact::{Conflict, Optimum, Solution};
use serde::{Serialize, Serializer};

use super::{PolicyTable, SolveResult};

impl Serialize for SolveResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.answer {
            Solution::Optimal(optimum) => OptimalJson::new(self, optimum).serialize(serializer),
            Solution::Infeasible(conflict) => InfeasibleJson::new(self, conflict).serialize(serializer),
        }
    }
}

/// The object printed when the requirements can be met. Everything in the user's signs.
#[derive(Serialize)]
struct OptimalJson<'a> {
    status: &'static str,
    specification: &'a Specification,
    objective: Option<f64>,
    /// The optimum with probability 1; differs where there are several end components.
    almost_sure: Option<f64>,
    bounds: [f64; 2],
    gap: f64,
    values: Named<f64>,
    multipliers: Named<f64>,
    /// The least and the largest optimal multipliers, where they are not unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    multiplier_ranges: Option<Named<[Option<f64>; 2]>>,
    mixture: Vec<ComponentJson>,
    policy_table: PolicyTable,
    communicating: bool,
    /// What each end component has of the expected optimum, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    components: Vec<ShareJson>,
    /// Whether nothing stopped it, and the gap was reached.
    complete: bool,
    states: usize,
    choices: usize,
    rounds: usize,
    seconds: f64,
}

#[derive(Serialize)]
pub(super) struct ShareJson {
    pub(super) states: usize,
    pub(super) first: String,
    pub(super) mass: f64,
    /// There, in the long run; none where nothing ends.
    pub(super) values: Option<Named<f64>>,
    /// For one who stays there; none if the requirements cannot be met so.
    pub(super) almost_sure: Option<AloneJson>,
}

#[derive(Serialize)]
pub(super) struct AloneJson {
    /// The probability to settle there when the requirements are to be met with probability 1.
    mass: Option<f64>,
    pub(super) objective: Option<f64>,
    values: Named<f64>,
}

#[derive(Serialize)]
struct ComponentJson {
    weight: f64,
    values: Named<f64>,
}

impl<'a> OptimalJson<'a> {
    fn new(solved: &'a SolveResult, optimum: &Optimum) -> Self {
        let (sign, demands) = (solved.sign(), solved.specification.objective().is_some());
        let bounds = [sign * optimum.lower + 0.0, sign * optimum.upper + 0.0];
        Self {
            status: "optimal",
            specification: &solved.specification,
            almost_sure: match &solved.almost_sure {
                Some(sure) => sure.objective.map(|v| sign * v + 0.0),
                None => Some(sign * optimum.objective + 0.0),
            }
            .filter(|_| demands),
            objective: demands.then_some(sign * optimum.objective + 0.0),
            bounds: if sign > 0.0 { bounds } else { [bounds[1], bounds[0]] },
            gap: optimum.gap,
            values: solved.values(&optimum.values),
            multipliers: solved.named(optimum.multipliers.as_slice()),
            multiplier_ranges: (!optimum.multipliers_are_unique()).then(|| solved.multiplier_ranges(optimum)),
            mixture: optimum
                .mixture
                .iter()
                .map(|c| ComponentJson { weight: c.weight, values: solved.values(&c.values) })
                .collect(),
            policy_table: solved.policy_table(optimum),
            communicating: solved.communicating,
            components: solved.components(),
            complete: solved.complete,
            states: solved.model.states(),
            choices: solved.model.choice_count(),
            rounds: optimum.rounds,
            seconds: solved.seconds,
        }
    }
}

/// The object printed when they cannot.
#[derive(Serialize)]
struct InfeasibleJson<'a> {
    status: &'static str,
    specification: &'a Specification,
    conflict: Vec<String>,
    farkas_certificate: Named<f64>,
    relax: RelaxJson,
    complete: bool,
    states: usize,
    choices: usize,
    seconds: f64,
}

#[derive(Serialize)]
struct RelaxJson {
    uniform: Option<f64>,
    single: Named<Option<f64>>,
}

impl<'a> InfeasibleJson<'a> {
    fn new(solved: &'a SolveResult, conflict: &Conflict) -> Self {
        Self {
            status: "infeasible",
            specification: &solved.specification,
            conflict: conflict.names.clone(),
            farkas_certificate: solved.named(&conflict.certificate),
            relax: RelaxJson {
                uniform: Some(conflict.relaxation.uniform).filter(|u| u.is_finite()),
                single: solved.named(&conflict.relaxation.alone),
            },
            complete: conflict.complete,
            states: solved.model.states(),
            choices: solved.model.choice_count(),
            seconds: solved.seconds,
        }
    }
}

impl SolveResult {
    pub(super) fn components(&self) -> Vec<ShareJson> {
        let demands = self.specification.objective().is_some();
        let alone = |i: usize| {
            let sure = self.almost_sure.as_ref()?;
            let inside = sure.components[i].optimum.as_ref()?;
            Some(AloneJson {
                mass: sure.journey.as_ref().map(|journey| journey.mass[i]),
                objective: demands.then_some(self.sign() * inside.values.objective() + 0.0),
                values: self.values(&inside.values),
            })
        };
        let shares = self.shares.iter().enumerate().map(|(i, share)| ShareJson {
            states: share.states,
            first: share.first.clone(),
            mass: share.mass,
            values: share.values.as_ref().map(|values| self.values(values)),
            almost_sure: alone(i),
        });
        shares.collect()
    }

    /// The ranges of the multipliers; an end at infinity has no number.
    fn multiplier_ranges(&self, optimum: &Optimum) -> Named<[Option<f64>; 2]> {
        let end = |x: f64| Some(x).filter(|x| x.is_finite());
        let ranges = optimum.multiplier_ranges.iter().map(|&(low, high)| [end(low), end(high)]);
        self.specification.names().into_iter().zip(ranges).collect()
    }
}
