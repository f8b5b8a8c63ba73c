//! Where each sequence lies in its tensors, and how much of it is used.

use std::ops::Range;

use crate::attention::Attention;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::TensorView;

/// One sequence of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The first index of q, k, v and out where they are dense; 0 where they are packed.
    pub(crate) storage: usize,
    /// The rows of q that belong to the sequence.
    pub(crate) rows_q: Range<usize>,
    /// The rows of k and v that belong to the sequence.
    pub(crate) rows_k: Range<usize>,
    pub(crate) used_q: usize,
    pub(crate) used_k: usize,
}

impl Sequence {
    /// Queries in use: Sq.
    pub fn seqlen_q(&self) -> usize {
        self.used_q
    }

    /// Keys in use: Sk.
    pub fn seqlen_k(&self) -> usize {
        self.used_k
    }
}

/// Rows of a tensor that no sequence uses: their results are 0, −∞ for lse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedRows {
    pub(crate) storage: usize,
    pub(crate) rows: Range<usize>,
}

/// All sequences of a call.
#[derive(Clone, Debug)]
pub(super) enum Sequences {
    /// Dense tensors used whole: nothing is stored per sequence.
    Uniform { batch: usize, seqlen_q: usize, seqlen_k: usize },
    /// Packed tensors, or sequences used in part.
    Listed(Vec<Sequence>),
}

impl Sequences {
    pub(super) fn len(&self) -> usize {
        match self {
            Sequences::Uniform { batch, .. } => *batch,
            Sequences::Listed(sequences) => sequences.len(),
        }
    }

    pub(super) fn get(&self, b: usize) -> Sequence {
        match self {
            &Sequences::Uniform { batch, seqlen_q, seqlen_k } => {
                assert!(b < batch, "sequence {b} of {batch}");
                Sequence {
                    storage: b,
                    rows_q: 0..seqlen_q,
                    rows_k: 0..seqlen_k,
                    used_q: seqlen_q,
                    used_k: seqlen_k,
                }
            }
            Sequences::Listed(sequences) => sequences[b].clone(),
        }
    }

    /// The sequences with rows of their own, where rows can be unused.
    pub(super) fn listed(&self) -> Option<&[Sequence]> {
        match self {
            Sequences::Uniform { .. } => None,
            Sequences::Listed(sequences) => Some(sequences),
        }
    }
}

/// The sequences of a call on dense tensors [B, S, …].
pub(super) fn dense(
    attention: &Attention<'_>,
    batch: usize,
    seqlen_q: usize,
    seqlen_k: usize,
) -> Result<Sequences> {
    let uniform = Sequences::Uniform { batch, seqlen_q, seqlen_k };
    if attention.seqused_q.is_none() && attention.seqused_k.is_none() {
        return Ok(uniform);
    }
    let mut sequences = list_for(batch)?;
    sequences.extend((0..batch).map(|b| uniform.get(b)));
    with_used_lengths(attention, sequences)
}

/// The sequences of a call on packed tensors [total, …].
pub(super) fn packed(
    attention: &Attention<'_>,
    cu_q: &TensorView<'_>,
    cu_k: &TensorView<'_>,
    total_q: usize,
    total_k: usize,
) -> Result<Sequences> {
    let starts_q = read_cu_seqlens("cu_seqlens_q", cu_q, total_q)?;
    let starts_k = read_cu_seqlens("cu_seqlens_k", cu_k, total_k)?;
    if starts_q.len() != starts_k.len() {
        return Err(Error::shape(
            "cu_seqlens_k",
            format!("[{}], as cu_seqlens_q", starts_q.len()),
            cu_k.shape(),
        ));
    }
    let mut sequences = list_for(starts_q.len() - 1)?;
    sequences.extend(starts_q.windows(2).zip(starts_k.windows(2)).map(|(q, k)| {
        let (q, k) = (q[0] as usize..q[1] as usize, k[0] as usize..k[1] as usize);
        let (used_q, used_k) = (q.len(), k.len());
        Sequence { storage: 0, rows_q: q, rows_k: k, used_q, used_k }
    }));
    with_used_lengths(attention, sequences)
}

