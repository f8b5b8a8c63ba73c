//! The portable forward kernels on a GPU, against the f64 reference: `make test-gpu`.

mod any_case;
mod run;
