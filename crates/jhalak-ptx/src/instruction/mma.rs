//! Matrix products of a warp (PTX ISA, "mma"): `d = a · b + c`, d and c 16 × 8 floats.
//!
//! ```text
//! lane l, group g = l / 4, pair t = l % 4; w elements fill one 32-bit register (f16: 2, e4m3: 4,
//! tf32: 1), h = 4w
//! c, d  registers 0, 1: row g, columns 2t, 2t + 1;  2, 3: row g + 8
//! a     register 0: row g, k = wt..;  1: row g + 8;  2: row g, k = h + wt..;  3: row g + 8
//! b     register 0: column g, k = wt..;  1: k = h + wt..
//! ```
//!
//! Shapes of half the depth have only the first half of a's and b's registers.

use super::types::Type::{self, Bf16, E4m3, F16, Tf32};
use crate::KernelBuilder;
use crate::describe::{Describe, Reader};
use crate::register::{B32, F32, Register};
use crate::target::{Target, Version};

/// `d = a · b + c` by a warp. The depth k of the product is [`Mma::depth`].
#[derive(Clone, Debug)]
pub(crate) struct Mma {
    pub(crate) ty: Type,
    pub(crate) d: [Register; 4],
    pub(crate) a: Vec<Register>,
    pub(crate) b: Vec<Register>,
    pub(crate) c: [Register; 4],
}

impl Mma {
    /// How many products are summed: the columns of a.
    pub(crate) fn depth(&self) -> u32 {
        let in_a_register = 4 / self.ty.bytes();
        4 * in_a_register * self.b.len() as u32
    }
}

impl Describe for Mma {
    fn describe(&self, to: &mut impl Reader) {
        let depth = self.depth();
        match (self.ty, depth) {
            (F16, 8) => to.needs(&[(Target::Sm75, Version::new(6, 5))]),
            (E4m3, _) => to.needs(&[(Target::Sm89, Version::new(8, 4))]),
            _ => to.needs(&[(Target::Sm80, Version::new(7, 0))]),
        }
        let shape = match depth {
            4 => "m16n8k4",
            8 => "m16n8k8",
            16 => "m16n8k16",
            _ => "m16n8k32",
        };
        let ty = self.ty.name();
        to.name(&["mma.sync.aligned.", shape, ".row.col.f32", ty, ty, ".f32"]);
        to.outputs(&self.d);
        to.inputs(&self.a);
        to.inputs(&self.b);
        to.inputs(&self.c);
    }
}

macro_rules! products {
    ($($(#[$doc:meta])* $name:ident($a:literal, $b:literal) = $ty:expr;)*) => {
        impl KernelBuilder {$(
            $(#[$doc])*
            #[track_caller]
            pub fn $name(&mut self, d: [F32; 4], a: [B32; $a], b: [B32; $b], c: [F32; 4]) {
                self.push(Mma {
                    ty: $ty,
                    d: d.map(Into::into),
                    a: a.map(Into::into).to_vec(),
                    b: b.map(Into::into).to_vec(),
                    c: c.map(Into::into),
                });
            }
        )*}
    };
}

products! {
    /// d = a · b + c of f16, depth 8. d and c may be the same registers.
    mma_m16n8k8_f16(2, 1) = F16;
    /// d = a · b + c of f16, depth 16. d and c may be the same registers.
    mma_m16n8k16_f16(4, 2) = F16;
    /// d = a · b + c of bf16, depth 8. d and c may be the same registers.
    mma_m16n8k8_bf16(2, 1) = Bf16;
    /// d = a · b + c of bf16, depth 16. d and c may be the same registers.
    mma_m16n8k16_bf16(4, 2) = Bf16;
    /// d = a · b + c of tf32 (the bits of floats), depth 4. d and c may be the same registers.
    mma_m16n8k4_tf32(2, 1) = Tf32;
    /// d = a · b + c of tf32 (the bits of floats), depth 8. d and c may be the same registers.
    mma_m16n8k8_tf32(4, 2) = Tf32;
    /// d = a · b + c of e4m3, depth 32. d and c may be the same registers.
    mma_m16n8k32_e4m3(4, 2) = E4m3;
}
