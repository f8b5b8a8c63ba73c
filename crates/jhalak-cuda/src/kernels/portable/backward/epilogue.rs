//! Writing dk and dv of a tile of keys.

use jhalak_ptx::Comparison::{Ge, Lt, Ne, Neu};
use jhalak_ptx::{B32, B64, Connective, F32, KernelBuilder, Pred};

use super::super::super::backward_class::{BackwardClass, Store};
use super::super::super::element::Element;
use super::super::super::parameters::{Parameter, Tensor};
use super::super::super::row::Row;
use super::super::super::softmax::{Fragments, over_quad, row_of};
use super::columns::Columns;
use super::{Context, KeyGradients, repair};

/// Writes the sums of the keys from `first` on.
pub(super) fn write(k: &mut KernelBuilder, context: &Context<'_>, first: B32, sums: &KeyGradients) {
    let class = context.class;
    let (broken, bits) = broken_keys(k, context, first, sums);
    let dk = GradientTensor::dk(class).zip(sums.dk.as_ref());
    let dv = GradientTensor::dv(class).zip(sums.dv.as_ref());
    for (tensor, (columns, sums)) in dk.into_iter().chain(dv) {
        tensor.write(k, context, first, columns, sums, &broken);
    }
    let any = k.setp_u32(Ne, bits, 0);
    k.if_(any, |k| repair::keys(k, context, first, sums, bits));
}

/// Which of the thread's used keys have sums that are not finite; and those of all lanes as bits:
/// bit 4·g + r stands for the `r`th key of the lanes whose first one is key g.
fn broken_keys(
    k: &mut KernelBuilder,
    context: &Context<'_>,
    first: B32,
    sums: &KeyGradients,
) -> (Vec<Pred>, B32) {
    let key = context.thread_key(k, first);
    let key = context.unshifted(k, key);
    let bits = k.mov_b32(0);
    let broken = (0..2 * context.class.key_fragments()).map(|r| {
        let probe = k.mov_f32(0.0);
        for (_, sums) in sums.dk.iter().chain(&sums.dv) {
            for value in row_of(sums, r) {
                k.fma_f32_to(probe, value, 0.0, probe);
            }
        }
        let probe = over_quad(k, probe, |k, a, b| k.add_f32(a, b));
        let j = k.add_u32(key, 8 * r as u32);
        let used = k.setp_u32(Lt, j, context.sequence.used_k);
        let broken = k.setp_f32_with(Neu, probe, probe, Connective::And, used);
        let lanes = k.vote_ballot(broken);
        let lanes = k.and_b32(lanes, 0x1111_1111);
        let lanes = k.shl_b32(lanes, r as u32);
        k.or_b32_to(bits, bits, lanes);
        broken
    });
    (broken.collect(), bits)
}

/// The gradient of k or of v in memory.
pub(super) struct GradientTensor {
    tensor: Tensor,
    store: Store,
    head_dim: u32,
    /// What sums are multiplied by.
    factor: Option<Parameter>,
}

impl GradientTensor {
    pub(super) fn dk(class: &BackwardClass) -> Option<Self> {
        let (tensor, head_dim) = (Tensor::Dk, class.head_dim);
        let factor = Some(Parameter::Scale);
        class.dk.map(|store| GradientTensor { tensor, store, head_dim, factor })
    }

    pub(super) fn dv(class: &BackwardClass) -> Option<Self> {
        let (tensor, head_dim) = (Tensor::Dv, class.head_dim_v);
        let factor = class.dropout.then_some(Parameter::Keep);
        class.dv.map(|store| GradientTensor { tensor, store, head_dim, factor })
    }

    /// Writes the used keys' sums but for broken ones, and zeros in rows that are not used; or adds
    /// to the used ones alone.
    fn write(
        &self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        first: B32,
        columns: &Columns,
        sums: &Fragments,
        broken: &[Pred],
    ) {
        let sequence = &context.sequence;
        let factor = self.factor.map(|factor| context.inputs.f32(k, factor));
        let key = context.thread_key(k, first);
        let key = context.unshifted(k, key);
        let column = k.add_u32(columns.first, context.thread.column);
        for (r, &broken) in broken.iter().enumerate() {
            let row = Row { i: k.add_u32(key, 8 * r as u32), head: context.block.head_k };
            let used = k.setp_u32(Lt, row.i, sequence.used_k);
            let stored = match self.store {
                Store::Write(_) => k.setp_u32(Lt, row.i, sequence.rows_k),
                Store::Add => used,
            };
            let whole = k.not_pred(broken);
            let stored = k.and_pred(stored, whole);
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
        let bytes = self.store.element().bytes();
        let Some(stride) = context.column(k, self.tensor) else {
            let inside = k.setp_u32_with(Lt, column, self.head_dim, Connective::And, own);
            let place = k.mad_wide_u32(column, bytes, row);
            k.if_(inside, |k| self.store_vector(k, place, values));
            return;
        };
        for (odd, value) in (0..).zip(values) {
            let column = k.add_u32(column, odd);
            let inside = k.setp_u32_with(Lt, column, self.head_dim, Connective::And, own);
            let column = k.cvt_u64_u32(column);
            let place = k.mad_lo_u64(column, stride, row);
            k.if_(inside, |k| self.store_one(k, place, value));
        }
    }

    /// Stores a column of a key whose sums come from elsewhere, if it is before `end`.
    pub(super) fn store_column(
        &self,
        k: &mut KernelBuilder,
        context: &Context<'_>,
        row: &Row,
        (column, end): (B32, B32),
        sum: F32,
    ) {
        let factor = self.factor.map(|factor| context.inputs.f32(k, factor));
        let value = factor.map_or(sum, |factor| k.mul_f32(sum, factor));
        let place = context.row_address(k, self.tensor, context.sequence.start_k, row);
        let bytes = self.store.element().bytes();
        let place = context.column_address(k, self.tensor, bytes, place, column);
        let inside = k.setp_u32(Lt, column, end);
        let inside = k.setp_u32_with(Lt, column, self.head_dim, Connective::And, inside);
        k.if_(inside, |k| self.store_one(k, place, value));
    }

    fn store_one(&self, k: &mut KernelBuilder, place: B64, value: F32) {
        let value = if self.store == Store::Add {
            let before: F32 = k.ld(place);
            k.add_f32(before, value)
        } else {
            value
        };
        self.store.element().store(k, place, value);
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
