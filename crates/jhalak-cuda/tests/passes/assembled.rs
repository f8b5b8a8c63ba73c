//! The kernels in NVIDIA's assembler.
