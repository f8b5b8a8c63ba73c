//! From a row's sum of weights to the factor of its result and its lse.

use jhalak_ptx::Comparison::Eq;
use jhalak_ptx::{B32, F32, KernelBuilder};

use super::context::Context;
use super::parameters::{Axis, Parameter, Tensor};

const LN_2: f32 = std::f32::consts::LN_2;
const LOG2_E: f32 = std::f32::consts::LOG2_E;

/// What a row's weights are multiplied by, and its lse.
pub(crate) struct Normaliser {
    pub(crate) factor: F32,
    pub(crate) lse: F32,
}

impl Normaliser {
    /// For the highest score, −∞ where nothing was seen, and the sum of weights compared with it; the factor includes that of dropout.
    pub(crate) fn new(
        k: &mut KernelBuilder,
        context: &Context<'_>,
        head: B32,
        max: F32,
        sum: F32,
    ) -> Self {
        let (mut reference, mut factor, mut total) = (max, None, sum);
        if let Some(element) = context.class.sinks {
            let base = context.inputs.base(k, Tensor::Sinks);
            let place = context.inputs.advance(k, base, head, Tensor::Sinks, Axis::Head);
            let mut sink = element.load(k, place);
            if let Some([part, _]) = context.block.part {
                // It counts once.
                let first = k.setp_u32(Eq, part, 0);
                sink = k.selp_f32(sink, f32::NEG_INFINITY, first);
            }
            reference = k.max_f32(max, sink);
            let zero = or_zero(k, reference);
            let [others, own] = [max, sink].map(|score| {
                let exponent = k.sub_f32(score, zero);
                let exponent = k.mul_f32(exponent, LOG2_E);
                k.ex2_f32(exponent)
            });
            total = k.fma_f32(sum, others, own);
            factor = Some(others);
        }
        let inverse = k.rcp_f32(total);
        let empty = k.setp_f32(Eq, total, 0.0);
        let mut inverse = k.selp_f32(0.0, inverse, empty);
        if let Some(factor) = factor {
            inverse = k.mul_f32(inverse, factor);
        }
        if context.dropout.is_some() {
            let keep = context.inputs.f32(k, Parameter::Keep);
            inverse = k.mul_f32(inverse, keep);
        }
        let reference = or_zero(k, reference);
        let log2 = k.lg2_f32(total);
        Normaliser { factor: inverse, lse: k.fma_f32(log2, LN_2, reference) }
    }
}

fn or_zero(k: &mut KernelBuilder, score: F32) -> F32 {
    let nothing = k.setp_f32(Eq, score, f32::NEG_INFINITY);
    k.selp_f32(0.0, score, nothing)
}
