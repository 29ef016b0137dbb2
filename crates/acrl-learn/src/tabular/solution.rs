//! The solution of an estimate in the form in which it is stored.

use acrl::Specification;
use acrl_exact::{Executable, ExecutableComponent};
use serde::{Deserialize, Serialize};

use super::EstimatedSolution;

/// An [`EstimatedSolution`] as plain data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredSolution {
    pub(super) specification: Specification,
    pub(super) relaxed: f64,
    pub(super) components: Vec<Component>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) component_of: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) journey: Vec<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) policies: Vec<Vec<u32>>,
}

/// An end component.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Component {
    mass: f64,
    multipliers: Vec<f64>,
    weights: Vec<f64>,
    values: Vec<Vec<f64>>,
}

impl From<EstimatedSolution> for StoredSolution {
    fn from(solution: EstimatedSolution) -> Self {
        let EstimatedSolution { answer, specification, relaxed } = solution;
        let component = |component: ExecutableComponent| {
            let ExecutableComponent { mass, multipliers, weights, values } = component;
            Component { mass, multipliers, weights, values }
        };
        Self {
            specification,
            relaxed,
            components: answer.components.into_iter().map(component).collect(),
            component_of: answer.component_of,
            journey: answer.journey,
            policies: answer.policies,
        }
    }
}

impl From<StoredSolution> for EstimatedSolution {
    fn from(stored: StoredSolution) -> Self {
        let component = |component: Component| {
            let Component { mass, multipliers, weights, values } = component;
            ExecutableComponent { mass, multipliers, weights, values }
        };
        Self {
            specification: stored.specification,
            relaxed: stored.relaxed,
            answer: Executable {
                components: stored.components.into_iter().map(component).collect(),
                component_of: stored.component_of,
                journey: stored.journey,
                policies: stored.policies,
            },
        }
    }
}
