//! Dropout's mask as a tensor, for tests and comparisons.

use jhalak_problem::{DType, Problem, Result, Tensor};

/// Bool [B, Hq, max Sq, max Sk]: what is kept; false outside a sequence.
pub(crate) fn mask(problem: &Problem<'_>) -> Result<Tensor> {
    let (batch, heads) = (problem.batch(), problem.heads_q());
    let (max_q, max_k) = problem.max_seqlens();
    let mut mask = Tensor::zeros(DType::Bool, &[batch, heads, max_q, max_k])?;
    let kept = mask.as_mut_slice::<bool>().expect("made as bool");
    for b in 0..batch {
        let sequence = problem.sequence(b);
        for h in 0..heads {
            for i in 0..sequence.seqlen_q() {
                let start = ((b * heads + h) * max_q + i) * max_k;
                let row = &mut kept[start..start + sequence.seqlen_k()];
                let Some(dropout) = problem.dropout() else {
                    row.fill(true);
                    continue;
                };
                // The generator's counter has 32 bits for the sequence and head, and wraps.
                let sequence_head = (b * heads + h) as u32;
                let (query, key) = (problem.query_position(b, i), problem.key_position(0));
                dropout.fill_kept(sequence_head, query, key, row);
            }
        }
    }
    Ok(mask)
}
