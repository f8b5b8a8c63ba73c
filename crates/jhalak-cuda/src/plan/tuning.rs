//! The tuned kernels for Hopper: one row for each kind of call.

use HopperOrder::{Every, First};
use HopperSoftmax::{Assumed, Followed};

use crate::kernels::Tile;
use crate::kernels::hopper::{HopperOrder, HopperSoftmax, HopperTuning};

/// A tuned kernel.
struct Tuned {
    /// For D up to this, and Dv.
    dims: [u32; 2],
    /// Whether late rows see more keys than early ones; `None` for either.
    causal: Option<bool>,
    /// For so many keys at most.
    keys: usize,
    /// Rows and keys of a tile.
    tile: [u32; 2],
    /// Tiles of K, V and Q in shared memory.
    stages: [u32; 3],
    softmax: HopperSoftmax,
    order: HopperOrder,
}

const ANY: usize = usize::MAX;

/// The first row that fits a call is its kernel. Figures are TFLOP/s of bf16 on an H200, of the
/// prototype from which the row is taken, at 512, 1k, 2k, 4k, 8k, 16k keys where not said otherwise.
const TABLE: [Tuned; 6] = [
    // 276 358 425 at 512, 1k, 2k; 192 rows: 235 310 at 512, 1k.
    tuned([64, 64], Some(true), 2048, [128, 128], [2, 3, 2], Assumed, First),
    // 402 430 501 515 544 548, causal 454 507 525 from 4k on. Order of the first block only: 4 to
    // 8 % slower. 128 × 192: 6 to 11 % slower. Third stages: 2 to 13 % slower.
    tuned([64, 64], None, ANY, [192, 128], [2, 2, 2], Followed, Every),
    // 531 608 651 678 697 711, causal 356 452 560 633 671 693. Without an assumed maximum
    // 537 594 618 636 639 646. 192 × 80: 442 553 645 654 685 706.
    tuned([128, 128], None, ANY, [128, 128], [2, 3, 2], Assumed, First),
    // Not measured. Two slots of Q do not fit.
    tuned([192, 128], None, ANY, [128, 128], [2, 2, 1], Assumed, First),
    tuned([192, 192], None, ANY, [128, 112], [2, 2, 1], Assumed, First),
    // 538 623 679 708 740 753, causal 353 455 567 639 697 719, with results staged in V's tiles;
    // staged elsewhere 493 599 664 705 730 750. 64 keys: 3 to 7 % slower for causal from 4k on.
    tuned([256, 256], None, ANY, [128, 80], [2, 2, 1], Assumed, First),
];

const fn tuned(
    dims: [u32; 2],
    causal: Option<bool>,
    keys: usize,
    tile: [u32; 2],
    stages: [u32; 3],
    softmax: HopperSoftmax,
    order: HopperOrder,
) -> Tuned {
    Tuned { dims, causal, keys, tile, stages, softmax, order }
}

/// The tile and the pipeline for D and Dv up to 256.
pub(super) fn hopper(dims: [u32; 2], causal: bool, keys: usize) -> (Tile, HopperTuning) {
    let fits = |row: &&Tuned| {
        dims[0] <= row.dims[0]
            && dims[1] <= row.dims[1]
            && row.causal.is_none_or(|only| only == causal)
            && keys <= row.keys
    };
    let row = TABLE.iter().find(fits).expect("the last row is for all");
    let [rows, keys] = row.tile;
    let tile = Tile { rows, keys, warps: 4 * (rows / 64 + 1) };
    let Tuned { stages, softmax, order, .. } = *row;
    (tile, HopperTuning { stages, softmax, order })
}
