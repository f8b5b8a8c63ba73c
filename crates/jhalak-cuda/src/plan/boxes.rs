//! Tensors of rows as the copy engine sees them.

use jhalak_ptx::{Swizzle, TensorElement, TensorMapSpec};

use super::place::Place;
use crate::driver::{self, TensorMapType, TiledTensor};
use crate::kernels::Axis;

/// Columns of a box: 128 bytes of 16-bit numbers.
const COLUMNS: u32 = 64;
/// What stands for a stride that is never used.
const ANY_STRIDE: i64 = 16;

/// A tensor of 16-bit numbers and the box of it that one copy moves: some rows of one head and
/// sequence. Dimensions are columns, rows, heads, sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorBox {
    address: u64,
    dims: [u64; 4],
    /// Bytes, of all dimensions but the first.
    strides: [u64; 3],
    tile: [u32; 4],
}

impl TensorBox {
    /// Of a tensor that [takes boxes](Place::takes_boxes), so many rows at once.
    pub(super) fn new(place: &Place, rows: u32) -> Self {
        debug_assert_eq!(place.element_bytes(), 2);
        let stride = |axis| {
            let used = place.size(axis) > 1;
            (if used { place.stride(axis) } else { ANY_STRIDE }).cast_unsigned()
        };
        TensorBox {
            address: place.address,
            dims: [Axis::Column, Axis::Row, Axis::Head, Axis::Batch]
                .map(|axis| place.size(axis) as u64),
            strides: [Axis::Row, Axis::Head, Axis::Batch].map(stride),
            tile: [COLUMNS, rows, 1, 1],
        }
    }

    /// The tensor's address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// For the emulator. Bits are copied as they are, whatever 16-bit numbers they are.
    pub fn spec(&self) -> TensorMapSpec {
        let element = TensorElement::Bf16;
        TensorMapSpec::new(element, &self.dims, &self.strides, &self.tile, Swizzle::Bytes128)
    }

    /// For the driver.
    pub(crate) fn tiled(&self) -> TiledTensor<'_> {
        TiledTensor {
            dtype: TensorMapType::Bf16,
            address: self.address,
            dims: &self.dims,
            strides: &self.strides,
            tile: &self.tile,
            swizzle: driver::Swizzle::Bytes128,
            fill_nan: false,
        }
    }
}
