//! Where each sequence lies in its tensors, and how much of it is used.

use std::ops::Range;

use crate::attention::Attention;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{Device, TensorView};

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
    /// The same with lengths in a device's memory, which only kernels read. The longest ones, as far
    /// as they are known.
    OnDevice { batch: usize, longest: (usize, usize) },
}

impl Sequences {
    pub(super) fn len(&self) -> usize {
        match self {
            Sequences::Uniform { batch, .. } | Sequences::OnDevice { batch, .. } => *batch,
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
            Sequences::OnDevice { .. } => panic!("the host does not know lengths on a device"),
        }
    }

    /// Whether only kernels can read the lengths.
    pub(super) fn are_on_device(&self) -> bool {
        matches!(self, Sequences::OnDevice { .. })
    }

    /// The most rows of q and of k that a sequence has; on a device, what the caller said.
    pub(super) fn longest(&self) -> (usize, usize) {
        match self {
            &Sequences::Uniform { seqlen_q, seqlen_k, .. } => (seqlen_q, seqlen_k),
            Sequences::Listed(sequences) => {
                let longest = |rows: fn(&Sequence) -> usize| sequences.iter().map(rows).max();
                (longest(|s| s.rows_q.len()).unwrap_or(0), longest(|s| s.rows_k.len()).unwrap_or(0))
            }
            Sequences::OnDevice { longest, .. } => *longest,
        }
    }

    /// The sequences with rows of their own, where rows can be unused.
    pub(super) fn listed(&self) -> Option<&[Sequence]> {
        match self {
            Sequences::Uniform { .. } | Sequences::OnDevice { .. } => None,
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
    if is_on_device(attention) {
        check_used_shapes(attention, batch)?;
        return Ok(Sequences::OnDevice { batch, longest: (seqlen_q, seqlen_k) });
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
    if is_on_device(attention) {
        for (argument, view) in [("cu_seqlens_q", cu_q), ("cu_seqlens_k", cu_k)] {
            check_cu_seqlens_shape(argument, view)?;
        }
        if cu_q.shape() != cu_k.shape() {
            return Err(other_batch(cu_q.shape()[0], cu_k));
        }
        let batch = cu_q.shape()[0] - 1;
        check_used_shapes(attention, batch)?;
        let longest = attention.max_seqlens.unwrap_or((total_q, total_k));
        return Ok(Sequences::OnDevice { batch, longest });
    }
    let starts_q = read_cu_seqlens("cu_seqlens_q", cu_q, total_q)?;
    let starts_k = read_cu_seqlens("cu_seqlens_k", cu_k, total_k)?;
    if starts_q.len() != starts_k.len() {
        return Err(other_batch(starts_q.len(), cu_k));
    }
    let mut sequences = list_for(starts_q.len() - 1)?;
    sequences.extend(starts_q.windows(2).zip(starts_k.windows(2)).map(|(q, k)| {
        let (q, k) = (q[0] as usize..q[1] as usize, k[0] as usize..k[1] as usize);
        let (used_q, used_k) = (q.len(), k.len());
        Sequence { storage: 0, rows_q: q, rows_k: k, used_q, used_k }
    }));
    with_used_lengths(attention, sequences)
}

fn other_batch(entries: usize, cu_k: &TensorView<'_>) -> Error {
    Error::shape("cu_seqlens_k", format!("[{entries}], as cu_seqlens_q"), cu_k.shape())
}

/// Whether the lengths that are given are in a device's memory.
fn is_on_device(attention: &Attention<'_>) -> bool {
    let lists = [
        &attention.cu_seqlens_q,
        &attention.cu_seqlens_k,
        &attention.seqused_q,
        &attention.seqused_k,
    ];
    lists.into_iter().flatten().any(|view| view.device() != Device::Cpu)
}

fn check_used_shapes(attention: &Attention<'_>, batch: usize) -> Result<()> {
    for (argument, lengths) in
        [("seqused_q", &attention.seqused_q), ("seqused_k", &attention.seqused_k)]
    {
        if let Some(lengths) = lengths {
            check_integers(argument, lengths)?;
            check_seqused_shape(argument, lengths, batch)?;
        }
    }
    Ok(())
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
    check_cu_seqlens_shape(argument, view)?;
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

fn check_cu_seqlens_shape(argument: &'static str, view: &TensorView<'_>) -> Result<()> {
    if view.shape().len() != 1 || view.shape()[0] == 0 {
        return Err(Error::shape(argument, "[B + 1]", view.shape()));
    }
    check_integers(argument, view)
}

fn check_seqused_shape(argument: &'static str, view: &TensorView<'_>, batch: usize) -> Result<()> {
    if view.shape() == [batch] {
        return Ok(());
    }
    Err(Error::shape(argument, format!("[{batch}]"), view.shape()))
}

fn read_seqused(
    argument: &'static str,
    view: &TensorView<'_>,
    lengths: impl ExactSizeIterator<Item = usize>,
) -> Result<Vec<i64>> {
    check_seqused_shape(argument, view, lengths.len())?;
    let values = read_integers(argument, view)?;
    for (&used, length) in values.iter().zip(lengths) {
        if !usize::try_from(used).is_ok_and(|used| used <= length) {
            return Err(Error::value(argument, format!("from 0 to {length}, the sequence"), used));
        }
    }
    Ok(values)
}

fn check_integers(argument: &'static str, view: &TensorView<'_>) -> Result<()> {
    if matches!(view.dtype(), DType::I32 | DType::I64) {
        return Ok(());
    }
    Err(Error::DType { argument, expected: "i32 or i64".into(), got: view.dtype() })
}

fn read_integers(argument: &'static str, view: &TensorView<'_>) -> Result<Vec<i64>> {
    check_integers(argument, view)?;
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
