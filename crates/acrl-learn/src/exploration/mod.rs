//! Exploration for rewards that random actions do not reach.

mod count_bonus;
mod sticky_actions;

pub(crate) use count_bonus::CountBonus;
pub(crate) use sticky_actions::StickyActions;
