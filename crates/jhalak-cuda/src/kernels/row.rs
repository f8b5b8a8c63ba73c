//! Which query and head a row of a block's tile is.

use jhalak_ptx::{B32, KernelBuilder};

/// A query of a head.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// The query, in its sequence.
    pub(crate) i: B32,
    /// The query head.
    pub(crate) head: B32,
}

/// The rows of a tile: queries of one head; or, grouped, all heads of a group for one query, then
/// for the next.
#[derive(Clone, Copy)]
pub(crate) struct TileRows {
    /// The tile's first row.
    pub(crate) first: B32,
    /// The first query head.
    pub(crate) head: B32,
    /// Heads of a group, if grouped.
    pub(crate) group: Option<B32>,
}

impl TileRows {
    /// Row `index` of the tile.
    pub(crate) fn row(&self, k: &mut KernelBuilder, index: B32) -> Row {
        let index = k.add_u32(self.first, index);
        match self.group {
            None => Row { i: index, head: self.head },
            Some(group) => {
                let (i, more) = (k.div_u32(index, group), k.rem_u32(index, group));
                Row { i, head: k.add_u32(self.head, more) }
            }
        }
    }

    /// The query of the tile's first row.
    pub(crate) fn first_query(&self, k: &mut KernelBuilder) -> B32 {
        match self.group {
            None => self.first,
            Some(group) => k.div_u32(self.first, group),
        }
    }
}
