//! Matrices of 8 × 8 16-bit elements from registers to shared memory, and transposed in registers
//! (PTX ISA, "stmatrix", "movmatrix"). Lanes hold and address them as for
//! [`ldmatrix`](KernelBuilder::ldmatrix).

use crate::KernelBuilder;
use crate::address::{Address, SharedAddress};
use crate::describe::{Describe, Reader};
use crate::register::{B32, Operand, Register};
use crate::target::{Target, Version};

/// As many matrices as registers, from the warp to rows in shared memory.
#[derive(Clone, Debug)]
pub(crate) struct StoreMatrix {
    pub(crate) transposed: bool,
    pub(crate) address: Address,
    pub(crate) values: Vec<Register>,
}

impl Describe for StoreMatrix {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(&[(Target::Sm90a, Version::new(8, 0))]);
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

/// `d` = the matrix in `a`, transposed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransposeMatrix {
    pub(crate) d: Register,
    pub(crate) a: Register,
}

impl Describe for TransposeMatrix {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(&[(Target::Sm75, Version::new(7, 8))]);
        to.name(&["movmatrix.sync.aligned.m8n8.trans.b16"]);
        to.output(self.d);
        to.input(Operand::Register(self.a));
    }
}

impl KernelBuilder {
    /// 1, 2 or 4 matrices, row by row. Each lane gives the address of one row.
    #[track_caller]
    pub fn stmatrix<const N: usize>(&mut self, row: impl Into<SharedAddress>, values: [B32; N]) {
        self.store_matrices(false, row.into(), &values);
    }

    /// 1, 2 or 4 matrices, transposed on the way. Each lane gives the address of one row.
    #[track_caller]
    pub fn stmatrix_trans<const N: usize>(
        &mut self,
        row: impl Into<SharedAddress>,
        values: [B32; N],
    ) {
        self.store_matrices(true, row.into(), &values);
    }

    #[track_caller]
    fn store_matrices(&mut self, transposed: bool, row: SharedAddress, values: &[B32]) {
        let values = values.iter().map(|&value| value.into()).collect();
        self.push(StoreMatrix { transposed, address: row.0, values });
    }

    /// The matrix that the warp holds in `a`, transposed.
    #[track_caller]
    pub fn movmatrix_trans(&mut self, a: B32) -> B32 {
        let d: B32 = self.register();
        self.push(TransposeMatrix { d: d.into(), a: a.into() });
        d
    }
}
