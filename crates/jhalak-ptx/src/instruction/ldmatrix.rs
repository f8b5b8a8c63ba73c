//! Matrices of 8 × 8 16-bit elements from shared memory to registers (PTX ISA, "ldmatrix").
//!
//! ```text
//! lane 8i + r holds the address of row r of matrix i: 16 bytes, aligned to 16
//! lane l gets, in register i, elements 2(l % 4) and 2(l % 4) + 1 of row l / 4 of matrix i
//! transposed: of column l / 4 instead
//! ```

use crate::KernelBuilder;
use crate::address::{Address, SharedAddress};
use crate::describe::{Describe, Reader};
use crate::register::{B32, Register};

/// Registers = as many matrices, each spread over the warp.
#[derive(Clone, Debug)]
pub(crate) struct LoadMatrix {
    pub(crate) transposed: bool,
    pub(crate) d: Vec<Register>,
    pub(crate) address: Address,
}

impl Describe for LoadMatrix {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(&[(crate::Target::Sm75, crate::Version::new(6, 5))]);
        to.rule(matches!(self.d.len(), 1 | 2 | 4), "ldmatrix loads 1, 2 or 4 matrices");
        to.rule(self.address.may_hold(16), "a row of a matrix is aligned to 16 bytes");
        let count = match self.d.len() {
            1 => ".x1",
            2 => ".x2",
            _ => ".x4",
        };
        let transposed = if self.transposed { ".trans" } else { "" };
        to.name(&["ldmatrix.sync.aligned.m8n8", count, transposed, ".shared.b16"]);
        to.outputs(&self.d);
        to.memory(self.address);
    }
}

/// # Matrices from shared memory
impl KernelBuilder {
    /// 1, 2 or 4 matrices, row by row. Each lane gives the address of one row.
    #[track_caller]
    pub fn ldmatrix<const N: usize>(&mut self, row: impl Into<SharedAddress>) -> [B32; N] {
        self.load_matrices(false, row.into())
    }

    /// 1, 2 or 4 matrices, transposed on the way. Each lane gives the address of one row.
    #[track_caller]
    pub fn ldmatrix_trans<const N: usize>(&mut self, row: impl Into<SharedAddress>) -> [B32; N] {
        self.load_matrices(true, row.into())
    }

    #[track_caller]
    fn load_matrices<const N: usize>(&mut self, transposed: bool, row: SharedAddress) -> [B32; N] {
        let d: [B32; N] = self.registers();
        self.push(LoadMatrix { transposed, d: d.map(Into::into).to_vec(), address: row.0 });
        d
    }
}
