//! Sums of floats that keep what rounding drops (Knuth, 1969, "The Art of Computer Programming",
//! volume 2, section 4.2.2, theorem B).

use jhalak_ptx::Comparison::Neu;
use jhalak_ptx::{F32, KernelBuilder};

/// A sum, and what was dropped from it.
#[derive(Clone, Copy)]
pub(crate) struct Compensated {
    pub(crate) sum: F32,
    pub(crate) dropped: F32,
}

impl Compensated {
    pub(crate) fn zero(k: &mut KernelBuilder) -> Self {
        Compensated { sum: k.mov_f32(0.0), dropped: k.mov_f32(0.0) }
    }

    /// Adds a number.
    pub(crate) fn add(self, k: &mut KernelBuilder, x: F32) {
        let sum = k.add_f32(self.sum, x);
        let added = k.sub_f32(sum, self.sum);
        let before = k.sub_f32(sum, added);
        let (lost_before, lost_added) = (k.sub_f32(self.sum, before), k.sub_f32(x, added));
        let lost = k.add_f32(lost_before, lost_added);
        k.add_f32_to(self.dropped, self.dropped, lost);
        k.mov_f32_to(self.sum, sum);
    }

    /// Adds another such sum.
    pub(crate) fn add_sum(self, k: &mut KernelBuilder, other: Compensated) {
        self.add(k, other.sum);
        k.add_f32_to(self.dropped, self.dropped, other.dropped);
    }

    /// The value; an infinite sum is infinite.
    pub(crate) fn value(self, k: &mut KernelBuilder) -> F32 {
        let value = k.add_f32(self.sum, self.dropped);
        let unknown = k.setp_f32(Neu, self.dropped, self.dropped);
        k.selp_f32(self.sum, value, unknown)
    }
}
