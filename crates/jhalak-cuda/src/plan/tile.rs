//! How large a block's work is, by class.

use jhalak_ptx::Target;

use crate::kernels::portable::{backward_shared_bytes, shared_bytes};
use crate::kernels::{BackwardClass, Element, ForwardClass, Tile};

const fn tile(rows: u32, keys: u32, warps: u32) -> Tile {
    Tile { rows, keys, warps }
}

/// The tile of a forward class, whose own tile is not looked at, for so many rows: the first of its
/// list that fits the shared memory.
///
/// # Panics
/// If not even the smallest fits, which no head dimension up to 256 does.
pub(super) fn forward(class: &ForwardClass, shared: u32, rows: usize) -> Tile {
    let fits = |tile: &&Tile| shared_bytes(&ForwardClass { tile: **tile, ..*class }) <= shared;
    let mut list = short(class, rows).iter().chain(candidates(class));
    *list.find(fits).expect("the smallest tile fits every device")
}

/// Few rows, where all the time goes into reading the keys: small blocks, many at once.
fn short(class: &ForwardClass, rows: usize) -> &'static [Tile] {
    let widest = class.head_dim.max(class.head_dim_v);
    match (class.element, rows) {
        // Copies go through registers, and few threads have few of them.
        (Element::F16, ..=16) if class.target == Target::Sm75 && widest <= 128 => {
            const { &[tile(16, 32, 1)] }
        }
        (Element::F16, _) if class.target == Target::Sm75 => &[],
        (Element::F32, ..=16) => const { &[tile(16, 32, 1)] },
        (_, ..=16) => const { &[tile(16, 64, 1), tile(16, 32, 1)] },
        (Element::F32, ..=32) => const { &[tile(32, 32, 2)] },
        (_, ..=32) => const { &[tile(32, 64, 2), tile(32, 32, 2)] },
        _ => &[],
    }
}

fn candidates(class: &ForwardClass) -> &'static [Tile] {
    let widest = class.head_dim.max(class.head_dim_v);
    let scores = class.scores;
    // Scores that need registers of their own leave none for a second fragment of rows.
    let busy = scores.bias.is_some() || scores.mask || scores.alibi || class.dropout;
    match (class.element, widest) {
        (Element::F32, ..=64) => const { &[tile(64, 32, 4)] },
        (Element::F32, ..=128) => const { &[tile(64, 32, 4), tile(32, 32, 2)] },
        (Element::F32, _) => {
            const { &[tile(64, 32, 4), tile(32, 32, 2), tile(16, 32, 1), tile(16, 16, 1)] }
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Access, Bounds, Lengths, Scores, Store};
    use crate::plan::Limits;

    #[test]
    fn every_tile_fits_the_shared_memory_of_its_architecture() {
        let elements = [Element::F16, Element::F32];
        let dims = (1..=256).flat_map(|d| [(d, d), (d, 256), (256, d), (1, d)]);
        for (head_dim, head_dim_v) in dims {
            for (target, element) in
                [Target::Sm75, Target::Sm80].into_iter().flat_map(|t| elements.map(|e| (t, e)))
            {
                let (shared, tile) =
                    (Limits::of(target).shared_bytes, Tile { rows: 0, keys: 0, warps: 0 });
                let class = ForwardClass {
                    target,
                    element,
                    out: element,
                    head_dim,
                    head_dim_v,
                    access: Access::Elements,
                    tile,
                    grouped: false,
                    split: false,
                    lengths: Lengths::default(),
                    bounds: Bounds::default(),
                    scores: Scores::default(),
                    sinks: None,
                    dropout: false,
                };
                for rows in [1, 20, 1000] {
                    let tile = forward(&class, shared, rows);
                    assert!(shared_bytes(&ForwardClass { tile, ..class }) <= shared, "{class:?}");
                }
                let tile = Tile { rows: 0, keys: 0, warps: 0 };
                let class = BackwardClass {
                    target,
                    element,
                    dout: element,
                    head_dim,
                    head_dim_v,
                    access: Access::Elements,
                    tile,
                    lengths: Lengths::default(),
                    bounds: Bounds::default(),
                    scores: Scores::default(),
                    dropout: false,
                    dbias: false,
                    ordered: false,
                    dq: true,
                    dk: Some(Store::Add),
                    dv: Some(Store::Add),
                };
                let tile = backward(&class, shared);
                let used = backward_shared_bytes(&BackwardClass { tile, ..class });
                assert!(used <= shared, "{class:?}");
            }
        }
    }
}
