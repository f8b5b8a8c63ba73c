//! [`Problem`]: options and tensors, checked. The only place where anything is validated.

mod backward;
mod checks;
mod forward;
mod merge;
mod rows;
mod sequences;
mod tensors;

pub use backward::{Backward, BackwardInputs, Gradient, GradientTargets, OutOrDelta};
pub use forward::Forward;
pub use merge::Merge;
pub use sequences::{Sequence, UnusedRows};
pub use tensors::{LengthViews, ProblemTensors};

use checks::{
    check_devices, check_dtype, check_dtypes, check_shapes, checked_dropout, checked_scale,
    checked_softcap, checked_starts, device_error, f32_or, window_bounds,
};
use rows::{rows_of, scores_of};

use crate::attention::Attention;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::matrix::Matrix;
use crate::overlap::{overlaps_itself, views_overlap};
use crate::philox::Dropout;
use crate::tensor::{Device, TensorView};
use crate::visibility::Visibility;

/// A checked call: every size agrees, every option is in range, every address is inside its
/// tensor. Engines rely on it and check nothing again.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    q: TensorView<'a>,
    k: TensorView<'a>,
    v: TensorView<'a>,
    packed: bool,
    lengths: LengthViews<'a>,
    sequences: sequences::Sequences,
    heads_q: usize,
    heads_k: usize,
    scale: f64,
    softcap: Option<f64>,
    left: i64,
    right: i64,
    starts: Option<(i64, i64)>,
    bias: Option<TensorView<'a>>,
    mask: Option<TensorView<'a>>,
    alibi_slopes: Option<TensorView<'a>>,
    sinks: Option<TensorView<'a>>,
    dropout: Option<Dropout>,
    out_dtype: DType,
    deterministic: bool,
}

impl<'a> Problem<'a> {
    /// Checks a call's options and inputs.
    ///
    /// q is [B, Sq, Hq, D], k [B, Sk, Hk, D], v [B, Sk, Hk, Dv], of one floating-point dtype; with
    /// `cu_seqlens` they are [total_q, Hq, D], [total_k, Hk, D] and [total_k, Hk, Dv].
    ///
    /// # Errors
    /// An [`Error`] that names the argument, what it must be, and what it was.
    pub fn new(
        attention: &Attention<'a>,
        q: TensorView<'a>,
        k: TensorView<'a>,
        v: TensorView<'a>,
    ) -> Result<Self> {
        check_devices(attention, &q, &k, &v)?;
        check_dtypes(&q, &k, &v)?;
        let packed = attention.cu_seqlens_q.is_some() || attention.cu_seqlens_k.is_some();
        check_shapes(packed, &q, &k, &v)?;
        let (heads_q, heads_k) = (dim(&q, 2), dim(&k, 2));
        let heads_fit = if heads_k == 0 { heads_q == 0 } else { heads_q.is_multiple_of(heads_k) };
        if !heads_fit {
            return Err(Error::value(
                "the number of query heads",
                format!("a multiple of the {heads_k} key heads"),
                heads_q,
            ));
        }
        let sequences = match (&attention.cu_seqlens_q, &attention.cu_seqlens_k) {
            (Some(cu_q), Some(cu_k)) => {
                sequences::packed(attention, cu_q, cu_k, q.shape()[0], k.shape()[0])?
            }
            (None, None) => sequences::dense(attention, q.shape()[0], q.shape()[1], k.shape()[1])?,
            _ => {
                return Err(Error::Combination {
                    argument: "cu_seqlens",
                    rule: "must be given for q and for k",
                });
            }
        };
        let (left, right) = window_bounds(attention)?;
        let problem = Problem {
            q,
            k,
            v,
            packed,
            lengths: LengthViews::of(attention),
            sequences,
            heads_q,
            heads_k,
            scale: checked_scale(attention, dim(&q, 3))?,
            softcap: checked_softcap(attention)?,
            left,
            right,
            starts: checked_starts(attention)?,
            bias: attention.bias,
            mask: attention.mask,
            alibi_slopes: attention.alibi_slopes,
            sinks: attention.sinks,
            dropout: checked_dropout(attention)?,
            out_dtype: attention.out_dtype.unwrap_or(q.dtype()),
            deterministic: attention.deterministic,
        };
        problem.check_optional_tensors()?;
        if problem.out_dtype != q.dtype() && problem.out_dtype != DType::F32 {
            return Err(Error::DType {
                argument: "out_dtype",
                expected: f32_or(q.dtype()),
                got: problem.out_dtype,
            });
        }
        Ok(problem)
    }

