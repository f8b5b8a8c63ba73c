//! How the copy engine and the tensor cores scatter the rows of a tile over the banks of shared
//! memory.
//!
//! ```text
//! byte's place    … 9 8 7 | 6 5 4 | 3 2 1 0
//!                   row     chunk   byte of the chunk of 16
//! 128 bytes       chunk ^= row % 8            pattern of 8 rows of 128 bytes: 1024
//!  64 bytes       bits 5, 4 ^= bits 8, 7      pattern of 8 rows of 64 bytes:   512
//!  32 bytes       bit 4 ^= bit 7              pattern of 8 rows of 32 bytes:   256
//! ```

/// A pattern in which 16-byte chunks of shared memory change places. A tile that is stored with one
/// begins at a multiple of [`pattern_bytes`](Self::pattern_bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// Nothing changes places.
    None,
    /// Rows of 32 bytes.
    Bytes32,
    /// Rows of 64 bytes.
    Bytes64,
    /// Rows of 128 bytes.
    Bytes128,
}

impl Swizzle {
    /// Bytes of a row: the widest box that a copy can write. 16 without a pattern.
    pub const fn row_bytes(self) -> u32 {
        match self {
            Swizzle::None => 16,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        }
    }

    /// Bytes after which the pattern begins again: eight rows.
    pub const fn pattern_bytes(self) -> u32 {
        8 * self.row_bytes()
    }

    /// Where a byte is that would be at `offset` without a pattern. Offsets count from a multiple of
    /// [`pattern_bytes`](Self::pattern_bytes). Applied twice, it gives `offset` again.
    pub const fn offset(self, offset: u32) -> u32 {
        let chunks = self.row_bytes() / 16;
        offset ^ ((offset >> 7) % chunks) << 4
    }
}

#[cfg(test)]
mod tests {
    use super::Swizzle::{self, *};

    fn bit(offset: u32, index: u32) -> u32 {
        offset >> index & 1
    }

    /// The rule as the hardware's manual draws it, bit by bit.
    fn by_bits(swizzle: Swizzle, offset: u32) -> u32 {
        let changed = match swizzle {
            None => 0,
            Bytes32 => bit(offset, 7) << 4,
            Bytes64 => bit(offset, 7) << 4 | bit(offset, 8) << 5,
            Bytes128 => bit(offset, 7) << 4 | bit(offset, 8) << 5 | bit(offset, 9) << 6,
        };
        offset ^ changed
    }

    #[test]
    fn each_pattern_changes_the_bits_that_the_rule_names() {
        for swizzle in [None, Bytes32, Bytes64, Bytes128] {
            for offset in 0..4096 {
                assert_eq!(swizzle.offset(offset), by_bits(swizzle, offset));
                assert_eq!(swizzle.offset(swizzle.offset(offset)), offset);
            }
        }
    }

    #[test]
    fn eight_rows_of_one_chunk_are_in_eight_different_bank_groups() {
        let mut groups: Vec<u32> = (0..8).map(|row| Bytes128.offset(row * 128) % 128).collect();
        groups.sort_unstable();
        assert_eq!(groups, [0, 16, 32, 48, 64, 80, 96, 112]);
    }
}
