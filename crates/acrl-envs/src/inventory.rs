//! Inventory: when to order and how much, at a fixed cost per order, with lost sales.
//!
//! # Description
//!
//! A shop reviews its stock at the beginning of each period and may order up to its capacity; an order
//! costs a fixed amount and so much per unit, and arrives before the customers do. Demand that the stock
//! cannot serve is lost. Costs should be low, but nearly all demand has to be served from little stock.
//!
//! # States
//!
//! The stock at the beginning of a period before ordering, 0 … S, where S is the capacity.
//!
//! # Actions
//!
//! `order q` for q = 0 … S − s in the state with stock s.
//!
//! # Dynamics
//!
//! The order raises the stock to y = s + q, and then a demand D is drawn from the Poisson distribution
//! with mean `demand`, independently in each period. min(y, D) units are sold, and max(0, y − D) are
//! left for the next period.
//!
//! # Rewards
//!
//! `cost`: `order_cost` + q · `unit_cost` for q > 0, 0 for q = 0. `served`: the expected share of the
//! demand that is served, E min(y, D) / E D, whose average is the fill rate. `stock`: s, the units left
//! over from the period before.
//!
//! # Requirements
//!
//! Minimise cost; served ≥ 0.95, stock ≤ 5.
//!
//! # Known optimum
//!
//! With the default parameters the least cost per period is 7.066727020359 ([`Inventory::DEFAULT_OPTIMUM`]).
//! Both requirements bind, at the prices λ* ≈ (27.34, 0.7374): a unit on stock costs 0.74 per period,
//! and a lost sale 27.34/4 = 6.8. The optimal mixture has three (s, S) policies: order up to 13 when 2
//! or 3 units or fewer are left, or up to 12 at 3 or fewer. A stationary policy that randomises between
//! their orders attains it.
//!
//! # Starting state
//!
//! No stock.
//!
//! # Parameters
//!
//! See [`InventoryParameters`].
//!
//! # Problem file
//!
//! ```toml
//! [environment]
//! kind = "inventory"
//! capacity = 24
//! demand = 4.0
//! order_cost = 10.0
//! ```

use acrl::{Error, FiniteCmdp, Objective, Requirement, Specification};

use crate::parameter::{Check, ParameterError, parameters};

parameters! {
    /// Parameters of an inventory problem.
    InventoryParameters {
        /// Largest stock, S.
        capacity: usize = 24, 1..=200;
        /// Mean demand of a period: above 0, at most 100.
        demand: f64 = 4.0;
        /// Fixed cost of an order.
        order_cost: f64 = 10.0, 0.0..=1e6;
        /// Cost per unit ordered.
        unit_cost: f64 = 1.0, 0.0..=1e6;
    }
}

/// An inventory problem with checked parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Inventory {
    parameters: InventoryParameters,
}

impl Inventory {
    /// The value of `kind` in the problem file.
    pub const KIND: &'static str = "inventory";

    /// The least cost with the default parameters and requirements (by linear programming).
    pub const DEFAULT_OPTIMUM: f64 = 7.066727020359;

    /// Checks the parameters.
    pub fn new(parameters: InventoryParameters) -> Result<Self, ParameterError> {
        let check = Check(Self::KIND);
        parameters.check(&check)?;
        let demand = parameters.demand;
        let expected = || "a number above 0 and at most 100".to_owned();
        check.within("demand", demand, demand > 0.0 && demand <= 100.0, expected)?;
        Ok(Self { parameters })
    }

    /// The finite model.
    pub fn model(&self) -> Result<FiniteCmdp, Error> {
        let InventoryParameters { capacity, demand, order_cost, unit_cost } = self.parameters;
        let probabilities = poisson(demand, capacity);
        let mut builder = FiniteCmdp::builder(["cost", "served", "stock"]);
        for stock in 0..=capacity {
            let state = builder.state(stock.to_string());
            for order in 0..=capacity - stock {
                let available = stock + order;
                let below = &probabilities[..available];
                // A demand of `available` or more leaves nothing.
                let sold_out = (1.0 - below.iter().sum::<f64>()).max(0.0);
                let mut transitions = vec![(0, sold_out)];
                transitions.extend(below.iter().enumerate().map(|(d, p)| (available - d, *p)));
                let partly: f64 = below.iter().enumerate().map(|(d, p)| d as f64 * p).sum();
                let served = (partly + available as f64 * sold_out) / demand;
                let cost = if order == 0 { 0.0 } else { order_cost + unit_cost * order as f64 };
                builder.choice(state, format!("order {order}"), &transitions, &[cost, served, stock as f64]);
            }
        }
        Ok(builder.build()?)
    }

    /// Objective and requirements that come with it.
    pub fn specification(&self) -> Result<Specification, Error> {
        let requirements = vec![Requirement::at_least("served", 0.95)?, Requirement::at_most("stock", 5.0)?];
        Specification::new(Some(Objective::minimize("cost")), requirements)
    }
}

/// P(D = d) for d = 0 … `count` − 1 of the Poisson distribution with that mean.
fn poisson(mean: f64, count: usize) -> Vec<f64> {
    let mut probabilities = vec![(-mean).exp(); count];
    for d in 1..count {
        probabilities[d] = probabilities[d - 1] * mean / d as f64;
    }
    probabilities
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> FiniteCmdp {
        Inventory::new(InventoryParameters::default()).unwrap().model().unwrap()
    }

    #[test]
    fn orders_cost_and_demand_is_served_as_far_as_the_stock_goes() {
        let model = model();
        assert_eq!((model.states(), model.choice_count()), (25, 325));
        let nothing = model.choice(model.choices(0).start);
        assert_eq!((nothing.targets, nothing.rewards), (&[0][..], &[0.0, 0.0, 0.0][..]));
        let one = model.choices(0).start + 1;
        assert_eq!(model.action_name(one), "order 1");
        let (one, empty) = (model.choice(one), (-4.0f64).exp());
        assert_eq!(one.targets, [0, 1]);
        assert!((one.probabilities[1] - empty).abs() < 1e-15);
        assert_eq!(one.rewards[0], 11.0);
        assert!((one.rewards[1] - (1.0 - empty) / 4.0).abs() < 1e-15);
        // A full shop cannot order. It serves nearly everything, at no cost.
        assert_eq!(model.choices(24).len(), 1);
        let full = model.choice(model.choices(24).start);
        assert_eq!((full.rewards[0], full.rewards[2]), (0.0, 24.0));
        assert!(full.rewards[1] > 1.0 - 1e-9 && full.rewards[1] <= 1.0 + 1e-12);
        assert_eq!(model.choice(model.choices(10).start + 3).rewards[0], 13.0);
    }

    #[test]
    fn probabilities_sum_to_one_and_have_the_mean_demand() {
        let model = model();
        for c in 0..model.choice_count() {
            let sum: f64 = model.choice(c).probabilities.iter().sum();
            assert!((sum - 1.0).abs() < 1e-12, "choice {c}: {sum}");
        }
        let mean: f64 = poisson(4.0, 60).iter().enumerate().map(|(d, p)| d as f64 * p).sum();
        assert!((mean - 4.0).abs() < 1e-12);
    }
}
