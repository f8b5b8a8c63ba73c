//! Which keys a query sees by position: the device's side of [`jhalak_problem::Visibility`].
//!
//! Keys are counted from the begin of the first tile, which is `shift` before key 0: dropout draws
//! for 32 neighbouring positions at once, and tiles begin where such a block does.

use jhalak_ptx::Comparison::Lt;
use jhalak_ptx::{B32, KernelBuilder};

use super::class::Bounds;
use super::parameters::{Inputs, Parameter};
use super::sequence::Sequence;

/// The visible keys of each query of a sequence.
#[derive(Clone, Copy)]
pub(crate) struct Visible {
    low: Option<B32>,
    high: Option<B32>,
    used_k: B32,
    shift: Option<B32>,
}

impl Visible {
    pub(crate) fn new(
        k: &mut KernelBuilder,
        bounds: Bounds,
        inputs: &Inputs,
        sequence: &Sequence,
        shift: Option<B32>,
    ) -> Self {
        let alignment = alignment(k, inputs, sequence);
        let mut bound = |given: bool, parameter, more: u32| {
            given.then(|| {
                let bound = inputs.u32(k, parameter);
                let bound = k.add_u32(bound, alignment);
                k.add_u32(bound, more)
            })
        };
        let low = bound(bounds.lower, Parameter::Low, 0);
        let high = bound(bounds.upper, Parameter::High, 1);
        Visible { low, high, used_k: sequence.used_k, shift }
    }

    /// The first key that query `i` sees; no other one sees earlier keys than those before it do.
    pub(crate) fn first(&self, k: &mut KernelBuilder, i: B32) -> B32 {
        match self.low {
            Some(low) => self.key(k, i, low),
            None => self.shift.unwrap_or_else(|| k.mov_b32(0)),
        }
    }

    /// The end of the keys that query `i` sees.
    pub(crate) fn end(&self, k: &mut KernelBuilder, i: B32) -> B32 {
        match self.high {
            Some(high) => self.key(k, i, high),
            None => self.shifted(k, self.used_k),
        }
    }

    /// The queries that see any of these keys, from the first to the end; none if the end is not
    /// after the first. Signed.
    pub(crate) fn queries(
        &self,
        k: &mut KernelBuilder,
        [first, end]: [B32; 2],
        used_q: B32,
    ) -> [B32; 2] {
        let [first, end] = [first, end].map(|key| match self.shift {
            Some(shift) => k.sub_u32(key, shift),
            None => key,
        });
        let (first, end) = (k.max_s32(first, 0), k.min_s32(end, self.used_k));
        let begin = match self.high {
            Some(high) => {
                let begin = k.sub_u32(first, high);
                let begin = k.add_u32(begin, 1);
                k.max_s32(begin, 0)
            }
            None => k.mov_b32(0),
        };
        let last = match self.low {
            Some(low) => {
                let last = k.sub_u32(end, low);
                k.min_s32(last, used_q)
            }
            None => used_q,
        };
        let any = k.setp_s32(Lt, first, end);
        [begin, k.selp_b32(last, 0, any)]
    }

    fn key(&self, k: &mut KernelBuilder, i: B32, bound: B32) -> B32 {
        let key = k.add_u32(i, bound);
        let key = k.max_s32(key, 0);
        let key = k.min_s32(key, self.used_k);
        self.shifted(k, key)
    }

    fn shifted(&self, k: &mut KernelBuilder, key: B32) -> B32 {
        match self.shift {
            Some(shift) => k.add_u32(key, shift),
            None => key,
        }
    }
}

/// How far query 0 moves so that the last query sits on the last key; 0 where positions are given.
pub(crate) fn alignment(k: &mut KernelBuilder, inputs: &Inputs, sequence: &Sequence) -> B32 {
    let aligned = inputs.u32(k, Parameter::Aligned);
    let difference = k.sub_u32(sequence.used_k, sequence.used_q);
    k.mul_lo_u32(difference, aligned)
}
