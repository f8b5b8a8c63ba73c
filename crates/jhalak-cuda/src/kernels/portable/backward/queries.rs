//! The queries that see a tile of keys, and the loop over them.

use jhalak_ptx::Comparison::{Eq, Lt};
use jhalak_ptx::{B32, KernelBuilder, Pred};

use super::super::any_products::AnyProducts;
use super::copies::Copies;
use super::dq::QueryGradients;
use super::gradients::ScoreGradients;
use super::turns::Turns;
use super::{Columns, Context, KeyGradients};
use crate::kernels::softmax::Fragments;

/// Tiles of queries, from the first to the end.
pub(super) struct QueryRange {
    pub(super) begin: B32,
    pub(super) end: B32,
    pub(super) any: Pred,
}

impl QueryRange {
    /// Those that see keys of the tile that begins with `first`.
    pub(super) fn new(k: &mut KernelBuilder, context: &Context<'_>, first: B32) -> Self {
        let tile = context.class.tile;
        let end = k.add_u32(first, tile.keys);
        let [begin, end] = context.visible.queries(k, [first, end], context.sequence.used_q);
        let any = k.setp_s32(Lt, begin, end);
        let end = k.add_u32(end, tile.rows - 1);
        QueryRange { begin: k.div_u32(begin, tile.rows), end: k.div_u32(end, tile.rows), any }
    }
}

impl Context<'_> {
    /// Takes the keys from `first` on through the queries that see them.
    pub(super) fn queries(
        &self,
        k: &mut KernelBuilder,
        first: B32,
        range: &QueryRange,
        sums: &KeyGradients,
    ) {
        let class = self.class;
        let copies = Copies::new(k, self);
        let products = Products::new(k, self, sums);
        let gradients = ScoreGradients::new(k, self, first);
        let dq = class.dq.then(|| QueryGradients::new(k, self));
        let turns = class.ordered.then(|| Turns::new(k, self, first));
        let mut fragments = || -> Fragments {
            let columns = class.tile.rows / 8;
            let row = |k: &mut KernelBuilder| (0..columns).map(|_| k.registers()).collect();
            (0..class.key_fragments()).map(|_| row(k)).collect()
        };
        let (p, ds) = (fragments(), fragments());

        let (head, tile) = (k.mov_b32(self.block.head), k.mov_b32(range.begin));
        let end_head = k.add_u32(head, self.block.group);
        let query = k.mul_lo_u32(tile, class.tile.rows);
        copies.begin_keys(k, self, first);
        copies.begin(k, self, head, query);
        k.loop_(|k, this| {
            copies.finish(k, self);
            k.bar_sync_all();
            products.of_keys.scores(k, &p);
            if class.needs_scores() {
                products.of_values.scores(k, &ds);
            }
            gradients.apply(k, self, head, query, &p, &ds);
            if let Some(dq) = &dq {
                dq.store_scores(k, self, &ds);
            }
            if let Some((_, dv)) = &sums.dv {
                products.of_keys.values(k, &p, dv);
            }
            if let Some((_, dk)) = &sums.dk {
                products.of_values.values(k, &ds, dk);
            }
            if let Some(turns) = &turns {
                turns.begin(k, self, head, tile);
            }
            k.bar_sync_all();
            let next = k.add_u32(tile, 1);
            let wraps = k.setp_u32(Eq, next, range.end);
            let next = k.selp_b32(range.begin, next, wraps);
            let step = k.selp_b32(1, 0, wraps);
            let next_head = k.add_u32(head, step);
            let next_query = k.mul_lo_u32(next, class.tile.rows);
            let more = k.setp_u32(Lt, next_head, end_head);
            k.if_(more, |k| copies.begin(k, self, next_head, next_query));
            if let Some(dq) = &dq {
                dq.add(k, self, head, query);
            }
            k.break_if(this, !more);
            k.mov_b32_to(tile, next);
            k.mov_b32_to(head, next_head);
            k.mov_b32_to(query, next_query);
        });
        if let Some(turns) = &turns {
            turns.end(k);
        }
    }
}

/// The four products of a warp's keys: of k with q, and of weights with dout; of v with dout, and of
/// the gradients of scores with q.
struct Products {
    of_keys: AnyProducts,
    of_values: AnyProducts,
}

impl Products {
    fn new(k: &mut KernelBuilder, context: &Context<'_>, sums: &KeyGradients) -> Self {
        let (class, tiles) = (context.class, &context.tiles);
        let mut products = |dims, keys, queries, others, sums: &Option<(Columns, Fragments)>| {
            let others = match sums {
                Some((columns, _)) => k.mad_lo_u32(columns.first, class.element.bytes(), others),
                None => others,
            };
            let tiles = [keys, queries, others];
            AnyProducts::new(k, &context.thread, class.element, dims, context.warp_key, tiles)
        };
        let (dim, dim_v) = (class.head_dim, class.head_dim_v);
        Products {
            of_keys: products([dim, dim_v], tiles.keys, tiles.q, tiles.dout, &sums.dv),
            of_values: products([dim_v, dim], tiles.v, tiles.dout, tiles.q, &sums.dk),
        }
    }
}
