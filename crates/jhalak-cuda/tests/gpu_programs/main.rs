//! The programs of `jhalak-programs` on a GPU: `make test-gpu`.

#[path = "../gpu_driver/shared.rs"]
#[allow(dead_code, reason = "each program uses a part of it")]
mod shared;

mod device;
mod gallery;
mod rate;
