//! The portable backward kernels in the emulator, against the f64 reference.

mod any_case;
mod ordered;
mod plain;
mod run;
mod spoiled;
