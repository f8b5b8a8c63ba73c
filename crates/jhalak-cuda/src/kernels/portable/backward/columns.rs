//! How warps share the columns of a product.

use jhalak_ptx::{B32, KernelBuilder};

use super::super::super::element::Element;
use super::super::copy::padded;

/// One warp's columns. Where they cannot be shared evenly, a warp also computes columns of the one
/// before it, which it then keeps to itself.
pub(super) struct Columns {
    /// How many.
    pub(super) count: u32,
    /// The first one.
    pub(super) first: B32,
    /// The first one that is the warp's own.
    pub(super) own: B32,
}

impl Columns {
    /// The columns of part `part` of `parts`.
    pub(super) fn new(
        k: &mut KernelBuilder,
        element: Element,
        head_dim: u32,
        parts: u32,
        part: B32,
    ) -> Self {
        // What one load of a right operand serves.
        let unit = if element == Element::F32 { 8 } else { 16 };
        let all = padded(element, head_dim);
        let count = (all / unit).div_ceil(parts) * unit;
        let own = k.mul_lo_u32(part, count);
        Columns { count, first: k.min_u32(own, all - count), own }
    }

    /// Fragments of 8 columns.
    pub(super) fn fragments(&self) -> usize {
        (self.count / 8) as usize
    }
}
