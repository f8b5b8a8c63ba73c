//! Matrix products of a warpgroup (PTX ISA, "wgmma"): `d = a · b + d`, d of 64 × n floats.
//!
//! ```text
//! warp w of the warpgroup, lane l:
//! d  register i: row 16w + l / 4 + 8(i / 2 % 2), column 8(i / 4) + 2(l % 4) + i % 2
//! a  in registers as for mma: 16 rows to a warp;  or in shared memory, by a descriptor
//! b  in shared memory, by a descriptor
//! ```
//!
//! The product runs on while the warps do something else. Its registers may not be touched before a
//! wait; registers written by other instructions, and the first product, need a fence before.

use super::types::Type::{self, Bf16, E4m3, F16};
use crate::KernelBuilder;
use crate::describe::{Describe, Reader};
use crate::register::{B32, B64, F32, Operand, Pred, Register, Source};
use crate::target::{Since, Target, Version};

const HOPPER: &Since = &[(Target::Sm90a, Version::new(8, 0))];

/// Where a product's left matrix is.
#[derive(Clone, Copy, Debug)]
pub enum WgmmaLeft {
    /// In shared memory, K-major or M-major.
    Shared {
        /// The descriptor.
        descriptor: B64,
        /// Rows next to each other in memory (M-major): 16-bit types only.
        transposed: bool,
    },
    /// In registers.
    Registers([B32; 4]),
}

/// Where a product's right matrix is: in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct WgmmaRight {
    /// The descriptor.
    pub descriptor: B64,
    /// Columns next to each other in memory (N-major): 16-bit types only.
    pub transposed: bool,
}

/// Begins `d = a · b + d`, or `d = a · b` where `accumulate` is false.
#[derive(Clone, Debug)]
pub(crate) struct Wgmma {
    pub(crate) ty: Type,
    pub(crate) d: Vec<Register>,
    pub(crate) a: WgmmaLeft,
    pub(crate) b: WgmmaRight,
    pub(crate) accumulate: Operand,
}

impl Wgmma {
    /// Columns of the product.
    pub(crate) fn columns(&self) -> usize {
        2 * self.d.len()
    }
}

impl Describe for Wgmma {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        let columns = self.columns();
        let possible = (8..=256).contains(&columns) && columns.is_multiple_of(8);
        to.rule(possible, "wgmma makes 8 to 256 columns, a multiple of 8: a register for each two");
        let wide = self.ty != E4m3;
        let left_transposed = matches!(self.a, WgmmaLeft::Shared { transposed: true, .. });
        let plain = !left_transposed && !self.b.transposed;
        to.rule(wide || plain, "8-bit matrices are K-major");
        let shape = SHAPES[columns.div_ceil(8).clamp(1, 32) - 1];
        let depth = if wide { "k16" } else { "k32" };
        let ty = self.ty.name();
        to.name(&["wgmma.mma_async.sync.aligned.m64", shape, depth, ".f32", ty, ty]);
        to.outputs(&self.d);
        match self.a {
            WgmmaLeft::Shared { descriptor, .. } => to.input(descriptor.into()),
            WgmmaLeft::Registers(a) => to.inputs(&a.map(Into::into)),
        }
        to.input(self.b.descriptor.into());
        to.input(self.accumulate);
        // Neither side is negated.
        to.number(1);
        to.number(1);
        if wide {
            if let WgmmaLeft::Shared { transposed, .. } = self.a {
                to.number(transposed.into());
            }
            to.number(self.b.transposed.into());
        }
    }
}

const SHAPES: [&str; 32] = [
    "n8", "n16", "n24", "n32", "n40", "n48", "n56", "n64", "n72", "n80", "n88", "n96", "n104",
    "n112", "n120", "n128", "n136", "n144", "n152", "n160", "n168", "n176", "n184", "n192", "n200",
    "n208", "n216", "n224", "n232", "n240", "n248", "n256",
];

/// Registers written before are seen by the products after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WgmmaFence;

impl Describe for WgmmaFence {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&["wgmma.fence.sync.aligned"]);
    }
}

/// Ends a group of products: those begun since the last group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WgmmaCommit;

impl Describe for WgmmaCommit {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.name(&["wgmma.commit_group.sync.aligned"]);
    }
}

/// Waits until at most `pending` groups of products are under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WgmmaWait {
    pub(crate) pending: u32,
}

impl Describe for WgmmaWait {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(HOPPER);
        to.rule(self.pending <= 7, "wgmma.wait_group leaves 0 to 7 groups");
        to.name(&["wgmma.wait_group.sync.aligned"]);
        to.number(self.pending);
    }
}

macro_rules! products {
    ($($(#[$doc:meta])* $name:ident = $ty:expr;)*) => {
        impl KernelBuilder {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(
                &mut self,
                d: &[F32],
                a: WgmmaLeft,
                b: WgmmaRight,
                accumulate: impl Into<Source<Pred>>,
            ) {
                let d = d.iter().map(|&d| d.into()).collect();
                self.push(Wgmma { ty: $ty, d, a, b, accumulate: accumulate.into().operand });
            }
        )*}
    };
}

products! {
    /// Begins `d = a · b + d` (`d = a · b` where `accumulate` is false) of f16, depth 16, with as
    /// many columns as twice the registers of d.
    wgmma_f16 = F16;
    /// Begins `d = a · b + d` (`d = a · b` where `accumulate` is false) of bf16, depth 16, with as
    /// many columns as twice the registers of d.
    wgmma_bf16 = Bf16;
    /// Begins `d = a · b + d` (`d = a · b` where `accumulate` is false) of e4m3, depth 32, with as
    /// many columns as twice the registers of d.
    wgmma_e4m3 = E4m3;
}

impl KernelBuilder {
    /// Registers written before are seen by the products after it.
    #[track_caller]
    pub fn wgmma_fence(&mut self) {
        self.push(WgmmaFence);
    }

    /// Makes a group of the products begun since the last group.
    #[track_caller]
    pub fn wgmma_commit_group(&mut self) {
        self.push(WgmmaCommit);
    }

    /// Waits until at most `pending` (0 to 7) groups of products are under way. The registers of the
    /// others may then be used.
    #[track_caller]
    pub fn wgmma_wait_group(&mut self, pending: u32) {
        self.push(WgmmaWait { pending });
    }
}
