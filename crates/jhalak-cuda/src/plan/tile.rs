//! How large a block's work is, by class.

use jhalak_ptx::Target;

use crate::kernels::portable::{backward_shared_bytes, shared_bytes};
use crate::kernels::{BackwardClass, Element, ForwardClass, Tile};

const fn tile(rows: u32, keys: u32, warps: u32) -> Tile {
    Tile { rows, keys, warps }
}

/// The tile of a forward class, whose own tile is not looked at: the first of its list that fits
/// the shared memory.
///
/// # Panics
/// If not even the smallest fits, which no head dimension up to 256 does.
pub(super) fn forward(class: &ForwardClass, shared: u32) -> Tile {
    let fits = |tile: &&Tile| shared_bytes(&ForwardClass { tile: **tile, ..*class }) <= shared;
    let list = candidates(class);
    *list.iter().find(fits).expect("the smallest tile fits every device")
}

fn candidates(class: &ForwardClass) -> &'static [Tile] {
    let widest = class.head_dim.max(class.head_dim_v);
    let scores = class.scores;
    // Scores that need registers of their own leave none for a second fragment of rows.
    let busy = scores.bias.is_some() || scores.mask || scores.alibi || class.dropout;
    match (class.element, widest) {
        (Element::F32, ..=64) => const { &[tile(64, 32, 4)] },
        (Element::F32, ..=128) => const { &[tile(64, 32, 4), tile(32, 32, 2)] },
        (Element::F32, _) => const { &[tile(64, 32, 4), tile(32, 32, 2), tile(16, 32, 1)] },
        (_, ..=128) if class.target == Target::Sm75 => const { &[tile(64, 64, 4)] },
        (_, _) if class.target == Target::Sm75 => const { &[tile(32, 32, 2)] },
        (_, ..=64) if busy => const { &[tile(64, 128, 4), tile(64, 64, 4)] },
        (_, ..=64) => const { &[tile(128, 128, 4), tile(128, 64, 4)] },
        (_, ..=128) if busy => const { &[tile(64, 64, 4)] },
        (_, ..=128) => const { &[tile(128, 64, 4)] },
        (_, _) if busy => const { &[tile(64, 64, 4), tile(64, 32, 4)] },
        (_, _) => const { &[tile(128, 64, 8), tile(64, 64, 4), tile(64, 32, 4)] },
    }
}

/// The tile of a backward class, whose own tile is not looked at: the first of its list that fits
/// the shared memory.
///
/// # Panics
/// If not even the smallest fits, which no head dimension up to 256 does.
pub(super) fn backward(class: &BackwardClass, shared: u32) -> Tile {
    let fits =
        |tile: &&Tile| backward_shared_bytes(&BackwardClass { tile: **tile, ..*class }) <= shared;
    let list = backward_candidates(class);
    *list.iter().find(fits).expect("the smallest tile fits every device")
}

fn backward_candidates(class: &BackwardClass) -> &'static [Tile] {
    match (class.element, class.head_dim.max(class.head_dim_v)) {
        (Element::F32, ..=64) => const { &[tile(32, 64, 4)] },
        (Element::F32, ..=128) => const { &[tile(32, 64, 8), tile(32, 32, 4), tile(16, 32, 4)] },
        (Element::F32, _) => const { &[tile(32, 32, 8), tile(16, 16, 4), tile(8, 16, 4)] },
        (_, ..=64) => const { &[tile(64, 128, 8), tile(64, 64, 4)] },
        (_, ..=128) => const { &[tile(64, 128, 8), tile(64, 64, 4), tile(32, 64, 4)] },
        (_, _) => const { &[tile(64, 64, 8), tile(32, 32, 4), tile(16, 32, 4)] },
    }
}
