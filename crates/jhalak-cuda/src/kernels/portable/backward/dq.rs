//! dQ += dS·K: the gradients of a tile's scores go through shared memory, and their product with
//! the keys is added to a workspace of floats.

use jhalak_ptx::Comparison::{Ge, Lt, Neu};
use jhalak_ptx::{AtomicOrder, B32, B64, Connective, F32, KernelBuilder, Pred, Scope};

use super::super::super::element::Element;
use super::super::super::parameters::Tensor;
use super::super::super::row::Row;
use super::super::super::softmax::{Fragments, row_of};
use super::super::copy::{padded, pitch};
use super::super::products::multiply;
use super::Context;
use super::columns::Columns;

/// A thread's part of dQ.
pub(super) struct QueryGradients {
    /// Where the thread's first gradient of a score goes.
    store: B32,
    product: Product,
}

enum Product {
    Tensor(TensorProduct),
    F32,
}

/// A warp's fragments of dQ.
struct TensorProduct {
    /// Fragments of 16 queries.
    fragments: usize,
    /// The warp's first query of a tile.
    row: B32,
    columns: Columns,
    /// Where the lane's rows begin, for ldmatrix.
    ds: B32,
    keys: B32,
}

impl QueryGradients {
    pub(super) fn new(k: &mut KernelBuilder, context: &Context<'_>) -> Self {
        let (class, thread) = (context.class, &context.thread);
        let element = class.element;
        let key = k.add_u32(context.warp_key, thread.row);
        let store = k.mad_lo_u32(key, pitch(element, class.tile.rows), context.tiles.ds);
        let store = k.mad_lo_u32(thread.column, element.bytes(), store);
        let product = match element {
            Element::F32 => Product::F32,
            _ => Product::Tensor(TensorProduct::new(k, context)),
        };
        QueryGradients { store, product }
    }

    /// Stores the warp's gradients of scores. Warps that share keys have the same ones.
    pub(super) fn store_scores(
        &self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        ds: &Fragments,
    ) {
        let class = context.class;
        let element = class.element;
        let pitch = pitch(element, class.tile.rows);
        let store = |k: &mut KernelBuilder| {
            for r in 0..2 * ds.len() {
                for (n, values) in row_of(ds, r).chunks(2).enumerate() {
                    let offset = 8 * (r as u32 * pitch + n as u32 * element.bytes());
                    let (low, high) = (values[0], values[1]);
                    if element == Element::F32 {
                        k.st_vector((self.store, offset), [low, high]);
                    } else {
                        let pair = element.pack(k, low, high);
                        k.st((self.store, offset), pair);
                    }
                }
            }
        };
        if class.tile.warps == class.key_warps() {
            store(k);
        } else {
            let first = k.setp_u32(Lt, context.part, 1);
            k.if_(first, store);
        }
    }

    /// Adds the product for the queries of a head from `first` on.
    pub(super) fn add(&self, k: &mut KernelBuilder, context: &Context<'_>, head: B32, first: B32) {
        match &self.product {
            Product::Tensor(product) => product.add(k, context, head, first),
            Product::F32 => add_f32(k, context, head, first),
        }
    }
}

impl TensorProduct {
    fn new(k: &mut KernelBuilder, context: &Context<'_>) -> Self {
        let (class, thread) = (context.class, &context.thread);
        let (element, tile) = (class.element, class.tile);
        let row_warps = tile.warps.min(tile.rows / 16);
        let fragments = tile.rows / (16 * row_warps);
        let (warp, part) = (k.rem_u32(thread.warp, row_warps), k.div_u32(thread.warp, row_warps));
        let row = k.mul_lo_u32(warp, 16 * fragments);
        let columns = Columns::new(k, element, class.head_dim, tile.warps / row_warps, part);
        // Matrices of dS: 8 keys and 8 queries, their next 8 queries, then the same of 8 more keys.
        let high = k.shr_u32(thread.lane, 4);
        let key = k.and_b32(thread.lane, 7);
        let key = k.mad_lo_u32(high, 8, key);
        let ds = k.mad_lo_u32(key, pitch(element, tile.rows), context.tiles.ds);
        let query = k.bfe_u32(thread.lane, 3, 1);
        let query = k.mad_lo_u32(query, 8, row);
        let ds = k.mad_lo_u32(query, element.bytes(), ds);
        let low = k.and_b32(thread.lane, 15);
        let keys = k.mad_lo_u32(low, pitch(element, class.head_dim), context.tiles.keys);
        let column = k.mad_lo_u32(high, 8, columns.first);
        let keys = k.mad_lo_u32(column, element.bytes(), keys);
        TensorProduct { fragments: fragments as usize, row, columns, ds, keys }
    }

