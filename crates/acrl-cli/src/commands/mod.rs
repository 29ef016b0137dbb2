//! One file per verb.

pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod init;
pub(crate) mod problems;
pub(crate) mod reproduce;
pub(crate) mod run;
pub(crate) mod solve;
pub(crate) mod train;
pub(crate) mod view;
