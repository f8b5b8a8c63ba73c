//! The small kernels around attention in the emulator, against sums in double precision, and in
//! NVIDIA's assembler.

mod assembled;
mod calls;
mod delta;
mod dsinks;
mod finish_dq;
mod gpu;
mod merge;
mod numbers;
