//! Whole kernels written with [`jhalak_ptx`], from a sum of vectors to a matrix product on the
//! tensor cores of Hopper. They show how kernels are written, and they prove the assembler: the
//! emulator runs them, ptxas judges them, and a GPU runs them.
//!
//! A [`Program`] is all of that as data: the module, how it is launched, which buffers it takes and
//! what should be in its output. Whoever runs programs needs to know nothing of a single one.
//!
//! | program | from | shows |
//! |---|---|---|
//! | [`vector_add`] | sm_75 | vectors, a tail |
//! | [`row_softmax`] | sm_75 | shuffles, loops, special functions |
//! | [`matmul_mma`] | sm_80 | mma, ldmatrix, a ring of cp.async |
//! | [`matmul_wgmma`] | sm_90a | wgmma, tensor copies, mbarriers, roles, persistent blocks |
//! | [`matmul_wgmma_registers`] | sm_90a | the left matrix in registers |
//! | [`matmul_fp8`] | sm_90a | e4m3 |
//! | [`column_sums`] | sm_90a | sums by the copy engine |

mod column_sums;
mod data;
mod matmul_mma;
mod matmul_wgmma;
mod program;
mod reference;
mod ring;
mod row_softmax;
mod tiles;
mod vector_add;

pub use column_sums::column_sums;
pub use matmul_mma::matmul_mma;
pub use matmul_wgmma::{matmul_fp8, matmul_wgmma, matmul_wgmma_registers};
pub use program::{Argument, Buffer, Element, Launch, Program, Use};
pub use reference::Meaning;
pub use row_softmax::row_softmax;
pub use vector_add::vector_add;

use jhalak_ptx::{Error, Major, Target};

/// The size of a matrix product: c (m × n) = a (m × k) · b (k × n).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Rows of a and c.
    pub m: u32,
    /// Columns of b and c.
    pub n: u32,
    /// Columns of a, rows of b.
    pub k: u32,
}

/// Every program that a target has, at small sizes with ragged ends, each with a name of its own.
/// `blocks` is how many blocks persistent kernels are launched with, at most.
///
/// # Errors
///
/// Whatever [`jhalak_ptx::ModuleBuilder::build`] finds; it should find nothing.
pub fn gallery(target: Target, blocks: u32) -> Result<Vec<(&'static str, Program)>, Error> {
    let mut programs = vec![
        ("vector_add", vector_add(target, 1003)?),
        ("row_softmax", row_softmax(target, 37, 133)?),
    ];
    if target >= Target::Sm80 {
        let size = Size { m: 200, n: 152, k: 136 };
        programs.push(("matmul_mma", matmul_mma(target, size)?));
    }
    if target >= Target::Sm90a {
        let size = Size { m: 200, n: 320, k: 200 };
        programs.extend([
            ("matmul_wgmma_k_major", matmul_wgmma(size, Major::K, blocks)?),
            ("matmul_wgmma_mn_major", matmul_wgmma(size, Major::Mn, blocks)?),
            ("matmul_wgmma_registers", matmul_wgmma_registers(size, blocks)?),
            ("matmul_fp8", matmul_fp8(Size { k: 208, ..size }, blocks)?),
            ("column_sums", column_sums(100, 1032, 3)?),
        ]);
    }
    Ok(programs)
}