    fn add(&self, k: &mut KernelBuilder, context: &Context<'_>, head: B32, first: B32) {
        let sums: Fragments = (0..self.fragments)
            .map(|_| (0..self.columns.fragments()).map(|_| k.registers()).collect())
            .collect();
        self.multiply(k, context, &sums);
        let query = k.add_u32(first, self.row);
        let query = k.add_u32(query, context.thread.row);
        let column = k.add_u32(self.columns.first, context.thread.column);
        for r in 0..2 * self.fragments {
            let row = Row { i: k.add_u32(query, 8 * r as u32), head };
            let used = k.setp_u32(Lt, row.i, context.sequence.used_q);
            let sums = row_of(&sums, r);
            let broken = is_broken(k, &sums);
            k.if_(broken, |k| self.sum_again(k, context, r, &sums));
            let place = place(k, context, &row, column);
            for (n, values) in sums.chunks(2).enumerate() {
                let own = k.add_u32(column, 8 * n as u32);
                let own = k.setp_u32_with(Ge, own, self.columns.own, Connective::And, used);
                add_to(k, own, place, 32 * n as u32, values);
            }
        }
    }

    /// Sums of the thread's row `r` without the keys that it does not see: 0 · ∞ is NaN.
    fn sum_again(&self, k: &mut KernelBuilder, context: &Context<'_>, r: usize, sums: &[F32]) {
        let (class, thread) = (context.class, &context.thread);
        let (element, bytes) = (class.element, class.element.bytes());
        let query = k.add_u32(self.row, thread.row);
        let query = k.add_u32(query, 8 * r as u32);
        let ds = k.mad_lo_u32(query, bytes, context.tiles.ds);
        let column = k.add_u32(self.columns.first, thread.column);
        let keys = k.mad_lo_u32(column, bytes, context.tiles.keys);
        for &sum in sums {
            k.mov_f32_to(sum, 0.0);
        }
        k.for_range(0, class.tile.keys, 1, |k, key| {
            let ds = k.mad_lo_u32(key, pitch(element, class.tile.rows), ds);
            let keys = k.mad_lo_u32(key, pitch(element, class.head_dim), keys);
            let gradient = element.load(k, ds);
            let seen = k.setp_f32(Neu, gradient, 0.0);
            k.if_(seen, |k| {
                for (n, &sum) in sums.iter().enumerate() {
                    let value = element.load(k, (keys, (8 * (n / 2) + n % 2) as u32 * bytes));
                    k.fma_f32_to(sum, gradient, value, sum);
                }
            });
        });
    }

    fn multiply(&self, k: &mut KernelBuilder, context: &Context<'_>, sums: &Fragments) {
        let class = context.class;
        let pitch_ds = pitch(class.element, class.tile.rows);
        let pitch = pitch(class.element, class.head_dim);
        let zero = k.mov_f32(0.0);
        for step in 0..class.tile.keys / 16 {
            let a: Vec<[B32; 4]> = (0..self.fragments as u32)
                .map(|f| k.ldmatrix_trans((self.ds, step * 16 * pitch_ds + 32 * f)))
                .collect();
            for pair in 0..self.columns.fragments() / 2 {
                let place = (self.keys, step * 16 * pitch + 32 * pair as u32);
                let [b0, b1, b2, b3] = k.ldmatrix_trans(place);
                for (sums, a) in sums.iter().zip(&a) {
                    for (d, b) in [(sums[2 * pair], [b0, b1]), (sums[2 * pair + 1], [b2, b3])] {
                        let c = if step == 0 { [zero; 4] } else { d };
                        multiply(k, class.element, d, *a, b, c);
                    }
                }
            }
        }
    }
}

