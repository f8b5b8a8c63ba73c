//! [`Merge`]: partial results over different keys, and where the whole goes, checked.

use super::checks::{check_dtype, device_error};
use super::rows::{rows_of, rows_of_mut};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::matrix::{Matrix, MatrixMut};
use crate::overlap::{overlaps_itself, views_overlap};
use crate::tensor::{Device, TensorView, TensorViewMut};

/// A checked merge of partial results: out and lse over several disjoint sets of keys become those
/// over all of them.
#[derive(Debug)]
pub struct Merge<'a> {
    parts: Vec<(TensorView<'a>, TensorView<'a>)>,
    out: TensorViewMut<'a>,
    lse: TensorViewMut<'a>,
}

impl<'a> Merge<'a> {
    /// Each part is (out, lse): [B, Sq, Hq, Dv] with [B, Hq, Sq], or packed [total_q, Hq, Dv] with
    /// [Hq, total_q]. The outs have any floating-point dtype; every lse is f32, or f64 where all
    /// are. −∞ (or +∞) in a part's lse says that the row saw no key there.
    ///
    /// # Errors
    /// No part; shapes that differ; a wrong dtype or device; an output that overlaps itself or
    /// another tensor.
    pub fn new(
        parts: &[(TensorView<'a>, TensorView<'a>)],
        out: TensorViewMut<'a>,
        lse: TensorViewMut<'a>,
    ) -> Result<Self> {
        let rank = out.shape().len();
        if rank != 3 && rank != 4 {
            return Err(Error::shape("out", "[B, Sq, Hq, Dv] or [total_q, Hq, Dv]", out.shape()));
        }
        let lse_shape = lse_shape(out.shape());
        if lse.shape() != lse_shape {
            return Err(Error::shape("lse", format!("{lse_shape:?}"), lse.shape()));
        }
        let lse_dtype = if lse.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
        check_dtype("lse", &lse.as_view(), lse_dtype)?;
        check_float("out", &out.as_view())?;
        if parts.is_empty() {
            return Err(Error::value("parts", "at least one (out, lse)", 0));
        }
        for (part_out, part_lse) in parts {
            if part_out.shape() != out.shape() {
                let expected = format!("{:?}, as the merged out", out.shape());
                return Err(Error::shape("a part's out", expected, part_out.shape()));
            }
            if part_lse.shape() != lse.shape() {
                return Err(Error::shape(
                    "a part's lse",
                    format!("{lse_shape:?}"),
                    part_lse.shape(),
                ));
            }
            check_float("a part's out", part_out)?;
            check_dtype("a part's lse", part_lse, lse_dtype)?;
        }
        let merge = Merge { parts: parts.to_vec(), out, lse };
        merge.check_memory()?;
        Ok(merge)
    }

    fn check_memory(&self) -> Result<()> {
        let device = self.device();
        let outputs = [("out", self.out.as_view()), ("lse", self.lse.as_view())];
        for (argument, output) in &outputs {
            if output.device() != device {
                return Err(device_error(argument, device, output.device()));
            }
            if overlaps_itself(output.layout()) {
                return Err(Error::Overlap { argument, other: "itself" });
            }
            for (part_out, part_lse) in &self.parts {
                for (other, view) in [("a part's out", part_out), ("a part's lse", part_lse)] {
                    if view.device() != device {
                        return Err(device_error(other, device, view.device()));
                    }
                    if views_overlap(output, view) {
                        return Err(Error::Overlap { argument, other });
                    }
                }
            }
        }
        if views_overlap(&outputs[0].1, &outputs[1].1) {
            return Err(Error::Overlap { argument: "out", other: "lse" });
        }
        Ok(())
    }

    /// Where every tensor of the call is.
    pub fn device(&self) -> Device {
        self.out.device()
    }

    /// The parts, each (out, lse), as they were given.
    pub fn part_views(&self) -> &[(TensorView<'a>, TensorView<'a>)] {
        &self.parts
    }

    /// The whole of the merged out.
    pub fn out_view(&self) -> TensorView<'_> {
        self.out.as_view()
    }

    /// The whole of the merged lse.
    pub fn lse_view(&self) -> TensorView<'_> {
        self.lse.as_view()
    }

    /// The number of parts.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The dtype of every lse.
    pub fn lse_dtype(&self) -> DType {
        self.lse.dtype()
    }

    /// Pairs of (batch, head), each with [`rows`](Self::rows) rows.
    pub fn heads(&self) -> usize {
        let shape = self.out.shape();
        if self.packed() { shape[1] } else { shape[0] * shape[2] }
    }

    /// Rows per head.
    pub fn rows(&self) -> usize {
        self.out.shape()[usize::from(!self.packed())]
    }

    /// Rows [rows, Dv] of a part's out.
    pub fn part_out(&self, part: usize, head: usize) -> Matrix<'a> {
        let (storage, h) = self.storage_and_head(head);
        rows_of(&self.parts[part].0, self.packed(), storage, 0, self.rows(), h)
    }

    /// [rows, 1] of a part's lse.
    pub fn part_lse(&self, part: usize, head: usize) -> Matrix<'a> {
        let view = &self.parts[part].1;
        let stride = view.strides()[view.strides().len() - 1];
        let ptr = if self.rows() == 0 {
            view.as_ptr().cast()
        } else {
            view.element_ptr(&self.lse_index(head)[usize::from(self.packed())..])
        };
        Matrix::new(ptr, view.dtype(), view.device(), (self.rows(), 1), (stride, 0))
    }

    /// Rows [rows, Dv] of the merged out.
    pub fn out(&self, head: usize) -> MatrixMut<'_> {
        let (storage, h) = self.storage_and_head(head);
        rows_of_mut(&self.out, self.packed(), storage, 0, self.rows(), h)
    }

    /// [rows, 1] of the merged lse.
    pub fn lse(&self, head: usize) -> MatrixMut<'_> {
        let stride = self.lse.strides()[self.lse.strides().len() - 1];
        let ptr = if self.rows() == 0 {
            std::ptr::null_mut()
        } else {
            self.lse.element_ptr(&self.lse_index(head)[usize::from(self.packed())..])
        };
        MatrixMut::new(ptr, self.lse.dtype(), (self.rows(), 1), (stride, 0))
    }

    fn packed(&self) -> bool {
        self.out.shape().len() == 3
    }

    fn storage_and_head(&self, head: usize) -> (usize, usize) {
        let heads = self.out.shape()[self.out.shape().len() - 2];
        (head / heads, head % heads)
    }

    fn lse_index(&self, head: usize) -> [usize; 3] {
        let (storage, h) = self.storage_and_head(head);
        [storage, h, 0]
    }
}

fn lse_shape(out: &[usize]) -> Vec<usize> {
    match *out {
        [b, s, h, _] => vec![b, h, s],
        [t, h, _] => vec![h, t],
        _ => unreachable!("out has 3 or 4 dimensions"),
    }
}

fn check_float(argument: &'static str, view: &TensorView<'_>) -> Result<()> {
    if view.dtype().is_float() {
        return Ok(());
    }
    Err(Error::DType { argument, expected: "f32, f16, bf16 or f64".into(), got: view.dtype() })
}
