//! Matrix products of a warpgroup, which run on while its threads do something else (PTX ISA,
//! "wgmma.mma_async"): `d = a · b + d`, d 64 × n floats.
//!
//! ```text
//! warp w of the warpgroup, lane l, group g = l / 4, pair t = l % 4
//! d  register i: row 16w + g + 8((i / 2) % 2), column 8(i / 4) + 2t + i % 2
//! a  in registers, like mma's: row 16w + g and + 8, k = 2t.. and h + 2t.. (e4m3: 4t.. and h + 4t..)
//! b  in shared memory, n columns; see `descriptor`
//! ```
//!
//! From the first product to the wait the registers of d, and of a, belong to the tensor cores: a
//! read or write in between makes ptxas wait after every product.

use super::types::Type::{self, Bf16, E4m3, F16};
use crate::KernelBuilder;
use crate::describe::{Describe, Reader};
use crate::descriptor::{Descriptor, Major};
use crate::register::{B32, F32, Operand, Pred, Register, Source};
use crate::target::{Since, Target, Version};

const SINCE: &Since = &[(Target::Sm90a, Version::new(8, 0))];

/// Where the left matrix is.
#[derive(Clone, Copy, Debug)]
pub enum LeftMatrix {
    /// In shared memory, 64 rows.
    Shared(Descriptor),
    /// In registers, spread over the warpgroup.
    Registers([B32; 4]),
}

impl From<Descriptor> for LeftMatrix {
    fn from(descriptor: Descriptor) -> Self {
        LeftMatrix::Shared(descriptor)
    }
}

impl From<[B32; 4]> for LeftMatrix {
    fn from(registers: [B32; 4]) -> Self {
        LeftMatrix::Registers(registers)
    }
}

/// `d = a · b + d`, or `d = a · b` where `accumulate` does not hold.
#[derive(Clone, Debug)]
pub(crate) struct Wgmma {
    pub(crate) ty: Type,
    pub(crate) d: Vec<Register>,
    pub(crate) a: LeftMatrix,
    pub(crate) b: Descriptor,
    pub(crate) accumulate: Operand,
}

impl Wgmma {
    /// How many products are summed.
    pub(crate) fn depth(&self) -> u32 {
        32 / self.ty.bytes()
    }

    /// Columns of b and d.
    pub(crate) fn columns(&self) -> usize {
        2 * self.d.len()
    }

    fn check(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        let columns = self.columns();
        let known = (8..=256).contains(&columns) && columns.is_multiple_of(8);
        to.rule(known, "wgmma has 8 to 256 columns, a multiple of 8: d has half as many registers");
        let a_major = match self.a {
            LeftMatrix::Shared(a) => a.major,
            LeftMatrix::Registers(_) => Major::K,
        };
        let k_major = [a_major, self.b.major] == [Major::K; 2];
        to.rule(k_major || self.ty.bytes() == 2, "wgmma of 8-bit elements reads K-major matrices");
    }
}

/// The operand that says whether a matrix is transposed on the way.
fn transposed(major: Major) -> u32 {
    (major == Major::Mn).into()
}

impl Describe for Wgmma {
    fn describe(&self, to: &mut impl Reader) {
        self.check(to);
        let columns = self.columns().to_string();
        let depth = if self.depth() == 16 { "k16" } else { "k32" };
        let ty = self.ty.name();
        to.name(&["wgmma.mma_async.sync.aligned.m64n", &columns, depth, ".f32", ty, ty]);
        to.accumulators(&self.d);
        match self.a {
            LeftMatrix::Shared(a) => to.input(a.bits.into()),
            LeftMatrix::Registers(a) => to.inputs(&a.map(Register::from)),
        }
        to.input(self.b.bits.into());
        to.input(self.accumulate);
        to.sign(matches!(self.a, LeftMatrix::Shared(a) if a.negated));
        to.sign(self.b.negated);
        if self.ty.bytes() == 2 {
            if let LeftMatrix::Shared(a) = self.a {
                to.number(transposed(a.major));
            }
            to.number(transposed(self.b.major));
        }
    }
}

/// What threads wrote to registers of a and d, and earlier products' d, is in place for the products
/// after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WgmmaFence;

impl Describe for WgmmaFence {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        to.name(&["wgmma.fence.sync.aligned"]);
    }
}

/// Ends a group of products: those begun since the last group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WgmmaCommit;

impl Describe for WgmmaCommit {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        to.name(&["wgmma.commit_group.sync.aligned"]);
    }
}

/// Waits until at most `pending` groups of the warpgroup are under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WgmmaWait {
    pub(crate) pending: u32,
}

impl Describe for WgmmaWait {
    fn describe(&self, to: &mut impl Reader) {
        to.needs(SINCE);
        to.rule(self.pending <= 7, "wgmma waits for all but 0 to 7 groups");
        to.name(&["wgmma.wait_group.sync.aligned"]);
        to.number(self.pending);
    }
}

macro_rules! products {
    ($($name:ident = $ty:expr, $kind:literal;)*) => {
        impl KernelBuilder {$(
            #[doc = concat!("d = a · b + d of ", $kind, ".")]
            /// d is 64 × n, n = 8, 16, … 256: the slice has n / 2 registers. Where `accumulate` does
            /// not hold, d = a · b. All warps of the warpgroup come here.
            #[track_caller]
            pub fn $name(
                &mut self,
                d: &[F32],
                a: impl Into<LeftMatrix>,
                b: Descriptor,
                accumulate: impl Into<Source<Pred>>,
            ) {
                let d = d.iter().map(|register| (*register).into()).collect();
                let (a, accumulate) = (a.into(), accumulate.into().operand);
                self.push(Wgmma { ty: $ty, d, a, b, accumulate });
            }
        )*}
    };
}

products! {
    wgmma_f16 = F16, "f16, depth 16";
    wgmma_bf16 = Bf16, "bf16, depth 16";
    wgmma_e4m3 = E4m3, "e4m3, depth 32, K-major";
}

/// # Matrix products of a warpgroup
impl KernelBuilder {
    /// Comes before the first product, and before products whose registers were written by anything
    /// else than products of the same shape.
    #[track_caller]
    pub fn wgmma_fence(&mut self) {
        self.push(WgmmaFence);
    }

    /// Makes a group of the products begun since the last group.
    #[track_caller]
    pub fn wgmma_commit_group(&mut self) {
        self.push(WgmmaCommit);
    }

    /// Waits until at most `pending` groups (0 to 7) of the warpgroup are under way. The others'
    /// registers and tiles are free.
    #[track_caller]
    pub fn wgmma_wait_group(&mut self, pending: u32) {
        self.push(WgmmaWait { pending });
    }
}