/// The same by fused multiply-adds; a thread takes blocks of 4 queries and 4 columns.
fn add_f32(k: &mut KernelBuilder, context: &Context<'_>, head: B32, first: B32) {
    let class = context.class;
    let tile = class.tile;
    let across = padded(Element::F32, class.head_dim) / 4;
    let blocks = tile.rows / 4 * across;
    k.for_range(context.thread.index, blocks, tile.threads(), |k, block| {
        let (query, column) = (k.div_u32(block, across), k.rem_u32(block, across));
        let (query, column) = (k.shl_b32(query, 2), k.shl_b32(column, 2));
        let ds = k.mad_lo_u32(query, 4, context.tiles.ds);
        let keys = k.mad_lo_u32(column, 4, context.tiles.keys);
        let sums: Vec<[F32; 4]> = (0..4).map(|_| std::array::from_fn(|_| k.mov_f32(0.0))).collect();
        let each = |k: &mut KernelBuilder, add: &dyn Fn(&mut KernelBuilder, F32, F32, F32)| {
            k.for_range(0, tile.keys, 1, |k, key| {
                let ds = k.mad_lo_u32(key, pitch(Element::F32, tile.rows), ds);
                let keys = k.mad_lo_u32(key, pitch(Element::F32, class.head_dim), keys);
                let (ds, keys): ([F32; 4], [F32; 4]) = (k.ld_vector(ds), k.ld_vector(keys));
                for (sums, ds) in sums.iter().zip(ds) {
                    for (&sum, key) in sums.iter().zip(keys) {
                        add(k, sum, ds, key);
                    }
                }
            });
        };
        each(k, &|k, sum, ds, key| k.fma_f32_to(sum, ds, key, sum));
        let broken = is_broken(k, &sums.concat());
        k.if_(broken, |k| {
            for &sum in sums.iter().flatten() {
                k.mov_f32_to(sum, 0.0);
            }
            // Without the keys that a row does not see: 0 · ∞ is NaN.
            each(k, &|k, sum, ds, key| {
                let more = k.fma_f32(ds, key, sum);
                let seen = k.setp_f32(Neu, ds, 0.0);
                k.selp_f32_to(sum, more, sum, seen);
            });
        });
        let query = k.add_u32(query, first);
        for (r, sums) in (0..).zip(&sums) {
            let row = Row { i: k.add_u32(query, r), head };
            let used = k.setp_u32(Lt, row.i, context.sequence.used_q);
            let place = place(k, context, &row, column);
            add_to(k, used, place, 0, sums);
        }
    });
}

/// Whether one of these is not finite.
fn is_broken(k: &mut KernelBuilder, values: &[F32]) -> Pred {
    let probe = k.mov_f32(0.0);
    for &value in values {
        k.fma_f32_to(probe, value, 0.0, probe);
    }
    k.setp_f32(Neu, probe, probe)
}

/// Where a column of a row of the workspace is.
fn place(k: &mut KernelBuilder, context: &Context<'_>, row: &Row, column: B32) -> B64 {
    let place = context.row_address(k, Tensor::DqSum, context.sequence.start_q, row);
    k.mad_wide_u32(column, 4, place)
}

fn add_to(k: &mut KernelBuilder, condition: Pred, place: B64, offset: u32, values: &[F32]) {
    k.when(condition, |k| {
        for (n, value) in (0..).zip(values) {
            let place = (place, offset + 4 * n);
            k.red_add_f32(place, *value, AtomicOrder::Relaxed, Scope::Gpu);
        }
    });
}
