//! The end of a row: its sum becomes the factor of its result, and its lse.

use jhalak_ptx::Comparison::Neu;
use jhalak_ptx::{B32, Connective, F32, KernelBuilder, Pred};

use super::context::Context;
use super::normaliser::Normaliser;
use super::row::Row;
use super::softmax::over_quad;

/// Scales a row's results, writes its lse, and tells which rows are to be repaired: in bit 4·g, the
/// row of the lanes whose first one is row g. `max` and `sum` are those of the row's scores;
/// `nothing` says that it has seen none.
pub(crate) fn finish_row(
    k: &mut KernelBuilder,
    context: &Context<'_>,
    row: &Row,
    [used, nothing]: [Pred; 2],
    [max, sum]: [F32; 2],
    results: &[F32],
) -> B32 {
    let normaliser = Normaliser::new(k, context, row.head, max, sum);
    let lse = k.selp_f32(normaliser.lse, f32::NEG_INFINITY, used);
    context.store_lse(k, row, lse);
    // 0 as long as everything is finite.
    let probe = k.mul_f32(normaliser.lse, 0.0);
    let probe = k.selp_f32(0.0, probe, nothing);
    for &result in results {
        let value = k.mul_f32(result, normaliser.factor);
        k.selp_f32_to(result, value, 0.0, used);
        k.fma_f32_to(probe, result, 0.0, probe);
    }
    let probe = over_quad(k, probe, |k, a, b| k.add_f32(a, b));
    let bad = k.setp_f32_with(Neu, probe, probe, Connective::And, used);
    let lanes = k.vote_ballot(bad);
    k.and_b32(lanes, 0x1111_1111)
}
