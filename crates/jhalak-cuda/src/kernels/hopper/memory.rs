//! How shared memory is used. A tile is made of panels, one after the other: 64 columns (128 bytes)
//! of its rows, swizzled.
//!
//! ```text
//! K stages ─ V stages ─ Q slots, through which out leaves;  barriers and work records apart
//! ```

use jhalak_ptx::{B32, KernelBuilder, Swizzle};

use super::class::HopperClass;
use super::ring::Ring;
use super::work::Work;

/// Columns of a panel.
pub(super) const PANEL: u32 = 64;
/// Bytes of a panel's row.
pub(super) const ROW_BYTES: u32 = 128;
pub(super) const SWIZZLE: Swizzle = Swizzle::Bytes128;

/// Bytes of a tile of K, of V, and of Q or out.
pub(super) fn tile_bytes(class: &HopperClass) -> [u32; 3] {
    let attention = &class.attention;
    let panels = |columns: u32| columns.div_ceil(PANEL) * ROW_BYTES;
    let (row, row_v) = (panels(attention.head_dim), panels(attention.head_dim_v));
    let tile = attention.tile;
    [tile.keys * row, tile.keys * row_v, tile.rows * row.max(row_v)]
}

/// Places in shared memory.
pub(super) struct Memory {
    pub(super) k: B32,
    pub(super) v: B32,
    pub(super) q: B32,
    pub(super) k_ring: Ring,
    pub(super) v_ring: Ring,
    pub(super) q_ring: Ring,
    /// At which a tile of V arrives that is cleared before anybody else sees it.
    pub(super) uncleared: B32,
    /// The work records, one for each slot of Q.
    pub(super) work: B32,
}

impl Memory {
    pub(super) fn declare(k: &mut KernelBuilder, class: &HopperClass) -> Self {
        let bytes = tile_bytes(class);
        let stages = class.tuning.stages;
        let [keys, v, q] = std::array::from_fn(|n| {
            let name = ["k_tiles", "v_tiles", "q_tiles"][n];
            let region = k.dynamic_shared(name, bytes[n] * stages[n], SWIZZLE.pattern_bytes());
            k.shared_address(region)
        });
        let [k_ring, v_ring, q_ring] =
            std::array::from_fn(|n| Ring::declare(k, ["k", "v", "q"][n], stages[n]));
        let uncleared = k.static_shared("uncleared", 8, 8);
        let uncleared = k.shared_address(uncleared);
        let work = k.static_shared("work", stages[2] * Work::BYTES, 16);
        let work = k.shared_address(work);
        Memory { k: keys, v, q, k_ring, v_ring, q_ring, uncleared, work }
    }

    /// Makes all barriers. For one thread; the others wait at a barrier of the block.
    pub(super) fn init(&self, k: &mut KernelBuilder, class: &HopperClass) {
        let consumers = class.consumers();
        self.k_ring.init(k, 4 * consumers);
        self.v_ring.init(k, 4 * consumers);
        let leaves = if class.leave() == super::class::Leave::Floats { 4 } else { 1 };
        self.q_ring.init(k, leaves * consumers);
        if class.clears() {
            k.mbarrier_init(self.uncleared, 1);
        }
        k.fence_mbarrier_init();
    }
}
