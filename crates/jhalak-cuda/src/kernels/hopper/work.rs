//! The work record: what the producer tells the other warps about a tile of rows. It lies in shared
//! memory, and becomes visible when the tile of Q is full.

use jhalak_ptx::Comparison::Ne;
use jhalak_ptx::{B32, KernelBuilder, Pred};

use super::super::sequence::Sequence;

/// A tile of rows of one head.
#[derive(Clone, Copy)]
pub(super) struct Work {
    /// The first query.
    pub(super) first: B32,
    /// The query head.
    pub(super) head: B32,
    /// The sequence's number.
    pub(super) batch: B32,
    /// Blocks of keys that some row sees, from the first to the end.
    pub(super) begin: B32,
    pub(super) end: B32,
    /// Those of them that need no mask, and that come after every row has seen a key.
    pub(super) whole: [B32; 2],
    pub(super) sequence: Sequence,
}

const WORDS: u32 = 16;

impl Work {
    pub(super) const BYTES: u32 = 4 * WORDS;

    /// Writes the record.
    pub(super) fn write(&self, k: &mut KernelBuilder, place: B32) {
        let more = k.mov_b32(1);
        let unused = k.mov_b32(0);
        let Sequence { storage, start_q, start_k, rows_q, rows_k, used_q, used_k } = self.sequence;
        let words = [
            [more, self.first, self.head, self.batch],
            [self.begin, self.end, self.whole[0], self.whole[1]],
            [storage, start_q, start_k, rows_q],
            [rows_k, used_q, used_k, unused],
        ];
        for (n, words) in (0..).zip(words) {
            k.st_vector((place, 16 * n), words);
        }
    }

    /// Writes that there is no more work.
    pub(super) fn write_end(k: &mut KernelBuilder, place: B32) {
        let none = k.mov_b32(0);
        k.st(place, none);
    }

    /// Whether there is a record.
    pub(super) fn is_there(k: &mut KernelBuilder, place: B32) -> Pred {
        let more: B32 = k.ld(place);
        // The same in all lanes, and ptxas knows it.
        let more = k.shfl_idx_b32(more, 0);
        k.setp_u32(Ne, more, 0)
    }

    /// Reads the record.
    pub(super) fn read(k: &mut KernelBuilder, place: B32) -> Self {
        let words: [[B32; 4]; 4] = std::array::from_fn(|n| k.ld_vector((place, 16 * n as u32)));
        let [_, first, head, batch] = words[0];
        let [begin, end, from, to] = words[1].map(|word| k.shfl_idx_b32(word, 0));
        let [storage, start_q, start_k, rows_q] = words[2];
        let [rows_k, used_q, used_k, _] = words[3];
        let sequence = Sequence { storage, start_q, start_k, rows_q, rows_k, used_q, used_k };
        Work { first, head, batch, begin, end, whole: [from, to], sequence }
    }
}
