//! Writing dk and dv of a tile of keys.

use jhalak_ptx::Comparison::{Ge, Lt};
use jhalak_ptx::{B32, B64, Connective, F32, KernelBuilder, Pred};

use super::super::super::backward_class::Store;
use super::super::super::element::Element;
use super::super::super::parameters::{Parameter, Tensor};
use super::super::super::row::Row;
use super::super::super::softmax::{Fragments, row_of};
use super::columns::Columns;
use super::{Context, KeyGradients};

/// Writes the sums of the keys from `first` on.
pub(super) fn write(k: &mut KernelBuilder, context: &Context<'_>, first: B32, sums: &KeyGradients) {
    let class = context.class;
    if let (Some(store), Some((columns, sums))) = (class.dk, &sums.dk) {
        let scale = context.inputs.f32(k, Parameter::Scale);
        let tensor = GradientTensor { tensor: Tensor::Dk, store, head_dim: class.head_dim };
        tensor.write(k, context, first, columns, sums, Some(scale));
    }
    if let (Some(store), Some((columns, sums))) = (class.dv, &sums.dv) {
        let keep = class.dropout.then(|| context.inputs.f32(k, Parameter::Keep));
        let tensor = GradientTensor { tensor: Tensor::Dv, store, head_dim: class.head_dim_v };
        tensor.write(k, context, first, columns, sums, keep);
    }
}

struct GradientTensor {
    tensor: Tensor,
    store: Store,
    head_dim: u32,
}

impl GradientTensor {
    /// Writes the used keys' sums, times a factor, and zeros in rows that are not used; or adds to
    /// the used ones alone.
    fn write(
        &self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        first: B32,
        columns: &Columns,
        sums: &Fragments,
        factor: Option<F32>,
    ) {
        let sequence = &context.sequence;
        let key = k.add_u32(first, context.warp_key);
        let key = k.add_u32(key, context.thread.row);
        let key = context.unshifted(k, key);
        let column = k.add_u32(columns.first, context.thread.column);
        for r in 0..2 * sums.len() {
            let row = Row { i: k.add_u32(key, 8 * r as u32), head: context.block.head_k };
            let used = k.setp_u32(Lt, row.i, sequence.used_k);
            let stored = match self.store {
                Store::Write(_) => k.setp_u32(Lt, row.i, sequence.rows_k),
                Store::Add => used,
            };
            let place = context.row_address(k, self.tensor, sequence.start_k, &row);
            for (n, pair) in row_of(sums, r).chunks(2).enumerate() {
                let column = k.add_u32(column, 8 * n as u32);
                let own = k.setp_u32_with(Ge, column, columns.own, Connective::And, stored);
                let values = [pair[0], pair[1]].map(|value| {
                    let value = factor.map_or(value, |factor| k.mul_f32(value, factor));
                    k.selp_f32(value, 0.0, used)
                });
                self.store_pair(k, context, place, column, own, values);
            }
        }
    }

    /// Stores two neighbouring columns of a row.
    fn store_pair(
        &self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        row: B64,
        column: B32,
        own: Pred,
        values: [F32; 2],
    ) {
        let element = self.store.element();
        let Some(stride) = context.column(k, self.tensor) else {
            let inside = k.setp_u32_with(Lt, column, self.head_dim, Connective::And, own);
            let place = k.mad_wide_u32(column, element.bytes(), row);
            k.if_(inside, |k| self.store_vector(k, place, values));
            return;
        };
        for (odd, value) in (0..).zip(values) {
            let column = k.add_u32(column, odd);
            let inside = k.setp_u32_with(Lt, column, self.head_dim, Connective::And, own);
            let column = k.cvt_u64_u32(column);
            let place = k.mad_lo_u64(column, stride, row);
            k.if_(inside, |k| {
                let value = if self.store == Store::Add {
                    let before: F32 = k.ld(place);
                    k.add_f32(before, value)
                } else {
                    value
                };
                element.store(k, place, value);
            });
        }
    }

    fn store_vector(&self, k: &mut KernelBuilder, place: B64, values: [F32; 2]) {
        match self.store {
            Store::Write(Element::F32) => k.st_vector(place, values),
            Store::Write(element) => {
                let pair = element.pack(k, values[0], values[1]);
                k.st(place, pair);
            }
            Store::Add => {
                let before: [F32; 2] = k.ld_vector(place);
                let sums = [0, 1].map(|n| k.add_f32(before[n], values[n]));
                k.st_vector(place, sums);
            }
        }
    }
}
