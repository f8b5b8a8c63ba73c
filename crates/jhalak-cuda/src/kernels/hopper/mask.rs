//! Hiding keys by position.

use jhalak_ptx::Comparison::{Gt, Le};
use jhalak_ptx::{B32, Connective, F32, KernelBuilder};

use super::super::context::Context;
use super::softmax::row_of;

/// Gives the scores of keys that rows do not see −∞. `key` is the first key that the thread holds,
/// `rows` are its queries.
pub(super) fn hide(
    k: &mut KernelBuilder,
    context: &Context<'_>,
    rows: [B32; 2],
    key: B32,
    scores: &[F32],
) {
    let limits = rows.map(|i| {
        let end = context.visible.end(k, i);
        let end = k.sub_u32(end, key);
        let first = context.class.bounds.lower.then(|| {
            let first = context.visible.first(k, i);
            k.sub_u32(first, key)
        });
        (end, first)
    });
    for (n, &score) in scores.iter().enumerate() {
        let (end, first) = limits[row_of(n)];
        let mut seen = k.setp_s32(Gt, end, key_of(n));
        if let Some(first) = first {
            seen = k.setp_s32_with(Le, first, key_of(n), Connective::And, seen);
        }
        k.selp_f32_to(score, score, f32::NEG_INFINITY, seen);
    }
}

/// From a thread's first key to that of a register.
pub(super) fn key_of(n: usize) -> u32 {
    (n / 4 * 8 + n % 2) as u32
}
