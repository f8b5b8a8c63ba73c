//! What the tests share.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod every;
pub mod run;

pub use jhalak_cases::{case, strided};
