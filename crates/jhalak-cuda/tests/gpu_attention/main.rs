//! The kernels on a GPU, forward and backward, against the f64 reference: `make test-gpu`.

mod any_case;
mod graph;
mod memory;
mod run;
mod split;
mod streams;
