//! The portable backward kernels in the emulator, against the f64 reference.

mod plain;
mod run;
