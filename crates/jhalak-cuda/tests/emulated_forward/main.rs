//! The forward kernels in the emulator, against the f64 reference.

mod any_case;
mod hopper;
mod hostile;
mod plain;
mod run;
mod split;
