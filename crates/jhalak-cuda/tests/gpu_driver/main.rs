//! The driver layer on a real GPU. `make test-gpu` runs these tests, `make test` counts them as
//! ignored.

mod kernels;
mod modules;
mod shared;
mod streams;
mod tensor_maps;