    fn check_optional_tensors(&self) -> Result<()> {
        let (batch, heads) = (self.batch(), self.heads_q);
        let (max_q, max_k) = self.max_seqlens();
        for (argument, view) in [("bias", &self.bias), ("mask", &self.mask)] {
            let Some(view) = view else { continue };
            let wanted = [batch, heads, max_q, max_k];
            let fits = view.shape().len() == 4
                && view.shape().iter().zip(wanted).enumerate().all(|(d, (&size, n))| {
                    // The longest sequence on a device is not known here; kernels look.
                    let fits_longest = size >= n || self.sequences.are_on_device();
                    size == n || size == 1 || (self.packed && d >= 2 && fits_longest)
                });
            if !fits {
                let expected = format!("{wanted:?}, or 1 in any of its places");
                return Err(Error::shape(argument, expected, view.shape()));
            }
        }
        if let Some(bias) = &self.bias {
            self.check_f32_or_input_dtype("bias", bias)?;
        }
        if let Some(mask) = &self.mask {
            check_dtype("mask", mask, DType::Bool)?;
        }
        if let Some(slopes) = &self.alibi_slopes {
            check_dtype("alibi_slopes", slopes, DType::F32)?;
            if slopes.shape() != [heads] && slopes.shape() != [batch, heads] {
                let expected = format!("[{heads}] or [{batch}, {heads}]");
                return Err(Error::shape("alibi_slopes", expected, slopes.shape()));
            }
        }
        if let Some(sinks) = &self.sinks {
            self.check_f32_or_input_dtype("sinks", sinks)?;
            if sinks.shape() != [heads] {
                return Err(Error::shape("sinks", format!("[{heads}]"), sinks.shape()));
            }
        }
        Ok(())
    }

    fn check_f32_or_input_dtype(
        &self,
        argument: &'static str,
        view: &TensorView<'_>,
    ) -> Result<()> {
        if view.dtype() == DType::F32 || view.dtype() == self.dtype() {
            return Ok(());
        }
        Err(Error::DType { argument, expected: f32_or(self.dtype()), got: view.dtype() })
    }

    /// Where every tensor of the call is.
    pub fn device(&self) -> Device {
        self.q.device()
    }

