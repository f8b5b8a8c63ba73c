//! The named barriers of a block, and the order in which warpgroups issue products.

use jhalak_ptx::Comparison::Eq;
use jhalak_ptx::{B32, KernelBuilder, Pred};

use super::class::HopperOrder;

/// Barriers 1 to 3: the turn of a warpgroup. Two of them meet there.
const TURN: u32 = 1;
const TURN_THREADS: u32 = 256;
/// Barriers 4 to 6: a warpgroup meets itself.
pub(super) const GROUP: u32 = 4;
/// Barriers 7 to 9: a warpgroup's results are ready for the warp that stores them.
pub(super) const READY: u32 = 7;
pub(super) const READY_THREADS: u32 = 128 + 32;

/// A warpgroup's place in the order.
pub(super) struct Turns {
    order: HopperOrder,
    mine: B32,
    next: B32,
    is_first: Pred,
    is_last: Pred,
    /// Whether it still waits for its turn in this tile, and tells the next one.
    waits: Pred,
    tells: Pred,
}

impl Turns {
    pub(super) fn new(k: &mut KernelBuilder, order: HopperOrder, index: B32, groups: u32) -> Self {
        let mine = k.add_u32(index, TURN);
        let (is_first, is_last) = (k.setp_u32(Eq, index, 0), k.setp_u32(Eq, index, groups - 1));
        let next = k.add_u32(mine, 1);
        let next = k.selp_b32(TURN, next, is_last);
        let turns = Turns {
            order,
            mine,
            next,
            is_first,
            is_last,
            waits: k.register(),
            tells: k.register(),
        };
        if order == HopperOrder::Every {
            k.when(is_last, |k| k.bar_arrive(TURN, TURN_THREADS));
        }
        turns
    }

    /// A tile begins.
    pub(super) fn begin(&self, k: &mut KernelBuilder) {
        if self.order == HopperOrder::First {
            k.not_pred_to(self.waits, self.is_first);
            k.not_pred_to(self.tells, self.is_last);
        }
    }

    /// Waits for this warpgroup's turn.
    pub(super) fn wait(&self, k: &mut KernelBuilder) {
        match self.order {
            HopperOrder::First => {
                k.when(self.waits, |k| k.bar_sync(self.mine, TURN_THREADS));
                k.and_pred_to(self.waits, self.waits, false);
            }
            HopperOrder::Every => k.bar_sync(self.mine, TURN_THREADS),
        }
    }

    /// It is the next one's turn.
    pub(super) fn pass(&self, k: &mut KernelBuilder) {
        match self.order {
            HopperOrder::First => {
                k.when(self.tells, |k| k.bar_arrive(self.next, TURN_THREADS));
                k.and_pred_to(self.tells, self.tells, false);
            }
            HopperOrder::Every => k.bar_arrive(self.next, TURN_THREADS),
        }
    }

    /// There is no more work: the last turn is taken.
    pub(super) fn end(&self, k: &mut KernelBuilder) {
        if self.order == HopperOrder::Every {
            k.when(self.is_first, |k| k.bar_sync(TURN, TURN_THREADS));
        }
    }
}
