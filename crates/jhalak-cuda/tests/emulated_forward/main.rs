//! The forward kernels in the emulator, against the f64 reference.

mod any_case;
#[path = "../common/covered.rs"]
mod covered;
mod hopper;
mod hostile;
mod known;
mod plain;
mod run;
mod split;