    /// The tensors of the call, for engines that reach them by address.
    pub fn tensors(&self) -> ProblemTensors<'a> {
        ProblemTensors {
            q: self.q,
            k: self.k,
            v: self.v,
            bias: self.bias,
            mask: self.mask,
            alibi_slopes: self.alibi_slopes,
            sinks: self.sinks,
            lengths: self.lengths,
        }
    }

    /// How far queries see to the left and to the right of their own position, both at least 0;
    /// [`i64::MAX`] is unbounded.
    pub fn window(&self) -> (i64, i64) {
        (self.left, self.right)
    }

    /// The positions of query 0 and of key 0, where they are given; otherwise the last query sits
    /// on the last key.
    pub fn starts(&self) -> Option<(i64, i64)> {
        self.starts
    }

    /// The dtype of q, k and v.
    pub fn dtype(&self) -> DType {
        self.q.dtype()
    }

    /// The dtype of out.
    pub fn out_dtype(&self) -> DType {
        self.out_dtype
    }

    /// The dtype of lse: f32, or f64 for f64 inputs.
    pub fn lse_dtype(&self) -> DType {
        if self.dtype() == DType::F64 { DType::F64 } else { DType::F32 }
    }

    /// Whether the tensors hold packed sequences, [total, H, D].
    pub fn is_packed(&self) -> bool {
        self.packed
    }

    /// The number of sequences, B.
    pub fn batch(&self) -> usize {
        self.sequences.len()
    }

    /// The number of query heads, Hq.
    pub fn heads_q(&self) -> usize {
        self.heads_q
    }

    /// The number of key heads, Hk.
    pub fn heads_k(&self) -> usize {
        self.heads_k
    }

    /// Query heads that share a key head: Hq / Hk; query head h reads key head h / group.
    pub fn group(&self) -> usize {
        self.heads_q.checked_div(self.heads_k).unwrap_or(0)
    }

    /// The head dimension of q and k, D.
    pub fn head_dim(&self) -> usize {
        dim(&self.q, 3)
    }

    /// The head dimension of v and out, Dv.
    pub fn head_dim_v(&self) -> usize {
        dim(&self.v, 3)
    }

    /// Sequence `b` of the batch.
    pub fn sequence(&self, b: usize) -> Sequence {
        self.sequences.get(b)
    }

    /// The longest sequence's rows in q and in k, used or not; of packed sequences whose lengths
    /// are on a device, what [`max_seqlens`](Attention::max_seqlens) says, or all rows.
    pub fn max_seqlens(&self) -> (usize, usize) {
        if !self.packed {
            return (self.q.shape()[1], self.k.shape()[1]);
        }
        self.sequences.longest()
    }

    /// The shape of out: [B, Sq, Hq, Dv] or [total_q, Hq, Dv].
    pub fn out_shape(&self) -> Vec<usize> {
        let mut shape = self.q.shape().to_vec();
        *shape.last_mut().expect("q has 3 or 4 dimensions") = self.head_dim_v();
        shape
    }

    /// The shape of lse: [B, Hq, Sq] or [Hq, total_q].
    pub fn lse_shape(&self) -> Vec<usize> {
        if self.packed {
            vec![self.heads_q, self.q.shape()[0]]
        } else {
            vec![self.batch(), self.heads_q, self.q.shape()[1]]
        }
    }

    /// What q·k is multiplied by.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The bound c of c·tanh(s/c), above 0, where scores are capped.
    pub fn softcap(&self) -> Option<f64> {
        self.softcap
    }

    /// Dropout, where it drops anything.
    pub fn dropout(&self) -> Option<Dropout> {
        self.dropout
    }

    /// Which keys the queries of sequence `b` see by position.
    pub fn visibility(&self, b: usize) -> Visibility {
        let s = self.sequences.get(b);
        let shift = self.query_position(b, 0) - self.key_position(0);
        Visibility::new(s.used_q, s.used_k, shift, self.left, self.right)
    }

    /// The position of query `i` of sequence `b`.
    pub fn query_position(&self, b: usize, i: usize) -> i64 {
        let s = self.sequences.get(b);
        let start = match self.starts {
            Some((q_start, _)) => q_start,
            None => s.used_k as i64 - s.used_q as i64,
        };
        start + i as i64
    }

    /// The position of key `j` of any sequence.
    pub fn key_position(&self, j: usize) -> i64 {
        self.starts.map_or(0, |(_, k_start)| k_start) + j as i64
    }

    /// The row of query `i` of sequence `b` among all rows of q, batch by batch.
    pub(crate) fn query_row(&self, b: usize, i: usize) -> usize {
        let s = self.sequences.get(b);
        s.storage * self.storage_shape(&self.q).1 + s.rows_q.start + i
    }

    /// The row of key `j` of sequence `b` among all rows of k, batch by batch.
    pub(crate) fn key_row(&self, b: usize, j: usize) -> usize {
        let s = self.sequences.get(b);
        s.storage * self.storage_shape(&self.k).1 + s.rows_k.start + j
    }

    /// All rows of q, and of k, used or not.
    pub(crate) fn total_rows(&self) -> (usize, usize) {
        let total = |view| {
            let (storages, rows) = self.storage_shape(view);
            storages * rows
        };
        (total(&self.q), total(&self.k))
    }

    /// Query rows [used Sq, D] of sequence `b`, query head `h`.
    pub fn q(&self, b: usize, h: usize) -> Matrix<'a> {
        let s = self.sequences.get(b);
        rows_of(&self.q, self.packed, s.storage, s.rows_q.start, s.used_q, h)
    }

    /// Key rows [used Sk, D] of sequence `b`, key head `h`.
    pub fn k(&self, b: usize, h: usize) -> Matrix<'a> {
        let s = self.sequences.get(b);
        rows_of(&self.k, self.packed, s.storage, s.rows_k.start, s.used_k, h)
    }

    /// Value rows [used Sk, Dv] of sequence `b`, key head `h`.
    pub fn v(&self, b: usize, h: usize) -> Matrix<'a> {
        let s = self.sequences.get(b);
        rows_of(&self.v, self.packed, s.storage, s.rows_k.start, s.used_k, h)
    }

    /// Bias [used Sq, used Sk] of sequence `b`, query head `h`.
    pub fn bias(&self, b: usize, h: usize) -> Option<Matrix<'a>> {
        self.bias.as_ref().map(|view| self.score_matrix(view, b, h))
    }

    /// The bias tensor's own shape, with 1 where it is broadcast.
    pub fn bias_shape(&self) -> Option<[usize; 4]> {
        self.bias.as_ref().map(|view| std::array::from_fn(|d| view.shape()[d]))
    }

    /// Whether gradients' bits must be the same every time.
    pub fn is_deterministic(&self) -> bool {
        self.deterministic
    }

    /// Whether a boolean mask is given.
    pub fn has_mask(&self) -> bool {
        self.mask.is_some()
    }

    /// Whether ALiBi slopes are given.
    pub fn has_alibi(&self) -> bool {
        self.alibi_slopes.is_some()
    }

    /// Boolean mask [used Sq, used Sk] of sequence `b`, query head `h`.
    pub fn mask(&self, b: usize, h: usize) -> Option<Matrix<'a>> {
        self.mask.as_ref().map(|view| self.score_matrix(view, b, h))
    }

    /// ALiBi slope of sequence `b`, query head `h`.
    pub fn alibi_slope(&self, b: usize, h: usize) -> Option<f64> {
        self.alibi_slopes.as_ref().map(|slopes| match slopes.shape().len() {
            1 => slopes.get_f64(&[h]),
            _ => slopes.get_f64(&[b, h]),
        })
    }

    /// Sink logit of query head `h`.
    pub fn sink(&self, h: usize) -> Option<f64> {
        self.sinks.as_ref().map(|sinks| sinks.get_f64(&[h]))
    }

    /// How many sinks there are, where there are any.
    pub(crate) fn sink_count(&self) -> Option<usize> {
        self.sinks.as_ref().map(|sinks| sinks.shape()[0])
    }

    /// Rows of q, and so of out, lse and dq, that no sequence uses.
    pub fn unused_queries(&self) -> Vec<UnusedRows> {
        let Some(sequences) = self.sequences.listed() else { return Vec::new() };
        let used = sequences.iter().map(|s| {
            let start = s.rows_q.start;
            (s.storage, start..start + s.used_q)
        });
        let (storages, rows) = self.storage_shape(&self.q);
        sequences::unused_rows(used, storages, rows)
    }

    /// Rows of k and v, and so of dk and dv, that no sequence uses.
    pub fn unused_keys(&self) -> Vec<UnusedRows> {
        let Some(sequences) = self.sequences.listed() else { return Vec::new() };
        let used = sequences.iter().map(|s| {
            let start = s.rows_k.start;
            (s.storage, start..start + s.used_k)
        });
        let (storages, rows) = self.storage_shape(&self.k);
        sequences::unused_rows(used, storages, rows)
    }

    fn storage_shape(&self, view: &TensorView<'_>) -> (usize, usize) {
        if self.packed { (1, view.shape()[0]) } else { (view.shape()[0], view.shape()[1]) }
    }

    fn score_matrix(&self, view: &TensorView<'a>, b: usize, h: usize) -> Matrix<'a> {
        let s = self.sequences.get(b);
        scores_of(view, b, h, (s.used_q, s.used_k))
    }

    fn inputs(&self) -> [(&'static str, Option<&TensorView<'a>>); 7] {
        [
            ("q", Some(&self.q)),
            ("k", Some(&self.k)),
            ("v", Some(&self.v)),
            ("bias", self.bias.as_ref()),
            ("mask", self.mask.as_ref()),
            ("alibi_slopes", self.alibi_slopes.as_ref()),
            ("sinks", self.sinks.as_ref()),
        ]
    }

    /// Refuses an output that overlaps itself, an input, or one of `others`.
    fn check_output(
        &self,
        argument: &'static str,
        output: &TensorView<'_>,
        others: &[(&'static str, Option<TensorView<'_>>)],
    ) -> Result<()> {
        if output.device() != self.q.device() {
            return Err(device_error(argument, self.q.device(), output.device()));
        }
        if overlaps_itself(output.layout()) {
            return Err(Error::Overlap { argument, other: "itself" });
        }
        let inputs = self.inputs().map(|(name, view)| (name, view.copied()));
        for (other, view) in inputs.iter().chain(others) {
            if view.as_ref().is_some_and(|view| views_overlap(output, view)) {
                return Err(Error::Overlap { argument, other });
            }
        }
        Ok(())
    }
}

/// Size of dimension `d` of the dense layout [B, S, H, D]; packed tensors lack the first.
fn dim(view: &TensorView<'_>, d: usize) -> usize {
    view.shape()[view.shape().len() + d - 4]
}
