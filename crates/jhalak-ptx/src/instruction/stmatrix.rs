//! Matrices of 8 × 8 16-bit elements from registers to shared memory, and transposed in registers
//! (PTX ISA, "stmatrix", "movmatrix").
//!
//! ```text
//! lane 8i + r holds the address of row r of matrix i: 16 bytes, aligned to 16
//! lane l holds, in register i, elements 2(l % 4) and 2(l % 4) + 1 of row l / 4 of matrix i
//! transposed: of column l / 4 instead
//! ```

use crate::KernelBuilder;
use crate::address::{Address, SharedAddress};
use crate::describe::{Describe, Reader};
use crate::register::{B32, Operand, Register};
use crate::target::{Target, Version};

/// As many matrices as registers, each spread over the warp, to shared memory.
#[derive(Clone, Debug)]
pub(crate) struct StoreMatrix {
    pub(crate) transposed: bool,
    pub(crate) address: Address,
    pub(crate) values: Vec<Register>,
}

impl Describe for StoreMatrix {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(&[(Target::Sm90a, Version::new(7, 8))]);
        to.rule(matches!(self.values.len(), 1 | 2 | 4), "stmatrix stores 1, 2 or 4 matrices");
        to.rule(self.address.may_hold(16), "a row of a matrix is aligned to 16 bytes");
        let count = match self.values.len() {
            1 => ".x1",
            2 => ".x2",
            _ => ".x4",
        };
        let transposed = if self.transposed { ".trans" } else { "" };
        to.name(&["stmatrix.sync.aligned.m8n8", count, transposed, ".shared.b16"]);
        to.memory(self.address);
        to.inputs(&self.values);
    }
}

/// `d` = the matrix `a`, transposed, each spread over the warp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransposeMatrix {
    pub(crate) d: Register,
    pub(crate) a: Operand,
}

impl Describe for TransposeMatrix {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(&[(Target::Sm75, Version::new(7, 8))]);
        to.name(&["movmatrix.sync.aligned.m8n8.trans.b16"]);
        to.output(self.d);
        to.input(self.a);
    }
}

/// # Matrices to shared memory
impl KernelBuilder {
    /// 1, 2 or 4 matrices to shared memory, row by row. Each lane gives the address of one row.
    #[track_caller]
    pub fn stmatrix<const N: usize>(&mut self, row: impl Into<SharedAddress>, values: [B32; N]) {
        self.store_matrices(false, row.into(), values);
    }

    /// 1, 2 or 4 matrices to shared memory, transposed on the way. Each lane gives the address of one
    /// row.
    #[track_caller]
    pub fn stmatrix_trans<const N: usize>(
        &mut self,
        row: impl Into<SharedAddress>,
        values: [B32; N],
    ) {
        self.store_matrices(true, row.into(), values);
    }

    #[track_caller]
    fn store_matrices<const N: usize>(
        &mut self,
        transposed: bool,
        row: SharedAddress,
        values: [B32; N],
    ) {
        let values = values.map(Into::into).to_vec();
        self.push(StoreMatrix { transposed, address: row.0, values });
    }

    /// A matrix that is spread over the warp, transposed. All lanes of the warp come here.
    #[track_caller]
    pub fn movmatrix_trans(&mut self, a: B32) -> B32 {
        let d: B32 = self.register();
        self.push(TransposeMatrix { d: d.into(), a: a.into() });
        d
    }
}