/// An empty list with room for so many.
fn list_for<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    list.try_reserve_exact(count)
        .map_err(|_| Error::OutOfMemory { what: "the list of sequences", bytes })?;
    Ok(list)
}

fn with_used_lengths(attention: &Attention<'_>, mut sequences: Vec<Sequence>) -> Result<Sequences> {
    if let Some(lengths) = &attention.seqused_q {
        let used = read_seqused("seqused_q", lengths, sequences.iter().map(|s| s.rows_q.len()))?;
        sequences.iter_mut().zip(used).for_each(|(s, n)| s.used_q = n as usize);
    }
    if let Some(lengths) = &attention.seqused_k {
        let used = read_seqused("seqused_k", lengths, sequences.iter().map(|s| s.rows_k.len()))?;
        sequences.iter_mut().zip(used).for_each(|(s, n)| s.used_k = n as usize);
    }
    Ok(Sequences::Listed(sequences))
}

fn read_cu_seqlens(
    argument: &'static str,
    view: &TensorView<'_>,
    total: usize,
) -> Result<Vec<i64>> {
    if view.shape().len() != 1 || view.shape()[0] == 0 {
        return Err(Error::shape(argument, "[B + 1]", view.shape()));
    }
    let values = read_integers(argument, view)?;
    if values[0] != 0 {
        return Err(Error::value(argument, "0 in its first place", values[0]));
    }
    if let Some(pair) = values.windows(2).find(|pair| pair[1] < pair[0]) {
        return Err(Error::value(
            argument,
            "a list that never decreases",
            format!("{} after {}", pair[1], pair[0]),
        ));
    }
    let last = values[values.len() - 1];
    if last as u64 > total as u64 {
        return Err(Error::value(argument, format!("at most {total}, the packed rows"), last));
    }
    Ok(values)
}

fn read_seqused(
    argument: &'static str,
    view: &TensorView<'_>,
    lengths: impl ExactSizeIterator<Item = usize>,
) -> Result<Vec<i64>> {
    if view.shape() != [lengths.len()] {
        return Err(Error::shape(argument, format!("[{}]", lengths.len()), view.shape()));
    }
    let values = read_integers(argument, view)?;
    for (&used, length) in values.iter().zip(lengths) {
        if !usize::try_from(used).is_ok_and(|used| used <= length) {
            return Err(Error::value(argument, format!("from 0 to {length}, the sequence"), used));
        }
    }
    Ok(values)
}

fn read_integers(argument: &'static str, view: &TensorView<'_>) -> Result<Vec<i64>> {
    if !matches!(view.dtype(), DType::I32 | DType::I64) {
        return Err(Error::DType { argument, expected: "i32 or i64".into(), got: view.dtype() });
    }
    // i64 beyond 2^53 rounds here, but any such number is out of every range and stays so.
    let mut values = list_for(view.numel())?;
    values.extend((0..view.numel()).map(|n| view.get_f64(&[n]) as i64));
    Ok(values)
}

/// The rows of `[storages, rows]` that lie outside every sequence's used part.
pub(super) fn unused_rows(
    used: impl Iterator<Item = (usize, Range<usize>)>,
    storages: usize,
    rows: usize,
) -> Vec<UnusedRows> {
    let mut next = vec![0usize; storages];
    let mut unused = Vec::new();
    let mut push = |storage: usize, rows: Range<usize>| {
        if !rows.is_empty() {
            unused.push(UnusedRows { storage, rows });
        }
    };
    for (storage, range) in used {
        push(storage, next[storage]..range.start);
        next[storage] = range.end;
    }
    for (storage, start) in next.into_iter().enumerate() {
        push(storage, start..rows);
    }
    unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_rows_are_the_gaps_and_the_end() {
        let used = [(0, 0..3), (0, 5..5), (0, 7..9)];
        let gaps = unused_rows(used.into_iter(), 1, 12);
        let ranges: Vec<_> = gaps.into_iter().map(|g| g.rows).collect();
        assert_eq!(ranges, [3..5, 5..7, 9..12]);
        assert_eq!(unused_rows(std::iter::empty(), 2, 4).len(), 2);
    }
}
