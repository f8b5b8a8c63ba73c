//! How matrices lie in shared memory for wgmma and the copy engine (PTX ISA, "Matrix Descriptor
//! Format", "Swizzling modes").
//!
//! ```text
//! rows of one pitch, 32, 64 or 128 bytes: the swizzle's width. 16-byte pieces of a row are exchanged
//! by the row's number, so that a column of pieces falls into different banks:
//!
//!     128 bytes: piece p of row r is at place p ^ (r % 8)
//!      64 bytes:                           p ^ (r / 2 % 4)
//!      32 bytes:                           p ^ (r / 4 % 2)
//! ```
//!
//! The copy engine writes boxes so, and wgmma reads them so, if both are told the same swizzle.

use crate::KernelBuilder;
use crate::address::{Base, SharedAddress};
use crate::instruction::moves::AddressOf;
use crate::register::{B32, B64, TypedRegister};

/// How 16-byte pieces of rows are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// Not at all.
    None,
    /// Among 2 pieces; rows of 32 bytes.
    Bytes32,
    /// Among 4 pieces; rows of 64 bytes.
    Bytes64,
    /// Among 8 pieces; rows of 128 bytes.
    Bytes128,
}

impl Swizzle {
    /// Bytes of a row; without a swizzle, of a piece.
    pub fn width(self) -> u32 {
        match self {
            Swizzle::None => 16,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        }
    }

    /// Where the byte that would be at `offset` is, counted from a multiple of
    /// [`pattern`](Self::pattern).
    pub fn place(self, offset: u32) -> u32 {
        match self {
            Swizzle::None => offset,
            Swizzle::Bytes32 => offset ^ (offset >> 3 & 0x10),
            Swizzle::Bytes64 => offset ^ (offset >> 3 & 0x30),
            Swizzle::Bytes128 => offset ^ (offset >> 3 & 0x70),
        }
    }

    /// Bytes after which the exchange repeats: what a matrix should be aligned to.
    pub fn pattern(self) -> u32 {
        match self {
            Swizzle::None => 16,
            _ => 8 * self.width(),
        }
    }

    fn code(self) -> u64 {
        match self {
            Swizzle::None => 0,
            Swizzle::Bytes128 => 1,
            Swizzle::Bytes64 => 2,
            Swizzle::Bytes32 => 3,
        }
    }
}

/// A matrix in shared memory, as a wgmma descriptor describes it but for its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixLayout {
    /// How its pieces are exchanged.
    pub swizzle: Swizzle,
    /// Bytes between neighbours of the first kind (LBO). Swizzled and K-major: not used, 16 will do.
    /// Swizzled and transposed: from a panel of one row width to the next.
    pub leading: u32,
    /// Bytes between neighbours of the second kind (SBO): from 8 rows to the next 8.
    pub stride: u32,
}

impl MatrixLayout {
    /// A K-major matrix: rows of `swizzle`'s width, one after the other.
    pub fn k_major(swizzle: Swizzle) -> Self {
        MatrixLayout { swizzle, leading: 16, stride: 8 * swizzle.width() }
    }

    /// A transposed matrix, in panels of `swizzle`'s width, each of `depth` rows (the summed
    /// dimension), one after the other.
    pub fn transposed(swizzle: Swizzle, depth: u32) -> Self {
        let width = swizzle.width();
        MatrixLayout { swizzle, leading: depth * width, stride: 8 * width }
    }

    /// The descriptor's bits without the address, or the rule that is broken.
    fn bits(self) -> Result<u64, &'static str> {
        let field = |bytes: u32| {
            let fits = bytes.is_multiple_of(16) && bytes >> 4 < 1 << 14;
            fits.then_some(u64::from(bytes >> 4))
        };
        let rule = "a descriptor's distances are multiples of 16 bytes, below 2^18";
        let (leading, stride) = (field(self.leading).ok_or(rule)?, field(self.stride).ok_or(rule)?);
        Ok(leading << 16 | stride << 32 | self.swizzle.code() << 62)
    }
}

impl KernelBuilder {
    /// The descriptor of a matrix that begins at `place`, a multiple of its swizzle's pattern. To go
    /// on along a row or to the next panel, [`advance`](Self::advance).
    #[track_caller]
    pub fn descriptor(&mut self, place: impl Into<SharedAddress>, layout: MatrixLayout) -> B64 {
        let bits = layout.bits();
        self.declare(bits.is_ok(), format!("{layout:?}"), bits.err().unwrap_or_default());
        let address = self.number_of(place.into());
        // Bits 4 to 17 of the address.
        let address = self.and_b32(address, 0x3_FFF0);
        let address = self.shr_u32(address, 4);
        let address = self.cvt_u64_u32(address);
        self.or_b64(address, bits.unwrap_or_default())
    }

    /// The descriptor of the same matrix, `bytes` (a multiple of 16) further.
    #[track_caller]
    pub fn advance(&mut self, descriptor: B64, bytes: u32) -> B64 {
        let whole = bytes.is_multiple_of(16);
        self.declare(
            whole,
            format!("{bytes} bytes"),
            "a descriptor advances by multiples of 16 bytes",
        );
        self.add_u64(descriptor, bytes >> 4)
    }

    /// A place as a number.
    #[track_caller]
    fn number_of(&mut self, SharedAddress(place): SharedAddress) -> B32 {
        match place.base {
            Base::Register(base) => {
                let base = B32::from_index(base.index);
                if place.offset == 0 { base } else { self.add_u32(base, place.offset) }
            }
            Base::Shared(_) | Base::Parameter(_) => {
                let d: B32 = self.register();
                self.push(AddressOf { d: d.into(), address: place });
                d
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swizzle_exchanges_the_pieces_of_a_row_by_the_rows_number() {
        for (swizzle, exchange) in [
            (Swizzle::None, (|_| 0) as fn(u32) -> u32),
            (Swizzle::Bytes32, |row| row / 4 % 2),
            (Swizzle::Bytes64, |row| row / 2 % 4),
            (Swizzle::Bytes128, |row| row % 8),
        ] {
            let width = swizzle.width();
            for row in 0..32 {
                for byte in 0..width {
                    let piece = (byte / 16) ^ exchange(row);
                    let expected = row * width + piece * 16 + byte % 16;
                    assert_eq!(swizzle.place(row * width + byte), expected, "{swizzle:?}");
                }
            }
        }
    }

    #[test]
    fn a_descriptor_has_its_fields_in_place() {
        let keys = MatrixLayout::k_major(Swizzle::Bytes128);
        assert_eq!(keys.bits(), Ok(1 << 62 | 64 << 32 | 1 << 16));
        let values = MatrixLayout::transposed(Swizzle::Bytes64, 96);
        assert_eq!(values.bits(), Ok(2 << 62 | 32 << 32 | 384 << 16));
        for wrong in [8, 1 << 18] {
            assert!(MatrixLayout { leading: wrong, ..keys }.bits().is_err());
            assert!(MatrixLayout { stride: wrong, ..keys }.bits().is_err());
        }
    }
}
