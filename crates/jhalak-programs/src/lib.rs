//! Small GPU programs that have nothing to do with attention. Each uses a part of the assembler in
//! earnest, so that NVIDIA's assembler and a GPU can say whether it is right.

pub mod matmul_wgmma;
pub mod vector_add;
